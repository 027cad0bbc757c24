"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradino._lib import lib
from gradino.optim.optimizer import Optimizer, refuse_variants

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam, as in PyTorch: ``m = b1 m + (1-b1) g``; ``v = b2 v + (1-b2) g^2``;
    ``p -= lr / (1-b1^t) * m / (sqrt(v) / sqrt(1-b2^t) + eps)``. Weight decay is added to the gradient.

    With ``amsgrad`` the largest v so far takes its place. ``m`` and ``v`` are ``p.exp_avg`` and ``p.exp_avg_sq``.
    ``foreach`` and ``fused`` are accepted for PyTorch's sake: the update is always fused.

    Source: Kingma and Ba, 2015; ``amsgrad``: Reddi et al., 2018.

    Raises:
        InvalidValueError: for a negative lr, eps or weight_decay, or betas outside [0, 1).
    """

    _KIND = lib.GD_ADAM
    _STATES = (("exp_avg", 3), ("exp_avg_sq", 4), ("max_exp_avg_sq", 5))

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        refuse_variants(self._title, capturable=capturable, differentiable=differentiable, foreach=foreach, fused=fused)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "amsgrad": amsgrad, "maximize": maximize})


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
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        variants: dict[str, Any] = {"capturable": capturable, "differentiable": differentiable, "foreach": foreach, "fused": fused}
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, **variants)
