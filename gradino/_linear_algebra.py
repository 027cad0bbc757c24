"""Norms and products of vectors and matrices as methods of Tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradino._arguments import as_float, shown
from gradino._call import absolute, dimension, dimensions, run
from gradino._core import handle_of
from gradino._lib import op_id
from gradino.dtypes import bool_, resolve
from gradino.errors import DTypeError, InvalidValueError, ShapeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["LinearAlgebra"]

_NORM = op_id("vector_norm")


def vector_norm(name: str, a: Tensor, p: Any, dim: Any, keepdim: bool, dtype: Any = None) -> Tensor:
    """``(sum |x|^p)^(1/p)`` over some dimensions, or all."""
    if dtype is not None:
        a = a.to(resolve(dtype))
    if not a.dtype.is_floating_point:
        raise DTypeError(f"{name}: must be floating point, is {a.dtype}")
    mask = 15
    if dim is not None and not (isinstance(dim, (tuple, list)) and not dim):
        mask = sum(1 << absolute(a.ndim, d) for d in dimensions(name, a.ndim, dim))
    return run(_NORM, (a,), (mask, bool(keepdim)), (as_float(name, p),))


def _need_ndim(name: str, ndim: int, *tensors: Any) -> None:
    for t in tensors:
        handle_of(name, t)
        if t.ndim != ndim:
            raise ShapeError(f"{name}: shape {t.shape}: expected {ndim} dimension{'s' if ndim > 1 else ''}")


def _added(name: str, a: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """``beta * a + alpha * product``; with beta 0, ``a`` does not count, whatever it holds. Integers take whole numbers."""
    if not product.dtype.is_floating_point and not a.dtype.is_floating_point:
        beta, alpha = int(beta), int(alpha)
    if product.dtype is bool_:
        return (
            (a.expand(product.shape) if beta else product).logical_or(product) if alpha else a.expand(product.shape).logical_and(bool(beta))
        )
    scaled = product if alpha == 1 else product * alpha
    shape = product.shape
    if a.ndim > len(shape):
        raise ShapeError(f"{name}: shape {a.shape} cannot be broadcast to {shape}")
    a = a.expand(shape)
    if beta == 0:
        return scaled
    return (a if beta == 1 else a * beta) + scaled


class LinearAlgebra:
    """``mm``, ``bmm`` and ``matmul`` stand with the shapes."""

    __slots__ = ()
    _h: int

    def norm(self: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """``(sum |x|^p)^(1/p)`` over ``dim``, one, several, or all. p is a number, ``inf``, ``-inf``, or ``"fro"`` for 2."""
        if p == "nuc":
            raise InvalidValueError("norm: the nuclear norm needs singular values, which are not supported")
        if p is None or p == "fro":
            p = 2
        if isinstance(p, str):
            raise InvalidValueError(f"norm: p is {shown(p)}, must be a number or 'fro'")
        return vector_norm("norm", self, p, dim, keepdim, dtype)

    def dist(self: Tensor, other: Tensor, p: float = 2) -> Tensor:
        """The norm of the difference."""
        handle_of("dist", other)
        return vector_norm("dist", self - other, p, None, False)

    def renorm(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
        """Entries of ``dim`` whose norm is above ``maxnorm`` scaled down to it."""
        if self.ndim < 2:
            raise ShapeError(f"renorm: shape {self.shape}: at least two dimensions are needed")
        if not p > 0 or not maxnorm >= 0:
            raise InvalidValueError(f"renorm: p is {p} and maxnorm {maxnorm}: they must be above 0, and at least 0")
        d = dimension("renorm", self.ndim, dim)
        norms = vector_norm("renorm", self, p, [k for k in range(self.ndim) if k != d], True)
        return self * (maxnorm / (norms + 1e-7)).where(norms > maxnorm, 1.0)

    def renorm_(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
        """``renorm`` in place."""
        return self._written("renorm_", lambda a: a.renorm(p, dim, maxnorm))

    def dot(self: Tensor, tensor: Tensor) -> Tensor:
        """The sum of the products of two vectors' elements."""
        _need_ndim("dot", 1, self, tensor)
        if self.shape != tensor.shape:
            raise ShapeError(f"dot: shapes {self.shape} and {tensor.shape} differ")
        if self.dtype is not tensor.dtype:
            raise DTypeError(f"dot: the vectors are {self.dtype} and {tensor.dtype}: they must have one dtype")
        return _multiplied(self, tensor)

    def vdot(self: Tensor, other: Tensor) -> Tensor:
        """``dot``."""
        return self.dot(other)

    def inner(self: Tensor, other: Tensor) -> Tensor:
        """Products of the last dimensions of both, summed."""
        from gradino.functions.contractions import tensordot

        handle_of("inner", other)
        return self * other if not self.ndim or not other.ndim else tensordot(self, other, ([-1], [-1]))

    def outer(self: Tensor, vec2: Tensor) -> Tensor:
        """All products of the elements of two vectors."""
        _need_ndim("outer", 1, self, vec2)
        return self.unsqueeze(1) * vec2

    def ger(self: Tensor, vec2: Tensor) -> Tensor:
        """``outer``."""
        return self.outer(vec2)

    def mv(self: Tensor, vec: Tensor) -> Tensor:
        """The product of a matrix and a vector."""
        _need_ndim("mv", 2, self)
        _need_ndim("mv", 1, vec)
        return _multiplied(self, vec)

    def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * self + alpha * (mat1 @ mat2)``."""
        _need_ndim("addmm", 2, mat1, mat2)
        return _added("addmm", self, _multiplied(mat1, mat2), beta, alpha)

    def addmv(self: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * self + alpha * (mat @ vec)``."""
        _need_ndim("addmv", 2, mat)
        _need_ndim("addmv", 1, vec)
        return _added("addmv", self, _multiplied(mat, vec), beta, alpha)

    def addr(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * self + alpha * outer(vec1, vec2)``."""
        _need_ndim("addr", 1, vec1, vec2)
        product = vec1.unsqueeze(1).logical_and(vec2) if vec1.dtype is bool_ else vec1.outer(vec2)
        return _added("addr", self, product, beta, alpha)

    def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * self + alpha * (batch1 @ batch2)`` of batches of matrices."""
        _need_batches("baddbmm", batch1, batch2)
        return _added("baddbmm", self, _multiplied(batch1, batch2), beta, alpha)

    def addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``beta * self + alpha * sum(batch1 @ batch2)``: products of batches of matrices, added up."""
        _need_batches("addbmm", batch1, batch2)
        return _added("addbmm", self, _multiplied(batch1, batch2).sum(0), beta, alpha)

    def addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
        """``self + value * tensor1 * tensor2``."""
        product = tensor1 * tensor2
        return self + (product if value == 1 else product * value)

    def addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
        """``self + value * tensor1 / tensor2``, of floating point tensors."""
        if not (tensor1.dtype.is_floating_point or tensor2.dtype.is_floating_point):
            raise DTypeError("addcdiv: integers are not divided; convert them to floating point, or use div with a rounding mode")
        return self + (tensor1 if value == 1 else tensor1 * value) / tensor2

    def addmm_(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``addmm`` in place."""
        return self._written("addmm_", lambda a: a.addmm(mat1, mat2, beta=beta, alpha=alpha))

    def addmv_(self: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``addmv`` in place."""
        return self._written("addmv_", lambda a: a.addmv(mat, vec, beta=beta, alpha=alpha))

    def addr_(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``addr`` in place."""
        return self._written("addr_", lambda a: a.addr(vec1, vec2, beta=beta, alpha=alpha))

    def addbmm_(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``addbmm`` in place."""
        return self._written("addbmm_", lambda a: a.addbmm(batch1, batch2, beta=beta, alpha=alpha))

    def baddbmm_(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """``baddbmm`` in place."""
        return self._written("baddbmm_", lambda a: a.baddbmm(batch1, batch2, beta=beta, alpha=alpha))

    def addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
        """``addcmul`` in place."""
        return self._written("addcmul_", lambda a: a.addcmul(tensor1, tensor2, value=value))

    def addcdiv_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
        """``addcdiv`` in place."""
        return self._written("addcdiv_", lambda a: a.addcdiv(tensor1, tensor2, value=value))

    def cross(self: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
        """Cross products of the vectors along ``dim``, which has 3 entries; without ``dim`` the first such one."""
        from gradino.functions.arranging import broadcast_tensors

        handle_of("cross", other)
        a, b = broadcast_tensors(self, other)
        if dim is None:
            if 3 not in a.shape:
                raise ShapeError(f"cross: no dimension of shape {a.shape} has 3 entries")
            d = a.shape.index(3)
        else:
            d = dimension("cross", a.ndim, dim)
        if not a.ndim or a.shape[d] != 3:
            raise ShapeError(f"cross: dimension {dim} of shape {a.shape} must have 3 entries")
        return a.roll(-1, d) * b.roll(-2, d) - a.roll(-2, d) * b.roll(-1, d)

    def kron(self: Tensor, other: Tensor) -> Tensor:
        """The Kronecker product: each element times the whole other tensor, of at most two dimensions."""
        handle_of("kron", other)
        n = max(self.ndim, other.ndim)
        if n > 2:
            raise ShapeError(f"kron: shapes {self.shape} and {other.shape}: more than two dimensions need more than four on the way")
        a, b = self.reshape((1,) * (n - self.ndim) + self.shape), other.reshape((1,) * (n - other.ndim) + other.shape)
        if n == 0:
            return a * b
        wide = a.reshape([k for size in a.shape for k in (size, 1)]) * b.reshape([k for size in b.shape for k in (1, size)])
        return wide.reshape([x * y for x, y in zip(a.shape, b.shape)])

    def cov(self: Tensor, *, correction: float = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """The covariance matrix of variables (rows) from observations (columns).

        ``fweights`` says how often each was observed (integers), ``aweights`` how much it counts.
        """
        if self.ndim > 2:
            raise ShapeError(f"cov: shape {self.shape} is no matrix")
        rows = self.reshape(1, -1) if self.ndim < 2 else self
        rows, count = rows if rows.dtype.is_floating_point else rows.float(), rows.shape[1]
        for weights in (fweights, aweights):
            if weights is not None and (weights.ndim > 1 or weights.numel() != count or (count and weights.amin().item() < 0)):
                raise ShapeError(f"cov: weights must be a vector of {count} numbers of at least 0, got shape {weights.shape}")
        if fweights is not None and fweights.dtype.is_floating_point:
            raise DTypeError(f"cov: fweights must be integers, are {fweights.dtype}")
        given = [w.reshape(-1).to(rows.dtype) for w in (fweights, aweights) if w is not None]
        if not given:
            centred = rows - rows.mean(1, keepdim=True)
            divisor = max(count - correction, 0)
            return (centred @ centred.t() / (divisor if divisor else 0.0)).squeeze()
        weights = given[0] if len(given) == 1 else given[0] * given[1]
        total = weights.sum()
        taken = total - correction if aweights is None else total - (weights * given[-1]).sum() / total * correction
        centred = rows - (rows * weights).sum(1, keepdim=True) / total
        return (centred @ (centred * weights).t() / taken.clamp(min=0)).squeeze()

    def corrcoef(self: Tensor) -> Tensor:
        """The correlation coefficients of variables (rows) from observations (columns)."""
        c = self.cov()
        if not c.ndim:
            return c / c
        deviation = c.diagonal().sqrt()
        return (c / deviation.unsqueeze(1) / deviation).clamp(-1, 1)


def _need_batches(name: str, a: Any, b: Any) -> None:
    _need_ndim(name, 3, a, b)
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise ShapeError(f"{name}: shapes {a.shape} and {b.shape}: expected (B, N, K) and (B, K, M)")


def _multiplied(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b``; of integers as products that are added up."""
    if a.dtype.is_floating_point:
        return a.matmul(b)
    columns = b.unsqueeze(1) if b.ndim == 1 else b
    rows = a.unsqueeze(0) if a.ndim == 1 else a
    if rows.ndim > 3 or columns.ndim > 3 or rows.shape[-1] != columns.shape[-2]:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape} do not fit")
    result = (rows.unsqueeze(-1) * columns.unsqueeze(-3)).sum(-2).to(a.dtype)
    if b.ndim == 1:
        result = result.squeeze(-1)
    return result.squeeze(0) if a.ndim == 1 else result
