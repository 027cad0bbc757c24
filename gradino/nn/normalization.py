"""Normalisation over the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino.factories import ones, zeros
from gradino.nn import functional as F
from gradino.nn.linear import parameter_dtype
from gradino.nn.module import Module
from gradino.nn.parameter import Parameter
from gradino.tensor import Tensor

__all__ = ["LayerNorm", "RMSNorm"]


class _Norm(Module):
    """What both share: sizes, eps, and a weight that starts as ones."""

    normalized_shape: tuple[int, ...]
    weight: Parameter | None

    def __init__(self, normalized_shape: int | Sequence[int], eps: float | None, elementwise_affine: bool, device: Any, dtype: Any) -> None:
        super().__init__()
        self.normalized_shape = F.sizes_of(type(self).__name__, normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        kind = parameter_dtype(dtype, device)
        self.register_parameter("weight", Parameter(ones(self.normalized_shape, dtype=kind)) if elementwise_affine else None)

    def extra_repr(self) -> str:
        """Sizes, as in PyTorch."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(_Norm):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions; see :func:`gradino.nn.functional.layer_norm`.

    Shapes: input and output (..., *normalized_shape), weight and bias normalized_shape. The weight starts as ones and the
    bias as zeros; neither is there without ``elementwise_affine``, and ``bias=False`` leaves the bias out.

    >>> import gradino as gd
    >>> gd.nn.LayerNorm(4)(gd.tensor([[1.0, 2.0, 3.0, 4.0]])).sum().item()
    0.0
    """

    eps: float
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)
        has_bias = elementwise_affine and bias
        self.register_parameter("bias", Parameter(zeros(self.normalized_shape, dtype=parameter_dtype(dtype, device))) if has_bias else None)

    def extra_repr(self) -> str:
        """Sizes, as in PyTorch."""
        return f"{super().extra_repr()}, bias={self.bias is not None}"

    def forward(self, input: Tensor) -> Tensor:
        """(..., *normalized_shape) -> the same."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(_Norm):
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last dimensions; see :func:`gradino.nn.functional.rms_norm`.

    Shapes: input and output (..., *normalized_shape), weight normalized_shape, starting as ones. Without eps it is the
    dtype's epsilon.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """(..., *normalized_shape) -> the same."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)
