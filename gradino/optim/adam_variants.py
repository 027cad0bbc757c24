"""Adamax, NAdam and RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradino._lib import check, lib
from gradino.optim.optimizer import Optimizer, refuse_variants
from gradino.tensor import Tensor

__all__ = ["Adamax", "NAdam", "RAdam"]


class Adamax(Optimizer):
    """Adamax, as in PyTorch: ``m = b1 m + (1-b1) g``; ``u = max(b2 u, |g| + eps)``; ``p -= lr / (1-b1^t) * m / u``.

    Weight decay is added to the gradient. ``foreach`` is accepted: the update is always fused.

    Source: Kingma and Ba, 2015.

    Raises:
        InvalidValueError: for a negative lr, eps or weight_decay, or betas outside [0, 1).
    """

    _KIND = lib.GD_ADAMAX
    _STATES = (("exp_avg", 3), ("exp_inf", 4))

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        refuse_variants(self._title, capturable=capturable, differentiable=differentiable)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})


class NAdam(Optimizer):
    """Adam with Nesterov momentum, as in PyTorch; the momentum is ``mu_t = b1 (1 - 0.96^(t momentum_decay) / 2)``:

    ``p -= lr * ((1-mu_t) / (1-mu_1...mu_t) * g + mu_(t+1) / (1-mu_1...mu_(t+1)) * m) / (sqrt(v / (1-b2^t)) + eps)``.
    Weight decay is added to the gradient, or with ``decoupled_weight_decay`` taken off the parameter as in AdamW.
    The product of the momenta (``mu_product`` in the state) is float32 as PyTorch's. ``foreach`` is accepted.

    Source: Dozat, 2016.

    Raises:
        InvalidValueError: for a negative lr, eps, weight_decay or momentum_decay, or betas outside [0, 1).
    """

    _KIND = lib.GD_NADAM
    _STATES = (("exp_avg", 3), ("exp_avg_sq", 4))

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse_variants(self._title, capturable=capturable, differentiable=differentiable)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay}
        super().__init__(params, {**defaults, "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize})

    def _settings(self, group: dict[str, Any]) -> dict[str, Any]:
        more = {"decay": group["momentum_decay"], "decoupled": group["decoupled_weight_decay"]}
        return {**super()._settings(group), **more}

    def _entry(self, p: Tensor) -> dict[str, Any]:
        entry = super()._entry(p)
        return {**entry, "mu_product": lib.gd_optimizer_get_factor(self._native, p._h)} if entry else entry

    def _restore(self, p: Tensor, entry: dict[str, Any]) -> None:
        super()._restore(p, entry)
        check(lib.gd_optimizer_set_factor(self._native, p._h, float(entry.get("mu_product", 1))))


class RAdam(Optimizer):
    """Rectified Adam, as in PyTorch: the variance of the adaptive rate is corrected, and until it is tractable
    the update is ``p -= lr * m / (1-b1^t)``.

    Weight decay is added to the gradient, or with ``decoupled_weight_decay`` taken off the parameter as in AdamW.
    ``foreach`` is accepted: the update is always fused.

    Source: Liu et al., 2020.

    Raises:
        InvalidValueError: for a negative lr, eps or weight_decay, or betas outside [0, 1).
    """

    _KIND = lib.GD_RADAM
    _STATES = (("exp_avg", 3), ("exp_avg_sq", 4))

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse_variants(self._title, capturable=capturable, differentiable=differentiable)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay})

    def _settings(self, group: dict[str, Any]) -> dict[str, Any]:
        return {**super()._settings(group), "decoupled": group["decoupled_weight_decay"]}
