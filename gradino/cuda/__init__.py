"""CUDA devices: what is there, which one ``"cuda"`` means, waiting for them, streams and memory.

The library's CUDA part is looked for at the first call that asks for a device, not before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gradino import devices
from gradino._lib import check, ffi, lib, text
from gradino.cuda.streams import Event, Stream, current_stream, default_stream, set_stream, stream
from gradino.errors import DeviceError
from gradino.factories import manual_seed as _seed

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "default_stream", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "is_available", "is_bf16_supported",
    "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_reserved", "reset_peak_memory_stats", "set_device", "set_rng_state", "set_stream", "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there are a CUDA part of the library, a driver and a device."""
    return bool(lib.gd_cuda_device_count() > 0)


def device_count() -> int:
    """How many CUDA devices there are."""
    return int(lib.gd_cuda_device_count())


def is_initialized() -> bool:
    """Whether a device was asked for and found."""
    return is_available()


def is_bf16_supported() -> bool:
    """Whether there is a device: each computes bfloat16, older ones by float32."""
    return is_available()


def _number(name: str, wanted: Any) -> int:
    """The library's number of an argument ``device``; None: the current one."""
    number = devices.number_of(name, "cuda" if wanted is None else wanted)
    if not number:
        raise DeviceError(f"{name}: {wanted!r} is no CUDA device")
    return number


def current_device() -> int:
    """The number of the device that ``"cuda"`` means in this thread.

    Raises:
        DeviceError: if there is none.
    """
    return _number("cuda.current_device", None) - 1


def set_device(device: Any) -> None:
    """Let ``"cuda"`` mean this device, in this thread."""
    devices._outer.cuda = _number("cuda.set_device", device) - 1


class device:  # noqa: N801  (PyTorch's name)
    """A context in which ``"cuda"`` means this device."""

    def __init__(self, device: Any) -> None:
        self.idx, self._before = _number("cuda.device", device) - 1, 0

    def __enter__(self) -> None:
        self._before, devices._outer.cuda = devices._outer.cuda, self.idx

    def __exit__(self, *error: object) -> None:
        devices._outer.cuda = self._before


class Properties(NamedTuple):
    """What a device is."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_properties(device: Any = None) -> Properties:
    """Name, compute capability, bytes of memory and multiprocessors of a device."""
    info = devices.info_of(_number("cuda.get_device_properties", device))
    return Properties(text(info.name), info.major, info.minor, info.memory, info.multiprocessors)


def get_device_name(device: Any = None) -> str:
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a device."""
    found = get_device_properties(device)
    return found.major, found.minor


def synchronize(device: Any = None) -> None:
    """Wait until all that was given to a device is done.

    Raises:
        OutOfRangeError: if a kernel met an index or label that is out of range.
    """
    check(lib.gd_device_synchronize(_number("cuda.synchronize", device)))


# ---- Memory ------------------------------------------------------------------------------------------------------------


def _memory(name: str, device: Any) -> tuple[int, int, int]:
    if not is_available():
        return 0, 0, 0
    numbers = ffi.new("int64_t[3]")
    lib.gd_cuda_memory(_number(name, device), numbers, numbers + 1, numbers + 2)
    return int(numbers[0]), int(numbers[1]), int(numbers[2])


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors and parameters on a device, over all arenas; 0 where there is no device."""
    return _memory("cuda.memory_allocated", device)[0]


def max_memory_allocated(device: Any = None) -> int:
    """The most there were in each arena, added up, since the start or ``reset_peak_memory_stats``."""
    return _memory("cuda.max_memory_allocated", device)[1]


def memory_reserved(device: Any = None) -> int:
    """Bytes of a device that arenas and parameters hold."""
    return _memory("cuda.memory_reserved", device)[2]


def max_memory_reserved(device: Any = None) -> int:
    """The same: what arenas hold they keep."""
    return _memory("cuda.max_memory_reserved", device)[2]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let ``max_memory_allocated`` count from what there is now."""
    if is_available():
        lib.gd_cuda_forget_peak(_number("cuda.reset_peak_memory_stats", device))


def empty_cache() -> None:
    """Nothing: arenas hold their memory until they are closed."""


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and all bytes of a device, as the driver counts them."""
    info = devices.info_of(_number("cuda.mem_get_info", device))
    return int(info.memory_free), int(info.memory)


# ---- Random numbers: those of the CPU and of all devices are one sequence ----------------------------------------------------


def manual_seed(seed: int) -> None:
    """``gd.manual_seed``, where there is a device: all draw from one sequence, and get the same numbers from the same seed."""
    if is_available():
        _seed(seed)


def manual_seed_all(seed: int) -> None:
    """``gd.manual_seed``, where there is a device."""
    if is_available():
        _seed(seed)


def get_rng_state(device: Any = None) -> tuple[int, int]:
    """``gd.get_rng_state()``."""
    from gradino.factories import get_rng_state as state

    return state()


def set_rng_state(new_state: tuple[int, int], device: Any = None) -> None:
    """``gd.set_rng_state()``."""
    from gradino.factories import set_rng_state as set_state

    set_state(new_state)
