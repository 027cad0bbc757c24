#!/usr/bin/env python3
"""Handwritten digits with a multilayer perceptron: the smallest complete training program.

The 1797 pictures come with scikit-learn. What to look at: a Dataset and a DataLoader shuffle and batch, a step arena
takes everything a step makes and gives it back at once, and a schedule lowers the learning rate.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim
from gradino.utils.data import DataLoader, TensorDataset


def digits(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """1437 pictures to learn from and 360 others: (B, 64) in [0, 1], with their digits (B,)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("mlp_digits: the pictures come with scikit-learn: pip install scikit-learn")
    pictures, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    x, y = gd.tensor((pictures[order] / 16).astype(np.float32)), gd.tensor(labels[order])
    return TensorDataset(x[:1437], y[:1437]), TensorDataset(x[1437:], y[1437:])


@gd.no_grad()
def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """Share of pictures named rightly, with dropout off."""
    model.eval()
    with gd.step_arena():
        x, y = data[:]
        right = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return right


def main(words: list[str] | None = None) -> None:
    """Train on 1437 pictures, judge the other 360."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=25, help="passes over the training pictures")
    parser.add_argument("--hidden", type=int, default=128, help="units of each hidden layer")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and dropout")
    parser.add_argument("--device", default="cpu", help="cpu or cuda: where tensors are and work is done")
    given = parser.parse_args(words)
    if min(given.epochs, given.hidden) < 1 or given.seed < 0:
        parser.error("--epochs and --hidden must be at least 1, --seed at least 0")

    gd.manual_seed(given.seed)
    gd.set_default_device(given.device)
    train, test = digits(given.seed)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = nn.Sequential(
        nn.Linear(64, given.hidden),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(given.hidden, given.hidden),
        nn.ReLU(),
        nn.Linear(given.hidden, 10),
    )
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=given.epochs)

    print(f"before: {accuracy(model, test):.1%} of the unseen pictures named rightly")
    for epoch in range(given.epochs):
        total = 0.0
        for x, y in loader:
            with gd.step_arena():  # everything made inside dies at the end of the block
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * len(y)
        schedule.step()
        if epoch % max(1, given.epochs // 5) == 0 or epoch == given.epochs - 1:
            print(f"epoch {epoch + 1:2}: training loss {total / len(train):.4f}, {accuracy(model, test):.1%} right")
    print(f"after: {accuracy(model, test):.1%} of the unseen pictures named rightly")


if __name__ == "__main__":
    main()
