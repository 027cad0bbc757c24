"""Containers of modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from gradino.nn.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class Sequential(Module):
    """Modules one after another: each takes the result of the one before.

    ``Sequential(a, b)`` names them ``"0"`` and ``"1"``, ``Sequential(OrderedDict(first=a, second=b))`` as given.

    >>> from gradino import nn
    >>> nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=True)
      (1): ReLU()
    )
    """

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            named: Iterable[tuple[str, Any]] = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self._add(name, module)

    def _add(self, name: str, module: Any) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"Sequential: {module!r} is not a Module")
        self.register_module(name, module)

    def _renumber(self, modules: Iterable[Module]) -> None:
        modules = list(modules)
        for name in list(self._modules):
            delattr(self, name)
        for i, module in enumerate(modules):
            self._add(str(i), module)

    def _name(self, index: int) -> str:
        names = list(self._modules)
        if not -len(names) <= index < len(names):
            raise IndexError(f"Sequential: index {index} is out of range: there are {len(names)} modules")
        return names[index]

    def forward(self, input: Any) -> Any:
        """Run all modules in order."""
        for module in self._modules.values():
            input = module(input)
        return input

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        self._add(str(len(self._modules)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Sequential:
        """Add modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before ``index``; those after it are numbered anew."""
        modules = list(self)
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Sequential: index {index} is out of range: there are {len(modules)} modules")
        if not isinstance(module, Module):
            raise TypeError(f"Sequential: {module!r} is not a Module")
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key: int) -> Module:
        """Take a module out; those after it are numbered anew."""
        module = self[key]
        del self[key]
        return module

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Module | Sequential:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        self._add(self._name(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [self._name(index)]:
            delattr(self, name)
        self._renumber(self)


class ModuleList(Module):
    """Modules in a list, whose parameters belong to the model.

    >>> from gradino import nn
    >>> layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
    >>> [name for name, _ in layers.named_parameters()]
    ['0.weight', '0.bias', '1.weight', '1.bias']
    """

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self.register_module(str(len(self._modules)), _module("ModuleList", module))
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Add a module before ``index``; those after it are numbered anew."""
        modules = list(self)
        modules.insert(index, _module("ModuleList", module))
        self._replace(modules)

    def _replace(self, modules: list[Module]) -> None:
        for name in list(self._modules):
            delattr(self, name)
        self.extend(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Module | ModuleList:
        found = list(self)[index]
        return ModuleList(found) if isinstance(found, list) else found

    def __setitem__(self, index: int, module: Module) -> None:
        names = list(self._modules)
        self.register_module(names[index], _module("ModuleList", module))

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        del modules[index]
        self._replace(modules)


class ModuleDict(Module):
    """Modules by name, whose parameters belong to the model."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add modules or put them in the place of others."""
        for name, module in modules.items():
            self[name] = module

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
        self.register_module(name, _module("ModuleDict", module))

    def __delitem__(self, name: str) -> None:
        if name not in self._modules:
            raise KeyError(name)
        delattr(self, name)


def _module(owner: str, value: object) -> Module:
    if not isinstance(value, Module):
        raise TypeError(f"{owner}: {value!r} is not a Module")
    return value
