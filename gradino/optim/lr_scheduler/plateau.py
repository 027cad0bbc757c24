"""A schedule that looks at the result."""

from __future__ import annotations

import math
from typing import Any

from gradino.errors import InvalidValueError
from gradino.optim.lr_scheduler.scheduler import LRScheduler, per_group, the_optimizer
from gradino.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rates by ``factor`` once a metric has not improved for more than ``patience`` epochs.

    ``mode``: ``"min"`` or ``"max"``, what is better. Better means by ``threshold``: a share of the best value
    (``threshold_mode="rel"``) or a difference (``"abs"``). After a reduction ``cooldown`` epochs do not count.
    Rates stay at or above ``min_lr`` (a number, or a list with one per group), and a change below ``eps`` is not made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise InvalidValueError(f"ReduceLROnPlateau: factor is {factor}, must be below 1")
        if mode not in ("min", "max"):
            raise InvalidValueError(f"ReduceLROnPlateau: mode is {mode!r}, must be 'min' or 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise InvalidValueError(f"ReduceLROnPlateau: threshold_mode is {threshold_mode!r}, must be 'rel' or 'abs'")
        self.optimizer = the_optimizer("ReduceLROnPlateau", optimizer)
        self.mode, self.factor, self.patience, self.eps = mode, factor, patience, eps
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lrs = per_group("ReduceLROnPlateau", "min_lr", optimizer, min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.last_epoch = self.num_bad_epochs = self.cooldown_counter = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs do not count yet."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Take note of the epoch's metric (a number or a tensor of one), and reduce the rates if it is time."""
        metric = float(metrics)
        self.last_epoch += 1
        if self._is_better(metric):
            self.best, self.num_bad_epochs = metric, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _is_better(self, metric: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if self.threshold_mode == "rel":
            bound = self.best * (1.0 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return metric < bound if self.mode == "min" else metric > bound

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            rate = max(group["lr"] * self.factor, least)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate
