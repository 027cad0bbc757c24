"""Further elementwise functions: angles, hyperbolic functions, the error and gamma functions, bits."""

from __future__ import annotations

from typing import Any

from gradino.functions._arguments import _binary_operand, _tensor, into
from gradino.tensor import Tensor

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "clamp_max", "clamp_min",
    "copysign", "cosh", "deg2rad", "digamma", "erfc", "erfinv", "exp2", "fix", "float_power", "fmax", "fmin", "fmod", "frac", "gcd",
    "heaviside", "hypot", "isinf", "isneginf", "isposinf", "isreal", "lcm", "ldexp", "lerp", "lgamma", "log10", "logaddexp",
    "logaddexp2", "logit", "mvlgamma", "nan_to_num", "nextafter", "polygamma", "positive", "rad2deg", "rsub", "signbit", "sinc", "sinh",
    "tan", "trunc", "xlogy",
]  # fmt: skip


def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The integer part: x rounded towards 0."""
    result = _tensor("trunc", input).trunc()
    return result if out is None else into("trunc", out, result)


def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``2 ** x``."""
    result = _tensor("exp2", input).exp2()
    return result if out is None else into("exp2", out, result)


def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 10."""
    result = _tensor("log10", input).log10()
    return result if out is None else into("log10", out, result)


def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The tangent; x in radians."""
    result = _tensor("tan", input).tan()
    return result if out is None else into("tan", out, result)


def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The arcsine, in radians; NaN outside [-1, 1]."""
    result = _tensor("asin", input).asin()
    return result if out is None else into("asin", out, result)


def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The arccosine, in radians; NaN outside [-1, 1]."""
    result = _tensor("acos", input).acos()
    return result if out is None else into("acos", out, result)


def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The arctangent, in radians."""
    result = _tensor("atan", input).atan()
    return result if out is None else into("atan", out, result)


def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic sine."""
    result = _tensor("sinh", input).sinh()
    return result if out is None else into("sinh", out, result)


def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic cosine."""
    result = _tensor("cosh", input).cosh()
    return result if out is None else into("cosh", out, result)


def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of ``sinh``."""
    result = _tensor("asinh", input).asinh()
    return result if out is None else into("asinh", out, result)


def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of ``cosh``; NaN below 1."""
    result = _tensor("acosh", input).acosh()
    return result if out is None else into("acosh", out, result)


def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of ``tanh``; NaN outside [-1, 1]."""
    result = _tensor("atanh", input).atanh()
    return result if out is None else into("atanh", out, result)


def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 - erf(x)``, accurate where that is small."""
    result = _tensor("erfc", input).erfc()
    return result if out is None else into("erfc", out, result)


def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of ``erf``; NaN outside [-1, 1]."""
    result = _tensor("erfinv", input).erfinv()
    return result if out is None else into("erfinv", out, result)


def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the absolute value of the gamma function."""
    result = _tensor("lgamma", input).lgamma()
    return result if out is None else into("lgamma", out, result)


def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slope of ``lgamma``."""
    result = _tensor("digamma", input).digamma()
    return result if out is None else into("digamma", out, result)


def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the sign is minus, also of -0 and NaN, as bool."""
    result = _tensor("signbit", input).signbit()
    return result if out is None else into("signbit", out, result)


def fmod(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The remainder of the division, with the sign of ``input``, broadcast."""
    result = _binary_operand("fmod", input, other).fmod(other)
    return result if out is None else into("fmod", out, result)


def atan2(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (``other``, ``input``), in radians: ``atan(input / other)`` in the right quadrant."""
    result = _binary_operand("atan2", input, other).atan2(other)
    return result if out is None else into("atan2", out, result)


def hypot(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``sqrt(input ** 2 + other ** 2)`` without overflow."""
    result = _binary_operand("hypot", input, other).hypot(other)
    return result if out is None else into("hypot", out, result)


def copysign(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The size of ``input`` with the sign of ``other``."""
    result = _binary_operand("copysign", input, other).copysign(other)
    return result if out is None else into("copysign", out, result)


def nextafter(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The next number after ``input`` towards ``other``."""
    result = _binary_operand("nextafter", input, other).nextafter(other)
    return result if out is None else into("nextafter", out, result)


def logaddexp(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``log(exp(input) + exp(other))`` without overflow."""
    result = _binary_operand("logaddexp", input, other).logaddexp(other)
    return result if out is None else into("logaddexp", out, result)


def logaddexp2(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``log2(2 ** input + 2 ** other)`` without overflow."""
    result = _binary_operand("logaddexp2", input, other).logaddexp2(other)
    return result if out is None else into("logaddexp2", out, result)


def xlogy(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input * log(other)``, and 0 where ``input`` is 0, unless ``other`` is NaN."""
    result = _binary_operand("xlogy", input, other).xlogy(other)
    return result if out is None else into("xlogy", out, result)


def heaviside(input: Any, values: Any, *, out: Tensor | None = None) -> Tensor:
    """0 below 0, 1 above, ``values`` at 0; NaN stays NaN."""
    result = _binary_operand("heaviside", input, values).heaviside(values)
    return result if out is None else into("heaviside", out, result)


def fmax(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The larger of each pair; of NaN and a number the number. A tie's gradient goes to ``input``."""
    result = _binary_operand("fmax", input, other).fmax(other)
    return result if out is None else into("fmax", out, result)


def fmin(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The smaller of each pair; of NaN and a number the number. A tie's gradient goes to ``input``."""
    result = _binary_operand("fmin", input, other).fmin(other)
    return result if out is None else into("fmin", out, result)


def gcd(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor of integers, at least 0."""
    result = _binary_operand("gcd", input, other).gcd(other)
    return result if out is None else into("gcd", out, result)


def bitwise_and(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The bits that both have: of integers and bools."""
    result = _binary_operand("bitwise_and", input, other).bitwise_and(other)
    return result if out is None else into("bitwise_and", out, result)


def bitwise_or(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The bits that one has: of integers and bools."""
    result = _binary_operand("bitwise_or", input, other).bitwise_or(other)
    return result if out is None else into("bitwise_or", out, result)


def bitwise_xor(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The bits that exactly one has: of integers and bools."""
    result = _binary_operand("bitwise_xor", input, other).bitwise_xor(other)
    return result if out is None else into("bitwise_xor", out, result)


def bitwise_left_shift(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The bits of an integer moved up by ``other`` places; what leaves is lost."""
    result = _binary_operand("bitwise_left_shift", input, other).bitwise_left_shift(other)
    return result if out is None else into("bitwise_left_shift", out, result)


def bitwise_right_shift(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The bits of an integer moved down by ``other`` places; the sign stays."""
    result = _binary_operand("bitwise_right_shift", input, other).bitwise_right_shift(other)
    return result if out is None else into("bitwise_right_shift", out, result)


def positive(input: Tensor) -> Tensor:
    """``input`` itself."""
    return _tensor("positive", input).positive()


def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``x - trunc(x)``."""
    result = _tensor("frac", input).frac()
    return result if out is None else into("frac", out, result)


def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``sin(pi x) / (pi x)``, and 1 at 0."""
    result = _tensor("sinc", input).sinc()
    return result if out is None else into("sinc", out, result)


def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees as radians."""
    result = _tensor("deg2rad", input).deg2rad()
    return result if out is None else into("deg2rad", out, result)


def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians as degrees."""
    result = _tensor("rad2deg", input).rad2deg()
    return result if out is None else into("rad2deg", out, result)


def isinf(input: Tensor) -> Tensor:
    """Whether elements are infinite."""
    return _tensor("isinf", input).isinf()


def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether elements are positive infinity."""
    result = _tensor("isposinf", input).isposinf()
    return result if out is None else into("isposinf", out, result)


def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether elements are negative infinity."""
    result = _tensor("isneginf", input).isneginf()
    return result if out is None else into("isneginf", out, result)


def isreal(input: Tensor) -> Tensor:
    """True everywhere: there are no complex numbers."""
    return _tensor("isreal", input).isreal()


def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """``log(x / (1 - x))``; with ``eps`` x is limited to [eps, 1 - eps] first."""
    result = _tensor("logit", input).logit(eps)
    return result if out is None else into("logit", out, result)


def nan_to_num(
    input: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Numbers instead of NaN and infinities; by default 0 and the largest of the dtype."""
    result = _tensor("nan_to_num", input).nan_to_num(nan, posinf, neginf)
    return result if out is None else into("nan_to_num", out, result)


def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All bits turned over: of integers and bools."""
    result = _tensor("bitwise_not", input).bitwise_not()
    return result if out is None else into("bitwise_not", out, result)


def rsub(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """``other - alpha * input``."""
    return _tensor("rsub", input).rsub(other, alpha=alpha)


def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Tensor | None = None) -> Tensor:
    """``input + weight * (end - input)``, exact at both ends."""
    result = _tensor("lerp", input).lerp(end, weight)
    return result if out is None else into("lerp", out, result)


def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the p-variate gamma function."""
    result = _tensor("mvlgamma", input).mvlgamma(p)
    return result if out is None else into("mvlgamma", out, result)


def clamp_min(input: Tensor, min: Any, *, out: Tensor | None = None) -> Tensor:
    """``input``, but at least ``min``."""
    result = _tensor("clamp_min", input).clamp_min(min)
    return result if out is None else into("clamp_min", out, result)


def clamp_max(input: Tensor, max: Any, *, out: Tensor | None = None) -> Tensor:
    """``input``, but at most ``max``."""
    result = _tensor("clamp_max", input).clamp_max(max)
    return result if out is None else into("clamp_max", out, result)


def lcm(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple of integers."""
    result = _binary_operand("lcm", input, other).lcm(other)
    return result if out is None else into("lcm", out, result)


def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent`` in float64."""
    result = _binary_operand("float_power", input, exponent).float_power(exponent)
    return result if out is None else into("float_power", out, result)


def ldexp(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input * 2 ** other``."""
    result = _binary_operand("ldexp", input, other).ldexp(other)
    return result if out is None else into("ldexp", out, result)


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of ``digamma``."""
    result = _tensor("polygamma", input).polygamma(n)
    return result if out is None else into("polygamma", out, result)


fix = trunc
arcsin = asin
arccos = acos
arctan = atan
arcsinh = asinh
arccosh = acosh
arctanh = atanh
arctan2 = atan2
