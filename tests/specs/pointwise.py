"""Further elementwise ops: angles, hyperbolic functions, the error and gamma functions, pairs, bits. As in elementary.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as sp
from spec_kinds import ALL, EXACT, FLOATS, INTS, NUMBERS, UNARY_CASES, Domain, binary, case, ones, unary, unary_float

import gradino as gd

POSITIVE = Domain(0.2, 5)
SAME = (Domain(), Domain(kinks=(0,), nonzero=True))
TABLE = (2.4e-7, 4e-14)  # float64 of the C library and of SciPy differ a little


def _lgamma(x: Any) -> Any:
    size = np.abs(x)  # SciPy's ends too early
    return np.where(size < 1e-300, -np.log(size), np.where(np.isneginf(x), np.inf, sp.gammaln(x)))


def _polygamma(m: Any, x: Any, f: tuple[float, ...]) -> Any:
    return m.polygamma(int(f[0]), x)


# fmt: off
POINTWISE = (
    unary("trunc", np.trunc, dtypes=NUMBERS, rtol=EXACT, kinks="integers"),
    unary_float("exp2", np.exp2, -20, 20),
    unary_float("log10", np.log10, 0.01, 30),
    unary_float("tan", np.tan, -1.2, 1.2),
    unary_float("asin", np.arcsin, -0.9, 0.9),
    unary_float("acos", np.arccos, -0.9, 0.9),
    unary_float("atan", np.arctan, -5, 5),
    unary_float("sinh", np.sinh, -6, 6),
    unary_float("cosh", np.cosh, -6, 6),
    unary_float("asinh", np.arcsinh, -9, 9),
    unary_float("acosh", np.arccosh, 1.2, 30),
    unary_float("atanh", np.arctanh, -0.9, 0.9),
    unary_float("erfc", sp.erfc, -4, 6, rtol=TABLE),
    unary_float("erfinv", sp.erfinv, -0.9, 0.9, rtol=TABLE),
    unary_float("lgamma", _lgamma, 2.5, 9, rtol=TABLE),
    unary_float("digamma", sp.psi, 1.6, 9, rtol=TABLE),
    # PyTorch's float64 of this is good for nine digits.
    unary("polygamma", lambda x, f: sp.polygamma(int(f[0]), x), 0.5, 9, rtol=TABLE, call=_polygamma, torch=False,

          cases=tuple(case(*c.inputs, f=(n,)) for c in UNARY_CASES[:5] for n in (1.0, 2.0, 3.0))),
    unary("signbit", np.signbit, dtypes=ALL, out="bool", order=0),
    binary("fmod", np.fmod, domain=(Domain(-9, 9), Domain(-4, 4, kinks=(0,), nonzero=True)), atol=(1e-6, 1e-14),
           errors=((gd.DivisionByZeroError, "zero", lambda: gd.fmod(ones(2, dtype="int64"), gd.zeros(2, dtype="int64"))),)),
    binary("atan2", np.arctan2, out="float", domain=SAME),
    binary("hypot", np.hypot, dtypes=FLOATS, domain=SAME),
    binary("copysign", np.copysign, out="float", domain=(Domain(kinks=(0,)), Domain(kinks=(0,), nonzero=True)), rtol=EXACT),
    binary("nextafter", lambda a, b: a + 0 * b, dtypes=FLOATS, rtol=(3e-7, 3e-15), atol=(1e-44, 1e-323)),
    binary("logaddexp", np.logaddexp, dtypes=FLOATS, scale=lambda a, b: np.maximum(np.abs(a), np.abs(b)) + 1, rtol=(4e-7, 2e-15)),
    binary("logaddexp2", np.logaddexp2, dtypes=FLOATS, scale=lambda a, b: np.maximum(np.abs(a), np.abs(b)) + 1, rtol=(4e-7, 2e-15)),
    binary("xlogy", sp.xlogy, out="float", domain=(Domain(), POSITIVE), atol=(1e-7, 1e-15)),
    binary("xlog1py", sp.xlog1py, out="float", domain=(Domain(), POSITIVE), python="special.xlog1py",
           call=lambda m, a, b: m.special.xlog1py(a, b), errors=()),
    binary("heaviside", np.heaviside, dtypes=ALL, rtol=EXACT, domain=(Domain(kinks=(0,)), Domain())),
    binary("fmax", np.fmax, dtypes=ALL, rtol=EXACT),
    binary("fmin", np.fmin, dtypes=ALL, rtol=EXACT),
    *(binary(name, ref, dtypes=dtypes, rtol=EXACT, order=0, domain=Domain(-9, 9),
             errors=((gd.DTypeError, "integer", lambda name=name: getattr(gd, name)(ones(2), ones(2))),))
      for name, ref, dtypes in (("gcd", np.gcd, INTS), ("bitwise_and", np.bitwise_and, (*INTS, "bool")),
                                ("bitwise_or", np.bitwise_or, (*INTS, "bool")), ("bitwise_xor", np.bitwise_xor, (*INTS, "bool")))),
    *(binary(name, ref, dtypes=INTS, rtol=EXACT, order=0, domain=(Domain(-9, 9), Domain(0, 7)),
             errors=((gd.DTypeError, "bool", lambda name=name: getattr(gd, name)(ones(2, dtype="bool"), ones(2, dtype="bool"))),))
      for name, ref in (("bitwise_left_shift", np.left_shift), ("bitwise_right_shift", np.right_shift))),
)
# fmt: on
