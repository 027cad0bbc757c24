"""Backward: accumulation, graphs used twice, leaves and inner nodes, higher orders; cases A01, A02, A04."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits

import gradino as gd
from gradino import nn
from gradino.autograd import grad


def leaf(values: Any, dtype: Any = gd.float64) -> gd.Tensor:
    return gd.tensor(values, dtype=dtype, requires_grad=True)


# ---- Case A01: values used more than once -------------------------------------------------------------------


@pytest.mark.parametrize(
    "function, want",
    [
        (lambda x: x + x, 2),
        (lambda x: x - x, 0),
        (lambda x: x * x * x, 27),
        (lambda x: ((4 * x + 3) + 1) + ((4 * x + 3) * 5), 24),
    ],
)
def test_a01_scalar_used_twice(function: Any, want: float) -> None:
    x = leaf(3.0)
    function(x).backward()
    assert x.grad.item() == want


def test_a01_shared_inner_node() -> None:
    x, a = leaf(1.0), leaf(1.0)
    xa = x * a
    (x * xa + x * xa + (x * x) * a).backward()
    assert x.grad.item() == 6 and a.grad.item() == 3


def test_a01_matrix_with_itself_and_slices() -> None:
    x = gd.ones(2, 3, requires_grad=True)
    (x @ x.T).sum().backward()
    assert x.grad.eq(4).all()
    x = leaf(np.arange(4.0))
    (x[:3] * x[1:]).sum().backward()
    assert x.grad.tolist() == [1, 2, 4, 2]


def test_a01_parameter_of_two_layers() -> None:
    first, second = nn.Linear(3, 3, dtype=gd.float64), nn.Linear(3, 3, dtype=gd.float64)
    second.weight = first.weight
    x = gd.tensor(np.arange(6.0).reshape(2, 3))
    second(first(x)).sum().backward()
    w = first.weight.detach()._array()
    b, c = first.bias.detach()._array(), np.ones((2, 3))
    hidden = x._array() @ w.T + b
    assert_close(first.weight.grad, c.T @ hidden + (c @ w).T @ x._array(), rtol=1e-13, what="sum of both uses")


def test_a01_doubling_twenty_times() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(20):
        y = y + y
    y.backward()
    assert x.grad.item() == 2**20


# ---- Case A02: depth ----------------------------------------------------------------------------------------


def chain(depth: int) -> None:
    """`depth` additions and as many products, backward, release."""
    with gd.step_arena():
        x = gd.ones((), requires_grad=True)
        y = x
        for _ in range(depth):
            y = y + 0
        y.backward()
        assert x.grad.item() == 1
        z = p = leaf(1.0)
        for _ in range(depth):
            p = p * 1.00001
        p.backward()
        want = 1.00001**depth
        assert abs(p.item() - want) < 1e-9 * want and abs(z.grad.item() - want) < 1e-9 * want
        assert "tensor(" in repr(p)
        with pytest.raises(gd.GradinoError, match="leaves"):
            copy.deepcopy(p)
        if depth == 100_000:
            assert p.item() == pytest.approx(2.7182682372, rel=1e-9)


@pytest.mark.own_arenas
def test_a02_100_000_nodes() -> None:
    """Case A02: no recursion in backward, in release, or in repr."""
    chain(100_000)


@pytest.mark.own_arenas
def test_a02_in_a_thread_with_a_small_stack() -> None:
    """Case A02: the same with 256 KiB of stack."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            chain(100_000)
        except BaseException as error:
            failures.append(error)

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert not failures, failures


@pytest.mark.own_arenas
def test_a02_deep_graph_with_create_graph() -> None:
    with gd.step_arena():
        x = y = leaf(1.0)
        for _ in range(3000):
            y = y * 1.0001
        (g,) = grad(y, x, create_graph=True)
        assert g is not None and g.item() == pytest.approx(1.0001**3000)


# ---- Case A04: graphs used twice, values overwritten --------------------------------------------------------


def test_a04_overwritten_result_is_an_error() -> None:
    """Case A04 a: never a silent wrong number."""
    x = leaf([1.0, 2.0, 3.0])
    b = x.sigmoid()
    b[1] = 2.0
    with pytest.raises(gd.GradinoError, match=r"`sigmoid`, of shape \(3,\), was changed in place"):
        b.sum().backward()
    assert x.grad is None


def test_a04_overwritten_input_is_an_error() -> None:
    x, w = leaf([1.0, 2.0]), gd.tensor([3.0, 4.0], dtype=gd.float64)
    y = (x * w).sum()
    w[0] = 5.0
    with pytest.raises(gd.GradinoError, match=r"input 1 of `mul`.*changed in place"):
        y.backward()
    z = (x + w).sum()
    w[0] = 6.0  # add does not need it
    z.backward()
    assert x.grad.tolist() == [1, 1]


def test_a04_backward_again() -> None:
    """Case A04 b: kept graphs accumulate; a freed one says so and changes nothing."""
    x = leaf(3.0)
    y = x * x
    z = y * y
    z.backward(retain_graph=True)
    assert x.grad.item() == 108
    z.backward()
    assert x.grad.item() == 216
    with pytest.raises(gd.GradinoError, match="retain_graph=True"):
        z.backward()
    assert x.grad.item() == 216


def test_a04_step_between_forward_and_backward() -> None:
    """Case A04 c: the optimizer changed a saved value."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    opt = gd.optim.SGD(model.parameters(), lr=0.1)
    loss = model(gd.ones(1, 2)).sum()
    loss.backward(retain_graph=True)
    opt.step()
    with pytest.raises(gd.GradinoError, match=r"optimizer\.step"):
        loss.backward()


def test_two_losses_share_a_part_of_the_graph() -> None:
    """What saved nothing can be walked again, and what was not walked is not used up; as in PyTorch."""
    x, w = leaf([1.0, 2.0]), leaf(2.0)
    shared = x + 1
    (shared * 2).sum().backward()
    (shared * 3).sum().backward()
    assert x.grad.tolist() == [5, 5]
    side = w * w
    y = (x * x).sum() + side
    assert grad(y, x)[0].tolist() == [2, 4]
    side.backward()
    assert w.grad.item() == 4
    with pytest.raises(gd.GradinoError, match="retain_graph"):
        y.backward()


# ---- Accumulation, .grad ------------------------------------------------------------------------------------


def test_gradients_accumulate_until_cleared() -> None:
    for x in (leaf([1.0, 2.0]), nn.Parameter(gd.tensor([1.0, 2.0]))):
        assert x.grad is None
        for n in (1, 2, 3):
            (x * x).sum().backward()
            assert x.grad.tolist() == [2 * n, 4 * n]
        x.grad = None
        assert x.grad is None
        (x * 3).sum().backward()
        assert x.grad.tolist() == [3, 3]


def test_grad_can_be_assigned() -> None:
    for x in (leaf([1.0, 2.0]), nn.Parameter(gd.tensor([1.0, 2.0], dtype=gd.float64))):
        g = gd.tensor([5.0, 6.0], dtype=gd.float64)
        x.grad = g
        g.fill_(0.0)
        assert x.grad.tolist() == [5, 6]
        (x * 2).sum().backward()
        assert x.grad.tolist() == [7, 8] and g.tolist() == [0, 0]
        x.grad = x.grad * 0.5
        assert x.grad.tolist() == [3.5, 4]
        for wrong, error, text in (
            (gd.ones(3, dtype=gd.float64), gd.ShapeError, "(3,)"),
            (gd.ones(2), gd.ShapeError, "float32"),
            (3.0, TypeError, "float"),
        ):
            with pytest.raises(error) as caught:
                x.grad = wrong  # type: ignore[assignment]
            assert text in str(caught.value)


def test_no_two_tensors_share_a_gradient_buffer() -> None:
    """x + y hands the same gradient to both, and the caller's own gradient argument to the root."""
    x, y, p, q = leaf([1.0, 2.0]), leaf([3.0, 4.0]), *(nn.Parameter(gd.ones(2, dtype=gd.float64)) for _ in range(2))
    given = gd.tensor([1.0, 1.0], dtype=gd.float64)
    z = x + y + p + q
    z.retain_grad()
    z.backward(given)
    grads = [x.grad, y.grad, p.grad, q.grad, z.grad, given]
    assert len({t._info().data for t in grads}) == 6
    for k, t in enumerate(grads):
        t.fill_(k + 10.0)
    assert [t.tolist()[0] for t in grads] == [10, 11, 12, 13, 14, 15]


def test_the_gradient_argument_is_never_changed(rng: Any) -> None:
    """Also where accumulation in place would be possible."""
    for make in (lambda x: x, lambda x: x + x, lambda x: x.t() + x.t(), lambda x: x.reshape(4) + x.flatten(), lambda x: gd.cat([x, x])):
        for create_graph in (False, True):
            x = leaf(rng.standard_normal((2, 2)))
            y = make(x)
            given = gd.tensor(rng.standard_normal(y.shape))
            before = given.clone()
            if not y.is_leaf:
                y.retain_grad()
            y.backward(given, create_graph=create_graph)
            with gd.no_grad():
                y.grad.add_(1.0)
                x.grad.add_(1.0)
            assert_same_bits(given, before, what="the caller's gradient")


def test_a_root_that_is_a_leaf() -> None:
    x = leaf(2.0)
    x.backward()
    x.backward(gd.tensor(3.0, dtype=gd.float64))
    assert x.grad.item() == 4


def test_retain_grad() -> None:
    x = leaf(3.0)
    y = x * x
    z = y * y
    assert y.grad is None and not y.retains_grad
    y.retain_grad()
    x.retain_grad()
    assert y.retains_grad and not x.retains_grad
    z.backward(retain_graph=True)
    assert y.grad.item() == 18 and x.grad.item() == 108
    z.backward()
    assert y.grad.item() == 36 and x.grad.item() == 216
    with pytest.raises(gd.GradinoError, match="does not require grad"):
        gd.ones(2).retain_grad()


def test_what_cannot_run_backward_says_why() -> None:
    x = leaf([1.0, 2.0])
    for call, error, text in (
        (lambda: (x * 2).backward(), gd.ShapeError, "one element"),
        (lambda: gd.ones(()).backward(), gd.GradinoError, "does not require grad"),
        (lambda: (x * 2).backward(gd.ones(3, dtype=gd.float64)), gd.ShapeError, "(3,)"),
        (lambda: (x * 2).backward(gd.ones(2)), gd.ShapeError, "float32"),
        (lambda: x.detach().sum().backward(), gd.GradinoError, "no graph"),
    ):
        with pytest.raises(error) as caught:
            call()
        assert text in str(caught.value)
    assert x.grad is None


def test_only_floats_and_leaves_change_requires_grad() -> None:
    with pytest.raises(gd.DTypeError, match="int64"):
        gd.tensor([1], requires_grad=True)
    y = leaf([1.0]) * 2
    with pytest.raises(gd.GradinoError, match="detach"):
        y.requires_grad = False
    y.requires_grad = True
    x = gd.ones(2)
    assert x.requires_grad_().requires_grad and x.is_leaf and not x.requires_grad_(False).requires_grad


# ---- Higher orders ------------------------------------------------------------------------------------------


def test_derivatives_of_every_order() -> None:
    x = leaf(2.0)
    y = x**5
    wanted = [80, 160, 240, 240, 120]
    for want in wanted:
        (y,) = grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(want, rel=1e-14)
    (y,) = grad(y, x, allow_unused=True, create_graph=True)
    assert y is None or y.item() == 0


def test_backward_with_create_graph_adds_to_grad() -> None:
    """Also to a gradient that was there, for leaves and parameters."""
    for x in (leaf([1.0, 2.0]), nn.Parameter(gd.tensor([1.0, 2.0], dtype=gd.float64))):
        x.grad = gd.tensor([10.0, 10.0], dtype=gd.float64)
        (x * x * x).sum().backward(create_graph=True)
        assert x.grad.tolist() == [13, 22] and x.grad.requires_grad
        g = x.grad
        x.grad = None
        g.sum().backward()
        assert x.grad.tolist() == [6, 12]


def test_gradient_penalty(rng: Any) -> None:
    """The gradient of the norm of a gradient equals differences of that norm."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    x = leaf(rng.standard_normal((5, 3)))

    def penalty() -> gd.Tensor:
        (g,) = grad(model(x).sum(), x, create_graph=True)
        return ((g * g).sum(1).sqrt() - 1).square().mean()

    penalty().backward()
    weight, step = model[0].weight, 1e-6
    for i, j in ((0, 0), (3, 2), (1, 1)):
        sides = []
        for sign in (1, -1):
            with gd.no_grad():
                weight[i, j] = weight[i, j] + sign * step
            sides.append(penalty().item())
            with gd.no_grad():
                weight[i, j] = weight[i, j] - sign * step
        assert weight.grad[i, j].item() == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-6, abs=1e-9)


def test_hessian_vector_product(rng: Any) -> None:
    a = rng.standard_normal((4, 4))
    x, v = leaf(rng.standard_normal(4)), gd.tensor(rng.standard_normal(4))
    (g,) = grad(x @ gd.tensor(a) @ x, x, create_graph=True)
    (hv,) = grad(g, x, v)
    assert_close(hv, (a + a.T) @ v._array(), rtol=1e-13, atol=1e-13, what="Hessian vector product")


# ---- Threads ------------------------------------------------------------------------------------------------


@pytest.mark.own_arenas
def test_backward_through_shared_parameters_from_two_threads() -> None:
    """Every thread's gradient is in the sum exactly once: the terms are powers of two, so the sum is exact."""
    model = nn.Linear(16, 16)
    failures: list[BaseException] = []

    def work(factor: float) -> None:
        try:
            for _ in range(50):
                with gd.step_arena():
                    (model(gd.full((4, 16), factor))).sum().backward()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(2.0**-k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures
    assert model.weight.grad.eq(50 * 4 * (1 + 0.5 + 0.25 + 0.125)).all()
    assert model.bias.grad.eq(50 * 4 * 4).all()
