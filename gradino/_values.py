"""Taking values out of a tensor: numbers, lists, arrays; and making it another dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gradino import _interop, devices, dtypes
from gradino._core import handle_of, tensor_type, wrap
from gradino._lib import check, ffi, lib, raise_error
from gradino.arena import owner_of, step_arena
from gradino.dtypes import BY_CODE, FLOAT_CODES
from gradino.errors import DeviceError, DTypeError, GradinoError, ShapeError
from gradino.layouts import plain_format

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Values"]

_CLASSES = {
    "float32": "FloatTensor", "float64": "DoubleTensor", "float16": "HalfTensor", "bfloat16": "BFloat16Tensor", "int64": "LongTensor",
    "int32": "IntTensor", "bool": "BoolTensor",
}  # fmt: skip
_BY_CLASS = {name: d for d, name in _CLASSES.items()}


class Values:
    """Methods that hand out a tensor's values, and those that convert them."""

    __slots__ = ()
    _h: int

    def item(self: Tensor) -> Any:
        """The only element as a Python number."""
        h = self._h
        code = lib.gd_dtype_of(h)
        if code in FLOAT_CODES:
            value = lib.gd_item_float(h)
            if value != value and lib.gd_last_status() < 0:
                raise_error()
            return value
        if code < 0:
            raise_error()
        number = lib.gd_item_int(h)
        if lib.gd_last_status() < 0:
            raise_error()
        return bool(number) if code == lib.GD_BOOL else number

    def tolist(self: Tensor) -> Any:
        """Nested Python lists, or a number for a tensor without dimensions."""
        return self._array().tolist()

    def _array(self: Tensor) -> np.ndarray[Any, Any]:
        info = self._info()
        if BY_CODE[info.dtype].numpy is None:  # every bfloat16 is a float32
            with step_arena():
                return self.detach().float()._array()
        out = np.empty(ffi.unpack(info.shape, info.rank), BY_CODE[info.dtype].numpy)
        check(lib.gd_copy_out(self._h, ffi.from_buffer(out), out.nbytes))
        return out

    def numpy(self: Tensor) -> np.ndarray[Any, Any]:
        """A NumPy array over the same memory; it stays valid after the arena is reset.

        The gradient of a parameter lives in memory that the next backward writes again, so
        for it the result is a read-only copy. NumPy has no bfloat16: take ``.float().numpy()``.
        """
        info = self._info()
        if info.requires_grad:
            raise GradinoError("numpy: the tensor requires grad; use tensor.detach().numpy()")
        if info.device:
            raise DeviceError(f"numpy: the tensor is on {self.device}; use tensor.cpu().numpy()")
        d = BY_CODE[info.dtype]
        if d.numpy is None:
            raise DTypeError(f"numpy: NumPy has no {d.name}; use tensor.float().numpy()")
        if info.is_grad_buffer:
            copy = self._array()
            copy.flags.writeable = False
            return copy
        shape: list[int] = ffi.unpack(info.shape, info.rank)
        if info.numel == 0:
            return np.empty(shape, d.numpy)
        export = lib.gd_export_open(self._h)
        if export == ffi.NULL:
            raise_error()
        close, owner = lib.gd_export_close, owner_of(info.base) if info.is_external else None

        def release(_: Any, owner: Any = owner) -> None:  # holds on to an array whose memory is borrowed
            close(export)

        memory = ffi.gc(ffi.cast("char *", info.data), release)
        if info.contiguous:
            array: np.ndarray[Any, Any] = np.ndarray(shape, d.numpy, ffi.buffer(memory, info.numel * d.itemsize))
            return array
        strides: list[int] = [s * d.itemsize for s in ffi.unpack(info.strides, info.rank)]
        span = sum((n - 1) * s for n, s in zip(shape, strides)) + d.itemsize
        array = np.ndarray(shape, d.numpy, ffi.buffer(memory, span), strides=strides)
        if any(n > 1 and s == 0 for n, s in zip(shape, strides)):
            array.flags.writeable = False
        return array

    def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self._array() if copy else self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("a view of another dtype needs a copy")
            return array.astype(dtype)
        return array

    def __dlpack__(self: Tensor, **how: Any) -> Any:
        """The memory as a capsule, for ``torch.as_tensor`` and the like; it stays valid after the arena is reset."""
        if self.is_cuda:
            raise DeviceError("__dlpack__: capsules are made of the CPU's memory only; use tensor.cupy(), or __cuda_array_interface__")
        array = self.numpy()
        return (array if array.flags.writeable else array.copy()).__dlpack__(**how)

    def __dlpack_device__(self: Tensor) -> tuple[int, int]:
        """(1, 0): the CPU; (2, 1): cuda:1."""
        device = lib.gd_device_of(self._h)
        return (2, device - 1) if device > 0 else (1, 0)

    @property
    def __cuda_array_interface__(self: Tensor) -> dict[str, Any]:
        """For CuPy, Numba and the like; only tensors on a CUDA device have it."""
        return _interop.interface_of(self)

    def cupy(self: Tensor) -> Any:
        """A CuPy array over the same memory, of a tensor on a CUDA device; it stays valid after the arena is reset."""
        return _interop.to_cupy(self)

    def _number(self: Tensor) -> Any:
        if self.numel() != 1:
            raise ShapeError(f"only a tensor with one element is a number; this one has shape {self.shape}")
        return self.item()

    def __bool__(self: Tensor) -> bool:
        return bool(self._number())

    def __float__(self: Tensor) -> float:
        return float(self._number())

    def __int__(self: Tensor) -> int:
        return int(self._number())

    def __index__(self: Tensor) -> int:
        if self.numel() != 1 or self.dtype.is_floating_point:
            raise TypeError(f"only integer tensors with one element can be an index; this one is {self.dtype} of shape {self.shape}")
        return int(self.item())

    def __format__(self: Tensor, spec: str) -> str:
        if lib.gd_check(self._h) >= 0 and not self.ndim:
            return format(self.item(), spec)
        return object.__format__(self, spec) if spec else repr(self)

    def __iter__(self: Tensor) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("a tensor without dimensions cannot be iterated")
        for i in range(len(self)):
            yield wrap(lib.gd_select(self._h, 0, i))

    def __contains__(self: Tensor, value: Any) -> bool:
        if not isinstance(value, (tensor_type(), bool, int, float, np.generic)):
            raise DTypeError(f"in: a tensor holds numbers, so it cannot contain a {type(value).__name__}")
        return bool((self == value).any())

    # ---- other dtypes -----------------------------------------------------------------------------------

    def to(
        self: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        """This tensor with another dtype: ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(tensor)``, each with
        ``non_blocking`` and ``copy``, by name or after them. ``device`` is ``"cpu"``, ``"cuda"`` or ``"cuda:1"``; with
        ``non_blocking`` the host does not wait for a copy from or to pinned memory.
        """
        flags = 0
        for arg in args:
            if isinstance(arg, tensor_type()):
                dtype, device = arg.dtype, arg.device
            elif isinstance(arg, bool):
                copy, non_blocking, flags = arg if flags else copy, non_blocking if flags else arg, flags + 1
            elif (isinstance(arg, str) and arg.split(":")[0] in ("cpu", "cuda")) or type(arg) is int:
                device = arg
            elif arg is not None:
                dtype = arg
        plain_format("to", memory_format)
        result = self if dtype is None else wrap(lib.gd_cast(self._h, dtypes.resolve(dtype).code))
        result = devices.moved("to", result, device, bool(non_blocking))
        if result._h == self._h:
            return self.clone() if copy else self
        return result

    def type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
        """This tensor with another dtype, which may be named as ``"gradino.FloatTensor"``; that name of its own without one."""
        if dtype is None:
            return f"gradino.{_CLASSES[self.dtype.name]}"
        return self.to(_BY_CLASS.get(dtype.rpartition(".")[2], dtype) if isinstance(dtype, str) else dtype)

    def float(self: Tensor, memory_format: Any = None) -> Tensor:
        """As float32."""
        plain_format("float", memory_format)
        return self.to(dtypes.float32)

    def double(self: Tensor, memory_format: Any = None) -> Tensor:
        """As float64."""
        plain_format("double", memory_format)
        return self.to(dtypes.float64)

    def half(self: Tensor, memory_format: Any = None) -> Tensor:
        """As float16."""
        plain_format("half", memory_format)
        return self.to(dtypes.float16)

    def bfloat16(self: Tensor, memory_format: Any = None) -> Tensor:
        """As bfloat16."""
        plain_format("bfloat16", memory_format)
        return self.to(dtypes.bfloat16)

    def long(self: Tensor, memory_format: Any = None) -> Tensor:
        """As int64."""
        plain_format("long", memory_format)
        return self.to(dtypes.int64)

    def int(self: Tensor, memory_format: Any = None) -> Tensor:
        """As int32."""
        plain_format("int", memory_format)
        return self.to(dtypes.int32)

    def bool(self: Tensor, memory_format: Any = None) -> Tensor:
        """As bool: whether elements are not 0."""
        plain_format("bool", memory_format)
        return self.to(dtypes.bool_)

    def type_as(self: Tensor, other: Tensor) -> Tensor:
        """This tensor with the dtype of another."""
        handle_of("type_as", other)
        return self.to(other.dtype)

    def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
        """This tensor on the CPU."""
        plain_format("cpu", memory_format)
        return devices.moved("cpu", self, "cpu")
