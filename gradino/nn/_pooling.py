"""Functions that pool windows of one or two dimensions, and undo that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino._arguments import as_float, shown, whole
from gradino._core import call, wrap
from gradino._lib import ffi, lib
from gradino.errors import DTypeError, InvalidValueError, OutOfRangeError, ShapeError
from gradino.functions._sizes import Size, per_dimension
from gradino.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices", "avg_pool1d", "avg_pool2d", "lp_pool1d", "lp_pool2d", "max_pool1d", "max_pool1d_with_indices",
    "max_pool2d", "max_pool2d_with_indices", "max_unpool1d", "max_unpool2d",
]  # fmt: skip

_SIZES = {n: ffi.typeof(f"int64_t[{n}]") for n in (2, 6, 8)}


def _need_tensor(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise DTypeError(f"{name}: expected a Tensor, got {type(input).__name__}")


def _sizes(name: str, dims: int, arguments: tuple[tuple[str, Any, int], ...]) -> Any:
    """Numbers for (height, width) of each argument, as the library takes them; one dimension is a width."""
    numbers: list[int] = []
    for argument, value, alone in arguments:
        got = per_dimension(name, argument, value, dims)
        numbers += (alone, *got) if dims == 1 else got
    return ffi.new(_SIZES[len(numbers)], numbers)


def _stride(kernel_size: Any, stride: Any) -> Any:
    return kernel_size if stride is None or stride == [] or stride == () else stride


def _max_pool(
    dims: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, return_indices: bool
) -> Tensor | tuple[Tensor, Tensor]:
    name = f"max_pool{dims}d"
    _need_tensor(name, input)
    sizes = _sizes(
        name,
        dims,
        (
            ("kernel_size", kernel_size, 1),
            ("stride", _stride(kernel_size, stride), 1),
            ("padding", padding, 0),
            ("dilation", dilation, 1),
        ),
    )
    y = wrap(lib.gd_max_pool(input._h, dims, sizes, bool(ceil_mode), bool(return_indices)))
    return (y, wrap(lib.gd_output(y._h, 1))) if return_indices else y


def max_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window along the last dimension; a NaN wins.

    Shapes: input (N, C, L) or (C, L); result (N, C, windows). With ``return_indices`` also the int64 places in the row.
    ``stride`` None: the kernel size. Padding counts as -inf, at most half of a window.
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of the last two dimensions; a NaN wins.

    Shapes: input (N, C, H, W) or (C, H, W); result (N, C, windows, windows). With ``return_indices`` also the int64
    places in the plane, row by row. ``stride`` None: the kernel size. Padding counts as -inf, at most half of a window.
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """:func:`max_pool1d` and the places of the maxima."""
    result: tuple[Tensor, Tensor] = max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)
    return result


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """:func:`max_pool2d` and the places of the maxima."""
    result: tuple[Tensor, Tensor] = max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)
    return result


def _avg_pool(
    dims: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor: int | None
) -> Tensor:
    name = f"avg_pool{dims}d"
    _need_tensor(name, input)
    if divisor is not None and (whole(name, "divisor_override", divisor) == 0):
        raise InvalidValueError(f"{name}: divisor_override is 0, must be another number")
    sizes = _sizes(name, dims, (("kernel_size", kernel_size, 1), ("stride", _stride(kernel_size, stride), 1), ("padding", padding, 0)))
    return wrap(lib.gd_avg_pool(input._h, dims, sizes, bool(ceil_mode), bool(count_include_pad), divisor or 0))


def avg_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window along the last dimension.

    Shapes: input (N, C, L) or (C, L); result (N, C, windows). Padding is zeros, which count unless
    ``count_include_pad`` is False.
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of the last two dimensions.

    Shapes: input (N, C, H, W) or (C, H, W); result (N, C, windows, windows). Padding is zeros, which count unless
    ``count_include_pad`` is False. ``divisor_override``: what sums are divided by instead of the number of elements.
    """
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _adaptive(dims: int, input: Tensor, output_size: Any, largest: bool, return_indices: bool) -> Any:
    name = f"adaptive_{'max' if largest else 'avg'}_pool{dims}d"
    _need_tensor(name, input)
    parts = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * dims
    if len(parts) == 1:
        parts = parts * dims
    if len(parts) != dims:
        raise ShapeError(f"{name}: output_size is {shown(output_size)} of {len(parts)} numbers, must be one number or {dims}")
    numbers = [-1 if part is None else whole(name, "output_size", part) for part in parts]
    if any(n < 0 and part is not None for n, part in zip(numbers, parts)):
        raise InvalidValueError(f"{name}: output_size is {tuple(parts)}, must be at least 0")
    y = wrap(lib.gd_adaptive_pool(input._h, dims, ffi.new(_SIZES[2], [-1] * (2 - dims) + numbers), largest, return_indices))
    return (y, wrap(lib.gd_output(y._h, 1))) if return_indices else y


def adaptive_avg_pool1d(input: Tensor, output_size: Size) -> Tensor:
    """The mean of ``output_size`` windows that cover the last dimension: (N, C, L) or (C, L) -> (.., output_size)."""
    result: Tensor = _adaptive(1, input, output_size, False, False)
    return result


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """The mean of windows that cover the last two dimensions: (N, C, H, W) or (C, H, W) -> (.., *output_size).

    None keeps a size. Window o of n covers elements ``floor(o H / n)`` to ``ceil((o + 1) H / n)``.
    """
    result: Tensor = _adaptive(2, input, output_size, False, False)
    return result


def adaptive_max_pool1d(input: Tensor, output_size: Size, return_indices: bool = False) -> Any:
    """The largest of ``output_size`` windows that cover the last dimension; with ``return_indices`` also their places."""
    return _adaptive(1, input, output_size, True, bool(return_indices))


def adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> Any:
    """The largest of windows that cover the last two dimensions; with ``return_indices`` also their places in the plane."""
    return _adaptive(2, input, output_size, True, bool(return_indices))


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Size, return_indices: bool = False) -> tuple[Tensor, Tensor]:
    """:func:`adaptive_max_pool1d` and the places of the maxima."""
    result: tuple[Tensor, Tensor] = _adaptive(1, input, output_size, True, True)
    return result


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """:func:`adaptive_max_pool2d` and the places of the maxima."""
    result: tuple[Tensor, Tensor] = _adaptive(2, input, output_size, True, True)
    return result


def _power_mean(dims: int, input: Tensor, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    name = f"lp_pool{dims}d"
    _need_tensor(name, input)
    p = as_float(f"{name}: norm_type", norm_type)
    if p == 0:
        raise InvalidValueError(f"{name}: norm_type is 0, must be another number")
    window = 1
    for n in per_dimension(name, "kernel_size", kernel_size, dims):
        window *= n
    mean = _avg_pool(dims, input**p, kernel_size, stride, 0, ceil_mode, True, None)
    return (mean.sign() * mean.abs().relu() * window) ** (1 / p)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False) -> Tensor:
    """``sum(x^p)^(1/p)`` of each window along the last dimension, p = norm_type. Shapes as in :func:`avg_pool1d`."""
    return _power_mean(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False) -> Tensor:
    """``sum(x^p)^(1/p)`` of each window of the last two dimensions, p = norm_type. Shapes as in :func:`avg_pool2d`."""
    return _power_mean(2, input, norm_type, kernel_size, stride, ceil_mode)


def _unpool(dims: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Tensor:
    name = f"max_unpool{dims}d"
    for t in (input, indices):
        _need_tensor(name, t)
    kernel = per_dimension(name, "kernel_size", kernel_size, dims)
    step = per_dimension(name, "stride", _stride(kernel_size, stride), dims)
    pad = per_dimension(name, "padding", padding, dims)
    if input.ndim not in (dims + 1, dims + 2) or indices.shape != input.shape:
        raise ShapeError(
            f"{name}: the input has shape {input.shape}, indices {indices.shape}: both must be (N, C, ...) or (C, ...), and equal"
        )
    natural = [(n - 1) * s - 2 * p + k for n, k, s, p in zip(input.shape[-dims:], kernel, step, pad)]
    sizes = natural
    if output_size is not None:
        sizes = [whole(name, "output_size", n) for n in tuple(output_size)[-dims:]]
        if len(output_size) not in (dims, input.ndim) or any(abs(n - m) >= s for n, m, s in zip(sizes, natural, step)):
            raise InvalidValueError(
                f"{name}: output_size is {tuple(output_size)}, must end with sizes within one stride of {tuple(natural)}"
            )
    room = 1
    for n in sizes:
        room *= n
    if indices.numel() and not 0 <= indices.amin().item() <= indices.amax().item() < room:
        raise OutOfRangeError(f"{name}: indices must be in [0, {room}), the places of an output of {tuple(sizes)}")
    places = ffi.new(_SIZES[2], [0] * (2 - dims) + sizes)
    return call(name, lib.gd_max_unpool, input._h, indices._h, dims, places)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the input at the places that :func:`max_pool1d` gave; of several values at one place the last stays.

    Shapes: input and indices (N, C, L) or (C, L); result the size that was pooled, or ``output_size``.
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the input at the places that :func:`max_pool2d` gave; of several values at one place the last stays.

    Shapes: input and indices (N, C, H, W) or (C, H, W); result the size that was pooled, or ``output_size``.
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)
