"""Running any op of the table with the attributes that native/ops.def names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradino._core import wrap
from gradino._lib import ffi, lib, raise_error

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["absolute", "output", "run"]

_ATTRIBUTES = ffi.typeof("gd_attr *")
_gd_call = lib.gd_call


def run(op: int, tensors: Sequence[Any], i: Sequence[int] = (), f: Sequence[float] = ()) -> Tensor:
    """The first result of an op."""
    attributes = ffi.new(_ATTRIBUTES, {"i": i, "f": f})
    return wrap(_gd_call(op, [t._h for t in tensors], len(tensors), attributes))


def output(first: Tensor, k: int) -> Tensor:
    """A further result of the op that made ``first``."""
    handle = lib.gd_output(first._h, k)
    return wrap(handle) if handle else raise_error()


def absolute(ndim: int, dim: int) -> int:
    """A dimension, which exists, as the table's attributes count it: among four, the last one is 3."""
    return dim + (4 if dim < 0 else 4 - max(ndim, 1))
