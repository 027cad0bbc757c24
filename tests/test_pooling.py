"""Pooling beside PyTorch: random windows, NaN and ties, indices, threads, memory."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits

import gradino as gd
from gradino import nn
from gradino.nn import functional as F


def _compare(torch: Any, call: Any, x: np.ndarray, what: str, rtol: float = 1e-5) -> None:
    """The same result, gradient, and refusal."""
    tensors = [m.tensor(x).requires_grad_() for m in (gd, torch)]
    outcomes = []
    for m, t in zip((gd, torch), tensors):
        try:
            outcomes.append(call(m.nn.functional, t))
        except (RuntimeError, ValueError, TypeError) as error:
            outcomes.append(error)
    ours, theirs = outcomes
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"{what}: PyTorch refuses it: {theirs}"
        return
    if isinstance(ours, Exception):
        raise AssertionError(f"{what}: {ours}") from ours
    if isinstance(theirs, tuple):
        assert_same_bits(ours[1], theirs[1].numpy(), what=f"indices, {what}")
        ours, theirs = ours[0], theirs[0]
    assert_close(ours, theirs.detach().numpy(), rtol=rtol, atol=1e-6, what=what)
    g = np.random.default_rng(0).uniform(-1, 1, tuple(theirs.shape)).astype(x.dtype)
    (dx,) = gd.autograd.grad(ours, [tensors[0]], [gd.tensor(g)])
    (want,) = torch.autograd.grad(theirs, [tensors[1]], torch.tensor(g))
    assert_close(dx, want.numpy(), rtol=rtol, atol=1e-6, what=f"gradient, {what}")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["max", "avg", "adaptive_max", "adaptive_avg", "lp"])
def test_random_windows_are_pytorchs(kind: str, seed: int, isa: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    r, rng = random.Random(seed), np.random.default_rng(seed)
    for _ in range(25):
        dims = r.choice((1, 2))
        shape = r.choice(((3,), (2, 3), (1,))) + tuple(r.choice((1, 2, 3, 5, 8, 13, 34)) for _ in range(dims))
        x = rng.standard_normal(shape).astype("float32")

        def size(*choice: int, r: random.Random = r, dims: int = dims) -> Any:
            return r.choice(choice) if dims == 1 or r.random() < 0.5 else tuple(r.choice(choice) for _ in range(dims))

        name = f"{kind}_pool{dims}d"
        options: dict[str, Any] = {"kernel_size": size(1, 2, 3, 5), "stride": r.choice((None, size(1, 2, 3)))}
        if kind in ("max", "avg"):
            options |= {"padding": size(0, 0, 1), "ceil_mode": r.random() < 0.3}
        if kind == "max":  # dilation over an input that is smaller makes PyTorch read past it
            options |= {"dilation": size(1, 1, 2) if min(shape[-dims:]) > 4 else 1, "return_indices": r.random() < 0.5}
            x = np.round(x * 2)  # ties
        if kind == "avg":
            options["count_include_pad"] = r.random() < 0.5
            if dims == 2:
                options["divisor_override"] = r.choice((None, 3, -2))
        if kind.startswith("adaptive"):
            options = {"output_size": size(1, 2, 3, 7)}
        if kind == "lp":
            options |= {"norm_type": r.choice((2, 3.0)), "kernel_size": r.choice((1, 2, 3))}
            x = np.abs(x) + np.float32(0.1)
        _compare(torch, lambda f, t, n=name, o=options: getattr(f, n)(t, **o), x, f"{name} {shape} {options} [{isa}]")


def test_nan_wins_and_the_first_of_equals(isa: str) -> None:
    nan = float("nan")
    for width in (2, 5, 16, 17, 40):
        x = np.zeros((1, 2, width), np.float32)
        x[0, 1, width - 1] = nan
        y, index = F.max_pool2d(gd.tensor(x), (2, 1), return_indices=True)
        want = np.zeros(width, np.float32)
        want[-1] = nan
        assert_same_bits(y[0, 0], want, what=f"{width}, {isa}")
        assert index[0, 0].tolist() == [*range(width - 1), 2 * width - 1], "equal elements: the first; NaN: its own"
    low = gd.full((1, 1, 4), -float("inf"))
    y, index = F.max_pool1d(low, 2, return_indices=True)
    assert y.tolist() == [[[-float("inf")] * 2]] and index.tolist() == [[[0, 2]]]


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_max_pool_of_integers(dtype: str) -> None:
    x = gd.tensor(np.arange(16).reshape(1, 4, 4) - 20, dtype=dtype)
    y = F.max_pool2d(x, 2)
    assert y.dtype.name == dtype and y.tolist() == [[[-15, -13], [-7, -5]]]


def test_unpool_puts_values_back(rng: Any) -> None:
    x = gd.tensor(rng.standard_normal((2, 3, 6, 8)))
    pool, unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
    y, index = pool(x)
    back = unpool(y, index)
    assert back.shape == x.shape and int((back != 0).sum().item()) == y.numel()
    assert_same_bits(F.max_pool2d(back, 2).clamp(min=0), y.clamp(min=0))
    twice = F.max_unpool1d(gd.tensor([[1.0, 2.0]]), gd.tensor([[3, 3]]), 2)
    assert twice.tolist() == [[0, 0, 0, 2]], "the last one stays"


def test_layouts_and_second_order(isa: str, rng: Any) -> None:
    x = gd.tensor(rng.standard_normal((2, 3, 9, 11)))
    moved = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    for f in (lambda t: F.max_pool2d(t, 3, 2, 1), lambda t: F.avg_pool2d(t, 3, 2, 1), lambda t: F.adaptive_avg_pool2d(t, (4, 3))):
        assert_same_bits(f(moved), f(x), what=isa)
        assert gd.autograd.gradgradcheck(lambda t, f=f: f(t) ** 2, [x[:1, :1].clone().requires_grad_()])


@pytest.mark.parametrize("threads", [2, 3])
def test_any_thread_count_gives_the_same_bits(threads: int, isa: str, rng: Any) -> None:
    x, before, runs = rng.standard_normal((4, 16, 40, 40), dtype=np.float32), gd.get_num_threads(), []
    try:
        for n in (1, threads):
            gd.set_num_threads(n)
            t = gd.tensor(x, requires_grad=True)
            out = [
                F.max_pool2d(t, 3, 2, 1),
                F.avg_pool2d(t, 3, 1, 1),
                F.adaptive_max_pool2d(t, 7),
                F.interpolate(t, scale_factor=1.5, mode="bilinear"),
            ]
            gd.cat([y.flatten() for y in out]).square().sum().backward()
            runs.append([*out, t.grad])
    finally:
        gd.set_num_threads(before)
    for k, (one, two) in enumerate(zip(*runs)):
        assert_same_bits(one, two, what=f"result {k}, {isa}")


def test_indices_are_made_only_where_they_are_needed() -> None:
    x = gd.ones(1, 8, 64, 64)
    with gd.step_arena() as arena:
        F.max_pool2d(x, 2)
        without = arena.stats().used
        F.max_pool2d(x, 2, return_indices=True)
        assert arena.stats().used - without > 2 * without


def test_empty_batches_pass_and_empty_planes_do_not() -> None:
    for f in (F.max_pool2d, F.avg_pool2d):
        assert f(gd.ones(0, 3, 4, 4), 2).shape == (0, 3, 2, 2)
        x = gd.ones(0, 3, 4, 4, requires_grad=True)
        f(x, 2).sum().backward()
        assert x.grad.shape == x.shape
        with pytest.raises(gd.ShapeError, match="must have elements"):
            f(gd.ones(1, 3, 0, 4), 2)
    assert F.adaptive_avg_pool2d(gd.ones(0, 3, 4, 4), 1).shape == (0, 3, 1, 1)


REPRESENTED = [
    ("MaxPool1d", (3,), {}), ("MaxPool2d", (3,), {"stride": 2, "padding": 1}), ("MaxUnpool1d", (2,), {}),
    ("MaxUnpool2d", (2,), {"stride": 1}),
    ("AvgPool1d", (2,), {}), ("AvgPool2d", ((2, 3),), {}), ("AdaptiveAvgPool1d", (2,), {}), ("AdaptiveAvgPool2d", ((None, 2),), {}),
    ("AdaptiveMaxPool1d", (2,), {}), ("AdaptiveMaxPool2d", (2,), {}), ("LPPool1d", (2, 2), {}), ("LPPool2d", (2, 2), {"ceil_mode": True}),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments, options", REPRESENTED)
def test_modules_are_pytorchs(name: str, arguments: Any, options: Any, rng: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    ours, theirs = (getattr(m.nn, name)(*arguments, **options) for m in (gd, torch))
    assert repr(ours) == repr(theirs)
    if "Unpool" not in name:
        x = np.abs(rng.standard_normal((2, 3, 9, 7)[: 4 if "2d" in name else 3]))
        assert_close(ours(gd.tensor(x)), theirs(torch.tensor(x)).numpy(), rtol=1e-12, what=name)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.max_pool2d(x, 2**33),
        lambda x: F.avg_pool2d(x, 2, stride=2**33),
        lambda x: F.adaptive_avg_pool2d(x, 2**31),
        lambda x: F.interpolate(x, size=(2**31, 2)),
        lambda x: F.pixel_shuffle(x, 2**33),
    ],
)
def test_what_is_too_large_is_not_called_too_small(call: Any) -> None:
    with pytest.raises(gd.GradinoError, match=r"must be at least [01] and at most \d+"):
        call(gd.ones(1, 4, 5, 5))
