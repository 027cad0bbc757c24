#!/usr/bin/env python3
"""What this machine can do at most, and how much of it gradino's kernels reach.

Fused multiply-adds per second and copied bytes per second, from a loop of C (probe.c); the best of many
short samples, with one thread and with all. `--paste` puts the tables into docs/performance.md.
"""

from __future__ import annotations

import argparse
import ctypes
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
import probe
import report

import gradino as gd

SAMPLES = 60
ISAS = ("avx512", "avx2")
COPY_BYTES = 64 << 20  # more than caches hold
PARAMETERS = 10_000_000  # of an optimizer step
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def best(seconds: Callable[[], float]) -> float:
    """The shortest of many samples: the one that nothing disturbed."""
    return min(seconds() for _ in range(SAMPLES))


def together(threads: int, work: Callable[[int], float]) -> float:
    """Seconds that `threads` threads, numbered, took for their samples, each its best: work that does not wait."""
    times = [0.0] * threads

    def run(i: int) -> None:
        times[i] = best(lambda: work(i))

    workers = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(times)


def fma_peak(library: ctypes.CDLL, threads: int, isa: str | None = None) -> tuple[float, str]:
    """GFLOP/s in float32, and the instruction set that reaches it (or that one's, if given)."""
    flags = machine.cpu()[1]
    isa = isa or next((i for i in ISAS if i in flags or f"{i}f" in flags), None)
    if isa is None or not hasattr(library, f"probe_fma_{isa}"):
        return float("nan"), "unknown"
    n = 20_000
    run = probe.function(library, f"fma_{isa}", ctypes.c_int64)
    flops = 2 * n * getattr(library, f"probe_lanes_{isa}")()
    return threads * flops / together(threads, lambda _: run(n)) / 1e9, isa


def copy_peak(library: ctypes.CDLL, threads: int) -> float:
    """GB/s, read and written bytes together."""
    part = COPY_BYTES // threads
    run = probe.function(library, "copy", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    arrays = [(np.ones(part, np.uint8), np.zeros(part, np.uint8)) for _ in range(threads)]
    seconds = together(threads, lambda i: run(arrays[i][1].ctypes.data, arrays[i][0].ctypes.data, part, 1))
    return threads * 2 * part / seconds / 1e9


def update_peak(library: ctypes.CDLL, threads: int) -> float:
    """GB/s of a loop with an AdamW step's memory accesses: four streams read, three of them written in place."""
    part = PARAMETERS // threads
    run = probe.function(library, "update", *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64)
    with gd.Arena(name="streams") as arena:
        streams = [[gd.full((part,), 1e-3) for _ in range(4)] for _ in range(threads)]
        places = [[t.numpy().ctypes.data for t in four] for four in streams]
        seconds = together(threads, lambda i: run(*places[i], part, 1))
    arena.close()
    return threads * 7 * 4 * part / seconds / 1e9


def timed(step: Callable[[], Any]) -> float:
    """Seconds of a step in an arena of its own, the best of many."""

    def seconds() -> float:
        start = time.perf_counter()
        with gd.step_arena():
            step()
        return time.perf_counter() - start

    step()
    return best(seconds)


def matmul_rate(n: int) -> float:
    """GFLOP/s of a square product."""
    a, b = gd.randn(n, n), gd.randn(n, n)
    return 2 * n**3 / timed(lambda: a @ b) / 1e9


def add_rate() -> float:
    """GB/s of an addition: two reads and a write per element."""
    a, b = gd.randn(COPY_BYTES // 4), gd.randn(COPY_BYTES // 4)
    return 3 * COPY_BYTES / timed(lambda: a + b) / 1e9


def adamw_rate() -> float:
    """GB/s of an AdamW step on 10 M parameters: four reads and three writes per parameter."""
    p = gd.nn.Parameter(gd.randn(PARAMETERS))
    p.grad = gd.randn(PARAMETERS)
    opt = gd.optim.AdamW([p])
    return 7 * 4 * PARAMETERS / timed(opt.step) / 1e9


def limits(threads: list[int]) -> str:
    """The table, a column per thread count."""
    library = probe.require()
    columns = []
    for n in threads:
        gd.set_num_threads(n)
        peak, isa = fma_peak(library, n)
        copy = copy_peak(library, n)
        column = [f"{peak:.0f} GFLOP/s"]
        column += [f"{rate:.0f} GFLOP/s, {100 * rate / peak:.0f}%" for rate in (matmul_rate(512), matmul_rate(2048))]
        column += [f"{copy:.1f} GB/s"]
        rate, update, adamw = add_rate(), update_peak(library, n), adamw_rate()
        column += [f"{rate:.1f} GB/s, {100 * rate / copy:.0f}%", f"{update:.1f} GB/s", f"{adamw:.1f} GB/s, {100 * adamw / update:.0f}%"]
        columns.append(column)
    names = [
        f"fused multiply-adds, float32, {isa}",
        "gradino: matmul 512 x 512 x 512",
        "gradino: matmul 2048 x 2048 x 2048",
        f"memcpy of {COPY_BYTES >> 20} MiB, read and written",
        "gradino: addition of 16 M elements, two read, one written",
        "four streams of 10 M float32 read, three written in place",
        "gradino: AdamW on 10 M parameters, the same accesses",
    ]
    return report.table(["", *map(report.threads, threads)], [list(row) for row in zip(names, *columns)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=machine.usable_cpus(), help="(default: %(default)s)")
    parser.add_argument("--paste", action="store_true", help="into docs/performance.md")
    args = parser.parse_args()
    text = limits(sorted({1, args.threads}))
    name, flags = machine.cpu()
    text += f"\n\n{name}; {' '.join(flags)}; gradino {gd.__version__}; load averages {machine.load()}.\n"
    print(text)
    if args.paste:
        report.paste(DOCUMENT, "limits", text)


if __name__ == "__main__":
    main()
