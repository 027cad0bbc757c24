"""The LSTM from ordinary ops: the reference for the fused one, and what its tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers import assert_close

import gradino as gd
from gradino import nn

State = tuple[gd.Tensor, gd.Tensor]


def composed_step(x: gd.Tensor, h: gd.Tensor, c: gd.Tensor, weights: list[gd.Tensor]) -> State:
    """One step from concatenation, one linear map, sigmoid and tanh. x (B, I), h and c (B, H)."""
    w = gd.cat([weights[0], weights[1]], 1)
    gates = gd.cat([x, h], 1) @ w.t()
    if len(weights) > 2:
        gates = gates + (weights[2] + weights[3])
    i, f, g, o = gates.chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def composed(model: nn.LSTM, x: gd.Tensor, state: State | None, lengths: list[int] | None = None) -> tuple[gd.Tensor, State]:
    """What the module computes, from ordinary ops and a loop over steps."""
    x = x.transpose(0, 1) if model.batch_first else x
    steps, batch = x.shape[:2]
    directions = 2 if model.bidirectional else 1
    lengths = [steps] * batch if lengths is None else lengths
    finals: list[State] = []
    for layer in range(model.num_layers):
        outputs = []
        for d in range(directions):
            weights, at = model.all_weights[layer * directions + d], layer * directions + d
            zero = gd.zeros(batch, model.hidden_size, dtype=x.dtype)
            h, c = (zero, zero) if state is None else (state[0][at], state[1][at])
            ys: list[Any] = [None] * steps
            for t in reversed(range(steps)) if d else range(steps):
                alive = gd.tensor([[t < n] for n in lengths])
                h1, c1 = composed_step(x[t], h, c, weights)
                ys[t] = gd.where(alive, h1, 0.0)
                h, c = gd.where(alive, h1, h), gd.where(alive, c1, c)
            outputs.append(gd.stack(ys))
            finals.append((h, c))
        x = gd.cat(outputs, 2)
    return (x.transpose(0, 1) if model.batch_first else x), (gd.stack([h for h, _ in finals]), gd.stack([c for _, c in finals]))


def inputs(
    model: nn.LSTM, steps: int, batch: int, rng: np.random.Generator, dtype: str, states: bool = True
) -> tuple[gd.Tensor, State | None]:
    """x and, where wanted, (h_0, c_0), all requiring grad."""
    shape = (batch, steps) if model.batch_first else (steps, batch)
    count = model.num_layers * (2 if model.bidirectional else 1)
    x = gd.tensor(rng.standard_normal((*shape, model.input_size)), dtype=dtype, requires_grad=True)
    h, c = (gd.tensor(rng.standard_normal((count, batch, model.hidden_size)), dtype=dtype, requires_grad=True) for _ in range(2))
    return x, (h, c) if states else None


def assert_same_gradients(model: nn.LSTM, call: Any, reference: Any, leaves: list[gd.Tensor], tolerance: float, what: str) -> None:
    """Values and all gradients of a random weighting of y, h_n and c_n."""
    rng = np.random.default_rng(5)
    weights: list[gd.Tensor] = []
    results = []
    for run in (call, reference):
        y, (h, c) = run()
        weights = weights or [gd.tensor(rng.standard_normal(t.shape), dtype=t.dtype) for t in (y, h, c)]
        sum(((t * w).sum() for t, w in zip((y, h, c), weights, strict=True)), start=gd.tensor(0.0, dtype=y.dtype)).backward()
        everything = [y, h, c, *(t.grad.clone() for t in [*leaves, *model.parameters()])]
        for t in [*leaves, *model.parameters()]:
            t.grad = None
        results.append(everything)
    labels = ["y", "h_n", "c_n", *(f"gradient {k}" for k in range(len(leaves))), *(n for n, _ in model.named_parameters())]
    for label, got, want in zip(labels, *results, strict=True):
        assert_close(got, want.detach(), rtol=tolerance, atol=tolerance, what=f"{what}: {label}")
