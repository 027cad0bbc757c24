"""Matrix products around the edges of tiles, chunks and tasks: right, and the same bits on every path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits

import gradino as gd
import gradino.nn.functional as F

LAYOUTS = ("ab", "aB", "Ab", "AB")  # capital: stored the other way round
DTYPES = {"float32": 2.0**-24, "float64": 2.0**-53}
# m, k, n: whole and ragged tiles; shared and private panels; several blocks of k, chunks of rows and of columns
LARGE = ((168, 96, 128), (169, 97, 97), (170, 513, 129), (337, 520, 95), (40, 1030, 257), (9, 1025, 96), (700, 30, 600), (30, 40, 2100))
THIN = ((1, 700, 1100), (2, 513, 40), (3, 64, 17), (4, 1000, 1025), (5, 520, 33), (1, 8, 16), (1, 9, 4100), (3, 2049, 130))


@pytest.fixture(params=[1, 2])
def threads(request: Any) -> Iterator[int]:
    before = gd.get_num_threads()
    gd.set_num_threads(request.param)
    yield request.param
    gd.set_num_threads(before)


def operands(rng: Any, m: int, k: int, n: int, layout: str, dtype: str) -> tuple[Any, Any, gd.Tensor, gd.Tensor]:
    """The arrays, and tensors of them stored as the layout says."""
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    ta = gd.tensor(np.ascontiguousarray(a.T)).T if "A" in layout else gd.tensor(a)
    tb = gd.tensor(np.ascontiguousarray(b.T)).T if "B" in layout else gd.tensor(b)
    return a, b, ta, tb


def close(got: Any, a: Any, b: Any, dtype: str, what: str) -> None:
    exact, scale = a.astype(np.float64) @ b.astype(np.float64), np.abs(a).astype(np.float64) @ np.abs(b)
    error = np.abs(got - exact) / np.maximum(scale, 1e-300)
    assert error.max() <= (4 + np.sqrt(a.shape[1])) * DTYPES[dtype], f"{what}: error {error.max():g} of sum |a| |b|"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_large(shape: tuple[int, int, int], layout: str, dtype: str, isa: str, threads: int, rng: Any) -> None:
    what = f"{shape} {layout}, {dtype}, {isa}, {threads} threads"
    a, b, ta, tb = operands(rng, *shape, layout, dtype)
    whole = ta @ tb
    close(whole.numpy(), a, b, dtype, what)
    for i in {0, shape[0] // 2, shape[0] - 1}:
        assert_same_bits(ta[i : i + 1] @ tb, whole[i : i + 1].contiguous(), what=f"row {i}, {what}")
    for j in {0, shape[2] // 2, shape[2] - 1}:
        assert_same_bits(ta @ tb[:, j : j + 1], whole[:, j : j + 1].contiguous(), what=f"column {j}, {what}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("shape", THIN, ids=str)
def test_thin(shape: tuple[int, int, int], turned: bool, layout: str, dtype: str, isa: str, threads: int, rng: Any) -> None:
    m, k, n = shape[::-1] if turned else shape
    what = f"{(m, k, n)} {layout}, {dtype}, {isa}, {threads} threads"
    a, b, ta, tb = operands(rng, m, k, n, layout, dtype)
    thin = ta @ tb
    close(thin.numpy(), a, b, dtype, what)
    # The same rows (columns) as part of a product that runs through register tiles.
    more = rng.standard_normal((64, k) if not turned else (k, 64)).astype(dtype)
    if turned:
        whole = gd.tensor(a) @ gd.tensor(np.concatenate([b, more], 1))
        assert_same_bits(thin.contiguous(), whole[:, :n].contiguous(), what=what)
    else:
        whole = gd.tensor(np.concatenate([a, more])) @ gd.tensor(b)
        assert_same_bits(thin.contiguous(), whole[:m].contiguous(), what=what)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, k, n", [(1, 600, 300), (300, 600, 1), (300, 600, 2), (3, 600, 300), (200, 600, 300), (20, 30, 40)])
def test_bias_starts_the_sum(m: int, k: int, n: int, dtype: str, isa: str, threads: int, rng: Any) -> None:
    """c = bias + first block, then further blocks: the bias is added once, and for every row alike."""
    x, w = gd.tensor(rng.standard_normal((m, k)).astype(dtype)), gd.tensor(rng.standard_normal((n, k)).astype(dtype))
    bias = gd.tensor(rng.standard_normal(n).astype(dtype))
    what = f"linear {(m, k, n)}, {dtype}, {isa}, {threads} threads"
    got, last = F.linear(x, w, bias), F.linear(x[m - 1 :], w, bias)
    exact = x.numpy().astype(np.float64) @ w.numpy().astype(np.float64).T + bias.numpy()
    np.testing.assert_allclose(got.numpy(), exact, rtol=0, atol=200 * DTYPES[dtype] * np.sqrt(k), err_msg=what)
    assert_same_bits(last, got[m - 1 :].contiguous(), what=what)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(64, 48), (700, 1), (1, 700), (200, 200)])
def test_gradients_accumulate(m: int, n: int, dtype: str, isa: str, threads: int, rng: Any) -> None:
    """A second backward adds to the first, on the paths that write a gradient in place."""
    x = gd.tensor(rng.standard_normal((600, m)).astype(dtype))
    w = gd.nn.Parameter(gd.tensor(rng.standard_normal((n, m)).astype(dtype)))
    for _ in range(2):
        F.linear(x, w).sum().backward()
    assert w.grad is not None
    exact = np.broadcast_to(2 * x.numpy().astype(np.float64).sum(0), (n, m))
    np.testing.assert_allclose(w.grad.numpy(), exact, rtol=0, atol=1e4 * DTYPES[dtype], err_msg=f"{(m, n)}, {dtype}, {isa}")


@pytest.mark.parametrize(("m", "k", "n"), [(256, 1024, 1000), (172, 2048, 512)], ids=str)
def test_products_of_a_batch_stay_in_their_workspace(m: int, k: int, n: int) -> None:
    """One product alone may pack more than all rows at once would, by the size of the caches (here 2 and 4 MiB of L2)."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((3, m, k)).astype("float32"), rng.standard_normal((3, k, n)).astype("float32")
    with gd.Arena() as arena:
        ta, tb = gd.tensor(a), gd.tensor(b)
        start = arena.mark()
        for mib in range(2, 12):  # somewhere the workspace ends just below an array that is not to change
            gd.empty(mib << 20, dtype=gd.bool)
            above = gd.zeros(8 << 20, dtype=gd.bool).numpy()
            arena.rewind(start)
            got = ta @ tb
            assert not above.any(), f"written past the workspace: {mib} MiB were free"
            assert_same_bits(got[2], ta[2] @ tb[2])
            arena.rewind(start)
            del above
