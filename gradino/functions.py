"""Tensor functions under their PyTorch names, for those who write ``gd.exp(x)`` rather than ``x.exp()``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from gradino._arithmetic import _operand
from gradino._core import wrap
from gradino._lib import lib
from gradino.dtypes import bool_, float32, float64, int32, int64
from gradino.errors import DTypeError
from gradino.tensor import Tensor

__all__ = [
    "abs", "add", "all", "allclose", "amax", "amin", "any", "argmax", "argmin", "bmm", "cat", "ceil", "chunk", "clamp", "clip", "concat",
    "concatenate", "cos", "div", "eq", "equal", "exp", "expm1", "flatten", "floor", "floor_divide", "gather", "ge", "gt", "index_select",
    "is_tensor", "isclose", "isfinite", "isnan", "le", "log", "log1p", "log2", "log_softmax", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logsumexp", "lt", "matmul", "max", "maximum", "mean", "min", "minimum", "mm", "mul", "ne", "neg", "nonzero", "numel",
    "permute", "pow", "prod", "reciprocal", "relu", "remainder", "reshape", "round", "rsqrt", "sigmoid", "sign", "sin", "softmax",
    "split", "sqrt", "square", "squeeze", "stack", "std", "sub", "sum", "tanh", "transpose", "tril", "triu", "unbind", "unsqueeze", "var",
    "where",
]  # fmt: skip


def _binary_operand(a: Any, b: Any) -> Tensor:
    """``a`` as a tensor where the function was called with a number on the left."""
    if isinstance(a, Tensor):
        return a
    if not isinstance(b, Tensor):
        raise DTypeError(f"one of two operands must be a Tensor, got {type(a).__name__} and {type(b).__name__}")
    return _operand(b, a)


def _tensor(name: str, value: Any) -> Tensor:
    """The argument, which must be a tensor."""
    if not isinstance(value, Tensor):
        raise DTypeError(f"{name}: expected a Tensor, got {type(value).__name__}")
    return value


def _handles(name: str, tensors: Sequence[Tensor]) -> list[int]:
    handles = [getattr(t, "_h", 0) for t in tensors]
    if not handles or 0 in handles:
        raise DTypeError(f"{name}: expected a non-empty sequence of tensors, got {[type(t).__name__ for t in tensors]}")
    return handles


def _joined(join: Any, tensors: Sequence[Tensor], handles: list[int], dim: int) -> Tensor:
    """cat or stack; tensors of different dtypes are converted to the one that holds all, as in PyTorch."""
    handle = join(handles, len(handles), dim)
    if handle or lib.gd_last_status() != lib.GD_ERR_DTYPE:
        return wrap(handle)
    highest = builtins.min(tensors, key=lambda t: _ORDER.index(t.dtype)).dtype
    return wrap(join([lib.gd_cast(h, highest.code) for h in handles], len(handles), dim))


_ORDER = (float64, float32, int64, int32, bool_)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one after another along ``dim``; all other sizes must be equal. Dtypes are promoted."""
    return _joined(lib.gd_cat, tensors, _handles("cat", tensors), dim)


concat = cat
concatenate = cat


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension ``dim``. Dtypes are promoted."""
    return _joined(lib.gd_stack, tensors, _handles("stack", tensors), dim)


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where ``condition`` holds, else ``other``; broadcast. The side not taken gets gradient 0.

    ``where(condition)`` alone is ``condition.nonzero(as_tuple=True)``.
    """
    if input is None and other is None:
        return _tensor("where", condition).nonzero(as_tuple=True)
    if not isinstance(input, Tensor):
        input = _operand(other, input) if isinstance(other, Tensor) else Tensor(input)
        if not isinstance(other, Tensor) and isinstance(other, builtins.float):
            input = input.to(float32)
    return wrap(lib.gd_where(_tensor("where", condition)._h, input._h, _operand(input, other)._h))


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    return _tensor("equal", input).shape == _tensor("equal", other).shape and bool((input == other).all())


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Where ``|input - other| <= atol + rtol * |other|``, or both are the same infinity, or with ``equal_nan`` both NaN."""
    a, b = _tensor("isclose", input).detach(), _tensor("isclose", other).detach()
    distance = (a - b).abs()
    close = (a == b).logical_or((distance <= b.abs() * rtol + atol).logical_and(distance.isfinite()))
    return close.logical_or(a.isnan().logical_and(b.isnan())) if equal_nan else close


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether ``isclose`` holds everywhere."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """Number of elements."""
    return _tensor("numel", input).numel()


# ---- Elementwise -----------------------------------------------------------------------------------------


def abs(input: Tensor) -> Tensor:
    """``|x|``."""
    return _tensor("abs", input).abs()


def neg(input: Tensor) -> Tensor:
    """``-x``."""
    return _tensor("neg", input).neg()


def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1."""
    return _tensor("sign", input).sign()


def square(input: Tensor) -> Tensor:
    """``x * x``."""
    return _tensor("square", input).square()


def relu(input: Tensor) -> Tensor:
    """``max(x, 0)``."""
    return _tensor("relu", input).relu()


def floor(input: Tensor) -> Tensor:
    """The largest integer not above x."""
    return _tensor("floor", input).floor()


def ceil(input: Tensor) -> Tensor:
    """The smallest integer not below x."""
    return _tensor("ceil", input).ceil()


def round(input: Tensor) -> Tensor:
    """The nearest integer; halves go to the even one."""
    return _tensor("round", input).round()


def sqrt(input: Tensor) -> Tensor:
    """The square root."""
    return _tensor("sqrt", input).sqrt()


def rsqrt(input: Tensor) -> Tensor:
    """``1 / sqrt(x)``."""
    return _tensor("rsqrt", input).rsqrt()


def reciprocal(input: Tensor) -> Tensor:
    """``1 / x``."""
    return _tensor("reciprocal", input).reciprocal()


def exp(input: Tensor) -> Tensor:
    """``e ** x``."""
    return _tensor("exp", input).exp()


def expm1(input: Tensor) -> Tensor:
    """``e ** x - 1``, accurate near 0."""
    return _tensor("expm1", input).expm1()


def log(input: Tensor) -> Tensor:
    """The natural logarithm."""
    return _tensor("log", input).log()


def log1p(input: Tensor) -> Tensor:
    """``log(1 + x)``, accurate near 0."""
    return _tensor("log1p", input).log1p()


def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2."""
    return _tensor("log2", input).log2()


def sin(input: Tensor) -> Tensor:
    """The sine; x in radians."""
    return _tensor("sin", input).sin()


def cos(input: Tensor) -> Tensor:
    """The cosine; x in radians."""
    return _tensor("cos", input).cos()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return _tensor("tanh", input).tanh()


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``."""
    return _tensor("sigmoid", input).sigmoid()


def logical_not(input: Tensor) -> Tensor:
    """Whether elements are 0."""
    return _tensor("logical_not", input).logical_not()


def isnan(input: Tensor) -> Tensor:
    """Whether elements are NaN."""
    return _tensor("isnan", input).isnan()


def isfinite(input: Tensor) -> Tensor:
    """Whether elements are neither NaN nor infinite."""
    return _tensor("isfinite", input).isfinite()


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


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """``input`` limited to [min, max]."""
    return _tensor("clamp", input).clamp(min, max)


clip = clamp


# ---- Reductions ------------------------------------------------------------------------------------------


def sum(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum."""
    return _tensor("sum", input).sum(dim, keepdim, dtype=dtype)


def mean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean."""
    return _tensor("mean", input).mean(dim, keepdim, dtype=dtype)


def var(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The variance with divisor ``n - correction``."""
    return _tensor("var", input).var(dim, unbiased, keepdim, correction=correction)


def std(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The root of ``var``."""
    return _tensor("std", input).std(dim, unbiased, keepdim, correction=correction)


def amax(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """The largest element; ties share the gradient."""
    return _tensor("amax", input).amax(dim, keepdim)


def amin(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """The smallest element; ties share the gradient."""
    return _tensor("amin", input).amin(dim, keepdim)


def any(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether an element is not 0."""
    return _tensor("any", input).any(dim, keepdim)


def all(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether no element is 0."""
    return _tensor("all", input).all(dim, keepdim)


def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` without overflow."""
    return _tensor("logsumexp", input).logsumexp(dim, keepdim)


def prod(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The product."""
    return _tensor("prod", input).prod(dim, keepdim)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest element."""
    return _tensor("argmax", input).argmax(dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element."""
    return _tensor("argmin", input).argmin(dim, keepdim)


def max(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """See :meth:`Tensor.max`."""
    return _tensor("max", input).max(dim, keepdim)


def min(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """See :meth:`Tensor.min`."""
    return _tensor("min", input).min(dim, keepdim)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``."""
    return _tensor("softmax", input).softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``log(softmax(x))`` along ``dim``."""
    return _tensor("log_softmax", input).log_softmax(dim, dtype=dtype)


# ---- Products and shapes ---------------------------------------------------------------------------------


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """``input @ other``: vectors, matrices, or batches of matrices, broadcast."""
    return input @ other


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
