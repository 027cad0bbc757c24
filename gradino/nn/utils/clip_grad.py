"""Limiting gradients before the optimizer's step."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

from gradino import functions
from gradino.arena import step_arena
from gradino.dtypes import promote_types
from gradino.errors import DTypeError, GradinoError, InvalidValueError
from gradino.factories import zeros
from gradino.grad_mode import no_grad
from gradino.tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _tensors(function: str, given: Any) -> list[Tensor]:
    tensors = [given] if isinstance(given, Tensor) else list(given)
    for t in tensors:
        if not isinstance(t, Tensor):
            raise DTypeError(f"{function}: expected tensors, got {type(t).__name__}")
    return tensors


def _gradients(tensors: Iterable[Tensor]) -> list[Tensor]:
    found = (t.grad for t in tensors)
    return [g.detach() for g in found if g is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all elements of all tensors together, as if they were one vector; 0 of none.

    Raises:
        InvalidValueError: for a norm_type that is not above 0.
        GradinoError: with ``error_if_nonfinite``, if the norm is infinite or NaN.
    """
    kind = float(norm_type)
    if not kind > 0:
        raise InvalidValueError(f"get_total_norm: norm_type is {norm_type}, must be above 0")
    given = _tensors("get_total_norm", tensors)
    with no_grad(), step_arena():
        parts = [_part(t.detach(), kind) for t in given if t.numel()]
        if not parts:
            total = zeros(())
        elif kind == math.inf:
            total = functions.stack(parts).amax()
        else:
            total = functions.stack(parts).sum()
            total = total.sqrt() if kind == 2 else total ** (1 / kind)
            total = total.to(functools.reduce(promote_types, {t.dtype for t in given if t.numel()}))
        if error_if_nonfinite and not math.isfinite(total.item()):
            raise GradinoError(f"get_total_norm: the norm of order {norm_type} is {total.item()}; error_if_nonfinite=False lets it pass")
        return total.keep()


def _part(t: Tensor, kind: float) -> Tensor:
    """What a tensor adds to the sum, or to the maximum."""
    if kind == math.inf:
        return t.abs().amax()
    if t.itemsize == 2:  # squares leave the range of float16, and the digits of both halves
        t = t.float()
    return t.square().sum() if kind == 2 else (t.abs() ** kind).sum()


def clip_grads_with_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Multiply all gradients by ``max_norm / (total_norm + 1e-6)`` where that is below 1, in place."""
    gradients = _gradients(_tensors("clip_grads_with_norm_", parameters))
    with no_grad(), step_arena():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for g in gradients:
            g.mul_(factor.to(g.dtype))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients together so that their norm is at most ``max_norm``; returns the norm they had.

    Raises:
        GradinoError: with ``error_if_nonfinite``, if the norm is infinite or NaN; gradients are as they were.
    """
    tensors = _tensors("clip_grad_norm_", parameters)
    total = get_total_norm(_gradients(tensors), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(tensors, max_norm, total)
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of every gradient to [-clip_value, clip_value]."""
    gradients, limit = _gradients(_tensors("clip_grad_value_", parameters)), float(clip_value)
    with no_grad(), step_arena():
        for g in gradients:
            g.clamp_(-limit, limit)
