"""Models, data and settings that the tests of optimizers share."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradino as gd
from gradino import nn, optim

KINDS: list[tuple[type[optim.Optimizer], dict[str, Any]]] = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (optim.Adam, {"lr": 0.01}),
    (optim.Adam, {"lr": 0.01, "amsgrad": True}),
    (optim.AdamW, {"lr": 0.01}),
    (optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True}),
    (optim.Adagrad, {"lr": 0.1, "initial_accumulator_value": 0.2}),
    (optim.Adadelta, {}),
    (optim.Adamax, {"lr": 0.01}),
    (optim.NAdam, {"lr": 0.01}),
    (optim.RAdam, {"lr": 0.01}),
    (optim.Lion, {"lr": 0.002, "weight_decay": 0.1}),
]


def one(value: float = 1.0, gradient: float | None = None) -> nn.Parameter:
    p = nn.Parameter(gd.tensor([value], dtype=gd.float64))
    if gradient is not None:
        p.grad = gd.tensor([gradient], dtype=gd.float64)
    return p


def model_and_data(seed: int = 0, dtype: str = "float32") -> tuple[nn.Module, gd.Tensor, gd.Tensor]:
    gd.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = nn.Sequential(
        nn.Linear(6, 16, dtype=dtype), nn.Tanh(), nn.Linear(16, 16, dtype=dtype), nn.ReLU(), nn.Linear(16, 3, dtype=dtype)
    )
    return model, gd.tensor(rng.standard_normal((20, 6)), dtype=dtype), gd.tensor(rng.integers(0, 3, 20))


def update(loss: gd.Tensor, opt: optim.Optimizer, fused: bool) -> None:
    """One optimizer step for a loss, inside backward or in three calls after it."""
    if fused:
        loss.backward(optimizer=opt)
    else:
        loss.backward()
        opt.step()
        opt.zero_grad()
