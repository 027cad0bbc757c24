"""What functions tell about tensors and dtypes, and tensors made of other things."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from gradino import devices, dtypes
from gradino._core import tensor_type
from gradino.dtypes import bool_, dtype, int64, promote_types, resolve
from gradino.errors import DTypeError
from gradino.factories import as_tensor
from gradino.functions._arguments import _tensor
from gradino.tensor import Tensor

__all__ = [
    "asarray", "clone", "conj", "conj_physical", "finfo", "iinfo", "is_complex", "is_conj", "is_floating_point", "is_neg", "is_nonzero",
    "is_same_size", "is_signed", "real", "resolve_conj", "resolve_neg", "result_type", "scalar_tensor", "typename",
]  # fmt: skip


class finfo:  # noqa: N801  (PyTorch's name)
    """The numbers that describe a floating point dtype: ``bits, eps, max, min, tiny, smallest_normal, resolution``.

    >>> import gradino as gd
    >>> gd.finfo(gd.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: Any = None) -> None:
        d = dtypes.get_default_dtype() if type is None else resolve(type)
        if not d.is_floating_point:
            raise DTypeError(f"finfo: for floating point dtypes, not {d}; use iinfo")
        self.dtype = d.name
        self.bits = 8 * int(d.itemsize)
        if d.numpy is None:
            self.eps, self.max, self.tiny, self.resolution = 2.0**-7, float(np.float32(3.3895313892515355e38)), 2.0**-126, 0.01
        else:
            limits = np.finfo(d.numpy)
            self.eps, self.max, self.tiny, self.resolution = (float(x) for x in (limits.eps, limits.max, limits.tiny, limits.resolution))
        self.min, self.smallest_normal = -self.max, self.tiny

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:  # noqa: N801  (PyTorch's name)
    """The numbers that describe an integer dtype: ``bits, max, min``.

    >>> import gradino as gd
    >>> gd.iinfo(gd.int32).max
    2147483647
    """

    def __init__(self, type: Any) -> None:
        d = resolve(type)
        if d.is_floating_point or d is bool_:
            raise DTypeError(f"iinfo: for integer dtypes, not {d}")
        self.dtype, self.bits = d.name, 8 * int(d.itemsize)
        self.min, self.max = -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a float."""
    return _tensor("is_floating_point", input).is_floating_point()


def is_complex(input: Tensor) -> bool:
    """False: there are no complex numbers."""
    return _tensor("is_complex", input).is_complex()


def is_conj(input: Tensor) -> bool:
    """False: there are no complex numbers."""
    return _tensor("is_conj", input).is_conj()


def is_neg(input: Tensor) -> bool:
    """False: a negative is computed at once."""
    return _tensor("is_neg", input).is_neg()


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative values."""
    return _tensor("is_signed", input).is_signed()


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not 0."""
    return _tensor("is_nonzero", input).is_nonzero()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape."""
    return _tensor("is_same_size", input).is_same_size(other)


def real(input: Tensor) -> Tensor:
    """``input``: there are no complex numbers."""
    return _tensor("real", input)


def conj(input: Tensor) -> Tensor:
    """``input``: there are no complex numbers."""
    return _tensor("conj", input)


def conj_physical(input: Tensor) -> Tensor:
    """``input``: there are no complex numbers."""
    return _tensor("conj_physical", input)


def resolve_conj(input: Tensor) -> Tensor:
    """``input``: there are no complex numbers."""
    return _tensor("resolve_conj", input)


def resolve_neg(input: Tensor) -> Tensor:
    """``input``: a negative is computed at once."""
    return _tensor("resolve_neg", input)


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own memory; gradients flow through it."""
    return _tensor("clone", input).clone(memory_format=memory_format)


@devices.placed
def scalar_tensor(s: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A number as a tensor without dimensions, of the default dtype unless given."""
    return Tensor(s, dtype=dtypes.get_default_dtype() if dtype is None else dtype, requires_grad=requires_grad)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False) -> Tensor:
    """``obj`` as a tensor: over its own memory where that is possible and ``copy`` is not True; ``copy=False`` raises where not."""
    result = devices.moved("asarray", Tensor(obj, dtype=dtype) if copy else as_tensor(obj, dtype), device)
    if copy is False and result is not obj and not (isinstance(obj, np.ndarray) and result.data_ptr() == obj.ctypes.data):
        raise ValueError("asarray: a tensor over this memory is not possible: it needs a copy")
    return result.requires_grad_() if requires_grad and not result.requires_grad else result


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype of a result that two tensors or numbers make together: numbers and scalar tensors do not widen a tensor's.

    >>> import gradino as gd
    >>> gd.result_type(gd.tensor([1, 2]), 1.0)
    gradino.float32
    """
    found: list[dtype | None] = [None, None, None]  # of tensors with dimensions, without, of numbers
    for x in (tensor1, tensor2):
        at, d = _rank_and_dtype(x)
        mine = found[at]
        found[at] = d if mine is None else promote_types(mine, d)
    strong: dtype | None = None
    for one in found:
        if one is not None and (strong is None or _category(one) > _category(strong)):
            strong = one if strong is None else promote_types(strong, one)
    return bool_ if strong is None else strong


def _rank_and_dtype(x: Any) -> tuple[int, dtype]:
    if isinstance(x, tensor_type()):
        return (0 if x.ndim else 1), x.dtype
    if isinstance(x, (bool, np.bool_)):
        return 2, bool_
    if isinstance(x, numbers.Integral):
        return 2, int64
    if isinstance(x, numbers.Real):
        return 2, dtypes.get_default_dtype()
    raise DTypeError(f"result_type: expected a Tensor or a number, got {type(x).__name__}")


def _category(d: dtype) -> int:
    return 2 if d.is_floating_point else 0 if d is bool_ else 1


def typename(obj: Any) -> str:
    """The name of an object's type: ``"gradino.FloatTensor"`` for a tensor."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
