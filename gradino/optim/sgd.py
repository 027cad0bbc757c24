"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradino._lib import lib
from gradino.errors import InvalidValueError
from gradino.optim.optimizer import Optimizer

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent with momentum, dampening, Nesterov momentum and weight decay, as in PyTorch.

    ``g += weight_decay * p``; ``buf = momentum * buf + (1 - dampening) * g`` (the first time ``buf = g``);
    ``p -= lr * buf``, or with ``nesterov`` ``p -= lr * (g + momentum * buf)``. ``buf`` is ``p.prev_grad``.

    Source: Sutskever et al., 2013.
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
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise InvalidValueError("SGD: nesterov needs a momentum and zero dampening")
        super().__init__(
            params,
            {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize},
        )

    def _settings(self, group: dict[str, Any]) -> tuple[Any, ...]:
        g = group
        return g["lr"], 0.0, 0.0, 0.0, g["weight_decay"], g["momentum"], g["dampening"], g["nesterov"], g["maximize"], False
