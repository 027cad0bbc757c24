"""Containers of modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

from gradino._arguments import whole
from gradino.errors import DTypeError, InvalidValueError, OutOfRangeError
from gradino.nn.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]

N = TypeVar("N", bound="_Numbered")


class _Numbered(Module):
    """Modules in order, named by their numbers unless names were given."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def append(self: N, module: Module) -> N:
        """Add a module at the end."""
        self.register_module(str(len(self._modules)), _module(self, module))
        return self

    def extend(self: N, modules: Iterable[Module]) -> N:
        """Add modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self: N, index: int, module: Module) -> N:
        """Add a module before ``index``; those after it are numbered anew."""
        modules, at = list(self), whole(type(self).__name__, "index", index)
        if not -len(modules) <= at <= len(modules):
            raise self._out_of_range(at)
        modules.insert(at, _module(self, module))
        self._replace(modules)
        return self

    def pop(self, key: int) -> Module:
        """Take a module out; those after it are numbered anew."""
        module: Module = self._modules[self._name(key)]
        del self[key]
        return module

    def _replace(self, modules: Iterable[Module]) -> None:
        modules = list(modules)
        for name in list(self._modules):
            delattr(self, name)
        self.extend(modules)

    def _name(self, index: Any) -> str:
        names, at = list(self._modules), whole(type(self).__name__, "index", index)
        if not -len(names) <= at < len(names):
            raise self._out_of_range(at)
        return names[at]

    def _out_of_range(self, index: int) -> IndexError:
        return OutOfRangeError(f"{type(self).__name__}: index {index} is out of range: there are {len(self)} modules")

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self: N, index: slice) -> N: ...
    def __getitem__(self: N, index: int | slice) -> Module | N:
        if isinstance(index, slice):
            return self._part(list(self._modules.items())[index])
        return self._modules[self._name(index)]

    def _part(self: N, named: list[tuple[str, Module]]) -> N:
        """A container of the same class with some of the modules."""
        return type(self)(module for _, module in named)  # type: ignore[call-arg]

    def __setitem__(self, index: int, module: Module) -> None:
        self.register_module(self._name(index), _module(self, module))

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [self._name(index)]:
            delattr(self, name)
        self._replace(self)


class Sequential(_Numbered):
    """Modules one after another: each takes the result of the one before.

    ``Sequential(a, b)`` names them ``"0"`` and ``"1"``, ``Sequential(OrderedDict(first=a, second=b))`` as given.

    >>> from gradino import nn
    >>> nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.register_module(name, _module(self, module))
        else:
            self.extend(args)  # type: ignore[arg-type]

    def forward(self, input: Any) -> Any:
        """Run all modules in order."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _part(self, named: list[tuple[str, Module]]) -> Sequential:
        return type(self)(OrderedDict(named))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return self.extend(list(other))

    def __mul__(self, times: int) -> Sequential:
        if isinstance(times, bool) or not isinstance(times, int):
            return NotImplemented
        if times < 1:
            raise InvalidValueError(f"Sequential: cannot be repeated {times} times")
        return Sequential(*(list(self) * times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        if isinstance(times, bool) or not isinstance(times, int):
            return NotImplemented
        if times < 1:
            raise InvalidValueError(f"Sequential: cannot be repeated {times} times")
        return self.extend(list(self) * (times - 1))


class ModuleList(_Numbered):
    """Modules in a list, whose parameters belong to the model.

    >>> from gradino import nn
    >>> layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
    >>> [name for name, _ in layers.named_parameters()]
    ['0.weight', '0.bias', '1.weight', '1.bias']
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])


class ModuleDict(Module):
    """Modules by name, whose parameters belong to the model."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update({} if modules is None else modules)

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add modules or put them in the place of others."""
        for name, module in modules.items():
            self[name] = module

    def clear(self) -> None:
        """Take all modules out."""
        for name in list(self._modules):
            del self[name]

    def pop(self, key: str) -> Module:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules."""
        return self._modules.items()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.register_module(name, _module(self, module))

    def __delitem__(self, name: str) -> None:
        if name not in self._modules:
            raise KeyError(name)
        delattr(self, name)


def _module(owner: Module, value: object) -> Module:
    if not isinstance(value, Module):
        raise DTypeError(f"{type(owner).__name__}: {value!r} is not a Module")
    return value
