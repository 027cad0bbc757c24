"""``Function``: an op whose gradient is written in Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradino import _calls
from gradino._arguments import shown
from gradino._core import wrap
from gradino._in_place import is_tracked, write
from gradino._lib import check, ffi, lib
from gradino.errors import GradinoError
from gradino.factories import zeros
from gradino.grad_mode import enable_grad, is_grad_enabled, no_grad
from gradino.tensor import Tensor

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """What ``forward`` leaves for ``backward``: saved tensors, and any attributes that you set."""

    needs_input_grad: tuple[bool, ...] = ()
    _saved: tuple[tuple[Any, int, int], ...] = ()  # (tensor or None, its version, which output it is or -1)
    _to_save: tuple[Any, ...] = ()
    _dirty: tuple[Any, ...] = ()
    _fixed: tuple[Any, ...] = ()
    _materialize = True
    _freed = False

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``backward``, which finds them in ``saved_tensors`` and is told if they were changed in place."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_backward can only save variables, but argument is of type {type(t).__name__}")
        self._to_save = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say that ``forward`` has changed these inputs in place; each must be returned as well."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say that these outputs have no gradient."""
        self._fixed = args

    def set_materialize_grads(self, value: bool) -> None:
        """False: ``backward`` gets None instead of zeros for an output without a gradient."""
        self._materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` has kept.

        Raises:
            GradinoError: if one was changed in place since, or a backward has used the graph up.
        """
        if self._freed:
            raise GradinoError(
                f"{type(self).__name__}: the graph was already used by a backward() and its saved tensors freed; "
                "call the first one with retain_graph=True"
            )
        return tuple(self._unpacked(k, *entry) for k, entry in enumerate(self._saved))

    def _unpacked(self, k: int, tensor: Any, version: int, output: int) -> Any:
        if tensor is None:
            return None
        if tensor._version != version:
            raise GradinoError(
                f"{type(self).__name__}: one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"saved tensor {k}, of shape {tensor.shape}, is at version {tensor._version}; expected version {version}"
            )
        return wrap(self._outputs[output]) if output >= 0 else tensor

    # ---- for apply and for the library ------------------------------------------------------------------------

    _function: Any
    _tensor_args: tuple[int, ...]  # places of the tensors among the arguments
    _args: int
    _outputs: list[int]  # handles of the tensors among the outputs,
    _kinds: list[tuple[tuple[int, ...], Any] | None]  # and for each output its shape and dtype; None: no tensor

    def _keep(self, raw: list[Tensor]) -> None:
        entries = []
        for t in self._to_save:
            output = next((k for k, r in enumerate(raw) if t is r), -1)
            entries.append((t, 0 if t is None else t._version, output))
        self._saved, self._to_save = tuple(entries), ()

    def _used_up(self) -> bool:
        if self._saved:
            self._freed, self._saved = True, ()
        return self._freed

    def _gradients(self, given: Any) -> list[Any]:
        grads: list[Any] = []
        place = 0
        for kind in self._kinds:
            if kind is None:
                grads.append(None)
                continue
            handle, place = given[place], place + 1
            if handle:
                grads.append(wrap(handle))
            else:
                grads.append(zeros(kind[0], dtype=kind[1]) if self._materialize else None)
        return grads

    def _run_backward(self, given: Any, count: int, out: Any, room: int) -> None:
        name = type(self).__name__
        wanted = [bool(out[k]) for k in range(room)]
        for k in range(room):
            out[k] = 0
        needs = [False] * self._args
        for place, want in zip(self._tensor_args, wanted, strict=True):
            needs[place] = want
        self.needs_input_grad = tuple(needs)
        result = self._function.backward(self, *self._gradients(given))
        results = result if isinstance(result, tuple) else (result,)
        if len(results) > self._args and all(g is None for g in results[self._args :]):
            results = results[: self._args]
        if len(results) != self._args:
            raise GradinoError(f"function {name} returned an incorrect number of gradients (expected {self._args}, got {len(results)})")
        for place, g in enumerate(results):
            if g is None:
                continue
            if place not in self._tensor_args:
                raise GradinoError(
                    f"function {name} returned a gradient different from None at position {place + 1}, but the corresponding forward input "
                    "was not a Tensor"
                )
            if not isinstance(g, Tensor):
                raise TypeError(f"function {name}: expected Tensor or None as gradient {place}, got {shown(g)}")
            k = self._tensor_args.index(place)
            if wanted[k]:
                out[k] = self._fitted(place, g, *self._inputs[k])._h

    _inputs: list[tuple[tuple[int, ...], Any]]

    def _fitted(self, place: int, g: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
        """A gradient in shape and dtype of its input: broadcast dimensions are summed."""
        if g.dtype is not dtype:
            g = g.to(dtype)
        if g.shape == shape:
            return g
        own = (1,) * (g.ndim - len(shape)) + shape
        if len(shape) > g.ndim or any(a not in (b, 1) for a, b in zip(own, g.shape, strict=True)):
            raise GradinoError(
                f"Function {type(self).__name__} returned an invalid gradient at index {place} - got {list(g.shape)} but expected shape "
                f"compatible with {list(shape)}"
            )
        dims = [d for d, (a, b) in enumerate(zip(own, g.shape, strict=True)) if a != b]
        return (g.sum(dims) if dims else g).reshape(shape)

    def name(self) -> str:
        """Of the function's node in a graph."""
        return type(self).__name__


class Function:
    """Base of ops with a gradient of your own.

    Define the static methods ``forward`` and ``backward``, and call ``apply``. ``forward(ctx, *args)`` computes the
    result, without being recorded; what ``backward`` needs goes into ``ctx``. Or ``forward(*args)`` computes, and
    ``setup_context(ctx, inputs, output)`` fills ``ctx``. ``backward(ctx, *grads)`` takes a gradient for each output and
    returns one for each argument, None where there is none. It is recorded under ``create_graph=True``.

    ``vmap`` and forward mode (``jvp``) are not supported.

    >>> import gradino as gd
    >>> class Exp(gd.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = gd.tensor([0.0, 1.0], requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1.    , 2.7183])
    """

    _context: type[FunctionCtx] = FunctionCtx

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._context = type(f"{cls.__name__}Backward", (FunctionCtx,), {"_function": cls})

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """What the function computes; subclasses define it."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fill ``ctx`` after a ``forward`` that does not take it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments; subclasses define it."""
        raise NotImplementedError("You must implement the backward method for your custom autograd.Function to use it with backward.")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run the function, and remember it for backward."""
        if lib.gd_has_dropped():
            _calls.let_go()
        ctx = cls._context()
        places = tuple(k for k, a in enumerate(args) if isinstance(a, Tensor))
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        recording = is_grad_enabled() and any(ctx.needs_input_grad)
        before = [args[p]._version for p in places]
        with no_grad():
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
        return cls._recorded(ctx, args, places, output, before) if recording else output

    @classmethod
    def _recorded(cls, ctx: FunctionCtx, args: tuple[Any, ...], places: tuple[int, ...], output: Any, before: list[int]) -> Any:
        outputs = output if isinstance(output, tuple) else (output,)
        raw = [t for t in outputs if isinstance(t, Tensor)]
        marks = [t.dtype.is_floating_point and all(t is not f for f in ctx._fixed) for t in raw]
        ctx._args, ctx._tensor_args = len(args), places
        ctx._inputs = [(args[p].shape, args[p].dtype) for p in places]
        ctx._kinds = [(t.shape, t.dtype) if isinstance(t, Tensor) else None for t in outputs]
        dirty = [k for k, t in enumerate(raw) if any(t is d for d in ctx._dirty)]
        for t in ctx._dirty:
            if all(t is not r for r in raw):
                raise GradinoError(f"{cls.__name__}: tensors that were marked as dirty must be returned by forward")
            is_tracked(t)  # raises for a leaf
        if not any(marks):
            return output
        shown = [t.detach().clone() if k in dirty else t for k, t in enumerate(raw)]  # the node stands for a copy, which is written back
        ctx._keep(raw)
        made = ffi.new("gd_tensor[]", len(raw))
        number = _calls.number_of(ctx)
        try:
            check(
                lib.gd_custom(
                    number, [args[p]._h for p in places], len(places), [t._h for t in shown], len(raw), marks, bool(ctx._saved), made
                )
            )
        except BaseException:
            _calls.forget(number)
            raise
        ctx._outputs = ffi.unpack(made, len(raw))
        results = [wrap(h) for h in ctx._outputs]
        for k in dirty:
            results[k] = write(raw[k], results[k], 1)
        new = iter(results)
        result = tuple(next(new) if isinstance(t, Tensor) else t for t in outputs)
        return result if isinstance(output, tuple) else result[0]


class _Refused(Function):
    """Passes a gradient on whose own gradient nobody has written."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *others: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise GradinoError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """For a ``backward`` that cannot be differentiated itself: trying to raises an error."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        tracked = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
        if not is_grad_enabled() or not tracked:
            return outputs
        with enable_grad():
            result = tuple(
                _Refused.apply(o, *tracked) if isinstance(o, Tensor) else o for o in (outputs if isinstance(outputs, tuple) else (outputs,))
            )
        return result if isinstance(outputs, tuple) else result[0]

    return wrapper
