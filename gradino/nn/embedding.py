"""Lookup tables."""

from __future__ import annotations

from typing import Any

from gradino._arguments import whole
from gradino.arena import step_arena
from gradino.errors import InvalidValueError, ShapeError
from gradino.factories import randn
from gradino.nn import functional as F
from gradino.nn._embeddings import row_number
from gradino.nn.linear import parameter_dtype
from gradino.nn.module import Module
from gradino.nn.parameter import Parameter
from gradino.tensor import Tensor

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """``weight`` (num_embeddings, embedding_dim), which starts normal, with zeros in the row ``padding_idx``."""

    weight: Parameter

    def _open(self, rows: int, columns: int, padding_idx: int | None, sparse: bool, given: Tensor | None, frozen: bool, dtype: Any) -> None:
        title = type(self).__name__
        if sparse:
            raise InvalidValueError(f"{title}: sparse=True is not supported: gradients are dense")
        self.num_embeddings, self.embedding_dim = whole(title, "num_embeddings", rows), whole(title, "embedding_dim", columns)
        if min(rows, columns) < 1:
            raise InvalidValueError(f"{title}: {rows} rows of {columns}: both must be at least 1")
        self.padding_idx = row_number(title, padding_idx, rows)
        if given is not None and tuple(given.shape) != (rows, columns):
            raise ShapeError(f"{title}: the weight has shape {tuple(given.shape)}, must be ({rows}, {columns})")
        with step_arena():
            self.weight = Parameter(randn(rows, columns, dtype=dtype) if given is None else given, requires_grad=not frozen)
            if given is None:
                self._clear_padding()

    def _clear_padding(self) -> None:
        if self.padding_idx is not None:
            self.weight.detach()[self.padding_idx] = 0

    def reset_parameters(self) -> None:
        """Normal values again."""
        with step_arena():
            self.weight.detach().normal_()
            self._clear_padding()


class Embedding(_Table):
    """Rows of a table: int64 (...) -> (..., embedding_dim). ``weight`` (num_embeddings, embedding_dim) starts normal.

    The row ``padding_idx`` starts as 0 and gets no gradient. With ``max_norm`` rows that are looked up are scaled to at
    most that ``norm_type`` norm, in place. ``scale_grad_by_freq`` divides a row's gradient by how often it is looked up.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = max_norm, norm_type, scale_grad_by_freq, sparse
        self._open(num_embeddings, embedding_dim, padding_idx, sparse, _weight, _freeze, parameter_dtype(dtype, device))

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A table that starts as a copy of ``embeddings`` (rows, columns), not trained unless ``freeze=False``."""
        if embeddings.ndim != 2:
            raise ShapeError(f"Embedding.from_pretrained: embeddings have shape {tuple(embeddings.shape)}, must be (rows, columns)")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        """(...) -> (..., embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        """Sizes, and what differs from the defaults."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        text += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        text += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        return text + (f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else "")


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the rows of each bag: (B, N), or (N) with offsets (B) -> (B, embedding_dim).

    See :func:`gradino.nn.functional.embedding_bag`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in ("sum", "mean", "max"):
            raise InvalidValueError(f"EmbeddingBag: mode is {mode!r}, must be 'sum', 'mean' or 'max'")
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = max_norm, norm_type, scale_grad_by_freq, sparse
        self.mode, self.include_last_offset = mode, include_last_offset
        self._open(num_embeddings, embedding_dim, padding_idx, sparse, _weight, False, parameter_dtype(dtype, device))

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """(B, N), or (N) with offsets (B) -> (B, embedding_dim)."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, False, per_sample_weights,
            self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Sizes and mode."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += "" if self.max_norm is None else f", max_norm={self.max_norm}"
        text += "" if self.norm_type == 2 else f", norm_type={self.norm_type}"
        text += f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else ""
        return text + f", mode={self.mode!r}" + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")
