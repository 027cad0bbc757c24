#!/usr/bin/env python3
"""Ops on bfloat16 and float16 beside PyTorch, one thread, after comparing the results. `--paste`: into docs/performance.md."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import compare
import machine
import numpy as np
import report
import torch

import gradino as gd

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
ROWS, COLUMNS = 2048, 2048
EFFORT = compare.Effort(1, 7, 0.01, 3)
OPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a + b": lambda m, a, b: a + b,
    "a * 1.5": lambda m, a, b: a * 1.5,
    "relu": lambda m, a, b: m.relu(a),
    "neg": lambda m, a, b: -a,
    "a < b": lambda m, a, b: a < b,
    "where(a < b, a, b)": lambda m, a, b: m.where(a < b, a, b),
    "exp": lambda m, a, b: m.exp(a),
    "tanh": lambda m, a, b: m.tanh(a),
    "sum": lambda m, a, b: a.sum(),
    "sum, last": lambda m, a, b: a.sum(-1),
    "sum, first": lambda m, a, b: a.sum(0),
    "mean": lambda m, a, b: a.mean(),
    "amax, last": lambda m, a, b: a.amax(-1),
    "softmax, last": lambda m, a, b: m.softmax(a, -1),
}


def pair(op: Callable[[Any, Any, Any], Any], a: np.ndarray, b: np.ndarray, name: str) -> list[compare.Contender]:
    """gradino and PyTorch on the same halves; they must agree within two units in the last place, sums within one percent."""
    ours = [gd.tensor(x).to(getattr(gd, name)) for x in (a, b)]
    theirs = [torch.from_numpy(x).to(getattr(torch, name)) for x in (a, b)]

    def step() -> None:
        with gd.step_arena():
            op(gd, *ours)

    with gd.step_arena():
        got = op(gd, *ours).to(gd.float32).numpy().copy()
    want = op(torch, *theirs).to(torch.float32).numpy()
    close = np.abs(got - want) <= 0.02 * np.abs(want) + 0.02 * np.abs(want).max()
    assert close.all(), f"{name}: results differ"
    runs = (SimpleNamespace(step=step), SimpleNamespace(step=lambda: op(torch, *theirs)))
    return [compare.Contender(who, run, lambda: None) for who, run in zip(("gradino", "PyTorch"), runs)]  # type: ignore[arg-type]


def table() -> str:
    """A row per op, columns for both dtypes."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in range(2))
    rows = []
    for label, op in OPS.items():
        row = [label]
        for name in ("bfloat16", "float16"):
            group = pair(op, a, b, name)
            compare.time_in_turn(group, EFFORT)
            ours, ratios = sorted(group[0].turns), sorted(y / x for x, y in zip(group[0].turns, group[1].turns))
            row += [report.duration(ours[len(ours) // 2]), f"{ratios[len(ratios) // 2]:.2f}x"]
        rows.append(row)
    head = [f"{ROWS} x {COLUMNS}, 1 thread", "bfloat16", "PyTorch takes", "float16", "PyTorch takes"]
    about = f"{machine.cpu()[0]}; gradino {gd.__version__}, PyTorch {torch.__version__}; load averages {machine.load()}"
    return report.table(head, rows) + f"\n\n{about}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paste", action="store_true", help="into docs/performance.md")
    args = parser.parse_args()
    gd.set_num_threads(1)
    torch.set_num_threads(1)
    text = table()
    print(text)
    if args.paste:
        report.paste(DOCUMENT, "halves", text)


if __name__ == "__main__":
    main()
