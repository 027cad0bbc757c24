"""Microbenchmarks: what each says about itself, and how long it runs.

Every benchmark checks its result before it is timed. What makes tensors is timed inside a step arena of its
own, whose entering and leaving (under 1 us) counts.
"""

from __future__ import annotations

from pathlib import Path

import machine
import pytest

import gradino as gd
from gradino.config import get_isa

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
