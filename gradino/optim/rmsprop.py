"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradino._lib import lib
from gradino.optim.optimizer import Optimizer, refuse_variants

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """RMSprop, as in PyTorch: ``v = alpha v + (1-alpha) g^2``; ``p -= lr * g / (sqrt(v) + eps)``. Weight decay is added to the gradient.

    ``centered`` subtracts the square of the mean gradient from ``v``; with ``momentum`` the update goes through
    ``buf = momentum * buf + g / (sqrt(v) + eps)``. ``foreach`` is accepted: the update is always fused.

    Source: Tieleman and Hinton, 2012; centered: Graves, 2013.

    Raises:
        InvalidValueError: for a negative lr, alpha, eps, weight_decay or momentum.
    """

    _KIND = lib.GD_RMSPROP
    _STATES = (("square_avg", 4), ("momentum_buffer", 2), ("grad_avg", 3))

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse_variants(self._title, capturable=capturable, differentiable=differentiable)
        defaults = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "maximize": maximize})

    def _settings(self, group: dict[str, Any]) -> dict[str, Any]:
        return {**super()._settings(group), "beta2": group["alpha"]}
