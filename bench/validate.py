"""A benchmark's step in its arena, and the check of its result against the portable kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradino as gd
from gradino.config import get_isa, set_isa


def in_arena(step: Callable[[], Any]) -> Callable[[], None]:
    """The step in a step arena of its own: what it makes is forgotten."""

    def timed() -> None:
        with gd.step_arena():
            step()

    return timed


def agrees(step: Callable[[], gd.Tensor], reference: Callable[[], gd.Tensor], rtol: float = 1e-4) -> None:
    """A result is that of a reference computed with the portable kernels, within rtol of its largest element."""
    isa = get_isa()
    with gd.step_arena():
        result = np.array(step().detach().numpy(), np.float64)
        set_isa("portable")
        try:
            expected = np.array(reference().detach().numpy(), np.float64)
        finally:
            set_isa(isa)
    assert result.shape == expected.shape, f"shape {result.shape}, must be {expected.shape}"
    worst, scale = np.abs(result - expected).max(initial=0), np.abs(expected).max(initial=0)
    assert np.isfinite(scale) and worst <= rtol * scale, f"differs by {worst:.3g} where the largest is {scale:.3g}"
