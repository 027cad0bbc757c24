"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradino._lib import lib
from gradino.errors import InvalidValueError
from gradino.optim.optimizer import Optimizer, refuse_variants

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent with momentum, dampening, Nesterov momentum and weight decay, as in PyTorch.

    ``g += weight_decay * p``; ``buf = momentum * buf + (1 - dampening) * g`` (the first time ``buf = g``);
    ``p -= lr * buf``, or with ``nesterov`` ``p -= lr * (g + momentum * buf)``. ``buf`` is ``p.prev_grad``.
    ``foreach`` and ``fused`` are accepted for PyTorch's sake: the update is always fused.

    Source: Sutskever et al., 2013.

    Raises:
        InvalidValueError: for a negative lr, momentum or weight_decay, or nesterov without momentum or with dampening.
    """

    _KIND = lib.GD_SGD
    _STATES = (("momentum_buffer", 2),)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        refuse_variants("SGD", differentiable=differentiable, foreach=foreach, fused=fused)
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "nesterov": nesterov, "maximize": maximize})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise InvalidValueError("SGD: nesterov needs a momentum and zero dampening")
