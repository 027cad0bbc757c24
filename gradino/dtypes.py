"""Element types: ``float32`` (the default), ``float64``, ``bfloat16``, ``float16``, ``int64``, ``int32``, ``bool``."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradino.errors import DTypeError

__all__ = [
    "dtype", "float32", "float64", "int64", "int32", "bool_", "bfloat16", "float16", "can_cast", "from_numpy_dtype",
    "get_default_dtype", "promote_types", "resolve", "set_default_dtype",
]  # fmt: skip


class dtype:  # noqa: N801  (PyTorch's name)
    """One element type. ``itemsize`` is in bytes; ``numpy`` is NumPy's equal, None for bfloat16, which it lacks."""

    __slots__ = ("name", "code", "itemsize", "is_floating_point", "numpy")
    is_floating_point: bool
    numpy: Any

    def __init__(self, name: str, code: int, numpy: Any, itemsize: int = 2) -> None:
        self.name = name
        self.code = code
        self.numpy = None if numpy is None else np.dtype(numpy)
        self.itemsize = itemsize if self.numpy is None else self.numpy.itemsize
        self.is_floating_point = self.numpy is None or self.numpy.kind == "f"

    @property
    def is_complex(self) -> bool:
        """False: there are no complex numbers."""
        return False

    @property
    def is_signed(self) -> bool:
        """Whether there are negative values: in all dtypes but bool."""
        return self.name != "bool"

    def __repr__(self) -> str:
        return f"gradino.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return resolve, (self.name,)


float32 = dtype("float32", 0, np.float32)
float64 = dtype("float64", 1, np.float64)
int64 = dtype("int64", 2, np.int64)
int32 = dtype("int32", 3, np.int32)
bool_ = dtype("bool", 4, np.bool_)
bfloat16 = dtype("bfloat16", 5, None)
float16 = dtype("float16", 6, np.float16)

BY_CODE = (float32, float64, int64, int32, bool_, bfloat16, float16)
FLOAT_CODES = frozenset(d.code for d in BY_CODE if d.is_floating_point)
HALVES = (bfloat16, float16)
_BY_NAME = {d.name: d for d in BY_CODE}
_BY_NUMPY = {d.numpy: d for d in BY_CODE if d.numpy is not None}
NUMPY = frozenset(_BY_NUMPY)  # NumPy's dtypes that have an equal here
_BY_PYTHON = {float: float64, int: int64, bool: bool_}


def resolve(value: Any) -> dtype:
    """A dtype from itself, its name, a NumPy dtype, or ``float`` (float64), ``int``, ``bool``."""
    if isinstance(value, dtype):
        return value
    found = _BY_NAME.get(value) if isinstance(value, str) else _BY_PYTHON.get(value) if isinstance(value, type) else None
    if found is None and isinstance(value, (str, type, np.dtype)):
        try:
            found = _BY_NUMPY.get(np.dtype(value))
        except (TypeError, ValueError):
            found = None
    if found is None:
        what = repr(value) if isinstance(value, (str, type, np.dtype)) else f"a {type(value).__name__}"
        raise DTypeError(f"dtype {what} is not supported: use one of {', '.join(_BY_NAME)}")
    return found


_default = [float32]


def get_default_dtype() -> dtype:
    """The dtype of floats that nothing else decides: of Python floats, factories, and integers where floats are needed."""
    return _default[0]


def set_default_dtype(d: Any) -> None:
    """Choose the default dtype, a floating point one; float32 unless set."""
    from gradino._lib import check, lib

    found = resolve(d)
    check(lib.gd_set_default_dtype(found.code))
    _default[0] = found


def can_cast(from_: Any, to: Any) -> bool:
    """Whether values of one dtype may become another in place: not floats integers, nor anything but bools bools.

    >>> import gradino as gd
    >>> gd.can_cast(gd.int64, gd.float32), gd.can_cast(gd.float32, gd.int64)
    (True, False)
    """
    a, b = resolve(from_), resolve(to)
    return not (a.is_floating_point and not b.is_floating_point) and (b is not bool_ or a is bool_)


def promote_types(type1: Any, type2: Any) -> dtype:
    """The dtype of a result that two tensors of these dtypes make.

    >>> import gradino as gd
    >>> gd.promote_types(gd.bfloat16, gd.float16)
    gradino.float32
    """
    a, b = resolve(type1), resolve(type2)
    if a is not b and a in HALVES and b in HALVES:
        return float32
    return max(a, b, key=_WIDTHS.index)


_WIDTHS = (bool_, int32, int64, bfloat16, float16, float32, float64)


def from_numpy_dtype(value: Any) -> dtype:
    """The dtype that holds every value of a NumPy dtype; small integers widen to int64."""
    found = _BY_NUMPY.get(value)
    if found is None and value.kind in "iu" and value.itemsize < 8:
        found = int64
    if found is None:
        raise DTypeError(f"NumPy arrays of dtype {value} are not supported: convert to one of {', '.join(_BY_NAME)} first")
    return found
