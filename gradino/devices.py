"""Devices. There is one, the CPU; the names are PyTorch's so that scripts that choose a device run."""

from __future__ import annotations

from typing import Any

from gradino.errors import DeviceError, DTypeError, InvalidValueError

__all__ = ["CPU", "device", "need_cpu"]

_TYPES = ("cpu", "cuda")


class device(str):  # noqa: N801  (PyTorch's name)
    """``device("cpu")``, ``device("cpu:0")`` or ``device("cpu", 0)``: where a tensor lives. It equals its text.

    Other devices can be named, but not used yet.

    >>> import gradino as gd
    >>> gd.ones(2).device
    device(type='cpu')
    >>> gd.device("cpu").type
    'cpu'
    """

    __slots__ = ()

    def __new__(cls, device: Any, index: int | None = None) -> device:
        """From a text or another device."""
        if not isinstance(device, str):
            raise DTypeError(f"device: expected a str, got {type(device).__name__}")
        kind, _, number = device.partition(":")
        if kind not in _TYPES or (number and not number.isdecimal()) or device.endswith(":") or (number and index is not None):
            raise InvalidValueError(f"device: {device!r} is not a device: it must be one of {', '.join(_TYPES)}, with or without a number")
        return str.__new__(cls, device if index is None else f"{device}:{index}")

    @property
    def type(self) -> str:
        """``"cpu"`` or ``"cuda"``."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """The number, or None."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{number})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (str(self),)


CPU = device("cpu")


def need_cpu(name: str, wanted: Any) -> None:
    """Raise DeviceError unless a ``device`` argument is None or the CPU."""
    if wanted is not None and not isinstance(wanted, str):
        raise DTypeError(f"{name}: device must be a str, got {type(wanted).__name__}")
    if wanted is not None and str(wanted) not in ("cpu", "cpu:0"):
        raise DeviceError(f"{name}: device {str(wanted)!r} is not available: this build has only 'cpu'")
