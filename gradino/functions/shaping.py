"""Products, joins, selections and functions of the shape."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from gradino._arguments import shown, whole
from gradino._core import wrap
from gradino._lib import lib
from gradino.dtypes import promote_types
from gradino.errors import DTypeError
from gradino.functions._arguments import _tensor
from gradino.tensor import Tensor

__all__ = [
    "bmm", "cat", "chunk", "concat", "concatenate", "flatten", "gather", "index_select", "is_tensor", "matmul", "mm", "nonzero", "numel",
    "permute", "reshape", "split", "squeeze", "stack", "transpose", "tril", "triu", "unbind", "unsqueeze",
]  # fmt: skip


def _handles(name: str, tensors: Sequence[Tensor]) -> list[int]:
    if not isinstance(tensors, (list, tuple)):
        raise DTypeError(f"{name}: expected a list or tuple of tensors, got {shown(tensors)}")
    handles = [getattr(t, "_h", 0) for t in tensors]
    if not handles or 0 in handles:
        raise DTypeError(f"{name}: expected a non-empty sequence of tensors, got {[type(t).__name__ for t in tensors]}")
    return handles


def _joined(name: str, join: Any, tensors: Sequence[Tensor], dim: Any) -> Tensor:
    """cat or stack; tensors of different dtypes are converted to the one that holds all, as in PyTorch."""
    handles, dim = _handles(name, tensors), whole(name, "dim", dim)
    if name == "cat" and any(t.ndim != 1 for t in tensors):  # PyTorch's "no tensor yet" of shape (0,) may stand beside any other
        handles = [t._h for t in tensors if t.shape != (0,)]
    handle = join(handles, len(handles), dim)
    if handle or lib.gd_last_status() != lib.GD_ERR_DTYPE:
        return wrap(handle)
    lib.gd_clear_error()  # or it would wait for the next call
    highest = functools.reduce(promote_types, (t.dtype for t in tensors))
    return wrap(join([lib.gd_cast(h, highest.code) for h in handles], len(handles), dim))


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one after another along ``dim``; all other sizes must be equal. Dtypes are promoted."""
    return _joined("cat", lib.gd_cat, tensors, dim)


concat = cat
concatenate = cat


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension ``dim``. Dtypes are promoted."""
    return _joined("stack", lib.gd_stack, tensors, dim)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """``input @ other``: vectors, matrices, or batches of matrices, broadcast."""
    return _tensor("matmul", input).matmul(other)


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    return _tensor("mm", input).mm(mat2)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two batches of matrices, (B, M, K) and (B, K, N)."""
    return _tensor("bmm", input).bmm(mat2)


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The last two dimensions with 0 above a diagonal."""
    return _tensor("tril", input).tril(diagonal)


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The last two dimensions with 0 below a diagonal."""
    return _tensor("triu", input).triu(diagonal)


def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """The elements in another shape."""
    return _tensor("reshape", input).reshape(shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions merged into one."""
    return _tensor("flatten", input).flatten(start_dim, end_dim)


def permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """Dimensions in another order."""
    return _tensor("permute", input).permute(dims)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped."""
    return _tensor("transpose", input).transpose(dim0, dim1)


def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without dimensions of size 1."""
    return _tensor("squeeze", input).squeeze(dim)


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new dimension of size 1."""
    return _tensor("unsqueeze", input).unsqueeze(dim)


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The entries of ``dim`` that ``index`` names."""
    return _tensor("index_select", input).index_select(dim, index)


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """One entry of ``dim`` for each element of ``index``."""
    return _tensor("gather", input).gather(dim, index)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Indices of the elements that are not 0."""
    return _tensor("nonzero", input).nonzero(as_tuple=as_tuple)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All entries of ``dim``."""
    return _tensor("unbind", input).unbind(dim)


def split(input: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts along ``dim``."""
    return _tensor("split", input).split(split_size, dim)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` equal parts along ``dim``."""
    return _tensor("chunk", input).chunk(chunks, dim)


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """Number of elements."""
    return _tensor("numel", input).numel()
