"""Comparisons and guarded memory. Helpers assert: a test that calls one cannot forget to look at the verdict.

`what` names the case (op, isa, dtype, shapes) and opens every failure message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradino as gd
from gradino._lib import ffi

ISAS = ("portable", "avx2", "avx512")
PATTERN = 0xA5  # what guards and canaries are made of
GUARD_BYTES = 64


def values(x: Any) -> np.ndarray:
    """A copy of what a tensor holds; arrays and numbers as they are."""
    return x.detach()._array() if isinstance(x, gd.Tensor) else np.asarray(x)


def assert_close(got: Any, want: Any, *, rtol: float = 0.0, atol: Any = 0.0, what: str = "", dtype: Any = None) -> None:
    """Same shape, and |got - want| <= atol + rtol |want|; NaN only where NaN is wanted, infinities exactly."""
    a, b = values(got), values(want)
    assert a.shape == b.shape, f"{what}: the shape is {a.shape}, must be {b.shape}"
    if dtype is not None:
        assert a.dtype == np.dtype(getattr(dtype, "numpy", dtype)), f"{what}: the dtype is {a.dtype}, must be {dtype}"
    if not a.size:
        return
    a, b = a.astype(np.float64) if a.dtype.kind == "f" else a, b.astype(np.float64) if b.dtype.kind == "f" else b
    with np.errstate(all="ignore"):
        if "f" in a.dtype.kind + b.dtype.kind:
            difference = np.abs(a - b)
            wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (difference <= atol + rtol * np.abs(b)) & np.isfinite(b))
        else:
            difference, wrong = np.zeros(a.shape), a != b
    if wrong.any():
        worst = np.unravel_index(np.argmax(np.where(wrong, np.nan_to_num(difference, nan=np.inf), -1)), a.shape)
        worst = tuple(int(i) for i in worst)
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {a.size} elements of shape {a.shape} differ; at {worst} it is {a[worst]!r}, "
            f"must be {b[worst]!r} (rtol {rtol:g}, atol {np.broadcast_to(atol, a.shape)[worst]:g})"
        )


def assert_same_bits(got: Any, want: Any, *, what: str = "") -> None:
    """Same dtype, shape and bytes; any NaN equals any other."""
    a, b = values(got), values(want)
    assert a.dtype == b.dtype and a.shape == b.shape, f"{what}: {a.dtype}{a.shape} is not {b.dtype}{b.shape}"
    as_bits = f"u{a.itemsize}"
    wrong = np.ascontiguousarray(a).reshape(-1).view(as_bits) != np.ascontiguousarray(b).reshape(-1).view(as_bits)
    if a.dtype.kind == "f":
        wrong = wrong & ~(np.isnan(a) & np.isnan(b)).reshape(-1)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise AssertionError(
            f"{what}: bits differ in {int(wrong.sum())} of {a.size} elements of shape {a.shape}, first at flat index {i}: "
            f"{a.reshape(-1)[i]!r} is not {b.reshape(-1)[i]!r}"
        )


# ---- Guarded memory -----------------------------------------------------------------------------------------


class Guarded:
    """A copy of an array between guard bytes, one element off alignment; `tensor` borrows it, to be an input.

    `in_place`: no copy and no guards, for an array whose strides matter.
    """

    def __init__(self, array: np.ndarray, in_place: bool = False) -> None:
        self.memory = inner = array
        if not in_place:
            end = GUARD_BYTES + array.itemsize + array.nbytes
            self.memory = np.full(end + GUARD_BYTES, PATTERN, np.uint8)
            inner = self.memory[GUARD_BYTES + array.itemsize : end].view(array.dtype).reshape(array.shape)
            inner[...] = array
        self.tensor = gd.from_numpy(inner)
        self.before = self.memory.copy()

    def assert_untouched(self, what: str = "") -> None:
        """The values, and the bytes around them, are what they were."""
        changed = np.argwhere(~((self.memory == self.before) | (self.memory != self.memory)))
        assert not changed.size, f"{what}: an input or its guard bytes were written, at {changed[:8].tolist()}"


def call_with_canaries(call: Callable[[], Any], what: str = "", beyond: bool = False, room: int = 1 << 14) -> Any:
    """Run `call` where its results will lie between canaries, and assert that it leaves them alone.

    The arena's free bytes are filled with a pattern; after the call the bytes between the end of each
    result and the next allocation (64-byte steps) must still hold it, and so must the allocation before.
    `beyond` looks 64 bytes further, for ops without workspace.
    """
    arena = gd.active_arena()
    before = gd.full((GUARD_BYTES,), True, dtype=gd.bool)
    before_bytes = raw_bytes(before, 0, GUARD_BYTES)
    before_bytes[:] = PATTERN
    mark = arena.mark()
    filler = gd.empty(room, dtype=gd.bool)
    raw_bytes(filler, 0, room)[:] = PATTERN
    start = int(ffi.cast("intptr_t", filler._info().data))
    arena.rewind(mark)
    result = call()
    touched = np.flatnonzero(before_bytes != PATTERN)
    assert not touched.size, f"{what}: bytes before the result were written: {(touched - GUARD_BYTES)[:8].tolist()}"
    for k, t in enumerate(result if isinstance(result, tuple) else (result,)):
        size = t.numel() * t.dtype.itemsize
        count = -size % GUARD_BYTES + GUARD_BYTES * beyond
        at = int(ffi.cast("intptr_t", t._info().data)) - start
        if not size or not t.is_contiguous() or not 0 <= at <= room - size - count:
            continue  # nothing new, or a view of an input
        touched = np.flatnonzero(raw_bytes(t, size, count) != PATTERN)
        assert not touched.size, f"{what}: bytes after result {k} were written: +{touched[:8].tolist()}"
    return result


def raw_bytes(t: gd.Tensor, start: int, count: int) -> np.ndarray:
    """The bytes of memory from `start` behind a tensor's first byte on, writable."""
    address = ffi.cast("char *", t._info().data) + start
    return np.frombuffer(ffi.buffer(address, count), np.uint8)
