"""GRU, RNN and their cells: against PyTorch, by hand, with lengths and packed sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from peer import TOLERANCE, array, assert_equal_grads, pair, same_weights, torch

import gradino as gd
from gradino import nn
from gradino.nn.utils import rnn

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("GRU", {}), ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}), ("GRU", {"bias": False}),
    ("RNN", {}), ("RNN", {"nonlinearity": "relu", "num_layers": 3}), ("RNN", {"bidirectional": True, "batch_first": True, "bias": False}),
]  # fmt: skip


def twins(kind: str, options: dict[str, Any], dtype: str) -> tuple[Any, Any]:
    ours = getattr(nn, kind)(3, 5, **options, dtype=dtype)
    theirs = getattr(torch.nn, kind)(3, 5, **options, dtype=getattr(torch, dtype))
    same_weights(ours, theirs)
    return ours, theirs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind, options", KINDS)
@pytest.mark.parametrize("given", [False, True])
def test_layers(isa: str, kind: str, options: dict[str, Any], dtype: str, given: bool) -> None:
    gd.manual_seed(1)
    ours, theirs = twins(kind, options, dtype)
    rng = np.random.default_rng(2)
    x, y = pair(rng.standard_normal((4, 6, 3)), True, dtype)
    states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    h, k = pair(rng.standard_normal((states, 4 if options.get("batch_first") else 6, 5)), True, dtype) if given else (None, None)
    (a, ha), (b, hb) = ours(x, h), theirs(y, k)
    what, tolerance = f"{kind} {options} {dtype} {isa}", TOLERANCE[dtype]
    assert_close(a, array(b), rtol=tolerance, atol=tolerance, what=what)
    assert_close(ha, array(hb), rtol=tolerance, atol=tolerance, what=f"{what}: final state")
    (a.square().sum() + (ha * 2).sum()).backward()
    (b.square().sum() + (hb * 2).sum()).backward()
    assert_equal_grads(ours, theirs, tolerance, what)
    for t, u in ((x, y), *([(h, k)] if given else [])):
        assert_close(t.grad, array(u.grad), rtol=tolerance, atol=tolerance, what=f"{what}: gradient of an input")


@pytest.mark.parametrize("kind, options", KINDS)
def test_packed_sequences(kind: str, options: dict[str, Any]) -> None:
    gd.manual_seed(3)
    ours, theirs = twins(kind, options, "float64")
    first = options.get("batch_first", False)
    values = np.random.default_rng(4).standard_normal((4, 6, 3) if first else (6, 4, 3))
    x, y = pair(values)
    lengths = [3, 6, 1, 4]
    packed = rnn.pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
    tpacked = torch.nn.utils.rnn.pack_padded_sequence(y, lengths, batch_first=first, enforce_sorted=False)
    (a, ha), (b, hb) = ours(packed), theirs(tpacked)
    padded, found = rnn.pad_packed_sequence(a, batch_first=first)
    tpadded, _ = torch.nn.utils.rnn.pad_packed_sequence(b, batch_first=first)
    assert list(found.tolist()) == lengths
    assert_close(padded, array(tpadded), rtol=1e-11, atol=1e-12, what=f"{kind} {options} packed")
    assert_close(ha, array(hb), rtol=1e-11, atol=1e-12, what=f"{kind} {options} packed: final state")
    (padded.square().sum() + ha.sum()).backward()
    (tpadded.square().sum() + hb.sum()).backward()
    assert_equal_grads(ours, theirs, 1e-11, f"{kind} {options} packed")
    assert_close(x.grad, array(y.grad), rtol=1e-11, atol=1e-12, what=f"{kind} {options} packed: gradient of the input")
    direct, _ = ours(x, lengths=gd.tensor(lengths))
    assert_close(direct, array(padded), rtol=0, what="lengths")


@pytest.mark.parametrize("make", [lambda m: m.GRUCell(3, 5), lambda m: m.RNNCell(3, 5), lambda m: m.RNNCell(3, 5, False, "relu"),
                                  lambda m: m.GRUCell(3, 5, bias=False)])  # fmt: skip
def test_cells(make: Any) -> None:
    ours, theirs = make(nn), make(torch.nn)
    same_weights(ours, theirs)
    rng = np.random.default_rng(5)
    (x, y), (h, k) = pair(rng.standard_normal((4, 3)).astype("float32")), pair(rng.standard_normal((4, 5)).astype("float32"))
    a, b = ours(ours(x, h), None) if False else ours(x, ours(x, h)), theirs(y, theirs(y, k))
    assert_close(a, array(b), rtol=1e-5, atol=1e-6, what="cell")
    a.square().sum().backward()
    b.square().sum().backward()
    assert_equal_grads(ours, theirs, 2e-5, "cell")
    assert_close(ours(x[0]), array(theirs(y[0])), rtol=1e-5, atol=1e-6, what="without batch")
    assert repr(ours) == repr(theirs)


def test_the_reset_gate_stands_after_the_product() -> None:
    """Case R01."""
    gru = nn.GRU(1, 1, dtype="float64")
    for name, values in (("weight_ih_l0", [0.1, 0.2, 0.3]), ("weight_hh_l0", [0.5, 0.6, 0.7]), ("bias_ih_l0", [0.01, 0.02, 0.03]),
                         ("bias_hh_l0", [0.05, 0.06, 0.9])):  # fmt: skip
        p = getattr(gru, name)
        p.detach().copy_(gd.tensor(values, dtype="float64").reshape(p.shape))
    y, h = gru(gd.tensor([[[1.0]], [[-2.0]]], dtype="float64"), gd.tensor([[[0.25]]], dtype="float64"))
    assert_close(y.flatten(), np.array([0.4418853375, 0.2452171118]), rtol=0, atol=1e-9, what="GRU")
    assert h.item() == y[1].item()


def test_state_dicts_and_text() -> None:
    for kind, options in KINDS:
        ours, theirs = twins(kind, options, "float32")
        assert list(ours.state_dict()) == list(theirs.state_dict()) and repr(ours) == repr(theirs)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: nn.GRU(0, 2), ValueError, "at least 1"),
        (lambda: nn.RNN(1, 2, nonlinearity="sin"), ValueError, "nonlinearity"),
        (lambda: nn.GRU(1, 2)(gd.ones(3, 1, 2)), ValueError, "T, B, 1"),
        (lambda: nn.GRU(1, 2)(gd.ones(3, 1, 1), gd.ones(1, 2, 2)), ValueError, "hx"),
        (lambda: nn.GRU(1, 2)(gd.ones(3, 1, 1), lengths=gd.tensor([4])), ValueError, "length 4"),
        (lambda: nn.GRUCell(1, 2)(gd.ones(3, 2)), ValueError, "(B, 1)"),
        (lambda: nn.GRU(1, 2)(gd.ones(3, 1, 1), (gd.ones(1, 1, 2),)), TypeError, "hx"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(").replace(")", r"\)")):
        call()
