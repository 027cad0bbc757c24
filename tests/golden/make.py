"""Writes the golden files beside it: what PyTorch computes, for tests that run without it.

    python tests/golden/make.py [folder]

Needs PyTorch and is run by hand. Inputs come from NumPy with fixed seeds; everything is float64.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

Arrays = dict[str, np.ndarray]
STEPS = (1, 2, 3, 10, 50, 200)  # of an optimizer, at which its parameters are written
LSTM_CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "two layers": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "batch first": {"batch_first": True, "num_layers": 2, "bidirectional": True},
    "lengths": {"num_layers": 2, "bidirectional": True},
}
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.05}),
    "sgd decay": ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    "sgd momentum": ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    "sgd nesterov": ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "maximize": True}),
    "adam": ("Adam", {"lr": 0.02}),
    "adam decay": ("Adam", {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-4}),
    "adam amsgrad": ("Adam", {"lr": 0.02, "amsgrad": True}),
    "adamw": ("AdamW", {"lr": 0.02}),
    "adamw maximize": ("AdamW", {"lr": 0.02, "weight_decay": 0.2, "maximize": True, "amsgrad": True}),
}
MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3, bias=False)),
    "lstm": lambda: nn.LSTM(3, 4, 2, bidirectional=True),
    "lstm no bias": lambda: nn.LSTM(3, 4, bias=False),
    "cell": lambda: nn.LSTMCell(3, 4),
    "embedding": lambda: nn.Sequential(nn.Embedding(5, 3), nn.Dropout(0.1)),
    "loss": lambda: nn.CrossEntropyLoss(weight=torch.ones(3)),
}


def tensor(a: np.ndarray, grad: bool = True) -> torch.Tensor:
    return torch.tensor(a).requires_grad_(grad and a.dtype.kind == "f")


def lstm() -> Arrays:
    """T = 5, B = 3, I = 2, H = 3; loss = sum(y * wy) + sum(h_n * wh) + sum(c_n * wc)."""
    out: Arrays = {}
    for seed, (name, options) in enumerate(LSTM_CASES.items()):
        rng = np.random.default_rng(seed)
        model = nn.LSTM(2, 3, dtype=torch.float64, **options)
        width = 6 if model.bidirectional else 3
        shape = (3, 5) if model.batch_first else (5, 3)
        states = (model.num_layers * (2 if model.bidirectional else 1), 3, 3)
        arrays = {
            "x": rng.standard_normal((*shape, 2)),
            "h0": rng.standard_normal(states),
            "c0": rng.standard_normal(states),
            "wy": rng.standard_normal((*shape, width)),
            "wh": rng.standard_normal(states),
            "wc": rng.standard_normal(states),
        }
        for key, p in model.named_parameters():
            arrays[f"p.{key}"] = rng.standard_normal(p.shape) * 0.7
            p.data.copy_(torch.tensor(arrays[f"p.{key}"]))
        x, h0, c0 = (tensor(arrays[k]) for k in ("x", "h0", "c0"))
        if name == "lengths":
            arrays["lengths"] = np.array([5, 1, 3])
            packed = pack_padded_sequence(x, torch.tensor(arrays["lengths"]), enforce_sorted=False)
            result, (h, c) = model(packed, (h0, c0))
            y = pad_packed_sequence(result)[0]
        else:
            y, (h, c) = model(x, (h0, c0))
        loss = sum((t * torch.tensor(arrays[w])).sum() for t, w in ((y, "wy"), (h, "wh"), (c, "wc")))
        loss.backward()
        arrays.update({"y": y, "h": h, "c": c, "g.x": x.grad, "g.h0": h0.grad, "g.c0": c0.grad})
        arrays.update({f"g.{key}": p.grad for key, p in model.named_parameters()})
        out.update({f"{name}/{k}": v.detach().numpy() if isinstance(v, torch.Tensor) else v for k, v in arrays.items()})
    return out


def cross_entropy() -> Arrays:
    """Loss and gradient of every combination; the gradient is of sum(loss * (1, 2, 3, ...))."""
    rng = np.random.default_rng(7)
    out: Arrays = {
        "logits": rng.standard_normal((6, 4)) * 3,
        "classes": np.array([0, 3, -100, 2, 1, 3]),
        "probabilities": rng.dirichlet(np.ones(4), 6),
        "weight": np.array([0.5, 2.0, 0.0, 1.5]),
    }
    for kind, weighted, smoothing, reduction in itertools.product(
        ("classes", "probabilities"), (0, 1), (0.0, 0.3), ("none", "mean", "sum")
    ):
        logits = tensor(out["logits"])
        weight = tensor(out["weight"], False) if weighted else None
        loss = F.cross_entropy(logits, tensor(out[kind], False), weight, reduction=reduction, label_smoothing=smoothing)
        (loss * torch.arange(1.0, loss.numel() + 1, dtype=loss.dtype).reshape(loss.shape)).sum().backward()
        key = f"{kind}/{weighted}/{smoothing}/{reduction}"
        out[f"loss/{key}"], out[f"grad/{key}"] = loss.detach().numpy(), logits.grad.numpy()
    return out


def optimizers() -> Arrays:
    """Parameters at some steps, with the gradients `g[t % 16] + p` at step t."""
    rng = np.random.default_rng(11)
    out: Arrays = {"start": rng.standard_normal(7), "g": rng.standard_normal((16, 7)), "steps": np.array(STEPS)}
    for name, (kind, options) in OPTIMIZERS.items():
        p = nn.Parameter(torch.tensor(out["start"]))
        optimizer = getattr(torch.optim, kind)([p], **options)
        rows = []
        for t in range(max(STEPS)):
            p.grad = torch.tensor(out["g"][t % 16]) + p.detach()
            optimizer.step()
            if t + 1 in STEPS:
                rows.append(p.detach().numpy().copy())
        out[f"p/{name}"] = np.stack(rows)
    return out


def training() -> Arrays:
    """300 steps of plain SGD on three clouds of points: an MLP 2-16-3, its start and its losses."""
    rng = np.random.default_rng(13)
    y = np.arange(60) % 3
    x = rng.standard_normal((60, 2)) * 0.6 + np.array([[0, 1], [1, -1], [-1, -1]])[y]
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    out: Arrays = {"x": x, "y": y}
    for key, p in model.named_parameters():
        out[f"p.{key}"] = rng.standard_normal(p.shape) * 0.5
        p.data.copy_(torch.tensor(out[f"p.{key}"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(300):
        loss = F.cross_entropy(model(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    out["losses"] = np.array(losses)
    out.update({f"end.{key}": p.detach().numpy() for key, p in model.named_parameters()})
    return out


def names() -> Arrays:
    """Names and shapes in state dicts, as text, and what modules print."""
    out: Arrays = {}
    for name, make in MODELS.items():
        model = make()
        out[f"state/{name}"] = np.array([f"{k} {tuple(v.shape)}" for k, v in model.state_dict().items()])
        out[f"repr/{name}"] = np.array(repr(model))
    return out


GOLDEN = {"lstm": lstm, "cross_entropy": cross_entropy, "optimizers": optimizers, "training": training, "names": names}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, make in GOLDEN.items():
        np.savez_compressed(folder / f"{name}.npz", **make())
        print(folder / f"{name}.npz", (folder / f"{name}.npz").stat().st_size)


if __name__ == "__main__":
    main()
