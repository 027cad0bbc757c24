"""Adagrad and Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradino._lib import lib
from gradino.errors import InvalidValueError
from gradino.factories import full_like
from gradino.optim.optimizer import Optimizer, refuse_variants
from gradino.tensor import Tensor

__all__ = ["Adadelta", "Adagrad"]


class Adagrad(Optimizer):
    """Adagrad, as in PyTorch: ``s += g^2``; ``p -= lr / (1 + (t-1) lr_decay) * g / (sqrt(s) + eps)``.

    Weight decay is added to the gradient; ``s`` starts at ``initial_accumulator_value``.
    ``foreach`` and ``fused`` are accepted: the update is always fused. Gradients are dense.

    Source: Duchi, Hazan and Singer, 2011.

    Raises:
        InvalidValueError: for a negative lr, lr_decay, weight_decay, initial_accumulator_value or eps.
    """

    _KIND = lib.GD_ADAGRAD
    _STATES = (("sum", 4),)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        refuse_variants(self._title, differentiable=differentiable, foreach=foreach, fused=fused)
        defaults = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "initial_accumulator_value": initial_accumulator_value, "maximize": maximize})

    def _settings(self, group: dict[str, Any]) -> dict[str, Any]:
        return {**super()._settings(group), "decay": group["lr_decay"], "initial": group["initial_accumulator_value"]}

    def _entry(self, p: Tensor) -> dict[str, Any]:
        entry = super()._entry(p)
        if entry:
            return entry
        group = next(g for g in self.param_groups if any(q is p for q in g["params"]))
        return {"step": 0, "sum": full_like(p, group["initial_accumulator_value"])}


class Adadelta(Optimizer):
    """Adadelta, as in PyTorch: ``v = rho v + (1-rho) g^2``; ``d = sqrt(u + eps) / sqrt(v + eps) * g``;
    ``u = rho u + (1-rho) d^2``; ``p -= lr * d``. Weight decay is added to the gradient.

    ``foreach`` is accepted: the update is always fused.

    Source: Zeiler, 2012.

    Raises:
        InvalidValueError: for a negative lr, eps or weight_decay, or rho outside [0, 1].
    """

    _KIND = lib.GD_ADADELTA
    _STATES = (("square_avg", 4), ("acc_delta", 3))

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse_variants(self._title, capturable=capturable, differentiable=differentiable)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if not 0 <= group["rho"] <= 1:
            raise InvalidValueError(f"Adadelta: rho is {group['rho']}, must be in [0, 1]")

    def _settings(self, group: dict[str, Any]) -> dict[str, Any]:
        return {**super()._settings(group), "beta2": group["rho"]}
