"""What functions of layers and losses ask of their arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from gradino._arguments import flag
from gradino._in_place import changed
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.tensor import Tensor

__all__ = ["in_place", "reduced", "reduction_of", "refuse_input", "same_size"]

_REDUCTIONS = ("none", "mean", "sum")


def refuse_input(name: str, *operands: Any) -> None:
    """Raise if an operand is not a tensor. Called when one had no handle."""
    for operand in operands:
        if not isinstance(operand, Tensor):
            raise DTypeError(f"{name}: expected a Tensor, got {type(operand).__name__}")


def in_place(name: str, input: Tensor, inplace: bool, function: Callable[[Tensor], Tensor]) -> Tensor:
    """``function(input)``; with ``inplace`` the input holds the result, as in PyTorch, and is returned.

    Raises:
        GradinoError: for a leaf that requires grad.
    """
    refuse_input(name, input)
    if not flag(name, "inplace", inplace):
        return function(input)
    return changed(input, name, function)


def reduction_of(name: str, size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction, also from the arguments that PyTorch had before, of which it warns."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(f"{name}: size_average and reduce are deprecated, use reduction={reduction!r}", stacklevel=3)
    if not isinstance(reduction, str) or reduction not in _REDUCTIONS:
        raise InvalidValueError(f"{name}: reduction is {reduction!r}, must be 'none', 'mean' or 'sum'")
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean, the sum, or the losses as they are."""
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def same_size(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one shape. Other shapes are broadcast with a warning, as PyTorch does, because they are mostly a mistake."""
    refuse_input(name, input, target)
    if input.shape == target.shape:
        return input, target
    shape = broadcast_shape(name, tuple(input.shape), tuple(target.shape))
    warnings.warn(
        f"{name}: target has shape {tuple(target.shape)}, input {tuple(input.shape)}: they are broadcast to {shape}", stacklevel=3
    )
    return input.expand(shape), target.expand(shape)


def broadcast_shape(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that both broadcast to."""
    rank = max(len(a), len(b))
    wide_a, wide_b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(m != n and 1 not in (m, n) for m, n in zip(wide_a, wide_b)):
        raise ShapeError(f"{name}: input has shape {a} and target {b}: they must be equal, or broadcast")
    return tuple(n if m == 1 else m for m, n in zip(wide_a, wide_b))
