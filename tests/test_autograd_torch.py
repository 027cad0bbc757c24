"""Random graphs run in gradino and in PyTorch: values, gradients of leaves and inner nodes, second derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from peer import array, pair, torch

import gradino as gd

Pair = tuple[gd.Tensor, Any]

UNARY = ["tanh", "sigmoid", "exp", "sin", "neg", "square", "relu"]


def each(function: Any, *operands: Pair) -> Pair:
    """The same function on both sides; its second argument is the library."""
    return function(gd, *(a for a, _ in operands)), function(torch, *(b for _, b in operands))


def grow(rng: np.random.Generator, pool: list[Pair], label: list[str]) -> Pair:
    """One more node from random members of the pool; all are matrices of small shapes."""
    x = pool[rng.integers(len(pool))]
    rows, columns = x[0].shape
    kind = rng.choice(["unary", "binary", "matmul", "view", "reduce", "cat", "pick", "where", "softmax", "same"])
    label.append(str(kind))
    if kind == "unary":
        name = str(rng.choice(UNARY))
        return each(lambda _, t: getattr(t * 0.3, name)(), x)
    if kind == "binary":
        fitting = [p for p in pool if all(a == b or 1 in (a, b) for a, b in zip(p[0].shape, x[0].shape, strict=True))]
        y = fitting[rng.integers(len(fitting))]
        which = rng.integers(5)
        forms = (
            lambda m, a, b: a + b,
            lambda m, a, b: a - b,
            lambda m, a, b: a * b,
            lambda m, a, b: a / (b * b + 1),
            lambda m, a, b: m.maximum(a, b),
        )
        return each(forms[which], x, y)
    if kind == "matmul":
        fitting = [p for p in pool if p[0].shape[1] == columns]
        y = fitting[rng.integers(len(fitting))]
        return each(lambda _, a, b: a @ b.T * 0.3, x, y)
    if kind == "view":
        forms = (
            lambda _, t: t.T,
            lambda _, t: t.reshape(columns, rows),
            lambda _, t: t[: max(rows - 1, 1)],
            lambda _, t: t[:, ::2],
            lambda _, t: t.flatten().unsqueeze(0),
            lambda _, t: t[0].expand(2, columns),
        )
        return each(forms[rng.integers(len(forms))], x)
    if kind == "reduce":
        dim = int(rng.integers(2))
        forms = (
            lambda _, t: t.sum(dim, keepdim=True),
            lambda _, t: t.mean(dim, keepdim=True),
            lambda _, t: t.amax(dim, keepdim=True),
            lambda _, t: t.logsumexp(dim, keepdim=True),
            lambda _, t: t.max(dim, keepdim=True)[0],
        )
        return each(forms[rng.integers(len(forms))], x)
    if kind == "cat":
        fitting = [p for p in pool if p[0].shape[1] == columns and p[0].shape[0] + rows < 12]
        if not fitting:
            return each(lambda _, t: t * 0.5, x)
        y = fitting[rng.integers(len(fitting))]
        return each(lambda m, a, b: m.cat([a, b, a], 0), x, y)
    if kind == "pick":
        index = pair(rng.integers(0, rows, 3))
        return each(lambda _, t, i: t.index_select(0, i), x, index)
    if kind == "where":
        mask = pair(rng.random((rows, columns)) < 0.5)
        return each(lambda m, t, c: m.where(c, t, t * t * 0.1), x, mask)
    if kind == "softmax":
        return each(lambda _, t: t.softmax(1) * 2 if rows % 2 else t.log_softmax(0) * 0.2, x)
    return each(lambda _, t: t + t, x)


def random_graph(seed: int) -> tuple[list[Pair], list[Pair], Pair, str]:
    """Leaves, inner nodes and a scalar that depends on several of them."""
    rng = np.random.default_rng(seed)
    leaves = [pair(rng.standard_normal(s)) for s in ((3, 4), (4, 3), (1, 4), (3, 1))]
    pool, label = list(leaves), []
    for _ in range(14):
        node = grow(rng, pool, label)
        if node[0].numel() <= 60:
            pool.append(node)
    total = each(lambda _, *ts: sum((t * 0.1).sum() * (k + 1) for k, t in enumerate(ts)), *pool[-6:])
    return leaves, pool[len(leaves) :], total, f"seed {seed}: {' '.join(label)}"


@pytest.mark.parametrize("seed", range(80))
def test_gradients(seed: int, isa: str) -> None:
    leaves, inner, total, what = random_graph(seed)
    for a, b in inner:
        a.retain_grad()
        b.retain_grad()
    for _ in range(2):
        total[0].backward(retain_graph=True)
        total[1].backward(retain_graph=True)
    assert_close(total[0], array(total[1]), rtol=1e-11, atol=1e-11, what=f"{what}, {isa}: value")
    for k, (a, b) in enumerate([*leaves, *inner]):
        assert (a.grad is None) == (b.grad is None), f"{what}, {isa}: gradient {k}"
        if b.grad is not None:
            assert_close(a.grad, array(b.grad), rtol=1e-10, atol=1e-10, what=f"{what}, {isa}: gradient {k}")


@pytest.mark.parametrize("seed", range(80))
def test_gradients_on_demand_and_second_derivatives(seed: int) -> None:
    leaves, inner, total, what = random_graph(seed)
    rng = np.random.default_rng(seed)
    wanted = [*leaves, *(inner[i] for i in rng.integers(0, len(inner), 2))]
    options = {"create_graph": True, "allow_unused": True}
    ours = gd.autograd.grad(total[0], [a for a, _ in wanted], **options)
    theirs = torch.autograd.grad(total[1], [b for _, b in wanted], **options)
    again, tagain = [], []
    for k, (g, h) in enumerate(zip(ours, theirs, strict=True)):
        assert (g is None) == (h is None), f"{what}: gradient {k}"
        if g is not None:
            assert_close(g, array(h), rtol=1e-10, atol=1e-10, what=f"{what}: gradient {k}")
            v, tv = pair(rng.standard_normal(g.shape), False)
            again.append((g * v).sum())
            tagain.append((h * tv).sum())
    loss, tloss = sum(again), sum(tagain)
    if not tloss.requires_grad:
        return
    assert loss.requires_grad, what
    loss.backward()
    tloss.backward()
    for k, (a, b) in enumerate(leaves):
        want = np.zeros(b.shape) if b.grad is None else array(b.grad)
        got = np.zeros(a.shape) if a.grad is None else array(a.grad)
        assert_close(got, want, rtol=1e-9, atol=1e-9, what=f"{what}: second derivative {k}")
