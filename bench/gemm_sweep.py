#!/usr/bin/env python3
"""Matrix products of many shapes and layouts beside PyTorch, and their share of this machine's peak.

Each product is first validated against float64, then the libraries take turns. The peak is that of fused
multiply-adds of the instruction set in use, from a loop in registers, with as many threads.
Thin products are limited by memory: there the ratio says more than the share. `--paste` measures the products of
docs/performance.md with one thread and with all, and puts the table there.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import compare
import limits
import machine
import numpy as np
import report

import gradino as gd
from gradino import config

# m, k, n of (m, k) x (k, n)
SHAPES = {
    "large": ((512, 512, 512), (1024, 1024, 1024), (2048, 768, 768), (512, 3072, 768), (768, 2048, 768), (2048, 2048, 2048),
              (1000, 1000, 1000)),
    "middle": ((64, 64, 64), (96, 96, 96), (128, 128, 128), (192, 192, 192), (256, 256, 256), (384, 384, 384), (128, 784, 512),
               (64, 512, 128), (257, 129, 65)),
    "small": ((4, 4, 4), (16, 4, 16), (16, 16, 3), (16, 16, 16), (24, 24, 24), (32, 32, 32), (48, 48, 48), (64, 128, 10),
              (512, 2, 32), (13, 31, 17)),
    "vector": ((1, 64, 64), (1, 512, 512), (1, 1024, 1024), (1, 768, 3072), (1, 4096, 4096), (64, 64, 1), (512, 512, 1),
               (1024, 1024, 1), (4096, 4096, 1), (2048, 768, 1)),
    "thin": ((2, 1024, 1024), (4, 1024, 1024), (8, 768, 3072), (16, 1024, 1024), (32, 1024, 1024), (1024, 1024, 2), (1024, 1024, 3),
             (1024, 1024, 8), (1024, 1024, 16), (4096, 64, 8), (2048, 768, 4), (768, 2048, 10)),
    "deep": ((1024, 2, 1024), (1024, 8, 1024), (1024, 16, 1024), (16, 4096, 16), (64, 8192, 64), (4, 16384, 4), (1, 65536, 1),
             (512, 1, 512)),
}  # fmt: skip
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
DOCUMENTED = ((16, 16, 16), (32, 32, 32), (64, 64, 64), (64, 512, 128), (128, 784, 512), (256, 256, 256), (512, 512, 512), (512, 1728, 128),
              (1024, 1024, 1024), (2048, 768, 768), (8, 768, 3072), (1, 512, 512), (1, 4096, 4096), (4096, 4096, 1))  # fmt: skip
LAYOUTS = ("ab", "aB", "Ab", "AB")  # capital: stored the other way round
EFFORTS = {"normal": compare.Effort(1, 9, 0.012, 3), "long": compare.Effort(1, 15, 0.04, 3), "quick": compare.Effort(1, 2, 0.001, 1)}
ROUNDING = {"float32": 2.0**-24, "float64": 2.0**-53}


def product(module: Any, a: Any, b: Any) -> Any:
    """A Run of one product, with the result as an array where asked."""
    if module is not gd:
        return SimpleNamespace(step=lambda: a @ b, read=lambda: (a @ b).numpy())

    def step() -> None:
        with gd.step_arena():
            a @ b

    def read() -> np.ndarray:
        with gd.step_arena():
            return (a @ b).numpy().copy()

    return SimpleNamespace(step=step, read=read)


def stored(make: Callable[[np.ndarray], Any], array: np.ndarray, turned: bool) -> Any:
    """The matrix as a tensor, rows or (turned) columns side by side."""
    return make(np.ascontiguousarray(array.T)).T if turned else make(array)


def contenders(shape: tuple[int, int, int], layout: str, dtype: str, torch: Any) -> list[compare.Contender]:
    """gradino and PyTorch, after both have been validated."""
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size).astype(dtype) for size in ((m, k), (k, n)))
    exact, scale = a.astype(np.float64) @ b.astype(np.float64), np.abs(a).astype(np.float64) @ np.abs(b)
    found = []
    for name, module, make in (("gradino", gd, gd.tensor), ("PyTorch", torch, torch and torch.from_numpy)):
        if module is None:
            continue
        run = product(module, stored(make, a, "A" in layout), stored(make, b, "B" in layout))
        error = float((np.abs(run.read() - exact) / scale).max())
        assert error <= (4 + k) * ROUNDING[dtype], f"{name}, {shape} {layout}: error {error:g} of sum |a| |b|"
        found.append(compare.Contender(name, run, lambda: None))
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=machine.usable_cpus(), help="(default: %(default)s)")
    parser.add_argument("--sets", nargs="+", choices=SHAPES, default=list(SHAPES), help="(default: all)")
    parser.add_argument("--shapes", nargs="+", metavar="MxKxN", help="instead of sets")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=["ab", "aB"], help="(default: %(default)s)")
    parser.add_argument("--dtype", choices=ROUNDING, default="float32")
    parser.add_argument("--effort", choices=EFFORTS, default="normal")
    parser.add_argument("--paste", action="store_true", help="the products of docs/performance.md, into it")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    return parser.parse_args()


def sweep(
    shapes: list[tuple[int, ...]], layouts: list[str], dtype: str, effort: compare.Effort, threads: int, torch: Any
) -> tuple[float, list[Any]]:
    """The peak in GFLOP/s, and of each product in each layout seconds and how many times as long PyTorch takes (sorted, per round)."""
    gd.set_num_threads(threads)
    if torch:
        torch.set_num_threads(threads)
    peak, found = limits.fma_peak(threads, config.get_isa(), dtype), []
    for shape in shapes:
        for layout in layouts:
            group = contenders(shape, layout, dtype, torch)  # type: ignore[arg-type]
            compare.time_in_turn(group, effort)
            turns = sorted(group[0].turns)
            ratios = sorted(theirs / ours for ours, theirs in zip(group[0].turns, group[1].turns)) if torch else []
            found.append((shape, layout, turns[len(turns) // 2] if torch else turns[0], ratios))
    return peak, found


def rate(shape: tuple[int, ...], seconds: float) -> float:
    """GFLOP/s."""
    return float(2 * np.prod(shape, dtype=float) / seconds / 1e9)


def documented(torch: Any, effort: compare.Effort, dtype: str) -> str:
    """The table of docs/performance.md."""
    counts = sorted({1, machine.usable_cpus()})
    sweeps = [sweep(list(DOCUMENTED), ["ab", "aB"], dtype, effort, n, torch) for n in counts]
    head = ["m x k x n", "layout", *(text for n in counts for text in (report.threads(n), "of peak", "PyTorch takes"))]
    rows = []
    for measured in zip(*(found for _, found in sweeps)):
        row = ["x".join(map(str, measured[0][0])), measured[0][1]]
        for (shape, _, seconds, ratios), (peak, _) in zip(measured, sweeps):
            row += [report.duration(seconds), f"{100 * rate(shape, seconds) / peak:.0f}%", f"{ratios[len(ratios) // 2]:.2f}x"]
        rows.append(row)
    peaks = " and ".join(f"{peak:.0f}" for peak, _ in sweeps)
    about = f"{machine.cpu()[0]}, {config.get_isa()}; peak {peaks} GFLOP/s; {dtype}; gradino {gd.__version__}, PyTorch {torch.__version__}"
    return report.table(head, rows) + f"\n\n{about}; aB: the second operand is stored transposed. Load averages {machine.load()}.\n"


def main() -> None:
    args = arguments()
    torch: Any = None
    if not args.alone:
        os.environ["OMP_NUM_THREADS"] = str(args.threads)
        import torch
    if args.paste:
        text = documented(torch, EFFORTS[args.effort], args.dtype)
        print(text)
        report.paste(DOCUMENT, "products", text)
        return
    shapes = [tuple(map(int, s.split("x"))) for s in args.shapes or ()] or [s for name in args.sets for s in SHAPES[name]]
    peak, found = sweep(shapes, args.layouts, args.dtype, EFFORTS[args.effort], args.threads, torch)
    rows = []
    for shape, layout, seconds, ratios in found:
        row = [
            "x".join(map(str, shape)),
            layout,
            report.duration(seconds),
            f"{rate(shape, seconds):.1f}",
            f"{100 * rate(shape, seconds) / peak:.0f}%",
        ]
        if torch:
            row += [f"{ratios[len(ratios) // 2]:.2f}x", f"{ratios[len(ratios) // 4]:.2f}"]
        rows.append(row)
    head = ["m x k x n", "layout", "time", "GFLOP/s", "of peak", *(["PyTorch takes", "lower quartile"] if torch else [])]
    print(report.table(head, rows))
    versions = [f"gradino {gd.__version__}", *([f"PyTorch {torch.__version__}"] if torch else [])]
    where = f"{machine.cpu()[0]}, {config.get_isa()}, peak {peak:.0f} GFLOP/s"
    print(f"\n{where}; {report.threads(args.threads)} each; {args.dtype}; {', '.join(versions)}.")


if __name__ == "__main__":
    main()
