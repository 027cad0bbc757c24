"""Specs of functions and methods that are made of ops and have no row of their own in the table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from composed_moves import COMPOSED_MOVES
from composed_picks import COMPOSED_PICKS
from composed_planes import PLANES
from composed_pointwise import COMPOSED_POINTWISE
from spec_kinds import ALL, EXACT, NUMBERS, SUMMED, Bools, Ints, Spec, binary, case, named, ones, unary

import gradino as gd

F = gd.nn.functional


def _method(name: str, *arguments: Any) -> Any:
    return lambda m, x, **attributes: getattr(x, name)(*arguments, **attributes)


def _moving(name: str, ref: Any, *cases: Any, **more: Any) -> Spec:
    """A function that moves elements and changes none."""
    return Spec(name=name, ref=ref, cases=cases, **({"call": named(name), "dtypes": ALL, "rtol": EXACT} | more))


def _pieces(x: np.ndarray, sizes: list[int], dim: int) -> tuple[np.ndarray, ...]:
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=dim))


def _chunk(x: np.ndarray, chunks: int, dim: int = 0) -> tuple[np.ndarray, ...]:
    size = -(-x.shape[dim] // chunks)
    return _pieces(x, [min(size, x.shape[dim] - at) for at in range(0, x.shape[dim], size)], dim)


def _flatten(x: np.ndarray, start_dim: int = 0, end_dim: int = -1) -> np.ndarray:
    start, end = start_dim % max(x.ndim, 1), end_dim % max(x.ndim, 1)
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


# fmt: off
COMPOSED = (
    *COMPOSED_POINTWISE,
    *COMPOSED_MOVES,
    *COMPOSED_PICKS,
    _moving("stack", lambda *a, dim=0: np.stack(a, dim), case((2, 3), (2, 3)), case((3,), (3,), (3,), dim=1), case((), ()),
            case((2, 3), (2, 3), dim=-2), call=lambda m, *t, dim=0: m.stack(t, dim),
            errors=((gd.ShapeError, "differ", lambda: gd.stack([ones(2), ones(3)])), (gd.DTypeError, "non-empty", lambda: gd.stack([])),
                    (gd.ShapeError, "four", lambda: gd.stack([ones(1, 1, 1, 1)])))),
    _moving("concat", lambda *a, dim=0: np.concatenate(a, dim), case((2, 3), (4, 3)), call=lambda m, *t, dim=0: m.concat(t, dim)),
    _moving("split", lambda x, dim=0: _pieces(x, [2, 2, 1], dim), case((5,)), case((2, 5), dim=1), out=("same",) * 3,
            call=lambda m, x, dim=0: m.split(x, 2, dim),
            errors=((gd.ShapeError, "at least 1", lambda: gd.split(ones(3), 0)),
                    (gd.ShapeError, "add up", lambda: gd.split(ones(3), [1, 1])))),
    _moving("split_sizes", lambda x: _pieces(x, [1, 0, 3], 1), case((2, 4)), out=("same",) * 3, call=lambda m, x: m.split(x, [1, 0, 3], 1)),
    _moving("chunk", _chunk, case((5,), chunks=3), case((2, 7), chunks=3, dim=1), out=("same",) * 3,
            errors=((gd.ShapeError, "at least 1", lambda: gd.chunk(ones(3), 0)),)),
    _moving("unbind", lambda x, dim=0: tuple(np.moveaxis(x, dim, 0)), case((3,)), case((3, 2)), case((2, 3), dim=-1), out=("same",) * 3),
    _moving("flatten", _flatten, case((2, 3, 4)), case((2, 3, 4), start_dim=1), case((2, 3, 4, 2), start_dim=1, end_dim=2), case(()),
            errors=((gd.ShapeError, "in this order", lambda: gd.flatten(ones(2, 3), 1, 0)),)),
    _moving("transpose", lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1), case((2, 3), dim0=0, dim1=1), case((2, 3, 4), dim0=-1, dim1=0),
            errors=((gd.OutOfRangeError, "dimension", lambda: gd.transpose(ones(2, 3), 0, 2)),)),
    _moving("squeeze", lambda x, dim=None: np.squeeze(x, dim), case((1, 3, 1)), case((1, 3, 1), dim=0), case(())),
    _moving("unsqueeze", lambda x, dim: np.expand_dims(x, dim), case((2, 3), dim=0), case((2, 3), dim=-1), case((), dim=0),
            errors=((gd.OutOfRangeError, "dimension", lambda: gd.unsqueeze(ones(2), 2)),
                    (gd.ShapeError, "four", lambda: gd.unsqueeze(ones(1, 1, 1, 1), 0)))),
    _moving("t", np.transpose, case((2, 3)), case((3,)), call=_method("t"),
            errors=((gd.ShapeError, "matrices", lambda: ones(1, 2, 3).t()),)),
    _moving("T", np.transpose, case((2, 3)), case((3, 1)), call=lambda m, x: x.T),
    _moving("mT", lambda x: np.swapaxes(x, -1, -2), case((2, 3)), case((2, 3, 4)), call=lambda m, x: x.mT),
    _moving("view", lambda x: x.reshape(-1), case((2, 3)), call=lambda m, x: x.contiguous().view(-1)),
    _moving("view_as", lambda x, y: x.reshape(y.shape), case((2, 3), (3, 2)), call=lambda m, x, y: x.contiguous().view_as(y)),
    _moving("expand_as", lambda x, y: np.broadcast_to(x, y.shape), case((1, 3), (2, 3)), call=lambda m, x, y: x.expand_as(y)),
    _moving("narrow", lambda x, a, n: x[:, a : a + n], case((2, 5), a=1, n=3), case((2, 5), a=5, n=0),
            call=lambda m, x, a, n: x.narrow(1, a, n), errors=((gd.OutOfRangeError, "do not fit", lambda: ones(3).narrow(0, 2, 2)),)),
    _moving("select", lambda x: x[:, -1], case((2, 3)), case((2, 3, 4)), call=_method("select", 1, -1)),
    _moving("contiguous", np.copy, case((2, 3)), call=_method("contiguous")),
    _moving("masked_fill", lambda x, mask: np.where(mask, 1, x), case((2, 3), Bools((2, 3))), case((2, 3), Bools((3,))),
            call=lambda m, x, mask: x.masked_fill(mask, 1)),
    _moving("embedding", lambda index, w: w[index], case(Ints((2, 3), 0, 4), (4, 5)), case(Ints((), 0, 4), (4, 2)),
            case(Ints((0,), 0, 4), (4, 2)), dtypes=NUMBERS[:2], call=lambda m, index, w: m.nn.functional.embedding(index, w),
            errors=((gd.OutOfRangeError, "5 is out of range", lambda: F.embedding(gd.tensor([5]), ones(5, 2))),
                    (gd.OutOfRangeError, "-1 is out of range", lambda: F.embedding(gd.tensor([-1]), ones(5, 2))))),
    *(Spec(name=name, call=named(name), ref=np.matmul, rtol=SUMMED, atol=(1e-5, 1e-13), cases=(case(*shapes),)) for name, shapes in (
        ("mm", ((2, 3), (3, 4))), ("bmm", ((5, 2, 3), (5, 3, 2))))),
    *(Spec(name=name, call=named(name), ref=lambda x, f=f: f(x), dtypes=NUMBERS, rtol=EXACT, cases=(case((2, 3)), case(())))
      for name, f in (("max", np.max), ("min", np.min))),
    *(replace(binary(name, f, rtol=EXACT), name=f"{name}_of_two") for name, f in (("max", np.maximum), ("min", np.minimum))),
    unary("clip", lambda x: np.maximum(x, -1), kinks=(-1,), rtol=EXACT, call=_method("clip", -1)),
    *(Spec(name=name, factory=True, order=0, rtol=EXACT, dtypes=ALL, cases=(case(size=(2, 3)), case(size=()), case(size=(0,))),
           call=lambda m, size, dtype, name=name: getattr(m, name)(size, dtype=getattr(m, dtype)),
           ref=lambda size, dtype, value=value: np.full(size, value)) for name, value in (("zeros", 0), ("ones", 1))),
    *(Spec(name=name, order=0, rtol=EXACT, dtypes=ALL, cases=(case((2, 3)), case(())), call=named(name),
           ref=lambda x, value=value: np.full(x.shape, value)) for name, value in (("zeros_like", 0), ("ones_like", 1))),
    Spec(name="full_like", order=0, rtol=EXACT, dtypes=NUMBERS, cases=(case((2, 3), value=5),),
         call=lambda m, x, value: m.full_like(x, value), ref=lambda x, value: np.full(x.shape, value)),
    Spec(name="linspace", factory=True, order=0, cases=(case(n=5), case(n=1), case(n=0)), atol=(1e-7, 1e-15),
         call=lambda m, n, dtype: m.linspace(-1, 2, n, dtype=getattr(m, dtype)), ref=lambda n, dtype: np.linspace(-1, 2, n),
         errors=((gd.InvalidValueError, "steps", lambda: gd.linspace(0, 1, -1)),)),
    *PLANES,
)
# fmt: on
