"""Convolutional layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from gradino._arguments import whole
from gradino.errors import InvalidValueError, ShapeError
from gradino.functions import convolution as functions
from gradino.grad_mode import no_grad
from gradino.nn import functional as F
from gradino.nn.linear import parameter_dtype, uniform_parameter
from gradino.nn.module import Module
from gradino.nn.parameter import Parameter
from gradino.tensor import Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all have in common: numbers, a weight and a bias that start uniform in ``+-1 / sqrt(fan_in)``, as PyTorch's do."""

    dims: int
    transposed: bool
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int] | str,
        dilation: int | Sequence[int],
        output_padding: int | Sequence[int],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.in_channels, self.out_channels = whole(name, "in_channels", in_channels), whole(name, "out_channels", out_channels)
        self.groups = whole(name, "groups", groups)
        if (
            self.groups < 1
            or min(self.in_channels, self.out_channels) < 0
            or self.in_channels % self.groups
            or self.out_channels % self.groups
        ):
            raise InvalidValueError(
                f"{name}: {in_channels} and {out_channels} channels: they must be multiples of groups, {groups}, at least 1"
            )
        if padding_mode not in (("zeros",) if self.transposed else _MODES):
            only = "'zeros'" if self.transposed else "'zeros', 'reflect', 'replicate' or 'circular'"
            raise InvalidValueError(f"{name}: padding_mode is {padding_mode!r}, must be {only}")
        self.kernel_size = functions.sizes(name, "kernel_size", kernel_size, self.dims)
        self.stride = functions.sizes(name, "stride", stride, self.dims)
        self.dilation = functions.sizes(name, "dilation", dilation, self.dims)
        self.output_padding = functions.sizes(name, "output_padding", output_padding, self.dims)
        if self.transposed and isinstance(padding, str):
            raise InvalidValueError(f"{name}: padding is {padding!r}, must be numbers")
        before, after = functions.paddings(name, padding, self.stride, self.dilation, self.kernel_size)
        self.padding: tuple[int, ...] | str = padding if isinstance(padding, str) else before
        self.padding_mode = padding_mode
        self._around = tuple(n for pair in zip(before[::-1], after[::-1]) for n in pair)  # as F.pad takes it
        channels = (
            (self.in_channels, self.out_channels // self.groups)
            if self.transposed
            else (self.out_channels, self.in_channels // self.groups)
        )
        fan_in = channels[1] * math.prod(self.kernel_size)
        bound, kind = 1 / math.sqrt(fan_in) if fan_in else 0.0, parameter_dtype(dtype, device)
        self.weight = uniform_parameter((*channels, *self.kernel_size), bound, kind)
        if bias:
            self.bias = uniform_parameter((self.out_channels,), bound, kind)
        else:
            self.register_parameter("bias", None)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        with no_grad():
            for p in (self.weight, self.bias):
                if p is not None:
                    p.uniform_(-bound, bound)

    def _conv(self, input: Tensor) -> Tensor:
        conv = F.conv1d if self.dims == 1 else F.conv2d
        if self.padding_mode == "zeros":
            return conv(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._around, mode=self.padding_mode)
        return conv(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def _conv_transpose(self, input: Tensor, output_size: Sequence[int] | None) -> Tensor:
        conv = F.conv_transpose1d if self.dims == 1 else F.conv_transpose2d
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        assert not isinstance(self.padding, str)
        return conv(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _extra(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output_padding with which the result has this size."""
        name, leading = type(self).__name__, len(input.shape) - self.dims
        wanted = tuple(whole(name, "output_size", n) for n in output_size)
        if len(wanted) == len(input.shape):
            wanted = wanted[leading:]
        if len(wanted) != self.dims:
            raise InvalidValueError(f"{name}: output_size is {tuple(output_size)}, must have {self.dims} or {len(input.shape)} entries")
        assert not isinstance(self.padding, str)
        numbers = zip(input.shape[leading:], self.stride, self.padding, self.dilation, self.kernel_size)
        least = tuple((n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in numbers)
        extra = tuple(w - n for w, n in zip(wanted, least))
        if any(e < 0 or e >= s for e, s in zip(extra, self.stride)):
            most = tuple(n + s - 1 for n, s in zip(least, self.stride))
            raise InvalidValueError(f"{name}: output_size is {wanted}, must be from {least} to {most} for an input of {input.shape}")
        return extra

    def extra_repr(self) -> str:
        """Numbers that are not the default, as in PyTorch."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.dims:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self.dims:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvNd):
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode, device, dtype
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """(N, in_channels, ...) or (in_channels, ...) to the same with out_channels."""
        return self._conv(input)


class _ConvTranspose(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias, padding_mode, device, dtype
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(N, in_channels, ...) or (in_channels, ...) to the same with out_channels; ``output_size`` instead of output_padding."""
        return self._conv_transpose(input, output_size)


class Conv1d(_Conv):
    """Convolution along the last dimension; see :func:`gradino.nn.functional.conv1d`.

    Shapes: input (N, in_channels, L) or (in_channels, L), weight (out_channels, in_channels / groups, K), bias (out_channels).
    ``padding_mode`` other than ``"zeros"`` pads as :func:`gradino.nn.functional.pad` does.

    >>> import gradino as gd
    >>> gd.nn.Conv1d(2, 4, 3, padding=1)(gd.zeros(8, 2, 10)).shape
    (8, 4, 10)
    """

    dims = 1


class Conv2d(_Conv):
    """Convolution along the last two dimensions; see :func:`gradino.nn.functional.conv2d`.

    Shapes: input (N, in_channels, H, W) or (in_channels, H, W), weight (out_channels, in_channels / groups, KH, KW), bias
    (out_channels). ``padding_mode`` other than ``"zeros"`` pads as :func:`gradino.nn.functional.pad` does.

    >>> import gradino as gd
    >>> gd.nn.Conv2d(3, 16, 3, padding=1, stride=2)(gd.zeros(8, 3, 32, 32)).shape
    (8, 16, 16, 16)
    """

    dims = 2


class ConvTranspose1d(_ConvTranspose):
    """The transpose of a convolution along the last dimension; see :func:`gradino.nn.functional.conv_transpose1d`.

    Shapes: input (N, in_channels, L) or (in_channels, L), weight (in_channels, out_channels / groups, K), bias (out_channels).

    >>> import gradino as gd
    >>> gd.nn.ConvTranspose1d(4, 2, 4, stride=2, padding=1)(gd.zeros(8, 4, 10)).shape
    (8, 2, 20)
    """

    dims = 1


class ConvTranspose2d(_ConvTranspose):
    """The transpose of a convolution along the last two dimensions; see :func:`gradino.nn.functional.conv_transpose2d`.

    Shapes: input (N, in_channels, H, W) or (in_channels, H, W), weight (in_channels, out_channels / groups, KH, KW), bias
    (out_channels).

    >>> import gradino as gd
    >>> gd.nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1)(gd.zeros(8, 16, 8, 8)).shape
    (8, 3, 16, 16)
    """

    dims = 2


class _Three(Module):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class Conv3d(_Three):
    """Not supported: raises a ShapeError that says that tensors have at most four dimensions."""


class ConvTranspose3d(_Three):
    """Not supported: raises a ShapeError that says that tensors have at most four dimensions."""


def _refuse(name: str) -> NoReturn:
    raise ShapeError(f"{name}: tensors have at most four dimensions here, three-dimensional convolutions need five")
