"""``GradScaler``: a loss scaled up, so that small gradients are not lost in float16, and gradients scaled back."""

from __future__ import annotations

import enum
import math
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from gradino._lib import lib
from gradino.arena import step_arena
from gradino.dtypes import float16
from gradino.errors import DTypeError, GradinoError, InvalidValueError
from gradino.functions import stack
from gradino.grad_mode import no_grad
from gradino.tensor import Tensor

__all__ = ["GradScaler", "OptState"]

_SMALLEST = 2.0**-126  # the least normal float32: what a scale that keeps falling stops at


class OptState(enum.Enum):
    """How far an optimizer is in its iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, unscales gradients, skips steps whose gradients are not finite, and adapts the scale.

    Per iteration: ``scaler.scale(loss).backward()``; with clipping ``scaler.unscale_(optimizer)`` and the clipping;
    ``scaler.step(optimizer)``; ``scaler.update()``. With bfloat16 no scaler is needed.

    Args:
        device: "cpu" or "cuda". For "cuda" without such a device it warns and does nothing, as in PyTorch.
        init_scale: the first scale.
        growth_factor: by what the scale grows after ``growth_interval`` iterations without infinities.
        backoff_factor: by what it shrinks when a gradient was infinite or NaN.
        growth_interval: iterations.
        enabled: False makes every method do only what it would do without scaling.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and str(device).partition(":")[0] == "cuda" and not lib.gd_cuda_device_count():
            warnings.warn(
                "GradScaler: there is no CUDA device; the scaler does nothing. Write GradScaler('cpu')", RuntimeWarning, stacklevel=2
            )
            enabled = False
        self._enabled = bool(enabled)
        self._scale, self._growth_tracker = float(init_scale), 0
        self._states: dict[int, tuple[OptState, bool]] = {}  # by id of the optimizer: how far, and whether a gradient was not finite
        self._skipped = False
        if not self._enabled:
            return
        _check(self._scale, "init_scale", self._scale > 0)
        _check(growth_factor, "growth_factor", growth_factor > 1)
        _check(backoff_factor, "backoff_factor", 0 < backoff_factor < 1)
        _check(growth_interval, "growth_interval", growth_interval >= 1)
        self._growth_factor, self._backoff_factor, self._growth_interval = float(growth_factor), float(backoff_factor), int(growth_interval)

    def scale(self, outputs: Any) -> Any:
        """A tensor, or a list or tuple of them (nested, too), times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable) and not isinstance(outputs, (str, bytes)):
            scaled = (self.scale(o) for o in outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise DTypeError(f"GradScaler.scale: expected tensors, got {type(outputs).__name__}")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale, in place. ``step`` does it where it was not done.

        Raises:
            GradinoError: if they are unscaled already, or the step is done: once per ``update``.
            DTypeError: for float16 parameters; their gradients cannot hold what is unscaled.
        """
        if not self._enabled:
            return
        state = self._state(optimizer)
        if state is OptState.UNSCALED:
            raise GradinoError("GradScaler.unscale_: it was called for this optimizer already since the last update()")
        if state is OptState.STEPPED:
            raise GradinoError("GradScaler.unscale_: it is called after step(); update() comes first")
        gradients = [p.grad.detach() for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(g.dtype is float16 for g in gradients):
            raise DTypeError("GradScaler.unscale_: a gradient is float16: keep the parameters in float32 and compute under autocast")
        finite = True
        with no_grad(), step_arena():
            largest = []
            for g in gradients:
                g.mul_(1.0 / self._scale)
                if g.numel():
                    largest.append(g.abs().amax().double())
            if largest:  # NaN wins in amax
                finite = math.isfinite(stack(largest).amax().item())
        self._states[id(optimizer)] = (OptState.UNSCALED, not finite)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(*args, **kwargs)``, unless a gradient is infinite or NaN: then nothing is changed, and None returned.

        ``step_was_skipped`` says which it was. Schedules should be stepped only if it was not.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or any(callable(a) for a in args):
            raise GradinoError("GradScaler.step: closures are not supported: the gradients must be there before")
        if self._state(optimizer) is OptState.STEPPED:
            raise GradinoError("GradScaler.step: it was called for this optimizer already since the last update()")
        if self._state(optimizer) is OptState.READY:
            self.unscale_(optimizer)
        self._skipped = self._states[id(optimizer)][1]
        result = None if self._skipped else optimizer.step(*args, **kwargs)
        self._states[id(optimizer)] = (OptState.STEPPED, self._skipped)
        return result

    @property
    def step_was_skipped(self) -> bool:
        """Whether the last ``step`` left the parameters alone."""
        return self._skipped

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """End the iteration: shrink the scale after a gradient that was not finite, let it grow after many that were."""
        if not self._enabled:
            return
        if new_scale is not None:
            value = float(new_scale)
            _check(value, "new_scale", 0 < value < math.inf)
            self._scale = value
        elif not self._states:
            raise GradinoError("GradScaler.update: no step() or unscale_() came before it")
        elif any(found for _, found in self._states.values()):
            self._scale, self._growth_tracker = max(self._scale * self._backoff_factor, _SMALLEST), 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown, self._growth_tracker = self._scale * self._growth_factor, 0
                if grown < sys.float_info.max and grown < 2.0**128:  # of float32, the losses' dtype
                    self._scale = grown
        self._states.clear()

    def get_scale(self) -> float:
        """The scale; 1 where it is disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By what the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Change it: above 1."""
        _check(new_factor, "growth_factor", new_factor > 1)
        self._growth_factor = float(new_factor)

    def get_backoff_factor(self) -> float:
        """By what the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Change it: between 0 and 1."""
        _check(new_factor, "backoff_factor", 0 < new_factor < 1)
        self._backoff_factor = float(new_factor)

    def get_growth_interval(self) -> int:
        """Iterations without infinities before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Change it: at least 1."""
        _check(new_interval, "growth_interval", new_interval >= 1)
        self._growth_interval = int(new_interval)

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors, interval and the count of good iterations; empty where it is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``, PyTorch's, too. Nothing is changed where it is not one."""
        if not self._enabled:
            return
        names = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
        if not isinstance(state_dict, dict) or any(name not in state_dict for name in names):
            lacking = [n for n in names if not isinstance(state_dict, dict) or n not in state_dict]
            raise GradinoError(f"GradScaler.load_state_dict: the state lacks {', '.join(lacking)}; was it saved by a disabled scaler?")
        scale, growth, backoff, interval, tracker = (state_dict[name] for name in names)
        self._scale, self._growth_factor, self._backoff_factor = float(scale), float(growth), float(backoff)
        self._growth_interval, self._growth_tracker = int(interval), int(tracker)

    def _state(self, optimizer: Any) -> OptState:
        return self._states.get(id(optimizer), (OptState.READY, False))[0]


def _check(value: float, name: str, good: bool) -> None:
    if not good:
        rule = {"growth_factor": "above 1", "backoff_factor": "between 0 and 1", "growth_interval": "at least 1"}.get(
            name, "above 0 and finite"
        )
        raise InvalidValueError(f"GradScaler: {name} is {value}, must be {rule}")
