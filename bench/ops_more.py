"""Times of ops that order, scan and move elements against PyTorch's, side by side: `python bench/ops_more.py [names]`.

Each op runs on about a million elements; both results are compared before the clock starts. Rounds of both alternate, and
the fastest round counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import gradino as gd

ROUNDS = 7
SECONDS = 0.02  # of one round, about
N = 1_000_000


def inputs(rng: np.random.Generator) -> dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    """Of each op: how to call it with a module and tensors, and the arrays."""
    line, table = rng.standard_normal(N).astype(np.float32), rng.standard_normal((1000, 1000)).astype(np.float32)
    index, rows = rng.integers(0, N, N), rng.integers(0, 1000, 1000)
    picture = rng.standard_normal((16, 16, 62, 62)).astype(np.float32)
    columns = rng.integers(0, 1000, (1000, 1000))
    spread = (rng.random(N) < 0.3).astype(np.float32)
    whole = rng.integers(0, 1000, N)
    return {
        "sort 1M": (lambda m, x: m.sort(x, stable=True).values, (line,)),
        "sort (1000, 1000)": (lambda m, x: m.sort(x, dim=1, stable=True).values, (table,)),
        "sort (1000, 1000) dim 0": (lambda m, x: m.sort(x, dim=0, stable=True).values, (table,)),
        "sort int64 1M": (lambda m, x: m.sort(x, stable=True).values, (whole,)),
        "topk 10 of 1M": (lambda m, x: m.topk(x, 10).values, (line,)),
        "topk 10 of (1000, 1000)": (lambda m, x: m.topk(x, 10).values, (table,)),
        "cumsum 1M": (lambda m, x: m.cumsum(x, 0), (line,)),
        "cumsum (1000, 1000) dim 1": (lambda m, x: m.cumsum(x, 1), (table,)),
        "cumsum (1000, 1000) dim 0": (lambda m, x: m.cumsum(x, 0), (table,)),
        "gather 1M": (lambda m, x, i: m.gather(x, 0, i), (line, index)),
        "gather (1000, 1000) dim 1": (lambda m, x, i: m.gather(x, 1, i), (table, columns)),
        "gather (1000, 1000) dim 0": (lambda m, x, i: m.gather(x, 0, i), (table, columns)),
        "scatter_add 1M": (lambda m, x, i, v: m.scatter_add(x, 0, i, v), (line, index, line)),
        "scatter_add (1000, 1000)": (lambda m, x, i, v: m.scatter_add(x, 1, i, v), (table, columns, table)),
        "index_add (1000, 1000)": (lambda m, x, i, v: m.index_add(x, 0, i, v), (table, rows, table)),
        "index_select rows": (lambda m, x, i: m.index_select(x, 0, i), (table, rows)),
        "index_select 1M": (lambda m, x, i: m.index_select(x, 0, i), (line, index)),
        "pad (16, 16, 62, 62)": (lambda m, x: m.nn.functional.pad(x, (1, 1, 1, 1)), (picture,)),
        "pad reflect": (lambda m, x: m.nn.functional.pad(x, (1, 1, 1, 1), "reflect"), (picture,)),
        "nonzero 1M": (lambda m, x: m.nonzero(x), (spread,)),
        "masked_select 1M": (lambda m, x, k: m.masked_select(x, k), (line, spread > 0)),
        "flip": (lambda m, x: m.flip(x, (0, 1)), (table,)),
        "roll": (lambda m, x: m.roll(x, 7, 1), (table,)),
        "norm 1M": (lambda m, x: m.norm(x), (line,)),
        "norm (1000, 1000) dim 0": (lambda m, x: m.norm(x, dim=0), (table,)),
        "searchsorted 1M in 1000": (lambda m, s, x: m.searchsorted(s, x), (np.sort(line[:1000]), line)),
        "eye 1000": (lambda m, x: m.eye(1000), (line[:1],)),
        "remainder 1M": (lambda m, x: m.remainder(x, 0.7), (line,)),
        "unique int64 1M": (lambda m, x: m.unique(x), (whole,)),
    }


def timed(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def main() -> None:
    torch.set_num_threads(gd.get_num_threads())
    print(f"gradino {gd.__version__}, PyTorch {torch.__version__}, {gd.get_num_threads()} threads, float32")
    print("microseconds of both, and PyTorch's by gradino's")
    for name, (call, arrays) in inputs(np.random.default_rng(0)).items():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        ours, theirs = [gd.tensor(a) for a in arrays], [torch.from_numpy(a) for a in arrays]

        def run_ours(call: Callable[..., Any] = call, ours: list[Any] = ours) -> None:
            with gd.step_arena():
                call(gd, *ours)

        def run_theirs(call: Callable[..., Any] = call, theirs: list[Any] = theirs) -> None:
            call(torch, *theirs)

        with gd.step_arena():
            np.testing.assert_allclose(call(gd, *ours).numpy(), call(torch, *theirs).numpy(), rtol=1e-3, atol=1e-3)
        counts = [max(1, int(SECONDS / timed(f, 2))) for f in (run_ours, run_theirs)]
        best = [min(ts) for ts in zip(*((timed(run_ours, counts[0]), timed(run_theirs, counts[1])) for _ in range(ROUNDS)))]
        print(f"{name:28} {best[0] * 1e6:9.0f} {best[1] * 1e6:9.0f} {best[1] / best[0]:7.2f}", flush=True)


if __name__ == "__main__":
    main()
