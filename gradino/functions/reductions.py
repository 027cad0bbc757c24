"""Sums, extremes and other functions that take dimensions together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino._arguments import shown
from gradino._reductions import Extremes, Range
from gradino.errors import DTypeError
from gradino.functions._arguments import _tensor, into
from gradino.tensor import Tensor

__all__ = [
    "all", "allclose", "amax", "amin", "aminmax", "any", "argmax", "argmin", "equal", "log_softmax", "logsumexp", "max", "mean", "min",
    "nanmean", "nansum", "prod", "softmax", "std", "std_mean", "sum", "var", "var_mean",
]  # fmt: skip


def sum(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The sum."""
    result = _tensor("sum", input).sum(dim, keepdim, dtype=dtype)
    return result if out is None else into("sum", out, result)


def mean(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The mean."""
    result = _tensor("mean", input).mean(dim, keepdim, dtype=dtype)
    return result if out is None else into("mean", out, result)


def var(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The variance with divisor ``n - correction``."""
    result = _tensor("var", input).var(dim, unbiased, keepdim, correction=correction)
    return result if out is None else into("var", out, result)


def std(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The root of ``var``."""
    result = _tensor("std", input).std(dim, unbiased, keepdim, correction=correction)
    return result if out is None else into("std", out, result)


def amax(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The largest element; ties share the gradient."""
    result = _tensor("amax", input).amax(dim, keepdim)
    return result if out is None else into("amax", out, result)


def amin(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The smallest element; ties share the gradient."""
    result = _tensor("amin", input).amin(dim, keepdim)
    return result if out is None else into("amin", out, result)


def any(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether an element is not 0."""
    result = _tensor("any", input).any(dim, keepdim)
    return result if out is None else into("any", out, result)


def all(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether no element is 0."""
    result = _tensor("all", input).all(dim, keepdim)
    return result if out is None else into("all", out, result)


def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """``log(sum(exp(x)))`` without overflow."""
    result = _tensor("logsumexp", input).logsumexp(dim, keepdim)
    return result if out is None else into("logsumexp", out, result)


def nansum(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The sum of all that is not NaN."""
    result = _tensor("nansum", input).nansum(dim, keepdim, dtype=dtype)
    return result if out is None else into("nansum", out, result)


def nanmean(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The mean of all that is not NaN."""
    result = _tensor("nanmean", input).nanmean(dim, keepdim, dtype=dtype)
    return result if out is None else into("nanmean", out, result)


def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """The product."""
    result = _tensor("prod", input).prod(dim, keepdim, dtype=dtype)
    return result if out is None else into("prod", out, result)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the first largest element."""
    result = _tensor("argmax", input).argmax(dim, keepdim)
    return result if out is None else into("argmax", out, result)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Index of the first smallest element."""
    result = _tensor("argmin", input).argmin(dim, keepdim)
    return result if out is None else into("argmin", out, result)


def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """All: the largest. With ``dim``: values and indices (the first of equals). With a tensor: ``maximum``."""
    return _extreme("max", input, dim, keepdim, other, out)


def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """All: the smallest. With ``dim``: values and indices (the first of equals). With a tensor: ``minimum``."""
    return _extreme("min", input, dim, keepdim, other, out)


def _extreme(name: str, input: Any, dim: Any, keepdim: bool, other: Any, out: Any) -> Any:
    result = getattr(_tensor(name, input), name)(dim if other is None else other, keepdim)
    if out is None:
        return result
    if isinstance(result, Tensor):
        return into(name, out, result)
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise DTypeError(f"{name}: out must be the pair of values and indices, got {shown(out)}")
    return Extremes(*(into(name, o, r) for o, r in zip(out, result)))


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Range:
    """The smallest and the largest element as ``(min, max)``, of all or along ``dim``."""
    result = _tensor("aminmax", input).aminmax(dim=dim, keepdim=keepdim)
    if out is None:
        return result
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise DTypeError(f"aminmax: out must be the pair of min and max, got {shown(out)}")
    return Range(*(into("aminmax", o, r) for o, r in zip(out, result)))


def std_mean(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """``std`` and ``mean`` together."""
    return std(input, dim, unbiased, keepdim, correction=correction), mean(input, None if isinstance(dim, bool) else dim, keepdim)


def var_mean(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """``var`` and ``mean`` together."""
    return var(input, dim, unbiased, keepdim, correction=correction), mean(input, None if isinstance(dim, bool) else dim, keepdim)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``."""
    result = _tensor("softmax", input).softmax(dim, dtype=dtype)
    return result if out is None else into("softmax", out, result)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """``log(softmax(x))`` along ``dim``."""
    result = _tensor("log_softmax", input).log_softmax(dim, dtype=dtype)
    return result if out is None else into("log_softmax", out, result)


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    return _tensor("equal", input).equal(other)


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether ``isclose`` holds everywhere."""
    return _tensor("allclose", input).allclose(other, rtol, atol, equal_nan)
