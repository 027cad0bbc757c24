"""Elementwise functions and comparisons."""

from __future__ import annotations

import builtins
from typing import Any

from gradino._arithmetic import _operand
from gradino._core import wrap
from gradino._lib import lib
from gradino.dtypes import float32
from gradino.errors import DTypeError
from gradino.functions._arguments import _tensor
from gradino.tensor import Tensor

__all__ = [
    "abs", "add", "ceil", "clamp", "clip", "cos", "div", "eq", "erf", "exp", "expm1", "floor", "floor_divide", "ge", "gt", "isclose",
    "isfinite", "isnan", "le", "log", "log1p", "log2", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "maximum",
    "minimum", "mul", "ne", "neg", "pow", "reciprocal", "relu", "remainder", "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square",
    "sub", "tanh", "where",
]  # fmt: skip


def _binary_operand(name: str, a: Any, b: Any) -> Tensor:
    """``a`` as a tensor where the function ``name`` was called with a number on the left."""
    if isinstance(a, Tensor):
        return a
    if not isinstance(b, Tensor):
        raise DTypeError(f"{name}: one of two operands must be a Tensor, got {type(a).__name__} and {type(b).__name__}")
    return _operand(b, a)


def abs(input: Tensor) -> Tensor:
    """``|x|``."""
    return _tensor("abs", input).abs()


def neg(input: Tensor) -> Tensor:
    """``-x``."""
    return _tensor("neg", input).neg()


def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1."""
    return _tensor("sign", input).sign()


def square(input: Tensor) -> Tensor:
    """``x * x``."""
    return _tensor("square", input).square()


def relu(input: Tensor) -> Tensor:
    """``max(x, 0)``."""
    return _tensor("relu", input).relu()


def floor(input: Tensor) -> Tensor:
    """The largest integer not above x."""
    return _tensor("floor", input).floor()


def ceil(input: Tensor) -> Tensor:
    """The smallest integer not below x."""
    return _tensor("ceil", input).ceil()


def round(input: Tensor) -> Tensor:
    """The nearest integer; halves go to the even one."""
    return _tensor("round", input).round()


def sqrt(input: Tensor) -> Tensor:
    """The square root."""
    return _tensor("sqrt", input).sqrt()


def rsqrt(input: Tensor) -> Tensor:
    """``1 / sqrt(x)``."""
    return _tensor("rsqrt", input).rsqrt()


def reciprocal(input: Tensor) -> Tensor:
    """``1 / x``."""
    return _tensor("reciprocal", input).reciprocal()


def exp(input: Tensor) -> Tensor:
    """``e ** x``."""
    return _tensor("exp", input).exp()


def expm1(input: Tensor) -> Tensor:
    """``e ** x - 1``, accurate near 0."""
    return _tensor("expm1", input).expm1()


def log(input: Tensor) -> Tensor:
    """The natural logarithm."""
    return _tensor("log", input).log()


def log1p(input: Tensor) -> Tensor:
    """``log(1 + x)``, accurate near 0."""
    return _tensor("log1p", input).log1p()


def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2."""
    return _tensor("log2", input).log2()


def sin(input: Tensor) -> Tensor:
    """The sine; x in radians."""
    return _tensor("sin", input).sin()


def cos(input: Tensor) -> Tensor:
    """The cosine; x in radians."""
    return _tensor("cos", input).cos()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return _tensor("tanh", input).tanh()


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``."""
    return _tensor("sigmoid", input).sigmoid()


def erf(input: Tensor) -> Tensor:
    """The error function, ``2/sqrt(pi)`` times the integral of ``exp(-t^2)`` from 0 to x."""
    return _tensor("erf", input).erf()


def logical_not(input: Tensor) -> Tensor:
    """Whether elements are 0."""
    return _tensor("logical_not", input).logical_not()


def isnan(input: Tensor) -> Tensor:
    """Whether elements are NaN."""
    return _tensor("isnan", input).isnan()


def isfinite(input: Tensor) -> Tensor:
    """Whether elements are neither NaN nor infinite."""
    return _tensor("isfinite", input).isfinite()


def mul(input: Any, other: Any) -> Tensor:
    """``input * other``, broadcast."""
    return _binary_operand("mul", input, other).mul(other)


def div(input: Any, other: Any) -> Tensor:
    """``input / other``, broadcast."""
    return _binary_operand("div", input, other).div(other)


def floor_divide(input: Any, other: Any) -> Tensor:
    """The quotient rounded towards minus infinity."""
    return _binary_operand("floor_divide", input, other).floor_divide(other)


def remainder(input: Any, other: Any) -> Tensor:
    """The remainder, with the sign of the divisor."""
    return _binary_operand("remainder", input, other).remainder(other)


def maximum(input: Any, other: Any) -> Tensor:
    """The larger of each pair."""
    return _binary_operand("maximum", input, other).maximum(other)


def minimum(input: Any, other: Any) -> Tensor:
    """The smaller of each pair."""
    return _binary_operand("minimum", input, other).minimum(other)


def eq(input: Any, other: Any) -> Tensor:
    """``input == other``."""
    return _binary_operand("eq", input, other).eq(other)


def ne(input: Any, other: Any) -> Tensor:
    """``input != other``."""
    return _binary_operand("ne", input, other).ne(other)


def lt(input: Any, other: Any) -> Tensor:
    """``input < other``."""
    return _binary_operand("lt", input, other).lt(other)


def le(input: Any, other: Any) -> Tensor:
    """``input <= other``."""
    return _binary_operand("le", input, other).le(other)


def gt(input: Any, other: Any) -> Tensor:
    """``input > other``."""
    return _binary_operand("gt", input, other).gt(other)


def ge(input: Any, other: Any) -> Tensor:
    """``input >= other``."""
    return _binary_operand("ge", input, other).ge(other)


def logical_and(input: Any, other: Any) -> Tensor:
    """Whether both are not 0."""
    return _binary_operand("logical_and", input, other).logical_and(other)


def logical_or(input: Any, other: Any) -> Tensor:
    """Whether one is not 0."""
    return _binary_operand("logical_or", input, other).logical_or(other)


def logical_xor(input: Any, other: Any) -> Tensor:
    """Whether exactly one is not 0."""
    return _binary_operand("logical_xor", input, other).logical_xor(other)


def add(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """``input + alpha * other``, broadcast."""
    return _binary_operand("add", input, other).add(other, alpha=alpha)


def sub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """``input - alpha * other``, broadcast."""
    return _binary_operand("sub", input, other).sub(other, alpha=alpha)


def pow(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``, broadcast."""
    return _binary_operand("pow", input, exponent).pow(exponent)


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """``input`` limited to [min, max]."""
    return _tensor("clamp", input).clamp(min, max)


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
            input = input.to(float32)
    return wrap(lib.gd_where(_tensor("where", condition)._h, input._h, _operand(input, other)._h))


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Where ``|input - other| <= atol + rtol * |other|``, or both are the same infinity, or with ``equal_nan`` both NaN."""
    a, b = _tensor("isclose", input).detach(), _tensor("isclose", other).detach()
    distance = (a - b).abs()
    close = (a == b).logical_or((distance <= b.abs() * rtol + atol).logical_and(distance.isfinite()))
    return close.logical_or(a.isnan().logical_and(b.isnan())) if equal_nan else close
