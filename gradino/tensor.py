"""The Tensor: a handle to a node of the engine, with PyTorch's operators and methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradino import _calls, _core, devices
from gradino._arguments import entry, flag
from gradino._arithmetic import Arithmetic
from gradino._arranging import Arranging
from gradino._attributes import Attributes
from gradino._construction import from_data
from gradino._core import Size, handle_of, shape_of, wrap
from gradino._in_place import InPlace
from gradino._lib import check, ffi, lib, op_id, raise_error
from gradino._linear_algebra import LinearAlgebra
from gradino._overwriting import Overwriting
from gradino._overwriting_pairs import OverwritingPairs
from gradino._pointwise import Pointwise
from gradino._random import Random
from gradino._reductions import Reductions
from gradino._scattering import Scattering
from gradino._shaping import Shaping
from gradino._sorting import Sorting
from gradino._values import Values
from gradino.arena import Arena
from gradino.dtypes import BY_CODE, dtype
from gradino.errors import DTypeError, GradinoError, ShapeError
from gradino.layouts import plain_format

__all__ = ["Tensor"]

_COPY = op_id("copy")
_NONE = lib.GD_ABSENT
_ARENA = 1023 << 26  # bits of a handle that say which arena; 0 is the permanent one
_INFO = ffi.typeof("gd_tensor_info *")


class _Kept:
    """Gives the place of a kept tensor back; held by the one object that stands for it."""

    __slots__ = ("_h",)

    def __init__(self, handle: int) -> None:
        self._h = handle

    # as defaults: at the interpreter's end the module's names are gone before its last objects
    def __del__(self, _move: Any = _calls.move, _abandon: Any = lib.gd_parameter_abandon) -> None:
        _move(self._h, 0)
        _abandon(self._h)  # a graph or a view may still need it


class Tensor(
    Arithmetic, Arranging, Attributes, Pointwise, InPlace, LinearAlgebra, Overwriting, OverwritingPairs, Random, Reductions,
    Scattering, Shaping, Sorting, Values,
):  # fmt: skip
    """An array of at most four dimensions that lives in an arena and may require gradients.

    ``Tensor(data)`` is ``gd.tensor(data)``. Operators, methods and their arguments are PyTorch's.
    """

    __slots__ = ("_h", "_owner", "__weakref__")
    __array_ufunc__ = None  # NumPy leaves `array * tensor` to __rmul__
    __array_priority__ = 1000
    _h: int
    _owner: Any  # what must live as long: the parameter of a detached one, what gives a kept one back

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
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return shape_of(self._h)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return self.shape if dim is None else entry("size", self.shape, dim)

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
        return strides if dim is None else entry("stride", strides, dim)

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
        """``device("cpu")``, which equals ``"cpu"``, or ``device("cuda:0")``."""
        number = lib.gd_device_of(self._h)
        return devices.CPU if number == 0 else devices.named(number) if number > 0 else raise_error()

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a CUDA device."""
        return bool(lib.gd_device_of(self._h) > 0)

    @property
    def arena(self) -> Arena:
        """The arena that owns the memory."""
        pointer = lib.gd_arena_of(self._h)
        return Arena._view(pointer) if pointer != ffi.NULL else raise_error()

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether elements lie in memory in order, without gaps."""
        plain_format("is_contiguous", memory_format)
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

    # ---- gradients ----------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor."""
        return bool(self._info().requires_grad)

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        check(lib.gd_set_requires_grad(self._h, flag("requires_grad", "its value", on)))

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set ``requires_grad`` of a leaf and return it."""
        check(lib.gd_set_requires_grad(self._h, flag("requires_grad_", "requires_grad", requires_grad)))
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
            raise DTypeError(f"grad: must be a Tensor or None, got {type(value).__name__}")
        check(lib.gd_set_grad(self._h, _NONE if value is None else value._h))

    @grad.deleter
    def grad(self) -> None:
        check(lib.gd_set_grad(self._h, _NONE))

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
    def grad_fn(self) -> Any:
        """The op that backward continues with, a :class:`gradino.autograd.graph.Node`; None for a leaf."""
        from gradino.autograd.graph import node_of

        return node_of(self)

    @property
    def output_nr(self) -> int:
        """Which output of its op the tensor is."""
        return int(self._info().out_index)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> _calls.RemovableHandle:
        """Call ``hook(gradient)`` in every backward when the gradient of this tensor is complete.

        What it returns, unless None, takes the gradient's place. ``remove()`` of the result takes the hook away.
        """
        if not self.requires_grad:
            raise GradinoError("cannot register a hook on a tensor that doesn't require gradient")
        return _calls.hook(self, lib.GD_CALL_HOOK, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> _calls.RemovableHandle:
        """Call ``hook(tensor)`` in every backward when ``.grad`` of this leaf is complete."""
        if not self.requires_grad:
            raise GradinoError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise GradinoError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return _calls.hook(self, lib.GD_CALL_LEAF, hook)

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
        *,
        optimizer: Any = None,
    ) -> None:
        """Add the gradients of this tensor to ``.grad`` of the leaves it was computed from.

        Args:
            gradient: gradient of this tensor, of its shape; may be left out for one element.
            retain_graph: keep the graph for another backward (default: ``create_graph``).
            create_graph: record the backward itself, for higher derivatives.
            inputs: the tensors whose ``.grad`` is to be filled; all leaves if left out.
            optimizer: apply it to each of its parameters as soon as that one's gradient is complete,
                and drop the gradient. Equal to ``backward(); step(); zero_grad()``.
        """
        retain, create_graph = bool(create_graph if retain_graph is None else retain_graph), bool(create_graph)
        native = optimizer._prepare() if optimizer is not None else ffi.NULL
        numbers = _calls.ran.numbers
        before = len(numbers)
        if inputs is None:
            status = lib.gd_backward(self._h, _NONE if gradient is None else handle_of("backward", gradient), retain, create_graph, native)
        else:
            seeds = [_NONE if gradient is None else handle_of("backward", gradient)]
            wanted = _wanted(inputs)
            status = lib.gd_backward_into([self._h], seeds, 1, wanted, len(wanted), retain, create_graph, native)
        if status < 0:
            _calls.backward_failed()
        if len(numbers) > before:
            _calls.backward_is_done(before, retain)
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
        kept = wrap(lib.gd_keep(self._h, 0))
        if not kept._h & _ARENA:
            kept._owner = _Kept(kept._h)
        return kept

    # ---- copies and dtypes ----------------------------------------------------------------------------------

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy with its own memory; gradients flow through it."""
        plain_format("clone", memory_format)
        return wrap(lib.gd_call(_COPY, [self._h], 1, ffi.NULL))

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """This tensor if it is contiguous, else a copy that is."""
        plain_format("contiguous", memory_format)
        handle = lib.gd_contiguous(self._h)
        return self if handle == self._h else wrap(handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._array(), self.requires_grad, self.dtype, str(self.device))

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


def _wanted(inputs: Any) -> list[int]:
    """Handles of the tensors that a backward is limited to."""
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if not given:
        raise GradinoError("'inputs' argument to backward() cannot be empty.")
    return [handle_of("backward", t) for t in given]


def _rebuild(array: np.ndarray[Any, Any], requires_grad: bool, dtype: Any = None, device: str = "cpu") -> Tensor:
    made = devices.moved("tensor", Tensor(array, dtype), device)
    return made.requires_grad_() if requires_grad else made


_core.set_tensor_type(Tensor)
