"""Whether ops are recorded for backward: ``no_grad``, ``enable_grad``, ``inference_mode``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from gradino._lib import check, lib

__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]

F = TypeVar("F", bound=Callable[..., Any])
_GENERATOR = 0x20  # inspect.CO_GENERATOR; importing inspect would take longer than all of gradino


class _GradMode:
    """A context manager and decorator. Left late or out of order, it never disturbs a newer one."""

    __slots__ = ("_ids", "_enabled")

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._ids: list[int] = []

    def __enter__(self) -> None:
        self._ids.append(check(lib.gd_grad_mode_enter(self._enabled)))

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        lib.gd_grad_mode_exit(self._ids.pop())

    def __call__(self, function: F) -> F:
        enabled = self._enabled
        if getattr(getattr(function, "__code__", None), "co_flags", 0) & _GENERATOR:

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                inner, send, result = function(*args, **kwargs), None, None
                try:
                    while True:  # the mode holds while the generator runs, not while it waits
                        try:
                            with _GradMode(enabled):
                                result = inner.send(send)
                        except StopIteration as stop:
                            return stop.value
                        send = yield result
                finally:
                    inner.close()

            return generator  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _GradMode(enabled):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class no_grad(_GradMode):  # noqa: N801
    """Ops inside are not recorded: their results do not require grad."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_GradMode):  # noqa: N801
    """Ops inside are recorded, also within ``no_grad``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(True)


class inference_mode(_GradMode):  # noqa: N801
    """Like ``no_grad``; ``inference_mode(False)`` is ``enable_grad``."""

    __slots__ = ()

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)


class set_grad_enabled(_GradMode):  # noqa: N801
    """Record ops inside if ``mode`` is true. For use in a ``with`` statement or as a decorator."""

    __slots__ = ()

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)


def is_grad_enabled() -> bool:
    """Whether ops are recorded now."""
    return bool(lib.gd_grad_enabled())
