"""bfloat16 and float16 by their bits, which NumPy knows for one of them only."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradino as gd
from gradino._core import wrap
from gradino._lib import check, ffi, lib
from gradino.arena import borrow

HALVES = (gd.bfloat16, gd.float16)
EPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10}  # from 1 to the next number
TINY = {"bfloat16": 2.0**-133, "float16": 2.0**-24}  # the smallest denormal
LARGEST = {"bfloat16": (2 - 2.0**-7) * 2.0**127, "float16": 65504.0}
ALL_BITS = np.arange(1 << 16, dtype=np.uint16)


def bits_of(t: gd.Tensor) -> np.ndarray:
    """The bits of a half tensor, a copy."""
    assert t.dtype in HALVES, t.dtype
    out = np.empty(t.shape, np.uint16)
    check(lib.gd_copy_out(t.detach()._h, ffi.from_buffer(out), out.nbytes))
    return out


def over_bits(bits: np.ndarray, dtype: Any) -> gd.Tensor:
    """A half tensor over the memory of its bits, in any layout."""
    strides = [s // 2 for s in bits.strides]
    t = wrap(lib.gd_from_external(bits.ndim, bits.shape, strides, gd.dtypes.resolve(dtype).code, ffi.cast("void *", bits.ctypes.data)))
    borrow(t._h, bits)
    return t


def wide(t: Any) -> Any:
    """A half tensor's numbers as float64, anything else as it is."""
    return t.detach().double()._array() if isinstance(t, gd.Tensor) and t.dtype in HALVES else t


def finite(dtype: gd.dtype) -> np.ndarray:
    """All finite numbers of the type, ascending, each once."""
    x = over_bits(ALL_BITS.copy(), dtype).double()._array()
    return np.unique(x[np.isfinite(x)])


def nearest(x: np.ndarray, dtype: gd.dtype) -> np.ndarray:
    """What float64 numbers must become: the nearest number of the type, of two the one with even bits."""
    steps = finite(dtype)
    beyond = steps[-1] + (steps[-1] - steps[-2])
    steps = np.concatenate([[-beyond], steps, [beyond]])
    above = np.clip(np.searchsorted(steps, x), 1, len(steps) - 1)
    low, high = steps[above - 1], steps[above]
    even = np.round(low / (high - low)) % 2 == 0  # low is a multiple of their distance
    middle = low / 2 + high / 2
    y = np.where((x < middle) | ((x == middle) & even), low, high)
    y = np.where(np.abs(y) >= beyond, np.copysign(np.inf, y), y)
    return np.where(np.isnan(x), np.nan, np.where(np.isinf(x), x, np.where(y == 0, np.copysign(0, x), y)))


def nearest_integer(k: int, dtype: gd.dtype) -> float:
    """The same for an integer that float64 may not hold."""
    spare = max(abs(k).bit_length() - (8 if dtype is gd.bfloat16 else 11), 0)
    whole, rest = divmod(abs(k), 1 << spare)
    whole += 2 * rest > 1 << spare or (2 * rest == 1 << spare and whole % 2)
    size = float(whole << spare)
    return float(np.copysign(size if size <= LARGEST[dtype.name] else np.inf, k))


def rounded(x: Any, dtype: Any) -> np.ndarray:
    """An array of floats rounded to the type, as float64."""
    return nearest(np.asarray(x, np.float64), gd.dtypes.resolve(dtype))
