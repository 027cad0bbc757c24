"""Layers that resize planes, shuffle pixels and channels, and pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino._arguments import as_float
from gradino.functions._sizes import per_dimension
from gradino.nn import _resizing as F
from gradino.nn.module import Module
from gradino.nn.pad import pad
from gradino.tensor import Tensor

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "ConstantPad1d", "ConstantPad2d", "PixelShuffle", "PixelUnshuffle",
    "ReflectionPad1d", "ReflectionPad2d", "ReplicationPad1d",
        "ReplicationPad2d", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d",
    "ZeroPad2d",
]  # fmt: skip


class Upsample(Module):
    """Resizes (N, C, L) or (N, C, H, W); see :func:`gradino.nn.functional.interpolate`.

    >>> import gradino as gd
    >>> gd.nn.Upsample(scale_factor=2)(gd.tensor([[[1.0, 2.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: Any = None
        if scale_factor is not None:
            several = isinstance(scale_factor, (tuple, list))
            factors = [as_float(f"{self.name}: scale_factor", f) for f in (scale_factor if several else [scale_factor])]  # type: ignore[union-attr]
            self.scale_factor = tuple(factors) if several else factors[0]
        self.mode, self.align_corners, self.recompute_scale_factor = mode, align_corners, recompute_scale_factor

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        size = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{size}, mode={self.mode!r}"

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) -> (N, C, *new size)."""
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)


class UpsamplingNearest2d(Upsample):
    """Resizes (N, C, H, W) by nearest elements; see :class:`Upsample`."""

    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes (N, C, H, W) by bilinear interpolation with aligned corners; see :class:`Upsample`."""

    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """(.., C r r, H, W) -> (.., C, H r, W r); see :func:`gradino.nn.functional.pixel_shuffle`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def extra_repr(self) -> str:
        """The argument, as in PyTorch."""
        return f"upscale_factor={self.upscale_factor}"

    def forward(self, input: Tensor) -> Tensor:
        """(.., C r r, H, W) -> (.., C, H r, W r)."""
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Module):
    """(.., C, H r, W r) -> (.., C r r, H, W); see :func:`gradino.nn.functional.pixel_unshuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def extra_repr(self) -> str:
        """The argument, as in PyTorch."""
        return f"downscale_factor={self.downscale_factor}"

    def forward(self, input: Tensor) -> Tensor:
        """(.., C, H r, W r) -> (.., C r r, H, W)."""
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Module):
    """Interleaves groups of channels; see :func:`gradino.nn.functional.channel_shuffle`."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def extra_repr(self) -> str:
        """The argument, as in PyTorch."""
        return f"groups={self.groups}"

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) -> the same."""
        return F.channel_shuffle(input, self.groups)


# ---- Padding: sizes are (left, right), or (left, right, top, bottom); one number stands for all ----------------------


class _Pad(Module):
    _dims: int
    _mode: str
    padding: tuple[int, ...]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = per_dimension(type(self).__name__, "padding", padding, 2 * self._dims)

    def extra_repr(self) -> str:
        """The argument, as in PyTorch."""
        return f"{self.padding}"

    def forward(self, input: Tensor) -> Tensor:
        """(.., size) -> (.., padded size)."""
        return pad(input, self.padding, self._mode)


class ConstantPad1d(_Pad):
    """Puts ``value`` around the last dimension; see :func:`gradino.nn.functional.pad`."""

    _dims = 1

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """The arguments, as in PyTorch."""
        return f"padding={self.padding}, value={self.value}"

    def forward(self, input: Tensor) -> Tensor:
        """(.., size) -> (.., padded size)."""
        return pad(input, self.padding, "constant", self.value)


class ConstantPad2d(ConstantPad1d):
    """Puts ``value`` around the last two dimensions; see :func:`gradino.nn.functional.pad`."""

    _dims = 2


class ZeroPad1d(ConstantPad1d):
    """Puts zeros around the last dimension; see :func:`gradino.nn.functional.pad`."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The argument, as in PyTorch."""
        return f"{self.padding}"


class ZeroPad2d(ZeroPad1d):
    """Puts zeros around the last two dimensions; see :func:`gradino.nn.functional.pad`."""

    _dims = 2


class ReflectionPad1d(_Pad):
    """Continues the last dimension as its mirror image, without the edge; see :func:`gradino.nn.functional.pad`."""

    _dims, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Continues the last two dimensions as their mirror image, without the edge; see :func:`gradino.nn.functional.pad`."""

    _dims, _mode = 2, "reflect"


class ReplicationPad1d(_Pad):
    """Repeats the edges of the last dimension; see :func:`gradino.nn.functional.pad`."""

    _dims, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Repeats the edges of the last two dimensions; see :func:`gradino.nn.functional.pad`."""

    _dims, _mode = 2, "replicate"


class CircularPad1d(_Pad):
    """Goes on at the other end of the last dimension; see :func:`gradino.nn.functional.pad`."""

    _dims, _mode = 1, "circular"


class CircularPad2d(_Pad):
    """Goes on at the other ends of the last two dimensions; see :func:`gradino.nn.functional.pad`."""

    _dims, _mode = 2, "circular"
