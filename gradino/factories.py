"""Functions that make tensors. Shapes may be given as one sequence or size by size; dtype is float32 unless said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradino import dtypes
from gradino._core import sizes, wrap
from gradino._lib import ffi, lib
from gradino.arena import borrow
from gradino.errors import DeviceError, DTypeError, InvalidValueError
from gradino.tensor import Tensor

__all__ = [
    "arange", "empty", "empty_like", "eye", "from_numpy", "full", "full_like", "get_rng_state", "linspace", "manual_seed", "ones",
    "ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "set_rng_state", "tensor", "zeros", "zeros_like",
]  # fmt: skip


def _finish(t: Tensor, requires_grad: bool) -> Tensor:
    return t.requires_grad_() if requires_grad else t


def _dtype(dtype: Any, device: Any) -> dtypes.dtype:
    if device is not None and str(device) != "cpu":
        raise DeviceError(f"device {device!r} is not available: this build has only 'cpu'")
    return dtypes.float32 if dtype is None else dtypes.resolve(dtype)


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of ``data`` (numbers, nested lists, arrays, tensors).

    Python floats become float32, ints int64; NumPy arrays keep their dtype, small integers widen to int64.
    """
    _dtype(None, device)
    return Tensor(data, dtype=dtype, requires_grad=requires_grad)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor over the memory of ``array``, which stays alive with it. A read-only array is copied.

    Raises:
        DTypeError: for an array whose dtype gradino does not have.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected a NumPy array, got {type(array).__name__}")
    code = dtypes.resolve(array.dtype).code
    itemsize = array.itemsize
    plain = (
        array.dtype.isnative and array.flags.writeable and array.flags.aligned and all(s >= 0 and s % itemsize == 0 for s in array.strides)
    )
    if not plain or array.ndim > 4:
        return Tensor(array)
    pointer = ffi.cast("void *", array.ctypes.data)
    result = wrap(lib.gd_from_external(array.ndim, array.shape, [s // itemsize for s in array.strides], code, pointer))
    borrow(result._h, array)
    return result


def full(size: Any, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor filled with a number; its dtype follows the number unless given."""
    if dtype is None:
        dtype = dtypes.resolve(type(fill_value)) if isinstance(fill_value, (bool, int)) else dtypes.float32
    shape = sizes(size if isinstance(size, (tuple, list)) else (size,))
    d = _dtype(dtype, device)
    return _finish(_filled(shape, fill_value, d), requires_grad)


def _filled(shape: list[int], value: float, d: dtypes.dtype) -> Tensor:
    whole = 0 if d.is_floating_point else int(value)
    return wrap(lib.gd_full(len(shape), shape, d.code, float(value), whole))


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros."""
    return _finish(_filled(sizes(size), 0, _dtype(dtype, device)), requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones."""
    return _finish(_filled(sizes(size), 1, _dtype(dtype, device)), requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with undefined contents."""
    shape = sizes(size)
    return _finish(wrap(lib.gd_empty(len(shape), shape, _dtype(dtype, device).code)), requires_grad)


def arange(
    start: float, end: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``start, start + step, ...`` up to but without ``end``. int64 if all numbers are ints."""
    if end is None:
        start, end = 0, start
    if step == 0 or not all(math.isfinite(x) for x in (start, end, step)) or (end - start) / step < 0:
        raise InvalidValueError(f"arange: from {start} to {end} in steps of {step}: the step must lead from start to end")
    if dtype is None:
        dtype = dtypes.int64 if all(isinstance(x, int) for x in (start, end, step)) else dtypes.float32
    d = _dtype(dtype, device)
    count = -(-(end - start) // step) if all(isinstance(x, int) for x in (start, end, step)) else math.ceil((end - start) / step)
    handle = lib.gd_arange(float(start), float(step), int(start), int(step), int(count), d.code)
    return _finish(wrap(handle), requires_grad)


def linspace(start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """``steps`` numbers from ``start`` to ``end``, both included."""
    if steps < 0:
        raise InvalidValueError(f"linspace: {steps} steps, must be at least 0")
    return Tensor(np.linspace(start, end, steps), dtype=_dtype(dtype, device), requires_grad=requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal of an (n, m) matrix."""
    return _finish(wrap(lib.gd_eye(n, n if m is None else m, _dtype(dtype, device).code)), requires_grad)


def rand(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform random numbers in [0, 1)."""
    shape = sizes(size)
    return _finish(wrap(lib.gd_uniform(len(shape), shape, _dtype(dtype, device).code, 0.0, 1.0)), requires_grad)


def randn(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Normal random numbers, mean 0 and standard deviation 1."""
    shape = sizes(size)
    return _finish(wrap(lib.gd_normal(len(shape), shape, _dtype(dtype, device).code, 0.0, 1.0)), requires_grad)


def randint(low: int, high: Any, size: Any = None, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Random integers in [low, high), int64; ``randint(high, size)`` starts at 0."""
    if size is None:
        low, high, size = 0, low, high
    shape = sizes(size if isinstance(size, (tuple, list)) else (size,))
    t = wrap(lib.gd_randint(len(shape), shape, low, high))
    _dtype(None, device)
    return t if dtype is None else t.to(dtype)


def _like(t: Tensor, dtype: Any) -> tuple[tuple[int, ...], dtypes.dtype]:
    return t.shape, t.dtype if dtype is None else dtypes.resolve(dtype)


def zeros_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of another tensor's shape and dtype."""
    shape, d = _like(input, dtype)
    return zeros(shape, dtype=d, requires_grad=requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of another tensor's shape and dtype."""
    shape, d = _like(input, dtype)
    return ones(shape, dtype=d, requires_grad=requires_grad)


def empty_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Undefined contents in another tensor's shape and dtype."""
    shape, d = _like(input, dtype)
    return empty(shape, dtype=d, requires_grad=requires_grad)


def full_like(input: Tensor, fill_value: float, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A number in another tensor's shape and dtype."""
    shape, d = _like(input, dtype)
    return full(shape, fill_value, dtype=d, requires_grad=requires_grad)


def rand_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform random numbers in another tensor's shape and dtype."""
    shape, d = _like(input, dtype)
    return rand(shape, dtype=d, requires_grad=requires_grad)


def randn_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Normal random numbers in another tensor's shape and dtype."""
    shape, d = _like(input, dtype)
    return randn(shape, dtype=d, requires_grad=requires_grad)


def manual_seed(seed: int) -> None:
    """Start the random numbers of the process anew: the same seed gives the same numbers."""
    if not isinstance(seed, int):
        raise DTypeError(f"manual_seed: the seed must be an int, got {type(seed).__name__}")
    lib.gd_manual_seed(seed & (2**64 - 1))


def get_rng_state() -> tuple[int, int]:
    """Seed and position of the random numbers."""
    state = ffi.new("uint64_t[2]")
    lib.gd_get_rng_state(state)
    return int(state[0]), int(state[1])


def set_rng_state(state: tuple[int, int]) -> None:
    """Go back to a state from ``get_rng_state``."""
    lib.gd_set_rng_state([int(state[0]), int(state[1])])
