"""Losses as modules."""

from __future__ import annotations

from typing import Any

from gradino.nn import functional as F
from gradino.nn.module import Module
from gradino.tensor import Tensor

__all__ = ["CrossEntropyLoss", "MSELoss"]


class CrossEntropyLoss(Module):
    """Cross entropy of logits against classes or probabilities; see :func:`gradino.nn.functional.cross_entropy`.

    Shapes: input (N, C), (C) or (N, C, d1, d2); target without C (int64 classes) or like the input (probabilities).
    """

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.size_average, self.ignore_index, self.reduce = size_average, ignore_index, reduce
        self.reduction, self.label_smoothing = reduction, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.cross_entropy(
            input, target, self.weight, self.size_average, self.ignore_index, self.reduce, self.reduction, self.label_smoothing
        )


class MSELoss(Module):
    """Mean of squared differences of two tensors of one shape; see :func:`gradino.nn.functional.mse_loss`."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__()
        self.size_average, self.reduce, self.reduction = size_average, reduce, reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.mse_loss(input, target, self.size_average, self.reduce, self.reduction)
