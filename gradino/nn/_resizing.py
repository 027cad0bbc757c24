"""Functions that resize planes, and that move elements between channels and places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradino._arguments import as_float, shown, whole
from gradino._core import call, wrap
from gradino._lib import ffi, lib
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.functions._sizes import per_dimension
from gradino.nn._pooling import adaptive_avg_pool1d, adaptive_avg_pool2d
from gradino.tensor import Tensor

__all__ = ["channel_shuffle", "interpolate", "pixel_shuffle", "pixel_unshuffle"]

_MODES = {"nearest": 0, "nearest-exact": 1, "linear": 2, "bilinear": 2, "area": -1}
_LATER = {"bicubic": "bicubic interpolation", "trilinear": "trilinear interpolation (of five dimensions)"}
_PAIR, _SCALES = ffi.typeof("int64_t[2]"), ffi.typeof("double[2]")


def _need_tensor(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise DTypeError(f"{name}: expected a Tensor, got {type(input).__name__}")


def _factors(value: Any, dims: int) -> list[float]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims
    if len(values) != dims:
        raise ShapeError(f"interpolate: scale_factor is {shown(value)} of {len(values)} numbers, must be one number or {dims}")
    factors = [as_float("interpolate: scale_factor", v) for v in values]
    if not all(0 < f < math.inf for f in factors):
        raise InvalidValueError(f"interpolate: scale_factor is {shown(value)}, must be above 0")
    return factors


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes the last dimension of (N, C, L) or the last two of (N, C, H, W).

    Args:
        size: the new size, or
        scale_factor: what sizes are multiplied with, rounded down.
        mode: ``"nearest"``, ``"nearest-exact"`` (the element whose centre is nearest), ``"linear"`` (N, C, L), ``"bilinear"``
            (N, C, H, W), ``"area"`` (means, as adaptive_avg_pool). ``"bicubic"`` is not supported.
        align_corners: for the linear modes: first and last elements stay where they are, instead of the edges.
        recompute_scale_factor: take the scale from the rounded sizes instead of ``scale_factor``.
        antialias: not supported.
    """
    _need_tensor("interpolate", input)
    if input.ndim not in (3, 4):
        raise ShapeError(f"interpolate: the input has shape {input.shape}, must be (N, C, L) or (N, C, H, W)")
    dims = input.ndim - 2
    kind = _kind(mode, dims, align_corners, antialias)
    if (size is None) == (scale_factor is None):
        raise InvalidValueError("interpolate: give either size or scale_factor" + (", not both" if size is not None else ""))
    factors = [0.0] * dims
    if size is not None:
        if recompute_scale_factor:
            raise InvalidValueError("interpolate: recompute_scale_factor is not meaningful with an explicit size")
        if isinstance(size, (tuple, list)) and len(size) != dims:
            raise ShapeError(f"interpolate: size is {shown(size)} of {len(size)} numbers, must be one number or {dims}")
        sizes = per_dimension("interpolate", "size", size, dims)
    else:
        factors = _factors(scale_factor, dims)
        sizes = tuple(math.floor(n * f) for n, f in zip(input.shape[2:], factors))
        if recompute_scale_factor:
            factors = [0.0] * dims
    if kind < 0:
        return (adaptive_avg_pool1d if dims == 1 else adaptive_avg_pool2d)(input, sizes)
    alone: list[Any] = [1] * (2 - dims)
    to, scales = ffi.new(_PAIR, [*alone, *sizes]), ffi.new(_SCALES, [*([0.0] * (2 - dims)), *factors])
    return wrap(lib.gd_resize(input._h, dims, to, kind, bool(align_corners), scales))


def _kind(mode: Any, dims: int, align_corners: Any, antialias: bool) -> int:
    """The library's number of a mode, after all that can be wrong with it."""
    if mode in _LATER:
        raise InvalidValueError(f"interpolate: {_LATER[mode]} is not supported")
    if mode not in _MODES or (mode == "linear" and dims == 2) or (mode == "bilinear" and dims == 1):
        fitting = ", ".join(repr(m) for m in _MODES if m != ("bilinear", "linear")[dims - 1])
        raise InvalidValueError(f"interpolate: mode is {shown(mode)}, must be one of {fitting} for {dims + 2} dimensions")
    if antialias:
        raise InvalidValueError("interpolate: antialias=True is not supported")
    if align_corners is not None and not mode.endswith("linear"):
        raise InvalidValueError(f"interpolate: align_corners is for the linear modes, not for {mode!r}")
    return _MODES[mode]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels become places: (.., C r r, H, W) -> (.., C, H r, W r), r = upscale_factor.

    Source: Shi et al., Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel CNN, 2016.
    """
    _need_tensor("pixel_shuffle", input)
    return call("pixel_shuffle", lib.gd_pixel_shuffle, input._h, whole("pixel_shuffle", "upscale_factor", upscale_factor), 0)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Places become channels: (.., C, H r, W r) -> (.., C r r, H, W), r = downscale_factor."""
    _need_tensor("pixel_unshuffle", input)
    return call("pixel_unshuffle", lib.gd_pixel_shuffle, input._h, whole("pixel_unshuffle", "downscale_factor", downscale_factor), 1)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleaves the groups of channels: channel j of group i becomes channel ``j groups + i``. (N, C, ...) -> the same.

    Source: Zhang et al., ShuffleNet, 2018.
    """
    _need_tensor("channel_shuffle", input)
    groups, shape = whole("channel_shuffle", "groups", groups), input.shape
    if len(shape) < 3:
        raise ShapeError(f"channel_shuffle: the input has shape {shape}, but must have at least three dimensions: (N, C, ...)")
    if groups < 1:
        raise InvalidValueError(f"channel_shuffle: groups is {groups}, must be at least 1")
    if shape[1] % groups:
        raise ShapeError(f"channel_shuffle: {shape[1]} channels cannot be shared by {groups} groups")
    if input.numel() == 0:
        return input
    return input.reshape(shape[0], groups, shape[1] // groups, -1).transpose(1, 2).reshape(shape)
