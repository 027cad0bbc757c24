"""Attention on the parts of one tensor: their gradients are written side by side, whatever else uses the parts or the whole."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import gradino as gd
import gradino.nn.functional as F

TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 2e-2}


def parts_of(rng: random.Random, y: Any, heads: int, size: int) -> list[Any]:
    """q, k and v, in one of the layouts that users write."""
    batch, length, _ = y.shape
    layout = rng.choice(["split", "chunk", "within heads", "other order"])
    if layout == "within heads":
        return list(y.view(batch, length, heads, 3 * size).transpose(1, 2).split(size, dim=3))
    cut = y.chunk(3, dim=-1) if layout == "chunk" else y.split(heads * size, dim=2)
    found = [part.view(batch, length, heads, size).transpose(1, 2) for part in cut]
    if layout == "other order":
        rng.shuffle(found)
    return found


def gradients(seed: int, copies: bool) -> tuple[list[np.ndarray], str]:
    """All gradients that a random use gives; with `copies` q, k and v stand in memory of their own."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    batch, length, heads, size = rng.choice([1, 2, 3]), rng.choice([1, 5, 16, 33, 64, 70]), rng.choice([1, 2, 4]), rng.choice([8, 16, 32])
    dtype = rng.choice(list(TOLERANCE))
    x = gd.tensor(numbers.standard_normal((batch, length, 3 * heads * size))).to(dtype).requires_grad_()
    y = x * 1.5  # an inner node, whose gradient is recycled
    q, k, v = (part.clone() if copies else part for part in parts_of(rng, y, heads, size))
    seen: list[Any] = []
    watched = rng.choice(["", "", "", "changed", "seen", "kept"])
    if watched == "changed":
        q.register_hook(lambda g: g * 2)
    elif watched == "seen":
        k.register_hook(seen.append)
    elif watched == "kept":
        v.retain_grad()
    out = F.scaled_dot_product_attention(q, k, v, is_causal=rng.random() < 0.5)
    weight = gd.tensor(numbers.standard_normal(out.shape)).to(dtype)
    loss = (out * weight).sum()
    other = rng.choice(["", "", "", "part", "whole", "slices", "attention", "slice"])
    if other == "part":
        loss = loss + (k * k).sum()
    elif other == "whole":
        loss = loss + (y * y).sum()
    elif other == "slices":
        loss = loss + y[:, :1].sum() + y[..., 1:3].sum()
    elif other == "attention":
        loss = loss + (F.scaled_dot_product_attention(q, k, v) * weight).sum()
    elif other == "slice":
        loss = loss + (y[..., heads * size : 2 * heads * size] * 3).sum()
    way = rng.choice(["grad", "twice", "backward", "backward"])
    found = []
    if way == "grad":
        found += gd.autograd.grad(loss, [x, q, k, v][: rng.choice([1, 2, 4])])
    else:
        if way == "twice":
            loss.backward(retain_graph=True)
        loss.backward()
        found += [x.grad, *([v.grad] if watched == "kept" else [])]
    return [t.detach().double().numpy().copy() for t in [*found, *seen]], dtype


@pytest.mark.parametrize("first", range(0, 160, 8))
def test_the_same_as_of_copies(first: int) -> None:
    for seed in range(first, first + 8):
        with gd.step_arena():
            found, dtype = gradients(seed, False)
        with gd.step_arena():
            wanted, _ = gradients(seed, True)
        assert len(found) == len(wanted), f"seed {seed}"
        for a, b in zip(found, wanted):
            np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[dtype] * max(1, np.abs(b).max()), err_msg=f"seed {seed}, {dtype}")


def test_nothing_is_copied() -> None:
    x = gd.randn(2, 64, 3 * 64).requires_grad_()
    with gd.profiler.profile() as prof:
        q, k, v = (part.view(2, 64, 2, 32).transpose(1, 2) for part in (x * 2).split(64, dim=2))
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    names = [row.key for row in prof.key_averages()]
    assert "d(attention): attention_bwd" in names, names
    assert "d(slice): copy" not in names, names


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("length", [15, 16, 17, 63, 64, 65, 130])
def test_rows_of_a_causal_block_see_what_they_see_alone(length: int, at_end: bool) -> None:
    """What is left out above the diagonal is nothing: values and gradients have the bits of a mask that says the same."""
    keys = length + (37 if at_end else 0)
    bits = []
    for masked in (False, True):
        rng = np.random.default_rng(length)
        q, k, v, g = (gd.tensor(rng.standard_normal((1, 2, n, 24)), dtype=gd.float32) for n in (length, keys, keys, length))
        for t in (q, k, v):
            t.requires_grad_()
        if masked:
            y = F.scaled_dot_product_attention(q, k, v, gd.ones(length, keys, dtype=gd.bool).tril(keys - length))
        elif at_end:
            y = F.scaled_dot_product_attention(q, k, v, gd.nn.attention.bias.causal_lower_right(length, keys))
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        bits.append([t.detach().numpy() + 0.0 for t in (y, *gd.autograd.grad(y, [q, k, v], g))])  # one zero for both signs
    for a, b in zip(*bits):
        np.testing.assert_array_equal(a, b, err_msg=f"length {length}, keys {keys}")
