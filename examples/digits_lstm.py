#!/usr/bin/env python3
"""Handwritten digits read like text: an LSTM takes an 8x8 picture row by row and names the digit.

The 1797 pictures come with scikit-learn. What to look at: eight steps of eight numbers each make one
sequence, the LSTM's last output sums up what it saw, and a checkpoint is a dict of named tensors.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim


class RowReader(nn.Module):
    """Pictures (B, 8, 8) -> logits (B, 10)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 10)

    def forward(self, pictures: gd.Tensor) -> gd.Tensor:
        """Read all rows, judge after the last."""
        _, (last, _) = self.lstm(pictures)  # last: (1, B, hidden)
        return self.head(last[0])


def accuracy(model: RowReader, pictures: gd.Tensor, digits: gd.Tensor) -> float:
    """Share of pictures named rightly."""
    with gd.step_arena(), gd.no_grad():
        return (model(pictures).argmax(1) == digits).float().mean().item()


def main(words: list[str] | None = None) -> None:
    """Train on 1437 pictures, judge the other 360."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training pictures")
    parser.add_argument("--hidden", type=int, default=64, help="hidden units of the LSTM")
    parser.add_argument("--seed", type=int, default=0, help="of weights and order")
    given = parser.parse_args(words)
    if min(given.epochs, given.hidden) < 1 or given.seed < 0:
        parser.error("--epochs and --hidden must be at least 1, --seed at least 0")
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("digits_lstm: the pictures come with scikit-learn: pip install scikit-learn")

    gd.manual_seed(given.seed)
    rng = np.random.default_rng(given.seed)
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(labels))
    pictures = gd.tensor((images[order] / 16).astype(np.float32).reshape(-1, 8, 8))
    digits = gd.tensor(labels[order])
    test_pictures, test_digits = pictures[1437:], digits[1437:]

    model = RowReader(given.hidden)
    optimizer = optim.AdamW(model.parameters(), lr=5e-3)
    print(f"before: {accuracy(model, test_pictures, test_digits):.1%} of the unseen pictures named rightly")
    for epoch in range(given.epochs):
        total = 0.0
        for batch in np.split(rng.permutation(1437), range(48, 1437, 48)):
            with gd.step_arena():
                chosen = gd.tensor(batch)
                loss = F.cross_entropy(model(pictures[chosen]), digits[chosen])
                loss.backward(optimizer=optimizer)
                total += loss.item() * len(batch)
        if epoch % max(1, given.epochs // 5) == 0 or epoch == given.epochs - 1:
            print(f"epoch {epoch + 1:2}: training loss {total / 1437:.4f}")
    print(f"after: {accuracy(model, test_pictures, test_digits):.1%} of the unseen pictures named rightly")

    other = RowReader(given.hidden)
    other.load_state_dict(model.state_dict())
    same = accuracy(other, test_pictures, test_digits) == accuracy(model, test_pictures, test_digits)
    print(f"a second model with the first one's state names {'the same' if same else 'OTHER'} pictures rightly")


if __name__ == "__main__":
    main()
