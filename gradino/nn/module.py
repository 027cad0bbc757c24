"""Module: a tree of parameters and buffers with a forward."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from gradino import dtypes
from gradino._construction import foreign_array
from gradino._lib import check, lib
from gradino.arena import step_arena
from gradino.devices import number_of, placed
from gradino.errors import DTypeError, GradinoError
from gradino.nn._hooks import Hooks
from gradino.nn._state import IncompatibleKeys, change_dtype, extra_states
from gradino.nn.parameter import Buffer, Parameter, as_buffer
from gradino.tensor import Tensor

__all__ = ["Module"]

M = TypeVar("M", bound="Module")


class Module(Hooks):
    """Base of all layers and models: assign parameters and modules as attributes, define ``forward``.

    >>> from gradino import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden, self.out = nn.Linear(4, 8), nn.Linear(8, 3)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())
    >>> [name for name, _ in Net().named_parameters()]
    ['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient: set[str]  # names of buffers that are not saved

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        start: Any = cls.__dict__.get("__init__")
        if cls.__module__.startswith("gradino.") and "device" in getattr(getattr(start, "__code__", None), "co_varnames", ()):
            cls.__init__ = placed(start)  # type: ignore[method-assign]

    def __init__(self) -> None:
        self.__dict__.update(_parameters={}, _buffers={}, _modules={}, _transient=set(), training=True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs) if self._lists is None else self._lists.call(self, args, kwargs)

    # ---- attributes ---------------------------------------------------------------------------------------
    # Parameters, buffers and modules stand in __dict__ (reading them costs nothing extra) and in a registry.

    def __getattr__(self, name: str) -> Any:
        hint = "" if "_parameters" in self.__dict__ else " (was super().__init__() called?)"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            if isinstance(value, (Parameter, Module)):
                raise AttributeError(f"{type(self).__name__}: call super().__init__() before assigning {name!r}, a {type(value).__name__}")
            object.__setattr__(self, name, value)
        elif isinstance(value, Parameter):
            self._enter("_parameters", name, value)
        elif name in own["_parameters"]:
            self._need(value, name, "Parameter", None)
            self._enter("_parameters", name, value)
        elif isinstance(value, Module):
            self._enter("_modules", name, value)
        elif name in own["_modules"]:
            self._need(value, name, "Module", None)
            self._enter("_modules", name, value)
        elif name in own["_buffers"]:
            self._need(value, name, "Tensor", Tensor)
            own["_buffers"][name] = own[name] = None if value is None else as_buffer(value, own["_buffers"][name])
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for registry in (self._parameters, self._buffers, self._modules):
            registry.pop(name, None)
        self._transient.discard(name)
        object.__delattr__(self, name)

    def _enter(self, registry: str, name: str, value: Any) -> None:
        own = self.__dict__
        for other in ("_parameters", "_buffers", "_modules"):
            if other != registry:
                own[other].pop(name, None)
        own["_transient"].discard(name)
        own[registry][name] = own[name] = value

    def _need(self, value: Any, name: str, what: str, kind: Any) -> None:
        if value is not None and (kind is None or not isinstance(value, kind)):
            raise TypeError(f"cannot assign to {type(self).__name__}.{name}: it must be a {what} or None, got {type(value).__name__}")

    def _check_name(self, registry: str, name: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before registering {name!r}")
        if not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: a name must be a str, got {type(name).__name__}")
        if not name or "." in name:
            raise KeyError(f"{type(self).__name__}: the name {name!r} must not be empty nor contain a dot")
        if name not in self.__dict__[registry] and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} has an attribute {name!r} already")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None reserves the name."""
        self._check_name("_parameters", name)
        self._need(param, name, "Parameter", Parameter)
        self._enter("_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the module but is not trained; it is saved unless ``persistent=False``.

        It is copied to permanent memory, and so is a tensor of a step arena that is assigned to it later.
        """
        self._check_name("_buffers", name)
        self._need(tensor, name, "Tensor", Tensor)
        self._enter("_buffers", name, None if tensor is None else Buffer(tensor))
        if not persistent:
            self._transient.add(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a child module; None reserves the name."""
        self._check_name("_modules", name)
        self._need(module, name, "Module", Module)
        self._enter("_modules", name, module)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module; None reserves the name."""
        self.register_module(name, module)

    # ---- walking the tree ---------------------------------------------------------------------------------

    def named_modules(self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all below it with dotted names, each once unless ``remove_duplicate=False``."""
        memo = set() if memo is None else memo
        if remove_duplicate:
            if id(self) in memo:
                return
            memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (m for _, m in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names, each once."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below, each once."""
        return (m for _, m in self.named_children())

    def _named(self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        tree = self.named_modules(None, prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        for path, module in tree:
            for name, value in module.__dict__[registry].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with dotted names; a shared one once unless ``remove_duplicate=False``."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, a shared one once; only the module's own with ``recurse=False``."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with dotted names."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name; ``""`` is this one."""
        module = self
        for name in target.split(".") if target else ():
            child = module._modules.get(name)
            if child is None:
                raise AttributeError(f"{type(self).__name__} has no module {target!r}: {type(module).__name__} has no {name!r}")
            module = child
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module in the place of a dotted name; with ``strict`` there must be one already."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not name or (strict and name not in owner._modules):
            raise AttributeError(f"{type(self).__name__} has no module {target!r} to replace")
        owner._modules.pop(name, None)
        owner.__dict__.pop(name, None)
        owner.register_module(name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name."""
        return self._get("_parameters", "parameter", target)  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name."""
        return self._get("_buffers", "buffer", target)  # type: ignore[no-any-return]

    def _get(self, registry: str, what: str, target: str) -> Any:
        if not isinstance(target, str):
            raise DTypeError(f"get_{what}: the name must be a str, got {type(target).__name__}")
        path, _, name = target.rpartition(".")
        found = self.get_submodule(path).__dict__[registry].get(name)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no {what} {target!r}")
        return found

    def apply(self: M, fn: Callable[[Module], None]) -> M:
        """Call ``fn`` on all modules, children first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def num_parameters(self) -> int:
        """Number of trained numbers."""
        return sum(p.numel() for p in self.parameters())

    # ---- modes --------------------------------------------------------------------------------------------

    def train(self: M, mode: bool = True) -> M:
        """Training mode: dropout is active."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be a bool, got {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Evaluation mode: dropout does nothing."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Freeze or unfreeze all parameters."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear all gradients; with ``set_to_none=False`` they become zeros."""
        for p in self.parameters():
            if set_to_none:
                check(lib.gd_set_grad(p._h, lib.GD_ABSENT))
            elif p.grad is not None:
                p.grad.detach().zero_()

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Convert all floating point parameters, their gradients and buffers to a dtype, move all to a device, in place.

        Takes a dtype, a device, both, or a tensor to be like. Parameters stay the same objects, but
        an optimizer made before holds on to the old memory and says so: make it afterwards.
        """
        dtype, device = _target(args, kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"to: a module can only be converted to a floating point dtype, not {dtype}")
        number = None if device is None else number_of("to", device)
        for p in self.parameters():
            if (dtype is not None and p.dtype is not dtype) or (number is not None and lib.gd_device_of(p._h) != number):
                p._become(dtype, device)
        for module in self.modules():
            for name, b in module._buffers.items():
                if b is None:
                    continue
                kind = dtype if dtype is not None and b.dtype.is_floating_point and b.dtype is not dtype else None
                if kind is not None or (number is not None and lib.gd_device_of(b._h) != number):
                    with step_arena():
                        module._buffers[name] = module.__dict__[name] = Buffer(b.to(dtype=kind, device=device))
        return self

    def float(self: M) -> M:
        """Parameters as float32."""
        return self.to(dtype="float32")

    def double(self: M) -> M:
        """Parameters as float64."""
        return self.to(dtype="float64")

    def half(self: M) -> M:
        """Parameters as float16."""
        return self.to(dtype="float16")

    def bfloat16(self: M) -> M:
        """Parameters as bfloat16."""
        return self.to(dtype="bfloat16")

    def cpu(self: M) -> M:
        """This module on the CPU."""
        return self.to(device="cpu")

    def cuda(self: M, device: Any = None) -> M:
        """This module on a CUDA device, by default the current one."""
        return self.to(device="cuda" if device is None else device)

    # ---- state --------------------------------------------------------------------------------------------

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Tensor]:
        """Parameters and buffers by dotted name, a shared one under each of its names.

        The tensors share memory with the module; with ``keep_vars=True`` they are the parameters themselves.
        """
        state: OrderedDict[str, Tensor] = OrderedDict() if destination is None else destination
        if any(m._lists is not None for m in self.modules()):
            self._save(state, prefix, keep_vars)
        else:
            for name, value in _saved(self):
                state[prefix + name] = value if keep_vars else value.detach()
        for name, module in extra_states(self).items():
            state[prefix + name] = module.get_extra_state()
        return state

    def _save(self, state: OrderedDict[str, Tensor], prefix: str, keep_vars: bool) -> None:
        """The module and those below it, with their hooks."""
        for hook in list(self._lists.state_pre.values()) if self._lists else ():
            hook(self, prefix, keep_vars)
        for name, value in _own(self):
            state[prefix + name] = value if keep_vars else value.detach()
        for name, module in self._modules.items():
            if module is not None:
                module._save(state, f"{prefix}{name}.", keep_vars)
        for hook in list(self._lists.state_post.values()) if self._lists else ():
            hook(self, state, prefix, {})

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Copy parameters and buffers from a mapping of tensors or arrays (also PyTorch's).

        Tied weights need to be there under one of their names only. With ``assign`` parameters and buffers take over the
        dtypes, too; parameters stay the same objects.

        Raises:
            GradinoError: if names are missing or too many (unless ``strict`` is False) or shapes differ;
                nothing is changed then.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: expected a mapping of names to tensors, got {type(state_dict).__name__}")
        problems: list[str] = []
        missing: list[str] = []
        unexpected: list[str] = []
        hooked = [(path, m) for path, m in self.named_modules() if m._lists is not None]
        if hooked:
            state_dict = OrderedDict(state_dict)
            for path, m in hooked:
                for hook in list(m._lists.load_pre.values()) if m._lists else ():
                    hook(m, state_dict, f"{path}." if path else "", {}, strict, missing, unexpected, problems)
        own, extra = dict(_saved(self)), extra_states(self)
        found = {id(own[name]) for name in own if name in state_dict}
        missing += [name for name, value in own.items() if name not in state_dict and id(value) not in found]
        missing += [name for name in extra if name not in state_dict]
        unexpected += [name for name in state_dict if name not in own and name not in extra]
        keys = IncompatibleKeys(missing, unexpected)
        last = [(m, hook) for _, m in reversed(hooked) for hook in (m._lists.load_post.values() if m._lists else ())]
        if not last:  # else they may change what is missing, and have the last word
            problems += _key_problems(keys, strict)
        values = {name: foreign_array(state_dict[name]) for name in own if name in state_dict}
        for name, value in values.items():
            if tuple(value.shape) != own[name].shape:
                problems.append(f"size mismatch for {name}: the state_dict has {tuple(value.shape)}, the module {own[name].shape}.")
        if problems:
            raise GradinoError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(problems))
        with step_arena():
            for name, value in values.items():
                source = value if isinstance(value, Tensor) else Tensor(value)
                if assign and source.dtype is not own[name].dtype:
                    own[name] = change_dtype(self, name, source.dtype)
                own[name].detach().copy_(source)
        for name, module in extra.items():
            if name in state_dict:
                module.set_extra_state(state_dict[name])
        for m, hook in last:
            if hook(m, keys) is not None:
                raise AssertionError("Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values")
        if last and (problems := _key_problems(keys, strict)):
            raise GradinoError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(problems))
        return keys

    def get_extra_state(self) -> Any:
        """What a module saves besides tensors: override it together with ``set_extra_state``."""
        raise GradinoError(f"{type(self).__name__}: set_extra_state needs get_extra_state beside it")

    def set_extra_state(self, state: Any) -> None:
        """Takes over what ``get_extra_state`` gave."""
        raise GradinoError(f"{type(self).__name__}: get_extra_state needs set_extra_state beside it")

    # ---- display ------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the brackets of the module's own line."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not children and len(lines) < 2:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines + children) + "\n)"


def _saved(root: Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and saved buffers of a tree, under all of their names."""
    for path, module in root.named_modules(remove_duplicate=False):
        for name, value in _own(module):
            yield (f"{path}.{name}" if path else name), value


def _own(module: Module) -> Iterator[tuple[str, Tensor]]:
    """A module's own parameters and saved buffers."""
    for registry in (module._parameters, module._buffers):
        for name, value in registry.items():
            if value is not None and name not in module._transient:
                yield name, value


def _key_problems(keys: IncompatibleKeys, strict: bool) -> list[str]:
    """What a strict load says about the names."""
    problems = []
    if strict and keys.unexpected_keys:
        problems.append(f"Unexpected key(s) in state_dict: {', '.join(map(repr, keys.unexpected_keys))}.")
    if strict and keys.missing_keys:
        problems.append(f"Missing key(s) in state_dict: {', '.join(map(repr, keys.missing_keys))}.")
    return problems


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dtypes.dtype | None, Any]:
    """The dtype and the device that the arguments of ``Module.to`` ask for."""
    unknown = set(kwargs) - {"device", "dtype", "non_blocking", "copy", "tensor"}
    if unknown:
        raise TypeError(f"to: unknown arguments {sorted(unknown)}")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for arg in (*args, kwargs.get("tensor")):
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif (isinstance(arg, str) and arg.split(":")[0] in ("cpu", "cuda")) or type(arg) is int:
            device = arg
        elif arg is not None and not isinstance(arg, bool):
            dtype = arg
    return None if dtype is None else dtypes.resolve(dtype), device
