"""Multi-head attention as a function: projections, masks in PyTorch's senses, and attention."""

from __future__ import annotations

import math
from typing import Any

from gradino.errors import DTypeError, GradinoError, InvalidValueError, ShapeError
from gradino.factories import zeros
from gradino.functions import cat
from gradino.nn import functional as F
from gradino.nn.pad import pad
from gradino.tensor import Tensor

__all__ = ["multi_head_attention_forward"]

_NAME = "multi_head_attention"


def _check(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any, attn_mask: Any, heads: int) -> bool:
    """Whether the inputs have a batch dimension; raises where ranks or sizes do not fit."""
    for name, t in (("query", query), ("key", key), ("value", value), ("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if t is not None and not isinstance(t, Tensor):
            raise DTypeError(f"{_NAME}: {name} must be a Tensor, not {type(t).__name__}")
    shapes = f"{_NAME}: query is {query.shape}, key {key.shape}, value {value.shape}"
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise ShapeError(f"{shapes}: they must all be (length, batch, features), or without batch")
    if key.shape[:-1] != value.shape[:-1]:
        raise ShapeError(f"{shapes}: key and value must agree in length and batch")
    batched = query.ndim == 3
    if batched and key.shape[1] != query.shape[1]:
        raise ShapeError(f"{_NAME}: query is {query.shape}, key {key.shape}: they must agree in the batch")
    batch = query.shape[1] if batched else 1
    if key_padding_mask is not None:
        wanted = (batch, key.shape[0]) if batched else (key.shape[0],)
        if key_padding_mask.shape != wanted:
            raise ShapeError(f"{_NAME}: key_padding_mask is {key_padding_mask.shape}, must be {wanted}")
    if attn_mask is not None:
        plain, each = (query.shape[0], key.shape[0]), (batch * heads, query.shape[0], key.shape[0])
        if attn_mask.shape not in (plain, each):
            raise ShapeError(f"{_NAME}: attn_mask is {attn_mask.shape}, must be {plain}, or {each} for each batch entry and head")
    return batched


def _added(mask: Tensor, like: Tensor, name: str) -> Tensor:
    """A mask as numbers to add to the scores; in a bool one True hides."""
    if mask.dtype.name == "bool":
        return zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, -math.inf)
    if not mask.dtype.is_floating_point:
        raise DTypeError(f"{_NAME}: {name} is {mask.dtype}, must be bool (True: hidden) or floating point (added to the scores)")
    return mask.to(like.dtype)


def _merged(attn_mask: Tensor | None, padding: Tensor | None, like: Tensor) -> Tensor | None:
    """Both masks as one for scaled_dot_product_attention: bool with True for what may be attended to, or numbers to add."""
    named = [(m, n) for m, n in ((attn_mask, "attn_mask"), (padding, "key_padding_mask")) if m is not None]
    if not named:
        return None
    if all(m.dtype.name == "bool" for m, _ in named):
        hidden = named[0][0] if len(named) == 1 else named[0][0].logical_or(named[1][0])
        return hidden.logical_not()
    numbers = [_added(m, like, n) for m, n in named]
    return numbers[0] if len(numbers) == 1 else numbers[0] + numbers[1]


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None, separate: tuple[Any, Any, Any] | None
) -> list[Tensor]:
    """Queries, keys and values; one product for as many as come from the same tensor."""
    width = query.shape[-1]
    if separate is not None:
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), separate, biases)]
    if weight is None:
        raise InvalidValueError(f"{_NAME}: in_proj_weight is None")
    if query is key and key is value:
        return list(F.linear(query, weight, bias).split(width, -1))
    if key is value:
        parts = [None, None] if bias is None else list(bias.split([width, 2 * width]))
        q_weight, kv_weight = weight.split([width, 2 * width])
        return [F.linear(query, q_weight, parts[0]), *F.linear(key, kv_weight, parts[1]).split(width, -1)]
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weight.chunk(3), biases)]


def _with_weights(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float) -> tuple[Tensor, Tensor]:
    """Attention that also returns its probabilities; a query that may attend to nothing has only 0."""
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf) if mask.dtype.name == "bool" else scores + mask
        dead = (scores == -math.inf).all(-1, keepdim=True)
        weights = scores.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0)
    else:
        weights = scores.softmax(-1)
    weights = F.dropout(weights, dropout_p)
    return weights @ v, weights


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What :class:`gradino.nn.MultiheadAttention` computes, with its parameters as arguments.

    Shapes: query (T, B, E), key (S, B, kdim), value (S, B, vdim), or without B -> (T, B, E) and, with ``need_weights``, the
    probabilities (B, T, S), or (B, H, T, S) where they are not averaged over heads. ``key_padding_mask`` (B, S) and ``attn_mask``
    (T, S) or (B H, T, S): bool, where True hides (the opposite of ``scaled_dot_product_attention``), or added to the scores.

    ``static_k`` and ``static_v`` are not supported.
    """
    if static_k is not None or static_v is not None:
        raise InvalidValueError(f"{_NAME}: static_k and static_v are not supported")
    batched = _check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if query.shape[-1] != embed_dim_to_check:
        raise ShapeError(f"{_NAME}: query is {query.shape}, must have {embed_dim_to_check} features")
    if embed_dim_to_check % num_heads:
        raise ShapeError(f"{_NAME}: embed_dim {embed_dim_to_check} must be a multiple of num_heads {num_heads}")
    if (bias_k is None) != (bias_v is None):
        raise InvalidValueError(f"{_NAME}: bias_k and bias_v must both be given, or neither")
    if is_causal and attn_mask is None:
        raise GradinoError(
            f"{_NAME}: is_causal=True is a hint about attn_mask, which must be given; see Transformer.generate_square_subsequent_mask"
        )
    added = (bias_k is not None) + bool(add_zero_attn)
    if is_causal and key_padding_mask is None and not need_weights and not added:
        attn_mask = None
    else:
        is_causal = False
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    if not batched:
        same = query is key, key is value
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, separate)
    (rows, batch, width), keys = q.shape, k.shape[0]
    if bias_k is not None and bias_v is not None:
        k, v = (cat([t, b.expand(1, batch, width)]) for t, b in ((k, bias_k), (v, bias_v)))
    if add_zero_attn:
        k, v = (cat([t, zeros(1, batch, width, dtype=t.dtype, device=t.device)]) for t in (k, v))
    q, k, v = (t.reshape(t.shape[0], batch, num_heads, width // num_heads).permute(1, 2, 0, 3) for t in (q, k, v))
    if attn_mask is not None and attn_mask.ndim == 3:
        attn_mask = attn_mask.view(batch, num_heads, rows, keys)
    padding = None if key_padding_mask is None else key_padding_mask.view(batch, 1, 1, keys)
    mask = _merged(attn_mask, padding, q)
    if mask is not None and added:
        mask = pad(mask.logical_not(), (0, added)).logical_not() if mask.dtype.name == "bool" else pad(mask, (0, added))
    p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        y, weights = _with_weights(q, k, v, mask, p)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        y = F.scaled_dot_product_attention(q, k, v, mask, p, is_causal)
    y = F.linear(y.permute(2, 0, 1, 3).reshape(rows, batch, width), out_proj_weight, out_proj_bias)
    if batched:
        return y, weights
    return y.squeeze(1), None if weights is None else weights.squeeze(0)
