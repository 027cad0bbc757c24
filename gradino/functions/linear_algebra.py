"""Norms, distances, and products of vectors and matrices."""

from __future__ import annotations

from typing import Any

from gradino._arguments import as_float
from gradino._linear_algebra import vector_norm
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.functions._arguments import _tensor
from gradino.functions.arranging import broadcast_shapes
from gradino.tensor import Tensor

__all__ = [
    "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "baddbmm", "cdist", "chain_matmul", "corrcoef", "cov", "cross", "dist", "dot",
    "ger", "inner", "kron", "mv", "norm", "outer", "renorm", "vdot",
]  # fmt: skip

_MM_FROM = 25  # so many points on either side are multiplied rather than subtracted, as PyTorch does


def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """``(sum |x|^p)^(1/p)`` over ``dim``, one, several, or all."""
    return _tensor("norm", input).norm(p, dim, keepdim, dtype)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The norm of the difference."""
    return _tensor("dist", input).dist(other, p)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Entries of ``dim`` whose norm is above ``maxnorm`` scaled down to it."""
    return _tensor("renorm", input).renorm(p, dim, maxnorm)


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The sum of the products of two vectors' elements."""
    return _tensor("dot", input).dot(tensor)


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """``dot``."""
    return _tensor("vdot", input).dot(other)


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products of the last dimensions of both, summed."""
    return _tensor("inner", input).inner(other)


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors."""
    return _tensor("outer", input).outer(vec2)


def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """``outer``."""
    return _tensor("ger", input).outer(vec2)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    return _tensor("mv", input).mv(vec)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``."""
    return _tensor("addmm", input).addmm(mat1, mat2, beta=beta, alpha=alpha)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``."""
    return _tensor("addmv", input).addmv(mat, vec, beta=beta, alpha=alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``."""
    return _tensor("addr", input).addr(vec1, vec2, beta=beta, alpha=alpha)


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * (batch1 @ batch2)`` of batches of matrices."""
    return _tensor("baddbmm", input).baddbmm(batch1, batch2, beta=beta, alpha=alpha)


def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * input + alpha * sum(batch1 @ batch2)``."""
    return _tensor("addbmm", input).addbmm(batch1, batch2, beta=beta, alpha=alpha)


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """``input + value * tensor1 * tensor2``."""
    return _tensor("addcmul", input).addcmul(tensor1, tensor2, value=value)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """``input + value * tensor1 / tensor2``."""
    return _tensor("addcdiv", input).addcdiv(tensor1, tensor2, value=value)


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Cross products of the vectors along ``dim``, which has 3 entries."""
    return _tensor("cross", input).cross(other, dim)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product of tensors of at most two dimensions."""
    return _tensor("kron", input).kron(other)


def cov(input: Tensor, *, correction: float = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The covariance matrix of variables (rows) from observations (columns)."""
    return _tensor("cov", input).cov(correction=correction, fweights=fweights, aweights=aweights)


def corrcoef(input: Tensor) -> Tensor:
    """The correlation coefficients of variables (rows) from observations (columns)."""
    return _tensor("corrcoef", input).corrcoef()


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, in the order that needs the fewest multiplications."""
    shapes = [_tensor("chain_matmul", m).shape for m in matrices]
    if not matrices or any(len(s) != 2 for s in shapes):
        raise ShapeError(f"chain_matmul: expected matrices, got shapes {shapes}")
    sizes = [shapes[0][0], *(s[1] for s in shapes)]
    return _chained(list(matrices), sizes)


def _chained(matrices: list[Tensor], sizes: list[int]) -> Tensor:
    n = len(matrices)
    cost = {(i, i): 0 for i in range(n)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            best = min(costs)
            cost[i, j], cut[i, j] = best, i + costs.index(best)

    def product(i: int, j: int) -> Tensor:
        return matrices[i] if i == j else product(i, cut[i, j]).mm(product(cut[i, j] + 1, j))

    return product(0, n - 1)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Distances between the rows of (.., P, M) and those of (.., R, M): (.., P, R). Where one is 0 its gradient is 0."""
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    a, b, order = _tensor("cdist", x1), _tensor("cdist", x2), as_float("cdist", p)
    if compute_mode not in modes:
        raise InvalidValueError(f"cdist: compute_mode is {compute_mode!r}, must be one of {', '.join(modes)}")
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"cdist: shapes {a.shape} and {b.shape}: expected (.., P, M) and (.., R, M)")
    if not order >= 0:
        raise InvalidValueError(f"cdist: p is {p}, must be at least 0")
    if not a.dtype.is_floating_point or a.dtype is not b.dtype:
        raise DTypeError(f"cdist: expected floating point tensors of one dtype, got {a.dtype} and {b.dtype}")
    batch, points, others, size = broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-2], a.shape[-1]
    a, b = (
        a.expand(*batch, points, size).reshape(-1 if a.numel() and b.numel() else _count(batch), points, size),
        b.expand(*batch, others, size),
    )
    b = b.reshape(a.shape[0], others, size)
    many = compute_mode == modes[1] or (compute_mode == modes[0] and (points > _MM_FROM or others > _MM_FROM))
    if order == 2 and many and size:
        squares = a.square().sum(-1, keepdim=True) + b.square().sum(-1).unsqueeze(1) - 2 * a.bmm(b.transpose(1, 2))
        apart = squares > 0
        distances = squares.where(apart, 1.0).sqrt().where(apart, 0.0)
    else:
        distances = vector_norm("cdist", a.unsqueeze(2) - b.unsqueeze(1), order, -1, False) if size else (a @ b.transpose(1, 2))
    return distances.reshape(*batch, points, others)


def _count(shape: tuple[int, ...]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n
