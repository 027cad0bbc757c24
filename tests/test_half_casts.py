"""bfloat16 and float16: casts to and from every dtype to the last bit, and what Python sees of them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from halves import ALL_BITS, EPS, HALVES, LARGEST, TINY, bits_of, finite, nearest, nearest_integer, over_bits
from helpers import GUARD_BYTES, PATTERN, assert_same_bits
from spec_kinds import generator

import gradino as gd

BOTH = pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.name)


def middles(dtype: gd.dtype) -> np.ndarray:
    """Every number half way between two neighbours, the border of overflow and of underflow."""
    x = finite(dtype)
    ends = x[-1] + (x[-1] - x[-2]) / 2
    return np.concatenate([(x[1:] + x[:-1]) / 2, [ends, -ends]])


def around(x: np.ndarray) -> np.ndarray:
    """The numbers and their neighbours in their own dtype."""
    return np.concatenate([x, np.nextafter(x, x.dtype.type(np.inf)), np.nextafter(x, x.dtype.type(-np.inf))])


def assert_numbers(got: gd.Tensor, want: np.ndarray, what: str) -> None:
    """The same numbers with the same signs of zero; NaN where NaN is wanted."""
    y = got.double()._array()
    wrong = ~((y == want) & (np.signbit(y) == np.signbit(want)) | (np.isnan(y) & np.isnan(want)))
    at = np.flatnonzero(wrong)[:5]
    assert not at.size, f"{what}: {int(wrong.sum())} differ, at {at}: {y[at]}, must be {want[at]}"


@BOTH
def test_every_pattern_to_float32_and_back(isa, dtype):
    t = over_bits(ALL_BITS.copy(), dtype)
    wide = t.float()
    x = wide._array()
    exponent, bits = (0x7F80, 8) if dtype is gd.bfloat16 else (0x7C00, 5)
    e, m = (ALL_BITS & 0x7FFF) >> (15 - bits), (ALL_BITS & ((1 << (15 - bits)) - 1)).astype(np.float64)
    scale, bias = 2.0 ** (15 - bits), 2 ** (bits - 1) - 1
    size = np.where(e == 0, m / scale * 2.0 ** (1 - bias), (1 + m / scale) * 2.0 ** (e.astype(np.float64) - bias))
    nan = (ALL_BITS & 0x7FFF) > exponent
    size[(ALL_BITS & 0x7FFF) == exponent] = np.inf
    want = np.where(nan, np.nan, np.where(ALL_BITS >> 15, -size, size))
    assert_numbers(wide, want, f"{dtype} to float32, {isa}")
    back = bits_of(wide.to(dtype))
    assert (back[~nan] == ALL_BITS[~nan]).all()
    assert np.isnan(over_bits(back, dtype).float()._array()[nan]).all()
    quiet = 0x0040 if dtype is gd.bfloat16 else 0x0200
    assert (back[nan] == (ALL_BITS[nan] | quiet)).all(), "NaN keeps its sign and payload, and is quiet"
    assert x[1] == np.float32(TINY[dtype.name]) and np.nanmax(x[np.isfinite(x)]) == np.float32(LARGEST[dtype.name])


@BOTH
def test_from_float32(isa, dtype):
    some = generator("float32 bits").integers(0, 1 << 32, 1 << 19, np.uint64).astype(np.uint32).view(np.float32)
    ties = around(middles(dtype).astype(np.float32))
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38], np.float32)
    for name, x in (("ties", ties), ("any bits", some), ("special", special)):
        with np.errstate(invalid="ignore"):
            want = nearest(x.astype(np.float64), dtype)
        for start in (0, 1, 3):
            assert_numbers(gd.from_numpy(x[start:]).to(dtype), want[start:], f"{name}, {isa}, from {start}")


@BOTH
def test_from_float64_without_a_second_rounding(isa, dtype):
    ties = middles(dtype)
    x = np.concatenate([around(ties), ties * (1 + 2.0**-40), ties * (1 - 2.0**-40), [1e300, -1e300, 5e-324, -5e-324, np.inf, np.nan]])
    assert_numbers(gd.from_numpy(x).to(dtype), nearest(x, dtype), f"float64, {isa}")
    assert_numbers(gd.tensor(x.tolist(), dtype=dtype), nearest(x, dtype), "Python floats")


@BOTH
def test_from_integers_without_a_second_rounding(isa, dtype):
    ties = middles(dtype)
    whole = ties[(np.abs(ties) < 2.0**62) & (ties == np.round(ties))].astype(np.int64)
    x = np.unique(np.concatenate([whole, whole - 1, whole + 1, [2**63 - 1, -(2**63), -(2**63) + 1, 2**53 + 1, 65519, 65520]]))
    want = np.array([nearest_integer(k, dtype) for k in x.tolist()])
    assert_numbers(gd.from_numpy(x).to(dtype), want, f"int64, {isa}")
    narrow = x[np.abs(x) < 2**31].astype(np.int32)
    assert_numbers(gd.from_numpy(narrow).to(dtype), nearest(narrow.astype(np.float64), dtype), f"int32, {isa}")
    assert gd.tensor([True, False]).to(dtype).tolist() == [1.0, 0.0]


@BOTH
def test_to_the_other_dtypes(isa, dtype):
    t = over_bits(ALL_BITS.copy(), dtype)
    x = t.float()
    for to in (gd.float64, gd.int64, gd.int32, gd.bool):
        assert_same_bits(t.to(to), x.to(to), what=f"{dtype} to {to}, {isa}")
    other = HALVES[1 - HALVES.index(dtype)]
    assert_numbers(t.to(other), nearest(t.double()._array(), other), f"{dtype} to {other}, {isa}")
    assert bits_of(t.to(dtype)).tolist() == ALL_BITS.tolist()


@BOTH
@pytest.mark.parametrize("n", [*range(68), 255, 1023, 4097])
def test_lengths_layouts_and_guard_bytes(isa, dtype, n):
    x = generator("lengths", n).uniform(-9, 9, n).astype(np.float32)
    want = nearest(x.astype(np.float64), dtype)
    memory = np.full(2 * n + 2 * GUARD_BYTES + 2, PATTERN, np.uint8)
    inner = memory[GUARD_BYTES + 2 : GUARD_BYTES + 2 + 2 * n].view(np.uint16)
    target = over_bits(inner, dtype)
    target.copy_(gd.from_numpy(x))
    assert_numbers(target, want, f"{isa}, n {n}")
    around_it = np.concatenate([memory[: GUARD_BYTES + 2], memory[GUARD_BYTES + 2 + 2 * n :]])
    assert (around_it == PATTERN).all(), "bytes beside the result were written"
    assert_numbers(target.float(), want, f"{isa}, n {n}, back")
    apart = np.zeros(2 * n + 1, np.uint16)[1::2]
    over_bits(apart, dtype).copy_(gd.from_numpy(x))
    assert_numbers(over_bits(apart, dtype), want, f"{isa}, n {n}, strided")


def test_many_elements_in_threads(isa):
    x = generator("many").uniform(-9, 9, 300_001).astype(np.float32)
    for dtype in HALVES:
        assert_numbers(gd.from_numpy(x).to(dtype), nearest(x.astype(np.float64), dtype), f"{isa}, {dtype}")


# ---- What Python sees ----------------------------------------------------------------------------------------------


def test_names():
    assert gd.half is gd.float16 and gd.bfloat16.itemsize == gd.float16.itemsize == 2
    assert repr(gd.bfloat16) == "gradino.bfloat16" and repr(gd.float16) == "gradino.float16"
    assert all(d.is_floating_point and pickle.loads(pickle.dumps(d)) is d and gd.dtypes.resolve(d.name) is d for d in HALVES)
    assert gd.tensor([1.5, -2.0], dtype=gd.bfloat16).__repr__() == "tensor([ 1.5, -2. ], dtype=gradino.bfloat16)"


@BOTH
def test_methods_and_copies(dtype):
    t = gd.tensor([[1.5, -0.1], [3, float("inf")]], dtype=dtype, requires_grad=True)
    want = nearest(np.array([[1.5, -0.1], [3, np.inf]]), dtype).tolist()
    assert t.tolist() == want and t[0, 1].item() == want[0][1] and t.element_size() == 2 and t.is_floating_point()
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), t.detach().clone(), gd.tensor(t.detach())):
        assert other.dtype is dtype and other.tolist() == want
    p = gd.nn.Parameter(t.detach())
    assert pickle.loads(pickle.dumps(p)).dtype is dtype and pickle.loads(pickle.dumps(p)).tolist() == want
    assert t.half().dtype is gd.float16 and t.bfloat16().dtype is gd.bfloat16 and t.float().dtype is gd.float32
    assert (
        t.to(dtype) is t and gd.zeros_like(t).dtype is dtype and gd.full((2,), 0.1, dtype=dtype)[0].item() == nearest(np.array(0.1), dtype)
    )
    assert t.detach().fill_(0.1).tolist() == [[nearest(np.array(0.1), dtype)] * 2] * 2
    with gd.no_grad():
        t[0] = 7
    assert t.tolist()[0] == [7, 7]


def test_numpy():
    x = np.array([1.5, 2.0, 65504], np.float16)
    t = gd.from_numpy(x)
    assert t.dtype is gd.float16 and t.numpy().dtype == np.float16 and gd.tensor(x).tolist() == x.tolist()
    t[0] = 3
    assert x[0] == 3, "the memory is shared"
    for take in (lambda b: b.numpy(), np.asarray):
        with pytest.raises(gd.DTypeError, match=r"no bfloat16; use tensor.float\(\).numpy\(\)"):
            take(gd.ones(2, dtype=gd.bfloat16))


@BOTH
def test_random_numbers(isa, dtype):
    gd.manual_seed(3)
    x = gd.rand(100_000, dtype=dtype)
    assert x.dtype is dtype and 0 <= x.amin().item() and x.amax().item() < 1, "1 itself is never drawn"
    assert abs(x.float().mean().item() - 0.5) < 0.01
    y = gd.empty(10_000, dtype=dtype).uniform_(-3, -2)
    assert -3 <= y.amin().item() and y.amax().item() < -2
    z = gd.randn(100_000, dtype=dtype).float()
    assert abs(z.mean().item()) < 0.02 and abs(z.std().item() - 1) < 0.02


def test_eps():
    for dtype in HALVES:
        one, eps = gd.ones((), dtype=dtype), EPS[dtype.name]
        assert (one + eps).item() == 1 + eps and (one + eps / 2).item() == 1


# ---- Promotion -------------------------------------------------------------------------------------------------------

WIDTHS = ("bool", "int32", "int64", "bfloat16", "float16", "float32", "float64")


@pytest.mark.parametrize("a", WIDTHS)
@pytest.mark.parametrize("b", WIDTHS)
def test_promotion(a, b):
    want = "float32" if {a, b} == {"bfloat16", "float16"} else max(a, b, key=WIDTHS.index)
    assert gd.promote_types(a, b).name == want
    x, y = gd.ones(2, dtype=a), gd.ones(2, dtype=b)
    assert (x * y).dtype.name == want and gd.where(gd.tensor([True, False]), x, y).dtype.name == want
    assert gd.cat([x, y]).dtype.name == want
    scalar = gd.ones((), dtype=b)  # decides only where its kind is higher
    kind = {"bool": 0, "int32": 1, "int64": 1}
    assert (x * scalar).dtype.name == (a if kind.get(b, 2) <= kind.get(a, 2) else b)


@BOTH
def test_numbers_do_not_widen(dtype):
    t = gd.tensor([1.0, 2.0, 3.0], dtype=dtype)
    for y in (
        t * 2,
        2 * t,
        t + 0.1,
        1 / t,
        t - True,
        t**2,
        t // 2,
        t % 2,
        gd.maximum(t, gd.ones(3, dtype=dtype)),
        t.clamp(0, 1),
        t.masked_fill(t > 1, 0.5),
    ):
        assert y.dtype is dtype
    assert (t > 0.5).dtype is gd.bool and t.sum().dtype is dtype and t.argmax().dtype is gd.int64
    exact = np.array([1, 2, 3]) * np.float64(np.float32(0.1))  # the number itself is not rounded to the type first
    assert (t * 0.1).tolist() == nearest(exact, dtype).tolist()
