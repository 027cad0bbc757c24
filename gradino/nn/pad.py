"""Padding: entries put around a tensor, or cut off it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino._arguments import as_float, shown, whole_number
from gradino._call import run
from gradino._core import sizes
from gradino._lib import op_id
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.tensor import Tensor

__all__ = ["pad"]

_PAD = op_id("pad")
_MODES = {"constant": 0, "reflect": 1, "replicate": 2, "circular": 3}


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """``input`` with entries around it: ``pad`` is (left, right) of the last dimension, then of the one before, and so on.

    Args:
        input: of any dtype; for the modes other than ``"constant"`` floating point, with one or two dimensions more than are padded.
        pad: at most as many pairs as there are dimensions; negative numbers cut entries off.
        mode: ``"constant"`` (``value``, 0 if not given), ``"reflect"`` (without the edge, padding less than the size), ``"replicate"``
            (the edge), ``"circular"`` (padding at most the size).

    >>> import gradino as gd
    >>> gd.nn.functional.pad(gd.arange(3.0), (1, 2))
    tensor([0., 0., 1., 2., 0., 0.])
    """
    if not isinstance(input, Tensor):
        raise DTypeError(f"pad: expected a Tensor, got {type(input).__name__}")
    if mode not in _MODES:
        raise InvalidValueError(f"pad: mode is {shown(mode)}, must be 'constant', 'reflect', 'replicate' or 'circular'")
    amounts, shape = sizes((pad,), "pad"), input.shape
    if len(amounts) % 2 or len(amounts) > 2 * len(shape):
        raise ShapeError(f"pad: {len(amounts)} numbers for shape {shape}: give a pair for each padded dimension, the last one first")
    number: Any = 0 if value is None else value
    if mode != "constant":
        _check_mode(mode, amounts, shape, value)
    if mode == "circular" and min(amounts) < 0:  # what is left goes round
        return pad_with(pad_with(input, [min(n, 0) for n in amounts], "constant", 0), [max(n, 0) for n in amounts], mode, number)
    return pad_with(input, amounts, mode, number)


def pad_with(input: Tensor, amounts: Sequence[int], mode: str, number: Any) -> Tensor:
    """``pad`` without its checks. ``"circular"`` goes round as often as it takes, and cuts what is negative off the result."""
    pairs = [(0, 0)] * (4 - len(amounts) // 2) + [(amounts[k], amounts[k + 1]) for k in range(len(amounts) - 2, -1, -2)]
    before, after = zip(*pairs)
    return run(_PAD, (input,), (_MODES[mode], *before, *after, whole_number("pad", number, input.dtype)), (as_float("pad", number),))


def _check_mode(mode: str, amounts: list[int], shape: tuple[int, ...], value: float | None) -> None:
    """What PyTorch asks of the modes that repeat entries."""
    if value:
        raise InvalidValueError(f"pad: mode {mode!r} takes no value")
    padded = len(amounts) // 2
    if padded not in (1, 2, 3) or len(shape) not in (padded + 1, padded + 2):
        raise ShapeError(
            f"pad: mode {mode!r} pads the last dimensions of a tensor that has one or two more; got {padded} for shape {shape}"
        )
    if mode == "circular":
        for k, amount in enumerate(amounts):
            if amount > shape[-1 - k // 2]:
                raise ShapeError(f"pad: circular padding {amount} is more than {shape[-1 - k // 2]}, the size of dimension {-1 - k // 2}")
