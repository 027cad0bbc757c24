"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from gradino.errors import InvalidValueError
from gradino.optim.lr_scheduler.scheduler import LRScheduler, the_optimizer
from gradino.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Combined(LRScheduler):
    """Schedules of one optimizer, stepped together; the state holds theirs."""

    _NOT_STATE = frozenset(("optimizer", "_schedulers"))

    def _take(self, optimizer: Any, schedulers: Sequence[LRScheduler]) -> None:
        self._schedulers = list(schedulers)
        if not self._schedulers:
            raise InvalidValueError(f"{self._title}: expected at least one scheduler")
        self.optimizer = the_optimizer(self._title, self._schedulers[0].optimizer if optimizer is None else optimizer)
        for i, s in enumerate(self._schedulers):
            if type(s).__name__ == "ReduceLROnPlateau":
                raise InvalidValueError(f"{self._title}: scheduler {i} is a ReduceLROnPlateau, whose steps need a metric")
            if s.optimizer is not self.optimizer:
                raise InvalidValueError(f"{self._title}: scheduler {i} ({s._title}) belongs to another optimizer")

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the states of the schedules."""
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where the schedules of the saved state stood."""
        states = state_dict["_schedulers"]
        if len(states) != len(self._schedulers):
            raise InvalidValueError(f"{self._title}: the state is of {len(states)} schedulers, not of {len(self._schedulers)}")
        super().load_state_dict(state_dict)
        for scheduler, state in zip(self._schedulers, states, strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Combined):
    """One schedule after the other: the next one begins at each epoch of ``milestones``.

    Warm-up, then decay: ``SequentialLR(opt, [LinearLR(opt, 0.1, total_iters=5), CosineAnnealingLR(opt, 95)], [5])``.
    """

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1) -> None:
        self._take(optimizer, schedulers)
        if len(milestones) != len(self._schedulers) - 1:
            raise InvalidValueError(
                f"SequentialLR: {len(self._schedulers)} schedulers need {len(self._schedulers) - 1} milestones, got {len(milestones)}"
            )
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        _unstep(self)  # each took its first step when it was made
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._begin()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        if i and self._milestones[i - 1] == self.last_epoch:
            self._schedulers[i]._restart()
        else:
            self._schedulers[i].step()
        self._last_lr = self._schedulers[i].get_last_lr()

    def _begin(self) -> None:
        self._schedulers[0]._begin()

    def _rates_at_start(self) -> list[float]:
        self.last_epoch = 0
        return self._schedulers[bisect_right(self._milestones, 0)]._rates_at_start()


def _unstep(scheduler: LRScheduler) -> None:
    inner = getattr(scheduler, "_schedulers", None)
    if inner is None:
        scheduler.last_epoch -= 1
    for s in inner or ():
        _unstep(s)


class ChainedScheduler(_Combined):
    """All schedules at once: each step steps every one, and what they do to the rates multiplies up."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(optimizer, schedulers)
        self._read()

    def step(self) -> None:
        """Go to the next epoch."""
        for s in self._schedulers:
            s.step()
        self._read()

    def _read(self) -> None:
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _begin(self) -> None:
        for s in self._schedulers:
            s._begin()
        self._read()

    def _rates_at_start(self) -> list[float]:
        for s in self._schedulers:
            s._set(s._rates_at_start())
        return [group["lr"] for group in self.optimizer.param_groups]
