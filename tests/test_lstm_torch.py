"""LSTM and LSTMCell against PyTorch, live: values, all gradients, state dicts in both directions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits
from peer import TOLERANCE, array, assert_equal_grads, pair, same_weights, torch

import gradino as gd
from gradino import nn

CASES = list(product((1, 2), (False, True), (False, True), (False, True), (False, True)))


def compare(
    options: dict[str, Any], sizes: tuple[int, int, int, int], states: bool, lengths: list[int] | None, dtype: str, seed: int
) -> None:
    """Run both with the same weights and inputs; compare values and gradients of a random weighting of all results."""
    steps, batch, width, hidden = sizes
    what = f"LSTM({width}, {hidden}, {options}), T {steps}, B {batch}, states {states}, lengths {lengths}, {dtype}, seed {seed}"
    rng, tolerance = np.random.default_rng(seed), TOLERANCE[dtype]
    ours = nn.LSTM(width, hidden, dtype=dtype, **options)
    theirs = torch.nn.LSTM(width, hidden, dtype=getattr(torch, dtype), **options)
    same_weights(ours, theirs)
    first = ours.batch_first
    count = ours.num_layers * (2 if ours.bidirectional else 1)
    x, tx = pair(rng.standard_normal((batch, steps, width) if first else (steps, batch, width)), dtype=dtype)
    (h0, th0), (c0, tc0) = (pair(rng.standard_normal((count, batch, hidden)), dtype=dtype) for _ in range(2))
    y, (h, c) = ours(x, (h0, c0) if states else None, lengths=lengths)
    given = tx
    if lengths is not None:
        given = torch.nn.utils.rnn.pack_padded_sequence(tx, torch.tensor(lengths), batch_first=first, enforce_sorted=False)
    ty, (th, tc) = theirs(given, (th0, tc0) if states else None)
    if lengths is not None:
        ty, _ = torch.nn.utils.rnn.pad_packed_sequence(ty, batch_first=first, total_length=steps)
    loss, tloss = gd.zeros((), dtype=dtype), torch.zeros((), dtype=getattr(torch, dtype))
    for name, got, want in (("y", y, ty), ("h_n", h, th), ("c_n", c, tc)):
        assert_close(got, array(want), rtol=tolerance, atol=tolerance, what=f"{what}: {name}", dtype=dtype)
        weight, tweight = pair(rng.standard_normal(got.shape), False, dtype)
        loss, tloss = loss + (got * weight).sum(), tloss + (want * tweight).sum()
    loss.backward()
    tloss.backward()
    leaves = [("x", x, tx), *([("h_0", h0, th0), ("c_0", c0, tc0)] if states else [])]
    for name, leaf, tleaf in leaves:
        assert_close(leaf.grad, array(tleaf.grad), rtol=tolerance, atol=tolerance, what=f"{what}: gradient of {name}")
    assert_equal_grads(ours, theirs, tolerance, what)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layers, bidirectional, batch_first, states, bias", CASES)
def test_values_and_gradients(layers: int, bidirectional: bool, batch_first: bool, states: bool, bias: bool, dtype: str) -> None:
    options = {"num_layers": layers, "bidirectional": bidirectional, "batch_first": batch_first, "bias": bias, "dropout": 0.0}
    for seed, lengths in enumerate((None, [6, 6, 6, 6], [2, 6, 1, 5])):
        compare(options, (6, 4, 5, 3), states, lengths, dtype, seed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1, 7, 2, 3), (9, 1, 4, 5), (25, 3, 40, 64), (5, 33, 17, 31), (12, 2, 128, 96)])
def test_sizes(sizes: tuple[int, int, int, int], dtype: str) -> None:
    compare({"num_layers": 3, "bidirectional": True}, sizes, True, None, dtype, 1)


@pytest.mark.parametrize("isa_name", ["portable", "avx2", "avx512"])
def test_every_kernel_set(isa_name: str) -> None:
    from gradino import config

    if isa_name not in config.supported_isas():
        pytest.skip(f"this CPU has no {isa_name}")
    before = config.get_isa()
    try:
        config.set_isa(isa_name)
        for dtype in TOLERANCE:
            compare({"num_layers": 2, "bidirectional": True}, (7, 5, 19, 21), True, [7, 3, 1, 6, 2], dtype, 2)
    finally:
        config.set_isa(before)


@pytest.mark.parametrize("batch_first", [False, True])
def test_input_without_batch(batch_first: bool, rng: Any) -> None:
    ours = nn.LSTM(3, 4, 2, batch_first=batch_first, bidirectional=True)
    theirs = torch.nn.LSTM(3, 4, 2, batch_first=batch_first, bidirectional=True)
    same_weights(ours, theirs)
    x, tx = pair(rng.standard_normal((5, 3)), dtype="float32")
    (h, th), (c, tc) = (pair(rng.standard_normal((4, 4)), dtype="float32") for _ in range(2))
    y, (hn, cn) = ours(x, (h, c))
    ty, (thn, tcn) = theirs(tx, (th, tc))
    for name, got, want in (("y", y, ty), ("h_n", hn, thn), ("c_n", cn, tcn)):
        assert_close(got, array(want), rtol=2e-5, atol=2e-5, what=name)


@pytest.mark.parametrize("bias, states, batched", list(product((True, False), (True, False), (True, False))))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cell(bias: bool, states: bool, batched: bool, dtype: str, rng: Any) -> None:
    ours = nn.LSTMCell(5, 7, bias=bias, dtype=dtype)
    theirs = torch.nn.LSTMCell(5, 7, bias=bias, dtype=getattr(torch, dtype))
    same_weights(ours, theirs)
    lead = (4,) if batched else ()
    x, tx = pair(rng.standard_normal((*lead, 5)), dtype=dtype)
    (h, th), (c, tc) = (pair(rng.standard_normal((*lead, 7)), dtype=dtype) for _ in range(2))
    state, tstate = (h, c) if states else None, (th, tc) if states else None
    for _ in range(3):
        state, tstate = ours(x, state), theirs(tx, tstate)
    tolerance = TOLERANCE[dtype]
    for name, got, want in zip(("h", "c"), state, tstate, strict=True):
        assert_close(got, array(want), rtol=tolerance, atol=tolerance, what=f"{name} after 3 steps")
    (state[0].square().sum() + state[1].sum()).backward()
    (tstate[0].square().sum() + tstate[1].sum()).backward()
    assert_close(x.grad, array(tx.grad), rtol=tolerance, atol=tolerance, what="gradient of x")
    assert_equal_grads(ours, theirs, tolerance, f"LSTMCell bias {bias}, states {states}")


@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 3}, {"bidirectional": True, "num_layers": 2}, {"bias": False, "bidirectional": True}]
)
def test_state_dicts_load_both_ways(options: dict[str, Any]) -> None:
    theirs = torch.nn.LSTM(3, 4, **options)
    ours = nn.LSTM(3, 4, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    result = ours.load_state_dict(theirs.state_dict())
    assert result.missing_keys == [] and result.unexpected_keys == []
    for key, value in theirs.state_dict().items():
        assert_same_bits(ours.state_dict()[key], array(value), what=f"torch to gradino: {key}")
    back = torch.nn.LSTM(3, 4, **options)
    back.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in ours.state_dict().items()}, strict=True)
    for key, value in back.state_dict().items():
        assert torch.equal(value, theirs.state_dict()[key]), f"gradino to torch: {key}"


def test_packed_helpers_agree(rng: Any) -> None:
    rnn, trnn = nn.utils.rnn, torch.nn.utils.rnn
    rows = [pair(rng.standard_normal((n, 2)), False) for n in (4, 2, 1)]
    for batch_first, side in product((False, True), ("right", "left")):
        got = rnn.pad_sequence([a for a, _ in rows], batch_first, -1.0, side)
        assert_same_bits(got, array(trnn.pad_sequence([b for _, b in rows], batch_first, -1.0, side)), what="pad_sequence")
    y, lengths = rnn.pad_packed_sequence(rnn.pack_sequence([a for a, _ in rows]), padding_value=3.0)
    ty, tlengths = trnn.pad_packed_sequence(trnn.pack_sequence([b for _, b in rows]), padding_value=3.0)
    assert_same_bits(y, array(ty), what="pack and pad")
    assert lengths.tolist() == tlengths.tolist()


def test_text_and_initial_values() -> None:
    for options in ({}, {"num_layers": 2, "dropout": 0.25, "bidirectional": True, "batch_first": True}, {"bias": False}):
        assert repr(nn.LSTM(3, 4, **options)) == repr(torch.nn.LSTM(3, 4, **options))
    for bias in (True, False):
        assert repr(nn.LSTMCell(3, 4, bias=bias)) == repr(torch.nn.LSTMCell(3, 4, bias=bias))
    model = nn.LSTM(100, 64)
    for name, p in model.named_parameters():
        values = array(p)
        assert abs(values).max() <= 1 / 8 and values.std() == pytest.approx(1 / 8 / np.sqrt(3), rel=0.2), name
