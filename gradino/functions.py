"""Tensor functions under their PyTorch names, for those who write ``gd.exp(x)`` rather than ``x.exp()``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino._arithmetic import _operand
from gradino._core import wrap
from gradino._lib import lib
from gradino.errors import DTypeError
from gradino.tensor import Tensor

__all__ = [
    "abs", "add", "all", "allclose", "amax", "amin", "any", "argmax", "argmin", "bmm", "cat", "ceil", "chunk", "clamp", "concat", "cos",
    "div", "eq", "equal", "exp", "expm1", "flatten", "floor", "floor_divide", "gather", "ge", "gt", "index_select", "is_tensor", "isfinite",
    "isnan", "le", "log", "log1p", "log2", "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp", "lt",
    "matmul", "max", "maximum", "mean", "min", "minimum", "mm", "mul", "ne", "neg", "nonzero", "numel", "permute", "pow", "prod",
    "reciprocal", "relu", "remainder", "reshape", "round", "rsqrt", "sigmoid", "sign", "sin", "softmax", "split", "sqrt", "square",
    "squeeze", "stack", "std", "sub", "sum", "tanh", "transpose", "unbind", "unsqueeze", "var", "where",
]  # fmt: skip


def _binary_operand(a: Any, b: Any) -> Tensor:
    """``a`` as a tensor where the function was called with a number on the left."""
    return a if isinstance(a, Tensor) else _operand(b, a)


def _handles(name: str, tensors: Sequence[Tensor]) -> list[int]:
    handles = [getattr(t, "_h", 0) for t in tensors]
    if not handles or 0 in handles:
        raise DTypeError(f"{name}: expected a non-empty sequence of tensors, got {[type(t).__name__ for t in tensors]}")
    return handles


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one after another along ``dim``; all other sizes must be equal."""
    handles = _handles("cat", tensors)
    return wrap(lib.gd_cat(handles, len(handles), dim))


concat = cat


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension ``dim``."""
    handles = _handles("stack", tensors)
    return wrap(lib.gd_stack(handles, len(handles), dim))


def where(condition: Tensor, input: Any, other: Any) -> Tensor:
    """``input`` where ``condition`` holds, else ``other``; broadcast. The side not taken gets gradient 0."""
    if not isinstance(input, Tensor):
        input = _operand(other if isinstance(other, Tensor) else Tensor(0.0), input)
    return wrap(lib.gd_where(condition._h, input._h, _operand(input, other)._h))


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    return input.shape == other.shape and bool((input == other).all())


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Whether ``|input - other| <= atol + rtol * |other|`` everywhere."""
    return bool(((input - other).abs() <= other.abs() * rtol + atol).all())


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """Number of elements."""
    return input.numel()


# ---- Elementwise -----------------------------------------------------------------------------------------


def abs(input: Tensor) -> Tensor:
    """``|x|``."""
    return input.abs()


def neg(input: Tensor) -> Tensor:
    """``-x``."""
    return input.neg()


def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1."""
    return input.sign()


def square(input: Tensor) -> Tensor:
    """``x * x``."""
    return input.square()


def relu(input: Tensor) -> Tensor:
    """``max(x, 0)``."""
    return input.relu()


def floor(input: Tensor) -> Tensor:
    """The largest integer not above x."""
    return input.floor()


def ceil(input: Tensor) -> Tensor:
    """The smallest integer not below x."""
    return input.ceil()


def round(input: Tensor) -> Tensor:
    """The nearest integer; halves go to the even one."""
    return input.round()


def sqrt(input: Tensor) -> Tensor:
    """The square root."""
    return input.sqrt()


def rsqrt(input: Tensor) -> Tensor:
    """``1 / sqrt(x)``."""
    return input.rsqrt()


def reciprocal(input: Tensor) -> Tensor:
    """``1 / x``."""
    return input.reciprocal()


def exp(input: Tensor) -> Tensor:
    """``e ** x``."""
    return input.exp()


def expm1(input: Tensor) -> Tensor:
    """``e ** x - 1``, accurate near 0."""
    return input.expm1()


def log(input: Tensor) -> Tensor:
    """The natural logarithm."""
    return input.log()


def log1p(input: Tensor) -> Tensor:
    """``log(1 + x)``, accurate near 0."""
    return input.log1p()


def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2."""
    return input.log2()


def sin(input: Tensor) -> Tensor:
    """The sine; x in radians."""
    return input.sin()


def cos(input: Tensor) -> Tensor:
    """The cosine; x in radians."""
    return input.cos()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``."""
    return input.sigmoid()


def logical_not(input: Tensor) -> Tensor:
    """Whether elements are 0."""
    return input.logical_not()


def isnan(input: Tensor) -> Tensor:
    """Whether elements are NaN."""
    return input.isnan()


def isfinite(input: Tensor) -> Tensor:
    """Whether elements are neither NaN nor infinite."""
    return input.isfinite()


def mul(input: Any, other: Any) -> Tensor:
    """``input * other``, broadcast."""
    return _binary_operand(input, other).mul(other)


def div(input: Any, other: Any) -> Tensor:
    """``input / other``, broadcast."""
    return _binary_operand(input, other).div(other)


def floor_divide(input: Any, other: Any) -> Tensor:
    """The quotient rounded towards minus infinity."""
    return _binary_operand(input, other).floor_divide(other)


def remainder(input: Any, other: Any) -> Tensor:
    """The remainder, with the sign of the divisor."""
    return _binary_operand(input, other).remainder(other)


def maximum(input: Any, other: Any) -> Tensor:
    """The larger of each pair."""
    return _binary_operand(input, other).maximum(other)


def minimum(input: Any, other: Any) -> Tensor:
    """The smaller of each pair."""
    return _binary_operand(input, other).minimum(other)


def eq(input: Any, other: Any) -> Tensor:
    """``input == other``."""
    return _binary_operand(input, other).eq(other)


def ne(input: Any, other: Any) -> Tensor:
    """``input != other``."""
    return _binary_operand(input, other).ne(other)


def lt(input: Any, other: Any) -> Tensor:
    """``input < other``."""
    return _binary_operand(input, other).lt(other)


def le(input: Any, other: Any) -> Tensor:
    """``input <= other``."""
    return _binary_operand(input, other).le(other)


def gt(input: Any, other: Any) -> Tensor:
    """``input > other``."""
    return _binary_operand(input, other).gt(other)


def ge(input: Any, other: Any) -> Tensor:
    """``input >= other``."""
    return _binary_operand(input, other).ge(other)


def logical_and(input: Any, other: Any) -> Tensor:
    """Whether both are not 0."""
    return _binary_operand(input, other).logical_and(other)


def logical_or(input: Any, other: Any) -> Tensor:
    """Whether one is not 0."""
    return _binary_operand(input, other).logical_or(other)


def logical_xor(input: Any, other: Any) -> Tensor:
    """Whether exactly one is not 0."""
    return _binary_operand(input, other).logical_xor(other)


def add(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """``input + alpha * other``, broadcast."""
    return _binary_operand(input, other).add(other, alpha=alpha)


def sub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """``input - alpha * other``, broadcast."""
    return _binary_operand(input, other).sub(other, alpha=alpha)


def pow(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``, broadcast."""
    return _binary_operand(input, exponent).pow(exponent)


def clamp(input: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """``input`` limited to [min, max]."""
    return input.clamp(min, max)


# ---- Reductions ------------------------------------------------------------------------------------------


def sum(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum."""
    return input.sum(dim, keepdim, dtype=dtype)


def mean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean."""
    return input.mean(dim, keepdim, dtype=dtype)


def var(input: Tensor, dim: int | Sequence[int] | None = None, *, correction: float = 1, keepdim: bool = False) -> Tensor:
    """The variance with divisor ``n - correction``."""
    return input.var(dim, correction=correction, keepdim=keepdim)


def std(input: Tensor, dim: int | Sequence[int] | None = None, *, correction: float = 1, keepdim: bool = False) -> Tensor:
    """The root of ``var``."""
    return input.std(dim, correction=correction, keepdim=keepdim)


def amax(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """The largest element; ties share the gradient."""
    return input.amax(dim, keepdim)


def amin(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """The smallest element; ties share the gradient."""
    return input.amin(dim, keepdim)


def any(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether an element is not 0."""
    return input.any(dim, keepdim)


def all(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether no element is 0."""
    return input.all(dim, keepdim)


def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` without overflow."""
    return input.logsumexp(dim, keepdim)


def prod(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The product."""
    return input.prod(dim, keepdim)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest element."""
    return input.argmax(dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element."""
    return input.argmin(dim, keepdim)


def max(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """See :meth:`Tensor.max`."""
    return input.max(dim, keepdim)


def min(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """See :meth:`Tensor.min`."""
    return input.min(dim, keepdim)


def softmax(input: Tensor, dim: int) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``."""
    return input.softmax(dim)


def log_softmax(input: Tensor, dim: int) -> Tensor:
    """``log(softmax(x))`` along ``dim``."""
    return input.log_softmax(dim)


# ---- Products and shapes ---------------------------------------------------------------------------------


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """``input @ other``: vectors, matrices, or batches of matrices, broadcast."""
    return input @ other


mm = bmm = matmul


def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """The elements in another shape."""
    return input.reshape(shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions merged into one."""
    return input.flatten(start_dim, end_dim)


def permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """Dimensions in another order."""
    return input.permute(dims)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped."""
    return input.transpose(dim0, dim1)


def squeeze(input: Tensor, dim: int | None = None) -> Tensor:
    """Without dimensions of size 1."""
    return input.squeeze(dim)


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new dimension of size 1."""
    return input.unsqueeze(dim)


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The entries of ``dim`` that ``index`` names."""
    return input.index_select(dim, index)


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """One entry of ``dim`` for each element of ``index``."""
    return input.gather(dim, index)


def nonzero(input: Tensor) -> Tensor:
    """Indices of the elements that are not 0."""
    return input.nonzero()


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All entries of ``dim``."""
    return input.unbind(dim)


def split(input: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts along ``dim``."""
    return input.split(split_size, dim)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` equal parts along ``dim``."""
    return input.chunk(chunks, dim)
