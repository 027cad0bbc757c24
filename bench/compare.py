"""The measurement in one process: gradino and one peer, validated against each other, then timed in turn."""

from __future__ import annotations

import gc
import importlib
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import report
from pace import MOST, Pace, calmest, undisturbed
from workloads import WORKLOADS, Run, Workload

RTOL = 1e-4  # of losses over those steps, and of elements relative to the largest one
SAMPLE = 200e-6  # seconds: shorter steps are timed several at once
SETTLE = 0.01  # seconds of sleep before a turn: waiting threads of the other library go to sleep


@dataclass(frozen=True)
class Effort:
    """How long to measure: steps that must agree, rounds of one turn per contender, seconds and samples of a turn."""

    validation: int
    rounds: int
    turn: float
    samples: int


FULL, QUICK = Effort(8, 15, 0.06, 3), Effort(2, 2, 0.001, 1)


@dataclass
class Contender:
    """One library with one setting; `enter` applies the setting."""

    name: str
    run: Run
    enter: Callable[[], Any]
    inner: int = 1  # steps per sample
    turns: list[float] = field(default_factory=list)  # seconds per step, a median per turn

    def calibrate(self, effort: Effort) -> None:
        """Warms up and finds how many steps a sample takes."""
        self.enter()
        times: list[float] = []
        while len(times) < effort.samples or (sum(times) < effort.turn and len(times) < 100):
            start = time.perf_counter()
            self.run.step()
            times.append(time.perf_counter() - start)
        self.inner = max(1, round(SAMPLE / min(times)))

    def take_turn(self, effort: Effort) -> None:
        """Takes samples and notes their median."""
        step, inner = self.run.step, range(self.inner)
        self.enter()
        time.sleep(SETTLE)
        step()
        samples: list[float] = []
        end = time.perf_counter() + effort.turn
        while len(samples) < effort.samples or time.perf_counter() < end:
            start = time.perf_counter()
            for _ in inner:
                step()
            samples.append(time.perf_counter() - start)
        self.turns.append(statistics.median(samples) / self.inner)


def validate(w: Workload, a: Run, b: Run, steps: int) -> None:
    """Both must return the same over several steps, or no figure is taken.

    Raises:
        AssertionError: naming the workload and the first step that differs.
    """
    for i in range(steps):
        x, y = (np.asarray(run.read(run.step()), np.float64) for run in (a, b))
        scale = np.abs(y).max()
        assert np.isfinite(scale) and np.abs(x - y).max() <= RTOL * scale, (
            f"{w.name}, step {i}: results differ by {np.abs(x - y).max() / scale:.2g}, more than {RTOL:g}: {x} and {y}"
        )


def contenders(w: Workload, ours: Any, theirs: Any, threads: int, effort: Effort) -> list[Contender]:
    """gradino first, then the peer, once per setting that it is fair to try."""
    arrays = w.arrays()

    def make(module: Any) -> Run:
        return getattr(module, w.kind)(w, arrays)  # type: ignore[no-any-return]

    first, second = make(ours), make(theirs)
    validate(w, first, second, effort.validation)
    result = [Contender("gradino", first, lambda: None)]
    if theirs.__name__ != "steps_torch":
        return [*result, Contender("jit", second, lambda: None)]
    import torch

    for n in sorted({threads, 1}, reverse=True):
        result.append(Contender(report.threads(n), second, lambda n=n: torch.set_num_threads(n)))  # type: ignore[misc]
    return result


def time_in_turn(group: list[Contender], effort: Effort) -> int:
    """A B A B ...: every round gives each contender a turn, in alternating order.

    Rounds in which the processors were not at full speed, whoever was running, are taken again. Returns how many.
    """
    for contender in group:
        contender.calibrate(effort)
    best, paces = Pace.best(), list[Pace]()
    gc.collect()
    gc.disable()
    try:
        while len(paces) < effort.rounds or len(undisturbed(paces, best, effort.rounds)) < effort.rounds:
            if len(paces) == MOST * effort.rounds:
                break
            before = Pace.now()
            for contender in group if len(paces) % 2 == 0 else group[::-1]:
                contender.take_turn(effort)
            after = Pace.now()
            paces.append(Pace(min(before.rate, after.rate), max(before.meeting, after.meeting)))
    finally:
        gc.enable()
    kept = calmest(paces, best, effort.rounds)
    for contender in group:
        contender.turns = [contender.turns[i] for i in kept]
    return len(paces) - len(kept)


def row(w: Workload, group: list[Contender]) -> dict[str, Any]:
    """Medians over the turns; ratios are medians over the rounds, so that drift cancels."""
    ours, peers = group[0], group[1:]
    best = min(peers, key=lambda c: statistics.median(c.turns))
    ratios = sorted(b / a for a, b in zip(ours.turns, best.turns))
    return {
        "workload": w.name,
        "gradino": statistics.median(ours.turns),
        "peer": statistics.median(best.turns),
        "setting": best.name,
        "ratio": statistics.median(ratios),
        "ratio_quartiles": [ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]],
        "all_settings": {c.name: statistics.median(c.turns) for c in peers},
    }


def compare(peer: str, threads: int, effort: Effort, log: Callable[[str], None]) -> dict[str, Any]:
    """All workloads on gradino and `peer` ("torch" or "jax"), in this process."""
    if peer == "jax" and hasattr(os, "sched_setaffinity"):  # its pool is as large as the set of processors it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    theirs = importlib.import_module(f"steps_{peer}")
    ours = importlib.import_module("steps_gradino")
    ours.gd.set_num_threads(threads)
    rows = []
    for w in WORKLOADS:
        group = contenders(w, ours, theirs, threads, effort)
        again = time_in_turn(group, effort)
        rows.append({**row(w, group), "rounds_taken_again": again})
        log(f"  {w.name:45} {rows[-1]['ratio']:6.2f} times {theirs.NAME}")
    return {"name": theirs.NAME, "ours": ours.NAME, "rows": rows}
