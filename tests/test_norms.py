"""Layer norm and RMS norm beside PyTorch and float64; gradients of the parameters have the same bits with any thread count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import references as r
from helpers import assert_close, assert_same_bits

import gradino as gd
from gradino import nn
from gradino.nn import functional as F


def gradients(x: np.ndarray, w: np.ndarray, b: np.ndarray, g: np.ndarray) -> list[gd.Tensor]:
    tensors = [gd.tensor(a, requires_grad=True) for a in (x, w, b)]
    F.layer_norm(tensors[0], w.shape, *tensors[1:]).backward(gd.tensor(g))
    return [t.grad for t in tensors if t.grad is not None]


# ---- N06: a large mean -----------------------------------------------------------------------------------------

SPACED = [(mean, 1e-3) for mean in (0.0, 100.0, 1000.0, 10000.0)]
FIRST = (-1.3416408, -1.3415277, -1.3415078, -1.3313334)


@pytest.mark.parametrize("mean, step", [*SPACED, (40000.0, 1.0), (80000.0, 1.0), (1e7, 1.0)])
@pytest.mark.parametrize("width", [4, 16, 4096])
def test_n06_a_large_mean_costs_no_precision(mean: float, step: float, width: int, isa: str, rng: Any) -> None:
    """Forward and backward, against float64 on the float32 inputs; a constant row gives exactly 0."""
    row = (mean + np.arange(width) * step).astype(np.float32)
    x = np.stack([row, row[::-1], np.full(width, 1234.0 + mean, np.float32)])
    w, b, g = (rng.uniform(0.5, 2, s).astype(np.float32) for s in (width, width, x.shape))
    what = f"mean {mean}, width {width}, {isa}"
    exact = [a.astype(np.float64) for a in (g, x, w)]
    got = F.layer_norm(gd.tensor(x), (width,))
    assert_close(got, r.layer_norm(exact[1], shape=(width,)), rtol=1e-6, atol=1e-7, what=what)
    assert not got[2].abs().sum().item(), f"{what}: a constant row must give 0"
    want = r.norm_bwd(*exact, i=(1, 7), f=(1e-5,), centred=True)
    for name, ours, theirs in zip(("dx", "dweight", "dbias"), gradients(x, w, b, g), want):
        assert_close(ours, theirs, rtol=1e-5, atol=2e-6 * np.abs(theirs).max(), what=f"{name}, {what}")


def test_n06_the_values_of_the_case(isa: str) -> None:
    for (mean, step), first in zip(SPACED, FIRST):
        x = gd.tensor((mean + np.arange(16) * step).astype(np.float32))
        assert abs(F.layer_norm(x, 16)[0].item() - first) < 1e-6, f"mean {mean}, {isa}: {F.layer_norm(x, 16)[0].item()}, must be {first}"
    for v in (40000.0, 80000.0):
        y = F.layer_norm(gd.tensor([v, v + 1, v + 2, v + 3]), 4)
        assert_close(y, np.array([-1.3416355, -0.4472118, 0.4472118, 1.3416355]), rtol=3e-7, what=f"{v}, {isa}")


def test_n06_the_second_derivative_keeps_it_too(isa: str) -> None:
    x = gd.tensor((1e7 + np.arange(16)).astype(np.float32), requires_grad=True)
    g = gd.tensor(np.linspace(-1, 1, 16, dtype=np.float32) ** 2)
    (plain,) = gd.autograd.grad(F.layer_norm(x, 16), [x], [g])
    (recorded,) = gd.autograd.grad(F.layer_norm(x, 16), [x], [g], create_graph=True)
    assert_close(recorded, plain.numpy().astype(np.float64), rtol=1e-5, atol=1e-7, what=isa)


# ---- What no row of the table says -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_without_gradient_poison_nothing(dtype: str, isa: str, rng: Any) -> None:
    """A padded row that is NaN and gets the gradient 0."""
    x, g = (rng.standard_normal((40, 37)).astype(dtype) for _ in range(2))
    w, b = np.ones(37, dtype), np.zeros(37, dtype)
    x[3], g[3] = np.nan, 0
    x[5, 7], g[5] = np.inf, 0
    clean = x.copy()
    clean[3], clean[5] = 0, 0
    for name, ours, theirs in zip(("dx", "dweight", "dbias"), gradients(x, w, b, g), gradients(clean, w, b, g)):
        assert_same_bits(ours, theirs, what=f"{name}, {dtype}, {isa}")


@pytest.mark.parametrize("shape", [(1000, 24), (64, 1024), (5000, 3), (3, 40000)])
def test_any_thread_count_gives_the_same_bits(shape: tuple[int, int], isa: str, rng: Any) -> None:
    x, g = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    w, b = (rng.standard_normal(shape[1], dtype=np.float32) for _ in range(2))
    before, results = gd.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            gd.set_num_threads(threads)
            results.append([F.layer_norm(*map(gd.tensor, (x,)), shape[1], gd.tensor(w), gd.tensor(b)), *gradients(x, w, b, g)])
    finally:
        gd.set_num_threads(before)
    for other in results[1:]:
        for name, one, two in zip(("y", "dx", "dweight", "dbias"), results[0], other):
            assert_same_bits(one, two, what=f"{name}, {shape}, {isa}")


def test_a_row_alone_has_the_bits_of_the_row_in_a_batch(isa: str, rng: Any) -> None:
    for width in (7, 64, 1500):
        x, w = rng.standard_normal((9, width), dtype=np.float32), rng.standard_normal(width, dtype=np.float32)
        whole = F.layer_norm(gd.tensor(x), width, gd.tensor(w))
        for k in range(9):
            alone = F.layer_norm(gd.tensor(x[k : k + 1]), width, gd.tensor(w))
            assert_same_bits(alone, whole[k : k + 1].contiguous(), what=f"row {k} of width {width}, {isa}")


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_large_outputs_are_written_around_the_caches_alike(name: str, isa: str, rng: Any) -> None:
    """More than 16 MiB of rows whose places are not aligned, against the same rows in small pieces."""
    width, rows = 1003, 4400
    x = gd.tensor(rng.standard_normal((rows, width), dtype=np.float32), requires_grad=True)
    w = gd.tensor(rng.standard_normal(width, dtype=np.float32))
    g = gd.tensor(rng.standard_normal((rows, width), dtype=np.float32))
    y = getattr(F, name)(x, width, w, eps=1e-5)
    (dx,) = gd.autograd.grad(y, [x], [g])
    for first in range(0, rows, 1100):
        part = x.detach()[first : first + 1100].clone().requires_grad_()
        small = getattr(F, name)(part, width, w, eps=1e-5)
        (small_dx,) = gd.autograd.grad(small, [part], [g[first : first + 1100]])
        assert_same_bits(y[first : first + 1100].contiguous(), small, what=f"y from row {first}, {isa}")
        assert_same_bits(dx[first : first + 1100].contiguous(), small_dx, what=f"dx from row {first}, {isa}")


# ---- Beside PyTorch ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"elementwise_affine": False}, {"eps": 0.1}, {"dtype": "float64"}])
def test_layer_norm_trains_as_pytorchs(options: dict[str, Any], isa: str, rng: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    ours = nn.LayerNorm((3, 5), **options)
    theirs = torch.nn.LayerNorm((3, 5), **{**options, **({"dtype": torch.float64} if "dtype" in options else {})})
    assert repr(ours) == repr(theirs)
    _same_training(ours, theirs, torch, options.get("dtype", "float32"), rng)


@pytest.mark.parametrize("options", [{}, {"elementwise_affine": False}, {"eps": 0.1}, {"dtype": "float64"}])
def test_rms_norm_trains_as_pytorchs(options: dict[str, Any], isa: str, rng: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    ours = nn.RMSNorm([5], **options)
    theirs = torch.nn.RMSNorm([5], **{**options, **({"dtype": torch.float64} if "dtype" in options else {})})
    assert repr(ours) == repr(theirs)
    _same_training(ours, theirs, torch, options.get("dtype", "float32"), rng)


def _same_training(ours: Any, theirs: Any, torch: Any, dtype: str, rng: Any) -> None:
    assert {n: p.shape for n, p in ours.named_parameters()} == {n: tuple(p.shape) for n, p in theirs.named_parameters()}
    x, target = (rng.standard_normal((7, 3, 5)).astype(dtype) for _ in range(2))
    steps = []
    for model, m, tensor in ((ours, gd, gd.tensor), (theirs, torch, torch.tensor)):
        inputs = tensor(x).requires_grad_()
        optimizer = m.optim.SGD(model.parameters(), lr=0.1) if list(model.parameters()) else None
        for _ in range(3):
            loss = ((model(inputs) - tensor(target)) ** 2).mean()
            loss.backward()
            if optimizer:
                optimizer.step()
                optimizer.zero_grad()
        steps.append([inputs.grad, *(p.detach() for p in model.parameters())])
    rtol = 2e-5 if dtype == "float32" else 1e-12
    for one, two in zip(*steps):
        assert_close(one, two.numpy().astype(np.float64), rtol=rtol, atol=rtol * 0.1, what=f"{type(ours).__name__}")


REFUSED = {
    "too wide": lambda m, f: f.layer_norm(m.ones(2, 3), (2,)),
    "too many": lambda m, f: f.rms_norm(m.ones(2, 3), (2, 4)),
    "weight": lambda m, f: f.layer_norm(m.ones(2, 3), (3,), m.ones(2)),
    "none": lambda m, f: f.layer_norm(m.ones(2, 3), ()),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_pytorch_refuses_is_refused(call: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    for m in (gd, torch):
        with pytest.raises((RuntimeError, ValueError)):
            call(m, m.nn.functional)
