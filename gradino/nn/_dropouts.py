"""Dropout of whole channels, and dropout that keeps mean and variance."""

from __future__ import annotations

import math
import warnings

from gradino._arguments import probability
from gradino._core import wrap
from gradino._lib import lib
from gradino.errors import ShapeError
from gradino.factories import ones
from gradino.nn._checks import in_place, refuse_input
from gradino.tensor import Tensor

__all__ = ["alpha_dropout", "dropout1d", "dropout2d", "feature_alpha_dropout"]

_SATURATED = -1.7580993408473766  # selu(-inf)


def _mask(input: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """0 with probability p, else 1 / (1 - p); 0 everywhere for p = 1."""
    return wrap(lib.gd_dropout(ones(shape, dtype=input.dtype, device=input.device)._h, p, True))


def _channels(name: str, input: Tensor, batched: bool) -> tuple[int, ...]:
    """The shape of a mask over channels."""
    lead = 2 if batched else 1
    return tuple(input.shape[:lead]) + (1,) * (input.ndim - lead)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, L) or (C, L) with probability ``p`` and scales the rest by ``1/(1-p)``, in training only."""
    p = probability("dropout1d", "p", p)
    refuse_input("dropout1d", input)
    if input.ndim not in (2, 3):
        raise ShapeError(f"dropout1d: the input has shape {tuple(input.shape)}, must be (N, C, L) or (C, L)")
    if not training or p == 0:
        return input
    return in_place("dropout1d", input, inplace, lambda x: x * _mask(x, _channels("dropout1d", x, x.ndim == 3), p))


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of (N, C, H, W) with probability ``p`` and scales the rest by ``1/(1-p)``, in training only.

    Three dimensions are taken as (N, C, L), with a warning, as in PyTorch.
    """
    p = probability("dropout2d", "p", p)
    refuse_input("dropout2d", input)
    if input.ndim not in (3, 4):
        raise ShapeError(f"dropout2d: the input has shape {tuple(input.shape)}, must be (N, C, H, W)")
    if input.ndim == 3:
        warnings.warn("dropout2d: three dimensions are taken as (N, C, L); use dropout1d for them", stacklevel=2)
    if not training or p == 0:
        return input
    return in_place("dropout2d", input, inplace, lambda x: x * _mask(x, _channels("dropout2d", x, True), p))


def _alpha(name: str, input: Tensor, shape: tuple[int, ...], p: float, inplace: bool) -> Tensor:
    """Dropped elements become selu's saturation; then everything is scaled to the old mean and variance."""
    if p == 1:
        return in_place(name, input, inplace, lambda x: x * 0)
    scale = 1 / math.sqrt((_SATURATED**2 * p + 1) * (1 - p))

    def dropped(x: Tensor) -> Tensor:
        kept = _mask(x, shape, p) * (1 - p)
        return x * (kept * scale) + (1 - kept) * (_SATURATED * scale) - _SATURATED * scale * p

    return in_place(name, input, inplace, dropped)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout to selu's saturation, which keeps mean and variance, in training only.

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.
    """
    p = probability("alpha_dropout", "p", p)
    refuse_input("alpha_dropout", input)
    return _alpha("alpha_dropout", input, tuple(input.shape), p, inplace) if training and p else input


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels (the second dimension), in training only."""
    p = probability("feature_alpha_dropout", "p", p)
    refuse_input("feature_alpha_dropout", input)
    if input.ndim < 2:
        raise ShapeError(f"feature_alpha_dropout: the input has shape {tuple(input.shape)}, must have at least two dimensions")
    return _alpha("feature_alpha_dropout", input, _channels("feature_alpha_dropout", input, True), p, inplace) if training and p else input
