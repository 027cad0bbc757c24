"""Views, indexing and data movement as methods of Tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradino import _indexing
from gradino._arguments import entry, whole
from gradino._core import call, handle_of, shape_of, sizes, wrap
from gradino._lib import lib
from gradino.errors import OutOfRangeError, ShapeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Shaping"]


def _triangle(name: str, a: Tensor, diagonal: int, below: bool) -> Tensor:
    from gradino.devices import beside
    from gradino.factories import arange

    if a.ndim < 2:
        raise ShapeError(f"{name}: shape {a.shape} has no matrices: at least two dimensions are needed")
    diagonal = whole(name, "diagonal", diagonal)
    rows, columns = a.shape[-2:]
    with beside(a):
        offset = arange(columns) - arange(rows).unsqueeze(1)
    return a.masked_fill(offset > diagonal if below else offset < diagonal, 0)


def _product(name: str, a: Tensor, b: Tensor, ndim: int) -> Tensor:
    other = handle_of(name, b)
    if a.ndim != ndim or b.ndim != ndim:
        raise ShapeError(f"{name}: shapes {a.shape} and {b.shape}: both must have {ndim} dimensions")
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(f"{name}: shapes {a.shape} and {b.shape}: both must have the same number of matrices")
    return wrap(lib.gd_matmul(a._h, other))


class Shaping:
    """Views share memory with their tensor; only ``reshape``, ``flatten`` and ``contiguous`` may copy."""

    __slots__ = ()
    _h: int

    def __getitem__(self: Tensor, index: Any) -> Tensor:
        """``self[index]``: ints, slices, None, ``...``, a bool mask or integer tensors; a view but for the last two."""
        return _indexing.get(self, index)

    def __setitem__(self: Tensor, index: Any, value: Any) -> None:
        _indexing.set_(self, index, value)

    def reshape(self: Tensor, *shape: Any) -> Tensor:
        """The elements in another shape, one size of which may be -1; a view where strides allow."""
        new = sizes(shape, "reshape")
        return wrap(lib.gd_reshape(self._h, len(new), new))

    def view(self: Tensor, *shape: Any) -> Tensor:
        """Like ``reshape``, but an error where a copy would be needed."""
        new = sizes(shape, "view")
        return wrap(lib.gd_view_as(self._h, len(new), new))

    def view_as(self: Tensor, other: Tensor) -> Tensor:
        """``view`` in the shape of another tensor."""
        return self.view(shape_of(handle_of("view_as", other)))

    def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Dimensions ``start_dim`` to ``end_dim`` merged into one."""
        shape = self.shape
        n, start_dim, end_dim = max(len(shape), 1), whole("flatten", "start_dim", start_dim), whole("flatten", "end_dim", end_dim)
        start, end = start_dim % n if -n <= start_dim < n else n, end_dim % n if -n <= end_dim < n else n
        if not 0 <= start <= end < n:
            raise ShapeError(f"flatten: dimensions {start_dim} to {end_dim} of shape {shape}: they must exist, in this order")
        merged = 1
        for size in shape[start : end + 1]:
            merged *= size
        return self.reshape(*shape[:start], merged, *shape[end + 1 :])

    def permute(self: Tensor, *dims: Any) -> Tensor:
        """Dimensions in another order."""
        order = sizes(dims, "permute")
        return wrap(lib.gd_permute(self._h, len(order), order))

    def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
        """Two dimensions swapped."""
        return call("transpose", lib.gd_transpose, self._h, dim0, dim1)

    def t(self: Tensor) -> Tensor:
        """The transpose of a matrix."""
        if self.ndim > 2:
            raise ShapeError(f"t: for matrices; this tensor has shape {self.shape}")
        return self if self.ndim < 2 else wrap(lib.gd_transpose(self._h, 0, 1))

    @property
    def T(self: Tensor) -> Tensor:  # noqa: N802
        """Dimensions in reverse order."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self: Tensor) -> Tensor:  # noqa: N802
        """The last two dimensions swapped."""
        return wrap(lib.gd_transpose(self._h, -2, -1))

    def expand(self: Tensor, *shape: Any) -> Tensor:
        """Dimensions of size 1 repeated without copying; -1 keeps a size."""
        new = sizes(shape, "expand")
        return wrap(lib.gd_expand(self._h, len(new), new))

    def expand_as(self: Tensor, other: Tensor) -> Tensor:
        """``expand`` to the shape of another tensor."""
        return self.expand(shape_of(handle_of("expand_as", other)))

    def squeeze(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
        """Without dimensions of size 1 (all, or ``dim``, one or several, where their size is 1)."""
        if isinstance(dim, (tuple, list)):
            n, result = self.ndim, self
            for d in sorted((d % n if -n <= d < n else d for d in sizes(dim, "squeeze")), reverse=True):
                result = result.squeeze(d)
            return result
        result = call("squeeze", lib.gd_squeeze, self._h, 0 if dim is None else dim, dim is None)
        return self if result._h == self._h else result

    def unsqueeze(self: Tensor, dim: int) -> Tensor:
        """With a new dimension of size 1."""
        return call("unsqueeze", lib.gd_unsqueeze, self._h, dim)

    def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
        """``length`` entries of ``dim`` from ``start`` on."""
        size = entry("narrow", self.shape, dim)
        start, length = whole("narrow", "start", start), whole("narrow", "length", length)
        begin = start + size if start < 0 else start
        if length < 0 or not 0 <= begin <= size - length:
            raise OutOfRangeError(f"narrow: start {start} and length {length} do not fit dimension {dim} of shape {self.shape}")
        return wrap(lib.gd_slice(self._h, dim, begin, begin + length, 1))

    def select(self: Tensor, dim: int, index: int) -> Tensor:
        """One entry of ``dim``, without that dimension."""
        return call("select", lib.gd_select, self._h, dim, index)

    def unbind(self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
        """All entries of ``dim``."""
        return tuple(wrap(lib.gd_select(self._h, dim, i)) for i in range(entry("unbind", self.shape, dim)))

    def split(self: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Parts of ``split_size`` entries (the last may be smaller), or of the sizes given."""
        size = entry("split", self.shape, dim)
        if not isinstance(split_size, (tuple, list)):
            split_size = whole("split", "split_size", split_size)
            if split_size < 1:
                raise ShapeError(f"split: split_size is {split_size}, must be at least 1")
            lengths = [min(split_size, size - at) for at in range(0, size, split_size)] or [0]
        else:
            lengths = sizes(split_size, "split") if split_size else []
            if sum(lengths) != size or any(n < 0 for n in lengths):
                raise ShapeError(f"split: sizes {lengths} must add up to {size}, the size of dimension {dim} of shape {self.shape}")
        parts, at = [], 0
        for length in lengths:
            parts.append(wrap(lib.gd_slice(self._h, dim, at, at + length, 1)))
            at += length
        return tuple(parts)

    def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most ``chunks`` parts of equal size (the last may be smaller)."""
        chunks = whole("chunk", "chunks", chunks)
        if chunks < 1:
            raise ShapeError(f"chunk: {chunks} chunks, must be at least 1")
        return self.split(max(-(-entry("chunk", self.shape, dim) // chunks), 1), dim)

    def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
        """The entries of ``dim`` that the int64 vector ``index`` names."""
        return call("index_select", lib.gd_index_select, self._h, dim, handle_of("index_select", index))

    def gather(self: Tensor, dim: int, index: Tensor) -> Tensor:
        """``out[i][j] = self[index[i][j]][j]`` for ``dim`` 0, and so on. Shaped like ``index``."""
        return call("gather", lib.gd_gather, self._h, dim, handle_of("gather", index))

    def nonzero(self: Tensor, *, as_tuple: bool = False) -> Any:
        """Indices of the elements that are not 0, as int64: (count, ndim), or with ``as_tuple`` one vector for each dimension."""
        if as_tuple and not self.ndim:
            return self.reshape(1).nonzero(as_tuple=True)
        found = wrap(lib.gd_nonzero(self._h))
        return found.unbind(1) if as_tuple else found

    def tril(self: Tensor, diagonal: int = 0) -> Tensor:
        """The last two dimensions with 0 above a diagonal; positive ones lie above the main one."""
        return _triangle("tril", self, diagonal, below=True)

    def triu(self: Tensor, diagonal: int = 0) -> Tensor:
        """The last two dimensions with 0 below a diagonal; positive ones lie above the main one."""
        return _triangle("triu", self, diagonal, below=False)

    def matmul(self: Tensor, other: Tensor) -> Tensor:
        """``self @ other``."""
        return wrap(lib.gd_matmul(self._h, handle_of("matmul", other)))

    def mm(self: Tensor, mat2: Tensor) -> Tensor:
        """The product of two matrices."""
        return _product("mm", self, mat2, 2)

    def bmm(self: Tensor, mat2: Tensor) -> Tensor:
        """The products of two batches of matrices, (B, M, K) and (B, K, N)."""
        return _product("bmm", self, mat2, 3)
