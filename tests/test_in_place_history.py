"""Writes in place to tensors with a history: PyTorch's gradients, base and views alike, or an error; never a silent wrong number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from test_function import both, flat

import gradino as gd
import gradino.nn.functional as F
from gradino import nn


@pytest.fixture(params=["step arena", "permanent arena"], autouse=True)
def place(request: pytest.FixtureRequest) -> Iterator[None]:
    """In a step arena the result of an op may take the tensor's place, in the permanent one it is copied there."""
    with nullcontext() if request.param == "step arena" else gd.permanent_arena():
        yield


def leaf(t: Any) -> Any:
    return t.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=t.float64, requires_grad=True)


def test_operators_and_methods() -> None:
    def case(t: Any) -> Any:
        out = []
        for change in (
            lambda h, x: h.add_(x, alpha=2),
            lambda h, x: h.sub_(1.5),
            lambda h, x: h.mul_(x),
            lambda h, x: h.div_(x),
            lambda h, x: h.clamp_(2.5, 5),
            lambda h, x: h.masked_fill_(h > 3, 7.0),
            lambda h, x: h.relu_(),
            lambda h, x: h.exp_(),
            lambda h, x: h.sigmoid_(),
            lambda h, x: h.pow_(3),
            lambda h, x: h.copy_(x[0]),
            lambda h, x: h.zero_(),
            lambda h, x: h.fill_(2),
            lambda h, x: h.fill_(x[0, 0]),
            lambda h, x: t.nn.functional.relu(h, inplace=True),
            lambda h, x: t.nn.ReLU(inplace=True)(h),
        ):
            x = leaf(t)
            h = x * 2 - 3
            same = change(h, x)
            assert same is h and h.requires_grad
            (h * x).sum().backward()
            out += [h, x.grad]
        return out

    both(case)


def test_augmented_assignment() -> None:
    def case(t: Any) -> Any:
        x = leaf(t)
        h = first = x * 2
        h += x
        h -= 1
        h = h * 1
        h *= 3
        h /= x
        assert first is not h
        total = t.zeros(2, dtype=t.float64)
        for k in range(3):
            total += x[0] * k
        (h + total).sum().backward()
        return [first, h, total, x.grad]

    both(case)


def test_views_and_their_base() -> None:
    def case(t: Any) -> Any:
        out = []
        x = leaf(t)
        base = x * 2
        row, flat_view, turned = base[0], base.reshape(4), base.t()
        base.mul_(x)
        out += [row * 1, flat_view * 1, turned * 1]
        (row.sum() + (flat_view**2).sum() + turned[1].sum()).backward()
        out.append(x.grad)

        x = leaf(t)
        base = x * 2
        row, turned = base[0], base.t()
        row.mul_(x[1])
        turned[1].add_(x[0])
        out += [base * 1, row * 1]
        (base * x + turned).sum().backward()
        out.append(x.grad)

        x = leaf(t)
        h = t.zeros(3, 2, dtype=t.float64)
        early = h[1]
        for k in range(3):
            h[k] = x[k % 2] * (k + 1)
        h[:, 1] += 1
        assert early.requires_grad and h.requires_grad
        (h.exp().sum() + early.sum()).backward()
        return [*out, h, early, x.grad]

    both(case)


def test_setitem_of_every_kind() -> None:
    def case(t: Any) -> Any:
        out = []
        for change in (
            lambda h, x: h.__setitem__(0, x[1]),
            lambda h, x: h.__setitem__((slice(None), 0), x[:, 1] * 2),
            lambda h, x: h.__setitem__((..., slice(1, None)), 3.0),
            lambda h, x: h.__setitem__(h > 2, 0),
            lambda h, x: h.__setitem__(x > 2, x.sum()),
            lambda h, x: h.__setitem__(t.tensor([1, 0]), x * 5),
            lambda h, x: h.__setitem__((t.tensor([0, 1]), t.tensor([1, 1])), x[0]),
            lambda h, x: h.__setitem__(slice(1, None), h[:-1].clone()),
            lambda h, x: h.__setitem__((slice(None), 1), h[:, 0].clone() * x[0]),
        ):
            x = leaf(t)
            h = x * 2 - 1
            change(h, x)
            (h * h).sum().backward()
            out += [h, x.grad]
        return out

    both(case)


def test_a_write_over_itself_reads_the_old_values() -> None:
    x = gd.arange(10.0).requires_grad_()
    h = x * 1
    h[1:] = h[:-1]
    assert h.tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    (h * gd.arange(10.0)).sum().backward()
    assert x.grad.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


def test_what_is_refused() -> None:
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    w = nn.Parameter(gd.ones(2))
    for leaf_tensor in (x, w):
        for change in (
            lambda t: t.add_(1),
            lambda t: t.zero_(),
            lambda t: t.__setitem__(0, 1.0),
            lambda t: t.relu_(),
            lambda t: F.relu(t, True),
        ):
            with pytest.raises(gd.GradinoError, match="a leaf that requires grad"):
                change(leaf_tensor)
            with pytest.raises(gd.GradinoError, match="a view of a leaf that requires grad"):
                change(leaf_tensor[:1])
    with pytest.raises(gd.GradinoError, match="expanded view"):
        (x * 1)[:1].expand(3).add_(1)
    with pytest.raises(gd.ShapeError):
        (x[:1] * 1).add_(x)
    with pytest.raises(gd.DTypeError, match="hold"):
        gd.arange(2).add_(x)
    frozen = nn.Parameter(gd.ones(2), requires_grad=False)
    with pytest.raises(gd.GradinoError, match="parameter"):
        frozen.add_(x)
    assert x.tolist() == [1.0, 2.0] and w.tolist() == [1.0, 1.0] and frozen.tolist() == [1.0, 1.0]


def test_overwritten_saved_values_are_an_error_that_names_the_op() -> None:
    x = gd.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = x.sigmoid()
    b[1] = 2
    with pytest.raises(gd.GradinoError, match=r"result of `sigmoid`.*changed in place"):
        b.sum().backward()
    h = x * 1
    y = h.square()
    h[0] = 5.0
    with pytest.raises(gd.GradinoError, match=r"input 0 of `square`.*changed in place"):
        y.sum().backward()
    assert x.grad is None


def test_moved_values_are_still_there_for_backward() -> None:
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    h = x * 1
    y = h.square()
    h.mul_(10)
    try:
        (y + h).sum().backward()
    except gd.GradinoError as error:
        assert "changed in place" in str(error)
    else:
        assert x.grad.tolist() == [12.0, 14.0]
    assert h.tolist() == [10.0, 20.0]


def test_detached_memory_is_shared_but_not_the_history() -> None:
    def case(t: Any) -> Any:
        x = leaf(t)
        y = x * 2
        y.detach().add_(1)
        z = (x * 3).detach_()
        assert z.is_leaf and not z.requires_grad
        y.sum().backward()
        return [y, x.grad, z]

    both(case)


def test_aliases_versions_and_retained_gradients() -> None:
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    alias = F.dropout(y, 0.5, training=False)
    y.retain_grad()
    before = y._version
    y.add_(x)
    assert y._version == before + 1 and alias.tolist() == [3.0, 6.0] and not y.is_leaf
    (alias * y).sum().backward()
    assert x.grad.tolist() == [18.0, 36.0] and y.grad.tolist() == [6.0, 12.0]


def test_mark_dirty() -> None:
    def case(t: Any) -> Any:
        class Double(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                a.mul_(2).add_(b)
                ctx.mark_dirty(a)
                return a

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2, g

        x = leaf(t)
        h = x * 3
        out = Double.apply(h, x)
        (h * x + out).sum().backward()
        with pytest.raises(RuntimeError, match="leaf"):
            Double.apply(x, x * 1)
        return [h, out, x.grad]

    both(case)


def test_second_derivatives() -> None:
    def f(x: Any) -> Any:
        h = x * 1
        h[0] = x[1] ** 2
        h[:, 1] *= x[:, 0]
        return (h**3).sum()

    x = leaf(gd)
    assert gd.autograd.gradcheck(f, x) and gd.autograd.gradgradcheck(f, x)


@pytest.mark.own_arenas
def test_a_buffer_outside_of_the_step_keeps_the_values_and_loses_the_history() -> None:
    buffer = gd.zeros(3)
    part = buffer[:2]
    for k in range(3):
        with gd.step_arena():
            x = gd.full((3,), float(k), requires_grad=True)
            buffer += x * 2
            assert buffer.requires_grad
            (buffer * 3).sum().backward()
            assert x.grad.tolist() == [6.0] * 3
        assert not buffer.requires_grad and buffer.is_leaf
    assert buffer.tolist() == [6.0] * 3 and part.tolist() == [6.0, 6.0]


@pytest.mark.own_arenas
def test_a_history_that_was_rewound_is_an_error() -> None:
    with gd.Arena() as arena:
        x = gd.ones(2, requires_grad=True)
        y = x * 2
        view = y[:1]
        mark = arena.mark()
        y.mul_(3)
        arena.rewind(mark)
        with pytest.raises(gd.GradinoError):
            (y * 1).sum().backward()
        assert x.grad is None
        del view


@pytest.mark.own_arenas
def test_memory_that_is_refused() -> None:
    for n in range(1, 60):
        with gd.step_arena():
            x = gd.tensor([1.0, 2.0, 3.0], requires_grad=True)
            h = x * 2
            view = h[:2]
            gd._lib.lib.gd_test_fail_allocation(n)
            try:
                view.mul_(x[1:])
            except gd.OutOfMemoryError:
                gd._lib.lib.gd_test_fail_allocation(0)
                assert h.tolist() == [2.0, 4.0, 6.0]
                h.sum().backward()
                assert x.grad.tolist() == [2.0, 2.0, 2.0]
                continue
            finally:
                gd._lib.lib.gd_test_fail_allocation(0)
            h.sum().backward()
            assert x.grad.tolist() == [4.0, 8.0, 6.0]
            return
    raise AssertionError("the 60th allocation still fails")


# ---- Random programs ---------------------------------------------------------------------------------------------------


def program(t: Any, seed: int) -> Any:
    """Some writes to a tensor and views of it, the same for both libraries."""
    rng = random.Random(seed)
    x = t.tensor(np.random.default_rng(seed).standard_normal((3, 4)).tolist(), dtype=t.float64, requires_grad=True)
    base = x * 1 if rng.random() < 0.7 else t.zeros(3, 4, dtype=t.float64)
    known = [base]
    for _ in range(rng.randint(2, 7)):
        h = rng.choice(known)
        what = rng.randrange(9)
        fits = h.ndim == 2 and h.shape[0] <= 3 and h.shape[1] <= 4
        same = x[: h.shape[0], : h.shape[1]] if fits else x.sum()
        if what == 0 and h.ndim > 1:
            known.append(h[rng.randrange(h.shape[0])])
        elif what == 1:
            known.append(h[..., rng.randrange(h.shape[-1]) :] if h.ndim else h)
        elif what == 2 and h.ndim == 2:
            known.append(h.t())
        elif what == 3:
            h.add_(same)
        elif what == 4:
            h.mul_(2)
        elif what == 5:
            h.sin_()
        elif what == 6 and h.ndim:
            h[rng.randrange(h.shape[0])] = x[0, 0] * 2
        elif what == 7:
            h.copy_(same * 3)
        elif what == 8 and h.ndim == 2:
            known.append(h.reshape(-1) if h.is_contiguous() else h[0])
    total = sum((k.cos() * (i + 1)).sum() for i, k in enumerate(known))
    if not total.requires_grad:
        return [total]
    total.backward()
    return [total, *known, x.grad]


@pytest.mark.parametrize("name", ["mul_", "div_", "pow_", "add_"])
def test_a_write_in_an_arena_within(name: str) -> None:
    """The result cannot take the place of a tensor of another arena; what the op has read of it must stay."""

    def case(t: Any) -> Any:
        x = leaf(t)
        h = x * 1.5
        with gd.step_arena() if t is gd else nullcontext():
            getattr(h, name)(3 if name == "pow_" else x * 3)
            (h * x).sum().backward()
        return [x.grad]

    both(case)


@pytest.mark.parametrize("length", [1000, 200000])
def test_a_long_chain_of_views(length: int) -> None:
    """It is made anew from the tensor that was written to, or refused: that takes stack for each view."""
    x = gd.ones(4, requires_grad=True)
    with gd.step_arena():
        h = x * 2
        view = h
        for _ in range(length):
            view = view.view(4)
        h.mul_(3.0)
        if length > 10000:
            with pytest.raises(gd.GradinoError, match="more than 10000 times"):
                view.sum()
            with gd.no_grad():
                assert view.tolist() == [6.0] * 4
            return
        view.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6.0] * 4


@pytest.mark.parametrize("seed", range(120))
def test_random_programs(seed: int) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    try:
        want = program(torch, seed)
    except RuntimeError as error:
        assert "inplace operation" in str(error), error
        try:
            program(gd, seed)  # may find the old values where PyTorch does not
        except gd.GradinoError as ours:
            assert "changed in place" in str(ours), ours
        return
    got = program(gd, seed)
    assert flat(got) == pytest.approx(flat(want), rel=1e-9, abs=1e-9), f"seed {seed}"
