"""Activations with slopes of their own. See the package's own text for how entries read."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_expit
from spec_kinds import Domain, case, ones, slope, unary

import gradino as gd

F = gd.nn.functional
SHAPES = ((7,), (2, 3), (), (0,), (3, 4, 5), (2, 1, 3, 4))


def _elu(x: Any, alpha: float = 1.0, scale: float = 1.0, rate: float = 1.0) -> Any:
    return np.where(x > 0, scale * x, scale * alpha * np.expm1(np.minimum(x, 0) * rate))


def _mish(x: Any) -> Any:
    return np.where(np.isneginf(x), -0.0, x * np.tanh(np.logaddexp(0, x)))  # its limit


def _mish_bwd(g: Any, x: Any) -> Any:
    t, s = np.tanh(np.logaddexp(0, x)), expit(x)
    slope = np.where(np.isinf(x), x > 0, t + x * s * (1 - t * t))
    return np.where(g == 0, 0, g * slope)


def _hardswish_bwd(g: Any, x: Any) -> Any:
    return np.where(x <= -3, 0, np.where(x >= 3, g, np.where(g == 0, 0, g * (x / 3 + 0.5))))


def _elu_bwd(g: Any, x: Any, f: Any, i: Any = (0,)) -> Any:
    rate = 1 / f[0] if i[0] else 1.0
    return g * np.where(x > 0, f[1], f[0] * f[1] * rate * np.exp(np.minimum(x, 0) * rate))


def _calls(name: str, **renamed: str) -> Any:
    return lambda m, x, **k: getattr(m.nn.functional, name)(x, **k)


def _slopes(*attributes: dict[str, Any]) -> Any:
    return tuple(case(shape, shape, **a) for shape in ((7,), (2, 3), (0,)) for a in attributes)


def _python(name: str) -> str:
    return f"nn.functional.{name}"


# fmt: off
ACTIVATIONS = (
    unary("leaky_relu", lambda x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x), kinks=(0,), python=_python("leaky_relu"),
          call=_calls("leaky_relu"), cases=(*(case(s) for s in SHAPES), case((5,), negative_slope=-0.5)),
          errors=((gd.DTypeError, "floating point", lambda: F.leaky_relu(ones(2, dtype="int64"))),)),
    unary("elu", _elu, -9, 6, kinks=(0,), python=_python("elu"), call=_calls("elu"), rtol=(1e-6, 1e-14),
          cases=(*(case(s) for s in SHAPES), case((5,), alpha=0.3)),
          errors=((gd.DivisionByZeroError, "alpha", lambda: F.celu(ones(2), 0)),)),
    unary("hardtanh", lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val), kinks=(-1, 1, 0.5), python=_python("hardtanh"),
          call=_calls("hardtanh"), cases=(*(case(s) for s in SHAPES), case((5,), min_val=-0.25, max_val=0.5)),
          errors=((gd.InvalidValueError, "min_val", lambda: F.hardtanh(ones(2), 1, 0)),)),
    unary("hardswish", lambda x: np.where(x >= 3, x, x * np.maximum(x + 3, 0) / 6), -5, 5, kinks=(-3, 3), python=_python("hardswish"),
          call=_calls("hardswish"), rtol=(5e-7, 2e-15), atol=(1e-6, 1e-15)),
    unary("mish", _mish, -9, 9, python=_python("mish"), call=_calls("mish"), rtol=(1e-6, 1e-14)),
    unary("log_sigmoid", log_expit, -30, 30, python=_python("logsigmoid"), call=_calls("logsigmoid"), rtol=(5e-7, 1e-14)),
    slope("leaky_relu_bwd", lambda g, x, f: np.where(x > 0, g, f[0] * g), cases=_slopes({"f": (0.25,)}),
          domain=(Domain(), Domain(kinks=(0,)))),
    slope("elu_bwd", _elu_bwd, cases=_slopes({"f": (1.0, 1.0)}, {"f": (2.0, 1.5)}, {"f": (2.0, 1.0), "i": (1,)}), rtol=(2e-6, 1e-14),
          domain=(Domain(), Domain(-6, 6, kinks=(0,)))),
    slope("hardtanh_bwd", lambda g, x, f: np.where((x <= f[0]) | (x >= f[1]), 0, g), cases=_slopes({"f": (-1.0, 0.5)}), rtol=(0, 0),
          domain=(Domain(), Domain(kinks=(-1, 0.5)))),
    slope("hardswish_bwd", _hardswish_bwd, rtol=(1e-6, 4e-15), atol=(1e-6, 1e-15),
          domain=(Domain(), Domain(-5, 5, kinks=(-3, 3)))),
    slope("mish_bwd", _mish_bwd, domain=(Domain(), Domain(-6, 6)), scale=lambda g, x: np.abs(g), rtol=(3e-6, 2e-14)),
    slope("log_sigmoid_bwd", lambda g, x: g * expit(-x), domain=(Domain(), Domain(-12, 12)), rtol=(2e-6, 2e-15)),
)
# fmt: on
