"""Whole trainings follow PyTorch's, live: the same data and start, loss by loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from peer import array, same_weights, torch

import gradino as gd
from gradino import nn, optim
from gradino.nn import functional as F


def clouds(rng: np.random.Generator, count: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Points of three classes, (count, 2) and (count)."""
    y = np.arange(count) % 3
    return rng.standard_normal((count, 2)) * 0.7 + np.array([[0, 1], [1, -1], [-1, -1]])[y], y


def mlp(module: Any, **dtype: Any) -> Any:
    layers = (module.Linear(2, 32, **dtype), module.Tanh(), module.Linear(32, 16, **dtype), module.ReLU(), module.Linear(16, 3, **dtype))
    return module.Sequential(*layers)


def losses(functional: Any, model: Any, optimizer: Any, x: Any, y: Any, steps: int, **options: Any) -> np.ndarray:
    """Losses of a training on the whole data; the same code for gradino and PyTorch."""
    curve = []
    for _ in range(steps):
        loss = functional.cross_entropy(model(x), y, **options)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        curve.append(loss.item())
    return np.array(curve)


def test_300_steps_of_plain_sgd_in_float64(isa: str, rng: Any) -> None:
    """Three classes, plain SGD: every loss within 1e-13 of PyTorch's."""
    x, y = clouds(rng)
    ours, theirs = mlp(nn, dtype=gd.float64), mlp(torch.nn, dtype=torch.float64)
    same_weights(ours, theirs)
    got = losses(F, ours, optim.SGD(ours.parameters(), lr=0.1), gd.tensor(x), gd.tensor(y), 300)
    want = losses(torch.nn.functional, theirs, torch.optim.SGD(theirs.parameters(), lr=0.1), torch.tensor(x), torch.tensor(y), 300)
    assert got[0] > 0.9 and got[-1] < 0.5, got[[0, -1]]
    assert_close(got, want, atol=1e-13, what=f"losses, {isa}")
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert_close(p, array(q), atol=1e-12, what=f"{name} at the end, {isa}")


@pytest.mark.parametrize(
    "kind, options",
    [("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}), ("Adam", {"lr": 0.01}), ("AdamW", {"lr": 0.01, "weight_decay": 0.1})],
)
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-10), ("float32", 2e-3)])
def test_other_optimizers(kind: str, options: dict[str, Any], dtype: str, tolerance: float, rng: Any) -> None:
    x, y = clouds(rng)
    ours, theirs = mlp(nn, dtype=dtype), mlp(torch.nn, dtype=getattr(torch, dtype))
    same_weights(ours, theirs)
    extra = {"label_smoothing": 0.05}
    got = losses(F, ours, getattr(optim, kind)(ours.parameters(), **options), gd.tensor(x, dtype=dtype), gd.tensor(y), 150, **extra)
    optimizer = getattr(torch.optim, kind)(theirs.parameters(), **options)
    inputs = torch.tensor(x, dtype=getattr(torch, dtype))
    want = losses(torch.nn.functional, theirs, optimizer, inputs, torch.tensor(y), 150, **extra)
    assert got[-1] < 0.6 * got[0]
    assert_close(got, want, atol=tolerance, what=f"{kind} {options}, {dtype}")


def sequence_model(module: Any, **dtype: Any) -> Any:
    class Reader(module.Module):
        """Classifies a sequence by the last state of a two-layer LSTM."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm = module.LSTM(4, 12, num_layers=2, batch_first=True, bidirectional=True, **dtype)
            self.head = module.Linear(24, 3, **dtype)

        def forward(self, x: Any) -> Any:
            y, _ = self.lstm(x)
            return self.head(y[:, -1])

    return Reader()


def test_recurrent_training_in_float64(isa: str, rng: Any) -> None:
    """60 steps of SGD with momentum on sequences whose class is where their sum points."""
    x = rng.standard_normal((24, 7, 4))
    y = x.sum((1, 2))
    y = (y > np.quantile(y, 1 / 3)).astype(np.int64) + (y > np.quantile(y, 2 / 3))
    ours, theirs = sequence_model(nn, dtype=gd.float64), sequence_model(torch.nn, dtype=torch.float64)
    same_weights(ours, theirs)
    options = {"lr": 0.2, "momentum": 0.9}
    got = losses(F, ours, optim.SGD(ours.parameters(), **options), gd.tensor(x), gd.tensor(y), 60)
    optimizer = torch.optim.SGD(theirs.parameters(), **options)
    want = losses(torch.nn.functional, theirs, optimizer, torch.tensor(x), torch.tensor(y), 60)
    assert got[-1] < 0.7 * got[0], got[[0, -1]]
    assert_close(got, want, atol=1e-10, what=f"losses, {isa}")


def test_accumulated_gradients_equal_one_large_batch(rng: Any) -> None:
    """Four batches of a quarter each, their losses divided by four, give the gradient of the whole."""
    x, y = clouds(rng, 80)
    model = mlp(nn, dtype=gd.float64)
    F.cross_entropy(model(gd.tensor(x)), gd.tensor(y)).backward()
    whole = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    for part in np.split(np.arange(80), 4):
        (F.cross_entropy(model(gd.tensor(x[part])), gd.tensor(y[part])) / 4).backward()
    for p, want in zip(model.parameters(), whole, strict=True):
        assert_close(p.grad, want, rtol=1e-13, atol=1e-15, what="accumulated gradient")
