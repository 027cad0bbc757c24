"""Lion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradino._lib import lib
from gradino.optim.optimizer import Optimizer

__all__ = ["Lion"]


class Lion(Optimizer):
    """``p -= lr * (sign(b1 m + (1-b1) g) + weight_decay * p)``; then ``m = b2 m + (1-b2) g``. One moment only: ``p.exp_avg``.

    Rates are three to ten times smaller than AdamW's, and decay as much larger. PyTorch has no Lion.

    Source: Chen et al., Symbolic Discovery of Optimization Algorithms, 2023.

    Raises:
        InvalidValueError: for a negative lr or weight_decay, or betas outside [0, 1).
    """

    _KIND = lib.GD_LION
    _STATES = (("exp_avg", 3),)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})
