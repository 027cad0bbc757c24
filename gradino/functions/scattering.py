"""Picking and writing by index. Additions keep the index's row-major order on any number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino.functions._arguments import _tensor
from gradino.tensor import Tensor

__all__ = [
    "argwhere", "count_nonzero", "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "masked_scatter", "masked_select",
    "put", "scatter", "scatter_add", "scatter_reduce", "take", "take_along_dim",
]  # fmt: skip


def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
    """A copy with ``src`` (or a number) at the index along ``dim``."""
    return _tensor("scatter", input).scatter(dim, index, src, value=value, reduce=reduce)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy to which ``src`` is added at the index along ``dim``."""
    return _tensor("scatter_add", input).scatter_add(dim, index, src)


def scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """A copy in which what comes to each place along ``dim`` is reduced."""
    return _tensor("scatter_reduce", input).scatter_reduce(dim, index, src, reduce, include_self=include_self)


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """A copy to whose entries of ``dim`` those of ``source`` are added."""
    return _tensor("index_add", input).index_add(dim, index, source, alpha=alpha)


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy whose entries of ``dim`` are those of ``source``."""
    return _tensor("index_copy", input).index_copy(dim, index, source)


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy whose entries of ``dim`` are a number."""
    return _tensor("index_fill", input).index_fill(dim, index, value)


def index_reduce(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """A copy in whose entries of ``dim`` those of ``source`` are reduced."""
    return _tensor("index_reduce", input).index_reduce(dim, index, source, reduce, include_self=include_self)


def index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with ``out[indices] = values``."""
    return _tensor("index_put", input).index_put(indices, values, accumulate)


def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at places counted in row-major order."""
    return _tensor("take", input).take(index)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """``gather`` with all other dimensions broadcast."""
    return _tensor("take_along_dim", input).take_along_dim(indices, dim)


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with ``source`` at places counted in row-major order."""
    return _tensor("put", input).put(index, source, accumulate)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` holds, as a vector."""
    return _tensor("masked_select", input).masked_select(mask)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy in which the elements where ``mask`` holds are the first ones of ``source``."""
    return _tensor("masked_scatter", input).masked_scatter(mask, source)


def argwhere(input: Tensor) -> Tensor:
    """Indices of the elements that are not 0."""
    return _tensor("argwhere", input).argwhere()


def count_nonzero(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """How many elements are not 0."""
    return _tensor("count_nonzero", input).count_nonzero(dim)
