"""Parameters: tensors that live in the permanent slabs, beside their gradient and moments."""

from __future__ import annotations

from typing import Any

from gradino import _calls
from gradino._arguments import flag
from gradino._construction import from_data
from gradino._core import wrap
from gradino._lib import check, lib, raise_error
from gradino.arena import permanent_arena, step_arena
from gradino.tensor import Tensor

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A tensor that a module trains. Its values are copied from ``data``.

    Its node carries its gradient (``.grad``), the previous gradient or SGD momentum (``.prev_grad``)
    and Adam's moments (``.exp_avg``, ``.exp_avg_sq``), each None until used. It is permanent whatever
    arena is active; its memory is used again once the object is gone.

    Raises:
        DTypeError: if ``data`` is not floating point.
    """

    __slots__ = ("__dict__",)

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        flag("Parameter", "requires_grad", requires_grad)
        if isinstance(data, Tensor):
            self._h = lib.gd_parameter(data._h, requires_grad) or raise_error()
        else:
            with step_arena():
                self._h = lib.gd_parameter(from_data(data), requires_grad) or raise_error()

    @classmethod
    def _copied(cls, source: Tensor) -> Parameter:
        return cls(source, requires_grad=source.requires_grad)

    def _state(self, which: int) -> Tensor | None:
        handle = lib.gd_parameter_state(self._h, which)
        if handle:
            return wrap(handle)
        check(lib.gd_check(self._h))
        return None

    def detach(self) -> Tensor:
        """The same memory without history. The parameter lives as long as the result."""
        values = wrap(lib.gd_detach(self._h))
        values._owner = self
        return values

    @property
    def prev_grad(self) -> Tensor | None:
        """The momentum buffer of SGD, or None."""
        return self._state(2)

    @property
    def exp_avg(self) -> Tensor | None:
        """Adam's first moment, or None."""
        return self._state(3)

    @property
    def exp_avg_sq(self) -> Tensor | None:
        """Adam's second moment, or None."""
        return self._state(4)

    def _become(self, dtype: Any, device: Any = None) -> None:
        """Convert value and gradient; this object then stands for the converted memory."""
        with step_arena():
            handle = lib.gd_parameter(self.detach().to(dtype=dtype, device=device)._h, self.requires_grad) or raise_error()
            grad = self.grad
            if grad is not None:
                check(lib.gd_set_grad(handle, grad.detach().to(dtype=dtype, device=device)._h))
        old, self._h = self._h, handle
        _calls.move(old, handle)
        check(lib.gd_parameter_free(old))

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._array(), self.requires_grad, self.dtype, str(self.device))

    # as defaults: at the interpreter's end the module's names are gone before its last objects
    def __del__(self, _move: Any = _calls.move, _abandon: Any = lib.gd_parameter_abandon) -> None:
        handle = getattr(self, "_h", 0)
        if handle:
            _move(handle, 0)
            _abandon(handle)  # a graph may still need its values


def _rebuild(array: Any, requires_grad: bool, dtype: Any = None, device: str = "cpu") -> Parameter:
    with step_arena():
        return Parameter(Tensor(array, dtype).to(device), requires_grad)


def Buffer(data: Any) -> Tensor:  # noqa: N802
    """A permanent tensor that is not trained: running statistics, masks."""
    with permanent_arena():
        return Tensor(data)


def as_buffer(value: Tensor, old: Tensor | None) -> Tensor:
    """``value``, or where it would die with an arena a permanent copy, in the memory of ``old`` if that fits."""
    if value.arena == permanent_arena() and not value.requires_grad:
        return value
    if old is None or old.shape != value.shape or old.dtype is not value.dtype or old.requires_grad:
        return Buffer(value)
    return old.copy_(value.detach())
