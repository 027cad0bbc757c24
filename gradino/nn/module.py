"""Module: a tree of parameters and buffers with a forward."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from gradino._lib import check, lib
from gradino.errors import GradinoError
from gradino.nn.parameter import Parameter
from gradino.tensor import Tensor

__all__ = ["Module"]

M = TypeVar("M", bound="Module")


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict(strict=False)`` did not find, and what it found too much."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """Base of all layers and models: assign parameters and modules as attributes, define ``forward``."""

    training: bool = True

    def __init__(self) -> None:
        self.__dict__.update(_parameters={}, _buffers={}, _modules={}, training=True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it."""
        raise GradinoError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    # Parameters, buffers and modules stand in __dict__ (reading them costs nothing extra) and in a registry.

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            raise GradinoError(f"{type(self).__name__}: call super().__init__() before assigning attributes")
        parameters, buffers, modules = own["_parameters"], own["_buffers"], own["_modules"]
        if isinstance(value, Parameter):
            registry = parameters
        elif isinstance(value, Module):
            registry = modules
        elif name in buffers or (value is None and (name in parameters or name in modules)):
            registry = buffers if name in buffers else parameters if name in parameters else modules
        else:
            if name in parameters:
                raise TypeError(f"{type(self).__name__}.{name} is a Parameter; assign a Parameter or None, not {type(value).__name__}")
            modules.pop(name, None)
            own[name] = value
            return
        for other in (parameters, buffers, modules):
            if other is not registry:
                other.pop(name, None)
        registry[name] = own[name] = value

    def __delattr__(self, name: str) -> None:
        for registry in (self._parameters, self._buffers, self._modules):
            registry.pop(name, None)
        object.__delattr__(self, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None reserves the name."""
        self._parameters[name] = self.__dict__[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None) -> None:
        """Add a tensor that is saved with the module but not trained. It is copied to permanent memory."""
        from gradino.nn.parameter import Buffer

        self._buffers[name] = self.__dict__[name] = None if tensor is None else Buffer(tensor)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a child module."""
        self._modules[name] = self.__dict__[name] = module

    add_module = register_module

    # ---- walking the tree ---------------------------------------------------------------------------------

    def named_modules(self, memo: set[int] | None = None, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted names."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (m for _, m in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names."""
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        return (m for _, m in self.named_children())

    def _named(self, registry: str, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in getattr(module, registry).items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{prefix}.{name}" if prefix else name), value

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with dotted names; a shared one once."""
        return self._named("_parameters", remove_duplicate)

    def parameters(self) -> Iterator[Parameter]:
        """All parameters, a shared one once."""
        return (p for _, p in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """All buffers with dotted names."""
        return self._named("_buffers", True)

    def buffers(self) -> Iterator[Tensor]:
        """All buffers."""
        return (b for _, b in self.named_buffers())

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
        for module in self.modules():
            module.__dict__["training"] = mode
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
        """Clear all gradients."""
        for p in self.parameters():
            check(lib.gd_set_grad(p._h, 0))

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Convert all floating point parameters and buffers to a dtype, in place."""
        from gradino import dtypes

        target = kwargs.get("dtype") or next((a for a in args if not isinstance(a, str) or a in ("float32", "float64")), None)
        Tensor(0.0).to(*[a for a in args if isinstance(a, str) and a not in ("float32", "float64")], device=kwargs.get("device"))
        if target is None:
            return self
        dtype = dtypes.resolve(target)
        converted: dict[int, Parameter] = {}
        for module in self.modules():
            for name, p in module._parameters.items():
                if p is not None and p.dtype is not dtype:
                    if id(p) not in converted:
                        converted[id(p)] = Parameter(p.detach().to(dtype), p.requires_grad)
                    setattr(module, name, converted[id(p)])
            for name, b in module._buffers.items():
                if b is not None and b.dtype.is_floating_point:
                    module.register_buffer(name, b.to(dtype))
        return self

    def float(self: M) -> M:
        """Parameters as float32."""
        return self.to(dtype="float32")

    def double(self: M) -> M:
        """Parameters as float64."""
        return self.to(dtype="float64")

    # ---- state --------------------------------------------------------------------------------------------

    def state_dict(self) -> OrderedDict[str, Tensor]:
        """Parameters and buffers by dotted name. The tensors share memory with the module."""
        state: OrderedDict[str, Tensor] = OrderedDict()
        for prefix, module in self.named_modules():
            for registry in (module._parameters, module._buffers):
                for name, value in registry.items():
                    if value is not None:
                        state[f"{prefix}.{name}" if prefix else name] = value.detach()
        for name, value in self.named_parameters(remove_duplicate=False):
            state.setdefault(name, value.detach())
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy parameters and buffers from a mapping of tensors or arrays (also PyTorch's).

        Raises:
            GradinoError: if names are missing or too many (unless ``strict`` is False) or shapes differ;
                nothing is changed then.
        """
        own: dict[str, Tensor] = dict(self.named_parameters(remove_duplicate=False))
        own.update(self.named_buffers())
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        problems = []
        if strict and missing:
            problems.append(f"missing: {', '.join(missing)}")
        if strict and unexpected:
            problems.append(f"unexpected: {', '.join(unexpected)}")
        values = {name: _array(state_dict[name]) for name in own if name in state_dict}
        for name, value in values.items():
            if tuple(value.shape) != own[name].shape:
                problems.append(f"{name} has shape {tuple(value.shape)}, must be {own[name].shape}")
        if problems:
            raise GradinoError(f"load_state_dict of {type(self).__name__}: " + "; ".join(problems))
        for name, value in values.items():
            own[name].detach().copy_(value if isinstance(value, Tensor) else Tensor(value))
        return IncompatibleKeys(missing, unexpected)

    # ---- display ------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the brackets of the module's own line."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not lines:
            return f"{type(self).__name__}({self.extra_repr()})"
        body = "\n  ".join(([self.extra_repr()] if self.extra_repr() else []) + lines)
        return f"{type(self).__name__}(\n  {body}\n)"


def _array(value: Any) -> Any:
    """A tensor or NumPy array of a value that may come from another library."""
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    import numpy as np

    return np.asarray(value)
