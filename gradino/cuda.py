"""What scripts ask before they choose a device: there is no GPU support yet."""

from __future__ import annotations

__all__ = ["device_count", "is_available"]


def is_available() -> bool:
    """False: this build has only the CPU."""
    return False


def device_count() -> int:
    """0: this build has only the CPU."""
    return 0
