"""The only module that touches the native library: it turns status codes into exceptions."""

from __future__ import annotations

import threading
import warnings
from typing import Any, NoReturn

from gradino._native import ArenaScope, GradScope, StepScope, ffi, lib, set_callbacks
from gradino.errors import (
    ArenaError,
    DeviceError,
    DivisionByZeroError,
    DTypeError,
    GradinoError,
    InvalidValueError,
    OutOfMemoryError,
    OutOfRangeError,
    ShapeError,
    StaleTensorError,
)

__all__ = [
    "ArenaScope",
    "GradScope",
    "StepScope",
    "callback_errors",
    "check",
    "ffi",
    "lib",
    "op_id",
    "raise_error",
    "set_callbacks",
    "show_warning",
    "text",
]

_EXCEPTIONS: dict[int, type[GradinoError]] = {
    lib.GD_ERR: GradinoError,
    lib.GD_ERR_SHAPE: ShapeError,
    lib.GD_ERR_DTYPE: DTypeError,
    lib.GD_ERR_ARENA: ArenaError,
    lib.GD_ERR_STALE: StaleTensorError,
    lib.GD_ERR_MEMORY: OutOfMemoryError,
    lib.GD_ERR_DEVICE: DeviceError,
    lib.GD_ERR_VALUE: InvalidValueError,
    lib.GD_ERR_INDEX: OutOfRangeError,
    lib.GD_ERR_ZERO_DIVISION: DivisionByZeroError,
}


def text(pointer: Any) -> str:
    """A C string as str."""
    return str(ffi.string(pointer).decode())


class _Waiting(threading.local):
    """What code raised that the library called, until the call of the library has ended."""

    error: BaseException | None = None


callback_errors = _Waiting()


def raise_error() -> NoReturn:
    """Raise this thread's last error and forget it."""
    code, message = lib.gd_last_status(), text(lib.gd_last_error())
    lib.gd_clear_error()
    if code == lib.GD_ERR_CALLBACK and callback_errors.error is not None:
        error, callback_errors.error = callback_errors.error, None
        try:
            raise error
        finally:
            del error
    raise _EXCEPTIONS.get(code, GradinoError)(message)


def check(status: int) -> int:
    """Raise if ``status`` is an error; show a waiting warning; return ``status``."""
    if status < 0:
        raise_error()
    if status == 1:
        show_warning()
    return status


def show_warning() -> None:
    """Pass a warning of the library on to Python."""
    message = lib.gd_take_warning()
    if message != ffi.NULL:
        warnings.warn(text(message), RuntimeWarning, stacklevel=4)


def op_id(name: str) -> int:
    """Number of an op in the op table."""
    number: int = lib.gd_op_find(name.encode())
    if number < 0:
        raise_error()
    return number


_status = lib.gd_init_status()
if _status < 0:  # GRADINO_ISA names an instruction set that is not there
    raise_error()
if _status == lib.GD_WARNING:  # GRADINO_NUM_THREADS is not a thread count
    warnings.warn(text(lib.gd_take_warning()), RuntimeWarning, stacklevel=2)
