"""Specs of elementwise functions and reductions that are made of ops. As in composed.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import references as r
import scipy.special as sp
from spec_kinds import ALL, EXACT, FLOATS, INTS, NUMBERS, REDUCE_CASES, SUMMED, Domain, Spec, binary, case, named, reduction, unary

import gradino as gd

FEW = (case((7,)), case((2, 3)), case(()), case((0,)))


def _with(*arguments: Any, **named_ones: Any) -> Any:
    def of(name: str) -> Any:
        return lambda m, x: getattr(m, name)(x, *arguments, **named_ones)

    return of


def _pair(f: Any, g: Any) -> Any:
    return lambda x, dim=None, keepdim=False: (f(x, dim, keepdim), g(x, dim, keepdim))


def _axes(f: Any, **more: Any) -> Any:
    return lambda x, dim=None, keepdim=False: f(x, axis=dim, keepdims=keepdim, **more)


# fmt: off
COMPOSED_POINTWISE = (
    unary("positive", lambda x: x, dtypes=NUMBERS, rtol=EXACT),
    unary("frac", lambda x: x - np.trunc(x), kinks="integers", atol=(3e-7, 1e-15)),
    unary("sinc", np.sinc, 0.2, 3, atol=(1e-6, 1e-15), rtol=(2e-6, 4e-15)),
    unary("deg2rad", np.deg2rad), unary("rad2deg", np.rad2deg),
    *(unary(name, getattr(np, name), dtypes=NUMBERS, out="bool", order=0, errors=())
      for name in ("isinf", "isposinf", "isneginf", "isreal")),
    unary("logit", sp.logit, 0.1, 0.9, rtol=(2e-6, 1e-14), atol=(1e-6, 1e-14)),
    unary("nan_to_num", np.nan_to_num, dtypes=NUMBERS, rtol=EXACT, errors=()),
    Spec(name="bitwise_not", call=named("bitwise_not"), ref=np.invert, dtypes=(*INTS, "bool"), rtol=EXACT, order=0, cases=FEW,
         errors=((gd.DTypeError, "bool and integer", lambda: gd.bitwise_not(gd.ones(2))),)),
    unary("clamp_min", lambda x: np.maximum(x, -1), kinks=(-1,), rtol=EXACT, call=_with(-1)("clamp_min")),
    unary("clamp_max", lambda x: np.minimum(x, 1), kinks=(1,), rtol=EXACT, call=_with(1)("clamp_max")),
    unary("mvlgamma", lambda x: sp.multigammaln(x, 2) if x.ndim == 0 else np.vectorize(lambda v: sp.multigammaln(v, 2), otypes=[float])(x),
          1.5, 9, rtol=(2e-6, 4e-14), atol=(2e-6, 1e-13), call=_with(2)("mvlgamma")),
    binary("rsub", lambda a, b: b - a),
    Spec(name="lcm", call=named("lcm"), ref=np.lcm, dtypes=INTS, rtol=EXACT, order=0, domain=Domain(-9, 9),
         cases=(case((5,), (5,)), case((2, 3), (3,)), case((), (2,)))),
    binary("ldexp", lambda a, b: a * np.exp2(b), dtypes=FLOATS, rtol=(5e-7, 2e-15)),
    Spec(name="float_power", call=named("float_power"), ref=np.power, out="float64", dtypes=("float64", *INTS), rtol=(2e-15, 2e-15),
         domain=(Domain(0.5, 4), Domain(0.5, 3)), cases=(case((5,), (5,)), case((2, 3), (3,)), case((), ()))),
    Spec(name="lerp", call=named("lerp"), ref=lambda a, b, weight: a + weight * (b - a), rtol=(1e-6, 4e-15), atol=(1e-6, 2e-15),
         cases=(case((5,), (5,), (5,)), case((2, 3), (3,), ()), case((2, 3), (2, 3), weight=0.25), case((2, 3), (2, 3), weight=0.75)),
         domain=(Domain(), Domain(), Domain(-1, 2, kinks=(0.5, -0.5)))),
    reduction("nansum", _axes(np.sum), dtypes=ALL, out="wide", rtol=SUMMED, scale=_axes(lambda x, **k: np.sum(np.abs(x), **k))),
    reduction("nanmean", _axes(np.mean), tuple(c for c in REDUCE_CASES if 0 not in c.inputs[0]), rtol=SUMMED,
              scale=_axes(lambda x, **k: np.mean(np.abs(x), **k))),
    Spec(name="aminmax", dtypes=ALL, rtol=EXACT, out=("same", "same"), ref=_pair(r.amin_of, r.amax_of),
         call=lambda m, x, **k: m.aminmax(x, **k), cases=(case((7,)), case((3, 4), dim=1), case((3, 4), dim=0, keepdim=True))),
    *(Spec(name=f"{name}_mean", rtol=SUMMED, atol=(1e-6, 1e-14), out=("same", "same"), call=named(f"{name}_mean"),
           ref=lambda x, dim=None, keepdim=False, name=name: (getattr(x, name)(axis=dim, keepdims=keepdim, ddof=1),
                                                              x.mean(axis=dim, keepdims=keepdim)),
           cases=(case((7,)), case((3, 4), dim=1), case((2, 3, 4), dim=(0, 2), keepdim=True))) for name in ("std", "var")),
)
# fmt: on
