#!/usr/bin/env python3
"""The smallest whole example: tell three kinds of iris apart by four lengths, with a 4-16-3 network.

The table beside this file (Fisher, 1936) has one flower a line: four lengths in centimetres, then the
kind. What to look at: parameters are permanent, and everything a training step makes dies with its arena.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from pathlib import Path

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim

TABLE = Path(__file__).with_name("iris.csv")


def read_table() -> tuple[list[list[float]], list[int], list[str]]:
    """Lengths, kinds as numbers, and the kinds' names."""
    with open(TABLE, newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    names = list(dict.fromkeys(row[4] for row in rows))
    return [[float(x) for x in row[:4]] for row in rows], [names.index(row[4]) for row in rows], names


def main(words: list[str] | None = None) -> None:
    """Train on 120 flowers, judge the other 30."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40, help="passes over the training flowers")
    parser.add_argument("--seed", type=int, default=0, help="of weights and order")
    given = parser.parse_args(words)
    if given.epochs < 1 or given.seed < 0:
        parser.error("--epochs must be at least 1, --seed at least 0")

    gd.manual_seed(given.seed)
    lengths, kinds, names = read_table()
    order = random.Random(given.seed).sample(range(len(kinds)), len(kinds))
    x = gd.tensor([lengths[i] for i in order])  # (150, 4); made outside any step, so it stays
    y = gd.tensor([kinds[i] for i in order])  # (150) int64
    x = (x - x.mean(0)) / x.std(0)
    test, batch = slice(120, 150), 16

    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    began, steps = time.perf_counter(), 0
    for epoch in range(given.epochs):
        total = 0.0
        for i in range(0, 120, batch):
            with gd.step_arena():  # activations, gradients and graph live here, and only here
                part = slice(i, min(i + batch, 120))
                loss = F.cross_entropy(model(x[part]), y[part])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total += loss.item() * (part.stop - part.start)  # a number outlives the arena, a tensor would not
            steps += 1
        if epoch % max(1, given.epochs // 6) == 0 or epoch == given.epochs - 1:
            print(f"epoch {epoch + 1:3}: training loss {total / 120:.4f}")
    print(f"{steps} steps, {1e6 * (time.perf_counter() - began) / steps:.0f} microseconds each")

    with gd.step_arena(), gd.no_grad():
        guess = model(x[test]).argmax(1)
        right = (guess == y[test]).sum().item()
        wrong = [(names[t], names[g]) for t, g in zip(y[test].tolist(), guess.tolist(), strict=True) if t != g]
    print(f"unseen flowers: {right} of 30 named rightly" + "".join(f"; a {t} was called {g}" for t, g in wrong))


if __name__ == "__main__":
    main()
