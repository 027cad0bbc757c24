"""What every tensor function is built from: wrapping handles, and scalars as operands."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gradino._lib import ffi, lib, op_id, raise_error, text
from gradino.dtypes import bool_, dtype, int64
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


def unary(op: int, a: Tensor) -> Tensor:
    """Run a unary op."""
    handle = _gd_unary(op, a._h)
    if not handle:
        raise_error()
    tensor = _new(_tensor_type)
    tensor._h = handle
    return tensor


def binary(op: int, a: Tensor, b: Any, reverse: int = 0) -> Tensor:
    """Run a binary op; ``b`` may be a number or an array. ``reverse`` puts ``b`` on the left."""
    if isinstance(b, _tensor_type):
        handle = _gd_binary(op, a._h, b._h)
    else:
        handle = with_number(op, a, b, reverse)
        if handle is NotImplemented:
            return cast("Tensor", NotImplemented)
    if not handle:
        raise_error()
    tensor = _new(_tensor_type)
    tensor._h = handle
    return tensor


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
    if fits(b, int64 if d is bool_ else d):
        return int(_gd_binary_scalar(op, a._h, float(b), b, _INT, reverse))
    if op == _DIV:
        return int(_gd_binary_scalar(op, a._h, as_float("div", b), 0, _FLOAT, reverse))
    if op in _TRUE_BELOW or op in _TRUE_ABOVE or op == _EQ:
        lowest = -(2 ** (8 * d.itemsize - 1))
        always = op in (_TRUE_BELOW if (b > 0) != reverse else _TRUE_ABOVE)
        return int(_gd_binary_scalar(_GE if always else _LT, a._h, float(lowest), lowest, _INT, 0))
    raise NumberRangeError(f"{text(lib.gd_op_name(op))}: {_shown(b)} does not fit {d.name if d is not bool_ else int64.name}")


def fits(value: int, d: dtype) -> bool:
    """Whether an integer dtype can hold a number."""
    beyond = 1 << (8 * int(d.itemsize) - 1)
    return -beyond <= value < beyond


def as_float(name: str, value: Any) -> float:
    """A number as a Python float, which has room for 1024 bits."""
    try:
        return float(value)
    except OverflowError:
        raise NumberRangeError(f"{name}: {_shown(value)} does not fit float64") from None
    except (TypeError, ValueError):
        raise DTypeError(f"{name}: expected a number, got {type(value).__name__}") from None


def _shown(value: float) -> str:
    bits = value.bit_length() if isinstance(value, int) else 0
    return f"an integer of {bits} bits" if bits > 128 else f"the number {value}"


def sizes(shape: Any) -> list[int]:
    """``(2, 3)`` from ``((2, 3),)`` or ``(2, 3)``: sizes may come as one sequence or one by one."""
    if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)):
        shape = shape[0]
    try:
        result = [int(s.__index__()) for s in shape]
    except (AttributeError, TypeError):
        raise DTypeError(f"a shape must be integers, got {shape!r}") from None
    for s in result:
        if not -(2**63) <= s < 2**63:
            raise NumberRangeError(f"a shape: {_shown(s)} does not fit 64 bits")
    return result


def dims(dim: Any) -> list[int]:
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
        raise DTypeError(f"dim must be an int or several, got {dim!r}") from None


def handle_of(op: str, value: Any) -> int:
    """The handle of an argument that must be a tensor."""
    try:
        return value._h  # type: ignore[no-any-return]
    except AttributeError:
        raise DTypeError(f"{op}: expected a Tensor, got {type(value).__name__}") from None


def shape_of(handle: int) -> tuple[int, ...]:
    """Logical shape of a tensor."""
    out = ffi.new(_SIZES)
    rank = lib.gd_shape(handle, out)
    if rank < 0:
        raise_error()
    return tuple(ffi.unpack(out, rank))


def whole_number(name: str, value: float, d: dtype) -> int:
    """``value`` as the integer that a tensor of dtype ``d`` would hold; 0 for a floating point one."""
    if d.is_floating_point:
        return 0
    if not math.isfinite(as_float(name, value)) or not fits(int(value), int64 if d is bool_ else d):
        raise NumberRangeError(f"{name}: {_shown(value)} does not fit {d.name}")
    return int(value)
