"""Further elementwise functions as methods of Tensor: angles, hyperbolic functions, the error and gamma functions, bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gradino import devices
from gradino._arguments import as_float, shown, whole
from gradino._arithmetic import _operand
from gradino._core import combine, tensor_type, unary, wrap
from gradino._lib import ffi, lib, op_id
from gradino.dtypes import bool_, float64, get_default_dtype
from gradino.errors import DTypeError, InvalidValueError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Pointwise"]

_MOST_TERMS = 1 << 16  # of mvlgamma's sum
_TRUNC, _EXP2, _LOG10, _TAN = op_id("trunc"), op_id("exp2"), op_id("log10"), op_id("tan")
_ASIN, _ACOS, _ATAN, _SINH = op_id("asin"), op_id("acos"), op_id("atan"), op_id("sinh")
_COSH, _ASINH, _ACOSH, _ATANH = op_id("cosh"), op_id("asinh"), op_id("acosh"), op_id("atanh")
_ERFC, _ERFINV, _LGAMMA, _DIGAMMA = op_id("erfc"), op_id("erfinv"), op_id("lgamma"), op_id("digamma")
_SIGNBIT, _FMOD, _ATAN2, _HYPOT = op_id("signbit"), op_id("fmod"), op_id("atan2"), op_id("hypot")
_COPYSIGN, _NEXTAFTER, _LOGADDEXP, _LOGADDEXP2 = op_id("copysign"), op_id("nextafter"), op_id("logaddexp"), op_id("logaddexp2")
_XLOGY, _HEAVISIDE, _FMAX, _FMIN = op_id("xlogy"), op_id("heaviside"), op_id("fmax"), op_id("fmin")
_GCD, _BITWISE_AND, _BITWISE_OR, _BITWISE_XOR = op_id("gcd"), op_id("bitwise_and"), op_id("bitwise_or"), op_id("bitwise_xor")
_BITWISE_LEFT_SHIFT, _BITWISE_RIGHT_SHIFT = op_id("bitwise_left_shift"), op_id("bitwise_right_shift")
_POLYGAMMA, _ATTRIBUTES = op_id("polygamma"), ffi.typeof("gd_attr *")
_LARGEST = {"float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308, "bfloat16": 3.3895313892515355e38, "float16": 65504.0}


class Pointwise:
    """Integers and bools become float32 where a function needs floats."""

    __slots__ = ()
    _h: int

    def trunc(self: Tensor) -> Tensor:
        """The integer part: x rounded towards 0."""
        return unary(_TRUNC, self)

    def exp2(self: Tensor) -> Tensor:
        """``2 ** x``."""
        return unary(_EXP2, self)

    def log10(self: Tensor) -> Tensor:
        """The logarithm to base 10."""
        return unary(_LOG10, self)

    def tan(self: Tensor) -> Tensor:
        """The tangent; x in radians."""
        return unary(_TAN, self)

    def asin(self: Tensor) -> Tensor:
        """The arcsine, in radians; NaN outside [-1, 1]."""
        return unary(_ASIN, self)

    def acos(self: Tensor) -> Tensor:
        """The arccosine, in radians; NaN outside [-1, 1]."""
        return unary(_ACOS, self)

    def atan(self: Tensor) -> Tensor:
        """The arctangent, in radians."""
        return unary(_ATAN, self)

    def sinh(self: Tensor) -> Tensor:
        """The hyperbolic sine."""
        return unary(_SINH, self)

    def cosh(self: Tensor) -> Tensor:
        """The hyperbolic cosine."""
        return unary(_COSH, self)

    def asinh(self: Tensor) -> Tensor:
        """The inverse of ``sinh``."""
        return unary(_ASINH, self)

    def acosh(self: Tensor) -> Tensor:
        """The inverse of ``cosh``; NaN below 1."""
        return unary(_ACOSH, self)

    def atanh(self: Tensor) -> Tensor:
        """The inverse of ``tanh``; NaN outside [-1, 1]."""
        return unary(_ATANH, self)

    def erfc(self: Tensor) -> Tensor:
        """``1 - erf(x)``, accurate where that is small."""
        return unary(_ERFC, self)

    def erfinv(self: Tensor) -> Tensor:
        """The inverse of ``erf``; NaN outside [-1, 1]."""
        return unary(_ERFINV, self)

    def lgamma(self: Tensor) -> Tensor:
        """The logarithm of the absolute value of the gamma function."""
        return unary(_LGAMMA, self)

    def digamma(self: Tensor) -> Tensor:
        """The slope of ``lgamma``."""
        return unary(_DIGAMMA, self)

    def signbit(self: Tensor) -> Tensor:
        """Whether the sign is minus, also of -0 and NaN, as bool."""
        return unary(_SIGNBIT, self)

    def fmod(self: Tensor, other: Any) -> Tensor:
        """The remainder of the division, with the sign of ``self``, broadcast."""
        return combine("fmod", _FMOD, self, other)

    def atan2(self: Tensor, other: Any) -> Tensor:
        """The angle of the point (``other``, ``self``), in radians: ``atan(self / other)`` in the right quadrant."""
        return combine("atan2", _ATAN2, self, other)

    def hypot(self: Tensor, other: Any) -> Tensor:
        """``sqrt(self ** 2 + other ** 2)`` without overflow."""
        return combine("hypot", _HYPOT, self, other)

    def copysign(self: Tensor, other: Any) -> Tensor:
        """The size of ``self`` with the sign of ``other``."""
        return combine("copysign", _COPYSIGN, self, other)

    def nextafter(self: Tensor, other: Any) -> Tensor:
        """The next number after ``self`` towards ``other``."""
        return combine("nextafter", _NEXTAFTER, self, other)

    def logaddexp(self: Tensor, other: Any) -> Tensor:
        """``log(exp(self) + exp(other))`` without overflow."""
        return combine("logaddexp", _LOGADDEXP, self, other)

    def logaddexp2(self: Tensor, other: Any) -> Tensor:
        """``log2(2 ** self + 2 ** other)`` without overflow."""
        return combine("logaddexp2", _LOGADDEXP2, self, other)

    def xlogy(self: Tensor, other: Any) -> Tensor:
        """``self * log(other)``, and 0 where ``self`` is 0, unless ``other`` is NaN."""
        return combine("xlogy", _XLOGY, self, other)

    def heaviside(self: Tensor, values: Any) -> Tensor:
        """0 below 0, 1 above, ``values`` at 0; NaN stays NaN."""
        return combine("heaviside", _HEAVISIDE, self, values)

    def fmax(self: Tensor, other: Any) -> Tensor:
        """The larger of each pair; of NaN and a number the number. A tie's gradient goes to ``self``."""
        return combine("fmax", _FMAX, self, other)

    def fmin(self: Tensor, other: Any) -> Tensor:
        """The smaller of each pair; of NaN and a number the number. A tie's gradient goes to ``self``."""
        return combine("fmin", _FMIN, self, other)

    def gcd(self: Tensor, other: Any) -> Tensor:
        """The greatest common divisor of integers, at least 0."""
        return combine("gcd", _GCD, self, other)

    def bitwise_and(self: Tensor, other: Any) -> Tensor:
        """The bits that both have: of integers and bools."""
        return combine("bitwise_and", _BITWISE_AND, self, other)

    def bitwise_or(self: Tensor, other: Any) -> Tensor:
        """The bits that one has: of integers and bools."""
        return combine("bitwise_or", _BITWISE_OR, self, other)

    def bitwise_xor(self: Tensor, other: Any) -> Tensor:
        """The bits that exactly one has: of integers and bools."""
        return combine("bitwise_xor", _BITWISE_XOR, self, other)

    def bitwise_left_shift(self: Tensor, other: Any) -> Tensor:
        """The bits of an integer moved up by ``other`` places; what leaves is lost."""
        return combine("bitwise_left_shift", _BITWISE_LEFT_SHIFT, self, other)

    def bitwise_right_shift(self: Tensor, other: Any) -> Tensor:
        """The bits of an integer moved down by ``other`` places; the sign stays."""
        return combine("bitwise_right_shift", _BITWISE_RIGHT_SHIFT, self, other)

    def positive(self: Tensor) -> Tensor:
        """This tensor itself; bools have no sign."""
        if self.dtype is bool_:
            raise DTypeError("positive: not for bool tensors")
        return self

    def frac(self: Tensor) -> Tensor:
        """``x - trunc(x)``, of floats."""
        if not self.is_floating_point():
            raise DTypeError(f"frac: for floating point tensors; this one is {self.dtype}")
        return self - self.trunc()

    def sinc(self: Tensor) -> Tensor:
        """``sin(pi x) / (pi x)``, and 1 at 0."""
        angle = self * math.pi
        return _where(angle == 0, 1.0, angle.sin() / angle)

    def deg2rad(self: Tensor) -> Tensor:
        """Degrees as radians."""
        return self * (math.pi / 180)

    def rad2deg(self: Tensor) -> Tensor:
        """Radians as degrees."""
        return self * (180 / math.pi)

    def isinf(self: Tensor) -> Tensor:
        """Whether elements are infinite, as bool."""
        return (self == math.inf).logical_or(self == -math.inf)

    def isposinf(self: Tensor) -> Tensor:
        """Whether elements are positive infinity, as bool."""
        return self == math.inf

    def isneginf(self: Tensor) -> Tensor:
        """Whether elements are negative infinity, as bool."""
        return self == -math.inf

    def isreal(self: Tensor) -> Tensor:
        """True everywhere: there are no complex numbers."""
        with devices.beside(self):
            return wrap(lib.gd_full(self.ndim, self.shape, bool_.code, 1.0, 1))

    def logit(self: Tensor, eps: float | None = None) -> Tensor:
        """``log(x / (1 - x))``; with ``eps`` x is limited to [eps, 1 - eps] first."""
        x = self if self.is_floating_point() else self.to(get_default_dtype())
        if eps is not None and as_float("logit", eps) >= 0:
            x = x.clamp(eps, 1 - eps)
        return (x / (1 - x)).log()

    def nan_to_num(self: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """Numbers instead of NaN and infinities; by default 0 and the largest of the dtype. Gradients pass numbers only."""
        if not self.is_floating_point():
            return self.clone()
        largest = _LARGEST[self.dtype.name]
        result = _where(self.isnan(), 0.0 if nan is None else as_float("nan_to_num", nan), self)
        result = _where(self == math.inf, largest if posinf is None else as_float("nan_to_num", posinf), result)
        return _where(self == -math.inf, -largest if neginf is None else as_float("nan_to_num", neginf), result)

    def bitwise_not(self: Tensor) -> Tensor:
        """All bits turned over: of integers and bools."""
        return ~self

    def rsub(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
        """``other - alpha * self``."""
        return _operand(self, other).sub(self, alpha=alpha)

    def lcm(self: Tensor, other: Any) -> Tensor:
        """The least common multiple of integers, at least 0."""
        b = _operand(self, other)
        divisor = self.gcd(b)
        return (self.floor_divide(_where(divisor == 0, 1, divisor)) * b).abs()

    def lerp(self: Tensor, end: Tensor, weight: Any) -> Tensor:
        """``self + weight * (end - self)``, exact at both ends; ``weight`` is a number or a tensor."""
        if not isinstance(end, tensor_type()):
            raise DTypeError(f"lerp: end must be a tensor, got {shown(end)}")
        for t in (self, end, weight):
            if (isinstance(t, tensor_type()) and not t.is_floating_point()) or getattr(t, "dtype", self.dtype) is not self.dtype:
                raise DTypeError(f"lerp: for floating point tensors of one dtype; one is {t.dtype}")
        way = end - self
        if not isinstance(weight, tensor_type()):
            share = as_float("lerp", weight)
            return self + way * share if abs(share) < 0.5 else end - way * (1 - share)
        return _where(weight.abs() < 0.5, self + way * weight, end - way * (1 - weight))

    def float_power(self: Tensor, exponent: Any) -> Tensor:
        """``self ** exponent`` in float64."""
        return self.to(float64).pow(exponent.to(float64) if isinstance(exponent, tensor_type()) else as_float("float_power", exponent))

    def ldexp(self: Tensor, other: Any) -> Tensor:
        """``self * 2 ** other``."""
        return self * _operand(self, other).exp2()

    def polygamma(self: Tensor, n: int) -> Tensor:
        """The n-th derivative of ``digamma``, ``n >= 0``."""
        order = whole("polygamma", "n", n)
        if order < 0:
            raise InvalidValueError(f"polygamma: n is {order}, must be at least 0")
        if order == 0:
            return self.digamma()
        x, attributes = self if self.is_floating_point() else self.to(get_default_dtype()), ffi.new(_ATTRIBUTES)
        attributes.f[0] = order
        return wrap(lib.gd_call(_POLYGAMMA, [x._h], 1, attributes))

    def mvlgamma(self: Tensor, p: int) -> Tensor:
        """The logarithm of the p-variate gamma function: ``p (p - 1) / 4 log(pi) + sum_j lgamma(x - j / 2)``, j from 0 to p - 1."""
        count = whole("mvlgamma", "p", p)
        if not 1 <= count <= _MOST_TERMS:
            raise InvalidValueError(f"mvlgamma: p is {count}, must be from 1 to {_MOST_TERMS}")
        x = self if self.is_floating_point() else self.to(get_default_dtype())
        total = x.lgamma() + count * (count - 1) / 4 * math.log(math.pi)
        for j in range(1, count):
            total = total + (x - j / 2).lgamma()
        return total

    def clamp_min(self: Tensor, min: Any) -> Tensor:
        """x, but at least ``min``."""
        return self.clamp(min=min)

    def clamp_max(self: Tensor, max: Any) -> Tensor:
        """x, but at most ``max``."""
        return self.clamp(max=max)

    def isclose(self: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        """Where ``|self - other| <= atol + rtol * |other|``, or both are the same infinity, or with ``equal_nan`` both NaN."""
        if not isinstance(other, tensor_type()):
            raise DTypeError(f"isclose: expected a Tensor, got {shown(other)}")
        if self.dtype is not other.dtype:
            raise DTypeError(f"isclose: {self.dtype} and {other.dtype}: both must have one dtype")
        for name, tolerance in (("rtol", rtol), ("atol", atol)):
            if not as_float("isclose", tolerance) >= 0:
                raise InvalidValueError(f"isclose: {name} is {tolerance}, must be at least 0")
        a, b = self.detach(), other.detach()
        close = a == b
        if self.dtype is bool_:
            return close
        if rtol or atol:
            distance = (a - b).abs()
            close = close.logical_or((distance <= b.abs() * rtol + atol).logical_and(distance.isfinite()))
        return close.logical_or(a.isnan().logical_and(b.isnan())) if equal_nan else close

    def allclose(self: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether ``isclose`` holds everywhere."""
        return bool(self.isclose(other, rtol, atol, equal_nan).all())

    def equal(self: Tensor, other: Tensor) -> bool:
        """Whether two tensors have the same shape and elements."""
        if not isinstance(other, tensor_type()):
            raise DTypeError(f"equal: expected a Tensor, got {shown(other)}")
        return self.shape == other.shape and bool((self == other).all())

    def __lshift__(self: Tensor, other: Any) -> Tensor:
        return self.bitwise_left_shift(other)

    def __rlshift__(self: Tensor, other: Any) -> Tensor:
        return _operand(self, other).bitwise_left_shift(self)

    def __rshift__(self: Tensor, other: Any) -> Tensor:
        return self.bitwise_right_shift(other)

    def __rrshift__(self: Tensor, other: Any) -> Tensor:
        return _operand(self, other).bitwise_right_shift(self)

    def __round__(self: Tensor, ndigits: int | None = None) -> Tensor:
        return self.round(decimals=ndigits or 0)

    # PyTorch's other names of the same.
    fix = trunc
    arcsin = asin
    arccos = acos
    arctan = atan
    arcsinh = asinh
    arccosh = acosh
    arctanh = atanh
    arctan2 = atan2


def _where(condition: Tensor, a: Any, b: Any) -> Tensor:
    """``a`` where the condition holds, else ``b``; one may be a number, which takes the other's dtype."""
    like = a if isinstance(a, tensor_type()) else b
    return wrap(lib.gd_where(condition._h, _operand(like, a)._h, _operand(like, b)._h))
