"""``torch.linalg`` as far as it maps to norms and products; what needs a decomposition is not here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradino._arguments import shown
from gradino._call import dimension, dimensions
from gradino._linear_algebra import vector_norm as _vector_norm
from gradino.errors import InvalidValueError, ShapeError
from gradino.functions._arguments import _tensor
from gradino.functions.linear_algebra import chain_matmul
from gradino.tensor import Tensor

__all__ = ["cross", "diagonal", "matmul", "matrix_norm", "multi_dot", "norm", "vecdot", "vector_norm"]


def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """``(sum |x|^ord)^(1/ord)`` over ``dim``, one, several, or all."""
    return _vector_norm("vector_norm", _tensor("vector_norm", x), ord, dim, keepdim, dtype)


def matrix_norm(A: Tensor, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of matrices: ``"fro"``, or 1 and -1 (the largest and smallest sum of a column), inf and -inf (of a row).

    The orders 2, -2 and ``"nuc"`` need singular values, which are not supported.
    """
    a = _tensor("matrix_norm", A)
    if a.ndim < 2 or len(dim) != 2:
        raise ShapeError(f"matrix_norm: shape {a.shape} and dim {tuple(dim)}: two dimensions are needed")
    rows, columns = dimensions("matrix_norm", a.ndim, dim)
    if ord == "fro":
        return _vector_norm("matrix_norm", a, 2, (rows, columns), keepdim, dtype)
    if ord in (2, -2, "nuc"):
        raise InvalidValueError(f"matrix_norm: ord {shown(ord)} needs singular values, which are not supported")
    if ord not in (1, -1, math.inf, -math.inf):
        raise InvalidValueError(f"matrix_norm: ord is {shown(ord)}, must be 'fro', 1, -1, inf or -inf")
    summed, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = _vector_norm("matrix_norm", a, 1, summed, True, dtype)
    if not sums.shape[other] and ord > 0:  # of nothing
        sums = sums.sum(other, keepdim=True)
    chosen = sums.amax(other, keepdim=True) if ord > 0 else sums.amin(other, keepdim=True)
    return chosen if keepdim else chosen.squeeze((rows, columns))


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """``vector_norm`` or ``matrix_norm``: of matrices where ``ord`` is given and there are two dimensions to reduce."""
    a = _tensor("norm", A)
    if ord is None:
        return _vector_norm("norm", a, 2, dim, keepdim, dtype)
    if dim is None:
        if a.ndim not in (1, 2):
            raise ShapeError(f"norm: with ord the tensor must be a vector or a matrix, got shape {a.shape}; give dim")
        dim = (0, 1) if a.ndim == 2 else 0
    if isinstance(dim, (tuple, list)) and len(dim) == 2:
        return matrix_norm(a, ord, dim, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise InvalidValueError(f"norm: ord {shown(ord)} is for matrices")
    return _vector_norm("norm", a, ord, dim, keepdim, dtype)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross products of the vectors along ``dim``, which has 3 entries."""
    a, b = _tensor("cross", input), _tensor("cross", other)
    d = dimension("cross", a.ndim, dim)
    if a.ndim != b.ndim or not a.ndim or a.shape[d] != 3 or b.shape[d] != 3:
        raise ShapeError(f"cross: shapes {a.shape} and {b.shape}: both must have as many dimensions, and 3 entries in dimension {dim}")
    return a.cross(b, d)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """``input @ other``."""
    return _tensor("matmul", input).matmul(other)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices (the first and last may be vectors), in the order that needs the fewest multiplications."""
    given = [_tensor("multi_dot", t) for t in tensors]
    if len(given) < 2:
        raise ShapeError(f"multi_dot: {len(given)} tensors, must be at least two")
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    matrices = [given[0].unsqueeze(0) if first else given[0], *given[1:-1], given[-1].unsqueeze(1) if last else given[-1]]
    result = chain_matmul(*matrices)
    result = result.squeeze(-1) if last else result
    return result.squeeze(0) if first else result


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sums of products along ``dim``."""
    product = _tensor("vecdot", x) * _tensor("vecdot", y)
    return product.sum(dimension("vecdot", product.ndim, dim))


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A diagonal of two dimensions as the last dimension; a view."""
    return _tensor("diagonal", A).diagonal(offset, dim1, dim2)
