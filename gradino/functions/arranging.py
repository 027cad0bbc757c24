"""Turning, repeating, joining and cutting tensors, and their diagonals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from gradino._arguments import whole
from gradino._arranging import need_tensors
from gradino.dtypes import int64
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.functions._arguments import _tensor
from gradino.functions.shaping import cat, stack
from gradino.tensor import Tensor

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "broadcast_to", "cartesian_prod",
    "column_stack", "diag", "diag_embed", "diagflat", "diagonal", "diagonal_scatter", "dsplit", "dstack", "flip", "fliplr", "flipud",
    "hsplit", "hstack", "meshgrid", "moveaxis", "movedim", "narrow", "ravel", "repeat_interleave", "roll", "rot90", "row_stack", "select",
    "select_scatter", "slice_scatter", "swapaxes", "swapdims", "t", "tensor_split", "tile", "trace", "tril_indices", "triu_indices",
    "unflatten", "vsplit", "vstack",
]  # fmt: skip


def flip(input: Tensor, dims: Sequence[int] | int) -> Tensor:
    """Entries of the dimensions in reverse order."""
    return _tensor("flip", input).flip(dims)


def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order."""
    return _tensor("fliplr", input).fliplr()


def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order."""
    return _tensor("flipud", input).flipud()


def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Entries moved along dimensions; those pushed out come in again."""
    return _tensor("roll", input).roll(shifts, dims)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by 90 degrees ``k`` times."""
    return _tensor("rot90", input).rot90(k, dims)


def tile(input: Tensor, dims: Sequence[int]) -> Tensor:
    """The tensor several times along each dimension."""
    return _tensor("tile", input).tile(dims)


def repeat_interleave(input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each entry several times; with ``repeats`` alone, the numbers of entries, each as often as it says."""
    if repeats is None:
        return interleaved_index(_tensor("repeat_interleave", input), output_size)
    return _tensor("repeat_interleave", input).repeat_interleave(repeats, dim, output_size=output_size)


def interleaved_index(repeats: Tensor, output_size: int | None = None) -> Tensor:
    """0 ``repeats[0]`` times, 1 ``repeats[1]`` times, and so on."""
    from gradino.factories import arange
    from gradino.functions.sorting import searchsorted

    if repeats.ndim != 1 or repeats.dtype.is_floating_point:
        raise ShapeError(f"repeat_interleave: repeats must be a vector of integers, got shape {repeats.shape}, {repeats.dtype}")
    if repeats.numel() and repeats.amin().item() < 0:
        raise InvalidValueError("repeat_interleave: repeats must be at least 0")
    ends = repeats.to(int64).cumsum(0)
    total = int(ends[-1].item()) if repeats.numel() else 0
    if output_size is not None and output_size != total:
        raise InvalidValueError(f"repeat_interleave: output_size is {output_size}, but repeats add up to {total}")
    return searchsorted(ends, arange(total, device=ends.device), right=True)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that tensors of these shapes are broadcast to."""
    full: list[int] = []
    for shape in shapes:
        sizes = [shape] if isinstance(shape, int) else list(shape)
        full = [1] * (len(sizes) - len(full)) + full
        for k in range(1, len(sizes) + 1):
            if full[-k] == 1:
                full[-k] = sizes[-k]
            elif sizes[-k] not in (1, full[-k]):
                raise ShapeError(f"broadcast_shapes: shapes {shapes} cannot be broadcast: dimension {-k} is {full[-k]} and {sizes[-k]}")
    return tuple(full)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of one shape, with dimensions of size 1 repeated."""
    given = need_tensors("broadcast_tensors", tensors)
    shape = broadcast_shapes(*(t.shape for t in given))
    return tuple(t.expand(shape) for t in given)


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """A view with dimensions of size 1 repeated."""
    return _tensor("broadcast_to", input).broadcast_to(size)


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions at other places."""
    return _tensor("movedim", input).movedim(source, destination)


def moveaxis(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """``movedim``."""
    return _tensor("moveaxis", input).movedim(source, destination)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose``."""
    return _tensor("swapaxes", input).transpose(axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """``transpose``."""
    return _tensor("swapdims", input).transpose(dim0, dim1)


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix."""
    return _tensor("t", input).t()


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` entries of ``dim`` from ``start`` on."""
    return _tensor("narrow", input).narrow(dim, start, length)


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One entry of ``dim``, without that dimension."""
    return _tensor("select", input).select(dim, index)


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension as several."""
    return _tensor("unflatten", input).unflatten(dim, sizes)


def ravel(input: Tensor) -> Tensor:
    """All elements as a vector."""
    return _tensor("ravel", input).ravel()


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid from one vector for each dimension: views of one shape. ``indexing`` is ``"ij"`` or ``"xy"``."""
    given = need_tensors("meshgrid", tensors)
    if not given or len(given) > 4:
        raise ShapeError(f"meshgrid: {len(given)} tensors: there must be one to four")
    if indexing is None:
        warnings.warn("meshgrid: pass indexing='ij' or 'xy'; without it, it is 'ij'", UserWarning, stacklevel=2)
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise InvalidValueError(f"meshgrid: indexing is {indexing!r}, must be 'ij' or 'xy'")
    for v in given:
        if v.ndim > 1:
            raise ShapeError(f"meshgrid: expected vectors or numbers, got shape {v.shape}")
    if len({v.dtype for v in given}) > 1:
        raise DTypeError("meshgrid: all tensors must have one dtype")
    order = [1, 0, *range(2, len(given))] if indexing == "xy" and len(given) > 1 else list(range(len(given)))
    shape = [given[k].numel() for k in order]
    grids = [given[k].reshape([-1 if d == at else 1 for d in range(len(shape))]).expand(shape) for at, k in enumerate(order)]
    if indexing == "xy" and len(given) > 1:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, as rows."""
    given = need_tensors("cartesian_prod", tensors)
    if len(given) == 1:
        return given[0]
    return stack([g.flatten() for g in meshgrid(given, indexing="ij")], 1)


def _atleast(tensors: tuple[Any, ...], name: str, grow: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return grow(tensors[0])
    return tuple(grow(x) for x in need_tensors(name, tensors))


def _to_1d(x: Tensor) -> Tensor:
    return x if x.ndim else x.reshape(1)


def _to_2d(x: Tensor) -> Tensor:
    return x if x.ndim >= 2 else _to_1d(x).unsqueeze(0)


def _to_3d(x: Tensor) -> Tensor:
    return x if x.ndim >= 3 else _to_2d(x).unsqueeze(-1)


def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dimension."""
    return _atleast(tensors, "atleast_1d", _to_1d)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions, new ones in front."""
    return _atleast(tensors, "atleast_2d", _to_2d)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions: a vector becomes (1, n, 1), a matrix (n, m, 1)."""
    return _atleast(tensors, "atleast_3d", _to_3d)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side: along the second dimension, vectors along the first."""
    given = [_to_1d(x) for x in need_tensors("hstack", (tensors,))]
    return cat(given, 0 if given and given[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """One below the other: along the first dimension, vectors as rows."""
    return cat([_to_2d(x) for x in need_tensors("vstack", (tensors,))], 0)


row_stack = vstack


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """One behind the other: along the third dimension."""
    return cat([_to_3d(x) for x in need_tensors("dstack", (tensors,))], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side, vectors as columns."""
    return cat([x.reshape(-1, 1) if x.ndim < 2 else x for x in need_tensors("column_stack", (tensors,))], 1)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of almost equal size, or that end before the given entries."""
    return _tensor("tensor_split", input).tensor_split(indices_or_sections, dim)


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts along columns."""
    return _tensor("hsplit", input).hsplit(indices_or_sections)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts along rows."""
    return _tensor("vsplit", input).vsplit(indices_or_sections)


def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts along the third dimension."""
    return _tensor("dsplit", input).dsplit(indices_or_sections)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two dimensions as the last dimension; a view."""
    return _tensor("diagonal", input).diagonal(offset, dim1, dim2)


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or a matrix with a vector on its diagonal."""
    return _tensor("diag", input).diag(diagonal)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices of zeros with the last dimension on a diagonal."""
    return _tensor("diag_embed", input).diag_embed(offset, dim1, dim2)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements on its diagonal."""
    return _tensor("diagflat", input).diagflat(offset)


def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    return _tensor("trace", input).trace()


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with ``src`` as one entry of ``dim``."""
    return _tensor("select_scatter", input).select_scatter(src, dim, index)


def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """A copy with ``src`` as a slice of ``dim``."""
    return _tensor("slice_scatter", input).slice_scatter(src, dim, start, end, step)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with ``src`` as a diagonal."""
    return _tensor("diagonal_scatter", input).diagonal_scatter(src, offset, dim1, dim2)


def _triangle_indices(name: str, row: int, col: int, keep: Any, dtype: Any, device: Any) -> Tensor:
    from gradino.factories import ones

    rows, columns = whole(name, "row", row), whole(name, "col", col)
    if rows < 0 or columns < 0:
        raise InvalidValueError(f"{name}: {rows} rows and {columns} columns: they must be at least 0")
    found: Tensor = keep(ones(rows, columns, dtype=int64, device=device)).nonzero().t().contiguous()
    return found if dtype is None else found.to(dtype)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Row and column numbers (2, n) of the elements on and below a diagonal of a (row, col) matrix."""
    return _triangle_indices("tril_indices", row, col, lambda m: m.tril(offset), dtype, device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Row and column numbers (2, n) of the elements on and above a diagonal of a (row, col) matrix."""
    return _triangle_indices("triu_indices", row, col, lambda m: m.triu(offset), dtype, device)


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with matrices along its diagonal, and zeros elsewhere. Vectors are rows."""
    from gradino.nn.pad import pad_with

    blocks = [_to_2d(x) for x in need_tensors("block_diag", tensors)]
    for block in blocks:
        if block.ndim > 2:
            raise ShapeError(f"block_diag: shape {block.shape} is no matrix")
    width, at, rows = sum(block.shape[1] for block in blocks), 0, []
    for block in blocks:
        rows.append(pad_with(block, (at, width - at - block.shape[1]), "constant", 0))
        at += block.shape[1]
    return cat(rows, 0)
