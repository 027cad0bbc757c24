"""What this machine can do at most: the library's loops, the best of many samples.

Rates are per second, of the threads in use and with the best kernel set, whichever is in use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gradino as gd
from gradino import config
from gradino._lib import ffi, lib, raise_error

ROUNDS = 3000  # of an arithmetic sample: about 50 us
ELEMENTS = 1 << 24  # float32 of each buffer of a memory sample: 64 MiB, more than caches hold
SECONDS = 0.25  # spent on a figure
ARITHMETIC = {"float32": lib.GD_PROBE_FLOAT32, "float64": lib.GD_PROBE_FLOAT64, "bfloat16": lib.GD_PROBE_BFLOAT16}
MEMORY = {"copy": lib.GD_PROBE_COPY, "triad": lib.GD_PROBE_TRIAD, "update": lib.GD_PROBE_UPDATE, "read": lib.GD_PROBE_READ}


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Within the block `n` threads are in use."""
    before = config.get_num_threads()
    config.set_num_threads(n)
    try:
        yield
    finally:
        config.set_num_threads(before)


@contextmanager
def kernel_set(name: str | None) -> Iterator[None]:
    """Within the block that kernel set is in use; None is the best."""
    before = config.get_isa()
    config.set_isa(name)
    try:
        yield
    finally:
        config.set_isa(before)


def least(sample: Callable[[], float], seconds: float = SECONDS, fewest: int = 3) -> float:
    """The shortest of the samples that fit into `seconds`: the one that nothing disturbed."""
    end, best, n = time.perf_counter() + seconds, float("inf"), 0
    while n < fewest or time.perf_counter() < end:
        best = min(best, sample())
        n += 1
    return best


def _rate(kind: int, n: int, seconds: float, *buffers: Any) -> float:
    taken, work = ffi.new("double *"), 0.0
    a, b, c = (*buffers, *(ffi.NULL,) * (3 - len(buffers)))

    def sample() -> float:
        nonlocal work
        work = lib.gd_probe(kind, n, a, b, c, taken)
        if work < 0:
            raise_error()
        return float(taken[0])

    best = least(sample, seconds)
    return work / best if work else 0.0


def arithmetic(dtype: str, isa: str | None = None, seconds: float = SECONDS) -> float:
    """Floating-point operations per second in registers; 0 if the processor cannot. `bfloat16`: dot products of pairs."""
    with kernel_set(isa):
        return _rate(ARITHMETIC[dtype], ROUNDS, seconds)


def memory(elements: int = ELEMENTS, seconds: float = SECONDS) -> dict[str, float]:
    """Bytes per second, read and written ones together, of each kind of pass over memory."""
    with gd.Arena(name="probe") as arena, kernel_set(None):
        buffers = [gd.ones(elements)._info().data for _ in range(3)]
        rates = {name: _rate(kind, elements, seconds, *buffers) for name, kind in MEMORY.items()}
    arena.close()
    return rates


def region(seconds: float = SECONDS) -> float:
    """Seconds that a parallel region takes in which all threads meet."""
    return 1 / _rate(lib.GD_PROBE_REGION, 200, seconds)
