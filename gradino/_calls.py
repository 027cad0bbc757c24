"""How backward calls Python, and what lives in Python as long as tensors of the library do."""

from __future__ import annotations

import itertools
import threading
import traceback
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NoReturn

from gradino import _core, arena
from gradino._lib import callback_errors, check, ffi, lib, raise_error
from gradino.errors import GradinoError

__all__ = ["HookHandle", "RemovableHandle", "attach", "backward_failed", "backward_is_done", "forget", "hook", "let_go", "move", "ran"]

# By number: contexts of custom functions, hooks of tensors, places where ops were called. Until their tensors are gone.
_objects: dict[int, Any] = {}
_numbers = itertools.count(1)
_hooks: dict[int, _Hooks] = {}  # by handle
_made: dict[int, _Made] = {}  # by handle
_TAKE = 256


class _Ran(threading.local):
    """Numbers of the custom functions whose backward this thread's backward has called."""

    def __init__(self) -> None:
        self.numbers: list[int] = []


ran = _Ran()


class RemovableHandle:
    """What registering a hook returns: ``remove()`` takes the hook away. As a context manager it does so at the end."""

    _next_id = itertools.count()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = next(RemovableHandle._next_id)
        extra = extra_dict if isinstance(extra_dict, list) else [] if extra_dict is None else [extra_dict]
        self._extra = [weakref.ref(d) for d in extra]

    def remove(self) -> None:
        """Take the hook away; a second time nothing happens."""
        for ref in (self.hooks_dict_ref, *self._extra):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class HookHandle(RemovableHandle):
    """Of a tensor's hook: with the last one the library stops to ask."""

    _tensor: int = 0
    _kind: int = 0

    def remove(self) -> None:
        """Take the hook away; a second time nothing happens."""
        super().remove()
        hooks = self.hooks_dict_ref()
        if not hooks and lib.gd_check(self._tensor) >= 0:
            lib.gd_hook(self._tensor, self._kind, 0)
        lib.gd_clear_error()


class _Hooks:
    """The hooks of one tensor."""

    __slots__ = ("after", "before", "handle", "owner")

    def __init__(self, handle: int, owner: Any) -> None:
        self.handle = handle
        self.owner = weakref.ref(owner)
        self.before: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.after: OrderedDict[int, Callable[..., Any]] = OrderedDict()


class _Made:
    """Where an op was called, while anomalies are looked for."""

    __slots__ = ("handle", "where")

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.where = "".join(traceback.format_list(traceback.extract_stack()[:-2][-12:]))


def attach(handle: int, value: Any) -> int:
    """Keep ``value`` as long as the tensor ``handle``; returns its number."""
    number = next(_numbers)
    _objects[number] = value
    if lib.gd_attach(handle, number) < 0:
        del _objects[number]
        raise_error()
    return number


def number_of(value: Any) -> int:
    """A number for ``value``, which the caller binds to a tensor."""
    number = next(_numbers)
    _objects[number] = value
    return number


def value_of(number: int) -> Any:
    """What has this number, or None."""
    return _objects.get(number)


def forget(number: int) -> None:
    """Let go of what has this number."""
    _objects.pop(number, None)


def let_go() -> None:
    """Let go of what belongs to tensors that are gone."""
    while lib.gd_has_dropped():
        numbers = ffi.new("int64_t[]", _TAKE)
        for number in ffi.unpack(numbers, lib.gd_take_dropped(numbers, _TAKE)):
            value = _objects.pop(number, None)
            if isinstance(value, _Hooks):
                _hooks.pop(value.handle, None)
            elif isinstance(value, _Made):
                _made.pop(value.handle, None)


# ---- Hooks of tensors --------------------------------------------------------------------------------------------------


def hook(tensor: Any, kind: int, function: Callable[..., Any]) -> HookHandle:
    """Call ``function`` with the gradient of a tensor, or with a leaf whose ``.grad`` is complete."""
    check(lib.gd_hook(tensor._h, kind, 1))
    handle = int(tensor._h)
    hooks = _hooks.get(handle)
    if hooks is None:
        hooks = _Hooks(handle, tensor)
        attach(handle, hooks)
        _hooks[handle] = hooks
    functions = hooks.before if kind == lib.GD_CALL_HOOK else hooks.after
    removable = HookHandle(functions)
    removable._tensor, removable._kind = handle, kind
    functions[removable.id] = function
    return removable


def move(old: int, new: int) -> None:
    """A parameter stands for other memory: its hooks go there. ``new`` 0: they end."""
    hooks = _hooks.pop(old, None) if _hooks else None  # at the interpreter's end it is None
    if hooks is not None and new:
        hooks.handle = new
        _hooks[new] = hooks
        attach(new, hooks)
        for kind, functions in ((lib.GD_CALL_HOOK, hooks.before), (lib.GD_CALL_LEAF, hooks.after)):
            check(lib.gd_hook(new, kind, 1 if functions else 0))


def _hooked(tensor: int, given: Any, out: Any) -> None:
    hooks = _hooks.get(tensor)
    if hooks is None:
        return
    gradient = _core.wrap(given[0])
    for function in list(hooks.before.values()):
        result = function(gradient)
        if result is None:
            continue
        if not isinstance(result, _core.tensor_type()):
            raise TypeError(f"hook: it must return a Tensor or None, not {type(result).__name__}")
        if result.shape != gradient.shape:
            raise GradinoError(f"hook: it has changed the shape of the gradient from {gradient.shape} to {result.shape}")
        gradient = result
        out[0] = gradient._h


def _complete(tensor: int) -> None:
    hooks = _hooks.get(tensor)
    if hooks is None:
        return
    leaf = hooks.owner()
    if leaf is None or leaf._h != tensor:
        leaf = _core.wrap(tensor)
    for function in list(hooks.after.values()):
        function(leaf)


# ---- What the library calls ----------------------------------------------------------------------------------------------


def _failed(kind: Any, error: BaseException, trace: Any) -> None:
    """The error waits until the call of the library has ended: cffi returns GD_ERR_CALLBACK to it."""
    callback_errors.error = error.with_traceback(trace)


def _called(kind: int, number: int, tensor: int, given: Any, count: int, out: Any, room: int, create_graph: int) -> int:
    if kind == lib.GD_CALL_BACKWARD:
        context = _objects.get(number)
        if context is None:
            raise GradinoError("backward: the graph through a custom function was already used and freed; use retain_graph=True")
        context._run_backward(given, count, out, room)
        ran.numbers.append(number)
    elif kind == lib.GD_CALL_HOOK:
        _hooked(tensor, given, out)
    elif kind == lib.GD_CALL_LEAF:
        _complete(tensor)
    else:
        made = _Made(tensor)
        attach(tensor, made)
        _made[tensor] = made
    return 0


ffi.def_extern(name="gd_python_callback", error=lib.GD_ERR_CALLBACK, onerror=_failed)(_called)
lib.gd_set_callback(lib.gd_python_callback)
arena.let_go = let_go


def backward_failed() -> NoReturn:
    """Raise what went wrong in a backward, while anomalies are looked for with the place where its op was called."""
    del ran.numbers[:]
    made = _made.get(lib.gd_failed_node()) if _made else None
    if made is None:
        raise_error()
    try:
        raise_error()
    except GradinoError as error:
        raise type(error)(f"{error}\nThe op was called here:\n{made.where}") from None


def backward_is_done(before: int, keep: bool) -> None:
    """Custom functions that have run since ``before`` let go of what they saved, unless the graph is kept."""
    numbers = ran.numbers[before:]
    del ran.numbers[before:]
    if keep:
        return
    for number in numbers:
        context = _objects.get(number)
        if context is not None and context._used_up():
            del _objects[number]
