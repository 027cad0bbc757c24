"""Elementwise ops. See the package's own text for how entries read."""

from __future__ import annotations

from typing import Any

import numpy as np
import references as r
from spec_kinds import (
    ALL,
    BINARY_CASES,
    EXACT,
    FLOATS,
    NUMBERS,
    UNARY_CASES,
    Bools,
    Domain,
    Spec,
    binary,
    case,
    named,
    ones,
    slope,
    unary,
    unary_float,
)  # fmt: skip

import gradino as gd

NAN = float("nan")
ZEROS = gd.zeros
NO_ZERO = (Domain(-9, 9), Domain(-4, 4, kinks=(0,), nonzero=True))


def _clamp_bwd(g: Any, x: Any, f: Any) -> Any:
    return np.where(((x >= f[0]) | np.isnan(f[0])) & ((x <= f[1]) | np.isnan(f[1])), g, 0)


# fmt: off
UNARY = (
    unary("neg", np.negative, dtypes=NUMBERS, rtol=EXACT),
    unary("abs", np.abs, dtypes=NUMBERS, rtol=EXACT, kinks=(0,)),
    unary("sign", lambda x: np.where(np.isnan(x), 0, np.sign(x)), dtypes=NUMBERS, rtol=EXACT, kinks=(0,), errors=()),
    unary("square", np.square, dtypes=NUMBERS, errors=()),
    unary("relu", lambda x: np.maximum(x, 0), dtypes=NUMBERS, rtol=EXACT, kinks=(0,)),
    unary("floor", np.floor, dtypes=NUMBERS, rtol=EXACT, kinks="integers"),
    unary("ceil", np.ceil, dtypes=NUMBERS, rtol=EXACT, kinks="integers"),
    unary("round", np.round, dtypes=NUMBERS, rtol=EXACT, kinks="halves"),
    unary_float("sqrt", np.sqrt, 0.05, 9),
    unary_float("rsqrt", lambda x: 1 / np.sqrt(x), 0.1, 9),
    unary_float("reciprocal", np.reciprocal, 0.1, 5),
    unary_float("exp", np.exp, -20, 20),
    unary_float("expm1", np.expm1, -10, 10),
    unary_float("log", np.log, 0.01, 30),
    unary_float("log1p", np.log1p, -0.9, 30),
    unary_float("log2", np.log2, 0.01, 30),
    unary_float("sin", np.sin, -40, 40, atol=(0, 1e-15)),
    unary_float("cos", np.cos, -40, 40, atol=(0, 1e-15)),
    unary_float("tanh", np.tanh, -6, 6),
    unary_float("sigmoid", r.sigmoid, -12, 12),
    unary_float("erf", r.erf, -4.5, 4.5),
    *(unary(name, ref, -6, 6, python=f"nn.functional.{name[:4]}", rtol=(2.4e-7, 2e-14), call=call)
      for name, ref, call in (("gelu", r.gelu, lambda m, x: m.nn.functional.gelu(x)),
                              ("gelu_tanh", r.gelu_tanh, lambda m, x: m.nn.functional.gelu(x, approximate="tanh")),
                              ("silu", r.silu, lambda m, x: m.nn.functional.silu(x)))),
    unary("softplus", r.softplus, -9, 30, kinks=(20, 4), python="nn.functional.softplus",
          call=lambda m, x, **k: m.nn.functional.softplus(x, **k),
          cases=(*UNARY_CASES, *(case(shape, beta=2.0, threshold=8.0) for shape in ((7,), (2, 3))))),
    unary("logical_not", np.logical_not, dtypes=ALL, out="bool", order=0),
    unary("isnan", np.isnan, dtypes=ALL, out="bool", order=0),
    unary("isfinite", np.isfinite, dtypes=ALL, out="bool", order=0),
    unary("cast", lambda x, to: x.astype(to), kinks="integers", dtypes=ALL, rtol=(6e-8, 0), out=lambda dtype, to: to, python="Tensor.to",
          call=lambda m, x, to: x.to(getattr(m, to)),
          cases=(*(case((3, 5), to=dtype) for dtype in ALL), case((), to="int64"), case((0,), to="bool")),
          errors=((gd.DTypeError, "not supported", lambda: ones(2).to("complex64")),)),
    unary("copy", np.copy, dtypes=ALL, rtol=EXACT, call=lambda m, x: x.clone(), python="Tensor.clone", errors=()),
    unary("clamp", lambda x, **bounds: np.clip(x, bounds.get("min"), bounds.get("max")), dtypes=NUMBERS, rtol=EXACT, kinks=(-1, 2),
          cases=tuple(case(*c.inputs, **k) for c in UNARY_CASES[:5] for k in ({"min": -1}, {"max": 2}, {"min": -1, "max": 2})),
          errors=((gd.DTypeError, "bool", lambda: gd.clamp(ones(2, dtype="bool"), False, True)),
                  (gd.InvalidValueError, "min and max", lambda: gd.clamp(ones(2))))),
    slope("relu_bwd", lambda g, y: np.where(y <= 0, 0, g), rtol=EXACT, domain=(Domain(), Domain(kinks=(0,)))),
    slope("sigmoid_bwd", lambda g, y: g * y * (1 - y), domain=(Domain(), Domain(0.02, 0.98)), scale=lambda g, y: np.abs(g * y)),
    slope("tanh_bwd", lambda g, y: g * (1 - y * y), domain=(Domain(), Domain(-0.98, 0.98)), scale=lambda g, y: np.abs(g)),
    *(slope(f"{name}_bwd", ref, domain=(Domain(), Domain(-6, 6)), scale=lambda g, x: np.abs(g), rtol=(2e-6, 2e-14))
      for name, ref in (("gelu", r.gelu_bwd), ("gelu_tanh", r.gelu_tanh_bwd), ("silu", r.silu_bwd))),
    slope("softplus_bwd", r.softplus_bwd, domain=(Domain(), Domain(-9, 30, kinks=(20, 16))), rtol=(2e-6, 2e-15),
          cases=tuple(case(shape, shape, f=f) for shape in ((5,), (2, 3), (0,)) for f in ((1.0, 20.0), (0.5, 8.0)))),
    slope("clamp_bwd", _clamp_bwd, rtol=EXACT, domain=(Domain(), Domain(kinks=(-1, 2))),
          cases=tuple(case(shape, shape, f=f) for shape, f in (
              ((7,), (-1.0, 2.0)), ((2, 3), (NAN, 2.0)), ((5,), (-1.0, NAN)), ((0,), (-1.0, 2.0))))),
)

BINARY = (
    binary("add", np.add, dtypes=ALL),
    binary("sub", np.subtract, errors=((gd.DTypeError, "bool", lambda: gd.sub(ones(2, dtype="bool"), ones(2, dtype="bool"))),)),
    binary("mul", np.multiply, dtypes=ALL),
    binary("div", np.divide, out="float", domain=(Domain(), Domain(0.2, 5, nonzero=True))),
    binary("pow", np.power, domain=(Domain(0.1, 4), Domain(-3, 3)), dtypes=FLOATS,
           errors=((gd.InvalidValueError, "negative", lambda: gd.pow(ones(2, dtype="int64"), gd.tensor([-1, 1]))),)),
    binary("floor_divide", np.floor_divide, domain=NO_ZERO,
           errors=((gd.DivisionByZeroError, "zero", lambda: gd.floor_divide(ones(2, dtype="int64"), ZEROS(2, dtype="int64"))),)),
    binary("remainder", np.remainder, domain=NO_ZERO, atol=(1e-6, 1e-14),
           errors=((gd.DivisionByZeroError, "zero", lambda: gd.remainder(ones(2, dtype="int32"), ZEROS(2, dtype="int32"))),)),
    binary("maximum", np.maximum, dtypes=ALL, rtol=EXACT),
    binary("minimum", np.minimum, dtypes=ALL, rtol=EXACT),
    slope("chain", lambda g, s: g * s, cases=BINARY_CASES),
    *(binary(name, ref, dtypes=ALL, out="bool", order=0, domain=Domain(-2, 2)) for name, ref in (
        ("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
        ("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor))),
    Spec(name="where", call=named("where"), ref=np.where, dtypes=ALL, rtol=EXACT, elementwise=True,
         cases=tuple(case(Bools(a), *c.inputs) for c in BINARY_CASES for a in (c.inputs[0], ())),
         errors=((gd.DTypeError, "bool", lambda: gd.where(ones(2), ones(2), ones(2))),
                 (gd.ShapeError, "broadcast", lambda: gd.where(ones(2, dtype="bool"), ones(3), ones(3))))),
)
# fmt: on
