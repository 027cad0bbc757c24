"""Gradients on demand, recording switched off and on, detach, and gradcheck itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits

import gradino as gd
from gradino import nn
from gradino.autograd import GradcheckError, grad, gradcheck, gradgradcheck


def leaf(values: Any) -> gd.Tensor:
    return gd.tensor(values, dtype=gd.float64, requires_grad=True)


# ---- grad ---------------------------------------------------------------------------------------------------


def test_grad_touches_no_grad_attribute() -> None:
    x, w = leaf([1.0, 2.0]), nn.Parameter(gd.tensor([3.0, 4.0], dtype=gd.float64))
    y = x * w
    y.retain_grad()
    gx, gw, gy = grad((y * y).sum(), [x, w, y])
    assert gx.tolist() == [18, 64] and gw.tolist() == [6, 32] and gy.tolist() == [6, 16]
    assert x.grad is None and w.grad is None and y.grad is None and not gx.requires_grad


def test_grad_of_several_outputs() -> None:
    x = leaf([1.0, 2.0])
    a, b = x * x, x * 3
    (g,) = grad([a, b], x, [gd.ones(2, dtype=gd.float64), gd.tensor([1.0, 0.0], dtype=gd.float64)])
    assert g.tolist() == [5, 4]
    (g,) = grad((x.sum(), (x * x).sum()), (x,))
    assert g.tolist() == [3, 5]
    (g,) = grad([x.sum(), x * x], [x], [None, gd.ones(2, dtype=gd.float64)])
    assert g.tolist() == [3, 5]
    for seeds in ([gd.ones(2)], [gd.ones(2), gd.ones(2), gd.ones(2)]):
        with pytest.raises(gd.GradinoError, match="2 tensors"):
            grad([a, b], x, seeds)


def test_grad_of_the_same_input_twice_and_of_inner_nodes() -> None:
    x = leaf(3.0)
    y = x * x
    z = y * y + y
    first, second, inner = grad(z, [x, x, y])
    assert first.item() == second.item() == 114 and inner.item() == 19
    with gd.no_grad():
        first.fill_(0.0)
    assert second.item() == 114
    assert grad(y * 1.0, y)[0].item() == 1


def test_unused_inputs() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0])
    with pytest.raises(gd.GradinoError, match="do not depend on input 1"):
        grad((x * x).sum(), [x, w])
    gx, gw = grad((x * x).sum(), [x, w], allow_unused=True)
    assert gx.tolist() == [2, 4] and gw is None
    gx, gw = grad((x * x).sum(), [x, w], materialize_grads=True)
    assert gw.tolist() == [0]
    with pytest.raises(gd.GradinoError, match="materialize_grads"):
        grad(x.sum(), x, allow_unused=False, materialize_grads=True)
    with pytest.raises(gd.GradinoError, match="input 1 does not require grad"):
        grad(x.sum(), [x, gd.ones(2)])


def test_grad_uses_the_graph_up_unless_told() -> None:
    x = leaf(3.0)
    y = x * x
    for _ in range(3):
        assert grad(y, x, retain_graph=True)[0].item() == 6
    grad(y, x)
    with pytest.raises(gd.GradinoError, match="retain_graph=True"):
        grad(y, x)
    y = x * x
    grad(y, x, create_graph=True)
    assert grad(y, x)[0].item() == 6


def test_autograd_backward_of_several_tensors() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    gd.autograd.backward([y.sum(), y], [None, gd.ones(2, dtype=gd.float64)])
    assert x.grad.tolist() == [4, 8]
    with pytest.raises(gd.GradinoError, match="1 gradients for 2 tensors"):
        gd.autograd.backward([x.sum(), x.sum()], [None])


# ---- Modes --------------------------------------------------------------------------------------------------


def test_no_grad_and_enable_grad_nest() -> None:
    x = leaf(1.0)
    assert gd.is_grad_enabled()
    with gd.no_grad():
        assert not gd.is_grad_enabled() and not (x * 2).requires_grad
        with gd.enable_grad():
            assert (x * 2).requires_grad
        with gd.inference_mode(False):
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    with gd.inference_mode():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_modes_are_left_on_exceptions() -> None:
    with pytest.raises(ZeroDivisionError), gd.no_grad():
        raise ZeroDivisionError
    assert gd.is_grad_enabled()


def test_modes_decorate_functions() -> None:
    @gd.no_grad()
    def one() -> bool:
        """Says whether."""
        return gd.is_grad_enabled()

    @gd.no_grad
    def two() -> bool:
        return gd.is_grad_enabled()

    @gd.inference_mode
    def three() -> bool:
        return gd.is_grad_enabled()

    @gd.set_grad_enabled(False)
    def four() -> bool:
        return gd.is_grad_enabled()

    assert gd.is_grad_enabled() and not one() and not two() and not three() and not four()
    assert one.__name__ == "one" and one.__doc__ == "Says whether."
    with gd.no_grad():
        assert gd.enable_grad()(gd.is_grad_enabled)() and gd.enable_grad(gd.is_grad_enabled)()

    @gd.no_grad()
    def recursive(n: int) -> int:
        return n if gd.is_grad_enabled() or n == 0 else recursive(n - 1)

    assert recursive(100) == 0


def test_one_context_object_entered_twice() -> None:
    mode = gd.no_grad()
    with mode, mode:
        assert not gd.is_grad_enabled()
    assert gd.is_grad_enabled()


def test_set_grad_enabled_as_a_statement() -> None:
    """Holds from here on, but not beyond the block that set a mode."""
    try:
        gd.set_grad_enabled(False)
        assert not gd.is_grad_enabled()
        with gd.enable_grad():
            gd.set_grad_enabled(False)
            gd.set_grad_enabled(True)
            gd.set_grad_enabled(False)
            assert not gd.is_grad_enabled()
            with gd.set_grad_enabled(True):
                assert gd.is_grad_enabled()
            assert not gd.is_grad_enabled()
        assert not gd.is_grad_enabled()
    finally:
        gd.set_grad_enabled(True)
    with gd.no_grad():
        gd.set_grad_enabled(True)
        assert gd.is_grad_enabled()
    assert gd.is_grad_enabled()
    with gd.no_grad():
        with gd.set_grad_enabled(True):
            assert gd.is_grad_enabled()
        assert not gd.is_grad_enabled()


def test_modes_belong_to_threads() -> None:
    seen: list[bool] = []
    with gd.no_grad():
        thread = threading.Thread(target=lambda: seen.append(gd.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_decorated_generators() -> None:
    """The mode holds while the generator runs, never while it waits; send, throw and return pass through."""

    @gd.no_grad()
    def numbers() -> Any:
        states = []
        try:
            received = yield gd.is_grad_enabled()
            states.append((received, gd.is_grad_enabled()))
            yield "next"
        except KeyError as error:
            states.append((str(error), gd.is_grad_enabled()))
            yield "caught"
        return states

    running = numbers()
    assert next(running) is False and gd.is_grad_enabled()
    assert running.send(5) == "next" and gd.is_grad_enabled()
    assert running.throw(KeyError("key")) == "caught" and gd.is_grad_enabled()
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == [(5, False), ("'key'", False)]

    running = numbers()
    next(running)
    with pytest.raises(ValueError, match="mine"):
        running.throw(ValueError("mine"))
    assert gd.is_grad_enabled()


def test_decorated_generator_closes_inside_its_mode() -> None:
    closed: list[bool] = []

    @gd.no_grad()
    def numbers() -> Iterator[int]:
        try:
            yield 1
        finally:
            closed.append(gd.is_grad_enabled())

    for _ in numbers():
        break
    assert closed == [False] and gd.is_grad_enabled()


def test_abandoned_generators_leave_nothing_behind() -> None:
    """Modes held by generators that end late, in any order, never disturb newer ones."""

    def holding(mode: Any) -> Iterator[int]:
        with mode:
            yield 1

    first, second = holding(gd.no_grad()), holding(gd.enable_grad())
    next(first)
    assert not gd.is_grad_enabled()
    next(second)
    assert gd.is_grad_enabled()
    first.close()
    assert gd.is_grad_enabled()
    with gd.no_grad():
        second.close()
        assert not gd.is_grad_enabled()
    assert gd.is_grad_enabled()


def test_writing_under_no_grad() -> None:
    p = nn.Parameter(gd.ones(2))
    with gd.no_grad():
        p -= 0.5 * gd.ones(2)
        assert isinstance(p, gd.Tensor)
    q = nn.Parameter(gd.ones(2))
    with gd.no_grad():
        q.sub_(0.5)
        q[0] = 7.0
    assert q.tolist() == [7, 0.5] and q.requires_grad and q.is_leaf
    with pytest.raises(gd.GradinoError, match="no_grad"):
        q.sub_(0.5)


# ---- detach -------------------------------------------------------------------------------------------------


def test_detach_shares_memory_and_stops_gradients() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.is_leaf and d._info().data == y._info().data
    (x * d).sum().backward()
    assert x.grad.tolist() == [2, 4]
    assert_same_bits(d, y, what="same memory")


def test_gradients_stop_at_integers_and_comparisons() -> None:
    x = leaf([1.0, -2.0])
    assert not (x > 0).requires_grad and not x.long().requires_grad and not x.argmax().requires_grad
    (x * (x > 0)).sum().backward()
    assert x.grad.tolist() == [1, 0]


# ---- gradcheck ----------------------------------------------------------------------------------------------


def test_gradcheck_finds_planted_faults() -> None:
    """A gradient that is wrong in one element, missing, or wrong only in second order."""
    x = leaf([0.5, -1.5, 2.0])
    assert gradcheck(lambda t: t * t * t, x) and gradgradcheck(lambda t: t * t * t, x)

    def one_element(t: gd.Tensor) -> gd.Tensor:
        extra = gd.tensor([0.0, 0.0, 0.01], dtype=gd.float64)
        return t * t + (t.detach() - t) * extra

    with pytest.raises(GradcheckError, match=r"output\[0\]\[2\] / d input\[0\]\[2\] is 3.99"):
        gradcheck(one_element, x)
    assert gradcheck(one_element, x, raise_exception=False) is False
    with pytest.raises(GradcheckError, match="is 0, differences say"):
        gradcheck(lambda t: t.detach() * 3 + t * 0, x)

    def second_order(t: gd.Tensor) -> gd.Tensor:
        return t * t.detach() * 2 - (t * t).detach()

    assert gradcheck(second_order, x)
    with pytest.raises(GradcheckError):
        gradgradcheck(second_order, x)


def test_gradgradcheck_is_not_blind_to_sums_of_zero() -> None:
    """Rows of softmax sum to 1: with ones as incoming gradient its derivative would be 0 whatever it is."""
    x = leaf([0.5, -1.5, 2.0])
    assert gradgradcheck(lambda t: t.softmax(0), x)
    with pytest.raises(GradcheckError):
        gradgradcheck(lambda t: (t.exp() / t.exp().sum().detach()) + (t.softmax(0) - t.exp() / t.exp().sum().detach()).detach(), x)


def test_gradcheck_takes_several_inputs_and_outputs(rng: Any) -> None:
    a, b = leaf(rng.standard_normal((2, 3))), leaf(rng.standard_normal(3))
    assert gradcheck(lambda x, y, n: (x * y, (x @ y) ** n), (a, b, 2)) and gradgradcheck(lambda x, y, n: (x * y, (x @ y) ** n), (a, b, 2))
    assert gradcheck(lambda x, y: x * y, (a, gd.tensor([1.0, 2.0, 3.0], dtype=gd.float64)))
    assert gradcheck(lambda x: x.sum(), leaf(np.zeros((0, 3))))
    assert a.grad is None


def test_gradcheck_refuses_what_it_cannot_check() -> None:
    with pytest.raises(gd.GradinoError, match="requires grad"):
        gradcheck(lambda x: x, gd.ones(2, dtype=gd.float64))
    with pytest.raises(gd.DTypeError, match="float32"):
        gradcheck(lambda x: x * 2, gd.ones(2, requires_grad=True))
