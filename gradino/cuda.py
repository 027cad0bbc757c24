"""What scripts ask before they choose a device: there is no GPU support yet."""

from __future__ import annotations

from gradino.errors import DeviceError

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "is_available", "is_bf16_supported", "manual_seed",
    "manual_seed_all",
    "max_memory_allocated", "memory_allocated", "reset_peak_memory_stats", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """False: this build has only the CPU."""
    return False


def device_count() -> int:
    """0: this build has only the CPU."""
    return 0


def is_bf16_supported() -> bool:
    """False: there is no GPU."""
    return False


def manual_seed(seed: int) -> None:
    """Nothing: there is no GPU whose generator could be seeded."""


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no GPU whose generator could be seeded."""


def empty_cache() -> None:
    """Nothing: there is no GPU memory."""


def synchronize(device: object = None) -> None:
    """Nothing: there is no GPU to wait for."""


def memory_allocated(device: object = None) -> int:
    """0: there is no GPU memory."""
    return 0


def max_memory_allocated(device: object = None) -> int:
    """0: there is no GPU memory."""
    return 0


def reset_peak_memory_stats(device: object = None) -> None:
    """Nothing: there is no GPU memory."""


def current_device() -> int:
    """An error: there is no GPU.

    Raises:
        DeviceError: always.
    """
    raise DeviceError("cuda.current_device: there is no GPU: this build has only 'cpu'")


def get_device_name(device: object = None) -> str:
    """An error: there is no GPU.

    Raises:
        DeviceError: always.
    """
    raise DeviceError("cuda.get_device_name: there is no GPU: this build has only 'cpu'")
