"""Arguments that hold one number for each dimension of space: kernel_size=3, or (3, 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino._arguments import shown, whole
from gradino.errors import ShapeError

__all__ = ["Size", "per_dimension"]

Size = int | Sequence[int]


def per_dimension(name: str, argument: str, value: Any, dims: int) -> tuple[int, ...]:
    """As many integers as there are dimensions; a single one stands for all."""
    if not isinstance(value, (tuple, list)):
        return (whole(name, argument, value),) * dims
    if len(value) == 1:
        return (whole(name, argument, value[0]),) * dims
    if len(value) != dims:
        raise ShapeError(f"{name}: {argument} is {shown(value)} of {len(value)} numbers, must be one number or {dims}")
    return tuple(whole(name, argument, v) for v in value)
