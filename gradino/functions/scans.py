"""Results of all entries so far along a dimension, differences, and areas below curves."""

from __future__ import annotations

from typing import Any

from gradino._call import dimension
from gradino._reductions import Extremes
from gradino.errors import DTypeError
from gradino.functions._arguments import _tensor
from gradino.tensor import Tensor

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "diff", "logcumsumexp", "trapezoid", "trapz"]


def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Sums of the entries so far along ``dim``."""
    return _tensor("cumsum", input).cumsum(dim, dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Products of the entries so far along ``dim``."""
    return _tensor("cumprod", input).cumprod(dim, dtype=dtype)


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """``log(cumsum(exp(x)))`` without overflow."""
    return _tensor("logcumsumexp", input).logcumsumexp(dim)


def cummax(input: Tensor, dim: int) -> Extremes:
    """The largest so far along ``dim``, and where it stands."""
    return _tensor("cummax", input).cummax(dim)


def cummin(input: Tensor, dim: int) -> Extremes:
    """The smallest so far along ``dim``, and where it stands."""
    return _tensor("cummin", input).cummin(dim)


def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbours along ``dim``, ``n`` times."""
    return _tensor("diff", input).diff(n, dim, prepend, append)


def _areas(name: str, y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    """Areas between neighbouring points."""
    d = dimension(name, _tensor(name, y).ndim, dim)
    n = y.shape[d]
    first, second = y.narrow(d, 0, max(n - 1, 0)), y.narrow(d, min(1, n), max(n - 1, 0))
    if x is None:
        evenly: Tensor = (first + second) * (dx / 2)
        return evenly
    if not isinstance(x, Tensor):
        raise DTypeError(f"{name}: x must be a Tensor, got {type(x).__name__}")
    if x.ndim == 1:
        return (first + second) * (x.diff() / 2).reshape([-1 if k == d else 1 for k in range(y.ndim)])
    widths = x.diff(dim=d - y.ndim)
    return (first + second) * (widths / 2)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The area below the line through the points (x, y) along ``dim``; without x they are ``dx`` apart."""
    return _areas("trapezoid", y, x, dx, dim).sum(dim)


trapz = trapezoid


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1) -> Tensor:
    """The area below the line through the points so far along ``dim``."""
    return _areas("cumulative_trapezoid", y, x, dx, dim).cumsum(dim)
