"""What functions ask of their arguments before they call the method, and where they put the result."""

from __future__ import annotations

from typing import Any

from gradino._arithmetic import _operand
from gradino._in_place import _held
from gradino.errors import DTypeError, GradinoError, ShapeError
from gradino.grad_mode import is_grad_enabled
from gradino.tensor import Tensor

__all__ = ["_binary_operand", "_tensor", "into"]


def _tensor(name: str, value: Any) -> Tensor:
    """The argument, which must be a tensor."""
    if not isinstance(value, Tensor):
        raise DTypeError(f"{name}: expected a Tensor, got {type(value).__name__}")
    return value


def _binary_operand(name: str, a: Any, b: Any) -> Tensor:
    """``a`` as a tensor where the function ``name`` was called with a number on the left."""
    if isinstance(a, Tensor):
        return a
    if not isinstance(b, Tensor):
        raise DTypeError(f"{name}: one of two operands must be a Tensor, got {type(a).__name__} and {type(b).__name__}")
    return _operand(b, a)


def into(name: str, out: Any, result: Tensor) -> Tensor:
    """``out=``: the result written into a tensor of its shape; an empty one becomes the result. No gradient is recorded."""
    if not isinstance(out, Tensor):
        raise DTypeError(f"{name}: out must be a Tensor, got {type(out).__name__}")
    if is_grad_enabled() and (result.requires_grad or out.requires_grad):
        raise GradinoError(f"{name}: out= records no gradient: use no_grad(), or take the result")
    _held(out, name, result)
    if out.shape != result.shape:
        if out.numel():
            raise ShapeError(f"{name}: the result has shape {result.shape}, out has {out.shape}: they must be equal, or out empty")
        out._h = result._h if out.dtype is result.dtype else result.to(out.dtype)._h
        return out
    return out.copy_(result)
