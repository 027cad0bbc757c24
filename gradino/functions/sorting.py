"""Sorting, order statistics, searching and counting."""

from __future__ import annotations

from typing import Any

from gradino._arguments import as_float, flag, shown, whole
from gradino._call import dimension, run
from gradino._lib import lib, op_id
from gradino._reductions import Extremes
from gradino.dtypes import bool_, float32, float64, int32, int64
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.functions._arguments import _tensor
from gradino.functions.shaping import cat
from gradino.tensor import Tensor

__all__ = [
    "argsort", "bincount", "bucketize", "histc", "isin", "kthvalue", "median", "mode", "msort", "nanmedian", "nanquantile", "quantile",
    "searchsorted", "sort", "topk", "unique", "unique_consecutive",
]  # fmt: skip

_SEARCH = op_id("searchsorted")
_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


class _Absent:
    _h = lib.GD_ABSENT


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Extremes:
    """Values in order along ``dim``, and where they stood; always stable."""
    return _tensor("sort", input).sort(dim, descending, stable)


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Where the values stood that ``sort`` gives."""
    return _tensor("argsort", input).argsort(dim, descending, stable)


def msort(input: Tensor) -> Tensor:
    """Values in order along the first dimension."""
    return _tensor("msort", input).msort()


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Extremes:
    """The ``k`` largest (or smallest) along ``dim``, in order, and where they stand."""
    return _tensor("topk", input).topk(k, dim, largest, sorted)


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Extremes:
    """The ``k``-th smallest along ``dim``, and where it stands."""
    return _tensor("kthvalue", input).kthvalue(k, dim, keepdim)


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median, of two the smaller; with ``dim`` values and indices."""
    return _tensor("median", input).median(dim, keepdim)


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of what is not NaN."""
    return _tensor("nanmedian", input).nanmedian(dim, keepdim)


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Extremes:
    """The most frequent value along ``dim``, and where it stands last."""
    return _tensor("mode", input).mode(dim, keepdim)


def quantile(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """The value below which a share ``q`` of the elements lies."""
    return _tensor("quantile", input).quantile(q, dim, keepdim, interpolation=interpolation)


def nanquantile(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """``quantile`` of what is not NaN."""
    return _tensor("nanquantile", input).nanquantile(q, dim, keepdim, interpolation=interpolation)


def quantile_of(name: str, a: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool) -> Tensor:
    """The quantiles of sorted lines, between two entries by ``interpolation``."""
    if interpolation not in _INTERPOLATIONS:
        raise InvalidValueError(f"{name}: interpolation is {shown(interpolation)}, must be one of {', '.join(_INTERPOLATIONS)}")
    if a.dtype not in (float32, float64):
        raise DTypeError(f"{name}: input must be float32 or float64, is {a.dtype}")
    shares = q if isinstance(q, Tensor) else Tensor(as_float(name, q), dtype=a.dtype).to(a.device)
    if shares.ndim > 1 or shares.dtype is not a.dtype:
        raise DTypeError(f"{name}: q must be a number, or a vector of the input's dtype")
    if shares.numel() and not (shares.amin().item() >= 0 and shares.amax().item() <= 1):
        raise InvalidValueError(f"{name}: q must be in [0, 1]")
    if not a.numel():
        raise InvalidValueError(f"{name}: input must not be empty")
    ndim, d = a.ndim, 0 if dim is None else dimension(name, a.ndim, dim)
    lines = a.reshape(-1) if dim is None or not ndim else a.movedim(d, -1)
    ordered, shape, n = lines.sort().values, lines.shape, lines.shape[-1]
    flat = ordered.reshape(-1, n)
    numbers = flat.isnan().logical_not().sum(-1, keepdim=True)
    ranks = shares.reshape(1, -1) * (numbers - 1).clamp(0).to(a.dtype)
    if not ignore_nan:
        ranks = ranks.where(numbers == n, n - 1)  # NaN stands last
    below = ranks.floor().to(int64)
    if interpolation in ("lower", "higher", "nearest"):
        at = below if interpolation == "lower" else (ranks.ceil() if interpolation == "higher" else ranks.round()).to(int64)
        picked = flat.gather(1, at)
    else:
        low, high = flat.gather(1, below), flat.gather(1, ranks.ceil().to(int64))
        weight = ranks - below.to(a.dtype) if interpolation == "linear" else ranks * 0 + 0.5
        step = high - low
        picked = (low + weight * step).where(weight < 0.5, high - step * (1 - weight))
    first = [shares.numel()] if shares.ndim else []
    kept = list(shape[:-1]) if dim is not None else []
    if keepdim and ndim:
        kept = [1] * ndim if dim is None else [*kept[:d], 1, *kept[d:]]
    return picked.t().reshape(first + kept)


# ---- different elements ------------------------------------------------------------------------------------------


def _counted(ends: Tensor, n: int) -> Tensor:
    """Lengths of the runs that start at ``ends``, of n entries."""
    return cat([ends, Tensor([n], dtype=int64).to(ends.device)]).diff()


def _runs(differs: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Where runs start, and the number of the run of each of n entries, from whether entries 1.. differ from those before."""
    from gradino.factories import ones

    starts = cat([ones(min(n, 1), dtype=bool_, device=differs.device), differs])
    return starts.nonzero().reshape(-1), starts.to(int64).cumsum(0) - 1


def _results(values: Tensor, inverse: Tensor | None, counts: Tensor | None) -> Any:
    if inverse is None and counts is None:
        return values
    return tuple(x for x in (values, inverse, counts) if x is not None)


def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The elements (or slices of ``dim``) without repetitions that stand next to each other.

    Optionally the number of the one that each element went to, and how often each stood.
    """
    a = _tensor("unique_consecutive", input).detach()
    if dim is None:
        flat = a.ravel()
        n = flat.numel()
        starts, run_of = _runs(flat[1:] != flat[:-1], n)
        values, inverse = flat.index_select(0, starts), run_of.reshape(a.shape)
    else:
        d = dimension("unique_consecutive", a.ndim, dim)
        rows = a.movedim(d, 0)
        n = rows.shape[0]
        starts, inverse = _runs(
            (rows[1:] != rows[:-1]).reshape(n - 1, -1).any(1) if n > 1 and rows.numel() else rows.new_zeros(0, dtype=bool_), n
        )
        values = a.index_select(d, starts)
    return _results(values, inverse if return_inverse else None, _counted(starts, n) if return_counts else None)


def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The different elements (or slices of ``dim``), always in order; each NaN is one.

    Optionally the number of the one that each element went to, and how often each stood.
    """
    flag("unique", "sorted", sorted)
    a = _tensor("unique", input).detach()
    if dim is None:
        flat = a.ravel()
        ordered, places = flat.sort()
        differs = ordered[1:] != ordered[:-1]
        n = flat.numel()
    else:
        d = dimension("unique", a.ndim, dim)
        rows = a.movedim(d, 0)
        n = rows.shape[0]
        flat = rows.reshape(n, -1) if rows.numel() else rows.reshape(n, 0)
        places = Tensor(range(n) if n else [], dtype=int64).to(a.device)
        for column in reversed(range(flat.shape[1])):  # the first one counts most
            places = places.index_select(0, flat.select(1, column).index_select(0, places).argsort(stable=True))
        ordered = flat.index_select(0, places)
        differs = (ordered[1:] != ordered[:-1]).any(1) if n else Tensor([], dtype=bool_).to(a.device)
    starts, run_of = _runs(differs, n)
    inverse = run_of.scatter(0, places, run_of) if return_inverse and n else run_of
    first = places.index_select(0, starts)
    values = ordered.index_select(0, starts) if dim is None else a.index_select(d, first)
    inverse = inverse.reshape(a.shape) if dim is None else inverse
    return _results(values, inverse if return_inverse else None, _counted(starts, n) if return_counts else None)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Where an element is one of the test elements, as bool."""
    flag("isin", "assume_unique", assume_unique)
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise DTypeError("isin: one of elements and test_elements must be a tensor")
    x = elements if isinstance(elements, Tensor) else Tensor(elements)
    tests = test_elements if isinstance(test_elements, Tensor) else Tensor(test_elements)
    if x.dtype is not tests.dtype:
        from gradino.dtypes import promote_types

        common = promote_types(x.dtype, tests.dtype)
        x, tests = x.to(common), tests.to(common)
    ordered, n = tests.detach().ravel().sort().values, tests.numel()
    if n == 0:
        found = x != x if not x.dtype.is_floating_point else x.isnan().logical_and(x == x)
    else:
        found = ordered.index_select(0, searchsorted(ordered, x.ravel()).clamp(max=n - 1)).reshape(x.shape) == x
    return found.logical_not() if invert else found


# ---- searching and counting -----------------------------------------------------------------------------------------


def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where values would go in sorted lines so that these stay sorted: before equal entries, or with ``right`` behind them.

    Args:
        sorted_sequence: (n,), or (..., n) with the leading dimensions of ``input``.
        input: (..., m), or a number.
        side: ``"left"`` or ``"right"``, another way to say ``right``.
        sorter: int64 places that put an unsorted sequence in order, as ``argsort`` gives them.
    """
    lines = _tensor("searchsorted", sorted_sequence)
    if side not in (None, "left", "right"):
        raise InvalidValueError(f"searchsorted: side is {shown(side)}, must be 'left' or 'right'")
    if side == "left" and right:
        raise InvalidValueError("searchsorted: side is 'left', but right is True")
    values = input if isinstance(input, Tensor) else Tensor(input, dtype=lines.dtype)
    if values.dtype is not lines.dtype:
        raise DTypeError(f"searchsorted: the sorted sequence is {lines.dtype} and the values are {values.dtype}: they must have one dtype")
    if not lines.ndim:
        raise ShapeError("searchsorted: the sorted sequence must have at least one dimension")
    found = run(_SEARCH, (lines, values, _Absent if sorter is None else sorter), (right or side == "right",))
    return found.to(int32) if flag("searchsorted", "out_int32", out_int32) else found


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket that each value falls into: how many boundaries lie below it (``right``: or equal it)."""
    if _tensor("bucketize", boundaries).ndim != 1:
        raise ShapeError(f"bucketize: boundaries must be a vector, got shape {boundaries.shape}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of ``bins`` equal parts of [min, max], in the input's dtype; others are left out."""
    from gradino.factories import zeros

    a, count = _tensor("histc", input).detach().ravel(), whole("histc", "bins", bins)
    low, high = as_float("histc", min), as_float("histc", max)
    if count < 1:
        raise InvalidValueError(f"histc: {bins} bins, must be at least 1")
    if not a.dtype.is_floating_point:
        raise DTypeError(f"histc: must be floating point, is {a.dtype}")
    if low == high and a.numel():
        low, high = float(a.amin().item()), float(a.amax().item())
    if low == high:
        low, high = low - 1, high + 1
    if not -float("inf") < low < high < float("inf"):
        raise InvalidValueError(f"histc: the range [{low}, {high}] must be finite, its end not below its start")
    inside = a[(a >= low).logical_and(a <= high)]
    at = ((inside - low) * count / (high - low)).to(int64).clamp(0, count - 1)
    return zeros(count, dtype=a.dtype, device=a.device).scatter_add(0, at, inside * 0 + 1)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2, .. stands in a vector as int64, or the sums of the weights."""
    from gradino.factories import ones, zeros

    a, least = _tensor("bincount", input), whole("bincount", "minlength", minlength)
    if a.ndim != 1 or a.dtype.is_floating_point or a.dtype is bool_:
        raise DTypeError(f"bincount: expected a vector of integers, got shape {a.shape}, {a.dtype}")
    if least < 0:
        raise InvalidValueError(f"bincount: minlength is {minlength}, must be at least 0")
    if weights is not None and weights.shape != a.shape:
        raise ShapeError(f"bincount: weights have shape {weights.shape}, must have {a.shape}")
    index, n = a.to(int64), least
    if a.numel():
        if index.amin().item() < 0:
            raise InvalidValueError("bincount: numbers must be at least 0")
        largest = int(index.amax().item()) + 1
        n = largest if largest > n else n
    if weights is None:
        return zeros(n, dtype=int64, device=a.device).scatter_add(0, index, ones(a.numel(), dtype=int64, device=a.device))
    sums = weights.detach() if weights.dtype is float32 else weights.detach().to(float64)
    return zeros(n, dtype=sums.dtype, device=sums.device).scatter_add(0, index, sums)
