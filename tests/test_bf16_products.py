"""Matrix products of bfloat16 on the processor's dot products of pairs: every edge, the same bits on every path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from halves import EPS, bits_of, over_bits, wide

import gradino as gd
import gradino.nn.functional as F
from gradino import config
from gradino._lib import ffi, lib

LAYOUTS = ("ab", "aB", "Ab", "AB", "strided")  # capital: stored the other way round
# m, k, n: tiles of 14 x 32, vectors of 16, pairs of k, blocks of 512 k, tasks of 112 rows; shared and private panels of B
SHAPES = (
    *((m, 7, 5) for m in (1, 2, 13, 14, 15, 29)),
    *((3, k, 4) for k in (1, 2, 3, 31, 32, 33, 63, 511, 512, 513, 1025)),
    *((5, 6, n) for n in (1, 15, 16, 17, 31, 32, 33, 49, 65)),
    (112, 65, 130),
    (113, 64, 129),
    (113, 1027, 17),
    (225, 515, 300),
    (30, 700, 600),
    (300, 700, 1),
    (1, 700, 300),
    (2, 545, 48),
    (4, 1061, 31),
)
BATCHES = (
    ((3, 20, 30), (30, 40)),
    ((2, 3, 9, 33), (3, 33, 17)),
    ((90, 20, 33), (90, 33, 16)),
    ((5, 1, 8), (1, 8, 9)),
    ((2, 130, 90), (2, 90, 100)),
    ((1, 20, 30), (6, 30, 7)),
)
EPS32 = 2.0**-24
FEATURES = ffi.string(lib.gd_cpu_features()).decode().split()


@pytest.fixture(autouse=True)
def pairs() -> Iterator[None]:
    """The kernel set that has these products; the one in use before comes back."""
    if "avx512" not in config.supported_isas() or "avx512bf16" not in FEATURES:
        pytest.skip(f"this CPU has no dot products of bfloat16 pairs: it has {' '.join(FEATURES)}")
    before, threads = config.get_isa(), gd.get_num_threads()
    config.set_isa("avx512")
    yield
    config.set_isa(before)
    gd.set_num_threads(threads)


def laid_out(x: np.ndarray, turned: bool, strided: bool) -> gd.Tensor:
    """A bfloat16 tensor of x, stored turned round or with gaps and at an odd place."""
    bits = bits_of(gd.tensor(x.astype(np.float32)).to("bfloat16"))
    if strided:
        space = np.full((2 * x.shape[0] + 1, 3 * x.shape[1] + 1), 0x7FC0, np.uint16)  # NaN beside every number
        inner = space[1::2, 1::3][: x.shape[0], : x.shape[1]]
        inner[...] = bits
        return over_bits(inner, "bfloat16")
    return over_bits(np.ascontiguousarray(bits.T).T if turned else bits, "bfloat16")


def operands(rng: Any, m: int, k: int, n: int, layout: str = "ab") -> tuple[gd.Tensor, gd.Tensor]:
    strided = layout == "strided"
    return laid_out(rng.standard_normal((m, k)), "A" in layout, strided), laid_out(rng.standard_normal((k, n)), "B" in layout, strided)


def assert_near(got: gd.Tensor, a: np.ndarray, b: np.ndarray, bias: Any = 0.0, what: str = "") -> None:
    """Of the exact product: within a float32 sum's error and one rounding."""
    exact, scale = a @ b + bias, np.abs(a) @ np.abs(b) + np.abs(bias)
    bound = (4 + np.sqrt(a.shape[-1])) * EPS32 * scale
    bound = bound + (np.abs(exact) + bound) * EPS["bfloat16"] / 2
    assert got.dtype is gd.bfloat16 and got.shape == exact.shape, what
    assert (np.abs(wide(got) - exact) <= bound).all(), f"{what}: {np.max(np.abs(wide(got) - exact) - bound, initial=0)} beyond the bound"


def same(a: gd.Tensor, b: gd.Tensor, what: str) -> None:
    assert np.array_equal(bits_of(a.contiguous()), bits_of(b.contiguous())), what


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_rows_columns_and_threads(shape, layout, rng):
    m, k, n = shape
    what = f"{shape} {layout}"
    a, b = operands(rng, m, k, n, layout)
    gd.set_num_threads(1)
    whole = a @ b
    assert_near(whole, wide(a), wide(b), what=what)
    gd.set_num_threads(2)
    same(a @ b, whole, f"{what}: threads")
    for i in {0, m // 2, m - 1}:
        same(a[i : i + 1] @ b, whole[i : i + 1], f"{what}: row {i} alone")
    for j in {0, n // 2, n - 1}:
        same(a @ b[:, j : j + 1], whole[:, j : j + 1], f"{what}: column {j} alone")
    same(a.contiguous() @ b.contiguous(), whole, f"{what}: strides")
    # a width of 16 and of 32, private and shared panels of B
    more = gd.cat([a] + [gd.ones(113, k, dtype="bfloat16")]) @ gd.cat([b, gd.ones(k, 40, dtype="bfloat16")], 1)
    same(more[:m, :n], whole, f"{what}: as part of a larger product")
    config.set_isa("portable")
    other = wide(a @ b)
    bound = EPS["bfloat16"] * np.abs(other) + 2 * (4 + np.sqrt(k)) * EPS32 * (np.abs(wide(a)) @ np.abs(wide(b)))
    assert (np.abs(other - wide(whole)) <= bound).all(), f"{what}: far from the portable kernels"


@pytest.mark.parametrize("a, b", BATCHES, ids=str)
def test_batches(a, b, rng):
    x, y = (gd.tensor(rng.standard_normal(s).astype(np.float32)).to("bfloat16") for s in (a, b))
    gd.set_num_threads(2)
    z = x @ y
    exact = wide(x) @ wide(y)
    assert_near(z, wide(x), wide(y), what=f"{a} @ {b}")
    for index in np.ndindex(exact.shape[:-2]):
        one = x[tuple(i if s > 1 else 0 for i, s in zip(index[len(index) - len(a) + 2 :], a[:-2], strict=True))]
        other = y[tuple(i if s > 1 else 0 for i, s in zip(index[len(index) - len(b) + 2 :], b[:-2], strict=True))]
        same(one @ other, z[index], f"{a} @ {b}: product {index} alone")


@pytest.mark.parametrize("m, k, n", [(1, 600, 300), (3, 5, 17), (150, 600, 33), (20, 0, 30), (0, 3, 4)])
def test_linear_and_its_gradients(m, k, n, rng):
    x, w = (t.requires_grad_() for t in operands(rng, m, k, n, "aB"))
    bias = gd.tensor(rng.standard_normal(n).astype(np.float32)).to("bfloat16").requires_grad_()
    weight = w.T.detach().requires_grad_()
    y = F.linear(x, weight, bias)
    assert_near(y, wide(x), wide(weight).T, wide(bias), f"linear {(m, k, n)}")
    wider = gd.zeros(2 * n, dtype="bfloat16")
    wider[::2] = bias.detach()
    same(F.linear(x.detach(), weight.detach(), wider[::2]), y.detach(), f"linear {(m, k, n)}: a bias with gaps")
    g = gd.tensor(rng.standard_normal((m, n)).astype(np.float32)).to("bfloat16")
    y.backward(g)
    assert_near(x.grad, wide(g), wide(weight), what=f"linear {(m, k, n)}: gradient of the input")
    assert_near(weight.grad, wide(g).T, wide(x), what=f"linear {(m, k, n)}: gradient of the weight")


@pytest.mark.parametrize("m, n", [(64, 48), (700, 1), (1, 300), (200, 200)])
def test_gradients_accumulate(m, n, rng):
    """A second backward adds to the first before the one rounding."""
    x = gd.tensor(rng.standard_normal((600, m)).astype(np.float32)).to("bfloat16")
    w = gd.nn.Parameter(gd.tensor(rng.standard_normal((n, m)).astype(np.float32)).to("bfloat16"))
    found = []
    for _ in range(2):
        F.linear(x, w).sum().backward()
        found.append(wide(w.grad))
    exact = wide(x).sum(0) + np.zeros((n, 1))
    for times, grad in enumerate(found, 1):
        bound = times**2 * (np.abs(exact) * EPS["bfloat16"] / 2 + 30 * EPS32 * np.abs(wide(x)).sum(0))
        assert (np.abs(grad - times * exact) <= bound).all(), f"{(m, n)}, backward {times}"


def test_infinity_nan_and_rounding(rng):
    for m, k, n in ((1, 3, 1), (20, 33, 40), (130, 600, 20)):
        x = rng.standard_normal((m, k))
        x[m // 2, k // 2] = np.nan
        x[0, 0] = np.inf
        y = np.abs(rng.standard_normal((k, n))) + 1
        y[0, n // 2] = 0
        a, b = laid_out(x, False, False), laid_out(y, False, False)
        with np.errstate(invalid="ignore"):
            exact = wide(a) @ wide(b)
        got = wide(a @ b)
        assert (np.isnan(got) == np.isnan(exact)).all() and (np.isinf(got) == np.isinf(exact)).all(), f"{(m, k, n)}"
        assert (got[np.isinf(exact)] == exact[np.isinf(exact)]).all()
    large = gd.tensor([[2.0**127, 2.0**127]]).to("bfloat16")
    assert (large @ gd.tensor([[1.0], [1.0]]).to("bfloat16")).item() == np.inf
    # 1 + 2^-8 is half way: to even; a little more is up
    one = gd.tensor([[1.0, 2.0**-8, 0.0], [1.0, 2.0**-8, 2.0**-20], [1.0, 3 * 2.0**-8, 0.0]]).to("bfloat16")
    assert wide(one @ gd.ones(3, 1, dtype="bfloat16")).ravel().tolist() == [1.0, 1 + 2.0**-7, 1 + 2.0**-6]


def test_nothing_to_add():
    bias = gd.tensor([1.0, float("nan"), -0.0]).to("bfloat16")
    assert not wide(gd.zeros(3, 0, dtype="bfloat16") @ gd.zeros(0, 5, dtype="bfloat16")).any()
    y = F.linear(gd.zeros(2, 0, dtype="bfloat16"), gd.zeros(3, 0, dtype="bfloat16"), bias)
    assert (bits_of(y) == bits_of(bias)).all()


def test_denormals_count_as_zero():
    """The instruction's way; the conversions' way, with every other kernel set, is exact."""
    tiny = over_bits(np.array([[1]], np.uint16), "bfloat16")  # 2^-133
    big = gd.tensor([[2.0**120]]).to("bfloat16")
    assert (tiny @ big).item() == 0
    config.set_isa("avx2")
    assert (tiny @ big).item() == 2.0**-13
