"""Sums, extremes and other functions that take dimensions together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino.functions._arguments import _tensor
from gradino.functions.pointwise import isclose
from gradino.tensor import Tensor

__all__ = [
    "all", "allclose", "amax", "amin", "any", "argmax", "argmin", "equal", "log_softmax", "logsumexp", "max", "mean", "min", "prod",
    "softmax", "std", "sum", "var",
]  # fmt: skip


def sum(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum."""
    return _tensor("sum", input).sum(dim, keepdim, dtype=dtype)


def mean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean."""
    return _tensor("mean", input).mean(dim, keepdim, dtype=dtype)


def var(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The variance with divisor ``n - correction``."""
    return _tensor("var", input).var(dim, unbiased, keepdim, correction=correction)


def std(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The root of ``var``."""
    return _tensor("std", input).std(dim, unbiased, keepdim, correction=correction)


def amax(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """The largest element; ties share the gradient."""
    return _tensor("amax", input).amax(dim, keepdim)


def amin(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """The smallest element; ties share the gradient."""
    return _tensor("amin", input).amin(dim, keepdim)


def any(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether an element is not 0."""
    return _tensor("any", input).any(dim, keepdim)


def all(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether no element is 0."""
    return _tensor("all", input).all(dim, keepdim)


def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` without overflow."""
    return _tensor("logsumexp", input).logsumexp(dim, keepdim)


def prod(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The product."""
    return _tensor("prod", input).prod(dim, keepdim)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest element."""
    return _tensor("argmax", input).argmax(dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element."""
    return _tensor("argmin", input).argmin(dim, keepdim)


def max(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """See :meth:`Tensor.max`."""
    return _tensor("max", input).max(dim, keepdim)


def min(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """See :meth:`Tensor.min`."""
    return _tensor("min", input).min(dim, keepdim)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``."""
    return _tensor("softmax", input).softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``log(softmax(x))`` along ``dim``."""
    return _tensor("log_softmax", input).log_softmax(dim, dtype=dtype)


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    return _tensor("equal", input).shape == _tensor("equal", other).shape and bool((input == other).all())


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether ``isclose`` holds everywhere."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())
