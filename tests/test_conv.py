"""Convolutions beyond what specs say: all parameters in turn, one dimension, threads, batches, extreme sizes, what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import conv_reference as r
import numpy as np
import pytest
from helpers import Guarded, assert_close, assert_same_bits, call_with_canaries, values
from spec_kinds import HALVES

import gradino as gd
import gradino.nn.functional as F
from gradino.autograd import grad, gradcheck, gradgradcheck

GRID = list(
    itertools.product((1, 2, 3), (0, 1, 2), (1, 2), (1, 2, 3), ((5, 5), (7, 6), (9, 4)), (1, 3))
)  # stride, padding, dilation, groups, size, kernel


def randn(rng: Any, *shape: int, dtype: str = "float64") -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def gradients(y: gd.Tensor, g: np.ndarray, *leaves: gd.Tensor) -> list[np.ndarray]:
    return [values(t) for t in grad(y, leaves, gd.tensor(g))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_parameter_with_every_other(rng, isa, dtype):
    for stride, padding, dilation, groups, size, kernel in GRID:
        if any(dilation * (kernel - 1) >= s + 2 * padding for s in size):
            continue
        what = f"stride {stride}, padding {padding}, dilation {dilation}, groups {groups}, size {size}, kernel {kernel}"
        x, w, b = randn(rng, 2, 2 * groups, *size), randn(rng, 3 * groups, 2, kernel, kernel), randn(rng, 3 * groups)
        want = r.conv2d(x, w, b, stride, padding, dilation, groups)
        g = randn(rng, *want.shape)
        tx, tw, tb = (gd.tensor(a.astype(dtype), requires_grad=True) for a in (x, w, b))
        y = F.conv2d(tx, tw, tb, stride, padding, dilation, groups)
        tolerance = 2e-5 if dtype == "float32" else 1e-13
        assert_close(y, want, atol=tolerance, what=what, dtype=dtype)
        dx, dw, db = gradients(y, g.astype(dtype), tx, tw, tb)
        extra = tuple((s + 2 * padding - dilation * (kernel - 1) - 1) % stride for s in size)
        assert_close(dx, r.conv_transpose2d(g, w, None, stride, padding, extra, groups, dilation), atol=tolerance, what=f"dx, {what}")
        i = (stride, stride, padding, padding, dilation, dilation, groups, padding, padding, kernel, kernel)
        assert_close(dw, r.conv_bwd_weight(g, x, i), atol=4 * tolerance, what=f"dw, {what}")
        assert_close(db, g.sum((0, 2, 3)), atol=4 * tolerance, what=f"db, {what}")


def test_one_dimension_is_two_with_a_height_of_one(rng):
    x, w, b = gd.tensor(randn(rng, 2, 4, 11)), gd.tensor(randn(rng, 6, 2, 3)), gd.tensor(randn(rng, 6))
    assert_same_bits(F.conv1d(x, w, b, 2, 1, 2, 2), F.conv2d(x.unsqueeze(2), w.unsqueeze(2), b, (1, 2), (0, 1), (1, 2), 2).squeeze(2))
    assert_same_bits(F.conv1d(x[0], w, b, groups=2), F.conv1d(x, w, b, groups=2)[0])
    assert_same_bits(
        F.conv1d(x, w, padding="same", groups=2), F.conv2d(x.unsqueeze(2), w.unsqueeze(2), padding="same", groups=2).squeeze(2)
    )
    v, c = gd.tensor(randn(rng, 4, 3, 5)), gd.tensor(randn(rng, 6))
    y = F.conv_transpose2d(x.unsqueeze(2), v.unsqueeze(2), c, (1, 3), (0, 2), (0, 1), 2, (1, 2)).squeeze(2)
    assert_same_bits(F.conv_transpose1d(x, v, c, 3, 2, 1, 2, 2), y)
    assert_same_bits(F.conv_transpose1d(x[0], v, groups=2), F.conv_transpose1d(x, v, groups=2)[0])


def test_the_package_has_the_functions_too():
    for name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        assert getattr(gd, name) is getattr(F, name)


def test_gradients_of_one_dimension():
    x, w, b = (gd.randn(*s, dtype=gd.float64).requires_grad_() for s in ((2, 2, 7), (4, 1, 3), (4,)))
    assert gradcheck(lambda *t: F.conv1d(*t, stride=2, padding=1, groups=2), (x, w, b))
    assert gradgradcheck(lambda *t: F.conv1d(*t, stride=2, padding=1, groups=2), (x, w, b))
    assert gradcheck(
        lambda x, w: F.conv_transpose1d(x, w.transpose(0, 1), stride=2, output_padding=1), (x[:, :1].detach().requires_grad_(), w)
    )


def test_third_derivatives(rng):
    """Convolutions are linear in each input: a cube of one has three."""
    x, w = gd.tensor(randn(rng, 1, 2, 4, 4), requires_grad=True), gd.tensor(randn(rng, 2, 2, 3, 3), requires_grad=True)
    y = (F.conv2d(x, w, padding=1) ** 3).sum()
    for _ in range(2):
        (gx,) = grad(y, (x,), create_graph=True)
        y = (gx**2).sum()
    (gw,) = grad(y, (w,), create_graph=True)
    step, at = 1e-5, (1, 0, 2, 1)
    with gd.no_grad():
        shift = np.zeros(w.shape)
        shift[at] = step

    def value(w: gd.Tensor) -> float:
        z = (F.conv2d(x, w, padding=1) ** 3).sum()
        for _ in range(2):
            z = (grad(z, (x,), create_graph=True)[0] ** 2).sum()
        return z.item()

    difference = (value(w + gd.tensor(shift)) - value(w - gd.tensor(shift))) / (2 * step)
    assert abs(values(gw)[at] - difference) < 1e-5 * abs(difference)


# ---- Bits -----------------------------------------------------------------------------------------------------------

SHAPES = (  # x, w, stride, padding, groups: one item, many; several blocks of channels; divided results; few results; flat
    ((5, 3, 20, 20), (18, 3, 3, 3), 1, 1, 1), ((3, 130, 7, 7), (40, 130, 3, 3), 1, 1, 1), ((9, 64, 8, 8), (32, 64, 3, 3), 2, 1, 1),
    ((6, 40, 16, 16), (40, 1, 3, 3), 1, 1, 40), ((4, 33, 13, 13), (50, 33, 1, 1), 1, 0, 1),
    ((2, 4, 1, 2500), (20, 4, 1, 7), (1, 2), (0, 3), 1),
    ((40, 8, 4, 4), (24, 8, 3, 3), 1, 1, 1), ((3, 6, 70, 70), (4, 3, 5, 5), 3, 2, 2),
)  # fmt: skip


def all_results(x: np.ndarray, w: np.ndarray, stride: Any, padding: Any, groups: int) -> list[np.ndarray]:
    tx, tw = gd.tensor(x, requires_grad=True), gd.tensor(w, requires_grad=True)
    y = F.conv2d(tx, tw, None, stride, padding, 1, groups)
    g = np.random.default_rng(3).standard_normal(tuple(y.shape)).astype(x.dtype)
    return [values(y), *gradients(y, g, tx, tw)]


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_thread_counts_do_not_matter(rng, isa, case):
    x, w = (randn(rng, *s, dtype="float32") for s in case[:2])
    before, found = gd.get_num_threads(), []
    for threads in (1, 2, 3):
        gd.set_num_threads(threads)
        found.append(all_results(x, w, *case[2:]))
    gd.set_num_threads(before)
    for other in found[1:]:
        for name, a, b in zip(("y", "dx", "dw"), found[0], other):
            assert_same_bits(b, a, what=f"{name} {case}")


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_an_image_alone_has_the_bits_it_has_in_a_batch(rng, isa, case):
    x, w = (randn(rng, *s, dtype="float32") for s in case[:2])
    whole = all_results(x, w, *case[2:])
    for n in (0, x.shape[0] - 1):
        y = F.conv2d(gd.tensor(x[n]), gd.tensor(w), None, *case[2:4], 1, case[4])
        assert_same_bits(y, whole[0][n], what=f"image {n} of {case}")


def test_instruction_sets_agree(rng, avx512):
    from gradino import config

    for case in SHAPES:
        x, w = (randn(rng, *s, dtype="float32") for s in case[:2])
        config.set_isa("portable")
        want = all_results(x, w, *case[2:])
        for isa in ("avx2", "avx512"):
            config.set_isa(isa)
            for name, a, b in zip(("y", "dx", "dw"), all_results(x, w, *case[2:]), want):
                assert_close(a, b, atol=2e-6 * np.abs(b).max(), what=f"{name} {isa} {case}", dtype="float32")


# ---- Memory ----------------------------------------------------------------------------------------------------------


def test_nothing_is_touched_around_the_operands(rng, isa):
    """Odd sizes, one element off alignment, between guard bytes; 1 x 1 kernels read their input in place."""
    cases = (
        ((1, 2, 5, 7), (3, 2, 3, 3), 1),
        ((2, 3, 7, 5), (17, 3, 1, 1), 0),
        ((1, 20, 3, 3), (20, 1, 3, 3), 1),
        ((1, 1, 1, 1), (1, 1, 1, 1), 0),
    )
    for (x_shape, w_shape, padding), dtype in itertools.product(cases, ("float32", "float64")):
        x, w = (Guarded(randn(rng, *s, dtype=dtype)) for s in (x_shape, w_shape))
        groups = x_shape[1] // w_shape[1]
        what = f"{x_shape} {w_shape} {isa} {dtype}"
        y = call_with_canaries(lambda x=x, w=w, p=padding, g=groups: F.conv2d(x.tensor, w.tensor, None, 1, p, 1, g), what)
        call_with_canaries(lambda y=y, w=w, p=padding, g=groups: F.conv_transpose2d(y, w.tensor, None, 1, p, 0, g), what)
        for guard in (x, w):
            guard.assert_untouched(what)


def test_strided_and_expanded_operands(rng, isa):
    x, w = randn(rng, 4, 6, 9, 3), randn(rng, 5, 3, 3, 4)
    want = r.conv2d(x.transpose(0, 3, 2, 1), w.transpose(0, 1, 3, 2), None, 2, 1)
    y = F.conv2d(gd.tensor(x).permute(0, 3, 2, 1), gd.tensor(w).transpose(2, 3), None, 2, 1)
    assert_close(y, want, atol=1e-12)
    one = gd.tensor(randn(rng, 1, 1, 6, 1), requires_grad=True)
    v = gd.tensor(randn(rng, 9, 3, 3, 3), requires_grad=True)
    y = F.conv2d(one.expand(2, 3, 6, 5), v, padding=1)
    assert_close(y, r.conv2d(np.broadcast_to(values(one), (2, 3, 6, 5)), values(v), padding=1), atol=1e-12)
    y.sum().backward()  # the gradient that comes in is one number, repeated
    want = r.conv_bwd_weight(np.ones(y.shape), np.broadcast_to(values(one), (2, 3, 6, 5)), (1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3))
    assert_close(v.grad, want, atol=1e-12)


def test_training_steps_need_no_new_memory():
    from gradino import nn

    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 2, stride=2))
    x, used = gd.randn(4, 3, 8, 8), []
    for _ in range(4):
        with gd.step_arena() as arena:
            model(x).square().mean().backward()
        used.append(arena.stats().high_water)
    assert len(set(used[1:])) == 1, used


# ---- Odd numbers and sizes ----------------------------------------------------------------------------------------------


def test_empty_batch():
    x, w = gd.zeros(0, 3, 5, 5, requires_grad=True), gd.ones(4, 3, 3, 3, requires_grad=True)
    y = F.conv2d(x, w, gd.ones(4))
    assert y.shape == (0, 4, 3, 3)
    y.sum().backward()
    assert x.grad.shape == x.shape and not values(w.grad).any()


def test_not_a_number_reaches_only_the_points_that_see_it(isa):
    x = np.zeros((1, 1, 9, 9), np.float32)
    x[0, 0, 4, 4] = np.nan
    y = values(F.conv2d(gd.tensor(x), gd.ones(1, 1, 3, 3), padding=1))
    seen = np.zeros((9, 9), bool)
    seen[3:6, 3:6] = True
    assert (np.isnan(y[0, 0]) == seen).all()
    x[0, 0, 4, 4] = np.inf
    y = values(F.conv2d(gd.tensor(x), gd.ones(20, 1, 3, 3), padding=1))
    assert (np.isinf(y[0]) == seen).all() and not np.isnan(y).any()


def test_large_kernels_dilations_and_strides(rng, isa):
    x = randn(rng, 1, 2, 40, 40)
    for kernel, stride, padding, dilation in ((40, 1, 0, 1), (2, 1, 0, 39), (3, 50, 20, 1), (31, 3, 15, 2), (1, 37, 3, 1)):
        w = randn(rng, 3, 2, kernel, kernel)
        y = F.conv2d(gd.tensor(x), gd.tensor(w), None, stride, padding, dilation)
        assert_close(y, r.conv2d(x, w, None, stride, padding, dilation), atol=1e-11, what=f"{kernel} {stride} {padding} {dilation}")
        z = F.conv_transpose2d(y, gd.tensor(w), None, stride, padding, 0, 1, dilation)
        assert_close(
            z, r.conv_transpose2d(values(y), w, None, stride, padding, 0, 1, dilation), rtol=1e-12, atol=1e-8, what=f"{kernel} {stride}"
        )


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_float32_rounded_once(rng, dtype):
    x, w, b = (gd.tensor(randn(rng, *s, dtype="float32")).to(dtype) for s in ((2, 5, 9, 9), (7, 5, 3, 3), (7,)))
    want = F.conv2d(*(t.to("float32") for t in (x, w, b)), padding=1).to(dtype)
    got = F.conv2d(x, w, b, padding=1)
    assert got.dtype is x.dtype
    assert_same_bits(got.to("float32"), want.to("float32"))
    for t in (x, w, b):
        t.requires_grad_()
    for g in grad(F.conv2d(x, w, b, padding=1).sum(), (x, w, b)):
        assert g.dtype is x.dtype


def test_more_than_two_dimensions_are_refused():
    x = gd.ones(1, 1, 3, 3)
    for call in (F.conv3d, F.conv_transpose3d):
        with pytest.raises(gd.ShapeError, match="at most four dimensions"):
            call(x, x)


@pytest.mark.parametrize(
    ("kind", "words", "call"),
    [
        (gd.DTypeError, "expected a Tensor", lambda: F.conv2d([1.0], gd.ones(1, 1, 1, 1))),
        (gd.DTypeError, "stride must be an integer", lambda: F.conv2d(gd.ones(1, 1, 3, 3), gd.ones(1, 1, 1, 1), stride=1.5)),
        (gd.ShapeError, "stride is", lambda: F.conv2d(gd.ones(1, 1, 3, 3), gd.ones(1, 1, 1, 1), stride=(1, 2, 3))),
        (gd.InvalidValueError, "'valid' or 'same'", lambda: F.conv2d(gd.ones(1, 1, 3, 3), gd.ones(1, 1, 1, 1), padding="full")),
        (gd.InvalidValueError, "strided", lambda: F.conv2d(gd.ones(1, 1, 3, 3), gd.ones(1, 1, 1, 1), stride=2, padding="same")),
        (gd.ShapeError, "only the batch may be empty", lambda: F.conv2d(gd.ones(1, 1, 0, 3), gd.ones(1, 1, 1, 1), padding=1)),
        (gd.ShapeError, "weight is", lambda: F.conv1d(gd.ones(1, 1, 3), gd.ones(1, 1, 1, 1))),
        (gd.ShapeError, "conv1d: input is", lambda: F.conv1d(gd.ones(1, 1, 3, 3), gd.ones(1, 1, 1))),
        (gd.ShapeError, "larger than the padded input", lambda: F.conv1d(gd.ones(1, 1, 3), gd.ones(1, 1, 4))),
        (gd.InvalidValueError, "dilation", lambda: F.conv2d(gd.ones(1, 1, 3, 3), gd.ones(1, 1, 2, 2), dilation=2**62)),
        (gd.OutOfMemoryError, "too large", lambda: F.conv2d(gd.ones(1, 1, 3, 3), gd.ones(1, 1, 2, 2), padding=2**30, stride=2**30)),
        (gd.OutOfMemoryError, "too large", lambda: F.fold(gd.ones(1, 4, 4), (2**63 - 1, 4), 2, padding=1)),
        (gd.OutOfMemoryError, "memory", lambda: F.unfold(gd.zeros(0, 2**40, 2, 2), 2**21, padding=2**20)),
        (
            gd.OutOfMemoryError,
            "weight is",
            lambda: F.conv2d(gd.ones(1, 1, 1, 1).expand(1, 2**31, 1, 1), gd.ones(1, 1, 1, 1).expand(2**31, 2**31, 1, 1)),
        ),
    ],
)
def test_refused(kind: Any, words: str, call: Any) -> None:
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("wrong", [{"stride": 0}, {"stride": -1}, {"dilation": 0}, {"stride": 0, "output_padding": 0, "dilation": 3}])
def test_impossible_strides_of_transposed_convolutions_are_refused(wrong: dict[str, int]) -> None:
    for dims, transposed in ((1, F.conv_transpose1d), (2, F.conv_transpose2d)):
        with pytest.raises(gd.InvalidValueError, match="must be at least 1"):
            transposed(gd.ones(1, 2, *[5] * dims), gd.ones(2, 3, *[3] * dims), **wrong)


def test_a_transposed_convolution_without_channels_of_the_result_is_refused() -> None:
    with pytest.raises(gd.ShapeError, match="at least one"):
        F.conv_transpose1d(gd.ones(2, 3), gd.ones(2, 0, 3))
    with pytest.raises(gd.ShapeError, match="at least one"):
        F.conv_transpose2d(gd.ones(1, 2, 3, 3), gd.ones(2, 0, 3, 3))
