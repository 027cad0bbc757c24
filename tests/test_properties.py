"""Laws that hold for all shapes and numbers, on examples that hypothesis draws, always the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits, values
from hypothesis import given, settings
from hypothesis import strategies as st

import gradino as gd

DTYPES = ("float32", "float64", "int64", "int32", "bool")
dims = st.integers(0, 4)
shapes = st.lists(dims, max_size=4).map(tuple)
solid = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)  # no empty dimension


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Whole numbers, so that sums in any order are exact."""
    rng = np.random.default_rng(seed + sum(shape))
    return rng.integers(-9, 10, shape).astype(dtype) if dtype != "bool" else rng.integers(0, 2, shape).astype(bool)


@st.composite
def broadcastable(draw: Any, count: int = 2) -> list[tuple[int, ...]]:
    """Shapes that broadcast with each other."""
    whole = draw(st.lists(dims, max_size=4))
    result = []
    for _ in range(count):
        shape = [draw(st.sampled_from([1, n])) for n in whole]
        result.append(tuple(shape[draw(st.integers(0, len(whole))) :]))
    return result


# ---- Broadcasting -------------------------------------------------------------------------------------------------


@given(broadcastable(), st.sampled_from(["add", "sub", "mul", "maximum", "minimum", "eq", "lt", "div"]))
def test_broadcast_is_expand_then_op(pair, name):
    a, b = (gd.tensor(numbers(s, seed=k)) for k, s in enumerate(pair))
    whole = np.broadcast_shapes(*pair)
    op = getattr(gd, name)
    assert_same_bits(op(a, b), op(a.expand(whole), b.expand(whole)), what=f"{name} {pair}")
    assert_same_bits(op(a, b), op(a.expand(whole).contiguous(), b.expand(whole).contiguous()), what=f"{name} {pair}, copied")


@given(broadcastable(3))
def test_where_is_numpy_s(triple):
    c, a, b = numbers(triple[0], "bool"), numbers(triple[1], seed=1), numbers(triple[2], seed=2)
    assert_same_bits(gd.where(gd.tensor(c), gd.tensor(a), gd.tensor(b)), np.where(c, a, b), what=str(triple))


@given(broadcastable())
def test_maximum_is_numpy_s(pair):
    a, b = numbers(pair[0]), numbers(pair[1], seed=1)
    a = np.where(a > 6, np.nan, a).astype(np.float32)
    assert_same_bits(gd.maximum(gd.tensor(a), gd.tensor(b)), np.maximum(a, b), what=str(pair))
    assert_same_bits(gd.minimum(gd.tensor(b), gd.tensor(a)), np.minimum(b, a), what=str(pair))


@given(broadcastable())
def test_the_gradient_of_a_broadcast_is_the_sum_over_it(pair):
    a, b = (gd.tensor(numbers(s, "float64", k), requires_grad=True) for k, s in enumerate(pair))
    whole = np.broadcast_shapes(*pair)
    g = gd.tensor(numbers(whole, "float64", 2))
    ga, gb = gd.autograd.grad(a + b, [a, b], g)
    for got, shape in ((ga, pair[0]), (gb, pair[1])):
        lead = len(whole) - len(shape)
        axes = tuple(range(lead)) + tuple(lead + d for d, n in enumerate(shape) if n == 1 and whole[lead + d] != 1)
        assert_close(got, values(g).sum(axis=axes, keepdims=True).reshape(shape), what=f"{pair} to {shape}")


# ---- Gradients ------------------------------------------------------------------------------------------------------


@given(shapes)
def test_the_gradient_of_x_plus_x_is_two(shape):
    x = gd.tensor(numbers(shape), requires_grad=True)
    (x + x).sum().backward()
    assert_close(x.grad, np.full(shape, 2.0), what=str(shape))
    (x - x).sum().backward()
    assert_close(x.grad, np.full(shape, 2.0), what=f"{shape}: x - x adds nothing")


@pytest.mark.parametrize("seed", range(60))
def test_grad_is_backward_on_any_graph(seed):
    """Random graphs whose nodes are used again and again: `autograd.grad` and `.backward()` agree, also for an inner node."""
    rng = np.random.default_rng(seed)
    x = gd.tensor(rng.uniform(0.5, 1, 3), requires_grad=True)
    nodes, names = [x, x * 1.5], []
    for _ in range(8):
        names.append(str(rng.choice(["sin", "square", "neg", "add", "add", "mul", "mul", "where"])))
        a, b = (nodes[-int(k)] for k in rng.integers(1, min(len(nodes), 4) + 1, 2))
        if names[-1] in ("add", "mul"):
            nodes.append(getattr(gd, names[-1])(a, b))
        else:
            nodes.append(gd.where(gd.tensor([True, False, True]), a, b) if names[-1] == "where" else getattr(a, names[-1])())
    root, inner = (nodes[-2] * nodes[-1]).sum(), nodes[int(rng.integers(1, 5))]
    inner.retain_grad()
    by_grad = gd.autograd.grad(root, [x, inner], retain_graph=True, allow_unused=True)
    root.backward()
    for got, t in zip(by_grad, (x, inner)):
        assert (got is None) == (t.grad is None), names
        if got is not None:
            assert_close(got, t.grad, rtol=1e-12, atol=1e-300, what=str(names))


@given(solid, st.data())
def test_gradients_add_up_over_calls(shape, data):
    x = gd.tensor(numbers(shape), requires_grad=True)
    times = data.draw(st.integers(1, 3))
    for _ in range(times):
        (x * 3).sum().backward()
    assert_close(x.grad, np.full(shape, 3.0 * times), what=str(shape))


# ---- Shapes -----------------------------------------------------------------------------------------------------------


@given(shapes, st.randoms(use_true_random=False), st.sampled_from(DTYPES))
def test_permute_and_back(shape, random, dtype):
    order = list(range(len(shape)))
    random.shuffle(order)
    a = numbers(shape, dtype)
    y = gd.tensor(a).permute(order)
    assert_same_bits(y, a.transpose(order), what=f"{shape} {order}")
    assert_same_bits(y.permute([order.index(d) for d in range(len(shape))]), a, what=f"{shape} {order}")


@given(shapes, st.data())
def test_reshape_and_back(shape, data):
    a = numbers(shape)
    x = gd.tensor(a)
    if data.draw(st.booleans()) and len(shape) > 1:
        a, x = a.T, x.T
    sizes, left = [], a.size
    for _ in range(data.draw(st.integers(0, 3))):
        if left:
            sizes.append(data.draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0])))
            left //= sizes[-1]
    new = (*sizes, left)
    y = x.reshape(new)
    assert_same_bits(y, a.reshape(new), what=f"{a.shape} to {new}")
    assert_same_bits(y.reshape(a.shape), a, what=f"{new} to {a.shape}")
    if a.size:
        assert_same_bits(x.reshape(*sizes, -1), a.reshape(*sizes, -1), what=f"{a.shape} to {sizes}, -1")


@given(solid, st.data())
def test_cat_undoes_split(shape, data):
    x = gd.tensor(numbers(shape))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = x.split(data.draw(st.integers(1, 4)), dim)
    assert_same_bits(gd.cat(parts, dim), x, what=f"{shape} along {dim}")
    assert_same_bits(gd.cat(x.chunk(data.draw(st.integers(1, 4)), dim), dim), x, what=f"{shape} along {dim}")
    if len(shape) < 4:
        assert_same_bits(gd.stack(x.unbind(dim), dim), x, what=f"{shape} along {dim}")


@given(solid, st.data())
def test_sums_over_dimensions_in_any_order(shape, data):
    a = numbers(shape)
    some = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True))
    x = one_by_one = gd.tensor(a)
    for d in some:
        one_by_one = one_by_one.sum(d, keepdim=True)
    at_once = x.sum(some, keepdim=True) if some else x
    assert_same_bits(at_once, one_by_one, what=f"{shape} over {some}")
    assert_close(at_once, a.sum(axis=tuple(some), keepdims=True), what=f"{shape} over {some}")
    assert_close(x.sum(), a.sum(), what=str(shape))


@given(st.lists(st.integers(1, 3), max_size=2), st.tuples(*[st.integers(0, 6)] * 3), st.data())
def test_matmul_is_einsum(batch, sizes, data):
    (m, k, n), lead = sizes, [data.draw(st.sampled_from([1, b])) for b in batch]
    drop = data.draw(st.integers(0, len(batch)))
    a, b = numbers((*batch, m, k)), numbers((*lead[drop:], k, n), seed=1)
    if data.draw(st.booleans()):
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    if data.draw(st.booleans()):
        b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    want = np.einsum("...mk,...kn->...mn", a, b)
    assert_same_bits(gd.from_numpy(a) @ gd.from_numpy(b), want.astype(np.float32), what=f"{a.shape} @ {b.shape}")


# ---- Indexing -----------------------------------------------------------------------------------------------------------


@st.composite
def indices(draw: Any, shape: tuple[int, ...], masks: bool = True) -> Any:
    """An index for an array of that shape: ints, slices, None, ..., and index arrays or a mask that stand together."""
    parts: list[Any] = []
    arrays, square = 0, draw(st.booleans())
    rank = len(shape)
    d = 0
    while d < rank:
        kind = draw(st.sampled_from(["int", "slice", "slice", "full", "array", "mask", "none", "stop"]))
        beside = not arrays or (arrays < 5 and isinstance(parts[-1], (np.ndarray, list)))
        if kind == "stop":
            break
        if kind == "none" and rank + sum(p is None for p in parts) < 4:
            parts.append(None)
            continue
        if kind == "int" and not arrays:
            parts.append(draw(st.integers(-shape[d], shape[d] - 1)))
        elif kind == "array" and beside and not any(isinstance(p, int) for p in parts):
            listed = draw(st.lists(st.integers(-shape[d], shape[d] - 1), min_size=4, max_size=4))
            parts.append(np.array(listed).reshape(2, 2) if square else np.array(listed) if draw(st.booleans()) else listed)
            arrays += 1
        elif kind == "mask" and masks and not arrays and not any(isinstance(p, int) for p in parts):
            parts.append(np.array(draw(st.lists(st.booleans(), min_size=shape[d], max_size=shape[d]))))
            arrays += 5  # stands alone
        elif kind == "full":
            parts.append(slice(None))
        else:
            bounds = st.one_of(st.none(), st.integers(-6, 6))
            parts.append(slice(draw(bounds), draw(bounds), draw(st.sampled_from([None, 1, 2, 3]))))
        d += 1
    if draw(st.booleans()) and not arrays:
        parts.insert(draw(st.integers(0, len(parts))), Ellipsis) if d == rank else parts.append(Ellipsis)
    return tuple(parts) if len(parts) != 1 or draw(st.booleans()) else parts[0]


@given(st.data(), solid, st.sampled_from(DTYPES))
@settings(max_examples=250)
def test_index_is_numpy_s(data, shape, dtype):
    a, index = numbers(shape, dtype), data.draw(indices(shape))
    want = a[index]
    if want.ndim > 4:
        return
    assert_same_bits(gd.tensor(a)[index], want, what=f"{shape}[{index}]")


@given(st.data(), solid, st.sampled_from(DTYPES))
@settings(max_examples=250)
def test_setitem_is_numpy_s(data, shape, dtype):
    a, index = numbers(shape, dtype), data.draw(indices(shape))
    target = a[index].shape
    if len(target) > 4:
        return
    whole = data.draw(st.booleans())
    value = numbers(target if whole else target[len(target) :], dtype, seed=5)
    t = gd.tensor(a)
    a[index] = value
    t[index] = gd.tensor(value) if data.draw(st.booleans()) else value
    assert_same_bits(t, a, what=f"{shape}[{index}] = {value.shape}")


@given(st.data(), solid)
def test_the_gradient_of_an_index_counts_visits(data, shape):
    index = data.draw(indices(shape))
    x = gd.tensor(numbers(shape), requires_grad=True)
    y = values(x)[index]
    if y.ndim > 4:
        return
    x[index].sum().backward()
    count = np.zeros(shape)
    np.add.at(count, index, 1)
    assert_close(x.grad, count, what=f"{shape}[{index}]")


def test_an_integer_beside_an_index_array_is_pytorch_s():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: it says where integers beside index arrays leave dimensions")
    a = numbers((3, 4, 5))
    beside = ((0, [1, 2]), ([1, 2], 0), (..., [0, 1], 2))
    apart = ((0, slice(None), [1, 2]), (slice(None), 1, [0, 3]), (1, None, [0, 1]), ([0, 1], None, 2))
    for index in beside + apart:
        assert_same_bits(gd.tensor(a)[index], torch.tensor(a)[index].numpy(), what=str(index))


WRONG = [5, -6, (0, 3), (slice(None), -4), (0, 0, 0), [5], [[0, 5]], np.array([-6]), 1.0, "a", [0.5], slice(None, None, -1), (..., ...)]


@pytest.mark.parametrize("index", [*WRONG, np.zeros(4, bool), np.zeros((5, 2), bool), (slice(None), slice(None), None, 0)], ids=str)
def test_a_wrong_index_is_refused(index):
    x = gd.zeros(5, 3)
    with pytest.raises((IndexError, TypeError)):
        x[index]
    with pytest.raises((IndexError, TypeError)):
        x[index] = 1.0


# ---- Promotion ------------------------------------------------------------------------------------------------------------


def test_promotion_is_pytorch_s():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: its promotion table is not at hand")
    operands = [(d, n) for d in DTYPES for n in (0, 1)] + [(kind, None) for kind in ("py_bool", "py_int", "py_float")]
    python = {"py_bool": True, "py_int": 1, "py_float": 1.0}

    def make(m: Any, kind: str, ndim: int | None) -> Any:
        return python[kind] if ndim is None else m.ones((1,) * ndim, dtype=getattr(m, kind))

    for a in operands:
        for b in operands:
            if a[1] is None and b[1] is None:
                continue
            for name in ("add", "mul", "div", "maximum", "eq", "pow"):
                if name == "maximum" and None in (a[1], b[1]):
                    continue  # PyTorch takes tensors only
                if name == "pow" and "bool" in (a[0], b[0]):
                    continue  # PyTorch refuses some of these
                ours = getattr(gd, name)(make(gd, *a), make(gd, *b))
                x, y = make(torch, *a), make(torch, *b)
                symbol = {"add": "__add__", "mul": "__mul__", "div": "__truediv__", "eq": "__eq__", "pow": "__pow__"}.get(name)
                theirs = torch.maximum(x, y) if symbol is None else eval(f"x {OPERATORS[name]} y", {"x": x, "y": y})
                assert str(theirs.dtype).split(".")[1] == ours.dtype.name, f"{name} of {a} and {b}: {ours.dtype}, PyTorch {theirs.dtype}"
    for d in DTYPES:
        for name in ("sum", "prod", "exp", "sqrt", "amax"):
            ours, theirs = getattr(gd.ones(2, dtype=d), name)(), getattr(torch.ones(2, dtype=getattr(torch, d)), name)()
            assert str(theirs.dtype).split(".")[1] == ours.dtype.name, f"{name} of {d}"


OPERATORS = {"add": "+", "mul": "*", "div": "/", "eq": "==", "pow": "**"}
