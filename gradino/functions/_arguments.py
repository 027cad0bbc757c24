"""What functions ask of their arguments before they call the method."""

from __future__ import annotations

from typing import Any

from gradino.errors import DTypeError
from gradino.tensor import Tensor

__all__ = ["_tensor"]


def _tensor(name: str, value: Any) -> Tensor:
    """The argument, which must be a tensor."""
    if not isinstance(value, Tensor):
        raise DTypeError(f"{name}: expected a Tensor, got {type(value).__name__}")
    return value
