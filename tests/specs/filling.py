"""Filling and random numbers. See the package's own text for how entries read."""

from __future__ import annotations

from typing import Any

import numpy as np
import references as r
from spec_kinds import (
    ALL,
    EXACT,
    NUMBERS,
    Spec,
    case,
    ones,
)  # fmt: skip

import gradino as gd

F = gd.nn.functional


def _seeded(make: Any) -> Any:
    """Random numbers from one place of the stream."""
    gd.set_rng_state((r.SEED, r.POSITION))
    return make()


def _sized(*shapes: tuple[int, ...], **attributes: Any) -> tuple[Any, ...]:
    return tuple(case(size=shape, **attributes) for shape in shapes)


# fmt: off
SIZES = ((7,), (3, 5), (), (0,), (1, 67))

FILLING = (
    Spec(name="fill", python="full", factory=True, dtypes=ALL, order=0, ref=lambda size, value, dtype: np.full(size, value),
         call=lambda m, size, value, dtype: m.full(size, value, dtype=getattr(m, dtype)),
         cases=(*_sized(*SIZES, value=2.5), *_sized((2, 1, 3, 5), value=-1)), rows=lambda n: _sized((n,), value=1),
         large=_sized((400, 300), value=3),
         errors=((gd.ShapeError, "four dimensions", lambda: gd.full((1,) * 5, 1)), (gd.ShapeError, "-1", lambda: gd.full((-1,), 1)),
                 (gd.OutOfMemoryError, "", lambda: gd.full((2**31, 2**31, 2**10), 1)),
                 (gd.DTypeError, "not supported", lambda: gd.full((2,), 1, dtype="int8")))),
    Spec(name="arange", factory=True, dtypes=NUMBERS, order=0, call=lambda m, *, a, b, s, dtype: m.arange(a, b, s, dtype=getattr(m, dtype)),
         ref=lambda a, b, s, dtype: np.arange(a, b, s), cases=tuple(case(a=a, b=b, s=s) for a, b, s in (
             (0, 7, 1), (5, -4, -2), (3, 3, 1), (0, 300, 1))), rows=lambda n: (case(a=-1, b=n - 1, s=1),),
         large=(case(a=0, b=90000, s=1),),
         errors=((gd.InvalidValueError, "step", lambda: gd.arange(0, 5, 0)), (gd.InvalidValueError, "step", lambda: gd.arange(0, 5, -1)))),
    Spec(name="eye", factory=True, dtypes=ALL, rtol=EXACT, order=0, call=lambda m, *, n, k, dtype: m.eye(n, k, dtype=getattr(m, dtype)),
         ref=lambda n, k, dtype: np.eye(n, k), cases=tuple(case(n=n, k=k) for n, k in ((3, 3), (2, 5), (4, 1), (0, 2))),
         rows=lambda n: (case(n=2, k=n),), large=(case(n=400, k=300),),
         errors=((gd.ShapeError, "-1", lambda: gd.eye(-1)),)),
    Spec(name="uniform", python="rand", factory=True, order=0, rtol=EXACT, torch=False, ref=r.uniform, cases=_sized(*SIZES),
         rows=lambda n: _sized((n,)), large=_sized((400, 300)),
         call=lambda m, *, size, dtype: _seeded(lambda: m.rand(*size, dtype=dtype)),
         errors=((gd.DTypeError, "float", lambda: gd.rand(2, dtype="int64")),
                 (gd.ShapeError, "four dimensions", lambda: gd.rand(1, 1, 1, 1, 1)))),
    Spec(name="normal", python="randn", factory=True, order=0, rtol=(1e-6, 1e-14), atol=(2e-6, 1e-14), torch=False, ref=r.normal,
         cases=_sized(*SIZES), call=lambda m, *, size, dtype: _seeded(lambda: m.randn(*size, dtype=dtype)),
         rows=lambda n: _sized((n,)), large=_sized((400, 300)),
         errors=((gd.DTypeError, "float", lambda: gd.randn(2, dtype="int64")),)),
    Spec(name="randint", factory=True, dtypes=("int64",), order=0, torch=False, ref=r.randint,
         cases=(*_sized(*SIZES, low=0, high=10), *_sized((9,), low=-3, high=2**40)),
         rows=lambda n: _sized((n,), low=0, high=10), large=_sized((400, 300), low=0, high=10),
         call=lambda m, *, size, low, high, dtype: _seeded(lambda: m.randint(low, high, size)),
         errors=((gd.InvalidValueError, "less than", lambda: gd.randint(3, 3, (2,))),)),
    Spec(name="dropout", python="nn.functional.dropout", torch=False, ref=r.dropout,
         call=lambda m, x, p: _seeded(lambda: m.nn.functional.dropout(x, p)),
         cases=tuple(case(shape, p=p) for shape, p in zip(((7,), (3, 5), (2, 3, 2, 2), (4,), (), (0,)), (0.5, 0.1, 0.9, 1.0, 0.3, 0.3))),
         rows=lambda n: (case((n,), p=0.4),), large=(case((400, 300), p=0.4),),
         errors=((gd.InvalidValueError, "p is -0.1", lambda: F.dropout(ones(2), -0.1)),
                 (gd.InvalidValueError, "p is 1.1", lambda: F.dropout(ones(2), 1.1)),
                 (gd.DTypeError, "float", lambda: F.dropout(ones(2, dtype="int64"), 0.5)))),
)
# fmt: on
