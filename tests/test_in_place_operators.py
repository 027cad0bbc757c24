"""`+=` and its kin: in place where no gradient is recorded, a new tensor where one is, refused on parameters."""

import numpy as np
import pytest

import gradino as gd
from gradino import nn


def test_manual_sgd_under_no_grad_changes_the_parameter() -> None:
    w = nn.Parameter(gd.ones(3))
    (w * gd.tensor([1.0, 2.0, 3.0])).sum().backward()
    same = w
    with gd.no_grad():
        w -= 0.5 * w.grad
    assert w is same and w.requires_grad
    assert w.tolist() == [0.5, 0.0, -0.5]


def test_every_operator_writes_where_its_views_see_it() -> None:
    t = gd.tensor([1.0, 2.0])
    view = t[:1]
    t += 1
    t *= 3
    t -= gd.tensor([1.0, 1.0])
    t /= 2
    assert t.tolist() == [2.5, 4.0] and view.tolist() == [2.5]


def test_a_recorded_tensor_gets_a_new_one_with_the_right_gradient() -> None:
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    t = x
    t += np.float32(2)
    t *= x
    assert t is not x and t.requires_grad
    t.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [4.0, 6.0]
    total = gd.tensor(0.0)
    for _ in range(2):
        total += (x * x).sum()
    assert total.requires_grad


def test_a_parameter_is_refused_while_recording() -> None:
    w = nn.Parameter(gd.ones(2))
    with pytest.raises(gd.GradinoError, match="no_grad"):
        w -= 1
    assert w.tolist() == [1.0, 1.0]


def test_overlap_and_expansion() -> None:
    m = gd.arange(9).reshape(3, 3)
    m += m.T
    assert m.tolist() == [[0, 4, 8], [4, 8, 12], [8, 12, 16]]
    wide = gd.zeros(1).expand(3)
    with pytest.raises(gd.GradinoError, match="expanded"):
        wide += 1
    with pytest.raises(gd.DTypeError, match="hold"):
        m += 0.5


@pytest.mark.parametrize("value", [2**40, 1e20, float("nan")])
def test_a_number_that_does_not_fit_is_refused(value: float) -> None:
    t = gd.zeros(2, dtype=gd.int32)
    for call in (lambda: t.fill_(value), lambda: t.masked_fill(t == 0, value), lambda: gd.full((2,), value, dtype=gd.int32)):
        with pytest.raises(gd.InvalidValueError, match="does not fit int32"):
            call()
    assert t.tolist() == [0, 0]
