"""Whether ops are recorded for backward: ``no_grad``, ``enable_grad``, ``inference_mode``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from gradino._lib import GradScope, lib

__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]

F = TypeVar("F", bound=Callable[..., Any])
_GENERATOR = 0x20  # inspect.CO_GENERATOR; importing inspect would take longer than all of gradino


_NOTHING = 2  # to restore


class Mode(GradScope):
    """A context manager and decorator. Left late or out of order, it never disturbs a newer one."""

    __slots__ = ()

    def __init__(self) -> None:
        self._restore = _NOTHING

    def _block(self) -> Mode:
        """What a call of a decorated function enters."""
        return self

    def __call__(self, function: F) -> F:
        block = self._block()
        if getattr(getattr(function, "__code__", None), "co_flags", 0) & _GENERATOR:

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                inner = function(*args, **kwargs)
                resume: Callable[[], Any] = functools.partial(next, inner)
                try:
                    while True:  # the mode holds while the generator runs, not while it waits
                        try:
                            with block:
                                result = resume()
                        except StopIteration as stop:
                            return stop.value
                        try:
                            resume = functools.partial(inner.send, (yield result))
                        except GeneratorExit:
                            raise
                        except BaseException as error:
                            resume = functools.partial(inner.throw, error)
                finally:
                    with block:
                        inner.close()

            return generator  # type: ignore[return-value]

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with block:
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class _GradMode(Mode):
    """Recording on or off."""

    __slots__ = ()

    def __init__(self, enabled: bool) -> None:
        super().__init__()
        self._enabled = enabled

    def _block(self) -> Mode:
        return _GradMode(self._enabled)


class no_grad(_GradMode):  # noqa: N801
    """Ops inside are not recorded: their results do not require grad. A context and a decorator, also without brackets.

    >>> import gradino as gd
    >>> x = gd.ones(2, requires_grad=True)
    >>> with gd.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return object.__new__(cls) if function is None else cls()(function)

    def __init__(self, function: None = None) -> None:
        super().__init__(False)


class enable_grad(_GradMode):  # noqa: N801
    """Ops inside are recorded, also within ``no_grad``. A context and a decorator, also without brackets."""

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return object.__new__(cls) if function is None else cls()(function)

    def __init__(self, function: None = None) -> None:
        super().__init__(True)


class inference_mode(_GradMode):  # noqa: N801
    """Like ``no_grad``; ``inference_mode(False)`` changes nothing. A context and a decorator, also without brackets."""

    __slots__ = ()

    def __new__(cls, mode: Any = True) -> Any:
        return cls()(mode) if callable(mode) else object.__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)


class set_grad_enabled(_GradMode):  # noqa: N801
    """Record ops from here on if ``mode`` is true, or within a ``with`` block or a decorated function only.

    As a statement it holds until the block or function around it that set a mode is left.
    """

    __slots__ = ()

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._restore = is_grad_enabled()
        lib.gd_grad_mode_set(self._enabled)

    def __call__(self, function: F) -> F:
        lib.gd_grad_mode_set(self._restore)
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Whether ops are recorded now."""
    return bool(lib.gd_grad_enabled())
