"""Making tensors of what Python holds: numbers, nested lists, arrays, other tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradino import dtypes
from gradino._arguments import whole_number
from gradino._core import tensor_type, wrap
from gradino._lib import check, ffi, lib, raise_error
from gradino.arena import step_arena
from gradino.dtypes import dtype
from gradino.errors import DTypeError, ShapeError
from gradino.grad_mode import no_grad

__all__ = ["foreign_array", "from_data"]


def from_data(data: Any, dtype: Any = None) -> int:
    """Handle of a new tensor that holds a copy of ``data``: numbers, nested lists, arrays, tensors."""
    if isinstance(data, tensor_type()):
        wanted = data.dtype if dtype is None else dtypes.resolve(dtype)
        with no_grad():
            return wrap(lib.gd_cast(lib.gd_detach(data._h), wanted.code)).clone()._h
    is_array, doubles = isinstance(data, (np.ndarray, np.generic)), False
    if isinstance(data, (list, tuple)):
        kinds = _kinds(data, set())
        if any(issubclass(k, tensor_type()) for k in kinds if isinstance(k, type)):
            data = _untensor(data)
        doubles = not kinds.isdisjoint(_DOUBLES)
    try:
        array = np.asarray(data)
    except ValueError:
        raise ShapeError(f"tensor: the {type(data).__name__} is ragged: at each depth all parts must have one length") from None
    if dtype is not None:
        wanted = dtypes.resolve(dtype)
    elif is_array:
        wanted = dtypes.from_numpy_dtype(array.dtype)
    elif array.dtype.kind == "f":
        wanted = dtypes.float64 if doubles else dtypes.get_default_dtype()
    elif array.dtype == object or array.dtype.kind not in "iub":
        wanted = dtypes.int64  # refused below
    else:
        wanted = dtypes.int64 if array.dtype.kind == "u" else dtypes.from_numpy_dtype(array.dtype)
    if array.dtype.kind not in "fiub":
        for number in array.flat if array.dtype == object else ():
            if isinstance(number, int):
                whole_number("tensor", number, dtypes.int64 if wanted.is_floating_point else wanted)  # raises: int64 had no room
        raise DTypeError(f"tensor: cannot make a tensor of {type(data).__name__} values of NumPy dtype {array.dtype}: they must be numbers")
    if wanted.numpy is None or (wanted is dtypes.float16 and array.dtype != wanted.numpy):
        return _rounded(array, wanted)
    if array.dtype != wanted.numpy:
        array = _converted(array, wanted, checked=not is_array)
    array = np.ascontiguousarray(array).reshape(array.shape)
    handle = lib.gd_from_data(array.ndim, array.shape, wanted.code, ffi.from_buffer(array))
    return int(handle) or raise_error()


def _rounded(array: np.ndarray[Any, Any], wanted: dtype) -> int:
    """Handle of bfloat16 or float16 numbers, each rounded once; NumPy lacks the one and rounds twice to the other."""
    if array.dtype not in dtypes.NUMPY:
        array = array.astype(np.float64 if array.dtype.kind == "f" or array.dtype == np.uint64 else np.int64)
    handle = int(lib.gd_empty(array.ndim, array.shape, wanted.code)) or raise_error()
    with step_arena():
        check(lib.gd_copy_in(handle, from_data(array)))
    return handle


_DOUBLES = frozenset((np.float64, dtypes.float64, dtypes.float64.numpy))


def _kinds(data: Any, found: set[Any]) -> set[Any]:
    """Types of all that nested lists hold, and dtypes of the arrays and tensors among it."""
    for x in data:
        if isinstance(x, (list, tuple)):
            _kinds(x, found)
        else:
            found.add(type(x))
            if isinstance(x, (np.ndarray, tensor_type())):
                found.add(x.dtype)
    return found


def _untensor(data: Any) -> Any:
    return [x.tolist() if isinstance(x, tensor_type()) else _untensor(x) if isinstance(x, (list, tuple)) else x for x in data]


def _converted(array: np.ndarray[Any, Any], wanted: dtype, checked: bool) -> np.ndarray[Any, Any]:
    """The array in another dtype. Python integers must fit; floats overflow to infinity without a warning."""
    if checked and array.size and array.dtype.kind in "iu" and wanted.numpy.kind == "i":
        for value in (int(array.min()), int(array.max())):
            whole_number("tensor", value, wanted)
    with np.errstate(all="ignore"):
        return array.astype(wanted.numpy)


def foreign_array(value: Any) -> Any:
    """A tensor or NumPy array of a value that may come from another library."""
    if isinstance(value, tensor_type()):
        return value
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        try:
            value = value.numpy()
        except TypeError:  # a dtype that NumPy lacks, bfloat16
            value = value.float().numpy()
    return np.asarray(value)
