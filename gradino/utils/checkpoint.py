"""Checkpointing: parts of a model forget what they computed, and compute it again when backward needs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from gradino import _calls
from gradino._core import wrap
from gradino._lib import check, ffi, lib, raise_error
from gradino.arena import step_arena
from gradino.errors import GradinoError, InvalidValueError
from gradino.grad_mode import enable_grad, is_grad_enabled
from gradino.nn.container import Sequential
from gradino.tensor import Tensor

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn"]

_ONCE_AND_KEEPS_NOTHING = 3  # what the library needs to know about its nodes
_ARENA = 1023 << 26  # bits of a handle that say which arena


class CheckpointError(GradinoError):
    """The recomputation was not what the forward had been."""


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Contexts that do nothing, for the forward and for its recomputation."""
    return nullcontext(), nullcontext()


def _flatten(value: Any, found: list[Tensor]) -> Callable[[list[Tensor]], Any]:
    """Appends the tensors in tuples, lists and dicts; returns what puts others in their places."""
    if isinstance(value, Tensor):
        place = len(found)
        found.append(value)
        return lambda new: new[place]
    if isinstance(value, (tuple, list)):
        parts = [_flatten(v, found) for v in value]
        if hasattr(value, "_fields"):
            return lambda new: type(value)(*(p(new) for p in parts))
        return lambda new: type(value)(p(new) for p in parts)
    if isinstance(value, dict):
        named = {k: _flatten(v, found) for k, v in value.items()}
        return lambda new: type(value)((k, p(new)) for k, p in named.items())
    return lambda new: value


def _outside(outputs: list[Tensor], arena: Any) -> list[int]:
    """Handles of the tensors outside of the arena that the graph of ``outputs`` begins at, each once, in a fixed order."""
    room = 256
    handles = [t._h for t in outputs]
    while True:
        out = ffi.new("gd_tensor[]", room)
        count = check(lib.gd_graph_outside(handles, len(handles), arena, out, room))
        if count <= room:
            return list(dict.fromkeys(ffi.unpack(out, count)))
        room = count


class _Mode:
    """Random numbers and autocast as they are now."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self._rng = ffi.new("uint64_t[2]") if preserve_rng_state else None
        if self._rng is not None:
            lib.gd_get_rng_state(self._rng)
        self._autocast = lib.gd_autocast_dtype()

    def restore(self, stack: ExitStack) -> None:
        """As they were, until the stack is left."""
        if self._rng is not None:
            now = ffi.new("uint64_t[2]")
            lib.gd_get_rng_state(now)
            stack.callback(lib.gd_set_rng_state, now)
            lib.gd_set_rng_state(self._rng)

    def autocast(self, stack: ExitStack) -> None:
        """The same autocast; casts of weights are not shared with what is outside."""
        from gradino.amp import autocast
        from gradino.dtypes import BY_CODE

        if self._autocast >= 0:
            stack.enter_context(autocast("cpu", BY_CODE[self._autocast], cache_enabled=False))
        elif lib.gd_autocast_dtype() >= 0:
            stack.enter_context(autocast("cpu", enabled=False))


class _Frame:
    """One call that was checkpointed: what its recomputation needs."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, mode: _Mode, context: Any, compare: bool) -> None:
        self._function, self._args, self._kwargs = function, args, kwargs
        self._mode, self._context, self._compare = mode, context, compare
        self._inputs: list[int] = []  # handles that gradients go to
        self._versions: list[tuple[Tensor, int]] = []
        self._tracked: list[int] = []  # which tensors of the result have a gradient
        self._kinds: list[tuple[tuple[int, ...], Any]] = []

    def remember(self, inputs: list[int], results: list[Tensor], tracked: list[int]) -> None:
        self._inputs, self._tracked = inputs, tracked
        self._kinds = [(t.shape, t.dtype) for t in results]
        given: list[Tensor] = []
        _flatten((self._args, self._kwargs), given)
        self._versions = [(t, t._version) for t in (*given, *map(wrap, inputs))]

    def _check_unchanged(self) -> None:
        for t, version in self._versions:
            if t._version != version:
                raise CheckpointError(
                    f"checkpoint: a tensor of shape {t.shape} that the function read was changed in place since (version {version}, now "
                    f"{t._version}), so it cannot be computed again. Run optimizer.step() after backward()"
                )

    def _run(self) -> list[Tensor]:
        found: list[Tensor] = []
        with ExitStack() as stack:
            self._mode.restore(stack)
            self._mode.autocast(stack)
            stack.enter_context(enable_grad())
            stack.enter_context(self._context)
            _flatten(self._function(*self._args, **self._kwargs), found)
        if len(found) != len(self._kinds) or any(not found[k].requires_grad for k in self._tracked):
            raise CheckpointError("checkpoint: the recomputation gave other tensors than the forward, or some without a graph")
        if self._compare:
            for k, (t, (shape, dtype)) in enumerate(zip(found, self._kinds, strict=True)):
                if t.shape != shape or t.dtype is not dtype:
                    raise CheckpointError(
                        f"checkpoint: tensor {k} of the recomputation is {t.shape} {t.dtype}, that of the forward was {shape} {dtype}"
                    )
        return [found[k] for k in self._tracked]

    def _run_backward(self, given: Any, count: int, out: Any, room: int) -> None:
        wanted = [k for k in range(room) if out[k]]
        others = [k for k in range(room) if not out[k]]
        for k in range(room):
            out[k] = 0
        self._check_unchanged()
        create_graph = is_grad_enabled()
        target = lib.gd_arena_active()
        with nullcontext() if create_graph else step_arena():  # a graph of its own must last
            results = self._run()
            if not create_graph:
                unknown = set(_outside(results, lib.gd_arena_active())) - set(self._inputs)
                if unknown:
                    raise CheckpointError(
                        f"checkpoint: the recomputation used {len(unknown)} tensors with gradients that the forward had not"
                    )
            roots = [(t._h, given[k]) for k, t in enumerate(results) if given[k]]
            inputs = [self._inputs[k] for k in (*wanted, *others)]
            gradients = ffi.new("gd_tensor[]", len(inputs))
            status = lib.gd_grad_within(
                [h for h, _ in roots], [g for _, g in roots], len(roots), inputs, len(inputs), len(wanted), create_graph, gradients
            )
            if status < 0:
                _calls.backward_failed()
            for place, k in enumerate(wanted):
                g = gradients[place]
                if g:
                    out[k] = g if create_graph else lib.gd_copy_to(g, target) or raise_error()

    def _used_up(self) -> bool:
        return True


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, of which only the result is kept; backward computes the rest again.

    The function runs in an arena of its own, which is emptied when it returns: its result is copied out, and nothing else
    stays. Every tensor that its graph began at gets its gradient: arguments, parameters, and what it found elsewhere.
    Random numbers and autocast are in the recomputation as they were.

    Args:
        function: gives the same result each time; what it leaves elsewhere, in an attribute say, is gone when it returns.
        use_reentrant: PyTorch has two ways; there is one here, which can all that either can.
        preserve_rng_state: False: random numbers of the recomputation are new ones.
        context_fn: returns two contexts, for the forward and for its recomputation.
        determinism_check: "default" compares shapes and dtypes of both results, "none" does not.
        debug: not supported; what differs is named in any case.
        early_stop: may be given; the recomputation always runs to the function's end.

    Raises:
        CheckpointError: in backward, if the recomputation is not what the forward was, or if what it reads was changed.

    >>> import gradino as gd
    >>> from gradino.utils.checkpoint import checkpoint
    >>> x = gd.tensor([0.5, 2.0], requires_grad=True)
    >>> checkpoint(lambda t: t.exp().sin().square(), x).sum().backward()
    >>> x.grad
    tensor([-0.2559,  5.9226])
    """
    preserve = bool(kwargs.pop("preserve_rng_state", True))
    if kwargs and use_reentrant:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if debug:
        raise InvalidValueError("checkpoint: debug=True is not supported")
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    if use_reentrant and context_fn is not noop_context_fn:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    forward_context, backward_context = context_fn()
    if not is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    if lib.gd_has_dropped():
        _calls.let_go()
    mode = _Mode(preserve)
    frame = _Frame(function, args, kwargs, mode, backward_context, determinism_check == "default")
    target = lib.gd_arena_active()
    found: list[Tensor] = []
    with step_arena():
        inside = lib.gd_arena_active()
        with ExitStack() as stack:
            mode.autocast(stack)
            stack.enter_context(forward_context)
            rebuild = _flatten(function(*args, **kwargs), found)
        own = (lib.gd_arena_mark(inside) or raise_error()) & _ARENA
        tracked = [k for k, t in enumerate(found) if t.requires_grad]
        inputs = _outside([found[k] for k in tracked], inside)
        frame.remember(inputs, found, tracked)
        made = [t if t._h & _ARENA != own else wrap(lib.gd_copy_to(t._h, target)) for t in found]
    if tracked:
        outputs = ffi.new("gd_tensor[]", len(tracked))
        number = _calls.number_of(frame)
        handles = [made[k]._h for k in tracked]
        if lib.gd_custom(number, inputs, len(inputs), handles, len(handles), [True] * len(handles), _ONCE_AND_KEEPS_NOTHING, outputs) < 0:
            _calls.forget(number)
            raise_error()
        for place, k in enumerate(tracked):
            made[k] = wrap(outputs[place])
    return rebuild(made)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """Modules or functions one after the other, in segments of which all but the last are checkpointed.

    Args:
        functions: a Sequential, or several functions of one argument.
        segments: how many; about the square root of the number of functions takes the least memory.
        input: the argument of the first one.
        preserve_rng_state: as in :func:`checkpoint`.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children() if isinstance(functions, Sequential) else functions)

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return run

    size = len(steps) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(part(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)  # noqa: A001
    return part(end, len(steps))(input)
