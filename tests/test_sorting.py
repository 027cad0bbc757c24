"""Order: NaN, ties, zeros, every dtype and length, the same on any number of threads; setitem at indices; norms at the limits."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same_bits, values

import gradino as gd

DTYPES = ("float32", "float64", "int64", "int32", "bool")
LENGTHS = (1, 2, 16, 17, 100, 768, 769, 3000, 140_000)


def drawn(n: int, dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        x = rng.standard_normal(n).astype(dtype)
        x[rng.random(n) < 0.1] = np.nan
        x[rng.random(n) < 0.1] = rng.choice([0.0, -0.0, np.inf, -np.inf, 1e-310])
        return x
    wide = rng.integers(-(2**40), 2**40, n) if dtype == "int64" and seed % 2 else rng.integers(-5, 6, n)
    return wide.astype(dtype)


def ordered(x: np.ndarray, descending: bool) -> np.ndarray:
    """Places in stable order, NaN as the largest."""
    nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(len(x), bool)
    key = np.where(nan, 0, x) if x.dtype != bool else x.astype(int)
    return np.lexsort((np.arange(len(x)), -key, ~nan) if descending else (np.arange(len(x)), key, nan))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_sort_is_stable_and_nan_is_largest(isa, n, dtype):
    for seed, descending in enumerate((False, True)):
        x = drawn(n, dtype, seed)
        want = ordered(x, descending)
        got, places = gd.sort(gd.tensor(x), descending=descending)
        assert places.tolist() == want.tolist(), f"{dtype}, {n}, descending {descending}"
        assert_same_bits(got, x[want], what=f"{dtype}, {n}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (50, 7), (1000, 1), (5000, 33), (5000, 600), (200_000, 10), (200_000, 1000), (300, 200)])
def test_topk_takes_the_first_of_equals(isa, n, k, dtype):
    for seed, largest in enumerate((True, False)):
        x = drawn(n, dtype, seed)
        want = ordered(x, largest)[:k]
        got, places = gd.topk(gd.tensor(x), k, largest=largest)
        assert places.tolist() == want.tolist(), f"{dtype}, {k} of {n}, largest {largest}"
        assert_same_bits(got, x[want])


def test_threads_do_not_matter():
    x, i = gd.tensor(drawn(300_000, "float32", 3)), gd.tensor(np.random.default_rng(0).integers(0, 500, (600, 500)))
    v = gd.tensor(np.random.default_rng(1).standard_normal((600, 500)).astype(np.float32))
    calls = (lambda: x.sort().indices, lambda: x.topk(50).indices, lambda: gd.zeros(600, 500).scatter_add(1, i, v), lambda: v.cumsum(0),
             lambda: v.norm(), lambda: (x > 0).nonzero(), lambda: gd.nn.functional.pad(v, (3, 4, 5, 6)))  # fmt: skip
    before, results = gd.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            gd.set_num_threads(n)
            results.append([call() for call in calls])
    finally:
        gd.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other):
            assert_same_bits(a, b)


def test_nan_and_order_statistics():
    x = gd.tensor([[3.0, float("nan"), 1.0], [2.0, 5.0, 4.0]])
    assert np.isnan(x.median(1).values.tolist()[0]) and x.median(1).values.tolist()[1] == 4 and x.median(1).indices.tolist()[0] == 1
    assert x.nanmedian(1).values.tolist() == [1, 4] and x.nanmedian().item() == 3
    assert np.isnan(x.median().item()) and np.isnan(x.quantile(0.5).item()) and x.nanquantile(0.5).item() == 3
    assert x.quantile(gd.tensor([0.0, 0.5, 1.0]), dim=1).shape == (3, 2) and x.quantile(0.5, 1, keepdim=True).shape == (2, 1)
    assert np.isnan(gd.tensor([]).median().item())
    c = gd.tensor([1.0, 3.0, float("nan"), 2.0]).cummax(0)
    assert c.indices.tolist() == [0, 1, 2, 2] and np.isnan(c.values.tolist()[3])


def test_unique_with_everything():
    rows = gd.tensor([[1, 2], [0, 5], [1, 2], [0, 3]])
    found, inverse, counts = rows.unique(return_inverse=True, return_counts=True, dim=0)
    assert found.tolist() == [[0, 3], [0, 5], [1, 2]] and inverse.tolist() == [2, 1, 2, 0] and counts.tolist() == [1, 1, 2]
    found, inverse, counts = gd.tensor([3, 1, 3]).unique(return_inverse=True, return_counts=True)
    assert (found.tolist(), inverse.tolist(), counts.tolist()) == ([1, 3], [1, 0, 1], [1, 2])
    found, inverse, counts = gd.tensor([1, 1, 2, 1]).unique_consecutive(return_inverse=True, return_counts=True)
    assert (found.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])


@pytest.mark.parametrize("seed", range(40))
def test_setitem_and_index_put_against_numpy(seed):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((4, 3, 5)).astype(np.float32)
    kinds = [
        lambda n: rng.integers(-n, n, (2, 2)),
        lambda n: rng.integers(-n, n, 2),
        lambda n: slice(1, None),
        lambda n: int(rng.integers(n)),
    ]
    index = tuple(kinds[rng.integers(len(kinds))](n) for n in a.shape[: rng.integers(1, 4)])
    if seed % 8 == 7:
        index = (rng.random(a.shape[: rng.integers(1, 4)]) < 0.5,)
    want, t = a.copy(), gd.tensor(a)
    value = rng.standard_normal(a[index].shape).astype(np.float32) if seed % 2 else np.float32(7)
    want[index] = value
    ours = tuple(gd.tensor(i) if isinstance(i, np.ndarray) else i for i in index)
    assert_same_bits(t[ours], a[index], what=f"seed {seed}: {index}")
    t[ours] = gd.tensor(value)
    assert_same_bits(t, want, what=f"seed {seed}: {index}")
    if all(isinstance(i, gd.Tensor) for i in ours):
        x = gd.tensor(a, requires_grad=True)
        v = gd.tensor(value, requires_grad=True)
        y = x.index_put(ours, v)
        assert_same_bits(y, want, what=f"seed {seed}: {index}")
        y.sum().backward()
        untouched = np.ones_like(a)
        untouched[index] = 0
        assert_same_bits(x.grad, untouched)


def test_writes_at_an_index_in_place():
    x = gd.zeros(2, 3)
    x.t()[gd.tensor([2, 0])] = gd.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.tolist() == [[3, 0, 1], [4, 0, 2]]
    x.scatter_(1, gd.tensor([[0], [1]]), 9.0)
    x.scatter_add_(1, gd.tensor([[0, 0], [1, 2]]), gd.ones(2, 2))
    assert x.tolist() == [[11, 0, 1], [4, 10, 3]]
    x.index_add_(0, gd.tensor([1, 1]), gd.ones(2, 3)).index_fill_(1, gd.tensor([2]), 0.0)
    assert x.tolist() == [[11, 0, 0], [6, 12, 0]]
    h = gd.zeros(3, dtype="bfloat16")
    h[gd.tensor([0, 2])] = 1.5
    h.scatter_add_(0, gd.tensor([0, 0]), gd.ones(2, dtype="bfloat16"))
    assert h.tolist() == [3.5, 0, 1.5]
    with pytest.raises(gd.OutOfRangeError, match="out of range"):
        x[gd.tensor([2])] = 1.0
    y = gd.ones(3, requires_grad=True)
    with pytest.raises(gd.GradinoError, match="requires grad"):
        y.scatter_(0, gd.tensor([0]), 1.0)
    z = gd.arange(4)
    z[gd.tensor([1, 2, 3])] = z[:3]
    assert z.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("p", [2, 3, 1.5])
def test_norms_neither_overflow_nor_underflow(p):
    for dtype, large, small in (("float32", 1e20, 1e-30), ("float64", 1e200, 1e-300)):
        for size in (large, small):
            n = 100 ** (1 / p) * size
            assert abs(gd.full((100,), size, dtype=dtype).norm(p).item() / n - 1) < 1e-5, (dtype, size, p)
    x = gd.tensor([3e19, 4e19], requires_grad=True)
    x.norm().backward()
    assert np.allclose(values(x.grad), [0.6, 0.8])
    zero = gd.zeros(3, requires_grad=True)
    zero.norm(p).backward()
    assert zero.grad.tolist() == [0, 0, 0]
    assert np.isnan(gd.tensor([float("nan"), 1.0]).norm(p).item()) and gd.tensor([float("-inf"), 1.0]).norm(p).item() == float("inf")
