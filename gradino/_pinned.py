"""Host memory that CUDA devices read and write while the host goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradino._core import wrap
from gradino._lib import check, ffi, lib, raise_error
from gradino.arena import borrow
from gradino.errors import DeviceError

if TYPE_CHECKING:
    from gradino.tensor import Tensor


class _Memory:
    """Pinned memory, given back with this object."""

    __slots__ = ("pointer",)

    def __init__(self, size: int) -> None:
        self.pointer = lib.gd_pin(size)
        if self.pointer == ffi.NULL:
            raise_error()

    def __del__(self, _unpin: Any = lib.gd_unpin) -> None:
        _unpin(getattr(self, "pointer", ffi.NULL))


def pinned(t: Tensor) -> Tensor:
    """A copy of a tensor of the CPU in pinned memory."""
    info = t._info()
    if info.device:
        raise DeviceError(f"pin_memory: the tensor is on {t.device}; only memory of the host can be pinned")
    memory = _Memory(t.nbytes)
    strides = [1] * info.rank
    for d in range(info.rank - 1, 0, -1):
        strides[d - 1] = strides[d] * max(info.shape[d], 1)
    result = wrap(lib.gd_from_external(info.rank, tuple(t.shape), strides, info.dtype, memory.pointer))
    borrow(result._h, memory)
    check(lib.gd_copy_in(result._h, t.detach()._h))
    return result


def is_pinned(owner: Any) -> bool:
    """Whether what a tensor's memory was borrowed from is pinned memory."""
    return isinstance(owner, _Memory)
