"""The recorded graph, for those who walk it: ``Tensor.grad_fn`` is a :class:`Node`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from gradino import _calls
from gradino._core import wrap
from gradino._lib import check, ffi, lib, text
from gradino.errors import GradinoError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Node"]

_FEW = 16


class Node:
    """An op that was recorded. A view of it: it dies with the tensors of its arena."""

    __slots__ = ("_h",)
    _h: int

    def __init__(self, handle: int) -> None:
        self._h = handle

    def name(self) -> str:
        """Its name, like ``MulBackward0``; a custom function's is that of its class."""
        info = ffi.new("gd_tensor_info *")
        check(lib.gd_info(self._h, info))
        number = lib.gd_object_of(self._h)
        context = _calls.value_of(number) if number else None
        if context is not None:
            return type(context).__name__
        return "".join(part.capitalize() for part in text(lib.gd_op_name(info.op)).split("_")) + "Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input the node that its gradient goes to, and which output of that one it is; (None, 0) where none goes."""
        room = _FEW
        while True:
            handles = ffi.new("gd_tensor[]", room)
            count = check(lib.gd_graph_inputs(self._h, handles, room))
            if count <= room:
                break
            room = count
        return tuple(_edge(h) for h in ffi.unpack(handles, count))

    @property
    def metadata(self) -> dict[Any, Any]:
        """An empty dict: nothing is remembered in it."""
        return {}

    def register_hook(self, fn: Any) -> NoReturn:
        """Not supported: use ``Tensor.register_hook``."""
        raise GradinoError("grad_fn.register_hook: nodes take no hooks; use Tensor.register_hook")

    def register_prehook(self, fn: Any) -> NoReturn:
        """Not supported: use ``Tensor.register_hook``."""
        raise GradinoError("grad_fn.register_prehook: nodes take no hooks; use Tensor.register_hook")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self._h == other._h

    def __hash__(self) -> int:
        return hash(self._h)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class AccumulateGrad(Node):
    """The end of a graph: a leaf that gathers its gradient."""

    __slots__ = ()

    def name(self) -> str:
        """``AccumulateGrad``, as PyTorch's."""
        return "AccumulateGrad"

    @property
    def variable(self) -> Tensor:
        """The leaf."""
        return wrap(self._h)


def _edge(handle: int) -> tuple[Node | None, int]:
    if not handle:
        return None, 0
    info = ffi.new("gd_tensor_info *")
    check(lib.gd_info(handle, info))
    return (AccumulateGrad(handle), 0) if info.is_leaf else (Node(handle - info.out_index), int(info.out_index))


def node_of(tensor: Tensor) -> Node | None:
    """The node of the op that made a tensor; None for a leaf."""
    info = tensor._info()
    return Node(tensor._h - info.out_index) if info.has_node and info.op >= 0 else None
