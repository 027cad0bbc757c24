#!/usr/bin/env python3
"""Training steps of a GPT on gradino beside PyTorch: one model file, written for PyTorch, run by both libraries.

Both start from the same weights and must give the same losses; then they are timed in alternating turns of one process.
Peak memory is that of a process of its own for each. `python bench/gpt.py --help` lists the options.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
from compare import Contender, Effort, time_in_turn
from gpt_library import model_file
from workloads import Run

HERE = Path(__file__).resolve().parent
LR, SEED, VALIDATION, MEMORY_STEPS = 3e-4, 0, 4, 5
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}  # of losses


@dataclass(frozen=True)
class Size:
    """A GPT and its batches."""

    layers: int
    width: int
    heads: int
    length: int
    batch: int
    vocabulary: int = 65

    def __str__(self) -> str:
        return f"{self.layers} layers, width {self.width}, {self.heads} heads, T {self.length}, batch {self.batch}"


SIZES = {"large": Size(6, 384, 6, 256, 8), "small": Size(4, 128, 4, 64, 12)}


def training(library: str, size: Size, dtype: str, weights: dict[str, np.ndarray] | None = None) -> tuple[Run, dict[str, np.ndarray]]:
    """A training step, and the weights it starts from: drawn, unless given. bfloat16 means autocast."""
    module = model_file(library)
    t = module.torch
    t.manual_seed(SEED)
    model = module.GPT(size.vocabulary, size.length, size.layers, size.width, size.heads)
    if weights is not None:
        model.load_state_dict({name: t.tensor(value) for name, value in weights.items()})
    drawn = {name: np.array(value.detach().numpy()) for name, value in model.state_dict().items()}
    opt = t.optim.AdamW(model.parameters(), lr=LR, **({"fused": True} if library == "torch" else {}))
    rng = np.random.default_rng(SEED)
    x, y = (t.from_numpy(rng.integers(0, size.vocabulary, (size.batch, size.length))) for _ in range(2))
    arena = t.step_arena if library == "gradino" else contextlib.nullcontext

    def cast() -> Any:
        return t.autocast("cpu", dtype=t.bfloat16) if dtype == "bfloat16" else contextlib.nullcontext()

    def step() -> float:
        with arena():
            with cast():
                loss = model(x, y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            return float(loss.item())

    return Run(step, float), drawn


def peak_memory(library: str, size: Size, dtype: str) -> float:
    """MiB that training adds to the peak of this process after the imports."""
    model_file(library)
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run, _ = training(library, size, dtype)
    for _ in range(MEMORY_STEPS):
        run.step()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit / 2**20


def memory_of(library: str, name: str, dtype: str, threads: int) -> float:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--memory", library, "--sizes", name, "--dtypes", dtype]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), GRADINO_NUM_THREADS=str(threads))
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout.strip().splitlines()[-1])


def measure(name: str, dtype: str, threads: int, effort: Effort, memory: dict[str, float]) -> dict[str, Any]:
    """One line of the table."""
    size = SIZES[name]
    ours, weights = training("gradino", size, dtype)
    theirs, _ = training("torch", size, dtype, weights)
    for i in range(VALIDATION):
        a, b = ours.step(), theirs.step()
        assert abs(a - b) <= TOLERANCE[dtype] * abs(b), f"{size}, {dtype}, step {i}: the losses are {a} and {b}"
    import torch

    torch.set_num_threads(threads)
    group = [Contender("gradino", ours, lambda: None), Contender("torch", theirs, lambda: None)]
    again = time_in_turn(group, effort)
    ratios = sorted(b / a for a, b in zip(group[0].turns, group[1].turns))
    return {
        "size": str(size), "dtype": dtype, "gradino": statistics.median(group[0].turns), "torch": statistics.median(group[1].turns),
        "ratio": statistics.median(ratios), "ratios": ratios, "repeated": again, "memory": memory,
    }  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=machine.usable_cpus(), help="for both libraries (default: %(default)s)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--dtypes", nargs="+", choices=TOLERANCE, default=list(TOLERANCE), help="bfloat16: under autocast")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each library (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one turn each, to see that it runs; no figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.memory:
        print(peak_memory(args.memory, SIZES[args.sizes[0]], args.dtypes[0]))
        return
    if importlib.util.find_spec("torch") is None:
        sys.exit("gpt.py: PyTorch is not installed: there is nothing to compare with")
    effort = Effort(VALIDATION, 1, 0.0, 1) if args.quick else Effort(VALIDATION, args.rounds, 0.2, 2)
    print(", ".join(f"{key}: {value}" for key, value in machine.describe().items()), f"{args.threads} threads", sep=", ")
    print("| GPT | dtype | gradino | PyTorch | ratio | memory, gradino | PyTorch |\n|---|---|---|---|---|---|---|")
    wanted = [(name, dtype) for dtype in args.dtypes for name in args.sizes]
    # first: a process inherits the peak of the one that starts it
    peaks = [{library: memory_of(library, *pair, args.threads) for library in ("gradino", "torch")} for pair in wanted]
    found = []
    for (name, dtype), memory in zip(wanted, peaks):
        line = measure(name, dtype, args.threads, effort, memory)
        found.append(line)
        print(
            f"| {line['size']} | {dtype} | {1e3 * line['gradino']:.1f} ms | {1e3 * line['torch']:.1f} ms | {line['ratio']:.2f} "
            f"| {memory['gradino']:.0f} MiB | {memory['torch']:.0f} MiB |",
            flush=True,
        )
    if args.json:
        args.json.write_text(
            json.dumps({"machine": machine.describe(), "threads": args.threads, "lines": found}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
