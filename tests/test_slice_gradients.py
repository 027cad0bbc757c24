"""Gradients of slices, which stand beside each other in that of their source: in any order, with gaps, overlaps and other uses."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import gradino as gd

SHAPE = (3, 6, 5)


def pieces(rng: random.Random) -> list[Any]:
    """Indices: mostly neighbours along one dimension, sometimes anything."""
    dim = rng.randrange(3)
    cuts = sorted({0, SHAPE[dim], *(rng.randrange(SHAPE[dim]) for _ in range(2))})
    found: list[Any] = [(slice(None),) * dim + (slice(a, b),) for a, b in zip(cuts, cuts[1:])]
    if rng.random() < 0.5:
        found.pop(rng.randrange(len(found)))
    rng.shuffle(found)
    for _ in range(rng.choice([0, 0, 1, 2])):
        a, b = sorted((rng.randrange(SHAPE[0] + 1), rng.randrange(SHAPE[0] + 1)))
        other = rng.choice([(slice(a, b),), (slice(None), slice(None, None, 2)), (slice(1, 2), slice(2, 4)), (1,), (slice(0, 0),)])
        found.insert(rng.randrange(len(found) + 1), other)
    return found


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_slices(seed: int, dtype: str) -> None:
    rng = random.Random(seed)
    x = gd.tensor(np.arange(90.0).reshape(SHAPE)).to(dtype).requires_grad_()
    y = x * 1  # an inner node, whose gradient is recycled
    wanted = np.zeros(SHAPE)
    total = gd.zeros((), dtype=dtype)
    for k, index in enumerate(pieces(rng)):
        part = y[index]
        weight = np.arange(part.numel(), dtype=float).reshape(part.shape) % 7 + k
        wanted[index] += weight
        total = total + (part * gd.tensor(weight).to(dtype)).sum()
        if rng.random() < 0.15:  # the whole, too
            total = total + y.sum()
            wanted += 1
    if total.requires_grad:
        total.backward(retain_graph=True)
        np.testing.assert_array_equal(x.grad.double().numpy(), wanted, err_msg=str(seed))
        total.backward()
        np.testing.assert_array_equal(x.grad.double().numpy(), 2 * wanted, err_msg=str(seed))


def test_a_slice_of_what_is_kept() -> None:
    """The part without a slice is 0 in a gradient that is read while others still come."""
    x = gd.arange(6.0).requires_grad_()
    y, z = x * 2, x * 3
    y.retain_grad()
    (y[1:3].sum() + z[4:].sum() + z[:2].sum()).backward()
    assert y.grad.tolist() == [0, 1, 1, 0, 0, 0]
    assert x.grad.tolist() == [3, 5, 2, 0, 3, 3]
    (g,) = gd.autograd.grad((x * 1)[2:4].sum(), [x])
    assert g.tolist() == [0, 0, 1, 1, 0, 0]
