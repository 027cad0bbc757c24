"""What a module's state is besides tensors, and what loading one reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gradino.nn.parameter import Buffer, Parameter

if TYPE_CHECKING:
    from gradino.nn.module import Module
    from gradino.tensor import Tensor

__all__ = ["IncompatibleKeys", "change_dtype", "extra_states"]


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict(strict=False)`` did not find, and what it found too much."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def extra_states(root: Module) -> dict[str, Module]:
    """The modules of a tree that save more than tensors, by the name that it has in a state dict."""
    from gradino.nn.module import Module

    found = {}
    for path, module in root.named_modules(remove_duplicate=False):
        if type(module).get_extra_state is not Module.get_extra_state:
            found[f"{path}._extra_state" if path else "_extra_state"] = module
    return found


def change_dtype(root: Module, name: str, dtype: Any) -> Tensor:
    """The parameter or buffer of a dotted name, as one of another dtype, whose values do not count."""
    path, _, last = name.rpartition(".")
    owner = root.get_submodule(path)
    value = owner.__dict__[last]
    if isinstance(value, Parameter):
        value._become(dtype)
        return value
    owner._buffers[last] = owner.__dict__[last] = Buffer(value.to(dtype))
    return owner.__dict__[last]  # type: ignore[no-any-return]
