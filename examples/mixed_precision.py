#!/usr/bin/env python3
"""The same training in float32, in bfloat16 under autocast, and in float16 with a loss scaler.

The task: learn from another network what it says about 64 numbers. What to look at: the model, its weights and the optimizer are the
same in
all three; only the lines around the forward differ. Where the processor multiplies pairs of bfloat16, that run is the
fastest. The float16 run starts with a scale that is too large on purpose, to show steps being skipped until it fits.
"""

from __future__ import annotations

import argparse
import time

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim


def train(precision: str, steps: int, width: int, seed: int) -> tuple[float, float, int]:
    """Mean loss of the last tenth of the steps, seconds, and how many steps the scaler skipped."""
    gd.manual_seed(seed)
    teacher = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 1)).requires_grad_(False)
    model = nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    half = {"float32": None, "bfloat16": gd.bfloat16, "float16": gd.float16}[precision]
    scaler = gd.amp.GradScaler("cpu", init_scale=2.0**28, growth_interval=100, enabled=precision == "float16")
    skipped, losses, start = 0, [], time.perf_counter()
    for _ in range(steps):
        with gd.step_arena():
            x = gd.randn(256, 64)
            target = teacher(x)
            with gd.autocast("cpu", dtype=half or gd.bfloat16, enabled=half is not None):
                loss = F.mse_loss(model(x), target)  # computed in float32, whatever the model gave
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)  # clipping wants the gradients as they are
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)  # left out if a gradient is not finite
            scaler.update()
            skipped += scaler.step_was_skipped
            losses.append(loss.item())
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last), time.perf_counter() - start, skipped


def main(words: list[str] | None = None) -> None:
    """Train three times and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="of each training")
    parser.add_argument("--width", type=int, default=512, help="units of each hidden layer")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data")
    given = parser.parse_args(words)
    if min(given.steps, given.width) < 1 or given.seed < 0:
        parser.error("--steps and --width must be at least 1, --seed at least 0")
    print("precision  loss at the end  time   skipped steps")
    for precision in ("float32", "bfloat16", "float16"):
        loss, seconds, skipped = train(precision, given.steps, given.width, given.seed)
        print(f"{precision:9}  {loss:.4f}           {seconds:4.1f} s  {skipped}")


if __name__ == "__main__":
    main()
