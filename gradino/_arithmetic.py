"""Elementwise operators and methods of Tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradino._arguments import as_float, shown, whole, whole_number
from gradino._core import binary, combine, handle_of, tensor_type, unary, wrap
from gradino._lib import lib, op_id, raise_error
from gradino.dtypes import FLOAT_CODES
from gradino.errors import DTypeError, InvalidValueError, ShapeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Arithmetic"]

_NEG, _ABS, _SIGN, _SQUARE, _RELU = op_id("neg"), op_id("abs"), op_id("sign"), op_id("square"), op_id("relu")
_FLOOR, _CEIL, _ROUND = op_id("floor"), op_id("ceil"), op_id("round")
_SQRT, _RSQRT, _RECIPROCAL = op_id("sqrt"), op_id("rsqrt"), op_id("reciprocal")
_EXP, _EXPM1, _LOG, _LOG1P, _LOG2 = op_id("exp"), op_id("expm1"), op_id("log"), op_id("log1p"), op_id("log2")
_SIN, _COS, _TANH, _SIGMOID, _ERF = op_id("sin"), op_id("cos"), op_id("tanh"), op_id("sigmoid"), op_id("erf")
_NOT, _ISNAN, _ISFINITE = op_id("logical_not"), op_id("isnan"), op_id("isfinite")
_ADD, _SUB, _MUL, _DIV, _POW = op_id("add"), op_id("sub"), op_id("mul"), op_id("div"), op_id("pow")
_FLOORDIV, _REMAINDER = op_id("floor_divide"), op_id("remainder")
_MAXIMUM, _MINIMUM = op_id("maximum"), op_id("minimum")
_EQ, _NE, _LT, _LE, _GT, _GE = op_id("eq"), op_id("ne"), op_id("lt"), op_id("le"), op_id("gt"), op_id("ge")
_AND, _OR, _XOR = op_id("logical_and"), op_id("logical_or"), op_id("logical_xor")
_BITS_AND, _BITS_OR, _BITS_XOR = op_id("bitwise_and"), op_id("bitwise_or"), op_id("bitwise_xor")
_TRUNC = op_id("trunc")
_POWERS = {2: _SQUARE, 0.5: _SQRT, -0.5: _RSQRT, -1: _RECIPROCAL}  # of floats, as PyTorch computes them
_NAN = float("nan")


class Arithmetic:
    """Operators follow PyTorch's promotion: numbers and scalar tensors do not widen a tensor's dtype."""

    __slots__ = ()
    _h: int

    def __add__(self: Tensor, other: Any) -> Tensor:
        return binary(_ADD, self, other)

    def __radd__(self: Tensor, other: Any) -> Tensor:
        return binary(_ADD, self, other, 1)

    def __sub__(self: Tensor, other: Any) -> Tensor:
        return binary(_SUB, self, other)

    def __rsub__(self: Tensor, other: Any) -> Tensor:
        return binary(_SUB, self, other, 1)

    def __mul__(self: Tensor, other: Any) -> Tensor:
        return binary(_MUL, self, other)

    def __rmul__(self: Tensor, other: Any) -> Tensor:
        return binary(_MUL, self, other, 1)

    def __truediv__(self: Tensor, other: Any) -> Tensor:
        return binary(_DIV, self, other)

    def __rtruediv__(self: Tensor, other: Any) -> Tensor:
        return binary(_DIV, self, other, 1)

    def __floordiv__(self: Tensor, other: Any) -> Tensor:
        return binary(_FLOORDIV, self, other)

    def __rfloordiv__(self: Tensor, other: Any) -> Tensor:
        return binary(_FLOORDIV, self, other, 1)

    def __mod__(self: Tensor, other: Any) -> Tensor:
        return binary(_REMAINDER, self, other)

    def __rmod__(self: Tensor, other: Any) -> Tensor:
        return binary(_REMAINDER, self, other, 1)

    def __pow__(self: Tensor, other: Any) -> Tensor:
        op = _POWERS.get(other) if isinstance(other, (int, float)) else None
        return binary(_POW, self, other) if op is None or lib.gd_dtype_of(self._h) not in FLOAT_CODES else unary(op, self)

    def __rpow__(self: Tensor, other: Any) -> Tensor:
        return binary(_POW, self, other, 1)

    def __matmul__(self: Tensor, other: Any) -> Tensor:
        factor = _matrix(other)
        return NotImplemented if factor is None else wrap(lib.gd_matmul(self._h, factor._h))

    def __rmatmul__(self: Tensor, other: Any) -> Tensor:
        factor = _matrix(other)
        return NotImplemented if factor is None else wrap(lib.gd_matmul(factor._h, self._h))

    def __neg__(self: Tensor) -> Tensor:
        return unary(_NEG, self)

    def __pos__(self: Tensor) -> Tensor:
        return self

    def __abs__(self: Tensor) -> Tensor:
        return unary(_ABS, self)

    def __invert__(self: Tensor) -> Tensor:
        code = lib.gd_dtype_of(self._h)
        if code in FLOAT_CODES:
            raise DTypeError(f"~: for bool and integer tensors; this one is {self.dtype}")
        return unary(_NOT, self) if code == lib.GD_BOOL else -1 - self  # two's complement

    def __and__(self: Tensor, other: Any) -> Tensor:
        return binary(_BITS_AND, self, other)

    __rand__ = __and__

    def __or__(self: Tensor, other: Any) -> Tensor:
        return binary(_BITS_OR, self, other)

    __ror__ = __or__

    def __xor__(self: Tensor, other: Any) -> Tensor:
        return binary(_BITS_XOR, self, other)

    __rxor__ = __xor__

    def __eq__(self: Tensor, other: Any) -> Tensor:  # type: ignore[override]
        return binary(_EQ, self, other)

    def __ne__(self: Tensor, other: Any) -> Tensor:  # type: ignore[override]
        return binary(_NE, self, other)

    def __lt__(self: Tensor, other: Any) -> Tensor:
        return binary(_LT, self, other)

    def __le__(self: Tensor, other: Any) -> Tensor:
        return binary(_LE, self, other)

    def __gt__(self: Tensor, other: Any) -> Tensor:
        return binary(_GT, self, other)

    def __ge__(self: Tensor, other: Any) -> Tensor:
        return binary(_GE, self, other)

    __hash__ = object.__hash__

    def add(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
        """``self + alpha * other``, broadcast."""
        return combine("add", _ADD, self, _scaled("add", other, alpha))

    def sub(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
        """``self - alpha * other``, broadcast."""
        return combine("sub", _SUB, self, _scaled("sub", other, alpha))

    def mul(self: Tensor, other: Any) -> Tensor:
        """``self * other``, broadcast."""
        return combine("mul", _MUL, self, other)

    def div(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """``self / other``, broadcast; integers give float32. ``rounding_mode``: ``"trunc"`` rounds the quotient towards 0,
        ``"floor"`` towards minus infinity; integers stay integers then.
        """
        if rounding_mode is None:
            return combine("div", _DIV, self, other)
        if rounding_mode == "floor":
            return combine("div", _FLOORDIV, self, other)
        if rounding_mode != "trunc":
            raise InvalidValueError(f"div: rounding_mode is {rounding_mode!r}, must be None, 'trunc' or 'floor'")
        quotient = combine("div", _FLOORDIV, self, other)
        if quotient.dtype.is_floating_point:
            return unary(_TRUNC, combine("div", _DIV, self, other))
        rest = combine("div", _REMAINDER, self, other)  # has the sign of the divisor: the floor is one too low if that of self differs
        return quotient + (rest != 0).logical_and((self < 0) != (other < 0))

    def pow(self: Tensor, exponent: Any) -> Tensor:
        """``self ** exponent``, broadcast."""
        op = _POWERS.get(exponent) if isinstance(exponent, (int, float)) else None
        if op is not None and lib.gd_dtype_of(self._h) in FLOAT_CODES:
            return unary(op, self)
        return combine("pow", _POW, self, exponent)

    def floor_divide(self: Tensor, other: Any) -> Tensor:
        """The quotient rounded towards minus infinity."""
        return combine("floor_divide", _FLOORDIV, self, other)

    def remainder(self: Tensor, other: Any) -> Tensor:
        """The remainder, with the sign of the divisor."""
        return combine("remainder", _REMAINDER, self, other)

    def maximum(self: Tensor, other: Tensor) -> Tensor:
        """The larger of each pair; NaN if one is NaN. Ties share the gradient."""
        return combine("maximum", _MAXIMUM, self, other)

    def minimum(self: Tensor, other: Tensor) -> Tensor:
        """The smaller of each pair; NaN if one is NaN. Ties share the gradient."""
        return combine("minimum", _MINIMUM, self, other)

    def eq(self: Tensor, other: Any) -> Tensor:
        """``self == other`` as bool."""
        return combine("eq", _EQ, self, other)

    def ne(self: Tensor, other: Any) -> Tensor:
        """``self != other`` as bool."""
        return combine("ne", _NE, self, other)

    def lt(self: Tensor, other: Any) -> Tensor:
        """``self < other`` as bool."""
        return combine("lt", _LT, self, other)

    def le(self: Tensor, other: Any) -> Tensor:
        """``self <= other`` as bool."""
        return combine("le", _LE, self, other)

    def gt(self: Tensor, other: Any) -> Tensor:
        """``self > other`` as bool."""
        return combine("gt", _GT, self, other)

    def ge(self: Tensor, other: Any) -> Tensor:
        """``self >= other`` as bool."""
        return combine("ge", _GE, self, other)

    def logical_and(self: Tensor, other: Any) -> Tensor:
        """Whether both are not 0, as bool."""
        return combine("logical_and", _AND, self, other)

    def logical_or(self: Tensor, other: Any) -> Tensor:
        """Whether one is not 0, as bool."""
        return combine("logical_or", _OR, self, other)

    def logical_xor(self: Tensor, other: Any) -> Tensor:
        """Whether exactly one is not 0, as bool."""
        return combine("logical_xor", _XOR, self, other)

    def logical_not(self: Tensor) -> Tensor:
        """Whether elements are 0, as bool."""
        return unary(_NOT, self)

    def neg(self: Tensor) -> Tensor:
        """``-x``."""
        return unary(_NEG, self)

    def abs(self: Tensor) -> Tensor:
        """``|x|``; its slope at 0 is 0."""
        return unary(_ABS, self)

    def sign(self: Tensor) -> Tensor:
        """-1, 0 or 1; NaN stays NaN."""
        return self.clone() if lib.gd_dtype_of(self._h) == lib.GD_BOOL else unary(_SIGN, self)

    def square(self: Tensor) -> Tensor:
        """``x * x``; bools count as int64."""
        return self.long() if lib.gd_dtype_of(self._h) == lib.GD_BOOL else unary(_SQUARE, self)

    def relu(self: Tensor) -> Tensor:
        """``max(x, 0)``; NaN stays NaN."""
        return unary(_RELU, self)

    def floor(self: Tensor) -> Tensor:
        """The largest integer not above x."""
        return unary(_FLOOR, self)

    def ceil(self: Tensor) -> Tensor:
        """The smallest integer not below x."""
        return unary(_CEIL, self)

    def round(self: Tensor, *, decimals: int = 0) -> Tensor:
        """The nearest integer; halves go to the even one. With ``decimals`` the nearest multiple of ``10 ** -decimals``, of floats."""
        places = whole("round", "decimals", decimals)
        if places == 0:
            return unary(_ROUND, self)
        if lib.gd_dtype_of(self._h) not in FLOAT_CODES:
            raise DTypeError(f"round: decimals={places} is for floating point tensors; this one is {self.dtype}")
        scale = 10.0 ** abs(places)
        return unary(_ROUND, self * scale) / scale if places > 0 else unary(_ROUND, self / scale) * scale

    def sqrt(self: Tensor) -> Tensor:
        """The square root."""
        return unary(_SQRT, self)

    def rsqrt(self: Tensor) -> Tensor:
        """``1 / sqrt(x)``."""
        return unary(_RSQRT, self)

    def reciprocal(self: Tensor) -> Tensor:
        """``1 / x``."""
        return unary(_RECIPROCAL, self)

    def exp(self: Tensor) -> Tensor:
        """``e ** x``."""
        return unary(_EXP, self)

    def expm1(self: Tensor) -> Tensor:
        """``e ** x - 1``, accurate near 0."""
        return unary(_EXPM1, self)

    def log(self: Tensor) -> Tensor:
        """The natural logarithm."""
        return unary(_LOG, self)

    def log1p(self: Tensor) -> Tensor:
        """``log(1 + x)``, accurate near 0."""
        return unary(_LOG1P, self)

    def log2(self: Tensor) -> Tensor:
        """The logarithm to base 2."""
        return unary(_LOG2, self)

    def sin(self: Tensor) -> Tensor:
        """The sine; x in radians."""
        return unary(_SIN, self)

    def cos(self: Tensor) -> Tensor:
        """The cosine; x in radians."""
        return unary(_COS, self)

    def tanh(self: Tensor) -> Tensor:
        """The hyperbolic tangent."""
        return unary(_TANH, self)

    def sigmoid(self: Tensor) -> Tensor:
        """``1 / (1 + exp(-x))``."""
        return unary(_SIGMOID, self)

    def erf(self: Tensor) -> Tensor:
        """The error function, ``2/sqrt(pi)`` times the integral of ``exp(-t^2)`` from 0 to x."""
        return unary(_ERF, self)

    def isnan(self: Tensor) -> Tensor:
        """Whether elements are NaN, as bool."""
        return unary(_ISNAN, self)

    def isfinite(self: Tensor) -> Tensor:
        """Whether elements are neither NaN nor infinite, as bool."""
        return unary(_ISFINITE, self)

    def clamp(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
        """x limited to [min, max], numbers or tensors; NaN stays NaN. The slope is 1 inside and at bounds that are numbers."""
        if lib.gd_dtype_of(self._h) == lib.GD_BOOL and any(isinstance(x, int) and not isinstance(x, bool) for x in (min, max)):
            return self.long().clamp(min, max)
        if not (_is_plain(self, min) and _is_plain(self, max)):
            bounded = self if min is None else combine("clamp", _MAXIMUM, self, min)
            return bounded if max is None else combine("clamp", _MINIMUM, bounded, max)
        return wrap(lib.gd_clamp(self._h, *(_NAN if x is None else as_float("clamp", x) for x in (min, max))))

    clip = clamp
    # PyTorch's other names of the same.
    absolute, negative, sgn = abs, neg, sign
    multiply, divide, true_divide, subtract = mul, div, div, sub
    greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne

    def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
        """``self`` where ``condition`` holds, else ``other``."""
        return wrap(lib.gd_where(handle_of("where", condition), self._h, _operand(self, other)._h))

    def masked_fill(self: Tensor, mask: Tensor, value: Any) -> Tensor:
        """``value``, a number or a tensor without dimensions, in the dtype of ``self`` where ``mask`` holds, else ``self``."""
        d, m = self.dtype, handle_of("masked_fill", mask)
        if isinstance(value, tensor_type()):
            if value.ndim:
                raise ShapeError(f"masked_fill: value has shape {value.shape}, must be a number or a tensor without dimensions")
            return wrap(lib.gd_where(m, value.to(d)._h, self._h))
        number = lib.gd_scalar(as_float("masked_fill", value), whole_number("masked_fill", value, d), d.code)
        return wrap(lib.gd_where(m, number, self._h))


def _scaled(name: str, other: Any, alpha: Any) -> Any:
    """``alpha * other``; what cannot be an operand is left for the op to refuse."""
    if not isinstance(alpha, (bool, int, float, np.number)):
        raise DTypeError(f"{name}: alpha must be a number, got {shown(alpha)}")
    is_operand = isinstance(other, (tensor_type(), bool, int, float, np.generic, np.ndarray))
    return other * alpha if is_operand and alpha != 1 else other


def _operand(like: Tensor, other: Any) -> Tensor:
    from gradino.tensor import Tensor

    if isinstance(other, Tensor):
        return other
    return wrap(_weak(like, other)) if isinstance(other, (bool, int, float)) else Tensor(other)


def _weak(like: Tensor, value: float) -> int:
    """Handle of a number that does not decide the dtype of a result with ``like``."""
    d = like.dtype
    if d.is_floating_point:
        kind, whole = d.code, 0
    elif isinstance(value, float):
        kind, whole = lib.gd_default_dtype(), 0
    else:
        kind = lib.GD_BOOL if isinstance(value, bool) else lib.GD_INT64
        whole = whole_number("a number beside a tensor", value, d)
    return int(lib.gd_scalar(as_float("a number beside a tensor", value), whole, kind)) or raise_error()


def _matrix(other: Any) -> Tensor | None:
    """The other factor of a matrix product: a tensor or an array with dimensions, else None."""
    from gradino.tensor import Tensor

    if isinstance(other, Tensor):
        return other
    return Tensor(other) if isinstance(other, np.ndarray) and other.ndim else None


def _is_plain(a: Tensor, bound: Any) -> bool:
    """Whether the clamp kernel can take this bound: none, or a number that a float64 and the dtype of ``a`` can hold."""
    if bound is None:
        return True
    if isinstance(bound, float):
        return bound == bound and lib.gd_dtype_of(a._h) in FLOAT_CODES
    return isinstance(bound, int) and abs(bound) <= 2**53
