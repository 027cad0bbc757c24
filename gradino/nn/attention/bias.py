"""Causal masks that are no tensors, for ``scaled_dot_product_attention``, with PyTorch's names."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any

from gradino._arguments import whole
from gradino.errors import InvalidValueError, ShapeError

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Where the diagonal of a causal mask begins, or ends."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias:
    """A causal mask for so many queries and keys: given as ``attn_mask`` it costs no memory."""

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise InvalidValueError(f"CausalBias: variant is {variant!r}, must be a CausalVariant")
        self.variant = variant
        self.seq_len_q, self.seq_len_kv = whole("CausalBias", "seq_len_q", seq_len_q), whole("CausalBias", "seq_len_kv", seq_len_kv)

    def use_for(self, query: Any, key: Any) -> bool:
        """Check the lengths; True if the last query stands at the last key."""
        lengths = (query.shape[-2], key.shape[-2])
        if lengths != (self.seq_len_q, self.seq_len_kv):
            raise ShapeError(f"scaled_dot_product_attention: {self!r}, but there are {lengths[0]} queries and {lengths[1]} keys")
        return self.variant is CausalVariant.LOWER_RIGHT

    def __repr__(self) -> str:
        return f"CausalBias({self.variant.name}, {self.seq_len_q} queries, {self.seq_len_kv} keys)"


def causal_upper_left(*size: int) -> CausalBias:
    """Query t sees keys 0 to t; ``causal_upper_left(T, S)``."""
    return _causal(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """The last query sees all keys, the one before all but the last, and so on; ``causal_lower_right(T, S)``."""
    return _causal(CausalVariant.LOWER_RIGHT, size)


def _causal(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise ShapeError(f"causal bias: size is {size}, must be the numbers of queries and of keys")
    return CausalBias(variant, *size)
