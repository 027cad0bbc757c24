"""How elements lie in memory: PyTorch's names. Tensors here are strided; channels-last formats are not supported."""

from __future__ import annotations

from typing import Any

from gradino.errors import DTypeError, InvalidValueError

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "layout",
    "memory_format",
    "plain_format",
    "preserve_format",
    "strided",
]


class _Named:
    """A constant with a name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"gradino.{self.name}"


class memory_format(_Named):  # noqa: N801  (PyTorch's name)
    """An order of the dimensions in memory."""

    __slots__ = ()


class layout(_Named):  # noqa: N801  (PyTorch's name)
    """A kind of storage."""

    __slots__ = ()


contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
strided = layout("strided")


def plain_format(name: str, given: Any) -> None:
    """Raise unless a ``memory_format`` argument is None, ``contiguous_format`` or ``preserve_format``."""
    if given is None or given is contiguous_format or given is preserve_format:
        return
    if not isinstance(given, memory_format):
        raise DTypeError(f"{name}: memory_format must be a memory format, got {given!r}")
    raise InvalidValueError(f"{name}: {given!r} is not supported: images are (N, C, H, W) in memory, too")


def strided_layout(name: str, given: Any) -> None:
    """Raise unless a ``layout`` argument is None or ``strided``."""
    if given is not None and given is not strided:
        raise InvalidValueError(f"{name}: layout {given!r} is not supported: tensors are strided")
