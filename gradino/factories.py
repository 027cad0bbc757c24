"""Functions that make tensors. Shapes may be given as one sequence or size by size; dtype is float32 unless said."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gradino import dtypes
from gradino._arguments import as_float, shown, whole, whole_number
from gradino._core import call, handle_of, sizes, wrap
from gradino._lib import ffi, lib
from gradino._random import integers, normals, uniforms
from gradino.arena import borrow, step_arena
from gradino.devices import moved, placed
from gradino.errors import DTypeError, InvalidValueError
from gradino.tensor import Tensor

__all__ = [
    "arange", "as_tensor", "empty", "empty_like", "eye", "from_numpy", "full", "full_like", "get_rng_state", "linspace", "logspace",
    "manual_seed", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
    "set_rng_state", "tensor", "zeros", "zeros_like",
]  # fmt: skip


def _finish(t: Tensor, requires_grad: bool) -> Tensor:
    return t.requires_grad_() if requires_grad else t


def _dtype(dtype: Any, device: Any) -> dtypes.dtype:
    return dtypes.get_default_dtype() if dtype is None else dtypes.resolve(dtype)


def _shape(name: str, shape: tuple[Any, ...], size: Any) -> list[int]:
    """Sizes given one by one or as one sequence, by position or as ``size=``."""
    if size is None:
        return sizes(shape, name)
    if shape:
        raise DTypeError(f"{name}: the shape is given twice: {shape} and size={size!r}")
    return sizes((size,), name)


@placed
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of ``data`` (numbers, nested lists, arrays, tensors).

    Python floats become float32, ints int64; NumPy arrays keep their dtype, small integers widen to int64.
    """
    made = Tensor(data, dtype=dtype)
    return _finish(moved("tensor", made, device), requires_grad)


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


@placed
def full(size: Any, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor filled with a number; its dtype follows the number unless given."""
    if dtype is None:
        dtype = dtypes.resolve(type(fill_value)) if isinstance(fill_value, (bool, int)) else None
    shape = sizes(size if isinstance(size, (tuple, list)) else (size,), "full")
    d = _dtype(dtype, device)
    return _finish(_filled(shape, fill_value, d), requires_grad)


def _filled(shape: list[int], value: float, d: dtypes.dtype) -> Tensor:
    return wrap(lib.gd_full(len(shape), shape, d.code, as_float("full", value), whole_number("full", value, d)))


@placed
def zeros(*shape: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros."""
    return _finish(_filled(_shape("zeros", shape, size), 0, _dtype(dtype, device)), requires_grad)


@placed
def ones(*shape: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones."""
    return _finish(_filled(_shape("ones", shape, size), 1, _dtype(dtype, device)), requires_grad)


@placed
def empty(*shape: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with undefined contents."""
    s = _shape("empty", shape, size)
    return _finish(wrap(lib.gd_empty(len(s), s, _dtype(dtype, device).code)), requires_grad)


@placed
def arange(
    start: float = 0, end: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``start, start + step, ...`` up to but without ``end``. int64 if all numbers are ints."""
    if end is None:
        start, end = 0, start
    numbers = start, end, step = _number(start), _number(end), _number(step)
    if dtype is not None and not dtypes.resolve(dtype).is_floating_point and all(math.isfinite(as_float("arange", x)) for x in numbers):
        numbers = start, end, step = int(start), int(end), int(step)
    whole = all(isinstance(x, int) for x in numbers)
    d = _dtype(dtypes.int64 if dtype is None and whole else dtype, device)
    first, last, by = (as_float("arange", x) for x in numbers)
    if by == 0 or not all(math.isfinite(x) for x in (first, last, by)) or (last - first) / by < 0:
        raise InvalidValueError(f"arange: from {start} to {end} in steps of {step}: the step must lead from start to end")
    (count,) = sizes((-(-(end - start) // step) if whole else math.ceil((last - first) / by),))
    origin, stride = 0, 0
    if not d.is_floating_point and count:
        origin, stride = whole_number("arange", start, d), whole_number("arange", step, dtypes.int64)
        whole_number("arange", start + (count - 1) * step, d)  # raises if the last one does not fit
    return _finish(wrap(lib.gd_arange(first, by, origin, stride, count, d.code)), requires_grad)


def _number(x: Any) -> Any:
    """A Python number of a NumPy scalar or a tensor with one element."""
    return x.item() if isinstance(x, (np.generic, Tensor)) else x


@placed
def linspace(start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """``steps`` numbers from ``start`` to ``end``, both included."""
    steps, d = whole("linspace", "steps", steps), _dtype(dtype, device)
    if not d.is_floating_point:
        start, end = int(start), int(end)
    if steps < 0:
        raise InvalidValueError(f"linspace: {steps} steps, must be at least 0")
    return Tensor(np.linspace(as_float("linspace", start), as_float("linspace", end), steps), dtype=d, requires_grad=requires_grad)


@placed
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal of an (n, m) matrix."""
    return _finish(call("eye", lib.gd_eye, n, n if m is None else m, _dtype(dtype, device).code), requires_grad)


@placed
def rand(
    *shape: Any, size: Any = None, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Uniform random numbers in [0, 1)."""
    s = _shape("rand", shape, size)
    return _finish(uniforms("rand", s, _dtype(dtype, device), generator), requires_grad)


@placed
def randn(
    *shape: Any, size: Any = None, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Normal random numbers, mean 0 and standard deviation 1."""
    s = _shape("randn", shape, size)
    return _finish(normals("randn", s, _dtype(dtype, device), generator), requires_grad)


@placed
def randint(
    low: int = 0,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers in [low, high), int64; ``randint(high, size)`` starts at 0."""
    if size is None:
        low, high, size = 0, low, high
    shape = sizes(size if isinstance(size, (tuple, list)) else (size,), "randint")
    t = integers("randint", shape, generator, low, high)
    return _finish(t if dtype is None else t.to(dtype), requires_grad)


@placed
def randperm(n: int, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The numbers 0 to n - 1 in random order, int64.

    >>> import gradino as gd
    >>> sorted(gd.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    n = whole("randperm", "n", n)
    if n < 0:
        raise InvalidValueError(f"randperm: n is {n}, must be at least 0")
    with step_arena():
        order = rand(n, generator=generator, dtype=dtypes.float64).argsort()
        kept = (order if dtype is None else order.to(dtype)).keep()
    return _finish(kept, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` itself if it is a tensor of that dtype, a tensor over the memory of an array, or a copy of anything else."""
    if isinstance(data, Tensor):
        return moved("as_tensor", data if dtype is None else data.to(dtype), device)
    if isinstance(data, np.ndarray) and data.dtype in dtypes.NUMPY:
        return moved("as_tensor", from_numpy(data) if dtype is None else from_numpy(data).to(dtype), device)
    return tensor(data, dtype=dtype, device=device)


def _like(name: str, t: Tensor, dtype: Any, device: Any) -> tuple[tuple[int, ...], dtypes.dtype, Any]:
    handle_of(name, t)
    if device is None and (t.is_cuda or lib.gd_get_device()):
        device = t.device
    return t.shape, t.dtype if dtype is None else dtypes.resolve(dtype), device


def zeros_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of another tensor's shape and dtype."""
    shape, d, device = _like("zeros_like", input, dtype, device)
    return zeros(shape, dtype=d, device=device, requires_grad=requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of another tensor's shape and dtype."""
    shape, d, device = _like("ones_like", input, dtype, device)
    return ones(shape, dtype=d, device=device, requires_grad=requires_grad)


def empty_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Undefined contents in another tensor's shape and dtype."""
    shape, d, device = _like("empty_like", input, dtype, device)
    return empty(shape, dtype=d, device=device, requires_grad=requires_grad)


def full_like(input: Tensor, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A number in another tensor's shape and dtype."""
    shape, d, device = _like("full_like", input, dtype, device)
    return full(shape, fill_value, dtype=d, device=device, requires_grad=requires_grad)


def rand_like(input: Tensor, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform random numbers in another tensor's shape and dtype."""
    shape, d, device = _like("rand_like", input, dtype, device)
    return rand(shape, generator=generator, dtype=d, device=device, requires_grad=requires_grad)


def randn_like(input: Tensor, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Normal random numbers in another tensor's shape and dtype."""
    shape, d, device = _like("randn_like", input, dtype, device)
    return randn(shape, generator=generator, dtype=d, device=device, requires_grad=requires_grad)


def randint_like(
    input: Tensor,
    low: int = 0,
    high: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers in [low, high) in another tensor's shape and dtype; ``randint_like(input, high)`` starts at 0."""
    shape, d, device = _like("randint_like", input, dtype, device)
    low, high = (0, low) if high is None else (low, high)
    return randint(_number(low), _number(high), shape, generator=generator, dtype=d, device=device, requires_grad=requires_grad)


@placed
def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``base`` to the powers of ``steps`` numbers from ``start`` to ``end``, both included."""
    d = _dtype(dtype, device)
    if not d.is_floating_point:
        start, end = int(start), int(end)
    powers = linspace(start, end, steps, dtype=dtypes.float64)
    return _finish((as_float("logspace", base) ** powers).to(d), requires_grad)


def manual_seed(seed: int) -> None:
    """Start the random numbers of the process anew: the same seed gives the same numbers."""
    try:
        number = operator.index(seed)
    except TypeError:
        raise DTypeError(f"manual_seed: the seed must be an int, got {type(seed).__name__}") from None
    lib.gd_manual_seed(number & (2**64 - 1))


def get_rng_state() -> tuple[int, int]:
    """Seed and position of the random numbers."""
    state = ffi.new("uint64_t[2]")
    lib.gd_get_rng_state(state)
    return int(state[0]), int(state[1])


def set_rng_state(state: tuple[int, int]) -> None:
    """Go back to a state from ``get_rng_state``."""
    if not isinstance(state, (tuple, list)) or len(state) != 2 or not all(isinstance(x, int) and 0 <= x < 2**64 for x in state):
        raise DTypeError(f"set_rng_state: expected the two numbers of get_rng_state(), got {shown(state)}")
    lib.gd_set_rng_state(list(state))
