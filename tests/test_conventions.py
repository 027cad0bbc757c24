"""Where libraries differ, gradino's answer; attention, top-k, clipping and ranks wait for their parts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits

import gradino as gd
from gradino import nn, optim
from gradino.nn import functional as F

NAN, INF = float("nan"), float("inf")


def leaf(values: object) -> gd.Tensor:
    return gd.tensor(values, dtype=gd.float64, requires_grad=True)


def test_softmax_of_a_row_of_minus_infinity_is_nan(isa: str) -> None:
    x = gd.tensor([[-INF, -INF, -INF], [0.0, -INF, 0.0]])
    assert x.softmax(1)[0].isnan().all() and x.log_softmax(1)[0].isnan().all(), isa
    assert x.softmax(1)[1].tolist() == [0.5, 0, 0.5], isa
    assert x.T.softmax(0)[:, 0].isnan().all(), isa


def test_mean_cross_entropy_without_a_target_is_nan_with_gradient_0(isa: str) -> None:
    x = leaf([[1, 2, 3], [4, 5, 6]])
    loss = F.cross_entropy(x, gd.tensor([-100, -100]))
    loss.backward()
    assert np.isnan(loss.item()), isa
    assert_same_bits(x.grad, np.zeros((2, 3)), what=isa)


def test_gradient_of_logsumexp_of_minus_infinity_is_0(isa: str) -> None:
    x = leaf([[-INF, -INF], [0, 0]])
    y = x.logsumexp(1)
    assert y[0].item() == -INF, isa
    y[1].backward(retain_graph=True)
    y.sum().backward()
    assert_close(x.grad, np.array([[0, 0], [1, 1]]), what=isa)


def test_slope_through_an_unselected_branch_is_0(isa: str) -> None:
    """Never NaN, however bad the branch not taken."""
    x = leaf([-1.0, 0.0, 4.0])
    gd.where(x > 0, x.sqrt(), 0.0).sum().backward()
    assert_close(x.grad, np.array([0, 0, 0.25]), what=f"sqrt, {isa}")
    x = leaf([0.0, 2.0])
    gd.where(x > 0, 1 / x, x).sum().backward()
    assert_close(x.grad, np.array([1, -0.25]), what=f"1/x, {isa}")
    x = leaf([-5.0, 0.0, np.e])
    gd.where(x > 0, x.log(), x * 0).sum().backward()
    assert_close(x.grad, np.array([0, 0, 1 / np.e]), rtol=1e-15, what=f"log, {isa}")


def test_tied_maxima(isa: str) -> None:
    """amax, max() and maximum split the gradient evenly; max(dim) gives it to the first index."""
    for reduce in (lambda t: t.amax(), lambda t: t.max(), lambda t: t.amax(0)):
        x = leaf([1, 3, 3, 0])
        reduce(x).backward()
        assert x.grad.tolist() == [0, 0.5, 0.5, 0], isa
    x = leaf([1, 3, 3, 0])
    x.max(0).values.backward()
    assert x.grad.tolist() == [0, 1, 0, 0], isa
    a, b = leaf([1, 2]), leaf([1, 0])
    a.maximum(b).sum().backward()
    assert a.grad.tolist() == [0.5, 1] and b.grad.tolist() == [0.5, 0], isa
    x = leaf([2, 0, 0])
    x.amin().backward()
    assert x.grad.tolist() == [0, 0.5, 0.5], isa


def test_unsafe_in_place_writes_raise() -> None:
    x = leaf([1.0, 2.0])
    for write in (lambda: x.add_(1), lambda: x.__setitem__(0, 1.0), lambda: gd.ones(1).expand(2).zero_()):
        with pytest.raises(gd.GradinoError):
            write()
    y = x * 2  # what nothing has read may be written to, and has the gradient of what was written
    y.mul_(3).sum().backward()
    assert x.grad.tolist() == [6, 6]


@pytest.mark.own_arenas
def test_a_tensor_after_its_reset_names_the_arena() -> None:
    arena = gd.Arena(name="evaluation")
    with arena:
        t = gd.ones(3)
        v = t.numpy()
    arena.reset()
    with pytest.raises(gd.StaleTensorError, match=r"'evaluation' was reset.*\.item\(\).*\.keep\(\)"):
        t.sum()
    assert v.tolist() == [1, 1, 1]
    arena.close()


def test_the_same_parameter_twice_in_one_group_is_a_value_error() -> None:
    p = nn.Parameter(gd.ones(1))
    with pytest.raises(ValueError, match="twice"):
        optim.SGD([p, p], lr=0.1)
