"""Checkpointing: the numbers of the plain run, in less memory, wherever it is used."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits, values

import gradino as gd
import gradino.nn.functional as F
from gradino import _calls, nn
from gradino.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

Forward = Callable[[gd.Tensor], gd.Tensor]


def deep(depth: int = 6, width: int = 16) -> nn.Sequential:
    gd.manual_seed(3)
    return nn.Sequential(*(m for _ in range(depth) for m in (nn.Linear(width, width), nn.Tanh(), nn.Dropout(0.3))))


def results(model: nn.Module, forward: Forward, x: gd.Tensor) -> list[np.ndarray]:
    """Loss, gradients, and where the random numbers stand afterwards."""
    gd.manual_seed(11)
    for p in model.parameters():
        p.grad = None
    with gd.step_arena():
        loss = forward(x).square().mean()
        loss.backward()
        found = [values(loss), *(values(p.grad) for p in model.parameters())]
    return [*found, np.array(gd.get_rng_state().tolist() if hasattr(gd.get_rng_state(), "tolist") else gd.get_rng_state())]


def same(model: nn.Module, plain: Forward, other: Forward, x: gd.Tensor) -> None:
    for k, (a, b) in enumerate(zip(results(model, other, x), results(model, plain, x), strict=True)):
        assert_same_bits(a, b, what=f"result {k}")


@pytest.mark.parametrize("segments", [1, 2, 3, 5, 18])
def test_the_bits_of_the_plain_run(segments: int) -> None:
    model = deep()
    x = gd.randn(5, 16)
    same(model, model, lambda t: checkpoint_sequential(model, segments, t), x)


def test_nested_and_with_tied_weights() -> None:
    model = deep()
    x = gd.randn(5, 16)

    def tied(t: gd.Tensor) -> gd.Tensor:
        return F.linear(model(t), model[0].weight)

    def outer(t: gd.Tensor) -> gd.Tensor:
        inner = checkpoint(lambda u: checkpoint(model[3:], checkpoint(model[:3], u)), t)
        return F.linear(inner, model[0].weight)

    for a, b in zip(results(model, outer, x), results(model, tied, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a08_dropout_has_the_same_mask() -> None:
    w = gd.ones(1000, requires_grad=True)
    y = checkpoint(lambda t: F.dropout(t * w, 0.5), gd.ones(1000))
    gd.rand(3)
    before = gd.get_rng_state()
    y.sum().backward()
    assert w.grad.tolist() == y.tolist() and set(y.tolist()) == {0.0, 2.0}
    assert np.array_equal(np.asarray(before), np.asarray(gd.get_rng_state()))
    w.grad = None
    y = checkpoint(lambda t: F.dropout(t * w, 0.5), gd.ones(1000), preserve_rng_state=False)
    y.sum().backward()
    assert w.grad.tolist() != y.tolist()


def test_inputs_outputs_and_other_arguments_of_every_kind() -> None:
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    closed_over = x * 3
    w = nn.Parameter(gd.tensor([0.5, -1.0]))

    def function(a: gd.Tensor, factor: float, parts: dict[str, Any], *, extra: gd.Tensor) -> Any:
        index = a.argmax()
        return {"sum": a * factor + parts["b"][0] * w, "rest": (extra * closed_over, [index, a, 7, None])}

    def run(call: Callable[..., Any]) -> list[Any]:
        x.grad = w.grad = None
        b = (x * 2).detach().requires_grad_()
        found = call(function, x * 1, 2.0, {"b": [b]}, extra=x)
        (total, (rest, (index, same, seven, none))) = found["sum"], found["rest"]
        assert seven == 7 and none is None and not index.requires_grad and same.requires_grad
        (total * rest + same).sum().backward(retain_graph=True)
        return [total.tolist(), rest.tolist(), index.item(), x.grad.tolist(), w.grad.tolist(), b.grad.tolist()]

    assert run(checkpoint) == run(lambda f, *args, **kwargs: f(*args, **kwargs))


@pytest.mark.parametrize("reentrant", [None, True, False])
def test_parameters_get_gradients_where_no_input_needs_one(reentrant: bool | None) -> None:
    layer = nn.Linear(3, 2)
    y = checkpoint(layer, gd.ones(4, 3), use_reentrant=reentrant)
    y.sum().backward()
    assert layer.bias.grad.tolist() == [4.0, 4.0] and layer.weight.grad.tolist() == [[4.0] * 3] * 2
    y = checkpoint(layer, gd.ones(4, 3))
    y.sum().backward()
    assert layer.bias.grad.tolist() == [8.0, 8.0], "gradients accumulate"


def test_on_demand_and_higher_derivatives() -> None:
    x = gd.tensor([0.5, 1.5], dtype=gd.float64, requires_grad=True)
    w = nn.Parameter(gd.tensor([2.0, 3.0], dtype=gd.float64))

    def f(t: gd.Tensor) -> gd.Tensor:
        return (t**3 * w).sin()

    (gx,) = gd.autograd.grad(checkpoint(f, x).sum(), x)
    (want,) = gd.autograd.grad(f(x).sum(), x)
    assert_same_bits(gx, want)
    assert w.grad is None
    assert gd.autograd.gradcheck(lambda t: checkpoint(f, t), x)
    assert gd.autograd.gradgradcheck(lambda t: checkpoint(f, t), x)
    checkpoint(f, x).sum().backward(create_graph=True)
    assert x.grad.requires_grad


def test_retained_and_used_up() -> None:
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    y = checkpoint(lambda t: t.exp(), x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(gd.GradinoError, match="already used"):
        y.backward()
    assert x.grad.tolist() == (2 * x.exp()).tolist()


def test_hooks_see_whole_gradients_once() -> None:
    w = nn.Parameter(gd.ones(2))
    seen: list[Any] = []
    w.register_hook(lambda g: seen.append(g.tolist()))
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    y = checkpoint(lambda t: t * w, gd.ones(2)) + checkpoint(lambda t: t * w * w, gd.ones(2))
    y.sum().backward()
    assert seen == [[3.0, 3.0], [3.0, 3.0]]


def test_the_optimizer_inside_backward() -> None:
    def trained(forward: Callable[[nn.Sequential, gd.Tensor], gd.Tensor]) -> list[Any]:
        model = deep(3)
        opt = gd.optim.AdamW(model.parameters(), lr=0.1)
        gd.manual_seed(5)
        for _ in range(3):
            with gd.step_arena():
                forward(model, gd.randn(4, 16)).square().mean().backward(optimizer=opt)
        return [values(p) for p in model.parameters()]

    for a, b in zip(trained(lambda m, x: checkpoint_sequential(m, 3, x)), trained(lambda m, x: m(x)), strict=True):
        assert_same_bits(a, b)


def test_autocast_is_as_it_was() -> None:
    model = deep(2)
    x = gd.randn(5, 16)

    def plain(t: gd.Tensor) -> gd.Tensor:
        with gd.autocast("cpu", dtype=gd.bfloat16, cache_enabled=False):
            return model(t).float()

    def segmented(t: gd.Tensor) -> gd.Tensor:
        with gd.autocast("cpu", dtype=gd.bfloat16):
            model(t)  # casts of weights that are remembered outside
            gd.manual_seed(11)
            return checkpoint(lambda u: model(u).float(), t)

    same(model, plain, segmented, x)


# ---- Memory --------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


@pytest.mark.own_arenas
@pytest.mark.parametrize("kind", ["permanent", "step", "own"])
def test_what_a_segment_makes_goes_away(kind: str) -> None:
    model = deep(12, 64)
    x = gd.randn(64, 64)
    with nothing() if kind == "permanent" else gd.step_arena() if kind == "step" else gd.Arena() as arena:
        before = gd.active_arena().stats().used
        y = checkpoint(model, x)
        assert gd.active_arena().stats().used - before < 2 * x.nbytes, "only the result stays"
        y.square().mean().backward()
        assert gd.active_arena().stats().used - before < 12 * x.nbytes
        assert all(p.grad is not None for p in model.parameters())
        del arena


@pytest.mark.own_arenas
def test_many_segments_take_a_fraction_of_the_memory() -> None:
    model = deep(48, 64)
    x = gd.randn(128, 64)

    def high_water(forward: Forward) -> int:
        with gd.Arena() as arena:
            forward(x).square().mean().backward()
            return arena.stats().high_water

    # the segments' own arena is one segment large
    assert 5 * high_water(lambda t: checkpoint_sequential(model, 12, t)) < high_water(model)


@pytest.mark.own_arenas
def test_steps_do_not_grow_and_objects_go() -> None:
    model = deep(4)
    x = gd.randn(5, 16)
    objects, sizes, refs = len(_calls._objects), [], []

    class Thing:
        pass

    for k in range(6):
        thing = Thing()
        refs.append(weakref.ref(thing))
        with gd.step_arena() as arena:
            y = checkpoint(lambda t, _: model(t), x, thing)
            if k % 2:
                y.sum().backward()
            sizes.append(arena.stats().used)
        del thing
    gc.collect()
    assert sizes[0] == sizes[4] and sizes[1] == sizes[5]
    assert not any(ref() for ref in refs) and len(_calls._objects) == objects


# ---- What fails ------------------------------------------------------------------------------------------------------------


def test_exceptions_arrive_and_change_nothing() -> None:
    w = nn.Parameter(gd.ones(2))
    x = gd.ones(2, requires_grad=True)
    calls: list[int] = []

    def function(t: gd.Tensor) -> gd.Tensor:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("the second time")
        return t * w

    y = (checkpoint(function, x * 2) + w).sum()
    gd.rand(5)
    state = np.asarray(gd.get_rng_state())
    with pytest.raises(KeyError, match="the second time"):
        y.backward()
    assert x.grad is None and w.grad is None and np.array_equal(state, np.asarray(gd.get_rng_state()))
    y.backward()
    assert w.grad.tolist() == [3.0, 3.0] and x.grad.tolist() == [2.0, 2.0]
    calls.append(1)
    with pytest.raises(gd.ShapeError):
        checkpoint(lambda t: function(t) @ gd.ones(3, 3), x)


def test_a_recomputation_that_differs_is_an_error() -> None:
    w, other = nn.Parameter(gd.ones(2)), nn.Parameter(gd.ones(2))
    calls: list[int] = []

    def again() -> bool:
        calls.append(1)
        return len(calls) % 2 == 0

    x = gd.ones(2, requires_grad=True)
    cases: list[tuple[Callable[[gd.Tensor], Any], str]] = [
        (lambda t: t * (other if again() else w), "used 1 tensors"),
        (lambda t: (t * w).sum() if again() else t * w, "recomputation is \\(\\)"),
        (lambda t: (t * w).detach() if again() else t * w, "without a graph"),
        (lambda t: (t * w, t) if again() else t * w, "other tensors"),
    ]
    for function, words in cases:
        with pytest.raises(CheckpointError, match=words):
            checkpoint(function, x).sum().backward()
    assert w.grad is None and other.grad is None and x.grad is None


def test_what_was_read_may_not_change() -> None:
    w = nn.Parameter(gd.ones(2))
    x = gd.ones(2)
    for changed in (w, x):
        y = checkpoint(lambda t: t * w, x).sum()
        with gd.no_grad():
            changed.mul_(2)
        with pytest.raises(CheckpointError, match="changed in place"):
            y.backward()


def test_arguments() -> None:
    x = gd.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: b"):
        checkpoint(lambda t: t, x, use_reentrant=True, b=3)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint_sequential([lambda t: t], 1, x, b=3)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(lambda t: t, x, determinism_check="strict")
    with pytest.raises(gd.InvalidValueError, match="debug"):
        checkpoint(lambda t: t, x, debug=True)
    log: list[str] = []

    @contextlib.contextmanager
    def note(what: str) -> Iterator[None]:
        log.append(what)
        yield

    y = checkpoint(lambda t: t * 2, x, context_fn=lambda: (note("forward"), note("again")))
    y.sum().backward()
    assert log == ["forward", "again"]
    with gd.no_grad():
        assert not checkpoint(lambda t: t * 2, x).requires_grad
    assert not checkpoint(lambda t: t * 2, x.detach()).requires_grad
    assert checkpoint(lambda t: t, x).grad_fn is not None


def test_as_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from torch.utils.checkpoint import checkpoint as theirs

    def case(t: Any, call: Any) -> list[Any]:
        x = t.tensor([[0.5, -1.0], [2.0, 0.25]], dtype=t.float64, requires_grad=True)
        w = t.nn.Parameter(t.tensor([[1.0, 2.0], [-0.5, 0.75]], dtype=t.float64))
        h = call(lambda a, b: (a @ w).tanh() * b, x, 2.0, use_reentrant=False)
        (call(lambda a: a.exp() * x, h, use_reentrant=False) + h).sum().backward()
        return [h.tolist(), x.grad.tolist(), w.grad.tolist()]

    np.testing.assert_allclose(np.array(case(gd, checkpoint)), np.array(case(torch, theirs)), rtol=1e-12)


@pytest.mark.own_arenas
def test_memory_that_is_refused() -> None:
    w = nn.Parameter(gd.ones(300))

    def step() -> None:
        with gd.step_arena():
            x = gd.ones(300, requires_grad=True)
            checkpoint(lambda t: (t * w).exp(), x).sum().backward()

    step()
    want, objects = values(w.grad), len(_calls._objects)
    failures = 0
    for n in range(1, 200):
        w.grad = None
        gd._lib.lib.gd_test_fail_allocation(n)
        try:
            step()
        except gd.OutOfMemoryError:
            failures += 1
            assert w.grad is None, n
        else:
            break
        finally:
            gd._lib.lib.gd_test_fail_allocation(0)
    assert failures > 10 and len(_calls._objects) == objects
    assert_same_bits(w.grad, want)
