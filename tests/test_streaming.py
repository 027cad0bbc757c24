"""Outputs larger than the caches are written past them: the bits must be those of the same op in pieces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from helpers import assert_same_bits, values

import gradino as gd

N = (36 << 20) // 4 + 5  # with whole vectors, and a tail
PIECE = 1 << 20


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("op", [gd.relu, gd.exp, lambda x: x + 1, lambda x: x * x, gd.nn.functional.gelu])
def test_large_outputs(op: Callable[[gd.Tensor], gd.Tensor], shift: int) -> None:
    """At aligned and at other addresses."""
    pattern = np.resize(np.random.default_rng(3).standard_normal(100_003).astype(np.float32), N + shift)
    x = gd.tensor(pattern)[shift:]
    y = values(op(x))
    for start in range(0, N, PIECE):
        piece = slice(start, min(start + PIECE, N))
        assert_same_bits(y[piece], values(op(x[piece])), what=f"elements from {start}, shift {shift}")
