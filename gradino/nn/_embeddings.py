"""Looking rows of a table up, alone and in bags."""

from __future__ import annotations

from typing import Any

from gradino._call import run
from gradino._core import wrap
from gradino._lib import lib, op_id
from gradino.arena import step_arena
from gradino.errors import DTypeError, InvalidValueError, OutOfRangeError, ShapeError
from gradino.factories import arange, ones, zeros
from gradino.functions import cat, where
from gradino.grad_mode import no_grad
from gradino.nn._checks import refuse_input
from gradino.nn._distances import norm
from gradino.tensor import Tensor

__all__ = ["embedding", "embedding_bag"]

_INDEX_ADD = op_id("index_add_zeros")


def _rows(name: str, input: Tensor, weight: Tensor) -> Tensor:
    """Rows of weight (V, E) for indices of any shape, side by side: (indices, E)."""
    if input.numel() and input.amin().item() < 0:
        raise OutOfRangeError(f"{name}: index {input.amin().item()} is out of range: it must be in [0, {weight.shape[0]})")
    return wrap(lib.gd_index_select(weight._h, 0, input.flatten()._h))


def row_number(name: str, padding_idx: int | None, rows: int) -> int | None:
    """``padding_idx`` counted from the first row."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise OutOfRangeError(f"{name}: padding_idx is {padding_idx}, but there are {rows} rows")
    return padding_idx % rows


def _table(name: str, input: Tensor, weight: Tensor, max_norm: float | None, norm_type: float, sparse: bool) -> None:
    """Checks that hold for both, and rows that are too long made shorter in place."""
    refuse_input(name, input, weight)
    if sparse:
        raise InvalidValueError(f"{name}: sparse=True is not supported: gradients are dense")
    if weight.ndim != 2:
        raise ShapeError(f"{name}: weight has shape {tuple(weight.shape)}, must be (rows, columns)")
    if input.dtype.is_floating_point:
        raise DTypeError(f"{name}: indices are {input.dtype.name}, must be int64 or int32")
    if max_norm is not None and input.numel():
        with no_grad(), step_arena():
            _shorten(name, input, weight.detach(), max_norm, norm_type)


def _shorten(name: str, input: Tensor, table: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows that are looked up get norms of at most max_norm, as PyTorch scales them."""
    length = norm(table, float(norm_type), -1, True)
    factor = where(length > max_norm, max_norm / (length + 1e-7), ones(length.shape, dtype=length.dtype, device=length.device))
    used = zeros(table.shape[0], 1, dtype=table.dtype, device=table.device)
    used[input.flatten()] = 1
    table.copy_(where(used > 0, table * factor, table))


def _counted(rows: Tensor, input: Tensor, weight: Tensor) -> Tensor:
    """The rows, with gradients divided by how often their index occurs."""
    index = input.flatten()
    with no_grad():
        counts = _sum_rows(ones(index.shape[0], 1, dtype=weight.dtype, device=weight.device), index, weight.shape[0])
    share = 1 / wrap(lib.gd_index_select(counts._h, 0, index._h))
    scaled = rows * share
    return rows.detach() + (scaled - scaled.detach())


def _sum_rows(values: Tensor, index: Tensor, count: int) -> Tensor:
    """(n, E) summed into rows named by index: (count, E)."""
    return run(_INDEX_ADD, (values, index), (2, count))


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of ``weight`` (V, E) named by int64 ``input`` (...) -> (..., E).

    The row ``padding_idx`` gets no gradient. With ``max_norm`` rows that are looked up and longer than that in the
    ``norm_type`` norm are scaled to it in place first. ``scale_grad_by_freq`` divides the gradient of a row by how often
    it is looked up. ``sparse=True`` is an error: gradients are dense.

    Raises:
        OutOfRangeError: for an index outside [0, V).
    """
    _table("embedding", input, weight, max_norm, norm_type, sparse)
    skipped = row_number("embedding", padding_idx, weight.shape[0])
    rows = _rows("embedding", input, weight)
    if scale_grad_by_freq and input.numel():
        rows = _counted(rows, input, weight)
    if skipped is not None and rows.requires_grad:
        rows = where((input.flatten() == skipped).unsqueeze(-1), rows.detach(), rows)
    return rows.reshape(*input.shape, weight.shape[1])


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or largest elements of the rows of each bag: indices (B, N), or (N) with ``offsets`` (B) -> (B, E).

    ``offsets`` says where each bag begins, and with ``include_last_offset`` where the last one ends. Rows ``padding_idx``
    count nothing. An empty bag is 0. ``per_sample_weights`` multiply the rows before the sum; only for ``mode="sum"``.

    Raises:
        OutOfRangeError: for an index outside the table.
    """
    _table("embedding_bag", input, weight, max_norm, norm_type, sparse)
    if mode not in ("sum", "mean", "max"):
        raise InvalidValueError(f"embedding_bag: mode is {mode!r}, must be 'sum', 'mean' or 'max'")
    if per_sample_weights is not None and mode != "sum":
        raise InvalidValueError("embedding_bag: per_sample_weights need mode='sum'")
    if scale_grad_by_freq and mode == "max":
        raise InvalidValueError("embedding_bag: scale_grad_by_freq is not for mode='max'")
    if (input.ndim == 1) == (offsets is None) or input.ndim not in (1, 2):
        raise ShapeError(f"embedding_bag: indices of shape {tuple(input.shape)} {'need' if offsets is None else 'take no'} offsets")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ShapeError(f"embedding_bag: per_sample_weights have shape {tuple(per_sample_weights.shape)}, indices {tuple(input.shape)}")
    starts, bags = _bags(input, offsets, include_last_offset)
    index = input.flatten()
    bag = (arange(index.shape[0], device=index.device).unsqueeze(1) >= starts).sum(1) - 1 if bags else index.new_zeros(0)
    skipped = row_number("embedding_bag", padding_idx, weight.shape[0])
    rows = _rows("embedding_bag", input, weight)
    if scale_grad_by_freq and input.numel():
        rows = _counted(rows, input, weight)
    counts = ones(index.shape[0], 1, dtype=weight.dtype, device=weight.device)
    if skipped is not None:
        padded = (index == skipped).unsqueeze(1)
        counts = where(padded, zeros(1, dtype=weight.dtype, device=weight.device), counts)
        rows = where(padded, zeros(1, dtype=weight.dtype, device=weight.device), rows)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.flatten().unsqueeze(1)
    if mode == "max":
        return _largest(rows, counts, starts, bags, index.shape[0])
    total = _sum_rows(rows, bag, bags)
    return total if mode == "sum" else total / _sum_rows(counts, bag, bags).clamp(min=1)


def _bags(input: Tensor, offsets: Tensor | None, include_last: bool) -> tuple[Tensor, int]:
    """Where each bag begins, and how many there are."""
    if offsets is None:
        return arange(input.shape[0], device=input.device) * input.shape[1], input.shape[0]
    if offsets.ndim != 1:
        raise ShapeError(f"embedding_bag: offsets have shape {tuple(offsets.shape)}, must be (B,)")
    places: list[Any] = offsets.tolist()
    if places and (places[0] != 0 or any(b < a for a, b in zip(places, places[1:])) or places[-1] > input.shape[0]):
        raise InvalidValueError("embedding_bag: offsets must begin with 0, not decrease, and not pass the last index")
    if include_last:
        if not places:
            raise InvalidValueError("embedding_bag: include_last_offset needs at least one offset")
        return offsets[:-1], len(places) - 1
    return offsets, len(places)


def _largest(rows: Tensor, counts: Tensor, starts: Tensor, bags: int, n: int) -> Tensor:
    """The largest elements of each bag, bag by bag; 0 for an empty one."""
    places = [*starts.tolist(), n]
    found = []
    for k in range(bags):
        part, real = rows[places[k] : places[k + 1]], counts[places[k] : places[k + 1]].flatten() > 0
        if not part.shape[0] or not real.any().item():
            found.append(rows[:0].sum(0, True))
        else:
            found.append(part[real].max(0)[0].unsqueeze(0))
    return cat(found) if found else rows[:0]
