"""What all schedules share: counting epochs, writing rates into the groups, state that can be saved."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

from gradino._lib import check, lib
from gradino.errors import InvalidValueError
from gradino.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "per_group", "the_optimizer"]


def the_optimizer(title: str, optimizer: Any) -> Optimizer:
    """The argument, which must be an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{title}: expected an Optimizer, got {type(optimizer).__name__}")
    return optimizer


def per_group(title: str, name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each parameter group: ``value`` for all of them, or a list with as many."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * groups
    if len(value) != groups:
        raise InvalidValueError(f"{title}: {name} has {len(value)} values, the optimizer {groups} parameter groups")
    return list(value)


class LRScheduler:
    """Base of the schedules. A subclass says in ``get_lr`` what the rates are at epoch ``self.last_epoch``.

    The constructor sets the rates of epoch 0, and each ``step()`` those of the next. ``get_lr`` may build on the
    rates that stand in the groups, so that several schedules of one optimizer multiply up and changes made by
    hand stay in effect.

    Args:
        optimizer: the optimizer whose groups' ``"lr"`` is set.
        last_epoch: -1 to begin; another number continues with groups that hold ``"initial_lr"``.

    Raises:
        TypeError: if ``optimizer`` is none.
        KeyError: if ``last_epoch`` is not -1 and a group has no ``"initial_lr"``.
    """

    _NOT_STATE = frozenset(("optimizer",))
    _last_lr: list[float]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = the_optimizer(self._title, optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{self._title}: last_epoch={last_epoch} continues a schedule, but param_groups[{i}] has no 'initial_lr': "
                    "load the optimizer's state first"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    @property
    def _title(self) -> str:
        return type(self).__name__

    def _begin(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 1
        self._advance()

    def get_lr(self) -> list[float]:
        """The rate of each group at epoch ``last_epoch``, worked out from that of the epoch before."""
        raise NotImplementedError(f"{self._title} does not say what its rates are")

    def get_last_lr(self) -> list[float]:
        """The rates as the last step set them, one per group."""
        return self._last_lr

    def step(self) -> None:
        """Go to the next epoch, or whatever a step is to the caller."""
        if self._step_count == 1 and not self._optimizer_stepped():
            warnings.warn(
                f"{self._title}: scheduler.step() came before the first optimizer.step(), so the first rate was skipped: "
                "call optimizer.step() first",
                stacklevel=2,
            )
        self._step_count += 1
        self._advance()

    def _optimizer_stepped(self) -> bool:
        native = self.optimizer._native
        return any(check(lib.gd_optimizer_get_step(native, p._h)) for group in self.optimizer.param_groups for p in group["params"])

    def _advance(self) -> None:
        self.last_epoch += 1
        self._set(self.get_lr())

    def _restart(self) -> None:
        """Set the rates of epoch 0 as if nothing had been before."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._set(self._rates_at_start())

    def _rates_at_start(self) -> list[float]:
        self.last_epoch = 0
        return self.get_lr()

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: copy.copy(v) for k, v in self.__dict__.items() if k not in self._NOT_STATE}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where the schedule of the saved state stood; the rates in the groups come with the optimizer's state."""
        self.__dict__.update({k: copy.copy(v) for k, v in state_dict.items() if k not in self._NOT_STATE})
