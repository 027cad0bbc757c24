#!/usr/bin/env python3
"""Handwritten digits as pictures: two convolutions, pooling between them, name the digit better than a plain network does.

The 1797 pictures of 8x8 points come with scikit-learn. What to look at: a convolution looks at each point and its eight
neighbours with the same few weights everywhere, pooling keeps the largest of four points, and both leave a picture a
picture: channels, rows and columns, until the last layer judges. At the end one filter is shown as it is.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim

TRAINING = 1437  # pictures to learn from; the other 360 are for judging


class PictureReader(nn.Module):
    """Pictures (B, 1, 8, 8) -> logits (B, 10)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, padding=1)  # (B, 1, 8, 8) -> (B, channels, 8, 8)
        self.second = nn.Conv2d(channels, 2 * channels, 3, padding=1)  # (B, channels, 4, 4) -> (B, 2 channels, 4, 4)
        self.head = nn.Linear(2 * channels * 2 * 2, 10)

    def forward(self, pictures: gd.Tensor) -> gd.Tensor:
        """Twice: convolve, cut off below 0, keep the largest of each 2x2 points. Then judge all that is left at once."""
        x = F.max_pool2d(self.first(pictures).relu(), 2)  # (B, channels, 4, 4)
        x = F.max_pool2d(self.second(x).relu(), 2)  # (B, 2 channels, 2, 2)
        return self.head(x.flatten(1))


def accuracy(model: PictureReader, pictures: gd.Tensor, digits: gd.Tensor) -> float:
    """Share of pictures named rightly."""
    with gd.step_arena(), gd.no_grad():
        return (model(pictures).argmax(1) == digits).float().mean().item()


def drawn(filter: np.ndarray) -> str:
    """A filter of 3x3 weights as characters: the more ink, the larger."""
    low, high = filter.min(), filter.max()
    inks = " .:-=+*#%@"
    return "\n".join("".join(2 * inks[int(9 * (w - low) / (high - low))] for w in row) for row in filter)


def main(words: list[str] | None = None) -> None:
    """Train on 1437 pictures, judge the other 360."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15, help="passes over the training pictures")
    parser.add_argument("--channels", type=int, default=16, help="filters of the first convolution; the second has twice as many")
    parser.add_argument("--seed", type=int, default=0, help="of weights and order")
    parser.add_argument("--device", default="cpu", help="cpu or cuda: where tensors are and work is done")
    given = parser.parse_args(words)
    if min(given.epochs, given.channels) < 1 or given.seed < 0:
        parser.error("--epochs and --channels must be at least 1, --seed at least 0")
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("cnn_digits: the pictures come with scikit-learn: pip install scikit-learn")

    gd.manual_seed(given.seed)
    gd.set_default_device(given.device)
    rng = np.random.default_rng(given.seed)
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(labels))
    pictures = gd.tensor((images[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8))  # one channel: grey
    digits = gd.tensor(labels[order])
    test_pictures, test_digits = pictures[TRAINING:], digits[TRAINING:]

    model = PictureReader(given.channels)
    optimizer = optim.AdamW(model.parameters(), lr=5e-3)
    print(model)
    print(f"before: {accuracy(model, test_pictures, test_digits):.1%} of the unseen pictures named rightly")
    for epoch in range(given.epochs):
        total = 0.0
        for batch in np.split(rng.permutation(TRAINING), range(64, TRAINING, 64)):
            with gd.step_arena():
                chosen = gd.tensor(batch)
                loss = F.cross_entropy(model(pictures[chosen]), digits[chosen])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total += loss.item() * len(batch)
        if epoch % max(1, given.epochs // 5) == 0 or epoch == given.epochs - 1:
            print(f"epoch {epoch + 1:2}: training loss {total / TRAINING:.4f}")
    print(f"after: {accuracy(model, test_pictures, test_digits):.1%} of the unseen pictures named rightly")
    print("what the first filter looks for:")
    print(drawn(model.first.weight.detach().cpu().numpy()[0, 0]))


if __name__ == "__main__":
    main()
