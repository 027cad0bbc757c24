"""Reductions, softmax and norms. See the package's own text for how entries read."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import references as r
from spec_kinds import (
    ALL,
    DIMS_CASES,
    EMPTY_REDUCE,
    EXACT,
    NUMBERS,
    REDUCE_CASES,
    SUMMED,
    Domain,
    Spec,
    along_rows,
    case,
    large_rows,
    named,
    ones,
    raw,
    reduction,
)  # fmt: skip

import gradino as gd

F = gd.nn.functional


def _norm(name: str) -> Any:
    def call(m: Any, *t: Any, shape: tuple[int, ...], **more: float) -> Any:
        return getattr(m.nn.functional, name)(t[0], shape, *t[1:], **({"eps": 1e-6} if name == "rms_norm" else {}), **more)

    return call


def _norm_bwd(name: str, inputs: int, outputs: int) -> Any:
    def call(m: Any, g: Any, x: Any, w: Any, *, i: tuple[int, int], f: tuple[float]) -> Any:
        _, statistics = raw(name, 2)(m, x, w, *(None,) * (inputs - 2), i=i[:1], f=f)
        return raw(f"{name}_bwd", outputs)(m, g, x, w, statistics, i=i, f=f)

    return call


def _along(f: Any) -> Any:
    """A NumPy reduction with PyTorch's arguments."""
    return lambda x, dim=None, keepdim=False: f(x, axis=dim, keepdims=keepdim)


# fmt: off
REDUCTIONS = (
    reduction("sum", _along(np.sum), dtypes=ALL, out="wide", rtol=SUMMED, scale=_along(lambda x, **k: np.sum(np.abs(x), **k))),
    reduction("mean", _along(np.mean), rtol=SUMMED, scale=_along(lambda x, **k: np.mean(np.abs(x), **k)),
              errors=((gd.DTypeError, "float", lambda: gd.mean(ones(3, dtype="int64"))),)),
    reduction("prod", _along(np.prod), REDUCE_CASES, domain=Domain(nonzero=True), dtypes=ALL, out="wide", rtol=SUMMED,
              large=(case((4000, 40), dim=1), case((40, 4000), dim=0))),
    reduction("var", lambda x, dim=None, keepdim=False, correction=1: x.var(axis=dim, keepdims=keepdim, ddof=correction),
              (*DIMS_CASES, case((3, 4), correction=0), case((3, 4), dim=1, correction=2)), rtol=SUMMED, atol=(1e-12, 1e-28)),
    reduction("std", lambda x, dim=None, keepdim=False, correction=1: x.std(axis=dim, keepdims=keepdim, ddof=correction),
              tuple(c for c in DIMS_CASES if 0 not in c.inputs[0]), rtol=SUMMED, atol=(1e-6, 1e-14)),
    *(reduction(name, _along(f), empty=(), dtypes=ALL, rtol=EXACT) for name, f in (("amax", np.max), ("amin", np.min))),
    *(Spec(name=name, python=f"Tensor.{name[:3]}", dtypes=ALL, rtol=EXACT, out=("same", "int64"), call=named(name[:3]),
           ref=lambda x, dim, keepdim=False, f=f, a=a: (f(x, axis=dim, keepdims=keepdim), a(x, axis=dim, keepdims=keepdim)),
           cases=(*(c for c in REDUCE_CASES if "dim" in c.attributes), case((), dim=0)), rows=along_rows, large=large_rows(),
           errors=((gd.ShapeError, "no elements", lambda name=name: getattr(gd, name[:3])(ones(2, 0), dim=1)),))
      for name, f, a in (("max_dim", np.max, np.argmax), ("min_dim", np.min, np.argmin))),
    *(reduction(name, _along(f), REDUCE_CASES, empty=(), dtypes=NUMBERS, out="int64", order=0)
      for name, f in (("argmax", np.argmax), ("argmin", np.argmin))),
    *(reduction(name, _along(f), dtypes=ALL, out="bool", order=0, domain=Domain(-1, 1)) for name, f in (("any", np.any), ("all", np.all))),
    reduction("logsumexp", r.logsumexp, tuple(c for c in DIMS_CASES if "dim" in c.attributes and 0 not in c.inputs[0]), EMPTY_REDUCE[1:],
              atol=(5e-7, 2e-15)),
    *(Spec(name=name, call=named(name), ref=ref, rtol=SUMMED, atol=(1e-6, 4e-15),
           cases=tuple(case(shape, dim=dim) for shape, dim in (
               ((5,), 0), ((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1), ((2, 3, 2, 3), 0), ((1, 1), 1), ((), 0), ((0, 3), 1), ((3, 0), 1),
               ((2, 67), 1), ((2, 1100), 1), ((1100, 2), 0))), rows=along_rows, large=large_rows(),
           errors=((gd.OutOfRangeError, "dimension", lambda name=name: getattr(gd, name)(ones(2, 3), dim=2)),
                   (gd.DTypeError, "float", lambda name=name: getattr(gd, name)(ones(2, dtype="int64"), dim=0))))
      for name, ref in (("softmax", r.softmax), ("log_softmax", r.log_softmax))),
    *(Spec(name=name, call=raw(name), ref=ref, rtol=SUMMED, torch=False, domain=(Domain(), Domain(-2, -0.1)),
           scale=lambda g, y, i: np.abs(g) * (1 + np.abs(y)) + (np.exp(y) + np.abs(y)) * np.abs(g).sum(axis=i[0] - 4, keepdims=True),
           cases=tuple(case(shape, shape, i=(d,)) for shape, d in (
               ((5,), 3), ((3, 4), 2), ((3, 4), 3), ((2, 3, 4), 2), ((0, 3), 3), ((2, 67), 3), ((2, 1100), 3))),
           rows=lambda n: tuple(case(shape, shape, i=(d,)) for shape, d in (((3, n), 3), ((n, 3), 2))),
           large=tuple(case(shape, shape, i=(d,)) for shape, d in (((900, 150), 3), ((500, 300), 2))))
      for name, ref in (("softmax_bwd", r.softmax_bwd), ("log_softmax_bwd", r.log_softmax_bwd))),
)

NORM_SHAPES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((5,), 1), ((3, 4), 1), ((2, 3, 4), 2), ((2, 3, 2, 3), 1), ((2, 3, 2, 3), 3), ((4, 2), 1), ((0, 3), 1), ((2, 67), 1), ((2, 1100), 1))

NORMS = (
    *(Spec(name=name, python=f"nn.functional.{name}", call=_norm(name), ref=ref, rtol=SUMMED, atol=(1e-6, 4e-15),
           cases=tuple(case(x, *p, shape=x[len(x) - n :]) for x, n in NORM_SHAPES for p in ((), *parameters(x[len(x) - n :]))),
           rows=lambda n, p=parameters: (case((n,), shape=(n,)), case((3, n), *p((n,))[-1], shape=(n,))),
           large=tuple(case(shape, *parameters(shape[1:])[-1], shape=shape[1:]) for shape in ((900, 150), (3, 50000), (20000, 7))),
           errors=((gd.ShapeError, "normalized_shape", lambda name=name: getattr(F, name)(ones(2, 3), 2)),
                   (gd.ShapeError, "at least one", lambda name=name: getattr(F, name)(ones(2, 3), ())),
                   (gd.ShapeError, "weight has shape", lambda name=name: getattr(F, name)(ones(2, 3), 3, ones(2))),
                   (gd.ShapeError, "longer than", lambda name=name: getattr(F, name)(ones(2, 3), (1, 1, 1, 2, 3))),
                   (gd.DTypeError, "float", lambda name=name: getattr(F, name)(ones(2, 3, dtype="int64"), 3)),
                   (gd.DTypeError, "one dtype", lambda name=name: getattr(F, name)(ones(2, 3), 3, ones(3, dtype="float64")))))
      for name, ref, parameters in (
          ("layer_norm", r.layer_norm, lambda n: ((n, n), (n, None), (None, n))), ("rms_norm", r.rms_norm, lambda n: ((n,),)))),
    *(Spec(name=f"{name}_bwd", call=_norm_bwd(name, inputs, 2 + centred), ref=partial(r.norm_bwd, centred=centred), order=0, rtol=SUMMED,
           scale=partial(r.norm_bwd_scale, centred=centred), atol=(1e-6, 4e-15), out=("same",) * (2 + centred), torch=False, canaries=False,
           cases=tuple(case(x, x, x[len(x) - n :] if w else None, i=(n, wanted), f=(1e-2,))
                       for x, n in NORM_SHAPES for w, wanted in ((True, 7), (False, 1), (True, 2), (True, 1))),
           rows=lambda n: tuple(case((k, n), (k, n), (n,) if w else None, i=(1, 7), f=(1e-2,)) for k, w in ((3, True), (40, False))),
           large=tuple(case(x, x, x[1:], i=(1, 7), f=(1e-2,)) for x in ((900, 150), (3, 50000), (20000, 7))))
      for name, inputs, centred in (("layer_norm", 3, True), ("rms_norm", 2, False))),
)
# fmt: on
