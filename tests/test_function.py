"""autograd.Function: gradients written in Python, the same as PyTorch's; what fails, and what is let go of."""

from __future__ import annotations

import gc
import importlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import gradino as gd
from gradino import _calls
from gradino.autograd import Function
from gradino.autograd.function import once_differentiable

Lists = Any


def both(case: Callable[[Any], Lists]) -> None:
    """The case gives the same numbers in both libraries."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    want, got = case(torch), case(gd)
    assert flat(got) == pytest.approx(flat(want), rel=1e-5, abs=1e-6), f"gradino {got}, PyTorch {want}"


def flat(x: Any) -> list[float]:
    if x is None:
        return [-12345.0]
    if isinstance(x, (list, tuple)):
        return [v for y in x for v in flat(y)]
    return flat(x.tolist()) if hasattr(x, "tolist") else [float(x)]


def once(t: Any) -> Any:
    return once_differentiable if t is gd else importlib.import_module("torch.autograd.function").once_differentiable


def scaled(t: Any) -> Any:
    class Scaled(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float, y: Any, note: Any = None) -> Any:
            ctx.save_for_backward(x, None, y)
            ctx.factor = factor
            return x * y * factor, x + y

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, none, y = ctx.saved_tensors
            assert none is None
            return g * y * ctx.factor + h, None, g * x * ctx.factor + h, None

    return Scaled


def leaves(t: Any) -> tuple[Any, Any]:
    return (
        t.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=t.float64, requires_grad=True),
        t.tensor([[2.0, 0.25], [-1.0, 4.0]], dtype=t.float64, requires_grad=True),
    )


def test_values_gradients_and_second_derivatives() -> None:
    def case(t: Any) -> Lists:
        x, y = leaves(t)
        a, b = scaled(t).apply(x, 3.0, y)
        (a * a + b.sin()).sum().backward()
        first = [x.grad, y.grad]
        out = scaled(t).apply(x, 2.0, y, "a note")[0]
        (gx,) = t.autograd.grad((out**2).sum(), x, create_graph=True)
        (gy,) = t.autograd.grad(gx.sum(), y)
        return [a, b, *first, gx, gy]

    both(case)


def test_setup_context() -> None:
    def case(t: Any) -> Lists:
        class Cube(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(x: Any) -> Any:
                return x**3, x * 2

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                (x,) = inputs
                ctx.save_for_backward(x, output[1])

            @staticmethod
            def backward(ctx: Any, g: Any, h: Any) -> Any:
                x, twice = ctx.saved_tensors
                return g * 3 * x**2 + h * 2 + 0 * twice

        x, _ = leaves(t)
        a, b = Cube.apply(x)
        (a + b).sum().backward()
        return [a, b, x.grad]

    both(case)


def test_outputs_without_gradient_numbers_and_missing_gradients() -> None:
    def case(t: Any) -> Lists:
        seen: list[Any] = []

        def make(materialize: bool) -> Any:
            class Split(t.autograd.Function):  # type: ignore[misc, name-defined]
                @staticmethod
                def forward(ctx: Any, x: Any, y: Any) -> Any:
                    index, rest = x.argmax(1), x * 0
                    ctx.mark_non_differentiable(index, rest)
                    ctx.set_materialize_grads(materialize)
                    return x * 2, index, y * 3, rest, 7

                @staticmethod
                def backward(ctx: Any, *grads: Any) -> Any:
                    seen.append([None if g is None else g.sum() for g in grads])
                    seen.append([int(n) for n in ctx.needs_input_grad])
                    return grads[0] * 2, None

            return Split

        x, y = leaves(t)
        for materialize in (True, False):
            a, index, _b, rest, number = make(materialize).apply(x, y.detach())
            assert number == 7 and not index.requires_grad and not rest.requires_grad and a.requires_grad
            a.sum().backward()
        return [seen, x.grad]

    both(case)


def test_input_returned_as_it_is_and_used_twice() -> None:
    def case(t: Any) -> Lists:
        class Same(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                return x

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 5, g

        x, _ = leaves(t)
        out = Same.apply(x, x)
        (out * x).sum().backward()
        return [out, x.grad]

    both(case)


def test_gradients_of_other_shapes_and_dtypes_are_fitted() -> None:
    def case(t: Any) -> Lists:
        class Wide(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                return x + y

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g.float(), g

        x = t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)
        y = t.tensor(3.0, dtype=t.float64, requires_grad=True)
        Wide.apply(x.reshape(1, 2), y).sum().backward()
        return [x.grad, y.grad]

    both(case)


def test_no_recording_where_nothing_requires_grad() -> None:
    x, y = leaves(gd)
    with gd.no_grad():
        assert not scaled(gd).apply(x, 1.0, y)[0].requires_grad
    assert scaled(gd).apply(x.detach(), 1.0, y.detach())[0].grad_fn is None


def test_gradcheck() -> None:
    x, y = leaves(gd)
    assert gd.autograd.gradcheck(lambda a, b: scaled(gd).apply(a, 1.5, b), (x, y))
    assert gd.autograd.gradgradcheck(lambda a, b: scaled(gd).apply(a, 1.5, b), (x, y))


# ---- What fails -----------------------------------------------------------------------------------------------------


class Broken(Function):
    result: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x * y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if isinstance(Broken.result, BaseException):
            raise Broken.result
        return Broken.result


@pytest.mark.parametrize(
    "result, kind, words",
    [
        (ValueError("mine"), ValueError, "mine"),
        (KeyboardInterrupt("by hand"), KeyboardInterrupt, "by hand"),
        (lambda: (gd.ones(2),), gd.GradinoError, "expected 2, got 1"),
        (lambda: (gd.ones(2), None, gd.ones(1)), gd.GradinoError, "expected 2, got 3"),
        (lambda: (gd.ones(3), None), gd.GradinoError, "got \\[3\\] but expected shape compatible with \\[2\\]"),
        (lambda: (1.0, None), TypeError, "expected Tensor or None"),
    ],
)
def test_a_failing_backward_changes_nothing(result: Any, kind: type[BaseException], words: str) -> None:
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    y = gd.tensor([3.0, 4.0], requires_grad=True)
    early = x * 2
    out = (Broken.apply(early, y) + y).sum()
    Broken.result = result() if callable(result) else result
    used = gd.active_arena().stats().used
    with pytest.raises(kind, match=words) as caught:
        out.backward()
    assert gd.active_arena().stats().used == used and x.grad is None and y.grad is None
    if isinstance(Broken.result, BaseException):
        assert caught.value is Broken.result and any("test_function" in str(e.path) for e in caught.traceback[1:])
    assert gd.is_grad_enabled()
    Broken.result = (gd.tensor([1.0, 1.0]), None)
    out.backward()
    assert x.grad.tolist() == [2.0, 2.0] and y.grad.tolist() == [1.0, 1.0]


def test_a_saved_tensor_that_was_changed_is_refused() -> None:
    x, y = leaves(gd)
    z = y * 1
    out = scaled(gd).apply(x, 1.0, z)[0]
    with gd.no_grad():
        z.mul_(2)
    with pytest.raises(gd.GradinoError, match="modified by an inplace operation: saved tensor 2"):
        out.sum().backward()


def test_twice() -> None:
    x, y = leaves(gd)
    out = scaled(gd).apply(x, 1.0, y)[0].sum()
    out.backward(retain_graph=True)
    out.backward()
    with pytest.raises(gd.GradinoError, match="already used"):
        out.backward()
    assert x.grad.tolist() == (2 * y).tolist()


def test_once_differentiable() -> None:
    def case(t: Any) -> Lists:
        class Once(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x**2

            @staticmethod
            @once(t)
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2 * ctx.saved_tensors[0]

        x, _ = leaves(t)
        Once.apply(x).sum().backward()
        (g,) = t.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            g.sum().backward()
        return x.grad

    both(case)


def test_what_is_not_there_says_so() -> None:
    x, _ = leaves(gd)

    class Nothing(Function):
        pass

    with pytest.raises(NotImplementedError, match="forward"):
        Nothing.apply(x)

    class NoBackward(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

    with pytest.raises(NotImplementedError, match="backward"):
        NoBackward.apply(x).sum().backward()
    with pytest.raises(TypeError, match="can only save variables"):
        gd.autograd.function.FunctionCtx().save_for_backward(3)  # type: ignore[arg-type]


# ---- What is let go of ------------------------------------------------------------------------------------------------


class Thing:
    pass


class Holds(Function):
    refs: list[weakref.ref[Thing]] = []

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.thing = Thing()
        ctx.save_for_backward(x)
        Holds.refs.append(weakref.ref(ctx.thing))
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def alive() -> int:
    gc.collect()
    return sum(ref() is not None for ref in Holds.refs)


@pytest.mark.own_arenas
@pytest.mark.parametrize("how", ["step", "reset", "rewind", "close", "drop"])
def test_ten_thousand_nodes_without_backward_leave_nothing(how: str) -> None:
    x = gd.ones(2, requires_grad=True)
    Holds.refs, objects = [], len(_calls._objects)
    arena = gd.step_arena() if how == "step" else gd.Arena()
    with arena:
        mark = None if how != "rewind" else arena.mark()  # type: ignore[union-attr]
        for _ in range(10_000 if how == "step" else 500):
            Holds.apply(x)
        assert alive() == len(Holds.refs)
    if how == "reset":
        arena.reset()  # type: ignore[union-attr]
    elif how == "rewind":
        arena.rewind(mark)  # type: ignore[union-attr]
    elif how == "close":
        arena.close()  # type: ignore[union-attr]
    elif how == "drop":
        del arena
    assert alive() == 0 and len(_calls._objects) == objects


@pytest.mark.own_arenas
def test_backward_lets_go_of_what_was_saved_outside_of_arenas() -> None:
    x = gd.ones(2, requires_grad=True)
    Holds.refs = []
    for _ in range(100):
        Holds.apply(x).sum().backward()
    assert alive() == 0


@pytest.mark.own_arenas
def test_a_failing_call_leaves_nothing() -> None:
    x = gd.ones(2, requires_grad=True)
    Holds.refs, objects = [], len(_calls._objects)
    failures = 0
    for n in range(1, 40):
        gd._lib.lib.gd_test_fail_allocation(n)
        try:
            with gd.step_arena():
                Holds.apply(x).sum().backward()
        except gd.OutOfMemoryError:
            failures += 1
        else:
            break
        finally:
            gd._lib.lib.gd_test_fail_allocation(0)
        assert x.grad is None, n
    assert failures > 4 and x.grad is not None and alive() == 0 and len(_calls._objects) == objects


@pytest.mark.own_arenas
def test_threads() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for k in range(50):
                with gd.step_arena():
                    x = gd.full((3,), float(seed + k), requires_grad=True)
                    scaled(gd).apply(x, 2.0, x)[0].sum().backward()
                    assert x.grad.tolist() == [4.0 * (seed + k)] * 3
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors


def test_an_arena_is_not_emptied_under_a_backward() -> None:
    with gd.Arena() as arena:
        x = gd.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: arena.reset())
        with pytest.raises(gd.ArenaError, match="backward runs"):
            y.sum().backward()


def test_a_backward_inside_a_backward() -> None:
    def case(t: Any) -> Lists:
        class Inner(t.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any, w: Any) -> Any:
                ctx.w = w
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                with t.enable_grad():
                    x = ctx.saved_tensors[0].detach().requires_grad_()
                    (x * ctx.w * g).sum().backward()
                return x.grad, None

        x, w = leaves(t)
        (Inner.apply(x * 3, w) + w).sum().backward()
        return [x.grad, w.grad]

    both(case)
