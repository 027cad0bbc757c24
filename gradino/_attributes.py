"""What a tensor is, asked in PyTorch's words, and new tensors like it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradino import devices, dtypes, layouts
from gradino._arguments import as_float, shown, whole_number
from gradino._core import sizes, tensor_type, wrap
from gradino._lib import lib
from gradino._pinned import is_pinned, pinned
from gradino.arena import owner_of
from gradino.dtypes import bool_
from gradino.errors import DeviceError, DTypeError, ShapeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Attributes"]


class Attributes:
    """Answers that are the same for every tensor here stand for what gradino does not have: sparse, complex, quantised."""

    __slots__ = ()
    _h: int

    # ---- new tensors of the same dtype ---------------------------------------------------------------------

    def new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """A tensor with a copy of ``data``, of this dtype unless given."""
        made = tensor_type()(data, dtype=self.dtype if dtype is None else dtype)
        made = devices.moved("new_tensor", made, self.device if device is None else device)
        return made.requires_grad_() if requires_grad else made

    def new_full(
        self: Tensor, size: Any, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
        layout: Any = None, pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        """A tensor of a size filled with a number, of this dtype unless given."""
        return _filled(self, "new_full", (size,), fill_value, dtype, device, requires_grad, layout, pin_memory)

    def new_zeros(
        self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        """Zeros of a size, of this dtype unless given."""
        return _filled(self, "new_zeros", size, 0, dtype, device, requires_grad, layout, pin_memory)

    def new_ones(
        self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        """Ones of a size, of this dtype unless given."""
        return _filled(self, "new_ones", size, 1, dtype, device, requires_grad, layout, pin_memory)

    def new_empty(
        self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        """A tensor of a size with undefined contents, of this dtype unless given."""
        shape, d = _described(self, "new_empty", size, dtype, device, layout, pin_memory)
        with devices.device(self.device if device is None else device):
            result = wrap(lib.gd_empty(len(shape), shape, d.code))
        return result.requires_grad_() if requires_grad else result

    # ---- what it is ------------------------------------------------------------------------------------------

    def is_complex(self: Tensor) -> bool:
        """False: there are no complex numbers."""
        return False

    def is_signed(self: Tensor) -> bool:
        """Whether the dtype has negative values."""
        return self.dtype is not bool_

    def is_conj(self: Tensor) -> bool:
        """False: there are no complex numbers."""
        return False

    def is_neg(self: Tensor) -> bool:
        """False: a negative is computed at once."""
        return False

    def is_pinned(self: Tensor) -> bool:
        """Whether the memory is the host's, from ``pin_memory``."""
        info = self._info()
        return bool(info.is_external) and is_pinned(owner_of(info.base))

    def is_same_size(self: Tensor, other: Tensor) -> bool:
        """Whether another tensor has this shape."""
        if not isinstance(other, tensor_type()):
            raise DTypeError(f"is_same_size: expected a Tensor, got {shown(other)}")
        return self.shape == other.shape

    def is_nonzero(self: Tensor) -> bool:
        """Whether the only element is not 0."""
        if self.numel() != 1:
            raise ShapeError(f"is_nonzero: for a tensor with one element; this one has shape {self.shape}")
        return bool(self.item())

    def storage_offset(self: Tensor) -> int:
        """Elements between the start of the memory that this tensor is a view of, and its first one."""
        info = self._info()
        return (self.data_ptr() - wrap(info.base).data_ptr()) // int(self.dtype.itemsize) if info.base != self._h else 0

    def get_device(self: Tensor) -> int:
        """The number of the CUDA device; -1: the CPU."""
        return int(self._info().device) - 1

    @property
    def layout(self) -> layouts.layout:
        """``gradino.strided``."""
        return layouts.strided

    @property
    def is_sparse(self) -> bool:
        """False: there are no sparse tensors."""
        return False

    @property
    def is_quantized(self) -> bool:
        """False: there are no quantised tensors."""
        return False

    @property
    def is_meta(self) -> bool:
        """False: every tensor has memory."""
        return False

    @property
    def real(self: Tensor) -> Tensor:
        """This tensor: there are no complex numbers."""
        return self

    def conj(self: Tensor) -> Tensor:
        """This tensor: there are no complex numbers."""
        return self

    def conj_physical(self: Tensor) -> Tensor:
        """This tensor: there are no complex numbers."""
        return self

    def conj_physical_(self: Tensor) -> Tensor:
        """This tensor: there are no complex numbers."""
        return self

    def resolve_conj(self: Tensor) -> Tensor:
        """This tensor: there are no complex numbers."""
        return self

    def resolve_neg(self: Tensor) -> Tensor:
        """This tensor: a negative is computed at once."""
        return self

    # ---- elsewhere -----------------------------------------------------------------------------------------

    def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """This tensor on a CUDA device, by default the current one."""
        layouts.plain_format("cuda", memory_format)
        return devices.moved("cuda", self, "cuda" if device is None else device, non_blocking)

    def pin_memory(self: Tensor) -> Tensor:
        """A copy in host memory that CUDA devices read while the host goes on; itself if it is there already."""
        return self if self.is_pinned() else pinned(self)


def _described(
    like: Tensor, name: str, size: tuple[Any, ...], dtype: Any, device: Any, layout: Any, pin_memory: bool
) -> tuple[list[int], dtypes.dtype]:
    layouts.strided_layout(name, layout)
    if pin_memory:
        raise DeviceError(f"{name}: pin_memory is not taken here; use .pin_memory()")
    return sizes(size, name), like.dtype if dtype is None else dtypes.resolve(dtype)


def _filled(
    like: Tensor, name: str, size: tuple[Any, ...], value: Any, dtype: Any, device: Any, requires_grad: bool, layout: Any, pin_memory: bool
) -> Tensor:
    shape, d = _described(like, name, size, dtype, device, layout, pin_memory)
    value = value.item() if isinstance(value, tensor_type()) else value
    with devices.device(like.device if device is None else device):
        result = wrap(lib.gd_full(len(shape), shape, d.code, as_float(name, value), whole_number(name, value, d)))
    return result.requires_grad_() if requires_grad else result
