"""Elementwise functions and comparisons."""

from __future__ import annotations

import builtins
from typing import Any

from gradino._arithmetic import _operand
from gradino._core import wrap
from gradino._lib import lib
from gradino.dtypes import get_default_dtype
from gradino.functions._arguments import _binary_operand, _tensor, into
from gradino.tensor import Tensor

__all__ = [
    "abs", "absolute", "add", "ceil", "clamp", "clip", "cos", "div", "divide", "eq", "erf", "exp", "expm1", "floor", "floor_divide", "ge",
    "greater", "greater_equal", "gt", "isclose", "isfinite", "isnan", "le", "less", "less_equal", "log", "log1p", "log2", "logical_and",
    "logical_not", "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul", "multiply", "ne", "neg", "negative", "not_equal", "pow",
    "reciprocal", "relu", "remainder", "round", "rsqrt", "sgn", "sigmoid", "sign", "sin", "sqrt", "square", "sub", "subtract", "tanh",
    "true_divide", "where",
]  # fmt: skip


def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``|x|``."""
    result = _tensor("abs", input).abs()
    return result if out is None else into("abs", out, result)


def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``-x``."""
    result = _tensor("neg", input).neg()
    return result if out is None else into("neg", out, result)


def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-1, 0 or 1."""
    result = _tensor("sign", input).sign()
    return result if out is None else into("sign", out, result)


def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``x * x``."""
    result = _tensor("square", input).square()
    return result if out is None else into("square", out, result)


def relu(input: Tensor) -> Tensor:
    """``max(x, 0)``."""
    return _tensor("relu", input).relu()


def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The largest integer not above x."""
    result = _tensor("floor", input).floor()
    return result if out is None else into("floor", out, result)


def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smallest integer not below x."""
    result = _tensor("ceil", input).ceil()
    return result if out is None else into("ceil", out, result)


def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest integer, or multiple of ``10 ** -decimals``; halves go to the even one."""
    result = _tensor("round", input).round(decimals=decimals)
    return result if out is None else into("round", out, result)


def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The square root."""
    result = _tensor("sqrt", input).sqrt()
    return result if out is None else into("sqrt", out, result)


def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / sqrt(x)``."""
    result = _tensor("rsqrt", input).rsqrt()
    return result if out is None else into("rsqrt", out, result)


def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / x``."""
    result = _tensor("reciprocal", input).reciprocal()
    return result if out is None else into("reciprocal", out, result)


def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``e ** x``."""
    result = _tensor("exp", input).exp()
    return result if out is None else into("exp", out, result)


def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``e ** x - 1``, accurate near 0."""
    result = _tensor("expm1", input).expm1()
    return result if out is None else into("expm1", out, result)


def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm."""
    result = _tensor("log", input).log()
    return result if out is None else into("log", out, result)


def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(1 + x)``, accurate near 0."""
    result = _tensor("log1p", input).log1p()
    return result if out is None else into("log1p", out, result)


def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 2."""
    result = _tensor("log2", input).log2()
    return result if out is None else into("log2", out, result)


def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sine; x in radians."""
    result = _tensor("sin", input).sin()
    return result if out is None else into("sin", out, result)


def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The cosine; x in radians."""
    result = _tensor("cos", input).cos()
    return result if out is None else into("cos", out, result)


def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic tangent."""
    result = _tensor("tanh", input).tanh()
    return result if out is None else into("tanh", out, result)


def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / (1 + exp(-x))``."""
    result = _tensor("sigmoid", input).sigmoid()
    return result if out is None else into("sigmoid", out, result)


def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The error function, ``2/sqrt(pi)`` times the integral of ``exp(-t^2)`` from 0 to x."""
    result = _tensor("erf", input).erf()
    return result if out is None else into("erf", out, result)


def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether elements are 0."""
    result = _tensor("logical_not", input).logical_not()
    return result if out is None else into("logical_not", out, result)


def isnan(input: Tensor) -> Tensor:
    """Whether elements are NaN."""
    return _tensor("isnan", input).isnan()


def isfinite(input: Tensor) -> Tensor:
    """Whether elements are neither NaN nor infinite."""
    return _tensor("isfinite", input).isfinite()


def mul(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input * other``, broadcast."""
    result = _binary_operand("mul", input, other).mul(other)
    return result if out is None else into("mul", out, result)


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """``input / other``, broadcast; ``rounding_mode`` ``"trunc"`` or ``"floor"`` rounds the quotient."""
    result = _binary_operand("div", input, other).div(other, rounding_mode=rounding_mode)
    return result if out is None else into("div", out, result)


def floor_divide(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The quotient rounded towards minus infinity."""
    result = _binary_operand("floor_divide", input, other).floor_divide(other)
    return result if out is None else into("floor_divide", out, result)


def remainder(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The remainder, with the sign of the divisor."""
    result = _binary_operand("remainder", input, other).remainder(other)
    return result if out is None else into("remainder", out, result)


def maximum(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The larger of each pair."""
    result = _binary_operand("maximum", input, other).maximum(other)
    return result if out is None else into("maximum", out, result)


def minimum(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The smaller of each pair."""
    result = _binary_operand("minimum", input, other).minimum(other)
    return result if out is None else into("minimum", out, result)


def eq(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input == other``."""
    result = _binary_operand("eq", input, other).eq(other)
    return result if out is None else into("eq", out, result)


def ne(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input != other``."""
    result = _binary_operand("ne", input, other).ne(other)
    return result if out is None else into("ne", out, result)


def lt(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input < other``."""
    result = _binary_operand("lt", input, other).lt(other)
    return result if out is None else into("lt", out, result)


def le(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input <= other``."""
    result = _binary_operand("le", input, other).le(other)
    return result if out is None else into("le", out, result)


def gt(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input > other``."""
    result = _binary_operand("gt", input, other).gt(other)
    return result if out is None else into("gt", out, result)


def ge(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input >= other``."""
    result = _binary_operand("ge", input, other).ge(other)
    return result if out is None else into("ge", out, result)


def logical_and(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Whether both are not 0."""
    result = _binary_operand("logical_and", input, other).logical_and(other)
    return result if out is None else into("logical_and", out, result)


def logical_or(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Whether one is not 0."""
    result = _binary_operand("logical_or", input, other).logical_or(other)
    return result if out is None else into("logical_or", out, result)


def logical_xor(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Whether exactly one is not 0."""
    result = _binary_operand("logical_xor", input, other).logical_xor(other)
    return result if out is None else into("logical_xor", out, result)


def add(input: Any, other: Any, *, alpha: float = 1, out: Tensor | None = None) -> Tensor:
    """``input + alpha * other``, broadcast."""
    result = _binary_operand("add", input, other).add(other, alpha=alpha)
    return result if out is None else into("add", out, result)


def sub(input: Any, other: Any, *, alpha: float = 1, out: Tensor | None = None) -> Tensor:
    """``input - alpha * other``, broadcast."""
    result = _binary_operand("sub", input, other).sub(other, alpha=alpha)
    return result if out is None else into("sub", out, result)


def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent``, broadcast."""
    result = _binary_operand("pow", input, exponent).pow(exponent)
    return result if out is None else into("pow", out, result)


def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """``input`` limited to [min, max]."""
    result = _tensor("clamp", input).clamp(min, max)
    return result if out is None else into("clamp", out, result)


clip = clamp


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` holds, else ``other``; broadcast. The side not taken gets gradient 0.

    ``where(condition)`` alone is ``condition.nonzero(as_tuple=True)``.
    """
    if input is None and other is None:
        return _tensor("where", condition).nonzero(as_tuple=True)
    if not isinstance(input, Tensor):
        input = _operand(other, input) if isinstance(other, Tensor) else Tensor(input)
        if not isinstance(other, Tensor) and isinstance(other, builtins.float):
            input = input.to(get_default_dtype())
    return wrap(lib.gd_where(_tensor("where", condition)._h, input._h, _operand(input, other)._h))


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Where ``|input - other| <= atol + rtol * |other|``, or both are the same infinity, or with ``equal_nan`` both NaN."""
    return _tensor("isclose", input).isclose(other, rtol, atol, equal_nan)


# PyTorch's other names of the same.
absolute, negative, sgn = abs, neg, sign
multiply, divide, true_divide, subtract = mul, div, div, sub
greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
