#!/usr/bin/env python3
"""A deep network in a fraction of the memory: three ways to train it, with the same numbers.

Backward needs what forward computed, so all of it is kept, and a network of 96 layers keeps 96 layers' worth. With
checkpoints only a few of the results are kept; what lies between two of them is computed again when backward comes there.
What to look at: the losses are equal to the last digit, dropout included, because random numbers are in the second
computation as they were in the first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim
from gradino.utils.checkpoint import checkpoint, checkpoint_sequential


class Block(nn.Module):
    """x + what a small network makes of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: gd.Tensor) -> gd.Tensor:
        return x + self.dropout(F.gelu(self.hidden(self.norm(x)))) / 4


def train(name: str, forward: Callable[[nn.Sequential, gd.Tensor], gd.Tensor], depth: int, width: int, steps: int, seed: int) -> float:
    """Trains for some steps and prints what it took. The last loss."""
    gd.manual_seed(seed)
    model = nn.Sequential(*(Block(width) for _ in range(depth)))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    loss_now, most, start = 0.0, 0, time.perf_counter()
    for _ in range(steps):
        with gd.step_arena():
            x = gd.randn(64, width)
            loss = F.mse_loss(forward(model, x), x * x.mean(1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_now = loss.item()
            most = max(most, sum(arena.high_water for key, arena in gd.memory_stats().items() if key.startswith("step")))
    print(f"{name:28} {most / 2**20:7.1f} MiB  {time.perf_counter() - start:6.1f} s  {loss_now:.6f}")
    return loss_now


def each_block(model: nn.Sequential, x: gd.Tensor) -> gd.Tensor:
    """Every block on its own: the least is kept, its input."""
    for block in model:
        x = checkpoint(block, x)
    return x


def main(words: list[str] | None = None) -> None:
    """Train three times and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="of each training")
    parser.add_argument("--depth", type=int, default=96, help="blocks")
    parser.add_argument("--width", type=int, default=128, help="units of each block")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data")
    given = parser.parse_args(words)
    if min(given.steps, given.depth, given.width) < 1 or given.seed < 0:
        parser.error("--steps, --depth and --width must be at least 1, --seed at least 0")
    segments = max(1, round(given.depth**0.5))
    print("way of training                   memory      time  loss at the end")
    sizes = (given.depth, given.width, given.steps, given.seed)
    # A step arena remembers the most that it ever held, so those that need less come first.
    a = train("every block a checkpoint", each_block, *sizes)
    b = train(f"{segments} segments", lambda model, x: checkpoint_sequential(model, segments, x), *sizes)
    c = train("everything kept", lambda model, x: model(x), *sizes)
    print("the losses are the same" if a == b == c else f"the losses differ: {a}, {b}, {c}")


if __name__ == "__main__":
    main()
