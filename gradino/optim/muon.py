"""Muon: momentum made orthogonal, for the matrices of hidden layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from gradino._core import wrap
from gradino._lib import check, lib
from gradino.arena import step_arena
from gradino.dtypes import bfloat16
from gradino.errors import InvalidValueError
from gradino.factories import zeros_like
from gradino.grad_mode import enable_grad, no_grad
from gradino.optim.optimizer import Optimizer
from gradino.tensor import Tensor

__all__ = ["Muon"]

_MOMENTUM = 2  # the region of the momentum buffer
_MOST_STEPS = 100  # PyTorch's limit for Newton-Schulz iterations


class Muon(Optimizer):
    """Muon, as in PyTorch: momentum, made nearly orthogonal by Newton-Schulz iterations in bfloat16. Matrices only.

    ``buf = lerp(buf, g, 1-momentum)``, with ``nesterov`` looked ahead as ``lerp(g, buf, momentum)``; then
    ``p -= lr * weight_decay * p`` and ``p -= lr * ratio * orthogonal(buf)``, where the ratio is
    ``sqrt(max(1, rows / columns))`` (``adjust_lr_fn`` None or "original") or ``0.2 sqrt(max(rows, columns))`` ("match_rms_adamw").
    ``buf`` is ``p.prev_grad``. Embeddings, biases and norms are for another optimizer, such as AdamW.

    The update takes matrix products of whole gradients, so it is no part of ``loss.backward(optimizer=...)``.

    Source: Jordan et al., 2024; matching AdamW: Liu et al., 2025.

    Raises:
        InvalidValueError: for a parameter that is no matrix, a negative lr, momentum or weight_decay, an unknown adjust_lr_fn.
    """

    _KIND = lib.GD_SGD
    _STATES = (("momentum_buffer", _MOMENTUM),)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "eps": eps}
        super().__init__(params, {**defaults, "ns_coefficients": ns_coefficients, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn})

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise InvalidValueError(f"Muon: adjust_lr_fn is {group['adjust_lr_fn']!r}, must be None, 'original' or 'match_rms_adamw'")
        if len(group["ns_coefficients"]) != 3:
            raise InvalidValueError(f"Muon: ns_coefficients must be three numbers, got {group['ns_coefficients']}")
        if not group["ns_steps"] < _MOST_STEPS:
            raise InvalidValueError(f"Muon: ns_steps is {group['ns_steps']}, must be less than {_MOST_STEPS}")
        for p in group["params"]:
            if p.ndim != 2:
                raise InvalidValueError(f"Muon: a parameter has shape {tuple(p.shape)}, but only matrices can be made orthogonal")

    def _prepare(self) -> Any:
        raise InvalidValueError(
            "Muon: backward(optimizer=...) is not supported: an update is made of matrix products; call step() after backward()"
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient. ``closure`` computes loss and gradients first; its result is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._check(group)
            for p in group["params"]:
                if p.grad is not None:
                    with no_grad(), step_arena():
                        self._update(p, p.grad.detach(), group)
        return loss

    def _update(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> None:
        steps, momentum = check(lib.gd_optimizer_get_step(self._native, p._h)), group["momentum"]
        if not lib.gd_parameter_state(p._h, _MOMENTUM) or not steps:
            check(lib.gd_optimizer_set_state(self._native, p._h, _MOMENTUM, zeros_like(p.detach())._h))
        buffer = wrap(lib.gd_parameter_state(p._h, _MOMENTUM))
        buffer.add_((g - buffer) * (1 - momentum))
        update = buffer
        if group["nesterov"]:
            update = buffer - (buffer - g) * (1 - momentum)
        direction = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        values = p.detach()
        values.mul_(1 - group["lr"] * group["weight_decay"])
        values.add_(direction.to(p.dtype) * -(group["lr"] * _ratio(group["adjust_lr_fn"], *p.shape)))
        check(lib.gd_optimizer_set_step(self._native, p._h, steps + 1))


def _ratio(how: str | None, rows: int, columns: int) -> float:
    """What lr is multiplied with for a matrix of this shape."""
    if how == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns)) if columns else 1.0


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Nearly the closest matrix with orthonormal rows or columns: ``a X + b (X X^T) X + c (X X^T)^2 X``, so many times; in bfloat16."""
    a, b, c = coefficients
    x = matrix.to(bfloat16)
    tall = matrix.shape[0] > matrix.shape[1]
    if tall:
        x = x.T
    x = x / x.float().square().sum().sqrt().to(bfloat16).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        powers = (gram.float() * b + (gram @ gram).float() * c).to(bfloat16)
        x = (x.float() * a + (powers @ x).float()).to(bfloat16)
    return x.T if tall else x
