"""Devices: the CPU, and CUDA devices by number. Where functions without tensor inputs make theirs."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from gradino._lib import ffi, lib, raise_error
from gradino.errors import DTypeError, InvalidValueError

__all__ = ["CPU", "device", "get_default_device", "named", "number_of", "placed", "set_default_device"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_TYPES = ("cpu", "cuda")


class device(str):  # noqa: N801  (PyTorch's name)
    """``device("cpu")``, ``device("cuda:1")``, ``device("cuda", 1)`` or ``device(1)``: where a tensor lives. It equals its text.

    As a context manager it says where functions without tensor inputs make their tensors.

    >>> import gradino as gd
    >>> gd.ones(2).device
    device(type='cpu')
    >>> gd.device("cpu").type
    'cpu'
    """

    __slots__ = ()

    def __new__(cls, device: Any, index: int | None = None) -> device:
        """From a text, another device, or the number of a CUDA device."""
        if isinstance(device, int) and not isinstance(device, bool) and index is None and device >= 0:
            device = f"cuda:{device}"
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

    def __enter__(self) -> device:
        number = number_of("device", self)
        _outer.devices.append(lib.gd_get_device())
        lib.gd_set_device(number)
        return self

    def __exit__(self, *error: object) -> None:
        lib.gd_set_device(_outer.devices.pop())


class _Outer(threading.local):
    """Devices to go back to, of contexts that are entered."""

    def __init__(self) -> None:
        self.devices: list[int] = []
        self.cuda = 0  # the number that "cuda" without one means


_outer = _Outer()
CPU = device("cpu")
_NAMED = [CPU]


def named(number: int) -> device:
    """The device with a number of the library: 0 is the CPU, 1 cuda:0."""
    while len(_NAMED) <= number:
        _NAMED.append(device("cuda", len(_NAMED) - 1))
    return _NAMED[number]


def number_of(name: str, wanted: Any) -> int:
    """The library's number of a ``device`` argument, which must be there."""
    if wanted == "cpu":
        return 0
    if not isinstance(wanted, device):
        if not isinstance(wanted, (str, int)) or isinstance(wanted, bool):
            raise DTypeError(f"{name}: device must be a str, an int or a device, got {type(wanted).__name__}")
        wanted = device(wanted)
    if wanted.type == "cpu":
        if wanted.index:
            raise InvalidValueError(f"{name}: device {str(wanted)!r}: there is one CPU, 'cpu'")
        return 0
    number = 1 + (_outer.cuda if wanted.index is None else min(wanted.index, 999))  # the library says how many there are
    before = lib.gd_get_device()
    if lib.gd_set_device(number) < 0:  # says what is missing
        raise_error()
    lib.gd_set_device(before)
    return number


def placed(function: F) -> F:
    """A function with an argument ``device``: what it makes without tensor inputs stands there."""
    code = function.__code__
    at = code.co_varnames.index("device")
    at = at if at < code.co_argcount else 1 << 30  # by name only

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        wanted = args[at] if len(args) > at else kwargs.get("device")
        if wanted is None:
            return function(*args, **kwargs)
        number, before = number_of(function.__name__, wanted), lib.gd_get_device()
        lib.gd_set_device(number)
        try:
            return function(*args, **kwargs)
        finally:
            lib.gd_set_device(before)

    return inner  # type: ignore[return-value]


def moved(name: str, tensor: T, wanted: Any, non_blocking: bool = False) -> T:
    """The tensor on the device of an argument ``device``, None for where it is."""
    if wanted is None:
        return tensor
    own: int = tensor._h  # type: ignore[attr-defined]
    handle = lib.gd_to_device(own, number_of(name, wanted), non_blocking)
    if handle == own:
        return tensor
    from gradino._core import wrap

    return wrap(handle)  # type: ignore[return-value]


def beside(tensor: Any) -> Any:
    """A context in which functions without tensor inputs make theirs on the device of ``tensor``."""
    return device(tensor.device)


def set_default_device(device: Any) -> None:
    """Where this thread makes tensors when no ``device`` is given; None: the CPU."""
    if lib.gd_set_device(0 if device is None else number_of("set_default_device", device)) < 0:
        raise_error()


def get_default_device() -> device:
    """Where this thread makes tensors when no ``device`` is given."""
    return named(lib.gd_get_device())


def info_of(number: int) -> Any:
    """What the library knows of a CUDA device."""
    info = ffi.new("gd_cuda_info *")
    if lib.gd_cuda_describe(number, info) < 0:
        raise_error()
    return info
