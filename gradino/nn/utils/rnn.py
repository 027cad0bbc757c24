"""Sequences of different lengths in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from gradino import functions
from gradino.dtypes import bool_, int64
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.factories import full
from gradino.tensor import Tensor

__all__ = ["PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence"]


class PackedSequence:
    """A padded batch with its lengths. ``nn.LSTM`` skips the padding, so nothing needs to be sorted.

    ``padded`` is (T, B, ...), or (B, T, ...) with ``batch_first``; ``lengths`` int64 (B).
    """

    __slots__ = ("padded", "lengths", "batch_first")

    def __init__(self, padded: Tensor, lengths: Tensor, batch_first: bool) -> None:
        self.padded, self.lengths, self.batch_first = padded, lengths, batch_first

    def like(self, padded: Tensor, batch_first: bool) -> PackedSequence:
        """Another padded batch with the same lengths."""
        return PackedSequence(padded, self.lengths, batch_first)


def whole_lengths(name: str, lengths: Any) -> Tensor:
    """Lengths of sequences as an int64 tensor; only integers will do."""
    try:
        found = lengths if isinstance(lengths, Tensor) else Tensor(lengths)
    except (DTypeError, ShapeError):
        raise DTypeError(f"{name}: lengths must be integers, one per sequence, got {lengths!r}") from None
    if found.numel() and (found.dtype.is_floating_point or found.dtype is bool_):
        raise DTypeError(f"{name}: lengths must be integers, one per sequence, got {found.tolist()} ({found.dtype})")
    return found.to(int64)


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Attach the true lengths (B) to a padded batch (T, B, ...), or (B, T, ...) with ``batch_first``.

    Raises:
        InvalidValueError: for a length below 1 or above T, or unsorted ones with ``enforce_sorted``.
    """
    lengths = whole_lengths("pack_padded_sequence", lengths)
    if not isinstance(input, Tensor) or input.ndim < 2:
        raise ShapeError(f"pack_padded_sequence: the batch must be a tensor (T, B, ...), or (B, T, ...) with batch_first, got {input!r}")
    steps, batch = (input.shape[1], input.shape[0]) if batch_first else input.shape[:2]
    if lengths.shape != (batch,):
        raise ShapeError(f"pack_padded_sequence: lengths has shape {lengths.shape}, must be ({batch},): one per sequence")
    values = lengths.tolist()
    if any(not 1 <= n <= steps for n in values):
        raise InvalidValueError(f"pack_padded_sequence: lengths {values} must be between 1 and {steps}")
    if enforce_sorted and any(a < b for a, b in pairwise(values)):
        raise InvalidValueError("pack_padded_sequence: lengths must be in decreasing order; pass enforce_sorted=False to allow any order")
    return PackedSequence(input, lengths, batch_first)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded batch and its lengths, cut to the longest one (or padded to ``total_length``)."""
    if not isinstance(sequence, PackedSequence):
        raise DTypeError(f"pad_packed_sequence: expected a PackedSequence, got a {type(sequence).__name__}")
    time = 1 if sequence.batch_first else 0
    padded, longest = sequence.padded, max(sequence.lengths.tolist())
    padded = padded.narrow(time, 0, longest)
    if total_length is not None:
        if total_length < longest:
            raise InvalidValueError(f"pad_packed_sequence: total_length {total_length} is shorter than the longest sequence, {longest}")
        shape = list(padded.shape)
        shape[time] = total_length - longest
        padded = functions.cat([padded, full(shape, 0.0, dtype=padded.dtype)], time)
    if padding_value:
        padded = _fill_padding(padded, sequence.lengths.tolist(), time, padding_value)
    return (padded if sequence.batch_first == batch_first else padded.transpose(0, 1)), sequence.lengths


def _fill_padding(padded: Tensor, lengths: list[int], time: int, value: float) -> Tensor:
    steps = padded.shape[time]
    past = Tensor([[t >= n for t in range(steps)] for n in lengths])
    past = past if time == 1 else past.t()
    for _ in range(padded.ndim - 2):
        past = past.unsqueeze(-1)
    return padded.masked_fill(past, value)


def pad_sequence(sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Tensor:
    """Sequences (T_i, ...) as one padded batch (T, B, ...), or (B, T, ...) with ``batch_first``."""
    if padding_side not in ("left", "right"):
        raise InvalidValueError(f"pad_sequence: padding_side is {padding_side!r}, must be 'left' or 'right'")
    sequences = list(sequences) if isinstance(sequences, Iterable) else [sequences]
    if not sequences:
        raise InvalidValueError("pad_sequence: there is no sequence")
    for s in sequences:
        if not isinstance(s, Tensor) or not s.ndim:
            raise DTypeError(f"pad_sequence: expected tensors of one dimension or more, got {s!r}")
    longest = max(len(s) for s in sequences)
    padded = []
    for s in sequences:
        if len(s) < longest:
            fill = full((longest - len(s), *s.shape[1:]), padding_value, dtype=s.dtype)
            s = functions.cat([s, fill] if padding_side == "right" else [fill, s])
        padded.append(s)
    return functions.stack(padded, 0 if batch_first else 1)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (T_i, ...) of different lengths as a packed batch."""
    return pack_padded_sequence(pad_sequence(sequences), [len(s) for s in sequences], enforce_sorted=enforce_sorted)
