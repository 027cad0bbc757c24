"""Faults that users of similar engines met, by the ids of their reports: numbers, NaN, dropout, operators, copies.

N02 and N04 stand with the losses, A01, A02 and A04 with autograd, O01 with the optimizers, R01 with the LSTM, P05 and M02
partly with the modules.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits

import gradino as gd
from gradino import nn
from gradino.nn import functional as F

NAN, INF = float("nan"), float("inf")

# ---- N06: variance with a large mean -------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 100.0, 1000.0, 10000.0, 80000.0, 1e7])
@pytest.mark.parametrize("width", [4, 16, 4096])
def test_n06_variance_with_a_large_mean(mean: float, width: int, isa: str) -> None:
    """Against float64 on the float32 inputs; a constant row has variance exactly 0, forward and backward finite."""
    rows = (mean + np.arange(width) * (1.0 if mean > 20000 else 1e-3)).astype(np.float32)
    for a in (np.stack([rows, rows[::-1]]), np.full((2, width), 1234.0 + mean, np.float32)):
        want = a.astype(np.float64).var(1, ddof=1)
        x = gd.tensor(a, requires_grad=True)
        got = x.var(1)
        assert_close(got, want, rtol=1e-6, what=f"mean {mean}, width {width}, {isa}")
        got.sum().backward()
        exact = a.astype(np.float64)
        slope = 2 * (exact - exact.mean(1, keepdims=True)) / (width - 1)
        rounding = 2 * abs(exact).max() * 2.0**-23 / (width - 1)  # the mean is a float32 there
        assert_close(x.grad, slope, rtol=1e-5, atol=rounding, what=f"gradient, mean {mean}, width {width}, {isa}")
        columns = gd.tensor(np.ascontiguousarray(a.T))
        assert_close(columns.var(0), want, rtol=1e-6, what=f"columns, mean {mean}, width {width}, {isa}")


# ---- N08: NaN stays ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_n08_nan_stays_at_every_position_and_length(dtype: str, isa: str) -> None:
    """relu, clamp, maximum, minimum: NaN in is NaN out, on either side, in body and tail."""
    pattern = np.array([NAN, -1, 2, -0.0], dtype)
    for n in range(1, 68):
        a = np.resize(pattern, n)
        x, bad = gd.tensor(a), np.isnan(a)
        results = {
            "relu": (x.relu(), np.where(bad, NAN, np.maximum(a, 0))),
            "clamp(min=0)": (x.clamp(min=0), np.where(bad, NAN, np.maximum(a, 0))),
            "clamp(0, 1)": (x.clamp(0, 1), np.where(bad, NAN, np.clip(a, 0, 1))),
            "maximum": (x.maximum(gd.ones(n, dtype=dtype)), np.where(bad, NAN, np.maximum(a, 1))),
            "minimum, right": (gd.ones(n, dtype=dtype).minimum(x), np.where(bad, NAN, np.minimum(a, 1))),
            "amax": (x.amax(), np.array(NAN)),
            "max(0)": (x.max(0).values, np.array(NAN)),
        }
        for name, (got, want) in results.items():
            assert_close(got, want, what=f"{name}, length {n}, {dtype}, {isa}")


# ---- N11: no flags that change other people's numbers ---------------------------------------------------------

SUBNORMALS = """
import gradino as gd
import numpy as np
import threading
def check():
    assert np.float32(1e-40) * np.float32(1) != 0 and 5e-324 / 1 != 0
np.finfo(np.float32)
assert np.finfo(np.float32).smallest_subnormal > 0
check()
gd.set_num_threads(2)
x = gd.full((1 << 20,), 1e-40)
assert (x * 1).ne(0).all().item() and (x + x).max().item() > 1e-40
a = gd.full((256, 256), 1e-40)
assert (a @ gd.ones(256, 256)).max().item() > 2e-38
check()
seen = []
t = threading.Thread(target=lambda: seen.append(check()))
t.start(); t.join()
assert seen == [None]
print("fine")
"""


def test_n11_subnormals_and_warnings() -> None:
    """Import and ops neither flush subnormals, in NumPy or in gradino's own threads, nor make NumPy warn."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", SUBNORMALS], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


def test_n11_saturated_slopes_are_finite(isa: str) -> None:
    """tanh and sigmoid far out: value at the limit, slope exactly 0, never NaN."""
    points = np.array([1e20, 1e4, 100, 30, -30, -100, -1e4, -1e20, INF, -INF])
    for dtype in ("float32", "float64"):
        for name, high, low in (("tanh", 1, -1), ("sigmoid", 1, 0)):
            x = gd.tensor(points, dtype=dtype, requires_grad=True)
            y = getattr(x, name)()
            y.sum().backward()
            assert_close(y, np.where(points > 0, high, low), atol=1e-12, what=f"{name}, {dtype}, {isa}")
            assert x.grad.abs().max().item() < 1e-12, (name, dtype, isa)


def test_n11_gelu(isa: str) -> None:
    """Both forms and their slopes, near and far: never NaN, x or 0 far out."""
    far = np.array([1e20, 1e4, 100, -100, -1e4, -1e20, INF, -INF])
    values = {
        "none": ([3, -3, 5, -5, 10, -10, 0], [2.9959503, -0.0040497, 4.9999985667, -1.4332579e-6, 10, -7.6198530e-23, 0], 1.0119456),
        "tanh": ([3, -3, 0], [2.9963627, -0.0036374, 0], 1.0115843),
    }
    for dtype in ("float32", "float64"):
        for form, (points, want, slope) in values.items():
            what = f"gelu {form}, {dtype}, {isa}"
            x = gd.tensor(np.concatenate([points, far]), dtype=dtype, requires_grad=True)
            y = F.gelu(x, approximate=form)
            y.sum().backward()
            n = len(points)
            assert_close(y[:n], np.array(want), rtol=2e-5, what=what)
            assert_close(y[n:], np.where(far > 0, far, 0), rtol=1e-7, what=what)
            assert_close(x.grad[:2], np.array([slope, 1 - slope]), atol=1e-6, what=what)
            assert_close(x.grad[n:], (far > 0).astype(float), what=what)


# ---- N14: dropout ---------------------------------------------------------------------------------------------


def test_n14_dropping_everything_and_nothing(isa: str) -> None:
    """p=1: exactly 0 forward and backward; p=0 and evaluation: the input, no random numbers used."""
    x = gd.ones(4, requires_grad=True)
    y = F.dropout(x, 1.0, True)
    y.sum().backward()
    assert_same_bits(y, np.zeros(4, np.float32), what="p=1")
    assert_same_bits(x.grad, np.zeros(4, np.float32), what="gradient at p=1")
    huge = gd.tensor([INF, NAN, 1.0])
    assert_same_bits(F.dropout(huge, 1.0), np.zeros(3, np.float32), what="p=1 of infinity and NaN")
    before = gd.get_rng_state()
    for p, training in ((0.0, True), (0.5, False), (1.0, False)):
        assert_same_bits(F.dropout(x, p, training), x, what=f"p={p}, training {training}")
    assert nn.Dropout(0.5).eval()(x) is x and gd.get_rng_state() == before
    for p in (-0.1, 1.1, NAN):
        for call in (lambda p=p: F.dropout(x, p), lambda p=p: nn.Dropout(p)):
            with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
                call()


def test_n14_statistics_and_mask(isa: str) -> None:
    """A million elements at p=0.1: share 0.9 within 5 sigma, kept value exactly 1/0.9, the same mask backward."""
    x = gd.ones(1000, 1000, requires_grad=True)
    y = F.dropout(x, 0.1)
    kept = y.ne(0)
    assert abs(kept.float().mean().item() - 0.9) < 0.0015, isa
    assert np.unique(y.detach()._array()).tolist() == [0, float(np.float32(1 / 0.9))], isa
    y.sum().backward()
    assert_same_bits(x.grad, y, what="mask backward")
    assert not gd.equal(F.dropout(x, 0.1), y)


# ---- P01: NumPy on the left -----------------------------------------------------------------------------------

SCALARS = [np.float32(2), np.float64(2), np.int64(2), np.int32(2), np.array(2.0), 2, 2.0, True]
OPERATORS: dict[str, Any] = {
    "s * t": (lambda s, t: s * t, lambda s, t: [s, s]),
    "t * s": (lambda s, t: t * s, lambda s, t: [s, s]),
    "s + t": (lambda s, t: s + t, lambda s, t: [1, 1]),
    "s - t": (lambda s, t: s - t, lambda s, t: [-1, -1]),
    "t - s": (lambda s, t: t - s, lambda s, t: [1, 1]),
    "s / t": (lambda s, t: s / t, lambda s, t: [-s / v**2 for v in t]),
    "t / s": (lambda s, t: t / s, lambda s, t: [1 / s, 1 / s]),
    "s ** t": (lambda s, t: s**t, lambda s, t: [s**v * np.log(s) for v in t]),
    "t ** s": (lambda s, t: t**s, lambda s, t: [s * v ** (s - 1) for v in t]),
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("scalar", SCALARS, ids=lambda s: f"{type(s).__name__}")
def test_p01_scalars_on_either_side(operator: str, scalar: Any) -> None:
    """A tensor each time, float32, part of the graph, operands in the right order, the right gradient."""
    function, slope = OPERATORS[operator]
    t, plain = gd.tensor([3.0, 4.0], requires_grad=True), np.array([3.0, 4.0])
    result = function(scalar, t)
    value = float(scalar)
    assert type(result) is gd.Tensor and result.dtype is gd.float32 and result.requires_grad, operator
    assert_close(result, function(value, plain), rtol=1e-6, what=f"{operator}, {scalar!r}")
    result.sum().backward()
    assert_close(t.grad, np.array(slope(value, plain)), rtol=1e-6, what=f"gradient of {operator}, {scalar!r}")


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda s: f"{type(s).__name__}")
def test_p01_comparisons_and_in_place_forms(scalar: Any) -> None:
    t = gd.tensor([1.0, 2.0, 3.0])
    value = float(scalar)
    for result, want in ((scalar < t, value < t._array()), (scalar >= t, value >= t._array()), (scalar == t, value == t._array())):
        assert type(result) is gd.Tensor and result.dtype is gd.bool and result.tolist() == want.tolist()
    t += scalar
    t -= scalar * 2
    assert type(t) is gd.Tensor and t.dtype is gd.float32 and t.tolist() == [v - value for v in (1, 2, 3)]


def test_p01_arrays_become_tensors() -> None:
    """Never an object array, never a loop over elements."""
    t = gd.tensor([3.0, 4.0], requires_grad=True)
    for a in (np.full(2, 2, np.float32), np.full((3, 1), 2, np.float32)):
        for result, want in ((a * t, a * [3, 4]), (t * a, a * [3, 4]), (a - t, a - [3, 4]), (a / t, a / [3, 4]), (t**a, [3.0, 4.0] ** a)):
            assert type(result) is gd.Tensor and result.requires_grad
            assert_close(result, want, rtol=1e-6, what=f"array of shape {a.shape}")
    assert (np.ones(2, np.float32) @ t).item() == 7
    for scalar in (np.float32(2), 2.0):
        with pytest.raises((TypeError, ValueError)):
            scalar @ t
    with pytest.raises(TypeError, match="index"):
        [2.0, 2.0] * t
    assert isinstance(np.ones(2, np.float64) * t, gd.Tensor)
    for wrong in ("text", None, object()):
        with pytest.raises(TypeError):
            wrong * t


# ---- P03: integers, bools and Python numbers ------------------------------------------------------------------


def test_p03_sums_do_not_wrap() -> None:
    for dtype in (np.bool_, np.uint8, np.int8, np.int32):
        total = gd.tensor(np.ones(300, dtype)).sum()
        assert total.item() == 300 and total.dtype is gd.int64, dtype
    assert gd.full((4,), 2**31 - 1, dtype=gd.int32).sum().item() == 8589934588
    assert gd.ones(300, dtype=gd.bool).sum(0).item() == 300


def test_p03_division() -> None:
    t = gd.tensor([7, -7])
    assert (t / 2).tolist() == [3.5, -3.5] and (t / 2).dtype is gd.float32
    assert (t // 2).tolist() == [3, -4] and (t // 2).dtype is gd.int64
    assert (gd.tensor([7, -7]) % 3).tolist() == [1, 2] and (gd.tensor([-7]) % -3).tolist() == [-1]
    assert (gd.tensor([1.0, -1.0, 0.0]) / 0).tolist()[:2] == [INF, -INF] and (gd.tensor([0.0]) / 0).isnan().all()
    for call in (lambda: t // 0, lambda: t % 0, lambda: t // gd.tensor([1, 0])):
        with pytest.raises(ZeroDivisionError):
            call()
    assert (gd.tensor([-(2**63)]) // -1).tolist() == [-(2**63)]  # wraps, no trap


def test_p03_result_dtypes() -> None:
    f, d, i, j, b = gd.ones(1), gd.ones(1, dtype=gd.float64), gd.tensor([1]), gd.tensor([1], dtype=gd.int32), gd.tensor([True])
    table = [
        (f * 2.5, gd.float32), (2.5 * f, gd.float32), (f + 1, gd.float32), (f + True, gd.float32), (d * 2.5, gd.float64),
        (i * 2.5, gd.float32), (i + 1, gd.int64), (j + 1, gd.int32), (j + i, gd.int64), (b + 1, gd.int64), (b + b, gd.bool),
        (b * 2.5, gd.float32), (f + d, gd.float64), (f + i, gd.float32), (i + f, gd.float32),
        (f * gd.full((), 2.0, dtype=gd.float64), gd.float32),
        (i * gd.tensor(2.0), gd.float32), (i / i, gd.float32), (j / 2, gd.float32),
    ]  # fmt: skip
    for k, (result, want) in enumerate(table):
        assert result.dtype is want, f"row {k}: {result.dtype}, must be {want}"
    assert (f * 1e300).item() == INF
    assert gd.tensor(2**24 + 1).float().item() == 16777216
    with pytest.raises(TypeError):
        i.mean()
    assert i.mean(dtype=gd.float32).item() == 1
    with pytest.raises(TypeError):
        b - b
    with pytest.raises(OverflowError):
        i + 2**63
    with pytest.raises(ValueError, match="int32"):
        j + 2**31


# ---- P05: printing --------------------------------------------------------------------------------------------


def test_p05_printing_is_short_and_changes_nothing() -> None:
    """NaN, tiny and huge values, empty shapes, a million elements: short, no random numbers, no graph."""
    assert repr(gd.tensor([NAN, INF, -INF, 1.0])).startswith("tensor([") and "nan" in repr(gd.tensor([NAN]))
    assert "e-08" in repr(gd.tensor([1e-8, 1e8]))
    assert "size=(0, 3)" in repr(gd.zeros(0, 3))
    large = gd.rand(1, 1, 1000, 1000, requires_grad=True)
    state, version = gd.get_rng_state(), large._version
    text = repr(large)
    assert len(text) < 2000 and "..." in text
    assert gd.get_rng_state() == state and large._version == version and large.grad is None and large.is_leaf
    assert "grad_fn=<mul>" in repr(gd.ones(2, requires_grad=True) * 2) and "requires_grad=True" in repr(gd.ones(2, requires_grad=True))
    assert str(gd.ones(2)) == repr(gd.ones(2)) and f"{gd.tensor(1.5):.2f}" == "1.50"


@pytest.mark.own_arenas
def test_p05_a_dead_tensor_prints_what_it_is() -> None:
    with gd.step_arena():
        t = gd.ones(3)
    assert "gone" in repr(t) and "reset" in repr(t)


# ---- M02: views outlive the memory under them -----------------------------------------------------------------


@pytest.mark.own_arenas
def test_m02_views_outlive_the_arena() -> None:
    """The array keeps its values; the tensor and its slice say that the arena was reset."""
    with gd.step_arena():
        t = gd.ones(1000)
        v, s = t.numpy(), t[10:20]
        inner = s.numpy()
    with gd.step_arena():
        gd.full((1 << 19,), 7.0)
        assert (v == 1.0).all() and (inner == 1.0).all()
        for dead in (t, s):
            with pytest.raises(gd.StaleTensorError, match="reset"):
                dead.sum()
    assert (v == 1.0).all() and v.sum() == 1000


def test_m02_the_owner_may_go_first() -> None:
    t = gd.ones(1000)
    v = t.numpy()
    del t
    gd.full((1000,), 5.0)
    assert (v == 1.0).all()
    a = np.arange(6.0)
    x = gd.from_numpy(a)
    del a
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


# ---- I03: the values of views, not their memory ---------------------------------------------------------------


@pytest.mark.parametrize("way", ["numpy", "tolist", "pickle", "contiguous", "item by item"])
def test_i03_views_read_as_their_logical_values(way: str) -> None:
    grid = gd.arange(12).reshape(3, 4)
    views = {
        "transpose": (gd.arange(6).reshape(3, 2).T, [[0, 2, 4], [1, 3, 5]]),
        "every second column": (grid[:, ::2], [[0, 2], [4, 6], [8, 10]]),
        "expand": (gd.tensor([1, 2]).expand(4, 2), [[1, 2]] * 4),
        "offset": (grid[1:, 2:], [[6, 7], [10, 11]]),
    }
    reads: dict[str, Any] = {
        "numpy": lambda t: t.numpy().tolist(),
        "tolist": lambda t: t.tolist(),
        "pickle": lambda t: pickle.loads(pickle.dumps(t)).tolist(),
        "contiguous": lambda t: t.contiguous().flatten().reshape(t.shape).tolist(),
        "item by item": lambda t: [[t[i, j].item() for j in range(t.shape[1])] for i in range(t.shape[0])],
    }
    for name, (view, want) in views.items():
        assert reads[way](view) == want, f"{name} by {way}"


# ---- A07: overlapping writes ----------------------------------------------------------------------------------


def test_a07_overlapping_copies_copy_first() -> None:
    for n in (10, 1000, 200_000):
        x = gd.arange(n)
        x[1:] = x[:-1]
        assert x.tolist() == [0, *range(n - 1)], n
        y = gd.arange(n)
        y[:-1] = y[1:]
        assert y.tolist() == [*range(1, n), n - 1], n
    rows = gd.arange(12).reshape(3, 4)
    rows[1:] = rows[:-1]
    assert rows.tolist() == [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]]
    m = gd.arange(9).reshape(3, 3)
    m.add_(m.T)
    assert m.tolist() == [[0, 4, 8], [4, 8, 12], [8, 12, 16]]
    m = gd.arange(9).reshape(3, 3)
    m.copy_(m.T)
    assert m.tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    x = gd.arange(5)
    x[[4, 3, 2, 1, 0]] = x
    assert x.tolist() == [4, 3, 2, 1, 0]


def test_a07_writes_to_expanded_views_are_refused() -> None:
    x = gd.zeros(1)
    for write in (lambda v: v.add_(1), lambda v: v.fill_(1.0), lambda v: v.copy_(gd.ones(3)), lambda v: v.zero_()):
        with pytest.raises(gd.GradinoError, match="expanded"):
            write(x.expand(3))
    assert x.item() == 0
