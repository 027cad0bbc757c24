"""``tensor[index]`` and ``tensor[index] = value``.

An index is an int, a slice with positive step, None, ``...``, a bool mask, or integer tensors, arrays
or lists. Dimensions of integer tensors that do not stand next to each other come first in the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradino._arguments import shown
from gradino._core import wrap
from gradino._lib import check, lib, raise_error
from gradino.devices import moved
from gradino.dtypes import int64
from gradino.errors import IndexStepError, IndexTypeError, OutOfRangeError, ShapeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

_MAX = 2**63 - 1


def get(a: Tensor, index: Any) -> Tensor:
    """``a[index]``."""
    if type(index) is int:  # the common case
        return _entry(a, 0, index)
    view, picks = _together(*_basic(a, index))
    return _pick(view, picks) if picks else view


def set_(a: Tensor, index: Any, value: Any) -> None:
    """``a[index] = value``."""
    from gradino._in_place import is_tracked, scratch
    from gradino.grad_mode import no_grad
    from gradino.tensor import Tensor

    if is_tracked(a, value):
        _set_recorded(a, index, value if isinstance(value, Tensor) else Tensor(value, dtype=a.dtype))
        return
    with no_grad(), scratch():
        if not isinstance(value, Tensor):
            value = Tensor(value, dtype=a.dtype).to(a.device)
        if _is_mask(index) and index.shape == a.shape[: index.ndim] and value.numel() == 1:  # one pass, not row by row
            mask = index.reshape(*index.shape, *[1] * (a.ndim - index.ndim))
            check(lib.gd_copy_in(a._h, lib.gd_where(mask._h, lib.gd_cast(value.reshape(())._h, a.dtype.code), a._h)))
            return
        view, picks = _together(*_basic(a, index))
        if not picks:
            check(lib.gd_copy_in(view._h, _fit(value, view.shape)._h))
            return
        _write_picked(view, picks, value)


def _set_recorded(a: Tensor, index: Any, value: Tensor) -> None:
    """``a[index] = value`` where gradients flow through ``a`` or ``value``."""
    from gradino._in_place import write

    if _is_mask(index) and index.shape == a.shape[: index.ndim] and value.numel() == 1:
        mask = index.reshape(*index.shape, *[1] * (a.ndim - index.ndim))
        write(a, wrap(lib.gd_where(mask._h, lib.gd_cast(value.reshape(())._h, a.dtype.code), a._h)), 1)
        return
    view, picks = _together(*_basic(a, index))
    if not picks:
        write(view, _fit(value, view.shape))
    else:
        target, dim, places = _merge(view.clone(), picks)  # its gradient reads the values from before
        before, after, n = target.shape[:dim], target.shape[dim + 1 :], places.numel()
        rows = _fit(value, before + places.shape + after).to(a.dtype).expand(before + places.shape + after)
        if rows.numel():
            places = places.reshape((1,) * dim + (n,) + (1,) * len(after)).expand(before + (n,) + after)
            write(view, target.scatter(dim, places, rows.reshape(before + (n,) + after)).reshape(view.shape))
    a._h = lib.gd_current(a._h) or raise_error()


def _fit(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Leading dimensions of size 1 that the target lacks are dropped, as in NumPy."""
    own: tuple[int, ...] = value.shape
    while len(own) > len(shape) and own[0] == 1:
        value, own = value.squeeze(0), own[1:]
    if len(own) > len(shape):
        raise ShapeError(f"setitem: a value of shape {own} cannot be broadcast to {shape}")
    return value


def _basic(a: Tensor, index: Any) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """Apply ints, slices and None. What is left are (dimension of the view, index tensor) pairs."""
    from gradino.tensor import Tensor

    parts = list(index) if isinstance(index, tuple) else [index]
    parts = [_as_tensor(p) if isinstance(p, (list, np.ndarray, np.generic, Tensor)) else p for p in parts]
    used = sum(p.ndim if _is_mask(p) else 1 for p in parts if p is not None and p is not Ellipsis and not isinstance(p, bool))
    if used > a.ndim:
        raise OutOfRangeError(f"index: {used} indices for a tensor of shape {a.shape}")
    if sum(p is Ellipsis for p in parts) > 1:
        raise OutOfRangeError("index: at most one `...`")
    picks: list[tuple[int, Tensor]] = []
    dim = 0
    for p in parts:
        if p is Ellipsis:
            dim = a.ndim - _still_to_come(parts)
        elif p is None:
            a, dim = wrap(lib.gd_unsqueeze(a._h, dim)), dim + 1
        elif isinstance(p, bool):
            raise IndexTypeError("index: a single bool is not an index; compare with a tensor to get a mask")
        elif isinstance(p, int):
            a = _entry(a, dim, p)
        elif isinstance(p, slice):
            a, dim = _slice(a, dim, p), dim + 1
        elif isinstance(p, Tensor):
            if _is_mask(p):
                if p.shape != a.shape[dim : dim + p.ndim]:
                    raise OutOfRangeError(f"index: a mask of shape {p.shape} for dimensions of shape {a.shape[dim : dim + p.ndim]}")
                if not p.ndim:  # a new dimension, of size 1 where the mask holds and 0 where not
                    a = wrap(lib.gd_unsqueeze(a._h, dim))
                    picks.append((dim, Tensor([0] if p.item() else [], dtype=int64)))
                    dim += 1
                    continue
                for column in p.nonzero().unbind(1):
                    picks.append((dim, column))
                    dim += 1
            else:
                picks.append((dim, p))
                dim += 1
        else:
            raise IndexTypeError(f"index: {type(p).__name__} is not an index: use int, slice, None, ..., bool or integer tensors")
    return a, picks


def _together(a: Tensor, picks: list[tuple[int, Tensor]]) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """Where index tensors do not stand next to each other, their dimensions come first, as in NumPy."""
    chosen = [d for d, _ in picks]
    if len(picks) < 2 or chosen == list(range(chosen[0], chosen[0] + len(picks))):
        return a, picks
    view = a.permute(*chosen, *(d for d in range(a.ndim) if d not in chosen))
    return view, [(i, index) for i, (_, index) in enumerate(picks)]


def _still_to_come(parts: list[Any]) -> int:
    after = parts[next(i for i, p in enumerate(parts) if p is Ellipsis) + 1 :]
    return sum(p.ndim if _is_mask(p) else 1 for p in after if p is not None)


def _is_mask(p: Any) -> bool:
    from gradino.tensor import Tensor

    return isinstance(p, Tensor) and lib.gd_dtype_of(p._h) == lib.GD_BOOL


def _as_tensor(p: Any) -> Any:
    from gradino.tensor import Tensor

    if isinstance(p, np.generic) or (isinstance(p, np.ndarray) and p.ndim == 0):
        return p.item() if p.dtype.kind in "iu" else p
    tensor = p if isinstance(p, Tensor) else Tensor(np.asarray(p, np.int64) if not len(p) else p)
    if tensor.dtype.is_floating_point:
        raise IndexTypeError("index: index tensors must be integers or bool, not floating point")
    if not tensor.ndim and not _is_mask(tensor):
        return int(tensor.item())
    return tensor.to("int64") if not _is_mask(tensor) else tensor


def _entry(a: Tensor, dim: int, index: int) -> Tensor:
    try:
        return wrap(lib.gd_select(a._h, dim, index))
    except OverflowError:
        raise OutOfRangeError(f"index: {shown(index)} is out of range for dimension {dim} of shape {a.shape}") from None


def _slice(a: Tensor, dim: int, s: slice) -> Tensor:
    step = 1 if s.step is None else s.step.__index__()
    if step < 1:
        raise IndexStepError(f"slice: step is {step}, must be at least 1")
    start = 0 if s.start is None else s.start.__index__()
    stop = _MAX if s.stop is None else s.stop.__index__()
    return wrap(lib.gd_slice(a._h, dim, max(min(start, _MAX), -_MAX), max(min(stop, _MAX), -_MAX), step))


def _merge(a: Tensor, picks: list[tuple[int, Tensor]]) -> tuple[Tensor, int, Tensor]:
    """Several index tensors as one over their merged dimensions: (merged tensor, dimension, index)."""
    first = picks[0][0]
    shape = a.shape
    index = picks[0][1]
    if len(picks) == 1:
        return a, first, index
    _check_range(index, shape[first])
    index = _wrapped(index, shape[first])
    for d, more in picks[1:]:
        _check_range(more, shape[d])
        index = index * shape[d] + _wrapped(more, shape[d])
    merged = shape[:first] + (int(np.prod(shape[first : first + len(picks)])),) + shape[first + len(picks) :]
    return a.reshape(merged), first, index


def _check_range(index: Tensor, size: int) -> None:
    if index.numel() and not (-size <= index.amin().item() and index.amax().item() < size):
        bad = next(i for i in index.flatten().tolist() if not -size <= i < size)
        raise OutOfRangeError(f"index: {bad} is out of range for a dimension of size {size}")


def _wrapped(index: Tensor, size: int) -> Tensor:
    return index.where(index >= 0, index + size)


def _pick(a: Tensor, picks: list[tuple[int, Tensor]]) -> Tensor:
    a, dim, index = _merge(a, [(at, moved("index", i, a.device)) for at, i in picks] if a.is_cuda else picks)
    shape = a.shape
    rows = wrap(lib.gd_index_select(a._h, dim, index.flatten()._h))
    return rows if index.ndim == 1 else rows.reshape(shape[:dim] + index.shape + shape[dim + 1 :])


def _write_picked(a: Tensor, picks: list[tuple[int, Tensor]], value: Tensor) -> None:
    """In the order of the index: of equal indices the last one wins."""
    if (len(picks) > 1 and not a.is_contiguous()) or a.dtype.itemsize == 2:
        whole = a.clone() if a.dtype.itemsize > 2 else a.float()
        _write_picked(whole, picks, value)
        check(lib.gd_copy_in(a._h, whole._h))
        return
    target, dim, index = _merge(a, picks)
    before, after = target.shape[:dim], target.shape[dim + 1 :]
    rows = _fit(value, before + index.shape + after).to(a.dtype).expand(before + index.shape + after)
    n = index.numel()
    if not rows.numel():
        return
    places = index.reshape((1,) * dim + (n,) + (1,) * len(after)).expand(before + (n,) + after)
    check(lib.gd_scatter_in(target._h, dim, places._h, rows.reshape(before + (n,) + after)._h, 0))
