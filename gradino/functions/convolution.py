"""Convolutions and patches: what ``gradino.nn.functional`` and, as in PyTorch, the package itself offer of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from gradino._arguments import whole
from gradino._core import wrap
from gradino._lib import lib
from gradino.errors import InvalidValueError, ShapeError
from gradino.functions._arguments import _tensor
from gradino.tensor import Tensor

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

_NONE = lib.GD_ABSENT


def sizes(name: str, argument: str, value: Any, count: int) -> tuple[int, ...]:
    """One whole number for all dimensions of space, or a sequence of one or ``count``."""
    if isinstance(value, (tuple, list)):
        if len(value) not in (1, count):
            raise ShapeError(f"{name}: {argument} is {value}, must be one number or {count}")
        given = tuple(whole(name, argument, v) for v in value)
        return given * count if len(given) == 1 else given
    return (whole(name, argument, value),) * count


def paddings(
    name: str, padding: Any, stride: tuple[int, ...], dilation: tuple[int, ...], kernel: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Padding before and after, of each dimension of space: numbers, ``"valid"`` or ``"same"``."""
    count = len(stride)
    if not isinstance(padding, str):
        both = sizes(name, "padding", padding, count)
        if min(both, default=0) < 0:
            raise InvalidValueError(f"{name}: padding is {padding}: negative padding is not supported")
        return both, both
    if padding == "valid":
        return (0,) * count, (0,) * count
    if padding != "same":
        raise InvalidValueError(f"{name}: padding is {padding!r}, must be numbers, 'valid' or 'same'")
    if any(s != 1 for s in stride):
        raise InvalidValueError(f"{name}: padding='same' is not supported for strided convolutions, stride is {stride}")
    total = tuple(d * (k - 1) for d, k in zip(dilation, kernel))
    return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)


def _conv(dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any) -> Tensor:
    name = f"conv{dims}d"
    x, w = _tensor(name, input), _tensor(name, weight)
    b = _NONE if bias is None else _tensor(name, bias)._h
    step, spread = sizes(name, "stride", stride, dims), sizes(name, "dilation", dilation, dims)
    before, after = paddings(name, padding, step, spread, w.shape[2:] if isinstance(padding, str) else ())
    return wrap(lib.gd_conv_nd(dims, x._h, w._h, b, step, before, after, spread, whole(name, "groups", groups)))


def _conv_transpose(
    dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: Any, dilation: Any
) -> Tensor:
    name = f"conv_transpose{dims}d"
    x, w = _tensor(name, input), _tensor(name, weight)
    b = _NONE if bias is None else _tensor(name, bias)._h
    step, pad = sizes(name, "stride", stride, dims), sizes(name, "padding", padding, dims)
    extra, spread = sizes(name, "output_padding", output_padding, dims), sizes(name, "dilation", dilation, dims)
    return wrap(lib.gd_conv_transpose_nd(dims, x._h, w._h, b, step, pad, extra, spread, whole(name, "groups", groups)))


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Sums of products of ``weight`` with the windows of ``input`` along its last dimension.

    Shapes: input (N, C, L) or (C, L), weight (O, C / groups, K), bias (O); result (N, O, L') or (O, L') with
    ``L' = (L + 2 padding - dilation (K - 1) - 1) // stride + 1``. ``padding="same"`` keeps L, ``"valid"`` is 0.

    Raises:
        ShapeError: if shapes do not belong together, or the kernel is larger than the padded input.
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Sums of products of ``weight`` with the windows of ``input`` along its last two dimensions.

    Shapes: input (N, C, H, W) or (C, H, W), weight (O, C / groups, KH, KW), bias (O); result (N, O, H', W') or
    (O, H', W') with ``H' = (H + 2 padding - dilation (KH - 1) - 1) // stride + 1``, W' likewise.
    ``padding="same"`` keeps H and W, ``"valid"`` is 0.

    Raises:
        ShapeError: if shapes do not belong together, or the kernel is larger than the padded input.
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transpose of :func:`conv1d`: what its gradient does to its input.

    Shapes: input (N, C, L) or (C, L), weight (C, O / groups, K), bias (O); result (N, O, L') or (O, L') with
    ``L' = (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1``.

    Raises:
        ShapeError: if shapes do not belong together, or the result would be empty.
        InvalidValueError: if output_padding is below neither stride nor dilation.
    """
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The transpose of :func:`conv2d`: what its gradient does to its input.

    Shapes: input (N, C, H, W) or (C, H, W), weight (C, O / groups, KH, KW), bias (O); result (N, O, H', W') or
    (O, H', W') with ``H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1``, W' likewise.

    Raises:
        ShapeError: if shapes do not belong together, or the result would be empty.
        InvalidValueError: if output_padding is below neither stride nor dilation.
    """
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _three(name: str) -> NoReturn:
    raise ShapeError(f"{name}: tensors have at most four dimensions here, three-dimensional convolutions need five")


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Not supported: raises a ShapeError that says that tensors have at most four dimensions."""
    _three("conv3d")


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Not supported: raises a ShapeError that says that tensors have at most four dimensions."""
    _three("conv_transpose3d")


# ---- Patches: in nn.functional only, as in PyTorch ------------------------------------------------------------------------


def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """All patches of images as columns, zeros outside of the image.

    Shapes: input (N, C, H, W) or (C, H, W); result (N, C KH KW, L) or (C KH KW, L), L patches in rows from the top left on.
    """
    x = _tensor("unfold", input)
    numbers = (
        sizes("unfold", n, v, 2)
        for n, v in (("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride))
    )
    return wrap(lib.gd_im2col(x._h, *numbers))


def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Images whose patches are the columns of ``input``, added up where they overlap.

    Shapes: input (N, C KH KW, L) or (C KH KW, L); result (N, C, *output_size) or (C, *output_size).
    """
    x = _tensor("fold", input)
    given = (("output_size", output_size), ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride))
    return wrap(lib.gd_col2im(x._h, *(sizes("fold", n, v, 2) for n, v in given)))
