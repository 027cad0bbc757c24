#!/usr/bin/env python3
"""Three spirals, one colour each: a 2-32-3 network learns to tell them apart and draws its map.

Points are made here, nothing is loaded. What to look at: no straight line parts the arms, so the hidden
layer has to bend; the picture in letters shows what each point of the plane would be called.
"""

from __future__ import annotations

import argparse
import math

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim

ARMS = 3


def spiral(points: int) -> tuple[gd.Tensor, gd.Tensor]:
    """``points`` on each arm: places (ARMS * points, 2) and arms (ARMS * points) as int64."""
    radius = gd.linspace(0.05, 1, points).unsqueeze(0)  # (1, points)
    start = gd.arange(ARMS).float().unsqueeze(1) * (2 * math.pi / ARMS)  # (ARMS, 1)
    angle = start + radius * 4.5 + 0.15 * gd.randn(ARMS, points)  # broadcast to (ARMS, points)
    places = gd.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)
    return places.reshape(-1, 2), gd.arange(ARMS).unsqueeze(1).expand(ARMS, points).reshape(-1)


def chart(model: nn.Module, columns: int = 64, rows: int = 26) -> str:
    """What the model calls each point of the square from -1 to 1, one letter a point."""
    with gd.step_arena(), gd.no_grad():
        across = gd.linspace(-1, 1, columns).unsqueeze(0).expand(rows, columns)
        down = gd.linspace(1, -1, rows).unsqueeze(1).expand(rows, columns)
        arms = model(gd.stack([across, down], dim=-1)).argmax(-1)  # (rows, columns, 2) -> (rows, columns)
        return "\n".join("".join(".o#"[arm] for arm in row) for row in arms.tolist())


def main(words: list[str] | None = None) -> None:
    """Train on all points at once, then draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="training steps, each over all points")
    parser.add_argument("--points", type=int, default=150, help="points on each arm")
    parser.add_argument("--seed", type=int, default=0, help="of points and weights")
    given = parser.parse_args(words)
    if min(given.steps, given.points) < 1 or given.seed < 0:
        parser.error("--steps and --points must be at least 1, --seed at least 0")

    gd.manual_seed(given.seed)
    places, arms = spiral(given.points)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, ARMS))
    optimizer = optim.AdamW(model.parameters(), lr=2e-2)
    for step in range(given.steps):
        with gd.step_arena():
            loss = F.cross_entropy(model(places), arms)
            loss.backward(optimizer=optimizer)  # as backward, step and zero_grad, in one go
            if step % max(1, given.steps // 5) == 0 or step == given.steps - 1:
                print(f"step {step + 1:4}: loss {loss.item():.4f}")

    with gd.step_arena(), gd.no_grad():
        right = (model(places).argmax(1) == arms).float().mean().item()
    print(chart(model))
    print(f"{right:.1%} of {ARMS * given.points} points are on the arm the model says")


if __name__ == "__main__":
    main()
