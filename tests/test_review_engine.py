"""Gradients where memory is shared, frozen parameters are thawed, or something is written between forward and step.

Each case here was once a wrong number without an error."""

from __future__ import annotations

import numpy as np
import pytest

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim
from gradino._lib import ffi, lib, raise_error

pytestmark = pytest.mark.own_arenas

SIZE = 300  # large enough for a blocked matrix product


def array(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def parameter(value: np.ndarray, grad: np.ndarray | None = None) -> gd.Tensor:
    p = nn.Parameter(gd.tensor(value))
    if grad is not None:
        p.grad = gd.tensor(grad)
    return p


# ---- A gradient that is read while it is written ---------------------------------------------------------------------


def test_the_gradient_argument_may_be_the_parameters_own_gradient() -> None:
    x, g = array(1, SIZE, SIZE), array(2, SIZE, SIZE)
    w = parameter(array(0, SIZE, SIZE), g)
    (gd.tensor(x) @ w).backward(w.grad)
    np.testing.assert_allclose(w.grad.numpy(), g + x.T @ g, rtol=1e-4, atol=1e-3)


def test_an_operand_may_be_the_parameters_own_gradient() -> None:
    g, s = array(1, SIZE, SIZE), array(2, SIZE, SIZE)
    w = parameter(array(0, SIZE, SIZE), g)
    (w.grad @ w).backward(gd.tensor(s))
    np.testing.assert_allclose(w.grad.numpy(), g + g.T @ s, rtol=1e-4, atol=1e-3)


def test_a_bias_may_get_its_own_gradient() -> None:
    b = parameter(array(0, 4), array(1, 4))
    F.linear(gd.zeros(1, 3), gd.zeros(4, 3), b).backward(b.grad.reshape(1, 4))
    np.testing.assert_array_equal(b.grad.numpy(), 2 * array(1, 4))


@pytest.mark.parametrize("kind", ["parameter", "leaf"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_gradient_is_added_to_itself(kind: str, turned: bool) -> None:
    g = array(1, 33, 33)
    x = parameter(array(0, 33, 33)) if kind == "parameter" else gd.zeros(33, 33, requires_grad=True)
    x.grad = gd.tensor(g)
    (x.transpose(0, 1) if turned else x).backward(x.grad)
    np.testing.assert_array_equal(x.grad.numpy(), g + (g.T if turned else g))


def test_a_gradient_that_grows_before_it_is_read_is_an_error() -> None:
    v = gd.ones(4, requires_grad=True)
    results = []
    for first in (0, 1):
        w, v.grad = parameter(np.ones(4, np.float32), np.full(4, 2, np.float32)), None
        terms = [(v * w.grad).sum(), (w * 3).sum()]
        try:
            (terms[first] + terms[1 - first]).backward()
            results.append(v.grad.tolist())
        except gd.GradinoError as error:
            assert "changed in place" in str(error)
    assert all(r == [2, 2, 2, 2] for r in results)


def test_two_tensors_over_one_array_may_be_assigned() -> None:
    a = array(0, 5, 5)
    kept = a.copy()
    x, y = gd.from_numpy(a), gd.from_numpy(a)
    x[...] = y.transpose(0, 1)
    np.testing.assert_array_equal(a, kept.T)


# ---- Frozen when it was used -------------------------------------------------------------------------------------------


def test_what_was_frozen_in_forward_gets_no_gradient() -> None:
    w, x = parameter(np.ones(3, np.float32)), gd.ones(3, requires_grad=True)
    w.requires_grad_(False)
    loss = (w * x).sum()
    w.requires_grad_(True)
    loss.backward()
    assert w.grad is None
    assert x.grad.tolist() == [1, 1, 1]


def test_backward_with_an_optimizer_waits_for_what_was_frozen_in_forward() -> None:
    w, x = parameter(np.full(3, 2, np.float32)), gd.ones(3, requires_grad=True)
    opt = optim.SGD([w], lr=1.0)
    w.requires_grad_(False)
    frozen = (w * x).sum()
    w.requires_grad_(True)
    (frozen + (w * x).sum()).backward(optimizer=opt)
    assert x.grad.tolist() == [4, 4, 4]
    assert w.tolist() == [1, 1, 1]


# ---- Written between forward, backward and step --------------------------------------------------------------------------


def test_a_gradient_with_a_graph_may_be_scaled_before_the_step() -> None:
    w = parameter(np.ones(3, np.float32))
    opt = optim.SGD([w], lr=1.0)
    (w * w).sum().backward(create_graph=True)
    with gd.no_grad():
        w.grad.mul_(0.25)
    opt.step()
    assert w.tolist() == [0.5, 0.5, 0.5]


def test_a_gradient_with_a_graph_may_be_scaled_before_the_next_backward() -> None:
    w = parameter(np.ones(3, np.float32))
    (w * w).sum().backward(create_graph=True)
    with gd.no_grad():
        w.grad.zero_()
    (w * 5).sum().backward()
    assert w.grad.tolist() == [5, 5, 5]


def test_a_step_on_a_detached_view_is_seen_by_backward() -> None:
    base = gd.ones(3)
    w = base.detach().requires_grad_()
    opt = optim.SGD([w], lr=1.0)
    early = (w * w).sum()
    (w * 2).sum().backward()
    opt.step()
    with pytest.raises(gd.GradinoError, match="changed in place"):
        early.backward()


@pytest.mark.parametrize("op", ["max", "min"])
def test_changed_indices_are_seen_by_backward(op: str) -> None:
    x = gd.tensor([[1.0, 5.0, 2.0], [7.0, 3.0, 4.0]], requires_grad=True)
    values, indices = getattr(x, op)(1)
    indices[...] = 1
    with pytest.raises(gd.GradinoError, match=f"`{op}_dim`.*changed in place"):
        values.sum().backward()


def test_changed_values_of_max_are_not_needed() -> None:
    x = gd.tensor([[1.0, 5.0, 2.0]], requires_grad=True)
    values, _ = x.max(1)
    loss = values.sum()
    with gd.no_grad():
        values.zero_()
    loss.backward()
    assert x.grad.tolist() == [[0, 1, 0]]


# ---- Refused ------------------------------------------------------------------------------------------------------------


def test_probabilities_must_have_the_shape_of_the_logits() -> None:
    with pytest.raises(gd.ShapeError, match="must agree"):
        F.cross_entropy(gd.zeros(2, 3, 4), gd.zeros(4, 3, 2))


def test_by_products_have_no_gradient() -> None:
    logits = gd.zeros(2, 3, requires_grad=True)
    loss = F.cross_entropy(logits, gd.tensor([0, 1]))
    with pytest.raises(gd.GradinoError, match="only the loss has a gradient"):
        lse = lib.gd_output(loss._h, 1)
        total = lib.gd_reduce(lib.gd_op_find(b"sum"), lse, ffi.NULL, 0, 0, 0.0)
        assert lib.gd_backward(total, 0, 0, 0, ffi.NULL) < 0
        raise gd.GradinoError(ffi.string(lib.gd_last_error()).decode())


def test_nothing_to_accumulate_into() -> None:
    a = gd.ones(2, 2)
    attr = ffi.new("gd_attr *")
    attr.i[0] = 1
    assert lib.gd_call(lib.gd_op_find(b"matmul"), [a._h, a._h], 2, attr) == 0
    assert b"accumulate" in ffi.string(lib.gd_last_error())


def test_borrowed_memory_must_be_aligned_and_there() -> None:
    buffer = ffi.new("char[64]")
    start = int(ffi.cast("intptr_t", buffer))
    for address in (0, start - start % 4 + 1):
        assert lib.gd_from_external(1, [3], [1], 0, ffi.cast("void *", address)) == 0
        assert b"from_numpy" in ffi.string(lib.gd_last_error())


def test_moments_may_be_handed_to_the_next_optimizer() -> None:
    w = parameter(np.ones(3, np.float32))
    first, second = optim.Adam([w]), optim.Adam([w])
    (w * w).sum().backward()
    first.step()
    before = w.exp_avg.tolist()
    assert lib.gd_optimizer_set_state(second._native, w._h, 3, lib.gd_parameter_state(w._h, 3)) == 0
    assert w.exp_avg.tolist() == before


def test_no_optimizer_is_an_error() -> None:
    lib.gd_clear_error()
    none = ffi.NULL
    w = parameter(np.ones(3, np.float32))
    for status in (
        lib.gd_optimizer_step(none),
        lib.gd_optimizer_zero_grad(none),
        lib.gd_optimizer_add_group(none, [w._h], 1),
        lib.gd_optimizer_set_hyper(none, 0, ffi.new("gd_hyper *")),
        lib.gd_optimizer_get_step(none, w._h),
        lib.gd_optimizer_set_step(none, w._h, 1),
        lib.gd_optimizer_set_state(none, w._h, 3, w._h),
    ):
        assert status < 0 and b"there is none" in ffi.string(lib.gd_last_error())


def test_moments_that_were_read_are_known_to_have_changed() -> None:
    """A graph over a moment must not use its later values."""
    p = nn.Parameter(gd.ones(3))
    opt = optim.AdamW([p], lr=0.1)
    for together in (False, True):
        with gd.step_arena():
            (p * 2).sum().backward()
            opt.step()
            assert p.exp_avg is not None
            versions = p.exp_avg._version, p.exp_avg_sq._version
            x = gd.ones(3, requires_grad=True)
            y = (x * p.exp_avg).sum()
            if together:
                opt.zero_grad()
                (p * 2).sum().backward(optimizer=opt)
            else:
                opt.step()
            assert p.exp_avg._version > versions[0] and p.exp_avg_sq._version > versions[1]
            with pytest.raises(gd.GradinoError, match="changed in place"):
                y.backward()
            opt.zero_grad()


@pytest.mark.parametrize("name", ["relu_bwd", "sigmoid_bwd", "tanh_bwd", "clamp_bwd"])
def test_slopes_take_one_shape(name: str) -> None:
    g, y = gd.ones(2, 3), gd.ones(3)
    attr = ffi.new("gd_attr *")
    for pair in ([g._h, y._h], [y._h, g._h]):
        assert lib.gd_call(lib.gd_op_find(name.encode()), pair, 2, attr) == 0
        with pytest.raises(gd.ShapeError, match=f"{name}: .*must be equal"):
            raise_error()
    assert lib.gd_call(lib.gd_op_find(name.encode()), [g._h, g._h], 2, attr)
