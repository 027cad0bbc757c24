"""Layers that pool windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino.functions._sizes import Size, per_dimension
from gradino.nn import _pooling as F
from gradino.nn.module import Module
from gradino.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AvgPool1d", "AvgPool2d", "LPPool1d", "LPPool2d",
    "MaxPool1d", "MaxPool2d", "MaxUnpool1d", "MaxUnpool2d",
]  # fmt: skip


class _MaxPool(Module):
    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window; see :func:`gradino.nn.functional.max_pool1d`. (N, C, L) or (C, L)."""

    def forward(self, input: Tensor) -> Any:
        """(.., L) -> (.., windows), and indices with ``return_indices``."""
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)


class MaxPool2d(_MaxPool):
    """The largest element of each window; see :func:`gradino.nn.functional.max_pool2d`. (N, C, H, W) or (C, H, W).

    >>> import gradino as gd
    >>> gd.nn.MaxPool2d(2)(gd.arange(16.0).reshape(1, 4, 4)).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    """

    def forward(self, input: Tensor) -> Any:
        """(.., H, W) -> (.., windows, windows), and indices with ``return_indices``."""
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)


class _MaxUnpool(Module):
    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size = self._sizes("kernel_size", kernel_size)
        self.stride = self._sizes("stride", kernel_size if stride is None else stride)
        self.padding = self._sizes("padding", padding)

    def _sizes(self, argument: str, value: Any) -> tuple[int, ...]:
        return per_dimension(type(self).__name__, argument, value, int(type(self).__name__[-2]))

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts values back to where :class:`MaxPool1d` took them; see :func:`gradino.nn.functional.max_unpool1d`."""

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(.., windows) and their indices -> (.., L)."""
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpool):
    """Puts values back to where :class:`MaxPool2d` took them; see :func:`gradino.nn.functional.max_unpool2d`."""

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(.., windows, windows) and their indices -> (.., H, W)."""
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class AvgPool1d(Module):
    """The mean of each window; see :func:`gradino.nn.functional.avg_pool1d`. (N, C, L) or (C, L)."""

    def __init__(
        self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, ceil_mode: bool = False, count_include_pad: bool = True
    ) -> None:
        super().__init__()
        self.kernel_size = per_dimension("AvgPool1d", "kernel_size", kernel_size, 1)
        self.stride = per_dimension("AvgPool1d", "stride", kernel_size if stride is None else stride, 1)
        self.padding = per_dimension("AvgPool1d", "padding", padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

    def forward(self, input: Tensor) -> Tensor:
        """(.., L) -> (.., windows)."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(Module):
    """The mean of each window; see :func:`gradino.nn.functional.avg_pool2d`. (N, C, H, W) or (C, H, W)."""

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

    def forward(self, input: Tensor) -> Tensor:
        """(.., H, W) -> (.., windows, windows)."""
        return F.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        )


class _Adaptive(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """The argument, as in PyTorch."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """The mean of ``output_size`` windows; see :func:`gradino.nn.functional.adaptive_avg_pool1d`."""

    def forward(self, input: Tensor) -> Tensor:
        """(.., L) -> (.., output_size)."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_Adaptive):
    """The mean of windows; see :func:`gradino.nn.functional.adaptive_avg_pool2d`."""

    def forward(self, input: Tensor) -> Tensor:
        """(.., H, W) -> (.., *output_size)."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMax):
    """The largest of ``output_size`` windows; see :func:`gradino.nn.functional.adaptive_max_pool1d`."""

    def forward(self, input: Tensor) -> Any:
        """(.., L) -> (.., output_size), and indices with ``return_indices``."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """The largest of windows; see :func:`gradino.nn.functional.adaptive_max_pool2d`."""

    def forward(self, input: Tensor) -> Any:
        """(.., H, W) -> (.., *output_size), and indices with ``return_indices``."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class _LPPool(Module):
    def __init__(self, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"


class LPPool1d(_LPPool):
    """``sum(x^p)^(1/p)`` of each window; see :func:`gradino.nn.functional.lp_pool1d`."""

    def forward(self, input: Tensor) -> Tensor:
        """(.., L) -> (.., windows)."""
        return F.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """``sum(x^p)^(1/p)`` of each window; see :func:`gradino.nn.functional.lp_pool2d`."""

    def forward(self, input: Tensor) -> Tensor:
        """(.., H, W) -> (.., windows, windows)."""
        return F.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)
