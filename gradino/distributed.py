"""What scripts ask before they run on several machines: they run on one."""

from __future__ import annotations

__all__ = ["get_rank", "get_world_size", "is_available", "is_initialized", "is_torchelastic_launched"]


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def get_rank() -> int:
    """0: there is one process."""
    return 0


def get_world_size() -> int:
    """1: there is one process."""
    return 1
