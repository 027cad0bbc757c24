"""Parameters: tensors that live in the permanent slabs, beside their gradient and moments."""

from __future__ import annotations

from typing import Any

from gradino._core import wrap
from gradino._lib import check, lib, raise_error
from gradino.tensor import Tensor, from_data

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
        source = data._h if isinstance(data, Tensor) else from_data(data)
        self._h = lib.gd_parameter(source, requires_grad) or raise_error()

    @classmethod
    def _copied(cls, source: Tensor) -> Parameter:
        return cls(source, requires_grad=source.requires_grad)

    def _state(self, which: int) -> Tensor | None:
        handle = lib.gd_parameter_state(self._h, which)
        if handle:
            return wrap(handle)
        check(lib.gd_check(self._h))
        return None

    @property
    def data(self) -> Tensor:
        """The values without history."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        self.detach().copy_(value)

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

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._array(), self.requires_grad)

    def __del__(self) -> None:
        handle = getattr(self, "_h", 0)
        if handle:
            lib.gd_parameter_free(handle)


def _rebuild(array: Any, requires_grad: bool) -> Parameter:
    return Parameter(array, requires_grad)


def Buffer(data: Any) -> Tensor:  # noqa: N802
    """A permanent tensor that is not trained: running statistics, masks."""
    from gradino.arena import permanent_arena

    with permanent_arena():
        return Tensor(data)
