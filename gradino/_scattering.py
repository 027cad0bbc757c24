"""Picking and writing by index as methods of Tensor. Additions keep the index's row-major order on any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradino import _indexing, devices
from gradino._arguments import as_float, flag, shown, whole_number
from gradino._call import absolute, dimension, run
from gradino._core import handle_of, tensor_type, wrap
from gradino._in_place import changed, is_tracked, scratch
from gradino._lib import check, lib, op_id
from gradino.dtypes import bfloat16, bool_, float16, int32, int64
from gradino.errors import DTypeError, InvalidValueError, ShapeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Scattering"]

_SCATTER = op_id("scatter")
_SET, _ADD, _MUL, _MAX, _MIN = range(5)
_REDUCE = {"sum": _ADD, "prod": _MUL, "amax": _MAX, "amin": _MIN, "mean": _ADD}


def _index(name: str, index: Any) -> Tensor:
    """An index tensor as int64."""
    handle_of(name, index)
    if index.dtype not in (int64, int32):
        raise DTypeError(f"{name}: the index must be int64 or int32, is {index.dtype}")
    return index.to(int64)  # type: ignore[no-any-return]


def _scatter(name: str, a: Tensor, dim: Any, index: Any, src: Any, mode: int, include_self: bool = True) -> Tensor:
    d, places = dimension(name, a.ndim, dim), _index(name, index)
    if not isinstance(src, tensor_type()):
        src = full_like_index(a, places, src, name)
    elif src.dtype is not a.dtype:
        raise DTypeError(f"{name}: the source is {src.dtype}, must be {a.dtype}, the dtype of the tensor")
    return run(_SCATTER, (a, places, src), (absolute(a.ndim, d), mode, include_self))


def _scatter_into(name: str, a: Tensor, dim: Any, index: Any, src: Any, mode: int) -> Tensor:
    """``_scatter`` in place."""
    if a.dtype in (bfloat16, float16) or is_tracked(a, src):
        return a._written(name, lambda values: _scatter(name, values, dim, index, src, mode))
    d, places = dimension(name, a.ndim, dim), _index(name, index)
    with scratch():
        if not isinstance(src, tensor_type()):
            src = full_like_index(a, places, src, name)
        elif src.dtype is not a.dtype:
            raise DTypeError(f"{name}: the source is {src.dtype}, must be {a.dtype}, the dtype of the tensor")
        check(lib.gd_scatter_in(a._h, d, places._h, src._h, mode))
    return a


def full_like_index(a: Tensor, index: Tensor, value: Any, name: str) -> Tensor:
    """A number in the tensor's dtype, repeated in the shape of the index."""
    with devices.beside(a):
        number = wrap(lib.gd_full(0, [], a.dtype.code, as_float(name, value), whole_number(name, value, a.dtype)))
    return number.expand(index.shape)


def _along(name: str, a: Tensor, dim: Any, index: Any, shape: tuple[int, ...] | None) -> tuple[int, Tensor]:
    """A dimension, and a vector of places in it as an index for slices of that shape (by default, of the tensor's)."""
    d, places = dimension(name, a.ndim, dim), _index(name, index)
    if places.ndim > 1:
        raise ShapeError(f"{name}: the index has shape {places.shape}, must be a vector")
    own = list(a.shape if shape is None else shape)
    if not own:
        return 0, places.reshape(())
    n = places.numel()
    if shape is not None and own[d] != n:
        raise ShapeError(f"{name}: {n} places for a source of shape {shape}: dimension {dim} must have one entry for each")
    own[d] = n
    return d, places.reshape([-1 if k == d else 1 for k in range(len(own))] if n else [0 if k == d else 1 for k in range(len(own))]).expand(
        own
    )


def _source(name: str, a: Tensor, dim: Any, source: Any) -> tuple[int, ...]:
    """The shape of a source, which is the tensor's but for one dimension."""
    handle_of(name, source)
    d, shape = dimension(name, a.ndim, dim), source.shape
    if not shape and a.ndim <= 1:
        return (1,) * a.ndim
    if len(shape) != a.ndim or any(n != m for k, (n, m) in enumerate(zip(shape, a.shape)) if k != d):
        raise ShapeError(f"{name}: a source of shape {shape} does not fit {a.shape}: they may differ in dimension {dim} only")
    return tuple(shape)


class Scattering:
    """Every write has a form that returns a copy and takes part in gradients, and one in place."""

    __slots__ = ()
    _h: int

    def _written(self: Tensor, name: str, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Overwrite with what ``change`` makes of the values; numbers that it draws are of the same device."""
        if not self.is_cuda and not lib.gd_get_device():
            return changed(self, name, change)
        with devices.beside(self):
            return changed(self, name, change)

    # ---- scatter -------------------------------------------------------------------------------------------------

    def scatter(self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
        """A copy with ``out[index[i][j]][j] = src[i][j]`` for ``dim`` 0, and so on; the last of equal indices wins.

        ``src`` is a tensor that is at least as large as the index, or a number. ``reduce`` is ``"add"`` or ``"multiply"``.
        """
        return _scatter("scatter", self, dim, index, *_scattered(src, value, reduce))

    def scatter_add(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
        """A copy to which ``src`` is added at the index."""
        handle_of("scatter_add", src)
        return _scatter("scatter_add", self, dim, index, src, _ADD)

    def scatter_reduce(self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
        """A copy in which what comes to each place is reduced: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"``, ``"amin"``.

        Without ``include_self`` what was there before does not count where something comes to.
        """
        handle_of("scatter_reduce", src)
        include = flag("scatter_reduce", "include_self", include_self)
        mode = _reduction("scatter_reduce", reduce)
        result = _scatter("scatter_reduce", self, dim, index, src, mode, include)
        return _averaged(self, result, dim, _index("scatter_reduce", index), include) if reduce == "mean" else result

    def scatter_(self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
        """``scatter`` in place."""
        return _scatter_into("scatter_", self, dim, index, *_scattered(src, value, reduce))

    def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
        """``scatter_add`` in place."""
        handle_of("scatter_add_", src)
        return _scatter_into("scatter_add_", self, dim, index, src, _ADD)

    def scatter_reduce_(self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
        """``scatter_reduce`` in place."""
        return self._written("scatter_reduce_", lambda a: a.scatter_reduce(dim, index, src, reduce, include_self=include_self))

    # ---- slices of one dimension -----------------------------------------------------------------------------------

    def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
        """A copy to whose entries of ``dim`` those of ``source`` are added, times ``alpha``."""
        shape = _source("index_add", self, dim, source)
        d, places = _along("index_add", self, dim, index, shape)
        return _scatter("index_add", self, d, places, (source if alpha == 1 else source * alpha).reshape(shape), _ADD)

    def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        """A copy whose entries of ``dim`` are those of ``source``; the last of equal indices wins."""
        shape = _source("index_copy", self, dim, source)
        d, places = _along("index_copy", self, dim, index, shape)
        return _scatter("index_copy", self, d, places, source.reshape(shape), _SET)

    def index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
        """A copy whose entries of ``dim`` are a number, or a tensor without dimensions."""
        if isinstance(value, tensor_type()) and value.requires_grad:
            index = index.unique()  # what is written twice counts once
        d, places = _along("index_fill", self, dim, index, None)
        if isinstance(value, tensor_type()):
            if value.ndim:
                raise ShapeError(f"index_fill: value has shape {value.shape}, must have no dimensions")
            value = value.to(self.device, self.dtype).expand(places.shape)
        return _scatter("index_fill", self, d, places, value, _SET)

    def index_reduce(self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
        """A copy in whose entries of ``dim`` those of ``source`` are reduced: ``"prod"``, ``"mean"``, ``"amax"``, ``"amin"``."""
        shape = _source("index_reduce", self, dim, source)
        d, places = _along("index_reduce", self, dim, index, shape)
        if reduce == "sum":
            raise InvalidValueError("index_reduce: reduce is 'sum', must be 'prod', 'mean', 'amax' or 'amin'; use index_add")
        return self.scatter_reduce(d, places, source.reshape(shape), reduce, include_self=include_self)

    def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
        """``index_add`` in place."""
        shape = _source("index_add_", self, dim, source)
        d, places = _along("index_add_", self, dim, index, shape)
        return _scatter_into("index_add_", self, d, places, (source if alpha == 1 else source * alpha).reshape(shape), _ADD)

    def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        """``index_copy`` in place."""
        shape = _source("index_copy_", self, dim, source)
        d, places = _along("index_copy_", self, dim, index, shape)
        return _scatter_into("index_copy_", self, d, places, source.reshape(shape), _SET)

    def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
        """``index_fill`` in place."""
        return self._written("index_fill_", lambda a: a.index_fill(dim, index, value))

    def index_reduce_(self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
        """``index_reduce`` in place."""
        return self._written("index_reduce_", lambda a: a.index_reduce(dim, index, source, reduce, include_self=include_self))

    # ---- any places ------------------------------------------------------------------------------------------------

    def index_put(self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
        """A copy with ``out[indices] = values``, or with ``accumulate`` added there."""
        handle_of("index_put", values)
        if values.dtype is not self.dtype:
            raise DTypeError(f"index_put: the values are {values.dtype}, must be {self.dtype}, the dtype of the tensor")
        places = self._places()[tuple(slice(None) if i is None else i for i in indices)]
        values = _indexing._fit(values, places.shape)
        mode = _ADD if flag("index_put", "accumulate", accumulate) else _SET
        if not places.numel():
            return self.clone()
        flat = _scatter("index_put", self.reshape(-1), 0, places.flatten(), values.expand(places.shape).reshape(-1), mode)
        return flat.reshape(self.shape)

    def index_put_(self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
        """``index_put`` in place."""
        return self._written("index_put_", lambda a: a.index_put(indices, values, accumulate))

    def take(self: Tensor, index: Tensor) -> Tensor:
        """The elements at places counted in row-major order, in the shape of the index."""
        places = _index("take", index)
        return self.ravel().index_select(0, places.ravel()).reshape(places.shape)

    def take_along_dim(self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
        """``gather`` with all other dimensions broadcast; without ``dim`` of the flattened tensor."""
        from gradino.functions.arranging import broadcast_shapes

        places = _index("take_along_dim", indices)
        if dim is None:
            return self.ravel().gather(0, places.ravel())
        d = dimension("take_along_dim", self.ndim, dim)
        if places.ndim != self.ndim:
            raise ShapeError(f"take_along_dim: indices of shape {places.shape} for shape {self.shape}: both must have as many dimensions")
        own, other = list(self.shape), list(places.shape)
        own[d] = other[d] = 1
        full = list(broadcast_shapes(own, other))
        return self.expand(*full[:d], self.shape[d], *full[d + 1 :]).gather(d, places.expand(*full[:d], places.shape[d], *full[d + 1 :]))

    def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
        """A copy with ``source`` at places counted in row-major order."""
        places = _index("put", index)
        handle_of("put", source)
        if places.numel() != source.numel():
            raise ShapeError(f"put: {places.numel()} places for {source.numel()} elements")
        mode = _ADD if flag("put", "accumulate", accumulate) else _SET
        return _scatter("put", self.ravel(), 0, places.ravel(), source.ravel(), mode).reshape(self.shape)

    def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
        """``put`` in place."""
        return self._written("put_", lambda a: a.put(index, source, accumulate))

    # ---- masks -------------------------------------------------------------------------------------------------------

    def masked_select(self: Tensor, mask: Tensor) -> Tensor:
        """The elements where ``mask``, which is broadcast with the tensor, holds, as a vector."""
        from gradino.functions.arranging import broadcast_tensors

        a, where = broadcast_tensors(self, _mask("masked_select", mask))
        return a.reshape(-1).index_select(0, where.reshape(-1).nonzero().reshape(-1)) if a.numel() else a.reshape(0)

    def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        """A copy in which the elements where ``mask`` holds are the first ones of ``source``, in order."""
        from gradino.functions.arranging import broadcast_tensors

        handle_of("masked_scatter", source)
        if source.dtype is not self.dtype:
            raise DTypeError(f"masked_scatter: the source is {source.dtype}, must be {self.dtype}, the dtype of the tensor")
        a, where = broadcast_tensors(self, _mask("masked_scatter", mask))
        places = where.reshape(-1).nonzero().reshape(-1) if where.numel() else where.reshape(0).to(int64)
        if places.numel() > source.numel():
            raise ShapeError(f"masked_scatter: the mask holds {places.numel()} times, but the source has {source.numel()} elements")
        if not places.numel():
            return a.clone()
        return _scatter("masked_scatter", a.reshape(-1), 0, places, source.reshape(-1).narrow(0, 0, places.numel()), _SET).reshape(a.shape)

    def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        """``masked_scatter`` in place."""
        return self._written("masked_scatter_", lambda a: a.masked_scatter(mask, source))

    def argwhere(self: Tensor) -> Tensor:
        """Indices of the elements that are not 0, (count, ndim)."""
        return wrap(lib.gd_nonzero(self._h))

    def count_nonzero(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
        """How many elements are not 0."""
        return (self != 0 if self.dtype is not bool_ else self).sum(dim)


def _scattered(src: Any, value: Any, reduce: Any) -> tuple[Any, int]:
    """What scatter writes, and how."""
    if (src is None) == (value is None):
        raise InvalidValueError("scatter: give either src or value")
    modes = {None: _SET, "add": _ADD, "multiply": _MUL}
    if reduce not in modes:
        raise InvalidValueError(f"scatter: reduce is {shown(reduce)}, must be 'add' or 'multiply'")
    return value if src is None else src, modes[reduce]


def _mask(name: str, mask: Any) -> Tensor:
    handle_of(name, mask)
    if mask.dtype is not bool_:
        raise DTypeError(f"{name}: the mask is {mask.dtype}, must be bool")
    return mask  # type: ignore[no-any-return]


def _reduction(name: str, reduce: Any) -> int:
    if reduce not in _REDUCE:
        raise InvalidValueError(f"{name}: reduce is {shown(reduce)}, must be one of {', '.join(map(repr, _REDUCE))}")
    return _REDUCE[reduce]


def _averaged(a: Tensor, total: Tensor, dim: int, index: Tensor, include_self: bool) -> Tensor:
    """Sums divided by how many elements they are of."""
    start = a.detach() * 0 + 1 if a.dtype is not bool_ else a.to(int64) * 0 + 1
    counts = start if include_self else start * 0
    counts = _scatter("scatter_reduce", counts, dim, index, full_like_index(counts, index, 1, "scatter_reduce"), _ADD)
    counts = counts.clamp(min=1)
    return total / counts if a.dtype.is_floating_point else total // counts
