"""Writing in place. A write to a tensor with a history is recorded: its base and all views of it go on with the new one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gradino._arguments import as_float, shown, whole_number
from gradino._arithmetic import _operand
from gradino._core import binary, tensor_type, wrap
from gradino._lib import check, lib, op_id, raise_error
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

    def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
        """Overwrite with ``src``, broadcast and cast. ``non_blocking`` changes nothing."""
        if is_tracked(self, src):
            return write(self, _operand(self, src))
        with scratch():
            check(lib.gd_copy_in(self._h, _operand(self, src)._h))
        return self

    def fill_(self: Tensor, value: float) -> Tensor:
        """Overwrite with a number."""
        if isinstance(value, tensor_type()) and value.ndim == 0 and is_tracked(self, value):
            return write(self, value)
        value = _plain_number("fill_", value)
        number, whole = as_float("fill_", value), whole_number("fill_", value, self.dtype)
        if is_tracked(self):
            return write(self, wrap(lib.gd_scalar(number, whole, self.dtype.code)))
        check(lib.gd_fill_in(self._h, number, whole))
        return self

    def zero_(self: Tensor) -> Tensor:
        """Overwrite with 0."""
        return self.fill_(0)

    def add_(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
        """``self += alpha * other`` in place."""
        return changed(self, "add_", lambda a: a.add(other, alpha=alpha))

    def sub_(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
        """``self -= alpha * other`` in place."""
        return changed(self, "sub_", lambda a: a.sub(other, alpha=alpha))

    def mul_(self: Tensor, other: Any) -> Tensor:
        """``self *= other`` in place."""
        return changed(self, "mul_", lambda a: a.mul(other))

    def div_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """``self /= other`` in place; ``rounding_mode`` as in :meth:`div`."""
        return changed(self, "div_", lambda a: a.div(other, rounding_mode=rounding_mode))

    def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
        """Limit to [min, max]."""
        return changed(self, "clamp_", lambda a: a.clamp(min, max))

    def masked_fill_(self: Tensor, mask: Tensor, value: float) -> Tensor:
        """Overwrite with ``value`` where ``mask`` holds."""
        return changed(self, "masked_fill_", lambda a: a.masked_fill(mask, value))

    def detach_(self: Tensor) -> Tensor:
        """Forget the history: this object is a leaf from now on. A view must be detached with ``detach()``."""
        if self.is_leaf:
            self.requires_grad_(False)
        elif self._info().base != self._h:
            raise GradinoError("Can't detach views in-place. Use detach() instead.")
        else:
            self._h = self.detach()._h
        return self


_nothing = nullcontext()


def scratch() -> Any:
    """A scope for what a write computes on its way, where no arena is active that would forget it."""
    return step_arena() if lib.gd_arena_active() == lib.gd_arena_permanent() else _nothing


_MOVES, _TRACKED = 1, 2  # bits of what gd_write_begin says


def is_tracked(a: Tensor, *values: Any) -> bool:
    """Whether a write of the values to ``a`` must be recorded; raises where ``a`` may not be written."""
    state = lib.gd_write_begin(a._h)
    if state < 0:
        raise_error()
    if state & _TRACKED:
        return True
    return any(isinstance(v, tensor_type()) and v.requires_grad for v in values) and bool(lib.gd_grad_enabled())


def write(a: Tensor, value: Tensor, computed: int = 0) -> Tensor:
    """``a`` after a recorded write. ``computed``: the value was computed from ``a``, whose memory it may replace."""
    a._h = lib.gd_write(a._h, value._h, computed) or raise_error()
    return a


def changed(a: Tensor, name: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """``a`` after its values became ``compute(a)``, cast to its dtype."""
    state = lib.gd_write_begin(a._h)
    if state < 0:
        raise_error()
    if not state & _TRACKED:
        with scratch() as arena:
            result = _held(a, name, compute(a.detach()))
            if not (result.requires_grad and lib.gd_grad_enabled()):
                check(lib.gd_copy_in(a._h, result._h))
                return a
        if arena is None:  # else it is gone with the arena, and computed once more
            return write(a, result, 1)
    # an op that reads its input in backward must find the old values, which a write to shared memory overwrites
    source = a if state & _MOVES else a.clone()
    return write(a, _held(a, name, compute(source)), 1)


def _in_place(op: int, a: Tensor, other: Any, operator: str) -> Tensor:
    if not isinstance(other, (tensor_type(), bool, int, float, np.generic, np.ndarray)):
        return cast("Tensor", NotImplemented)
    return changed(a, operator, lambda values: binary(op, values, other))


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
