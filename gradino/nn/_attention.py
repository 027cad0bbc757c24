"""Scaled dot product attention and the rotary embedding, as functions."""

from __future__ import annotations

import math
import operator
from typing import Any

from gradino._arguments import probability
from gradino._core import call
from gradino._lib import lib
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.nn.attention.bias import CausalBias
from gradino.tensor import Tensor

__all__ = ["rotary_embedding", "scaled_dot_product_attention"]

_NONE = lib.GD_ABSENT
_MOST = 1 << 30  # keys on either side; beyond it there is no window


def _window(window: Any) -> tuple[int, int]:
    """Keys before and after its own place that a query sees, -1: all."""
    if window is None:
        return -1, -1
    try:
        before, after = (window, window) if not isinstance(window, (tuple, list)) else window
        sides = tuple(-1 if side is None else operator.index(side) for side in (before, after))
    except (TypeError, ValueError):
        raise DTypeError(f"scaled_dot_product_attention: window is {window!r}, must be an int, a pair of ints, or None") from None
    if any(given is not None and side < 0 for given, side in zip((before, after), sides)):
        raise InvalidValueError(f"scaled_dot_product_attention: window is {window!r}, must not be negative; None: no limit")
    return -1 if sides[0] > _MOST else sides[0], -1 if sides[1] > _MOST else sides[1]


def _check(query: Any, key: Any, value: Any, attn_mask: Any, enable_gqa: bool) -> None:
    """Raise for what PyTorch refuses, in its order."""
    for name, t in (("query", query), ("key", key), ("value", value), *((("attn_mask", attn_mask),) if attn_mask is not None else ())):
        if not isinstance(t, Tensor):
            raise DTypeError(f"scaled_dot_product_attention: {name} must be a Tensor, not {type(t).__name__}")
    q, k, v = query.shape, key.shape, value.shape
    heads = [shape[-3] if len(shape) > 2 else 1 for shape in (q, k, v)]
    if len(q) > 1 and len(k) > 1 and len(v) > 1 and heads[0] == heads[1] == heads[2] and not enable_gqa:
        return
    shapes = f"scaled_dot_product_attention: query is {q}, key {k}, value {v}"
    if min(len(q), len(k), len(v)) < 2:
        raise ShapeError(f"{shapes}: each must have at least two dimensions")
    if enable_gqa:
        if min(len(q), len(k), len(v)) < 3 or any(n == 0 or heads[0] % n for n in heads[1:]):
            raise ShapeError(
                f"{shapes}: with enable_gqa=True the query's heads (third dimension from the end) must be a multiple of the others'"
            )
    elif len(set(heads) - {1}) > 1:
        raise ShapeError(
            f"{shapes}: their heads (third dimension from the end) must be equal; with enable_gqa=True the query's may be a multiple"
        )


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | CausalBias | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    window: int | tuple[int | None, int | None] | None = None,
) -> Tensor:
    """``softmax(scale query key^T + mask) value`` per head, without ever making the matrix of scores.

    Shapes: query (..., H, T, D), key (..., H, S, D), value (..., H, S, E) -> (..., H, T, E), of two to four dimensions; what comes
    before T and S broadcasts. With ``enable_gqa`` key and value may have fewer heads, of which H is a multiple.

    ``attn_mask`` broadcasts to (..., H, T, S): bool, where True means that a query may attend to a key, or of the query's dtype,
    added to the scaled scores. A query that may attend to nothing gives 0, and gradients of 0. ``is_causal``: query t sees keys
    0 to t, aligned at the top left as in PyTorch; for keys of earlier steps, with fewer queries than keys, give
    ``nn.attention.bias.causal_lower_right(T, S)`` as the mask. ``scale``: ``1 / sqrt(D)`` unless given. ``dropout_p`` drops
    probabilities whenever it is not 0, also in evaluation. ``window`` (gradino's own): a query sees so many keys before and after
    its own place, or (before, after), None for no limit; together with ``is_causal`` none after.

    Memory is linear in T and S: backward computes the probabilities again from one number per query.

    Source: Vaswani et al., Attention Is All You Need, 2017; Dao et al., FlashAttention, 2022.

    Raises:
        ShapeError: if shapes do not fit.
        DTypeError: if dtypes differ, or the mask is of integers.
        InvalidValueError: for a mask together with ``is_causal``, or dropout_p outside [0, 1].
    """
    before, after = _window(window)
    at_end = False
    if isinstance(attn_mask, CausalBias):
        if is_causal:
            raise InvalidValueError("scaled_dot_product_attention: a causal bias stands for is_causal: give one of the two")
        at_end, attn_mask, is_causal = attn_mask.use_for(query, key), None, True
    _check(query, key, value, attn_mask, enable_gqa)
    if is_causal:
        if attn_mask is not None:
            raise InvalidValueError("scaled_dot_product_attention: attn_mask must be None where is_causal=True")
        after = 0
    p = probability("scaled_dot_product_attention", "dropout_p", dropout_p)
    if scale is None:
        size = query.shape[-1]
        scale = 1 / math.sqrt(size) if size else 1.0
    if enable_gqa and key.shape[-3] != value.shape[-3]:
        heads = max(key.shape[-3], value.shape[-3])
        if heads % key.shape[-3] or heads % value.shape[-3]:
            heads = query.shape[-3]
        key, value = (t.repeat_interleave(heads // t.shape[-3], -3) if t.shape[-3] != heads else t for t in (key, value))
    mask = _NONE if attn_mask is None else attn_mask._h
    return call("scaled_dot_product_attention", lib.gd_attention, query._h, key._h, value._h, mask, before, after, at_end, float(scale), p)


def rotary_embedding(input: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Turns pairs of elements by the angles of their position: ``(a cos - b sin, b cos + a sin)``.

    Shapes: input (..., T, D), cos and sin (T, R), or broadcast to (..., T, R), with R at most D / 2; the result is like the input.
    The first 2 R of D elements turn: element c with c + R, or neighbours 2 c and 2 c + 1 if ``interleaved``; the others stay.

    Source: Su et al., RoFormer, 2021. PyTorch has no such function.

    Raises:
        ShapeError: if shapes do not fit.
    """
    for name, t in (("input", input), ("cos", cos), ("sin", sin)):
        if not isinstance(t, Tensor):
            raise DTypeError(f"rotary_embedding: {name} must be a Tensor, not {type(t).__name__}")
    return call("rotary_embedding", lib.gd_rotary, input._h, cos._h, sin._h, bool(interleaved))
