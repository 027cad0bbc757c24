"""What functions ask of the numbers they are given; each error names the function, the argument and the value."""

from __future__ import annotations

import math
import operator
from typing import Any

from gradino.dtypes import bool_, dtype, int64
from gradino.errors import DTypeError, GradinoError, InvalidValueError, NumberRangeError, OutOfRangeError

__all__ = ["as_float", "entry", "fits", "flag", "probability", "refused_numbers", "shown", "whole", "whole_number"]

_PLAIN = (str, bytes, bool, int, float, complex, type(None))
_LONGEST = 40  # characters of a value in a message


def shown(value: Any) -> str:
    """A value for a message: as it is written if that is short, else what it is."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if not isinstance(value, _PLAIN) or len(repr(value)) > _LONGEST:
        return f"a {type(value).__name__}"
    return repr(value)


def fits(value: int, d: dtype) -> bool:
    """Whether an integer dtype can hold a number; bool counts as int64, in which it is computed."""
    beyond = 1 << (8 * int((int64 if d is bool_ else d).itemsize) - 1)
    return -beyond <= value < beyond


def as_float(name: str, value: Any) -> float:
    """A number as a Python float, which has room for 1024 bits."""
    try:
        if isinstance(value, (str, bytes, bytearray)):
            raise TypeError
        return float(value)
    except OverflowError:
        raise NumberRangeError(f"{name}: {shown(value)} does not fit float64") from None
    except GradinoError:
        raise
    except (TypeError, ValueError):
        raise DTypeError(f"{name}: expected a number, got {shown(value)}") from None


def whole_number(name: str, value: Any, d: dtype) -> int:
    """``value`` as the integer that a tensor of dtype ``d`` would hold; 0 for a floating point one."""
    if d.is_floating_point:
        return 0
    if not math.isfinite(as_float(name, value)) or not fits(int(value), d):
        raise NumberRangeError(f"{name}: {shown(value)} does not fit {d.name}")
    return int(value)


def whole(name: str, argument: str, value: Any) -> int:
    """An argument that must be an integer of at most 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise DTypeError(f"{name}: {argument} must be an integer, got {shown(value)}") from None
    if not fits(number, int64):
        raise NumberRangeError(f"{name}: {argument} is {shown(number)}, which does not fit int64")
    return number


def entry(name: str, values: tuple[int, ...], dim: Any) -> int:
    """The size or stride of one dimension, which must exist."""
    at = whole(name, "dim", dim)
    if not -len(values) <= at < len(values):
        raise OutOfRangeError(f"{name}: dim {at} is out of range: there are {len(values)} dimensions")
    return values[at]


def probability(name: str, argument: str, value: Any) -> float:
    """An argument that must lie in [0, 1]."""
    number = as_float(f"{name}: {argument}", value)
    if isinstance(value, bool) or not 0 <= number <= 1:
        raise InvalidValueError(f"{name}: {argument} is {shown(value)}, must be in [0, 1]")
    return number


def flag(name: str, argument: str, value: Any) -> bool:
    """An argument that must be True or False."""
    if not isinstance(value, bool):
        raise DTypeError(f"{name}: {argument} must be a bool, got {shown(value)}")
    return value


def refused_numbers(name: str, why: Exception, values: tuple[Any, ...]) -> GradinoError:
    """The error for values that the library took for no numbers of its own kind, or found too large."""
    if isinstance(why, OverflowError):
        large = next((v for v in values if isinstance(v, int) and not fits(v, int64)), None)
        return NumberRangeError(f"{name}: {why}" if large is None else f"{name}: {shown(large)} does not fit int64")
    return DTypeError(f"{name}: {why}, got {', '.join(shown(v) for v in values if not isinstance(v, int))}")
