"""Schedules that go down, or up and down, along a curve."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradino.errors import InvalidValueError
from gradino.optim.lr_scheduler.scheduler import LRScheduler, per_group, the_optimizer
from gradino.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR", "WarmupCosineLR"]


class CosineAnnealingLR(LRScheduler):
    """From the initial rate to ``eta_min`` along half a cosine of ``T_max`` epochs, and back, and so on.

    Source: Loshchilov and Hutter, 2017, without the restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: float, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max <= 0:
            raise InvalidValueError(f"CosineAnnealingLR: T_max is {T_max}, must be above 0")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Epoch by epoch from the rates in the groups; where the curve touches ``eta_min``, from the initial rates."""
        epoch, low, span = self.last_epoch, self.eta_min, self.T_max
        groups = self.optimizer.param_groups
        if epoch == 0:
            return [group["lr"] for group in groups]
        if self._step_count == 1:
            return [low + (base - low) * (1 + math.cos(math.pi * epoch / span)) / 2 for base in self.base_lrs]
        if (epoch - 1 - span) % (2 * span) == 0:
            return [g["lr"] + (base - low) * (1 - math.cos(math.pi / span)) / 2 for g, base in zip(groups, self.base_lrs, strict=True)]
        ratio = (1 + math.cos(math.pi * epoch / span)) / (1 + math.cos(math.pi * (epoch - 1) / span))
        return [ratio * (g["lr"] - low) + low for g in groups]


class WarmupCosineLR(LRScheduler):
    """Up in a line for ``warmup_steps``, then down to ``min_lr`` along half a cosine that ends at ``decay_steps``, and stay.

    The usual schedule of language models, which PyTorch lacks. Step 0 already has a rate: the
    ``1 / (warmup_steps + 1)``-th part of the full one.
    """

    def __init__(self, optimizer: Optimizer, warmup_steps: int, decay_steps: int, min_lr: float = 0.0, last_epoch: int = -1) -> None:
        if not 0 <= warmup_steps <= decay_steps:
            raise InvalidValueError(f"WarmupCosineLR: needs 0 <= warmup_steps <= decay_steps, got {warmup_steps} and {decay_steps}")
        self.warmup_steps, self.decay_steps, self.min_lr = warmup_steps, decay_steps, min_lr
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """From the initial rates, at any step."""
        step, low = self.last_epoch, self.min_lr
        if step < self.warmup_steps:
            return [base * (step + 1) / (self.warmup_steps + 1) for base in self.base_lrs]
        if step >= self.decay_steps:
            return [low for _ in self.base_lrs]
        part = (step - self.warmup_steps) / (self.decay_steps - self.warmup_steps)
        return [low + (base - low) * (1 + math.cos(math.pi * part)) / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines from the initial rate to ``eta_min``: the first of ``T_0`` epochs, each next ``T_mult`` times as long.

    ``step(epoch)`` goes to any epoch, also to a part of one, as in ``step(epoch + batch / batches)``.

    Source: Loshchilov and Hutter, 2017.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise InvalidValueError(f"CosineAnnealingWarmRestarts: {name} is {value!r}, must be a whole number of at least 1")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The point of the present cosine."""
        fall = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * fall for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to the one given."""
        self._step_count += 1
        self._advance(epoch)

    def _advance(self, epoch: float | None = None) -> None:
        if epoch is not None:
            if epoch < 0:
                raise InvalidValueError(f"CosineAnnealingWarmRestarts: epoch is {epoch}, must be at least 0")
            self._place(epoch)
            self.last_epoch = math.floor(epoch)
        elif self.last_epoch < 0:
            self._place(0)
            self.last_epoch = 0
        else:
            self.last_epoch += 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        self._set(self.get_lr())

    def _place(self, epoch: float) -> None:
        """The cosine that an epoch is in, and how far."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
        else:
            done = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**done - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**done

    def _rates_at_start(self) -> list[float]:
        self._place(0)
        return super()._rates_at_start()


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _line(start: float, end: float, part: float) -> float:
    return (end - start) * part + start


class _Momentum(LRScheduler):
    """A schedule that also moves the momentum: SGD's ``momentum``, Adam's first beta."""

    def _find_momentum(self) -> None:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise InvalidValueError(f"{self._title}: cycle_momentum needs an optimizer with momentum or betas, not {self.optimizer._title}")

    def _set_momentum(self, values: list[float]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            if "betas" in group:
                group["betas"] = (value, *group["betas"][1:])
            else:
                group["momentum"] = value


class OneCycleLR(_Momentum):
    """Up from ``max_lr / div_factor`` to ``max_lr`` in the first ``pct_start`` of the steps, then down to the
    ``final_div_factor``-th part of where it began; momentum the other way. One step per batch.

    ``three_phase`` goes down as it came up, and from there to the end. ``max_lr``, ``base_momentum`` and
    ``max_momentum`` may be lists, one value per group. The number of steps is ``total_steps`` or
    ``epochs * steps_per_epoch``; one step more raises.

    Source: Smith and Topin, 2019.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = the_optimizer("OneCycleLR", optimizer)
        self.total_steps = self._count(total_steps, epochs, steps_per_epoch)
        if not 0 <= pct_start <= 1:
            raise InvalidValueError(f"OneCycleLR: pct_start is {pct_start}, must be in [0, 1]")
        if anneal_strategy not in ("cos", "linear"):
            raise InvalidValueError(f"OneCycleLR: anneal_strategy is {anneal_strategy!r}, must be 'cos' or 'linear'")
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        highs = per_group("OneCycleLR", "max_lr", optimizer, max_lr)
        starts = [high / div_factor for high in highs]
        ends = [start / final_div_factor for start in starts]
        up = pct_start * self.total_steps - 1
        lasts = [up, 2 * up, self.total_steps - 1] if three_phase else [up, self.total_steps - 1]
        points = [starts, highs, starts, ends] if three_phase else [starts, highs, ends]
        self._phases = list(zip(lasts, points[:-1], points[1:], strict=True))  # last step, rates before and after
        if last_epoch == -1:
            for group, start in zip(optimizer.param_groups, starts, strict=True):
                group["initial_lr"] = start
        if cycle_momentum:
            self._find_momentum()
            most = per_group("OneCycleLR", "max_momentum", optimizer, max_momentum)
            least = per_group("OneCycleLR", "base_momentum", optimizer, base_momentum)
            swing = [most, least, most, most] if three_phase else [most, least, most]
            self._swing = list(zip(swing[:-1], swing[1:], strict=True))
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _count(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
        given = {"total_steps": total_steps} if total_steps is not None else {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        if None in given.values():
            raise InvalidValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        for name, value in given.items():
            if not isinstance(value, int) or value <= 0:
                raise InvalidValueError(f"OneCycleLR: {name} is {value!r}, must be a whole number of at least 1")
        return math.prod(given.values())

    def get_lr(self) -> list[float]:
        """The point of the phase that the step is in; sets the momentum too."""
        step = self.last_epoch
        if step > self.total_steps:
            raise InvalidValueError(f"OneCycleLR: step {step} of a schedule of {self.total_steps} steps")
        anneal: Callable[[float, float, float], float] = _cosine if self.anneal_strategy == "cos" else _line
        phase = next((i for i, (last, _, _) in enumerate(self._phases) if step <= last), len(self._phases) - 1)
        first = self._phases[phase - 1][0] if phase else 0.0
        last, before, after = self._phases[phase]
        part = (step - first) / (last - first)
        if self.cycle_momentum:
            self._set_momentum([anneal(a, b, part) for a, b in zip(*self._swing[phase], strict=True)])
        return [anneal(a, b, part) for a, b in zip(before, after, strict=True)]


class CyclicLR(_Momentum):
    """Up from ``base_lr`` to ``max_lr`` in ``step_size_up`` steps and down again in ``step_size_down``, over and over.

    ``mode``: ``"triangular"``; ``"triangular2"``, each cycle half as high; ``"exp_range"``, ``gamma ** step`` as high.
    ``scale_fn`` replaces it, a function of the cycle or of the step as ``scale_mode`` says (``"cycle"``,
    ``"iterations"``). Momentum goes the other way, between ``max_momentum`` and ``base_momentum``.

    Source: Smith, 2017.
    """

    _NOT_STATE = frozenset(("optimizer", "scale_fn"))

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = the_optimizer("CyclicLR", optimizer)
        modes: dict[str, tuple[Callable[[float], float], str]] = {
            "triangular": (lambda x: 1.0, "cycle"),
            "triangular2": (lambda x: float(1 / 2.0 ** (x - 1)), "cycle"),
            "exp_range": (lambda x: float(gamma**x), "iterations"),
        }
        if scale_fn is None and mode not in modes:
            raise InvalidValueError(f"CyclicLR: mode is {mode!r}, must be one of {sorted(modes)}")
        if scale_mode not in ("cycle", "iterations"):
            raise InvalidValueError(f"CyclicLR: scale_mode is {scale_mode!r}, must be 'cycle' or 'iterations'")
        self.scale_fn, self.scale_mode = modes[mode] if scale_fn is None else (scale_fn, scale_mode)
        self.max_lrs = per_group("CyclicLR", "max_lr", optimizer, max_lr)
        lows = per_group("CyclicLR", "base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                group["lr"] = group["initial_lr"] = low
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        if not 0 < step_size_up < self.total_size + (step_size_down == 0):
            raise InvalidValueError(f"CyclicLR: step_size_up is {step_size_up}, step_size_down {step_size_down}: they must be above 0")
        self.step_ratio = step_size_up / self.total_size
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._find_momentum()
            self.base_momentums = per_group("CyclicLR", "base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("CyclicLR", "max_momentum", optimizer, max_momentum)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def get_lr(self) -> list[float]:
        """The point of the present cycle; sets the momentum too."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            pairs = zip(self.base_momentums, self.max_momentums, strict=True)
            self._set_momentum([high - (high - low) * height * scale for low, high in pairs])
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]
