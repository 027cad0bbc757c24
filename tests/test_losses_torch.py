"""Losses against PyTorch, live: every argument, values and all gradients."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from peer import TOLERANCE, array, pair, torch

import gradino as gd
from gradino.nn import functional as F

SHAPES = [(6, 5), (5,), (3, 5, 4), (2, 5, 3, 4), (1, 1), (64, 33)]
OPTIONS = list(product((False, True), (0.0, 0.25), ("none", "mean", "sum")))


def compare(x: Any, target: Any, weight: Any, dtype: str, what: str, **options: Any) -> None:
    """Loss and gradients of both libraries; x, target and weight are pairs (ours, PyTorch's)."""
    tolerance = TOLERANCE[dtype] / 10
    with np.errstate(all="ignore"):
        ours = F.cross_entropy(x[0], target[0], weight[0], **options)
        theirs = torch.nn.functional.cross_entropy(x[1], target[1], weight[1], **options)
    assert_close(ours, array(theirs), rtol=tolerance, atol=tolerance, what=what, dtype=dtype)
    slope, tslope = pair(np.random.default_rng(1).standard_normal(ours.shape), False, dtype)
    (ours * slope).sum().backward()
    (theirs * tslope).sum().backward()
    for name, (leaf, tleaf) in (("input", x), ("target", target)):
        if leaf.requires_grad:
            assert_close(leaf.grad, array(tleaf.grad), rtol=tolerance, atol=tolerance, what=f"{what}: gradient of {name}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_classes(shape: tuple[int, ...], dtype: str, isa: str, rng: Any) -> None:
    classes = shape[1] if len(shape) > 1 else shape[0]
    sizes = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    for weighted, smoothing, reduction in OPTIONS:
        for ignore_index in (-100, 0, -3):
            labels = np.asarray(rng.integers(0, classes, sizes))
            labels[rng.random(sizes) < 0.2] = ignore_index
            weight = pair(rng.random(classes) + 0.1, False, dtype) if weighted else (None, None)
            options = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": smoothing}
            x, target = pair(rng.standard_normal(shape) * 3, dtype=dtype), pair(labels)
            compare(x, target, weight, dtype, f"{shape}, {dtype}, {isa}, weighted {weighted}, {options}", **options)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("differentiable", [False, True])
def test_probabilities(shape: tuple[int, ...], differentiable: bool, dtype: str, isa: str, rng: Any) -> None:
    """Targets need not sum to 1, and may require grad."""
    classes = shape[1] if len(shape) > 1 else shape[0]
    for weighted, smoothing, reduction in OPTIONS:
        weight = pair(rng.random(classes) + 0.1, False, dtype) if weighted else (None, None)
        options = {"reduction": reduction, "label_smoothing": smoothing}
        x, target = pair(rng.standard_normal(shape) * 3, dtype=dtype), pair(rng.random(shape), differentiable, dtype)
        compare(x, target, weight, dtype, f"{shape}, {dtype}, {isa}, weighted {weighted}, {options}", **options)


def test_second_derivatives(rng: Any) -> None:
    for smoothing, reduction in product((0.0, 0.25), ("mean", "sum")):
        x, tx = pair(rng.standard_normal((4, 3)))
        v, tv = pair(rng.standard_normal((4, 3)), False)
        labels, tlabels = pair(np.array([2, -100, 0, 1]))
        (g,) = gd.autograd.grad(F.cross_entropy(x, labels, reduction=reduction, label_smoothing=smoothing), x, create_graph=True)
        tloss = torch.nn.functional.cross_entropy(tx, tlabels, reduction=reduction, label_smoothing=smoothing)
        (tg,) = torch.autograd.grad(tloss, tx, create_graph=True)
        assert g is not None
        (g * v).sum().backward()
        (tg * tv).sum().backward()
        assert_close(x.grad, array(tx.grad), rtol=1e-12, atol=1e-12, what=f"Hessian product, smoothing {smoothing}, {reduction}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 4, 5), (70, 130)])
def test_mse(shape: tuple[int, ...], dtype: str, isa: str, rng: Any) -> None:
    tolerance = TOLERANCE[dtype] / 10
    for reduction in ("none", "mean", "sum"):
        x, tx = pair(np.asarray(rng.standard_normal(shape)), dtype=dtype)
        y, ty = pair(np.asarray(rng.standard_normal(shape)), dtype=dtype)
        loss, tloss = F.mse_loss(x, y, reduction=reduction), torch.nn.functional.mse_loss(tx, ty, reduction=reduction)
        what = f"mse {shape}, {dtype}, {isa}, {reduction}"
        assert_close(loss, array(tloss), rtol=tolerance, atol=tolerance, what=what, dtype=dtype)
        (loss * 1.5).sum().backward()
        (tloss * 1.5).sum().backward()
        assert_close(x.grad, array(tx.grad), rtol=tolerance, atol=tolerance, what=f"{what}: gradient of input")
        assert_close(y.grad, array(ty.grad), rtol=tolerance, atol=tolerance, what=f"{what}: gradient of target")
