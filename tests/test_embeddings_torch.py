"""Embedding and EmbeddingBag against PyTorch, live, with all their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from peer import array, pair, torch

import gradino as gd
from gradino import nn
from gradino.nn import functional as F

INDICES = [np.array([[1, 2, 2], [0, 4, 2]]), np.array([3]), np.array(1), np.zeros((0,), np.int64), np.array([[[4], [4]]])]


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"padding_idx": -1}, {"scale_grad_by_freq": True}, {"max_norm": 1.0},
                                     {"max_norm": 0.7, "norm_type": 1.0, "padding_idx": 0}])  # fmt: skip
@pytest.mark.parametrize("k", range(len(INDICES)))
def test_embedding(options: dict[str, Any], k: int) -> None:
    rng = np.random.default_rng(k)
    (w, v), (index, tindex) = pair(rng.standard_normal((5, 3))), pair(INDICES[k])
    a, b = F.embedding(index, w, **options), torch.nn.functional.embedding(tindex, v, **options)
    assert_close(a, array(b), rtol=1e-12, what=f"{options}")
    assert_close(w, array(v), rtol=1e-12, what=f"{options}: table")
    weights = rng.standard_normal(a.shape)
    (a * gd.tensor(weights)).sum().backward()
    (b * torch.tensor(weights)).sum().backward()
    assert_close(w.grad, array(v.grad), rtol=1e-12, atol=1e-14, what=f"{options}: gradient")


BAGS: list[tuple[Any, Any, dict[str, Any]]] = [
    (np.array([[1, 2, 2], [0, 4, 1]]), None, {}),
    (np.array([1, 2, 4, 0, 3, 3]), np.array([0, 2, 2, 5]), {}),
    (np.array([1, 2, 4, 0, 3, 3]), np.array([0, 2, 6]), {"include_last_offset": True}),
    (np.array([[1, 2, 2], [0, 4, 1]]), None, {"padding_idx": 2}),
    (np.array([1, 1, 1]), np.array([0, 1]), {"padding_idx": 1}),
]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("k", range(len(BAGS)))
def test_embedding_bag(mode: str, k: int) -> None:
    index, offsets, options = BAGS[k]
    (w, v), (i, ti) = pair(np.random.default_rng(k).standard_normal((5, 3))), pair(index)
    o, to = (None, None) if offsets is None else pair(offsets)
    a = F.embedding_bag(i, w, o, mode=mode, **options)
    b = torch.nn.functional.embedding_bag(ti, v, to, mode=mode, **options)
    assert_close(a, array(b), rtol=1e-12, atol=1e-14, what=f"{mode} {options}")
    a.square().sum().backward()
    b.square().sum().backward()
    assert_close(w.grad, array(v.grad), rtol=1e-12, atol=1e-14, what=f"{mode} {options}: gradient")


def test_per_sample_weights() -> None:
    rng = np.random.default_rng(0)
    (w, v), (s, t) = pair(rng.standard_normal((5, 3))), pair(rng.standard_normal((2, 3)))
    i, ti = pair(np.array([[1, 2, 2], [0, 4, 1]]))
    a = F.embedding_bag(i, w, mode="sum", per_sample_weights=s)
    b = torch.nn.functional.embedding_bag(ti, v, mode="sum", per_sample_weights=t)
    assert_close(a, array(b), rtol=1e-12, what="weighted")
    a.square().sum().backward()
    b.square().sum().backward()
    for x, y in ((w, v), (s, t)):
        assert_close(x.grad, array(y.grad), rtol=1e-12, what="weighted: gradient")


def test_modules() -> None:
    for make in (
        lambda m: m.Embedding(7, 3, padding_idx=2), lambda m: m.Embedding(7, 3, padding_idx=-1, max_norm=2.0, norm_type=1.0),
        lambda m: m.Embedding(4, 2, scale_grad_by_freq=True), lambda m: m.EmbeddingBag(7, 3),
        lambda m: m.EmbeddingBag(7, 3, mode="sum", padding_idx=1),
    ):  # fmt: skip
        assert repr(make(nn)) == repr(make(torch.nn))
    layer = nn.Embedding(7, 3, padding_idx=2)
    assert layer.weight[2].tolist() == [0, 0, 0] and layer.padding_idx == 2
    table = gd.randn(4, 2)
    frozen = nn.Embedding.from_pretrained(table)
    assert not frozen.weight.requires_grad and frozen(gd.tensor([1])).tolist() == [table[1].tolist()]
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: nn.Embedding(3, 2, sparse=True), ValueError, "sparse"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), IndexError, "padding_idx"),
        (lambda: F.embedding(gd.tensor([0.5]), gd.ones(2, 2)), TypeError, "int64"),
        (lambda: F.embedding_bag(gd.tensor([0]), gd.ones(2, 2)), ValueError, "offsets"),
        (lambda: F.embedding_bag(gd.tensor([[0]]), gd.ones(2, 2), gd.tensor([0])), ValueError, "offsets"),
        (lambda: F.embedding_bag(gd.tensor([0]), gd.ones(2, 2), gd.tensor([1])), ValueError, "begin with 0"),
        (lambda: nn.EmbeddingBag(2, 2, mode="min"), ValueError, "mode"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
