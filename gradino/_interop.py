"""Memory of CUDA devices shared with other libraries, by ``__cuda_array_interface__`` (version 3, with streams)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradino import devices, dtypes
from gradino._core import wrap
from gradino._lib import check, ffi, lib, raise_error
from gradino.arena import borrow, owner_of
from gradino.errors import DeviceError, DTypeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["from_cupy"]


def interface_of(t: Tensor) -> dict[str, Any]:
    """What ``__cuda_array_interface__`` says of a tensor: its memory is good in the order of this thread's stream."""
    info = t._info()
    if not info.device:
        raise AttributeError("__cuda_array_interface__: the tensor is on the CPU")
    if info.requires_grad:
        raise AttributeError("__cuda_array_interface__: the tensor requires grad; use tensor.detach()")
    kind = dtypes.BY_CODE[info.dtype]
    if kind.numpy is None:
        raise AttributeError(f"__cuda_array_interface__: there is no type {kind.name}; use tensor.float()")
    stream = int(lib.gd_stream_handle(info.device, check(lib.gd_stream_current(info.device))))
    return {
        "shape": tuple(ffi.unpack(info.shape, info.rank)),
        "typestr": kind.numpy.str,
        "data": (int(ffi.cast("uintptr_t", info.data)) if info.numel else 0, False),
        "strides": None if info.contiguous else tuple(s * kind.itemsize for s in ffi.unpack(info.strides, info.rank)),
        "version": 3,
        "stream": stream or 1,  # 0 is not allowed; 1 is the default stream
    }


class Held:
    """A tensor's memory for another library: it is not used again, whatever happens to the arena, while this object lives."""

    __slots__ = ("__cuda_array_interface__", "_export", "_owner")

    def __init__(self, t: Tensor) -> None:
        try:
            self.__cuda_array_interface__ = interface_of(t)
        except AttributeError as error:
            raise DeviceError(str(error)) from None
        export = lib.gd_export_open(t._h)
        if export == ffi.NULL:
            raise_error()
        info = t._info()
        self._export = ffi.gc(export, lib.gd_export_close)
        self._owner = owner_of(info.base) if info.is_external else None


def to_cupy(t: Tensor) -> Any:
    """A CuPy array over the same memory."""
    try:
        import cupy  # type: ignore[import-not-found]
    except ImportError:
        raise DeviceError("cupy: CuPy is not installed; `pip install gradino[cuda]` brings it") from None
    return cupy.asarray(Held(t))


def from_cupy(array: Any) -> Tensor:
    """A tensor over the memory of a CuPy array, or of anything with ``__cuda_array_interface__``, which stays alive with it.

    What this thread's stream is given from now on waits for what the array's stream was given so far.
    """
    about = getattr(array, "__cuda_array_interface__", None)
    if not isinstance(about, dict):
        raise DTypeError(f"from_cupy: expected an array with __cuda_array_interface__, got {type(array).__name__}")
    pointer, read_only = about["data"]
    if read_only:
        raise DTypeError("from_cupy: the array is read-only")
    kind, shape = dtypes.resolve(about["typestr"]), tuple(about["shape"])
    number = devices.number_of("from_cupy", getattr(getattr(array, "device", None), "id", None) or "cuda")
    strides = about.get("strides")
    if strides is None:
        strides, step = [0] * len(shape), kind.itemsize
        for d in reversed(range(len(shape))):
            strides[d], step = step, step * max(shape[d], 1)
    if any(s % kind.itemsize for s in strides):
        raise DTypeError("from_cupy: strides must be whole elements; copy the array")
    stream = about.get("stream")
    if stream is not None and stream != 1:
        check(lib.gd_stream_meet(number, stream, 0))
    made = wrap(
        lib.gd_from_device(number, len(shape), shape, [s // kind.itemsize for s in strides], kind.code, ffi.cast("void *", pointer))
    )
    borrow(made._h, array)
    return made
