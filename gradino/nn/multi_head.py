"""Multi-head attention and rotary embeddings as layers."""

from __future__ import annotations

from typing import Any

from gradino._arguments import probability, whole
from gradino.errors import InvalidValueError
from gradino.factories import arange, empty, zeros
from gradino.nn import functional as F
from gradino.nn import init
from gradino.nn._multi_head import multi_head_attention_forward
from gradino.nn.linear import Linear, parameter_dtype
from gradino.nn.module import Module
from gradino.nn.parameter import Parameter
from gradino.tensor import Tensor

__all__ = ["MultiheadAttention", "RotaryEmbedding"]


class MultiheadAttention(Module):
    """``Linear(cat of heads of softmax(q k^T / sqrt(D) + mask) v)``, with q, k, v projections of the inputs.

    Shapes: query (T, B, embed_dim), key (S, B, kdim), value (S, B, vdim) -> (T, B, embed_dim); with ``batch_first`` the batch comes
    first; it may be left out. Parameters: in_proj_weight (3 embed_dim, embed_dim), or q_proj_weight, k_proj_weight, v_proj_weight
    where kdim or vdim differ; in_proj_bias (3 embed_dim); out_proj; bias_k and bias_v (1, 1, embed_dim) with ``add_bias_kv``.

    Attention is tiled without a matrix of scores unless ``need_weights`` asks for it, which is PyTorch's default: say
    ``need_weights=False`` where they are not needed. A query that may attend to nothing gives 0 before ``out_proj``, on both ways.

    Source: Vaswani et al., Attention Is All You Need, 2017.
    """

    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = "MultiheadAttention"
        embed_dim, num_heads = whole(name, "embed_dim", embed_dim), whole(name, "num_heads", num_heads)
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise InvalidValueError(f"{name}: embed_dim {embed_dim} must be a multiple of num_heads {num_heads}, both above 0")
        kind = parameter_dtype(dtype, device)
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else whole(name, "kdim", kdim)
        self.vdim = embed_dim if vdim is None else whole(name, "vdim", vdim)
        self.dropout, self.batch_first, self.add_zero_attn = probability(name, "dropout", dropout), batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for weight, width in widths.items():
            self.register_parameter(weight, None if self._qkv_same_embed_dim else Parameter(empty(embed_dim, width, dtype=kind)))
        packed = Parameter(empty(3 * embed_dim, embed_dim, dtype=kind)) if self._qkv_same_embed_dim else None
        self.register_parameter("in_proj_weight", packed)
        self.register_parameter("in_proj_bias", Parameter(zeros(3 * embed_dim, dtype=kind)) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        for one in ("bias_k", "bias_v"):
            self.register_parameter(one, Parameter(empty(1, 1, embed_dim, dtype=kind)) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """PyTorch's initial values."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the result and the probabilities, or None; see :func:`gradino.nn.functional.multi_head_attention_forward`.

        In masks of bools True hides, as in PyTorch's layer. ``is_causal`` is a hint that ``attn_mask`` is the causal one.
        """
        turned = self.batch_first and isinstance(query, Tensor) and query.ndim == 3
        if turned:
            same = key is query, value is key
            query = query.transpose(0, 1)
            key = query if same[0] else key.transpose(0, 1)
            value = key if same[1] else value.transpose(0, 1)
        y, weights = multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (y.transpose(0, 1) if turned else y), weights


class RotaryEmbedding(Module):
    """Turns pairs of elements of queries and keys by angles that grow with their position.

    Shapes: input (..., T, D) -> the same. Pair c of ``dim / 2`` turns by ``position * base^(-2 c / dim)``; pairs are elements c and
    c + dim / 2, or neighbours if ``interleaved``. Elements past ``dim`` stay. Positions are 0 to T - 1, or from ``offset`` on.
    It has no parameters and saves no state. PyTorch has no such layer.

    Source: Su et al., RoFormer, 2021.
    """

    def __init__(self, dim: int, max_seq_len: int = 4096, base: float = 10000.0, interleaved: bool = False) -> None:
        super().__init__()
        dim, length = whole("RotaryEmbedding", "dim", dim), whole("RotaryEmbedding", "max_seq_len", max_seq_len)
        if dim < 0 or dim % 2 or length < 1 or not base > 0:
            raise InvalidValueError(f"RotaryEmbedding: dim {dim} must be even, max_seq_len {length} at least 1, base {base} above 0")
        self.dim, self.max_seq_len, self.base, self.interleaved = dim, length, float(base), interleaved
        turns = arange(0, dim, 2, dtype="float64") / max(dim, 1)
        angles = arange(length, dtype="float64").unsqueeze(1) * (base**-turns)
        self.register_buffer("cos", angles.cos().to("float32"), persistent=False)
        self.register_buffer("sin", angles.sin().to("float32"), persistent=False)

    def forward(self, input: Tensor, offset: int = 0) -> Tensor:
        """Turns ``input`` (..., T, D), whose first row stands at position ``offset``."""
        end = offset + input.shape[-2]
        if offset < 0 or end > self.max_seq_len:
            raise InvalidValueError(f"RotaryEmbedding: positions {offset} to {end - 1}, but max_seq_len is {self.max_seq_len}")
        cos, sin = (t[offset:end].to(input.dtype) for t in (self.cos, self.sin))
        return F.rotary_embedding(input, cos, sin, self.interleaved)

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"{self.dim}, max_seq_len={self.max_seq_len}, base={self.base}, interleaved={self.interleaved}"
