"""Sorting, order statistics and scans as methods of Tensor. NaN counts as the largest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradino._arguments import flag, whole
from gradino._call import along, dimension, output
from gradino._lib import op_id
from gradino._reductions import Extremes
from gradino.dtypes import bool_, resolve
from gradino.errors import DTypeError, InvalidValueError, OutOfRangeError, ShapeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Sorting"]

_SORT, _TOPK = op_id("sort"), op_id("topk")
_CUMSUM, _CUMPROD, _LOGCUMSUMEXP = op_id("cumsum"), op_id("cumprod"), op_id("logcumsumexp")
_CUMMAX, _CUMMIN = op_id("cummax"), op_id("cummin")


def _pair(values: Tensor) -> Extremes:
    return Extremes(values, output(values, 1))


def _chosen(ordered: Extremes, at: Any, dim: int, keepdim: bool) -> Extremes:
    """Entry ``at`` (a number, or a tensor with ``dim`` of size 1) of sorted lines."""
    values, indices = ordered
    if isinstance(at, int):
        picked = Extremes(values.narrow(dim, at, 1), indices.narrow(dim, at, 1)) if values.ndim else ordered
    else:
        picked = Extremes(values.gather(dim, at), indices.gather(dim, at))
    if keepdim or not values.ndim:
        return picked
    return Extremes(picked.values.squeeze(dim), picked.indices.squeeze(dim))


def _entries(name: str, a: Tensor, dim: Any) -> tuple[int, int]:
    """A dimension and its size, which must not be 0 where an element is chosen."""
    d = dimension(name, a.ndim, dim)
    n = a.shape[d] if a.ndim else 1
    if n == 0:
        raise OutOfRangeError(f"{name}: dimension {dim} of shape {a.shape} has no elements to choose from")
    return d, n


class Sorting:
    """Sorts are stable and the same on any number of threads; of equal elements the first come first."""

    __slots__ = ()
    _h: int

    def sort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Extremes:
        """Values in order along ``dim``, and where they stood. Always stable; NaN comes last (``descending``: first)."""
        flag("sort", "stable", stable)
        return _pair(along(_SORT, "sort", self, dim, flag("sort", "descending", descending)))

    def argsort(self: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
        """Where the values stood that ``sort`` gives."""
        return self.sort(dim, descending, stable).indices

    def msort(self: Tensor) -> Tensor:
        """Values in order along the first dimension."""
        return self.sort(0).values

    def topk(self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Extremes:
        """The ``k`` largest (or smallest) along ``dim``, in order, and where they stand; of equal ones the first."""
        flag("topk", "sorted", sorted)  # the order that it leaves open is this one, too
        return _pair(along(_TOPK, "topk", self, dim, whole("topk", "k", k), flag("topk", "largest", largest)))

    def kthvalue(self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Extremes:
        """The ``k``-th smallest, counted from 1, along ``dim``, and where it stands."""
        d, n = _entries("kthvalue", self, dim)
        if not 1 <= whole("kthvalue", "k", k) <= n:
            raise OutOfRangeError(f"kthvalue: k is {k}, must be in [1, {n}]")
        return _chosen(self.sort(d), k - 1, d, keepdim)

    def median(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        """The median, of two the smaller; NaN if there is one. With ``dim``: values and indices."""
        if dim is None:
            return self._median_of_all(ignore_nan=False)
        d, n = _entries("median", self, dim)
        ordered = self.sort(d)
        if not self.dtype.is_floating_point:
            return _chosen(ordered, (n - 1) // 2, d, keepdim)
        numbers = self.isnan().logical_not().sum(d, keepdim=True)
        return _chosen(ordered, numbers.where(numbers < n, (n - 1) // 2) if self.ndim else 0, d, keepdim)

    def nanmedian(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        """The median of what is not NaN."""
        if dim is None:
            return self._median_of_all(ignore_nan=True)
        d, n = _entries("nanmedian", self, dim)
        ordered = self.sort(d)
        if not self.dtype.is_floating_point or not self.ndim:
            return _chosen(ordered, (n - 1) // 2, d, keepdim)
        numbers = self.isnan().logical_not().sum(d, keepdim=True)
        return _chosen(ordered, (numbers - 1).clamp(0) // 2, d, keepdim)

    def _median_of_all(self: Tensor, ignore_nan: bool) -> Tensor:
        flat = self.reshape(-1) if self.numel() else self.reshape(0)
        if not self.numel():
            from gradino.factories import full

            nothing = float("nan") if self.dtype.is_floating_point else -(2**63)
            return full((), nothing, dtype=self.dtype, device=self.device)
        found: Extremes = flat.nanmedian(0) if ignore_nan else flat.median(0)
        return found.values

    def mode(self: Tensor, dim: int = -1, keepdim: bool = False) -> Extremes:
        """The most frequent value along ``dim``, of several the smallest, and where it stands last."""
        from gradino.factories import arange

        d, n = _entries("mode", self, dim)
        if not self.ndim:
            return self.sort()
        ordered = self.sort(d)
        values = ordered.values
        place = arange(n, device=self.device).reshape([n if k == d else 1 for k in range(self.ndim)]).expand(self.shape)
        same = values.narrow(d, 1, n - 1) == values.narrow(d, 0, n - 1)
        starts = place.narrow(d, 1, n - 1).masked_fill(same, 0)
        first = starts.cummax(d).values if n > 1 else starts
        length = place.narrow(d, 1, n - 1) - first
        longest = length.argmax(d, keepdim=True) + 1 if n > 1 else place.narrow(d, 0, 1)
        if n > 1:  # where every value stands once, the first
            longest = longest.where(length.amax(d, keepdim=True) > 0, 0)
        return _chosen(ordered, longest, d, keepdim)

    def quantile(self: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
        """The value below which a share ``q`` of the elements lies; NaN if there is one. Several q: a first dimension for them."""
        from gradino.functions.sorting import quantile_of

        return quantile_of("quantile", self, q, dim, keepdim, interpolation, ignore_nan=False)

    def nanquantile(self: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
        """``quantile`` of what is not NaN."""
        from gradino.functions.sorting import quantile_of

        return quantile_of("nanquantile", self, q, dim, keepdim, interpolation, ignore_nan=True)

    def unique(self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
        """The different elements in order (or slices of ``dim``), where each element went, and how often each stands."""
        from gradino.functions.sorting import unique

        return unique(self, sorted, return_inverse, return_counts, dim)

    def unique_consecutive(self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
        """The elements without repetitions that stand next to each other."""
        from gradino.functions.sorting import unique_consecutive

        return unique_consecutive(self, return_inverse, return_counts, dim)

    def histc(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
        """How many elements lie in each of ``bins`` equal parts of [min, max]; without limits, of the elements' own range."""
        from gradino.functions.sorting import histc

        return histc(self, bins, min, max)

    def bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
        """How often each of 0, 1, 2, .. stands in a vector, or the sums of the weights."""
        from gradino.functions.sorting import bincount

        return bincount(self, weights, minlength)

    # ---- scans -------------------------------------------------------------------------------------------------

    def cumsum(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        """Sums of the entries so far along ``dim``; of bools and integers in int64. Carried in float64."""
        return _scan(_CUMSUM, "cumsum", self, dim, dtype)

    def cumprod(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        """Products of the entries so far along ``dim``; of bools and integers in int64. Carried in float64."""
        return _scan(_CUMPROD, "cumprod", self, dim, dtype)

    def logcumsumexp(self: Tensor, dim: int) -> Tensor:
        """``log(cumsum(exp(x)))`` without overflow."""
        if not self.dtype.is_floating_point:
            raise DTypeError(f"logcumsumexp: must be floating point, is {self.dtype}")
        return along(_LOGCUMSUMEXP, "logcumsumexp", self, dim)

    def cummax(self: Tensor, dim: int) -> Extremes:
        """The largest so far along ``dim``, and where it stands, of equal ones the last. NaN stays."""
        return _pair(along(_CUMMAX, "cummax", self, dim))

    def cummin(self: Tensor, dim: int) -> Extremes:
        """The smallest so far along ``dim``, and where it stands, of equal ones the last. NaN stays."""
        return _pair(along(_CUMMIN, "cummin", self, dim))

    def cumsum_(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        """``cumsum`` in place."""
        return self._written("cumsum_", lambda a: a.cumsum(dim, dtype=dtype))

    def cumprod_(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        """``cumprod`` in place."""
        return self._written("cumprod_", lambda a: a.cumprod(dim, dtype=dtype))

    def diff(self: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """Differences of neighbours along ``dim``, ``n`` times; of bools, where they differ."""
        from gradino.functions.shaping import cat

        if not self.ndim:
            raise ShapeError("diff: a tensor without dimensions has no neighbours")
        times, d, result = whole("diff", "n", n), dimension("diff", self.ndim, dim), self
        if times < 0:
            raise InvalidValueError(f"diff: n is {n}, must be at least 0")
        if prepend is not None or append is not None:
            result = cat([part for part in (prepend, self, append) if part is not None], d) if times else self
        for _ in range(times):
            size = result.shape[d]
            if not size:
                break
            after, before = result.narrow(d, min(1, size), max(size - 1, 0)), result.narrow(d, 0, max(size - 1, 0))
            result = after != before if result.dtype is bool_ else after - before
        return result if result is not self else self.clone()


def _scan(op: int, name: str, a: Tensor, dim: Any, dtype: Any) -> Tensor:
    if dtype is not None:
        wanted = resolve(dtype)
        result = along(op, name, a.to(wanted), dim)
        return result if result.dtype is wanted else result.to(wanted)
    return along(op, name, a, dim)
