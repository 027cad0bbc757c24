"""What every tensor function is built from: wrapping handles, and scalars as operands."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gradino._arguments import as_float, fits, refused_numbers, shown
from gradino._lib import ffi, lib, op_id, raise_error, text
from gradino.dtypes import bool_, int64
from gradino.errors import DTypeError, NumberRangeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

_FLOAT, _INT, _BOOL = lib.GD_FLOAT32, lib.GD_INT64, lib.GD_BOOL
_gd_unary, _gd_binary, _gd_binary_scalar = lib.gd_unary, lib.gd_binary, lib.gd_binary_scalar
_SIZES = ffi.typeof("int64_t[4]")
_DIV, _EQ, _NE, _LT, _GE = op_id("div"), op_id("eq"), op_id("ne"), op_id("lt"), op_id("ge")
_TRUE_BELOW = {_NE, _LT, op_id("le")}  # comparisons that hold between any element and a number above them all
_TRUE_ABOVE = {_NE, _GE, op_id("gt")}
_new = object.__new__
_tensor_type: type[Tensor]


def set_tensor_type(cls: type[Tensor]) -> None:
    """Called once by ``gradino.tensor``; breaks the import cycle."""
    global _tensor_type
    _tensor_type = cls


def tensor_type() -> type[Tensor]:
    """The class Tensor, for modules that it is built from."""
    return _tensor_type


def wrap(handle: int) -> Tensor:
    """A Tensor for a handle; handle 0 raises what went wrong."""
    if not handle:
        raise_error()
    tensor = _new(_tensor_type)
    tensor._h = handle
    return tensor


def call(name: str, function: Callable[..., int], *args: Any) -> Tensor:
    """The tensor that a function of the library makes, for functions whose users may give what is no number."""
    try:
        handle = function(*args)
    except (TypeError, OverflowError) as error:
        raise refused_numbers(name, error, args) from None
    return wrap(handle)


def unary(op: int, a: Tensor) -> Tensor:
    """Run a unary op."""
    handle = _gd_unary(op, a._h)
    if not handle:
        raise_error()
    tensor = _new(_tensor_type)
    tensor._h = handle
    return tensor


def binary(op: int, a: Tensor, b: Any, reverse: int = 0) -> Tensor:
    """Run a binary op for an operator; ``b`` may be a number or an array. ``reverse`` puts ``b`` on the left."""
    if isinstance(b, _tensor_type):
        handle = _gd_binary(op, b._h, a._h) if reverse else _gd_binary(op, a._h, b._h)
    else:
        handle = with_number(op, a, b, reverse)
        if handle is NotImplemented:
            return cast("Tensor", NotImplemented)
    if not handle:
        raise_error()
    tensor = _new(_tensor_type)
    tensor._h = handle
    return tensor


def combine(name: str, op: int, a: Tensor, b: Any) -> Tensor:
    """Run a binary op for a method or function, which raises where an operator lets ``b`` try."""
    result = binary(op, a, b)
    if cast(Any, result) is NotImplemented:
        raise DTypeError(f"{name}: expected a tensor, a number or an array, got {shown(b)}")
    return result


def with_number(op: int, a: Tensor, b: Any, reverse: int) -> Any:
    """A binary op with a Python or NumPy number (which does not decide the dtype) or an array."""
    if isinstance(b, (np.generic, np.ndarray)):
        if b.ndim:
            other = _tensor_type(b)
            return _gd_binary(op, other._h, a._h) if reverse else _gd_binary(op, a._h, other._h)
        b = b.item()
    if isinstance(b, bool):
        return _gd_binary_scalar(op, a._h, float(b), int(b), _BOOL, reverse)
    if isinstance(b, float):
        return _gd_binary_scalar(op, a._h, b, 0, _FLOAT, reverse)
    if isinstance(b, int):
        if -(2**31) <= b < 2**31:
            return _gd_binary_scalar(op, a._h, float(b), b, _INT, reverse)
        return _with_large_int(op, a, b, reverse)
    return NotImplemented


def _with_large_int(op: int, a: Tensor, b: int, reverse: int) -> int:
    """A binary op with an int that the dtype of ``a`` may not hold: comparisons and division are exact, the rest is refused.

    NumPy's rule. PyTorch takes the low bits of the number, so that with int32 ``0 == 2**40`` holds and ``0 < 2**31`` does not.
    """
    d = a.dtype
    if d.is_floating_point:
        return int(_gd_binary_scalar(op, a._h, as_float(text(lib.gd_op_name(op)), b), 0, _FLOAT, reverse))
    if fits(b, d):
        return int(_gd_binary_scalar(op, a._h, float(b), b, _INT, reverse))
    if op == _DIV:
        return int(_gd_binary_scalar(op, a._h, as_float("div", b), 0, _FLOAT, reverse))
    if op in _TRUE_BELOW or op in _TRUE_ABOVE or op == _EQ:
        lowest = -(2 ** (8 * d.itemsize - 1))
        always = op in (_TRUE_BELOW if (b > 0) != reverse else _TRUE_ABOVE)
        return int(_gd_binary_scalar(_GE if always else _LT, a._h, float(lowest), lowest, _INT, 0))
    raise NumberRangeError(f"{text(lib.gd_op_name(op))}: {shown(b)} does not fit {d.name if d is not bool_ else int64.name}")


def sizes(shape: Any, name: str = "shape") -> list[int]:
    """``(2, 3)`` from ``((2, 3),)`` or ``(2, 3)``: sizes may come as one sequence or one by one."""
    if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)):
        shape = shape[0]
    try:
        result = [int(s.__index__()) for s in shape]
    except (AttributeError, TypeError):
        raise DTypeError(f"{name}: sizes and dimensions must be integers, got {shape!r}") from None
    for s in result:
        if not -(2**63) <= s < 2**63:
            raise NumberRangeError(f"{name}: {shown(s)} does not fit int64")
    return result


def dims(dim: Any, name: str = "dim") -> list[int]:
    """The dimensions of a reduction; empty means all."""
    if dim is None:
        return []
    if type(dim) is int:
        return [dim]
    try:
        if isinstance(dim, bool):
            raise TypeError
        return [dim.__index__()] if hasattr(dim, "__index__") else [operator.index(d) for d in dim]
    except TypeError:
        raise DTypeError(f"{name}: dim must be an int or several, got {shown(dim)}") from None


def handle_of(op: str, value: Any) -> int:
    """The handle of an argument that must be a tensor."""
    try:
        return value._h  # type: ignore[no-any-return]
    except AttributeError:
        raise DTypeError(f"{op}: expected a Tensor, got {type(value).__name__}") from None


class Size(tuple[int, ...]):
    """A shape: a tuple that knows its number of elements."""

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        return math.prod(self)


def shape_of(handle: int) -> Size:
    """Logical shape of a tensor."""
    out = ffi.new(_SIZES)
    rank = lib.gd_shape(handle, out)
    if rank < 0:
        raise_error()
    return Size(ffi.unpack(out, rank))
