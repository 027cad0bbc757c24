"""Schedules that multiply: each step changes every rate by one factor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from gradino.errors import InvalidValueError
from gradino.optim.lr_scheduler.scheduler import LRScheduler, per_group, the_optimizer
from gradino.optim.optimizer import Optimizer

__all__ = ["ConstantLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "PolynomialLR", "StepLR"]


class _Factor(LRScheduler, ABC):
    """A schedule given by the factor between one epoch and the next."""

    @abstractmethod
    def _factor(self, epoch: int) -> float:
        """What the rates of the epoch before are multiplied with."""

    def get_lr(self) -> list[float]:
        """The rates that stand in the groups, times the factor of this epoch."""
        factor = self._factor(self.last_epoch)
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class StepLR(_Factor):
    """Multiply the rates by ``gamma`` every ``step_size`` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size <= 0:
            raise InvalidValueError(f"StepLR: step_size is {step_size}, must be at least 1")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.gamma if epoch and epoch % self.step_size == 0 else 1.0


class MultiStepLR(_Factor):
    """Multiply the rates by ``gamma`` at each epoch of ``milestones``; one that stands twice counts twice."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return float(self.gamma ** self.milestones.get(epoch, 0))


class ConstantLR(_Factor):
    """Rates times ``factor`` until epoch ``total_iters``, then in full."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 < factor <= 1:
            raise InvalidValueError(f"ConstantLR: factor is {factor}, must be in (0, 1]")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        if epoch == 0:
            return self.factor
        return 1.0 / self.factor if epoch == self.total_iters else 1.0


class LinearLR(_Factor):
    """Rates times a number that goes in a line from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs: warm-up."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 < start_factor <= 1:
            raise InvalidValueError(f"LinearLR: start_factor is {start_factor}, must be in (0, 1]")
        if not 0 <= end_factor <= 1:
            raise InvalidValueError(f"LinearLR: end_factor is {end_factor}, must be in [0, 1]")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        if epoch == 0:
            return self.start_factor
        if epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (epoch - 1) * rise)


class ExponentialLR(_Factor):
    """Multiply the rates by ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.gamma if epoch else 1.0


class PolynomialLR(_Factor):
    """Rates times ``(1 - epoch / total_iters) ** power``, and 0 from ``total_iters`` on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        if epoch == 0 or epoch > self.total_iters:
            return 1.0
        return float(((1.0 - epoch / self.total_iters) / (1.0 - (epoch - 1) / self.total_iters)) ** self.power)


class _Given(LRScheduler):
    """A schedule given by functions of the epoch, one for all groups or one for each; functions are not part of the state."""

    _NOT_STATE = frozenset(("optimizer", "lr_lambdas"))

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list[Callable[[int], float]], last_epoch: int = -1
    ) -> None:
        self.lr_lambdas: list[Any] = per_group(self._title, "lr_lambda", the_optimizer(self._title, optimizer), lr_lambda)
        for f in self.lr_lambdas:
            if not callable(f):
                raise TypeError(f"{self._title}: lr_lambda must be a function of the epoch, got {type(f).__name__}")
        super().__init__(optimizer, last_epoch)


class LambdaLR(_Given):
    """The initial rate times ``lr_lambda(epoch)``."""

    def get_lr(self) -> list[float]:
        """The initial rates times what the functions say."""
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_Given):
    """Multiply the rates by ``lr_lambda(epoch)`` every epoch, from epoch 1 on."""

    def get_lr(self) -> list[float]:
        """The rates that stand in the groups, times what the functions say."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return [lr * f(self.last_epoch) for lr, f in zip(rates, self.lr_lambdas, strict=True)] if self.last_epoch > 0 else rates
