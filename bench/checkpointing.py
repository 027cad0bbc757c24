#!/usr/bin/env python3
"""What checkpointing saves and costs: activation memory and time of a training step, gradients compared bit by bit.

A deep stack of Linear and ReLU, with all of its activations kept, and in segments that are computed again.
`--paste` puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import report

import gradino as gd
import gradino.nn.functional as F
from gradino import nn
from gradino.utils.checkpoint import checkpoint_sequential

DEPTH, WIDTH, BATCH, SEGMENTS = 144, 256, 256, (12, 24, 36)
ROUNDS = 7
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"

Forward = Callable[[gd.Tensor], gd.Tensor]


def step(model: nn.Module, forward: Forward, x: gd.Tensor, y: gd.Tensor) -> float:
    """One step without an update; the loss."""
    model.zero_grad()
    loss = F.mse_loss(forward(x), y)
    loss.backward()
    return float(loss.item())


def memory(model: nn.Module, forward: Forward, x: gd.Tensor, y: gd.Tensor) -> tuple[int, list[Any], float]:
    """Bytes that one step has in its arenas at most, its gradients and loss. Called in the order of growing memory."""
    with gd.Arena() as arena:
        loss = step(model, forward, x, y)
        inner = [s.high_water for name, s in gd.memory_stats().items() if name.startswith("step")]
        total = arena.stats().high_water + (0 if forward is model else sum(inner))
    gradients = [p.grad.numpy().copy() for p in model.parameters() if p.grad is not None]
    arena.close()
    return total, gradients, loss


def in_segments(model: nn.Sequential, segments: int) -> Forward:
    return lambda t: checkpoint_sequential(model, segments, t)


def measure(rounds: int) -> tuple[list[list[str]], bool]:
    """Rows of the table, and whether all gradients are the same bits."""
    gd.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))
    x, y = gd.randn(BATCH, WIDTH), gd.randn(BATCH, WIDTH)
    ways: dict[str, Forward] = {f"{n} segments": in_segments(model, n) for n in sorted(SEGMENTS, reverse=True)} | {"all kept": model}
    found = {name: memory(model, forward, x, y) for name, forward in ways.items()}
    _, wanted, loss = found["all kept"]
    same = all(own == loss and len(g) == len(wanted) and all((a == b).all() for a, b in zip(g, wanted)) for _, g, own in found.values())
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, forward in ways.items():
            start = time.perf_counter()
            with gd.step_arena():
                step(model, forward, x, y)
            times[name].append(time.perf_counter() - start)
    plain = times["all kept"][1:]
    rows = []
    for name in reversed(ways):
        ratio = statistics.median(t / p for t, p in zip(times[name][1:], plain))
        bytes_used = found[name][0]
        rows.append(
            [
                name,
                f"{bytes_used / 2**20:.1f} MiB",
                f"{found['all kept'][0] / bytes_used:.1f}x less",
                f"{1e3 * statistics.median(times[name][1:]):.0f} ms",
                f"{100 * (ratio - 1):+.0f}%",
            ]
        )
    return rows, same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of timing")
    parser.add_argument("--paste", action="store_true", help="into docs/performance.md")
    args = parser.parse_args()
    gd.set_num_threads(1)
    rows, same = measure(args.rounds)
    if not same:
        raise SystemExit("the gradients differ: these figures say nothing")
    name, flags = machine.cpu()
    text = report.table(["", "activation memory", "", "step", ""], rows)
    text += (
        f"\n\n{DEPTH} x (Linear({WIDTH}, {WIDTH}), ReLU), batch {BATCH}, float32, 1 thread; forward and backward; "
        f"loss and gradients have the same bits in all. {name}; {' '.join(flags)}; gradino {gd.__version__}; "
        f"medians of {args.rounds} alternating rounds; load averages {machine.load()}.\n"
    )
    print(text)
    if args.paste:
        report.paste(DOCUMENT, "checkpointing", text)


if __name__ == "__main__":
    main()
