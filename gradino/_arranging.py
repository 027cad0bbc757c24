"""Turning, repeating, cutting and diagonals as methods of Tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradino._arguments import shown, whole
from gradino._call import absolute, dimension, dimensions, run
from gradino._core import handle_of, sizes, wrap
from gradino._lib import lib, op_id
from gradino.errors import DTypeError, InvalidValueError, ShapeError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Arranging"]

_MOST_SECTIONS = 1 << 20  # each is a tensor, most of them empty
_PAD, _FLIP, _DIAGONAL, _UNDIAGONAL, _UNFOLD = op_id("pad"), op_id("flip"), op_id("diagonal"), op_id("undiagonal"), op_id("unfold")
_AROUND = 3  # pad's mode that goes round


def _around(a: Tensor, before: dict[int, int], after: dict[int, int]) -> Tensor:
    """Entries put before and after dimensions (or, negative, cut off), going round."""
    ndim, attributes = a.ndim, [_AROUND] + [0] * 8
    for k, amounts in ((1, before), (5, after)):
        for d, n in amounts.items():
            attributes[k + absolute(ndim, d)] = n
    return run(_PAD, (a,), attributes)


def _at_least(name: str, a: Tensor, ndim: int) -> None:
    if a.ndim < ndim:
        raise ShapeError(f"{name}: shape {a.shape}: at least {ndim} dimensions are needed")


class Arranging:
    """``diagonal``, ``unfold``, ``movedim`` and the splits are views; the others copy."""

    __slots__ = ()
    _h: int

    def flip(self: Tensor, *order: Any, dims: Any = None) -> Tensor:
        """Entries of the dimensions, given one by one or as ``dims``, in reverse order."""
        ndim, mask = self.ndim, 0
        for d in dimensions("flip", ndim, sizes(order if dims is None else (dims,), "flip")):
            mask |= 1 << absolute(ndim, d)
        return run(_FLIP, (self,), (mask,))

    def fliplr(self: Tensor) -> Tensor:
        """Columns in reverse order."""
        _at_least("fliplr", self, 2)
        return self.flip(1)

    def flipud(self: Tensor) -> Tensor:
        """Rows in reverse order."""
        _at_least("flipud", self, 1)
        return self.flip(0)

    def roll(self: Tensor, shifts: Any, dims: Any = None) -> Tensor:
        """Entries moved by ``shifts`` places along ``dims``; those pushed out come in again. Without ``dims`` of the flattened tensor."""
        moves = sizes((shifts,), "roll") if isinstance(shifts, (tuple, list)) else [whole("roll", "shifts", shifts)]
        if dims is None or dims == () or dims == []:
            if len(moves) != 1:
                raise InvalidValueError(f"roll: {len(moves)} shifts, but no dimensions")
            return self.flatten().roll(moves[0], 0).reshape(self.shape)
        where = [dimension("roll", self.ndim, d) for d in (dims if isinstance(dims, (tuple, list)) else (dims,))]
        if not self.ndim:
            raise ShapeError("roll: a tensor without dimensions has none to roll along")
        if len(where) != len(moves):
            raise InvalidValueError(f"roll: {len(moves)} shifts for {len(where)} dimensions")
        shape, total = self.shape, dict.fromkeys(where, 0)
        for d, n in zip(where, moves):
            total[d] += n
        before = {d: n % shape[d] for d, n in total.items() if shape and shape[d]}
        return _around(self, before, {d: -n for d, n in before.items()})

    def rot90(self: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
        """Turned by 90 degrees ``k`` times, from the first of two dimensions towards the second."""
        if len(dims) != 2:
            raise InvalidValueError(f"rot90: dims must be two dimensions, got {len(dims)}")
        _at_least("rot90", self, 2)
        first, second = dimensions("rot90", self.ndim, dims)
        turns = whole("rot90", "k", k) % 4
        if turns == 1:
            return self.flip(second).transpose(first, second)
        if turns == 3:
            return self.flip(first).transpose(first, second)
        return self.flip(first, second) if turns else self.clone()

    def repeat(self: Tensor, *times: Any, repeats: Any = None) -> Tensor:
        """The tensor several times along each dimension, new ones in front; numbers one by one, or as ``repeats``."""
        numbers, shape = sizes(times if repeats is None else (repeats,), "repeat"), self.shape
        if len(numbers) < len(shape):
            raise ShapeError(f"repeat: {len(numbers)} numbers for shape {shape}: each dimension needs one")
        if any(n < 0 for n in numbers):
            raise InvalidValueError(f"repeat: numbers of repetitions must be at least 0, got {tuple(numbers)}")
        whole_shape = (1,) * (len(numbers) - len(shape)) + shape
        return _around(self.reshape(whole_shape), {}, {d: n * (r - 1) for d, (n, r) in enumerate(zip(whole_shape, numbers))})

    def tile(self: Tensor, *times: Any, dims: Any = None) -> Tensor:
        """``repeat``, with ones for dimensions that are not given."""
        numbers = sizes(times if dims is None else (dims,), "tile")
        return self.repeat([1] * (self.ndim - len(numbers)) + numbers)

    def repeat_interleave(self: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
        """Each entry of ``dim`` (without it, of the flattened tensor) ``repeats`` times, a number or one for each entry."""
        from gradino.functions.arranging import interleaved_index

        if dim is None:
            return self.flatten().repeat_interleave(repeats, 0, output_size=output_size)
        shape, d = self.shape, dimension("repeat_interleave", self.ndim, dim)
        n = shape[d] if shape else 1
        if not isinstance(repeats, int):
            repeats = repeats.reshape(1).expand(n) if repeats.numel() == 1 else repeats
            if repeats.ndim != 1 or repeats.numel() != n:
                raise ShapeError(f"repeat_interleave: repeats of shape {repeats.shape} for {n} entries: one for all, or one for each")
            return (self if shape else self.reshape(1)).index_select(d, interleaved_index(repeats, output_size))
        if repeats < 0:
            raise InvalidValueError(f"repeat_interleave: repeats is {repeats}, must be at least 0")
        if output_size is not None and output_size != n * repeats:
            raise InvalidValueError(f"repeat_interleave: output_size is {output_size}, but the result has {n * repeats} entries")
        inner = 1
        for size in shape[d + 1 :]:
            inner *= size
        outer = 1
        for size in shape[:d]:
            outer *= size
        each = self.reshape(outer, n, 1, inner).expand(outer, n, repeats, inner)
        return each.reshape(*shape[:d], n * repeats, *shape[d + 1 :])

    def broadcast_to(self: Tensor, *size: Any) -> Tensor:
        """A view with dimensions of size 1 repeated, and new ones in front."""
        return self.expand(*size)

    def movedim(self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Dimensions ``source`` at the places ``destination``, the others in order."""
        start, end = dimensions("movedim", self.ndim, source), dimensions("movedim", self.ndim, destination)
        if len(start) != len(end):
            raise InvalidValueError(f"movedim: {len(start)} dimensions for {len(end)} places")
        if self.ndim == 0:
            return self
        rest = iter(d for d in range(self.ndim) if d not in start)
        to = dict(zip(end, start))
        return self.permute([to[d] if d in to else next(rest) for d in range(self.ndim)])

    def moveaxis(self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """``movedim``."""
        return self.movedim(source, destination)

    def swapaxes(self: Tensor, axis0: int, axis1: int) -> Tensor:
        """``transpose``."""
        return self.transpose(axis0, axis1)

    def swapdims(self: Tensor, dim0: int, dim1: int) -> Tensor:
        """``transpose``."""
        return self.transpose(dim0, dim1)

    def unflatten(self: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
        """One dimension as several, one size of which may be -1."""
        d, shape, parts = dimension("unflatten", self.ndim, dim), self.shape, tuple(sizes)
        if not parts:
            raise InvalidValueError("unflatten: sizes must not be empty")
        known = 1
        for n in parts:
            known *= n if n != -1 else 1
        size = shape[d] if shape else 1
        if (known != size and -1 not in parts) or parts.count(-1) > 1 or (-1 in parts and (known == 0 or size % known)):
            raise ShapeError(f"unflatten: sizes {parts} do not multiply to {size}, the size of dimension {dim}")
        filled = tuple(size // known if n == -1 else n for n in parts)
        return self.reshape(*shape[:d], *filled, *shape[d + 1 :])

    def ravel(self: Tensor) -> Tensor:
        """All elements as a vector, a view where strides allow."""
        return self.reshape(-1) if self.numel() else self.reshape(0)

    def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
        """Windows of ``size`` entries of a dimension, ``step`` apart, as a new last dimension; a view."""
        from gradino._call import dimension as checked

        ndim = self.ndim
        return run(
            _UNFOLD,
            (self,),
            (absolute(ndim, checked("unfold", ndim, dimension)), whole("unfold", "size", size), whole("unfold", "step", step)),
        )

    # ---- parts -----------------------------------------------------------------------------------------------

    def tensor_split(self: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Parts of almost equal size, the larger ones first, or parts that end before the given entries."""
        if not self.ndim:
            raise ShapeError("tensor_split: a tensor without dimensions has no parts")
        d = dimension("tensor_split", self.ndim, dim)
        size, cuts = self.shape[d], indices_or_sections
        if hasattr(cuts, "tolist"):
            cuts = cuts.tolist()
        if isinstance(cuts, (tuple, list)):
            ends = [whole("tensor_split", "an index", i) for i in cuts]
        else:
            count = whole("tensor_split", "sections", cuts)
            if not 1 <= count <= _MOST_SECTIONS:
                raise InvalidValueError(f"tensor_split: {count} sections, must be from 1 to {_MOST_SECTIONS}")
            ends, at = [], 0
            for k in range(count - 1):
                at += size // count + (k < size % count)
                ends.append(at)
        starts, largest = [0, *ends], 2**62
        return tuple(wrap(lib.gd_slice(self._h, d, a, b, 1)) for a, b in zip(starts, [*ends, largest]))

    def hsplit(self: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """``tensor_split`` along columns, or of a vector."""
        _at_least("hsplit", self, 1)
        return self._even_split("hsplit", indices_or_sections, 0 if self.ndim == 1 else 1)

    def vsplit(self: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """``tensor_split`` along rows."""
        _at_least("vsplit", self, 2)
        return self._even_split("vsplit", indices_or_sections, 0)

    def dsplit(self: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        """``tensor_split`` along the third dimension."""
        _at_least("dsplit", self, 3)
        return self._even_split("dsplit", indices_or_sections, 2)

    def _even_split(self: Tensor, name: str, cuts: Any, dim: int) -> tuple[Tensor, ...]:
        if isinstance(cuts, int) and (cuts < 1 or self.shape[dim] % cuts):
            raise InvalidValueError(f"{name}: {self.shape[dim]} entries cannot be split into {cuts} equal parts")
        return self.tensor_split(cuts, dim)

    # ---- diagonals ---------------------------------------------------------------------------------------------

    def diagonal(self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """A diagonal of two dimensions as the last dimension, ``offset`` above the main one; a view."""
        return run(_DIAGONAL, (self,), self._diagonal("diagonal", offset, dim1, dim2, self.ndim))

    def _diagonal(self: Tensor, name: str, offset: int, dim1: int, dim2: int, ndim: int) -> tuple[int, int, int]:
        first, second = dimension(name, ndim, dim1), dimension(name, ndim, dim2)
        if first == second:
            raise InvalidValueError(f"{name}: dim1 and dim2 are the same dimension, {dim1} and {dim2} of {ndim}")
        return whole(name, "offset", offset), absolute(ndim, first), absolute(ndim, second)

    def diag_embed(self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """Matrices of zeros with the last dimension on a diagonal, ``offset`` above the main one."""
        _at_least("diag_embed", self, 1)
        attributes, size = self._diagonal("diag_embed", offset, dim1, dim2, self.ndim + 1), self.shape[-1] + abs(offset)
        return run(_UNDIAGONAL, (self,), (*attributes, size, size))

    def diag(self: Tensor, diagonal: int = 0) -> Tensor:
        """The diagonal of a matrix, or a matrix with a vector on its diagonal."""
        if self.ndim not in (1, 2):
            raise ShapeError(f"diag: shape {self.shape} is neither a vector nor a matrix")
        return self.diag_embed(diagonal) if self.ndim == 1 else self.diagonal(diagonal).clone()

    def diagflat(self: Tensor, offset: int = 0) -> Tensor:
        """A matrix with all elements on its diagonal."""
        return self.ravel().diag_embed(offset)

    def trace(self: Tensor) -> Tensor:
        """The sum of a matrix's diagonal."""
        if self.ndim != 2:
            raise ShapeError(f"trace: shape {self.shape} is no matrix")
        return self.diagonal().sum()

    def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
        """A copy with ``src`` as entry ``index`` of ``dim``."""
        return self._with(src, self._places().select(dim, index), "select_scatter")

    def slice_scatter(self: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
        """A copy with ``src`` as the entries ``start:end:step`` of ``dim``."""
        d = dimension("slice_scatter", self.ndim, dim)
        at = (slice(None),) * d + (slice(start, end, step),)
        return self._with(src, self._places()[at], "slice_scatter")

    def diagonal_scatter(self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """A copy with ``src`` as a diagonal."""
        return self._with(src, self._places().diagonal(offset, dim1, dim2), "diagonal_scatter")

    def _places(self: Tensor) -> Tensor:
        """The number of each element, in row-major order."""
        from gradino.factories import arange

        return arange(self.numel(), device=self.device).reshape(self.shape)

    def _with(self: Tensor, src: Tensor, places: Tensor, name: str) -> Tensor:
        """A copy with ``src`` at the places of that shape."""
        handle_of(name, src)
        if src.shape != places.shape:
            raise ShapeError(f"{name}: src has shape {src.shape}, must have {places.shape}")
        if src.dtype is not self.dtype:
            src = src.to(self.dtype)
        return self.reshape(-1).scatter(0, places.flatten(), src.flatten()).reshape(self.shape) if src.numel() else self.clone()


def need_tensors(name: str, tensors: Any) -> list[Tensor]:
    """Several tensors, given one by one or as one sequence."""
    from gradino.tensor import Tensor

    found = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else list(tensors)
    for t in found:
        if not isinstance(t, Tensor):
            raise DTypeError(f"{name}: expected tensors, got {shown(t)}")
    return found
