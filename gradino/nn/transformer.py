"""Transformer layers and stacks of them, with PyTorch's arguments and parameter names."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from gradino.errors import InvalidValueError, ShapeError
from gradino.factories import full
from gradino.functions import triu
from gradino.nn import functional as F
from gradino.nn import init
from gradino.nn.activation import Dropout
from gradino.nn.container import ModuleList
from gradino.nn.linear import Linear
from gradino.nn.module import Module
from gradino.nn.multi_head import MultiheadAttention
from gradino.nn.normalization import LayerNorm
from gradino.tensor import Tensor

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer"]

Activation = Callable[[Tensor], Tensor]


def _activation(given: str | Activation) -> Activation:
    if not isinstance(given, str):
        return given
    known: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}
    if given not in known:
        raise InvalidValueError(f"transformer: activation is {given!r}, must be 'relu', 'gelu' or a function")
    return known[given]


_MOST_LAYERS = 1 << 16


def _copies(layer: Module, count: int) -> ModuleList:
    """Copies of a layer, with parameters of their own that start from the same values."""
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST_LAYERS:
        raise InvalidValueError(f"{type(layer).__name__}: num_layers is {count!r}, must be an int from 0 to {_MOST_LAYERS}")
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


def _square_mask(size: int, dtype: Any = None) -> Tensor:
    return triu(full((size, size), -math.inf, dtype="float32" if dtype is None else dtype), diagonal=1)


def _is_causal(mask: Tensor | None, hint: bool | None, length: int) -> bool:
    """Whether a mask is the causal one: as the caller says, else by comparing."""
    if hint is not None or mask is None:
        return bool(hint) and mask is not None
    if mask.shape != (length, length) or mask.dtype.name == "bool":
        return False
    return bool((mask == _square_mask(length, mask.dtype)).all().item())


class _Layer(Module):
    """What encoder and decoder layers share: self-attention and the feed-forward part."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int, dropout: float, activation: Any, eps: float, batch_first: bool,
        norm_first: bool, bias: bool, device: Any, dtype: Any, crosses: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where)
        if crosses:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        for k in range(1, 4 if crosses else 3):
            setattr(self, f"norm{k}", LayerNorm(d_model, eps=eps, bias=bias, **where))
        for k in range(1, 4 if crosses else 3):
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = _activation(activation)

    def _attend(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        y, _ = self.self_attn(x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal)
        return self.dropout1(y)  # type: ignore[no-any-return]

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # type: ignore[no-any-return]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward part, each added to its input and normalised.

    Shapes: src (T, B, d_model), with ``batch_first`` (B, T, d_model), or without batch; the result is like src. ``norm_first``
    normalises before each part instead of after. ``activation``: "relu", "gelu" or a function.

    Source: Vaswani et al., Attention Is All You Need, 2017.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype, False
        )

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Masks as in MultiheadAttention; ``is_causal`` says that ``src_mask`` is the causal one."""
        if self.norm_first:
            x = src + self._attend(self.norm1(src), src_mask, src_key_padding_mask, is_causal)
            return x + self.dropout2(self._feed_forward(self.norm2(x)))  # type: ignore[no-any-return]
        x = self.norm1(src + self._attend(src, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self.dropout2(self._feed_forward(x)))  # type: ignore[no-any-return]


class TransformerEncoder(Module):
    """``num_layers`` copies of an encoder layer, and a norm at the end if given.

    ``enable_nested_tensor`` and ``mask_check`` change nothing: gradino has no nested tensors.
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers, self.num_layers, self.norm = _copies(encoder_layer, num_layers), num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool | None = None
    ) -> Tensor:
        """``is_causal`` None: found out by looking at ``mask``."""
        batch_first = self.layers[0].self_attn.batch_first if self.num_layers else False
        causal = _is_causal(mask, is_causal, src.shape[1 if batch_first and src.ndim == 3 else 0])
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the memory, and a feed-forward part, each added to its input and normalised.

    Shapes: tgt (T, B, d_model), memory (S, B, d_model), with ``batch_first`` the batch first, or without batch; the result is like tgt.

    Source: Vaswani et al., Attention Is All You Need, 2017.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype, True
        )

    def _cross(self, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        y, _ = self.multihead_attn(x, memory, memory, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False)
        return self.dropout2(y)  # type: ignore[no-any-return]

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Masks as in MultiheadAttention; the hints say that a mask is the causal one."""
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory, memory_mask, memory_key_padding_mask, memory_is_causal
        if self.norm_first:
            x = tgt + self._attend(self.norm1(tgt), *own)
            x = x + self._cross(self.norm2(x), *other)
            return x + self.dropout3(self._feed_forward(self.norm3(x)))  # type: ignore[no-any-return]
        x = self.norm1(tgt + self._attend(tgt, *own))
        x = self.norm2(x + self._cross(x, *other))
        return self.norm3(x + self.dropout3(self._feed_forward(x)))  # type: ignore[no-any-return]


class TransformerDecoder(Module):
    """``num_layers`` copies of a decoder layer, and a norm at the end if given."""

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers, self.num_layers, self.norm = _copies(decoder_layer, num_layers), num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """``tgt_is_causal`` None: found out by looking at ``tgt_mask``."""
        batch_first = self.layers[0].self_attn.batch_first if self.num_layers else False
        causal = _is_causal(tgt_mask, tgt_is_causal, tgt.shape[1 if batch_first and tgt.ndim == 3 else 0])
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, causal, memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of src whose result a decoder of tgt attends to.

    Shapes: src (S, B, d_model), tgt (T, B, d_model), with ``batch_first`` the batch first, or without batch; the result is like tgt.

    Source: Vaswani et al., Attention Is All You Need, 2017.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype)
        norm: dict[str, Any] = {"eps": layer_norm_eps, "bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer), num_encoder_layers, LayerNorm(d_model, **norm))
        else:
            self.encoder = custom_encoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer), num_decoder_layers, LayerNorm(d_model, **norm))
        else:
            self.decoder = custom_decoder
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Masks as in MultiheadAttention."""
        if src.ndim == 3 and tgt.ndim == 3 and src.shape[0 if self.batch_first else 1] != tgt.shape[0 if self.batch_first else 1]:
            raise ShapeError(f"Transformer: src is {src.shape}, tgt {tgt.shape}: they must agree in the batch")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(f"Transformer: src is {src.shape}, tgt {tgt.shape}: they must have d_model {self.d_model} features")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(  # type: ignore[no-any-return]
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz): -inf above the diagonal, else 0; to be added to the scores."""
        return _square_mask(sz, dtype)
