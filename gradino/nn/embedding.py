"""Lookup tables."""

from __future__ import annotations

from typing import Any

from gradino._arguments import whole
from gradino.arena import step_arena
from gradino.errors import InvalidValueError
from gradino.factories import randn
from gradino.nn import functional as F
from gradino.nn.linear import parameter_dtype
from gradino.nn.module import Module
from gradino.nn.parameter import Parameter
from gradino.tensor import Tensor

__all__ = ["Embedding"]


class Embedding(Module):
    """Rows of a table: int64 (...) -> (..., embedding_dim). ``weight`` (num_embeddings, embedding_dim) starts normal."""

    weight: Parameter

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, *, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        num_embeddings = whole("Embedding", "num_embeddings", num_embeddings)
        embedding_dim = whole("Embedding", "embedding_dim", embedding_dim)
        if min(num_embeddings, embedding_dim) < 1:
            raise InvalidValueError(f"Embedding: {num_embeddings} rows of {embedding_dim}: both must be at least 1")
        if padding_idx is not None:
            raise InvalidValueError("Embedding: padding_idx is not supported yet")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        with step_arena():
            self.weight = Parameter(randn(num_embeddings, embedding_dim, dtype=parameter_dtype(dtype, device)))

    def forward(self, input: Tensor) -> Tensor:
        """(...) -> (..., embedding_dim)."""
        return F.embedding(input, self.weight)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}"
