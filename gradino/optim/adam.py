"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradino._lib import lib
from gradino.errors import InvalidValueError
from gradino.optim.optimizer import Optimizer

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam, as in PyTorch: ``m = b1 m + (1-b1) g``; ``v = b2 v + (1-b2) g^2``;
    ``p -= lr / (1-b1^t) * m / (sqrt(v) / sqrt(1-b2^t) + eps)``. Weight decay is added to the gradient.

    Source: Kingma and Ba, 2015; ``amsgrad``: Reddi et al., 2018.
    """

    _KIND = lib.GD_ADAM
    _STATES = (("exp_avg", 3), ("exp_avg_sq", 4))

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize}
        )

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        for i, beta in enumerate(group["betas"]):
            if not 0 <= beta < 1:
                raise InvalidValueError(f"{type(self).__name__}: betas[{i}] is {beta}, must be in [0, 1)")

    def _settings(self, group: dict[str, Any]) -> tuple[Any, ...]:
        g = group
        beta1, beta2 = g["betas"]
        return g["lr"], beta1, beta2, g["eps"], g["weight_decay"], 0.0, 0.0, False, g["maximize"], g["amsgrad"]


class AdamW(Adam):
    """Adam with decoupled weight decay: ``p -= lr * weight_decay * p`` before the update.

    Source: Loshchilov and Hutter, 2019.
    """

    _KIND = lib.GD_ADAMW

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
