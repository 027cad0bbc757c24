"""Sorting, scanning and scattering along a dimension, and norms. See the package's own text for how entries read."""

from __future__ import annotations

from typing import Any

import numpy as np
from spec_kinds import (
    ALL,
    EMPTY_REDUCE,
    EXACT,
    FLOATS,
    NUMBERS,
    SUMMED,
    Domain,
    Given,
    Ints,
    Spec,
    along_rows,
    case,
    large_rows,
    named,
    ones,
    raw,
)

import gradino as gd

DIMS = (case((7,), dim=0), case((3, 4), dim=0), case((3, 4), dim=-1), case((2, 3, 4), dim=1), case((2, 3, 2, 3), dim=-3), case((1,), dim=0),
        case((3, 0), dim=1), case((0, 2), dim=1), case((2, 300), dim=1), case((40, 3), dim=0), case((), dim=0))  # fmt: skip
FURTHER = (gd.OutOfRangeError, "out of range")


def _sort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    key = -x if descending and x.dtype != bool else ~x if descending else x
    places = np.argsort(key, dim, kind="stable")
    return np.take_along_axis(x, places, dim), places


def _topk(x: Any, k: int, dim: int = -1, largest: bool = True) -> Any:
    values, places = _sort(x, dim, largest)
    return (np.take(values, range(k), dim), np.take(places, range(k), dim)) if x.ndim else (values, places)


def _search(line: Any, values: Any, right: bool = False) -> Any:
    side = "right" if right else "left"
    if line.ndim == 1:
        return np.searchsorted(line, values, side)
    out = np.empty(values.shape, np.int64)
    for at in np.ndindex(values.shape[:-1]):
        out[at] = np.searchsorted(line[at], values[at], side)
    return out


def _searched(m: Any, line: Any, values: Any, right: bool = False) -> Any:
    return m.searchsorted(line, values, right=right)


def _scan(step: Any) -> Any:
    def scan(x: Any, dim: int) -> Any:
        return step.accumulate(x.astype(np.int64) if x.dtype == bool else x, dim) if x.ndim else x

    return scan


def _extreme_so_far(better: Any) -> Any:
    def scan(x: Any, dim: int) -> Any:
        if not x.ndim:
            return x, np.zeros((), np.int64)
        values, places = np.array(np.moveaxis(x, dim, 0)), np.zeros(np.moveaxis(x, dim, 0).shape, np.int64)
        for k in range(1, len(values)):
            keep = ~better(values[k], values[k - 1])
            places[k] = np.where(keep, places[k - 1], k)
            values[k] = np.where(keep, values[k - 1], values[k])
        return np.moveaxis(values, 0, dim), np.moveaxis(places, 0, dim)

    return scan


def _linear_scan(a: Any, b: Any, i: tuple[int, int]) -> Any:
    if not a.size:
        return b
    axis = i[0] - 4 + a.ndim if a.ndim else 0
    a, b = (np.moveaxis(np.atleast_1d(x), axis, 0) for x in (a, b))
    y = np.array(b)
    for k in range(len(y) - 2, -1, -1) if i[1] else range(1, len(y)):
        y[k] = b[k] + (a[k + 1] * y[k + 1] if i[1] else a[k] * y[k - 1])
    return np.moveaxis(y, 0, axis)


STEPS = (lambda a, v: v, lambda a, v: a + v, lambda a, v: a * v, max, min)


def _scatter(x: Any, index: Any, src: Any, i: tuple[int, int, int]) -> Any:
    axis, out, seen = i[0] - 4 + x.ndim, np.array(x), set()
    for at in np.ndindex(index.shape):
        to = (*at[:axis], int(index[at]) % x.shape[axis], *at[axis + 1 :])
        out[to] = src[at] if not i[2] and to not in seen else STEPS[i[1]](out[to], src[at])
        seen.add(to)
    return out


def _norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Any:
    axis = tuple(range(x.ndim)) if dim is None else dim
    if ord == 0:
        return (x != 0).sum(axis=axis, keepdims=keepdim).astype(x.dtype)
    if np.isinf(ord):
        return (np.abs(x).max if ord > 0 else np.abs(x).min)(axis=axis, keepdims=keepdim)
    return (np.abs(x) ** ord).sum(axis=axis, keepdims=keepdim) ** (1 / ord)


ORDERING = (
    Spec(
        name="sort",
        call=lambda m, x, **k: tuple(m.sort(x, stable=True, **k)),
        ref=_sort,
        dtypes=ALL,
        rtol=EXACT,
        out=("same", "int64"),
        domain=Domain(-9, 9),
        cases=(*DIMS, case((5, 60), dim=1, descending=True), case((2, 2000), dim=1), case((1300, 2), dim=0, descending=True)),
        rows=along_rows,
        large=(*large_rows(), case((200000,), dim=0), case((140000,), dim=0, descending=True)),
        errors=((*FURTHER, lambda: gd.sort(ones(2, 3), 2)), (gd.DTypeError, "descending", lambda: gd.sort(ones(2), 0, 1))),
    ),
    Spec(
        name="topk",
        call=lambda m, x, **k: tuple(m.topk(x, **k)),
        ref=_topk,
        out=("same", "int64"),
        dtypes=FLOATS,
        rtol=EXACT,
        domain=Domain(-9, 9, nonzero=True),
        cases=(
            case((7,), k=3),
            case((3, 5), k=2, dim=0),
            case((2, 3, 6), k=6, dim=-1, largest=False),
            case((2, 3, 2, 5), k=1, dim=1),
            case((4, 3), k=0),
            case((2, 500), k=20),
            case((300, 2), k=9, dim=0, largest=False),
            case((), k=1),
        ),
        rows=lambda n: (case((n,), k=(n + 1) // 2), case((3, n), k=1), case((n, 3), k=n, dim=0)),
        large=(case((900, 150), k=5), case((3, 50000), k=40), case((300000,), k=100), case((200000,), k=50000, largest=False)),
        errors=(
            (gd.InvalidValueError, "k is 4", lambda: gd.topk(ones(3), 4)),
            (gd.InvalidValueError, "k is -1", lambda: gd.topk(ones(3), -1)),
            (*FURTHER, lambda: gd.topk(ones(2, 3), 1, 2)),
        ),
    ),
    Spec(
        name="searchsorted",
        call=lambda m, line, values, right=False: _searched(m, m.sort(line).values, values, right),
        order=0,
        out="int64",
        dtypes=NUMBERS,
        ref=lambda line, values, right=False: _search(np.sort(line), values, right),
        rtol=EXACT,
        canaries=False,
        cases=(
            case((7,), (5,)),
            case((7,), (2, 3), right=True),
            case((2, 6), (2, 9)),
            case((2, 3, 5), (2, 3, 1), right=True),
            case((4,), ()),
            case((0,), (3,)),
            case((5,), (0,)),
        ),
        rows=lambda n: (case((n,), (5,)), case((2, 5), (2, n))),
        large=(case((1000,), (300, 300)),),
        errors=(
            (gd.ShapeError, "one dimension, or the same", lambda: gd.searchsorted(ones(2, 3), ones(3, 2))),
            (gd.DTypeError, "one dtype", lambda: gd.searchsorted(ones(2), ones(2, dtype="int64"))),
            (gd.InvalidValueError, "side", lambda: gd.searchsorted(ones(2), ones(2), side="middle")),
            (gd.OutOfRangeError, "sorter", lambda: gd.searchsorted(ones(2), ones(2), sorter=gd.tensor([0, 2]))),
        ),
    ),
    Spec(
        name="cumsum",
        call=named("cumsum"),
        ref=_scan(np.add),
        dtypes=ALL,
        out="wide",
        cases=DIMS,
        rows=along_rows,
        large=large_rows(),
        rtol=SUMMED,
        atol=(1e-5, 1e-12),
        errors=((*FURTHER, lambda: gd.cumsum(ones(2, 3), 2)),),
    ),
    Spec(
        name="cumprod",
        call=named("cumprod"),
        ref=_scan(np.multiply),
        dtypes=ALL,
        out="wide",
        domain=Domain(-1.2, 1.2),
        cases=DIMS,
        rtol=SUMMED,
        atol=(1e-37, 0.0),
        rows=along_rows,
        large=large_rows(),
        errors=((*FURTHER, lambda: gd.cumprod(ones(2, 3), 2)),),
    ),
    Spec(
        name="logcumsumexp",
        call=named("logcumsumexp"),
        ref=_scan(np.logaddexp),
        cases=DIMS,
        rows=along_rows,
        large=large_rows(),
        rtol=SUMMED,
        atol=(1e-6, 1e-12),
        errors=(
            (*FURTHER, lambda: gd.logcumsumexp(ones(2, 3), 2)),
            (gd.DTypeError, "floating", lambda: gd.logcumsumexp(ones(2, dtype="int64"), 0)),
        ),
    ),
    *(
        Spec(
            name=name,
            call=lambda m, x, name=name, **k: tuple(getattr(m, name)(x, **k)),
            ref=_extreme_so_far(better),
            dtypes=ALL,
            rtol=EXACT,
            out=("same", "int64"),
            cases=DIMS,
            rows=along_rows,
            large=large_rows(),
            errors=((*FURTHER, lambda name=name: getattr(gd, name)(ones(2, 3), 2)),),
        )
        for name, better in (("cummax", np.greater_equal), ("cummin", np.less_equal))
    ),
    Spec(
        name="linear_scan",
        call=raw("linear_scan"),
        ref=_linear_scan,
        domain=Domain(-1, 1),
        rtol=SUMMED,
        atol=(1e-6, 1e-14),
        torch=False,
        cases=tuple(
            case(s, s, i=i)
            for s, i in (
                ((7,), (3, 0)),
                ((7,), (3, 1)),
                ((3, 4), (2, 0)),
                ((3, 4), (2, 1)),
                ((2, 3, 2, 3), (1, 1)),
                ((0, 3), (3, 0)),
                ((1,), (3, 0)),
                ((3, 1), (3, 1)),
            )
        ),
        rows=lambda n: (case((n,), (n,), i=(3, 0)), case((n, 3), (n, 3), i=(2, 1))),
        large=(case((500, 300), (500, 300), i=(2, 0)),),
    ),
    Spec(
        name="scatter",
        call=raw("scatter"),
        ref=_scatter,
        dtypes=("float32", "float64", "int64", "int32"),
        rtol=SUMMED,
        atol=(1e-6, 1e-14),
        torch=False,
        cases=(
            case((5,), Given((4, 0, 2)), (3,), i=(3, 0, 1)),
            case((3, 4), Ints((2, 4), 0, 3), (2, 4), i=(2, 1, 1)),
            case((3, 4), Ints((2, 6), -4, 4), (3, 6), i=(3, 1, 0)),
            case((3, 4), Ints((2, 3), 0, 4), (2, 3), i=(3, 2, 1)),
            case((4,), Given((0, 1, 1, 0)), (4,), i=(3, 2, 0)),
            case((4,), Given((0, 1, 1, 0)), (4,), i=(3, 3, 1)),
            case((2, 3, 2, 3), Ints((2, 2, 2, 3), 0, 3), (2, 2, 2, 3), i=(1, 4, 1)),
            case((3,), Given((2, 2)), (2,), i=(3, 4, 0)),
        ),
        rows=lambda n: (case((5,), Ints((n,), 0, 5), (n,), i=(3, 1, 1)), case((4, n), Ints((3, n), 0, 4), (3, n), i=(2, 0, 1))),
        large=(
            case((400, 90), Ints((400, 90), 0, 90), (400, 90), i=(3, 1, 1)),
            case((50, 300), Ints((300, 300), 0, 50), (300, 300), i=(2, 3, 1)),
        ),
        errors=(
            (gd.OutOfRangeError, "3 is out of range", lambda: gd.scatter(ones(3), 0, gd.tensor([3]), 1.0)),
            (gd.ShapeError, "does not fit", lambda: gd.scatter_add(ones(3), 0, gd.tensor([0, 1]), ones(1))),
            (gd.DTypeError, "dtype of the tensor", lambda: gd.scatter_add(ones(3), 0, gd.tensor([0]), ones(1, dtype="float64"))),
            (gd.DTypeError, "index must be", lambda: gd.scatter_add(ones(3), 0, ones(1), ones(1))),
            (gd.InvalidValueError, "reduce", lambda: gd.scatter(ones(3), 0, gd.tensor([0]), 1.0, reduce="sum")),
        ),
    ),
    Spec(
        name="vector_norm",
        python="linalg.vector_norm",
        call=lambda m, x, **k: m.linalg.vector_norm(x, **k),
        ref=_norm,
        rtol=SUMMED,
        atol=(1e-6, 1e-14),
        domain=Domain(-3, 3, kinks=(0,)),
        rows=along_rows,
        large=large_rows(),
        cases=(
            *(c for c in EMPTY_REDUCE),
            case((7,)),
            case((3, 4), dim=1, keepdim=True),
            case((2, 3, 4), dim=(0, 2)),
            case(()),
            case((2, 300), dim=1),
            case((12000,)),
            case((300, 2), dim=0, ord=1),
            case((6,), ord=3),
            case((2, 4), dim=1, ord=1.5),
            case((5,), ord=0),
            case((3, 4), dim=0, ord=float("inf")),
            case((3, 4), dim=1, ord=-float("inf")),
            case((4,), ord=0.5),
        ),
        errors=(
            (*FURTHER, lambda: gd.linalg.vector_norm(ones(2, 3), dim=2)),
            (gd.DTypeError, "floating", lambda: gd.linalg.vector_norm(ones(2, dtype="int64"))),
            (gd.ShapeError, "no elements", lambda: gd.linalg.vector_norm(ones(2, 0), float("inf"), 1)),
        ),
    ),
)
