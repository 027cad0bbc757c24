"""The Tensor: a handle to a node of the engine, with PyTorch's operators and methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradino import _core, devices, dtypes
from gradino._arithmetic import Arithmetic
from gradino._core import handle_of, shape_of, wrap
from gradino._in_place import InPlace
from gradino._lib import check, ffi, lib, op_id, raise_error, text
from gradino._reductions import Reductions
from gradino._shaping import Shaping
from gradino.arena import Arena, owner_of
from gradino.dtypes import BY_CODE, dtype
from gradino.errors import DTypeError, GradinoError, InvalidValueError, ShapeError
from gradino.grad_mode import no_grad

__all__ = ["Tensor"]

_COPY = op_id("copy")
_INFO = ffi.typeof("gd_tensor_info *")
_FLOATS = (lib.GD_FLOAT32, lib.GD_FLOAT64)


def from_data(data: Any, dtype: Any = None) -> int:
    """Handle of a new tensor that holds a copy of ``data``: numbers, nested lists, arrays, tensors."""
    if isinstance(data, Tensor):
        wanted = data.dtype if dtype is None else dtypes.resolve(dtype)
        with no_grad():
            return wrap(lib.gd_cast(lib.gd_detach(data._h), wanted.code)).clone()._h
    is_array, doubles = isinstance(data, (np.ndarray, np.generic)), False
    if isinstance(data, (list, tuple)):
        kinds = _kinds(data, set())
        if any(issubclass(k, Tensor) for k in kinds if isinstance(k, type)):
            data = _untensor(data)
        doubles = not kinds.isdisjoint(_DOUBLES)
    try:
        array = np.asarray(data)
    except ValueError:
        raise ShapeError(f"tensor: the {type(data).__name__} is ragged: at each depth all parts must have one length") from None
    if dtype is not None:
        wanted = dtypes.resolve(dtype)
    elif is_array:
        wanted = dtypes.from_numpy_dtype(array.dtype)
    elif array.dtype.kind == "f":
        wanted = dtypes.float64 if doubles else dtypes.float32
    elif array.dtype == object or array.dtype.kind not in "iub":
        wanted = dtypes.int64  # refused below
    else:
        wanted = dtypes.int64 if array.dtype.kind == "u" else dtypes.from_numpy_dtype(array.dtype)
    if array.dtype.kind not in "fiub":
        if array.dtype == object and isinstance(data, int):
            raise InvalidValueError(f"tensor: {data} does not fit int64")
        raise DTypeError(f"tensor: cannot make a tensor of {type(data).__name__} values of NumPy dtype {array.dtype}: they must be numbers")
    if array.dtype != wanted.numpy:
        array = _converted(array, wanted, checked=not is_array)
    array = np.ascontiguousarray(array).reshape(array.shape)
    handle = lib.gd_from_data(array.ndim, array.shape, wanted.code, ffi.from_buffer(array))
    return int(handle) or raise_error()


_DOUBLES = frozenset((np.float64, dtypes.float64, dtypes.float64.numpy))


def _kinds(data: Any, found: set[Any]) -> set[Any]:
    """Types of all that nested lists hold, and dtypes of the arrays and tensors among it."""
    for x in data:
        if isinstance(x, (list, tuple)):
            _kinds(x, found)
        else:
            found.add(type(x))
            if isinstance(x, (np.ndarray, Tensor)):
                found.add(x.dtype)
    return found


def _untensor(data: Any) -> Any:
    return [x.tolist() if isinstance(x, Tensor) else _untensor(x) if isinstance(x, (list, tuple)) else x for x in data]


def _converted(array: np.ndarray[Any, Any], wanted: dtype, checked: bool) -> np.ndarray[Any, Any]:
    """The array in another dtype. Python integers must fit; floats overflow to infinity without a warning."""
    if checked and array.size and array.dtype.kind in "iu" and wanted.numpy.kind == "i":
        limits = np.iinfo(wanted.numpy)
        for value in (int(array.min()), int(array.max())):
            if not limits.min <= value <= limits.max:
                raise InvalidValueError(f"tensor: {value} does not fit {wanted.name}")
    with np.errstate(all="ignore"):
        return array.astype(wanted.numpy)


class Tensor(Arithmetic, InPlace, Reductions, Shaping):
    """An array of at most four dimensions that lives in an arena and may require gradients.

    ``Tensor(data)`` is ``gd.tensor(data)``. Operators, methods and their arguments are PyTorch's.
    """

    __slots__ = ("_h", "_owner", "__weakref__")
    __array_ufunc__ = None  # NumPy leaves `array * tensor` to __rmul__
    __array_priority__ = 1000
    _h: int
    _owner: Tensor  # set where another object must stay alive: by Parameter.detach

    def __init__(self, data: Any, dtype: Any = None, requires_grad: bool = False) -> None:
        self._h = from_data(data, dtype)
        if requires_grad:
            self.requires_grad_()

    # ---- description ------------------------------------------------------------------------------------

    def _info(self) -> Any:
        info = ffi.new(_INFO)
        check(lib.gd_info(self._h, info))
        return info

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return shape_of(self._h)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    @property
    def ndim(self) -> int:
        """Number of dimensions, 0 to 4."""
        return len(shape_of(self._h))

    def dim(self) -> int:
        """Number of dimensions, 0 to 4."""
        return len(shape_of(self._h))

    def numel(self) -> int:
        """Number of elements."""
        return int(self._info().numel)

    def nelement(self) -> int:
        """Number of elements."""
        return int(self._info().numel)

    def ndimension(self) -> int:
        """Number of dimensions, 0 to 4."""
        return len(shape_of(self._h))

    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements, or the stride of one dimension."""
        info = self._info()
        strides = tuple(info.strides[0 : info.rank])
        return strides if dim is None else strides[dim]

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * int(self.dtype.itemsize)

    def data_ptr(self) -> int:
        """Address of the first element."""
        return int(ffi.cast("uintptr_t", self._info().data))

    @property
    def dtype(self) -> dtype:
        """Element type."""
        code = lib.gd_dtype_of(self._h)
        return BY_CODE[code] if code >= 0 else raise_error()

    @property
    def device(self) -> devices.device:
        """``device("cpu")``, which equals ``"cpu"``."""
        return devices.CPU

    @property
    def is_cuda(self) -> bool:
        """False: there is only the CPU."""
        return False

    @property
    def arena(self) -> Arena:
        """The arena that owns the memory."""
        pointer = lib.gd_arena_of(self._h)
        return Arena._view(pointer) if pointer != ffi.NULL else raise_error()

    def is_contiguous(self) -> bool:
        """Whether elements lie in memory in order, without gaps."""
        return bool(self._info().contiguous)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a float."""
        return self.dtype.is_floating_point

    @property
    def _version(self) -> int:
        return int(self._info().version)

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of a tensor without dimensions")
        return shape[0]

    def __repr__(self) -> str:
        from gradino._display import tensor_repr

        return tensor_repr(self)

    # ---- taking values out ------------------------------------------------------------------------------

    def item(self) -> Any:
        """The only element as a Python number."""
        h = self._h
        code = lib.gd_dtype_of(h)
        if code in _FLOATS:
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

    def tolist(self) -> Any:
        """Nested Python lists, or a number for a tensor without dimensions."""
        return self._array().tolist()

    def _array(self) -> np.ndarray[Any, Any]:
        info = self._info()
        out = np.empty(ffi.unpack(info.shape, info.rank), BY_CODE[info.dtype].numpy)
        check(lib.gd_copy_out(self._h, ffi.from_buffer(out), out.nbytes))
        return out

    def numpy(self) -> np.ndarray[Any, Any]:
        """A NumPy array over the same memory; it stays valid after the arena is reset.

        The gradient of a parameter lives in memory that the next backward writes again, so
        for it the result is a read-only copy.
        """
        info = self._info()
        if info.requires_grad:
            raise GradinoError("numpy: the tensor requires grad; use tensor.detach().numpy()")
        if info.is_grad_buffer:
            copy = self._array()
            copy.flags.writeable = False
            return copy
        d = BY_CODE[info.dtype]
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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self._array() if copy else self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("a view of another dtype needs a copy")
            return array.astype(dtype)
        return array

    def _number(self) -> Any:
        if self.numel() != 1:
            raise ShapeError(f"only a tensor with one element is a number; this one has shape {self.shape}")
        return self.item()

    def __bool__(self) -> bool:
        return bool(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __index__(self) -> int:
        if self.numel() != 1 or self.dtype.is_floating_point:
            raise TypeError(f"only integer tensors with one element can be an index; this one is {self.dtype} of shape {self.shape}")
        return int(self.item())

    def __format__(self, spec: str) -> str:
        if lib.gd_check(self._h) >= 0 and not self.ndim:
            return format(self.item(), spec)
        return object.__format__(self, spec) if spec else repr(self)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("a tensor without dimensions cannot be iterated")
        for i in range(len(self)):
            yield wrap(lib.gd_select(self._h, 0, i))

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, (Tensor, bool, int, float, np.generic)):
            raise DTypeError(f"in: a tensor holds numbers, so it cannot contain a {type(value).__name__}")
        return bool((self == value).any())

    # ---- gradients ----------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor."""
        return bool(self._info().requires_grad)

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        check(lib.gd_set_requires_grad(self._h, on))

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set ``requires_grad`` of a leaf and return it."""
        check(lib.gd_set_requires_grad(self._h, requires_grad))
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was not made by a recorded op."""
        return bool(self._info().is_leaf)

    @property
    def grad(self) -> Tensor | None:
        """The gradient gathered so far, or None. A parameter's becomes stale when it is cleared."""
        handle = lib.gd_get_grad(self._h)
        if handle:
            return wrap(handle)
        check(lib.gd_check(self._h))
        if self._info().has_grad:
            raise_error()
        return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"grad: must be a Tensor or None, got {type(value).__name__}")
        check(lib.gd_set_grad(self._h, 0 if value is None else value._h))

    @grad.deleter
    def grad(self) -> None:
        check(lib.gd_set_grad(self._h, 0))

    @property
    def data(self) -> Tensor:
        """The same memory without history. Assigning copies values into it, in its shape and dtype."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise DTypeError(f"data: expected a Tensor, got {type(value).__name__}")
        if value.shape != self.shape:
            raise ShapeError(f"data: values of shape {value.shape} for a tensor of shape {self.shape}: they must be equal")
        self.detach().copy_(value.detach())

    @property
    def grad_fn(self) -> str | None:
        """Name of the op that backward continues with; None for a leaf."""
        info = self._info()
        return text(lib.gd_op_name(info.op)) if info.has_node and info.op >= 0 else None

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        *,
        optimizer: Any = None,
    ) -> None:
        """Add the gradients of this tensor to ``.grad`` of the leaves it was computed from.

        Args:
            gradient: gradient of this tensor, of its shape; may be left out for one element.
            retain_graph: keep the graph for another backward (default: ``create_graph``).
            create_graph: record the backward itself, for higher derivatives.
            optimizer: apply it to each of its parameters as soon as that one's gradient is complete,
                and drop the gradient. Equal to ``backward(); step(); zero_grad()``.
        """
        retain = create_graph if retain_graph is None else retain_graph
        native = optimizer._prepare() if optimizer is not None else ffi.NULL
        status = lib.gd_backward(self._h, 0 if gradient is None else handle_of("backward", gradient), retain, create_graph, native)
        if status:
            check(status)

    def retain_grad(self) -> None:
        """Keep ``.grad`` of a tensor that is not a leaf."""
        check(lib.gd_retain_grad(self._h))

    @property
    def retains_grad(self) -> bool:
        """Whether ``retain_grad`` was called."""
        return bool(self._info().retains_grad)

    def detach(self) -> Tensor:
        """The same memory without history."""
        return wrap(lib.gd_detach(self._h))

    def keep(self) -> Tensor:
        """A copy without history in the enclosing arena, for a value that outlives the current step."""
        return wrap(lib.gd_keep(self._h, 0))

    # ---- copies and dtypes ----------------------------------------------------------------------------------

    def clone(self) -> Tensor:
        """A copy with its own memory; gradients flow through it."""
        return wrap(lib.gd_call(_COPY, [self._h], 1, ffi.NULL))

    def contiguous(self) -> Tensor:
        """This tensor if it is contiguous, else a copy that is."""
        handle = lib.gd_contiguous(self._h)
        return self if handle == self._h else wrap(handle)

    def to(self, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, non_blocking: bool = False) -> Tensor:
        """This tensor with another dtype. The only device is ``"cpu"``."""
        for arg in args:
            if isinstance(arg, Tensor):
                dtype = arg.dtype
            elif isinstance(arg, str) and arg.split(":")[0] in ("cpu", "cuda"):
                device = arg
            else:
                dtype = arg
        devices.need_cpu("to", device)
        result = self if dtype is None else wrap(lib.gd_cast(self._h, dtypes.resolve(dtype).code))
        if result._h == self._h:
            return self.clone() if copy else self
        return result

    def type(self, dtype: Any) -> Tensor:
        """This tensor with another dtype."""
        return self.to(dtype)

    def float(self) -> Tensor:
        """As float32."""
        return self.to(dtypes.float32)

    def double(self) -> Tensor:
        """As float64."""
        return self.to(dtypes.float64)

    def long(self) -> Tensor:
        """As int64."""
        return self.to(dtypes.int64)

    def int(self) -> Tensor:
        """As int32."""
        return self.to(dtypes.int32)

    def bool(self) -> Tensor:
        """As bool: whether elements are not 0."""
        return self.to(dtypes.bool_)

    def type_as(self, other: Tensor) -> Tensor:
        """This tensor with the dtype of another."""
        return self.to(other.dtype)

    def cpu(self) -> Tensor:
        """This tensor."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._array(), self.requires_grad)

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        if not self.is_leaf:
            raise GradinoError("deepcopy: only leaves can be copied deeply; use .detach().clone() for the result of an op")
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        copied = type(self)._copied(self)
        memo[id(self)] = copied
        copied.grad = self.grad
        return copied

    @classmethod
    def _copied(cls, source: Tensor) -> Tensor:
        return cls(source, requires_grad=source.requires_grad)


def _rebuild(array: np.ndarray[Any, Any], requires_grad: bool) -> Tensor:
    return Tensor(array, requires_grad=requires_grad)


_core.set_tensor_type(Tensor)
