"""What scripts for PyTorch ask of or tell their surroundings, as far as it has a meaning here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gradino.errors import InvalidValueError

__all__ = [
    "are_deterministic_algorithms_enabled", "compile", "get_float32_matmul_precision", "set_float32_matmul_precision",
    "use_deterministic_algorithms",
]  # fmt: skip

F = TypeVar("F")
_PRECISIONS = ("highest", "high", "medium")
_precision = "highest"


def compile(  # noqa: A001  (PyTorch's name)
    model: F | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> F | Callable[[F], F]:
    """The module or function itself, unchanged, also as a decorator: gradino's ops are fused kernels already and nothing is traced.

    So there is no ``_orig_mod`` before the names of a state dict. The arguments, which choose how PyTorch traces, change nothing.
    """
    if model is None:
        return lambda f: f
    return model


def set_float32_matmul_precision(precision: str) -> None:
    """Allow products of float32 less than full precision ("high", "medium"), or not ("highest").

    It is permission only: products of float32 are always computed in float32 here.
    """
    global _precision
    if precision not in _PRECISIONS:
        raise InvalidValueError(f"set_float32_matmul_precision: {precision!r} is not one of {', '.join(_PRECISIONS)}")
    _precision = precision


def get_float32_matmul_precision() -> str:
    """What was allowed last."""
    return _precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Every op is deterministic, whatever the mode."""


def are_deterministic_algorithms_enabled() -> bool:
    """True: every op is deterministic."""
    return True
