"""Hooks of modules: functions called before and after forward, backward, saving and loading, in PyTorch's order."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gradino._calls import RemovableHandle
from gradino.autograd.function import Function
from gradino.errors import GradinoError
from gradino.grad_mode import is_grad_enabled
from gradino.tensor import Tensor

if TYPE_CHECKING:
    from gradino.nn.module import Module

__all__ = ["HookLists", "Hooks"]

H = TypeVar("H", bound=Callable[..., Any])
Hook = Callable[..., Any]


class HookLists:
    """The hooks of one module; made when the first one is registered."""

    def __init__(self) -> None:
        self.forward_pre: OrderedDict[int, Hook] = OrderedDict()
        self.forward: OrderedDict[int, Hook] = OrderedDict()
        self.backward_pre: OrderedDict[int, Hook] = OrderedDict()
        self.backward: OrderedDict[int, Hook] = OrderedDict()
        self.state_pre: OrderedDict[int, Hook] = OrderedDict()
        self.state_post: OrderedDict[int, Hook] = OrderedDict()
        self.load_pre: OrderedDict[int, Hook] = OrderedDict()
        self.load_post: OrderedDict[int, Hook] = OrderedDict()
        self.pre_with_kwargs: OrderedDict[int, bool] = OrderedDict()
        self.with_kwargs: OrderedDict[int, bool] = OrderedDict()
        self.always: OrderedDict[int, bool] = OrderedDict()

    def call(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The module's forward with its hooks."""
        called: set[int] = set()
        try:
            return self._call(module, args, kwargs, called)
        except Exception:
            for key, hook in list(self.forward.items()):
                if key in self.always and key not in called:
                    try:
                        self._after(key, hook, module, args, kwargs, None)
                    except Exception as error:
                        warnings.warn(f"module forward hook with ``always_call=True`` raised an exception: {error}", stacklevel=3)
            raise

    def _call(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Any:
        for key, hook in list(self.forward_pre.items()):
            if key in self.pre_with_kwargs:
                both = hook(module, args, kwargs)
                if both is not None:
                    if not isinstance(both, tuple) or len(both) != 2:
                        raise GradinoError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {both}.")
                    args, kwargs = both
            else:
                new = hook(module, args)
                if new is not None:
                    args = new if isinstance(new, tuple) else (new,)
        backward = _BackwardHook(module, self) if self.backward or self.backward_pre else None
        if backward is not None:
            args = backward.inputs(args)
        result = module.forward(*args, **kwargs)
        for key, hook in list(self.forward.items()):
            called.add(key)
            new = self._after(key, hook, module, args, kwargs, result)
            if new is not None:
                result = new
        return result if backward is None else backward.outputs(result)

    def _after(self, key: int, hook: Hook, module: Module, args: Any, kwargs: Any, result: Any) -> Any:
        return hook(module, args, kwargs, result) if key in self.with_kwargs else hook(module, args, result)


class _Point(Function):
    """Passes tensors on, and shows the gradients that come back to a function, which may change them."""

    @staticmethod
    def forward(ctx: Any, show: Callable[[tuple[Any, ...]], Any], zeros: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.show = show
        ctx.set_materialize_grads(zeros)
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        changed = ctx.show(grads)
        return (None, None, *(grads if changed is None else changed))


class _BackwardHook:
    """Full backward hooks of one call of a module: a point before it and one after it, through which gradients come."""

    def __init__(self, module: Module, lists: HookLists) -> None:
        self._module = module
        self._hooks, self._pre_hooks = list(lists.backward.values()), list(lists.backward_pre.values())
        self._grad_outputs: tuple[Any, ...] | None = None
        self._inputs: list[int] | None = None  # places of tensors among the arguments
        self._outputs: list[int] = []
        self._count = 0

    def _through(
        self, show: Callable[[tuple[Any, ...]], Any], zeros: bool, args: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], list[int] | None]:
        places = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        if not is_grad_enabled() or not any(args[k].requires_grad for k in places):
            return args, None
        new = list(args)
        for k, t in zip(places, _Point.apply(show, zeros, *(args[k] for k in places)), strict=True):
            new[k] = t
        return tuple(new), places

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        args, self._inputs = self._through(self._input_gradients, True, args)
        self._count = len(args)
        return args

    def outputs(self, result: Any) -> Any:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                f"For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received {type(result)}",
                stacklevel=4,
            )
        several = isinstance(result, tuple)
        outs, places = self._through(self._output_gradients, False, result if several else (result,))
        self._outputs, self._outputs_count = places or [], len(outs)
        return outs if several else outs[0]

    _outputs_count = 0

    def _input_gradients(self, grads: tuple[Any, ...]) -> Any:
        if self._grad_outputs is None:  # a gradient that did not come through the outputs
            return None
        packed = _spread(grads, self._inputs or [], self._count)
        for hook in self._hooks:
            new = hook(self._module, packed, self._grad_outputs)
            if new is None:
                continue
            new = new if isinstance(new, tuple) else (new,)
            if len(new) != len(packed):
                raise GradinoError(f"Backward hook returned an invalid number of grad_input, got {len(new)}, but expected {len(packed)}")
            packed = new
        self._grad_outputs = None
        return tuple(packed[k] for k in self._inputs or [])

    def _output_gradients(self, grads: tuple[Any, ...]) -> Any:
        packed = _spread(grads, self._outputs, self._outputs_count)
        for hook in self._pre_hooks:
            new = hook(self._module, packed)
            if new is None:
                continue
            new = new if isinstance(new, tuple) else (new,)
            if len(new) != len(packed):
                raise GradinoError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(new)}, but expected {len(packed)}"
                )
            packed = new
        self._grad_outputs = packed
        if self._inputs is None:  # no input requires grad: nothing comes to the other point
            for hook in self._hooks:
                new = hook(self._module, (None,) * self._count, packed)
                if new is not None and not (isinstance(new, tuple) and all(g is None for g in new)):
                    raise GradinoError("Backward hook for Modules where no input requires gradient should always return None.")
            self._grad_outputs = None
        return tuple(packed[k] for k in self._outputs)


def _spread(values: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
    result: list[Any] = [None] * count
    for k, value in zip(places, values, strict=True):
        result[k] = value
    return tuple(result)


def _put(hooks: OrderedDict[int, Hook], hook: Hook, prepend: bool = False, *extra: OrderedDict[int, bool]) -> RemovableHandle:
    handle = RemovableHandle(hooks, extra_dict=list(extra))
    hooks[handle.id] = hook
    for flags in extra:
        flags[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Hooks:
    """The methods of Module that register hooks. Each returns a handle whose ``remove()`` takes the hook away."""

    _lists: HookLists | None = None

    def _own_lists(self) -> HookLists:
        if self._lists is None:
            self.__dict__["_lists"] = HookLists()
        assert self._lists is not None
        return self._lists

    def register_forward_pre_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Call ``hook(module, args)`` before forward; what it returns, unless None, are the new arguments.

        With ``with_kwargs`` it is ``hook(module, args, kwargs)``, which returns both. ``prepend``: before those that are there.
        """
        lists = self._own_lists()
        return _put(lists.forward_pre, hook, prepend, *([lists.pre_with_kwargs] if with_kwargs else []))

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after forward; what it returns, unless None, is the new output.

        With ``with_kwargs`` it is ``hook(module, args, kwargs, output)``. ``always_call``: also if forward raises.
        """
        lists = self._own_lists()
        extra = ([lists.with_kwargs] if with_kwargs else []) + ([lists.always] if always_call else [])
        return _put(lists.forward, hook, prepend, *extra)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the outputs are there; it may return other ones."""
        return _put(self._own_lists().backward_pre, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are there; it may return other ones."""
        return _put(self._own_lists().backward, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """PyTorch's old kind, which saw the gradients of the last op only, is not supported: use the full one."""
        raise GradinoError("register_backward_hook is not supported; use register_full_backward_hook")

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict`` reads the module."""
        return _put(self._own_lists().state_pre, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)``, which may change the dict, after ``state_dict`` has filled it."""
        return _put(self._own_lists().state_post, hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`` before loading.

        It may change the dict, which is a copy, and add messages, which are raised.
        """
        return _put(self._own_lists().load_pre, hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it may change the two lists, which are raised if ``strict``."""
        return _put(self._own_lists().load_post, hook)

    @property
    def _forward_hooks(self) -> OrderedDict[int, Hook]:
        return self._own_lists().forward

    @property
    def _forward_pre_hooks(self) -> OrderedDict[int, Hook]:
        return self._own_lists().forward_pre

    @property
    def _backward_hooks(self) -> OrderedDict[int, Hook]:
        return self._own_lists().backward
