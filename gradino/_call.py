"""Running any op of the table with the attributes that native/ops.def names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradino._arguments import whole
from gradino._core import wrap
from gradino._lib import ffi, lib, raise_error
from gradino.errors import InvalidValueError, OutOfRangeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["absolute", "along", "dimension", "dimensions", "output", "run"]

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


def dimension(name: str, ndim: int, dim: Any) -> int:
    """A dimension counted from 0, which must exist; a tensor without dimensions counts as having one."""
    at = whole(name, "dim", dim)
    n = max(ndim, 1)
    if not -n <= at < n:
        raise OutOfRangeError(f"{name}: dimension {at} is out of range: it must be in [{-n}, {n - 1}]")
    return at % n


def dimensions(name: str, ndim: int, dims: Any) -> list[int]:
    """Several dimensions counted from 0, each of which must exist, once."""
    found = [dimension(name, ndim, d) for d in (dims if isinstance(dims, (tuple, list)) else (dims,))]
    if len(set(found)) < len(found):
        raise InvalidValueError(f"{name}: a dimension stands twice in {tuple(dims)}")
    return found


def along(op: int, name: str, a: Tensor, dim: Any, *more: int) -> Tensor:
    """An op along one dimension, which is its first attribute."""
    ndim = a.ndim
    return run(op, (a,), (absolute(ndim, dimension(name, ndim, dim)), *more))
