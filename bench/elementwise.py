#!/usr/bin/env python3
"""Elementwise ops on 16 M float32, one thread: gradino beside PyTorch, and beside what memory allows.

Every op is first compared with PyTorch's result, then the three ways take turns: gradino, whose step arena
hands out the same pages again; PyTorch out of place, as its users write it, which asks the system for fresh
pages each time; and PyTorch with `out=`, which has warm pages, too. The share is that of the bytes a copy of
the same size moves in a second (memcpy into warm pages). `--paste` puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import probe
import report
import torch

import gradino as gd

N = 1 << 24
ROUNDS = 7
RTOL = 2e-6
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
t, g = torch.nn.functional, gd.nn.functional

# name, gradino, PyTorch, PyTorch into `out`, inputs; "positive" inputs are in (0, 4), others in (-4, 4)
Function = Callable[..., Any]
OPS: dict[str, tuple[Function, Function, Function | None, int, bool]] = {
    "add": (gd.add, torch.add, torch.add, 2, False),
    "mul": (gd.mul, torch.mul, torch.mul, 2, False),
    "relu": (gd.relu, torch.relu, None, 1, False),
    "sqrt": (gd.sqrt, torch.sqrt, torch.sqrt, 1, True),
    "rsqrt": (gd.rsqrt, torch.rsqrt, torch.rsqrt, 1, True),
    "exp": (gd.exp, torch.exp, torch.exp, 1, False),
    "expm1": (gd.expm1, torch.expm1, torch.expm1, 1, False),
    "log": (gd.log, torch.log, torch.log, 1, True),
    "log1p": (gd.log1p, torch.log1p, torch.log1p, 1, True),
    "log2": (gd.log2, torch.log2, torch.log2, 1, True),
    "tanh": (gd.tanh, torch.tanh, torch.tanh, 1, False),
    "sigmoid": (gd.sigmoid, torch.sigmoid, torch.sigmoid, 1, False),
    "erf": (gd.erf, torch.erf, torch.erf, 1, False),
    "gelu": (g.gelu, t.gelu, None, 1, False),
    "gelu, tanh form": (lambda x: g.gelu(x, "tanh"), lambda x: t.gelu(x, approximate="tanh"), None, 1, False),
    "silu": (g.silu, t.silu, None, 1, False),
    "softplus": (g.softplus, t.softplus, None, 1, False),
    "sin": (gd.sin, torch.sin, torch.sin, 1, False),
    "cos": (gd.cos, torch.cos, torch.cos, 1, False),
}


def copy_seconds() -> float:
    """The best of many copies of N floats, between pages such as gradino's."""
    run = probe.function(probe.require(), "copy", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    a, b = gd.ones(N).numpy(), gd.zeros(N).numpy()
    return min(run(b.ctypes.data, a.ctypes.data, 4 * N, 1) for _ in range(20))


def once(step: Callable[[], Any]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def row(name: str, arrays: list[np.ndarray], bandwidth: float) -> list[str]:
    """One op: validated, then timed in turns."""
    ours, theirs, into, nin, positive = OPS[name]
    inputs = [np.abs(a) if positive else a for a in arrays[:nin]]
    ga, ta = [gd.from_numpy(a) for a in inputs], [torch.from_numpy(a) for a in inputs]
    with gd.step_arena():
        got, want = ours(*ga).numpy(), theirs(*ta).numpy()
        worst = np.abs(got - want).max() / np.abs(want).max()
        assert worst < RTOL, f"{name}: differs from PyTorch by {worst:.2g}"

    def gradino() -> None:
        with gd.step_arena():
            ours(*ga)

    out = torch.empty_like(ta[0])
    ways = [gradino, lambda: theirs(*ta)] + ([lambda: into(*ta, out=out)] if into else [])
    times: list[list[float]] = [[] for _ in ways]
    for i in range(ROUNDS + 1):
        for k in range(len(ways)) if i % 2 else reversed(range(len(ways))):
            times[k].append(once(ways[k]))
    medians = [statistics.median(turns[1:]) for turns in times]
    ratios = [statistics.median(b / a for a, b in zip(times[0][1:], turns[1:])) for turns in times[1:]]
    share = 4 * N * (nin + 1) / medians[0] / bandwidth
    cells = [name, report.duration(medians[0]), f"{100 * share:.0f}%", report.duration(medians[1]), report.ratio(ratios[0])]
    return cells + ([report.duration(medians[2]), report.ratio(ratios[1])] if into else ["", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", default=list(OPS), help="(default: all)")
    parser.add_argument("--paste", action="store_true", help="into docs/performance.md")
    args = parser.parse_args()
    gd.set_num_threads(1)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-4, 4, N).astype(np.float32) for _ in range(2)]
    with gd.Arena(name="copies"):
        bandwidth = 8 * N / copy_seconds()
    rows = [row(name, arrays, bandwidth) for name in args.ops]
    head = ["16 M float32, 1 thread", "gradino", "of copy bandwidth", "PyTorch", "gradino is", "PyTorch, `out=`", "gradino is"]
    text = report.table(head, rows)
    name, flags = machine.cpu()
    text += f"\n\nCopy: {bandwidth / 1e9:.1f} GB/s, read and written. {name}; {' '.join(flags)}; gradino {gd.__version__}, "
    text += f"PyTorch {torch.__version__}; kernels for {gd.config.get_isa()}; load averages {machine.load()}.\n"
    sys.stdout.write(text)
    if args.paste:
        report.paste(DOCUMENT, "elementwise", text)


if __name__ == "__main__":
    main()
