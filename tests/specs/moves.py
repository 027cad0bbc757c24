"""Views and moving data. See the package's own text for how entries read."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from spec_kinds import (
    ALL,
    EXACT,
    SUMMED,
    UNARY_CASES,
    Domain,
    Given,
    Ints,
    Spec,
    case,
    named,
    ones,
    raw,
)  # fmt: skip

import gradino as gd

F = gd.nn.functional
ZEROS = gd.zeros


def _unslice(g: Any, i: tuple[int, ...]) -> Any:
    out = np.zeros(i[8:12])
    out[tuple(slice(i[d], i[d] + (n - 1) * i[4 + d] + 1, i[4 + d]) for d, n in enumerate((1,) * (4 - g.ndim) + g.shape))] = g
    return out.reshape(i[12 - i[12] : 12])


def _expand(x: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(x, [n if n >= 0 else x.shape[d] for d, n in enumerate(shape, x.ndim - len(shape))])


def _gather(x: Any, index: Any, dim: int) -> Any:
    return np.take_along_axis(x[tuple(slice(None) if d == dim % x.ndim else slice(n) for d, n in enumerate(index.shape))], index, dim)


def _add_at(g: Any, index: Any, i: tuple[int, ...], whole: bool) -> Any:
    axis = i[0] - 4 + g.ndim
    out = np.zeros(i[6 - g.ndim : 6] if whole else (*g.shape[:axis], i[1], *g.shape[axis + 1 :]))
    for at in np.ndindex(g.shape):
        out[(*at[:axis], index[at] if whole else index[at[axis]], *at[axis + 1 :])] += g[at]
    return out


# fmt: off
VIEWS = (
    Spec(name="reshape", call=named("reshape"), ref=lambda x, shape: x.reshape(shape), dtypes=ALL, rtol=EXACT,
         cases=tuple(case(old, shape=new) for old, new in (
             ((2, 6), (3, 4)), ((2, 3, 4), (-1,)), ((12,), (2, 1, 3, -1)), ((1,), ()), ((), (1, 1)), ((0, 3), (3, 0)), ((2, 3, 4), (6, 4)),
             ((2, 3, 4), (2, 12)))),
         errors=((gd.ShapeError, "elements", lambda: ones(2, 3).reshape(4)), (gd.ShapeError, "-1", lambda: ones(4).reshape(-1, -1)),
                 (gd.ShapeError, "does not fit", lambda: ones(2, 3).reshape(4, -1)),
                 (gd.ShapeError, "four dimensions", lambda: ones(2).reshape(1, 1, 1, 1, 2)),
                 (gd.ShapeError, "without a copy", lambda: ones(2, 3).t().view(6)))),
    Spec(name="permute", call=named("permute"), ref=lambda x, dims: np.transpose(x, dims), dtypes=ALL, rtol=EXACT,
         cases=(case((2, 3), dims=(1, 0)), case((2, 3, 4), dims=(2, 0, 1)), case((2, 3, 4, 5), dims=(3, 1, 0, 2)), case((), dims=()),
                case((0, 2), dims=(-1, 0))),
         errors=((gd.ShapeError, "once", lambda: ones(2, 3).permute(0, 0)), (gd.ShapeError, "once", lambda: ones(2, 3).permute(0)),
                 (gd.OutOfRangeError, "dimension", lambda: ones(2, 3).permute(0, 2)))),
    Spec(name="expand", python="Tensor.expand", call=lambda m, x, shape: x.expand(*shape), ref=_expand, dtypes=ALL, rtol=EXACT,
         cases=(case((3, 1), shape=(3, 4)), case((3,), shape=(2, -1)), case((), shape=(2, 3)), case((1, 3), shape=(0, 3)),
                case((2, 1, 3), shape=(4, 2, 5, 3))),
         errors=((gd.ShapeError, "size 1", lambda: ones(2).expand(3)), (gd.ShapeError, "at least its own", lambda: ones(2, 3).expand(3)),
                 (gd.ShapeError, "four", lambda: ones(2).expand(1, 1, 1, 1, 2)))),
    Spec(name="slice", python="Tensor.__getitem__", call=lambda m, x, at: x[at], ref=lambda x, at: x[at], dtypes=ALL, rtol=EXACT,
         cases=tuple(case(shape, at=at) for shape, at in (
             ((7,), slice(2, 6)), ((7,), slice(1, None, 3)), ((3, 5), (slice(None), slice(-3, -1))), ((3, 5), (1, slice(0, 5, 2))),
             ((2, 3, 4), (..., 2)), ((3,), slice(2, 1)), ((0, 3), slice(0, 4)), ((3, 4), (None, slice(1, 3))), ((5,), -2),
             ((2, 3, 4, 5), (slice(1, 2), slice(None, None, 2), 1, slice(1, 4))))),
         errors=((gd.OutOfRangeError, "out of range", lambda: ones(2)[2]), (gd.errors.IndexStepError, "step", lambda: ones(2)[::-1]),
                 (gd.OutOfRangeError, "indices", lambda: ones(2)[0, 0]))),
    Spec(name="detach", python="Tensor.detach", call=lambda m, x: x.detach(), ref=np.copy, dtypes=ALL, rtol=EXACT, order=0,
         cases=UNARY_CASES[:5]),
)

MOVES = (
    Spec(name="cat", call=lambda m, *t, dim=0: m.cat(t, dim), ref=lambda *a, dim=0: np.concatenate(a, dim), dtypes=ALL, rtol=EXACT,
         cases=(case((2, 3), (4, 3)), case((2, 3), (2, 1), (2, 2), dim=1), case((3,)), case((0,), (3,)), case((2, 3, 4), (2, 3, 1), dim=-1),
                case((2, 2, 3, 2), (2, 5, 3, 2), dim=1), case((2, 0), (2, 0), dim=1), case(*[(1, 2)] * 20)),
         rows=lambda n: (case((n,), (n,)), case((3, n), (3, 2), dim=1)),
         large=(case((300, 300), (300, 200), dim=1), case((90000,), (30000,))),
         errors=((gd.ShapeError, "differ outside", lambda: gd.cat([ones(2, 3), ones(2, 4)])),
                 (gd.ShapeError, "scalars", lambda: gd.cat([ones(), ones()])), (gd.DTypeError, "non-empty", lambda: gd.cat([])),
                 (gd.OutOfRangeError, "dimension", lambda: gd.cat([ones(2)], 1)))),
    Spec(name="unslice", call=raw("unslice"), ref=_unslice, dtypes=ALL, rtol=EXACT, torch=False,
         cases=(case((2,), i=(0, 0, 0, 1, 1, 1, 1, 3, 1, 1, 1, 7, 1)), case((2, 3), i=(0, 0, 1, 0, 1, 1, 2, 1, 1, 1, 5, 4, 2)),
                case((1, 2, 2, 1), i=(1, 0, 1, 2, 1, 1, 1, 1, 3, 2, 4, 3, 4)), case((0,), i=(0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 3, 1))),
         rows=lambda n: (case((n,), i=(0, 0, 0, 1, 1, 1, 1, 2, 1, 1, 1, 2 * n + 1, 1)),),
         large=(case((90000,), i=(0, 0, 0, 5, 1, 1, 1, 1, 1, 1, 1, 90009, 1)),)),
    Spec(name="index_select", call=lambda m, x, index, dim: m.index_select(x, dim, index), dtypes=ALL, rtol=EXACT,
         ref=lambda x, index, dim: np.take(x, index, dim),
         cases=tuple(case(shape, Given(index), dim=dim) for shape, index, dim in (
             ((5,), (4, 0, 0, 2), 0), ((3, 4), (2, 1), 0), ((3, 4), (3, 3, 0), -1), ((2, 3, 4, 2), (1,), 2), ((3, 2), (), 0))),
         rows=lambda n: (case((n,), Ints((n,), 0, n), dim=0), case((3, n), Given((2, 0)), dim=0)),
         large=(case((300, 70), Ints((3000,), 0, 300), dim=0),),
         errors=((gd.OutOfRangeError, "5 is out of range", lambda: gd.index_select(ones(5, 2), 0, gd.tensor([5]))),
                 (gd.OutOfRangeError, "-6 is out of range", lambda: gd.index_select(ones(5), 0, gd.tensor([-6]))),
                 (gd.ShapeError, "one dimension", lambda: gd.index_select(ones(5), 0, gd.tensor([[1]]))),
                 (gd.DTypeError, "int64", lambda: gd.index_select(ones(5), 0, ones(2))))),
    Spec(name="index_add_zeros", call=raw("index_add_zeros"), ref=partial(_add_at, whole=False), rtol=SUMMED, torch=False,
         scale=lambda g, index, i: _add_at(np.abs(g), index, i, False),
         cases=(case((4,), Given((4, 0, 0, 2)), i=(3, 5)), case((2, 4), Given((2, 1)), i=(2, 3)), case((3, 3), Given((3, 3, 0)), i=(3, 4)),
                case((0, 2), Given(()), i=(2, 3))),
         rows=lambda n: (case((n,), Ints((n,), 0, 5), i=(3, 5)), case((2, n), Given((1, 1)), i=(2, 3))),
         large=(case((3000, 70), Ints((3000,), 0, 50), i=(2, 50)),)),
    Spec(name="gather", call=lambda m, x, index, dim: m.gather(x, dim, index), ref=_gather, dtypes=ALL, rtol=EXACT,
         cases=(case((5,), Ints((7,), 0, 5), dim=0), case((3, 4), Ints((2, 4), 0, 3), dim=0), case((3, 4), Ints((2, 6), 0, 4), dim=1),
                case((2, 3, 2, 3), Ints((2, 2, 2, 3), 0, 3), dim=-3), case((3, 4), Ints((0, 4), 0, 3), dim=0)),
         rows=lambda n: (case((5,), Ints((n,), 0, 5), dim=0), case((4, n), Ints((3, n), 0, 4), dim=0)),
         large=(case((400, 300), Ints((400, 300), 0, 300), dim=1),),
         errors=((gd.OutOfRangeError, "3 is out of range", lambda: gd.gather(ones(3), 0, gd.tensor([3]))),
                 (gd.ShapeError, "does not fit", lambda: gd.gather(ones(3), 0, gd.tensor([[0]]))),
                 (gd.ShapeError, "does not fit", lambda: gd.gather(ones(3, 2), 0, ZEROS(1, 3, dtype="int64"))),
                 (gd.DTypeError, "int64", lambda: gd.gather(ones(3), 0, ones(1))))),
    Spec(name="scatter_add_zeros", call=raw("scatter_add_zeros"), ref=partial(_add_at, whole=True), rtol=SUMMED, torch=False,
         scale=lambda g, index, i: _add_at(np.abs(g), index, i, True), cases=tuple(case(shape, Ints(shape, 0, i[1]), i=i) for shape, i in (
             ((7,), (3, 5, 1, 1, 1, 5)), ((2, 4), (2, 3, 1, 1, 3, 4)), ((2, 6), (3, 4, 1, 1, 3, 4)))),
         rows=lambda n: (case((n,), Ints((n,), 0, 5), i=(3, 5, 1, 1, 1, 5)),),
         large=(case((400, 90), Ints((400, 90), 0, 70), i=(3, 70, 1, 1, 400, 70)),)),
    Spec(name="one_hot", python="nn.functional.one_hot", call=lambda m, x, num_classes=-1: m.nn.functional.one_hot(x, num_classes),
         ref=lambda x, num_classes=-1: np.eye(x.max() + 1 if num_classes < 0 else num_classes, dtype=np.int64)[x], dtypes=("int64",),
         out="int64", order=0, rows=lambda n: (case(Ints((3,), 0, n), num_classes=n), case(Ints((n,), 0, 3), num_classes=3)),
         cases=(case(Ints((5,), 0, 3), num_classes=3), case(Ints((2, 3), 0, 4), num_classes=6), case(Ints((4,), 0, 9)),
                case(Ints((), 0, 3), num_classes=4), case(Ints((0,), 0, 3), num_classes=4)),
         errors=((gd.OutOfRangeError, "3 is out of range", lambda: F.one_hot(gd.tensor([3]), 3)),
                 (gd.OutOfRangeError, "-1 is out of range", lambda: F.one_hot(gd.tensor([-1]), 3)),
                 (gd.InvalidValueError, "at least one", lambda: F.one_hot(gd.tensor([0]), 0)),
                 (gd.DTypeError, "int64", lambda: F.one_hot(ones(2), 3)),
                 (gd.ShapeError, "four dimensions", lambda: F.one_hot(ZEROS(1, 1, 1, 1, dtype="int64"), 3)))),
    Spec(name="nonzero", call=named("nonzero"), ref=np.argwhere, dtypes=ALL, out="int64", order=0, domain=Domain(-1, 1), canaries=False,
         cases=(case((7,)), case((3, 4)), case((2, 3, 2, 2)), case((0,)), case((1,))), rows=lambda n: (case((n,)),),
         large=(case((400, 300)),)),
)
# fmt: on
