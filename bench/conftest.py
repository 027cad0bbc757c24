"""Microbenchmarks: what each says about itself, and how long it runs.

Every benchmark checks its result before it is timed. What makes tensors is timed inside a step arena of its
own, whose entering and leaving (under 1 us) counts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pytest

import gradino as gd
from gradino.config import get_isa, set_isa

HERE = Path(__file__).resolve().parent
SECONDS = 0.2  # of one benchmark; pytest-benchmark's default of 1 makes the list slow


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.benchmark(max_time=SECONDS))


def pytest_report_header() -> str:
    name, flags = machine.cpu()
    where = f"{name}; {' '.join(flags)}; load averages {machine.load()}"
    return f"gradino {gd.__version__}, {get_isa()}, {gd.get_num_threads()} threads, float32; {where}"


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
