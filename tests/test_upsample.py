"""Resizing, shuffles and paddings beside PyTorch."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits

import gradino as gd
from gradino import nn
from gradino.nn import functional as F

MODES = ["nearest", "nearest-exact", "linear", "bilinear", "area"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_sizes_and_scales_are_pytorchs(mode: str, dtype: str, isa: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    r, rng = random.Random(mode), np.random.default_rng(1)
    for _ in range(40):
        dims = {"linear": 1, "bilinear": 2}.get(mode) or r.choice((1, 2))
        shape = (r.choice((1, 2)), 3) + tuple(r.choice((1, 2, 5, 13, 33)) for _ in range(dims))
        x = rng.standard_normal(shape).astype(dtype)
        options: dict[str, Any] = {"mode": mode}
        if "linear" in mode:
            options["align_corners"] = r.choice((None, True, False))
        if r.random() < 0.5:
            options["size"] = r.choice((1, 2, 7, 16, 31))
        else:
            options |= {"scale_factor": r.choice((1.0, 2, 0.5, 1.3, 3.7, (1.85,) * dims)), "recompute_scale_factor": r.choice((None, True))}
            if any(int(n * np.ravel(options["scale_factor"])[0]) == 0 for n in shape[2:]):
                continue
        ours, theirs = gd.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        y, want = F.interpolate(ours, **options), torch.nn.functional.interpolate(theirs, **options)
        what = f"{shape} {options} {dtype} [{isa}]"
        tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-11}
        assert_close(y, want.detach().numpy(), what=what, **tolerance)
        g = rng.standard_normal(y.shape).astype(dtype)
        (dx,) = gd.autograd.grad(y, [ours], [gd.tensor(g)])
        (want,) = torch.autograd.grad(want, [theirs], torch.tensor(g))
        assert_close(dx, want.numpy(), what=f"gradient, {what}", **tolerance)


def test_nearest_picks_pytorchs_elements_at_every_scale() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    for dims in (1, 2):
        for dtype in ("float32", "float64"):
            x = np.arange(13, dtype=dtype).reshape(1, 1, *(1,) * (dims - 1), 13)
            for mode in MODES[:2]:
                for scale in np.linspace(0.3, 4, 75).round(2).tolist():
                    factor = (1.0,) * (dims - 1) + (scale,)
                    want = torch.nn.functional.interpolate(torch.tensor(x), scale_factor=factor, mode=mode).numpy()
                    assert_same_bits(
                        F.interpolate(gd.tensor(x), scale_factor=factor, mode=mode), want, what=f"{dims}d {dtype} {mode} {scale}"
                    )


def test_what_is_left_out_says_so() -> None:
    x = gd.ones(1, 1, 4, 4)
    for mode in ("bicubic", "trilinear"):
        with pytest.raises(gd.InvalidValueError, match="is not supported"):
            F.interpolate(x, 2, mode=mode)
    with pytest.raises(gd.InvalidValueError, match="must be above 0"):
        F.interpolate(x, scale_factor=0)


def test_shuffles_are_inverse(isa: str, rng: Any) -> None:
    for shape in ((8, 3, 5), (2, 18, 4, 7)):
        r = 2 if shape[-3] == 8 else 3
        x = gd.tensor(rng.standard_normal(shape))
        assert_same_bits(F.pixel_unshuffle(F.pixel_shuffle(x, r), r), x, what=isa)
        moved = x.transpose(-1, -2).contiguous().transpose(-1, -2)
        assert_same_bits(F.pixel_shuffle(moved, r), F.pixel_shuffle(x, r), what=isa)


REPRESENTED = [
    ("Upsample", (), {"scale_factor": 2}, 4), ("Upsample", (), {"size": (2, 3), "mode": "bilinear"}, 4),
    ("Upsample", (5,), {"mode": "linear"}, 3),
    ("UpsamplingNearest2d", (3,), {}, 4), ("UpsamplingBilinear2d", (), {"scale_factor": 2}, 4), ("PixelShuffle", (2,), {}, 4),
    ("PixelUnshuffle", (2,), {}, 4), ("ChannelShuffle", (2,), {}, 4), ("ZeroPad1d", (1,), {}, 3), ("ZeroPad2d", (1,), {}, 4),
    ("ConstantPad1d", (1, 2.0), {}, 3), ("ConstantPad2d", ((1, 2, 0, 1), 2.0), {}, 4), ("ReflectionPad1d", (1,), {}, 3),
    ("ReflectionPad2d", ((1, 0, 2, 1),), {}, 4), ("ReplicationPad1d", ((2, 1),), {}, 3), ("ReplicationPad2d", (1,), {}, 4),
    ("CircularPad1d", (1,), {}, 3), ("CircularPad2d", (1,), {}, 4),
]  # fmt: skip


@pytest.mark.parametrize("name, arguments, options, rank", REPRESENTED)
def test_modules_are_pytorchs(name: str, arguments: Any, options: Any, rank: int, rng: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    ours, theirs = (getattr(m.nn, name)(*arguments, **options) for m in (gd, torch))
    assert repr(ours) == repr(theirs)
    x = rng.standard_normal((2, 8, 4, 6)[:rank])
    a, b = gd.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, want = ours(a), theirs(b)
    assert_close(y, want.detach().numpy(), rtol=1e-12, atol=1e-12, what=name)
    if want.dtype.is_floating_point and name != "ChannelShuffle":  # which PyTorch cannot differentiate on a CPU everywhere
        (dx,) = gd.autograd.grad((y * y).sum(), [a])
        (dwant,) = torch.autograd.grad((want * want).sum(), [b])
        assert_close(dx, dwant.numpy(), rtol=1e-12, atol=1e-12, what=f"gradient of {name}")


def test_padding_needs_as_many_numbers_as_sides() -> None:
    with pytest.raises(gd.ShapeError, match="must be one number or 4"):
        nn.ZeroPad2d((1, 2))
