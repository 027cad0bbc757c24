"""Dropout of channels, and dropout that keeps mean and variance, as modules."""

from __future__ import annotations

from collections.abc import Callable

from gradino._arguments import flag, probability
from gradino.nn import _dropouts as D
from gradino.nn.module import Module
from gradino.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout1d", "Dropout2d", "FeatureAlphaDropout"]


class _Dropout(Module):
    _function: Callable[[Tensor, float, bool, bool], Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = probability(type(self).__name__, "p", p)
        self.inplace = flag(type(self).__name__, "inplace", inplace)

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape; in evaluation it is the input."""
        return type(self)._function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(_Dropout):
    """In training, zeroes whole channels of (N, C, L) or (C, L) with probability ``p`` and scales the rest by ``1/(1-p)``."""

    _function = staticmethod(D.dropout1d)


class Dropout2d(_Dropout):
    """In training, zeroes whole channels of (N, C, H, W) with probability ``p`` and scales the rest by ``1/(1-p)``."""

    _function = staticmethod(D.dropout2d)


class AlphaDropout(_Dropout):
    """In training, drops elements to selu's saturation, and keeps mean and variance."""

    _function = staticmethod(D.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """In training, drops whole channels to selu's saturation, and keeps mean and variance."""

    _function = staticmethod(D.feature_alpha_dropout)
