"""Reductions and softmax as methods of Tensor. ``dim`` is one dimension, several, or None for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gradino._core import call, dims, handle_of, wrap
from gradino._lib import lib, op_id
from gradino.dtypes import HALVES, get_default_dtype, resolve
from gradino.errors import DTypeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Extremes", "Range", "Reductions"]

_SUM, _MEAN, _PROD, _VAR, _STD = op_id("sum"), op_id("mean"), op_id("prod"), op_id("var"), op_id("std")
_AMAX, _AMIN, _MAX_DIM, _MIN_DIM = op_id("amax"), op_id("amin"), op_id("max_dim"), op_id("min_dim")
_MAXIMUM, _MINIMUM = op_id("maximum"), op_id("minimum")
_ARGMAX, _ARGMIN, _ANY, _ALL = op_id("argmax"), op_id("argmin"), op_id("any"), op_id("all")
_LOGSUMEXP, _SOFTMAX, _LOG_SOFTMAX = op_id("logsumexp"), op_id("softmax"), op_id("log_softmax")
Dims = "int | Sequence[int] | None"


class Extremes(NamedTuple):
    """What ``max(dim)`` and ``min(dim)`` return."""

    values: Tensor
    indices: Tensor


class Range(NamedTuple):
    """What ``aminmax`` returns."""

    min: Tensor
    max: Tensor


def _reduce(name: str, op: int, a: Tensor, dim: Any, keepdim: bool, correction: float = 0.0) -> Tensor:
    which = dims(dim, name)
    return call(name, lib.gd_reduce, op, a._h, which, len(which), keepdim, correction)


def _kept(result: Tensor, dtype: Any) -> Tensor:
    """The result in the dtype that was asked for: sums of small integers are int64."""
    return result if dtype is None else result.to(resolve(dtype))


def _extreme(name: str, op_all: int, op_dim: int, op_pair: int, a: Tensor, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        return _reduce(name, op_all, a, None, keepdim)
    if not isinstance(dim, int):
        return wrap(lib.gd_binary(op_pair, a._h, handle_of(name, dim)))
    values = _reduce(name, op_dim, a, dim, keepdim)
    return Extremes(values, wrap(lib.gd_output(values._h, 1)))


def _correction(name: str, dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Any, float]:
    """Dimensions and correction; PyTorch also takes ``unbiased`` alone, as ``x.var(False)``."""
    if isinstance(dim, bool) and unbiased is None:
        dim, unbiased = None, dim
    if unbiased is not None and not isinstance(unbiased, bool):
        raise DTypeError(f"{name}: unbiased must be a bool, got {unbiased!r}")
    if unbiased is not None and correction is not None:
        raise DTypeError(f"{name}: give either unbiased or correction")
    return dim, (1 if unbiased is None else int(unbiased)) if correction is None else correction


class Reductions:
    """Sums run in float64 across blocks; a row's result does not depend on other rows."""

    __slots__ = ()
    _h: int

    def sum(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The sum; of bools and integers in int64."""
        a = self if dtype is None else self.to(resolve(dtype))
        return _kept(_reduce("sum", _SUM, a, dim, keepdim), dtype)

    def mean(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The mean of a floating point tensor."""
        a = self if dtype is None else self.to(resolve(dtype))
        return _reduce("mean", _MEAN, a, dim, keepdim)

    def nansum(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The sum of all that is not NaN; of bools and integers in int64."""
        a = self if dtype is None else self.to(resolve(dtype))
        return _kept(_reduce("nansum", _SUM, a.masked_fill(a.isnan(), 0) if a.is_floating_point() else a, dim, keepdim), dtype)

    def nanmean(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The mean of all that is not NaN, of a floating point tensor; NaN where there is nothing else."""
        a = self if dtype is None else self.to(resolve(dtype))
        if not a.is_floating_point():
            raise DTypeError(f"nanmean: for floating point tensors; this one is {a.dtype}")
        return a.nansum(dim, keepdim) / _reduce("nanmean", _SUM, a.isnan().logical_not(), dim, keepdim)

    def prod(self: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        """The product; of bools and integers in int64."""
        return _kept(_reduce("prod", _PROD, self if dtype is None else self.to(resolve(dtype)), dim, keepdim), dtype)

    def var(
        self: Tensor,
        dim: int | Sequence[int] | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        """The variance with divisor ``n - correction``, where ``correction`` is 1 or, with ``unbiased=False``, 0."""
        dim, divisor = _correction("var", dim, unbiased, correction)
        return _reduce("var", _VAR, self, dim, keepdim, divisor)

    def std(
        self: Tensor,
        dim: int | Sequence[int] | None = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        """The standard deviation, the root of ``var``."""
        dim, divisor = _correction("std", dim, unbiased, correction)
        if self.dtype in HALVES:  # so that the gradient, too, is rounded once
            return _reduce("std", _STD, self.float(), dim, keepdim, divisor).to(self.dtype)
        return _reduce("std", _STD, self, dim, keepdim, divisor)

    def aminmax(self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Range:
        """The smallest and the largest element as ``(min, max)``, of all or along ``dim``; ties share the gradient."""
        return Range(_reduce("aminmax", _AMIN, self, dim, keepdim), _reduce("aminmax", _AMAX, self, dim, keepdim))

    def amax(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """The largest element; NaN if there is one. Ties share the gradient."""
        return _reduce("amax", _AMAX, self, dim, keepdim)

    def amin(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """The smallest element; NaN if there is one. Ties share the gradient."""
        return _reduce("amin", _AMIN, self, dim, keepdim)

    def max(self: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        """All: the largest. With ``dim``: values and indices (the first of equals). With a tensor: ``maximum``."""
        return _extreme("max", _AMAX, _MAX_DIM, _MAXIMUM, self, dim, keepdim)

    def min(self: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        """All: the smallest. With ``dim``: values and indices (the first of equals). With a tensor: ``minimum``."""
        return _extreme("min", _AMIN, _MIN_DIM, _MINIMUM, self, dim, keepdim)

    def argmax(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Index of the first NaN, else of the first largest element, as int64."""
        return _reduce("argmax", _ARGMAX, self, dim, keepdim)

    def argmin(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Index of the first NaN, else of the first smallest element, as int64."""
        return _reduce("argmin", _ARGMIN, self, dim, keepdim)

    def any(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Whether an element is not 0, as bool."""
        return _reduce("any", _ANY, self, dim, keepdim)

    def all(self: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """Whether no element is 0, as bool."""
        return _reduce("all", _ALL, self, dim, keepdim)

    def logsumexp(self: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
        """``log(sum(exp(x)))`` without overflow. Where everything is -inf its gradient is 0."""
        return _reduce("logsumexp", _LOGSUMEXP, self if self.is_floating_point() else self.to(get_default_dtype()), dim, keepdim)

    def softmax(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        """``exp(x) / sum(exp(x))`` along ``dim``; NaN for a row of -inf."""
        a = self if dtype is None else self.to(resolve(dtype))
        return call("softmax", lib.gd_softmax, _SOFTMAX, a._h, dim)

    def log_softmax(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        """``log(softmax(x))`` along ``dim``, without overflow."""
        a = self if dtype is None else self.to(resolve(dtype))
        return call("log_softmax", lib.gd_softmax, _LOG_SOFTMAX, a._h, dim)
