"""Writing in place: for tensors that are not part of a graph, whose gradients a write would falsify."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gradino._arguments import as_float, shown, whole_number
from gradino._arithmetic import _operand
from gradino._core import binary, tensor_type
from gradino._lib import check, lib, op_id
from gradino.arena import step_arena
from gradino.dtypes import bool_
from gradino.errors import DTypeError, GradinoError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["InPlace"]

_ADD, _SUB, _MUL, _DIV = op_id("add"), op_id("sub"), op_id("mul"), op_id("div")
_FLOORDIV, _REMAINDER, _POW = op_id("floor_divide"), op_id("remainder"), op_id("pow")
_AND, _OR, _XOR = op_id("bitwise_and"), op_id("bitwise_or"), op_id("bitwise_xor")
_LEFT, _RIGHT = op_id("bitwise_left_shift"), op_id("bitwise_right_shift")


class InPlace:
    """Methods and operators that change a tensor and return it."""

    __slots__ = ()
    _h: int

    # `t += x` writes in place where no gradient is recorded, as `with no_grad(): p -= lr * p.grad` needs; what is part
    # of a graph gets a new tensor with the right gradient instead, and a parameter is refused.

    def __iadd__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_ADD, self, other, "+=")

    def __isub__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_SUB, self, other, "-=")

    def __imul__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_MUL, self, other, "*=")

    def __itruediv__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_DIV, self, other, "/=")

    def __ifloordiv__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_FLOORDIV, self, other, "//=")

    def __imod__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_REMAINDER, self, other, "%=")

    def __ipow__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_POW, self, other, "**=")

    def __iand__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_AND, self, other, "&=")

    def __ior__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_OR, self, other, "|=")

    def __ixor__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_XOR, self, other, "^=")

    def __ilshift__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_LEFT, self, other, "<<=")

    def __irshift__(self: Tensor, other: Any) -> Tensor:
        return _in_place(_RIGHT, self, other, ">>=")

    def copy_(self: Tensor, source: Tensor) -> Tensor:
        """Overwrite with ``source``, broadcast and cast."""
        with scratch():
            check(lib.gd_copy_in(self._h, _operand(self, source)._h))
        return self

    def fill_(self: Tensor, value: float) -> Tensor:
        """Overwrite with a number."""
        value = _plain_number("fill_", value)
        check(lib.gd_fill_in(self._h, as_float("fill_", value), whole_number("fill_", value, self.dtype)))
        return self

    def zero_(self: Tensor) -> Tensor:
        """Overwrite with 0."""
        check(lib.gd_fill_in(self._h, 0.0, 0))
        return self

    def add_(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
        """``self += alpha * other`` in place."""
        with scratch():
            return self.copy_(_held(self, "add_", self.detach().add(other, alpha=alpha)))

    def sub_(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
        """``self -= alpha * other`` in place."""
        with scratch():
            return self.copy_(_held(self, "sub_", self.detach().sub(other, alpha=alpha)))

    def mul_(self: Tensor, other: Any) -> Tensor:
        """``self *= other`` in place."""
        with scratch():
            return self.copy_(_held(self, "mul_", self.detach().mul(other)))

    def div_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """``self /= other`` in place; ``rounding_mode`` as in :meth:`div`."""
        with scratch():
            return self.copy_(_held(self, "div_", self.detach().div(other, rounding_mode=rounding_mode)))

    def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
        """Limit to [min, max]."""
        with scratch():
            return self.copy_(_held(self, "clamp_", self.detach().clamp(min, max)))

    def masked_fill_(self: Tensor, mask: Tensor, value: float) -> Tensor:
        """Overwrite with ``value`` where ``mask`` holds."""
        with scratch():
            return self.copy_(self.detach().masked_fill(mask, value))


_nothing = nullcontext()


def scratch() -> Any:
    """A scope for what a write computes on its way, where no arena is active that would forget it."""
    return step_arena() if lib.gd_arena_active() == lib.gd_arena_permanent() else _nothing


def _in_place(op: int, a: Tensor, other: Any, operator: str) -> Tensor:
    if lib.gd_grad_enabled() and (a.requires_grad or (isinstance(other, tensor_type()) and other.requires_grad)):
        return _computed(op, a, other, operator)  # a result that is recorded is handed out
    with scratch():
        return _computed(op, a, other, operator)


def _computed(op: int, a: Tensor, other: Any, operator: str) -> Tensor:
    result = binary(op, a, other)
    if cast(Any, result) is NotImplemented:
        return result
    if result.requires_grad:
        if a._info().is_parameter:
            raise GradinoError(
                f"{operator}: a parameter that requires grad cannot be changed in place while ops are recorded; use no_grad()"
            )
        return result
    return a.copy_(_held(a, operator, result))


def _held(a: Tensor, name: str, result: Tensor) -> Tensor:
    """``result``, if ``a`` can hold its dtype: integers do not hold floats, bools hold only bools."""
    own, made = a.dtype, result.dtype
    if (made.is_floating_point and not own.is_floating_point) or (own is bool_ and made is not bool_):
        raise DTypeError(f"{name}: the result is {made}, which a {own} tensor cannot hold")
    return result


def _plain_number(name: str, value: Any) -> Any:
    """A Python number from a number, a NumPy scalar or a tensor with one element."""
    is_array = isinstance(value, (np.generic, np.ndarray, tensor_type()))
    number = value.item() if is_array and value.ndim == 0 else value
    if not isinstance(number, (bool, int, float)):
        raise DTypeError(f"{name}: expected a number, got {shown(value)}")
    return number
