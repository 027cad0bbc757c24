"""Attention and the rotary embedding. See the package's own text for how entries read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from spec_kinds import SUMMED, Bools, Const, Domain, Spec, case, ones, raw

import gradino as gd

F = gd.nn.functional
_sdpa = F.scaled_dot_product_attention
_DQ, _DK, _DV, _DMASK = 1, 2, 4, 8


def probabilities(
    q: np.ndarray, k: np.ndarray, mask: Any = None, before: int = -1, after: int = -1, at_end: bool = False, scale: Any = None
) -> np.ndarray:
    """softmax(scale q k^T + mask), with 0 where nothing may be attended to. Heads of keys are repeated."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if q.ndim > 2:
        k = np.repeat(k, q.shape[-3] // k.shape[-3], -3)
    scores = scale * (q @ np.swapaxes(k, -1, -2))
    ahead = np.arange(k.shape[-2]) - np.arange(q.shape[-2])[:, None] - (k.shape[-2] - q.shape[-2] if at_end else 0)
    allowed = ((before < 0) | (ahead >= -before)) & ((after < 0) | (ahead <= after))
    if mask is not None and mask.dtype == bool:
        allowed = allowed & mask
    elif mask is not None:
        scores = scores + mask
    scores = np.where(allowed, scores, -np.inf)
    largest = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(largest == -np.inf, 0, largest))
    total = e.sum(-1, keepdims=True)
    return np.asarray(e / np.where(total == 0, 1, total))


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, attn_mask: Any = None, is_causal: bool = False, scale: Any = None, enable_gqa: bool = False
) -> np.ndarray:
    p = probabilities(q, k, attn_mask, after=0 if is_causal else -1, scale=scale)
    return np.asarray(p @ (np.repeat(v, q.shape[-3] // v.shape[-3], -3) if q.ndim > 2 else v))


def _grouped(x: np.ndarray, heads: int) -> np.ndarray:
    """Sums over the query heads that share one of keys."""
    return np.asarray(x.reshape(x.shape[0], heads, -1, *x.shape[2:]).sum(2))


def attention_bwd(
    g: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any = None, i: tuple[int, ...] = (), f: tuple[float, ...] = ()
) -> tuple[np.ndarray, ...]:
    group = q.shape[1] // k.shape[1]
    p = probabilities(q, k, mask, i[0], i[1], bool(i[2]), f[0])
    slope = g @ np.swapaxes(np.repeat(v, group, 1), -1, -2)
    ds = p * (slope - (slope * p).sum(-1, keepdims=True))
    nothing = np.zeros(0)
    dmask = nothing
    if i[3] & _DMASK:
        dmask = ds.sum(tuple(d for d in range(4) if mask.shape[d] != ds.shape[d]), keepdims=True)
    dq = f[0] * (ds @ np.repeat(k, group, 1))
    dk = f[0] * _grouped(np.swapaxes(ds, -1, -2) @ q, k.shape[1])
    dv = _grouped(np.swapaxes(p, -1, -2) @ g, k.shape[1])
    return (dq if i[3] & _DQ else nothing, dk if i[3] & _DK else nothing, dv if i[3] & _DV else nothing, dmask)


def _attention_bwd(m: Any, g: Any, q: Any, k: Any, v: Any, mask: Any = None, *, i: tuple[int, ...], f: tuple[float, ...]) -> Any:
    y, lse = raw("attention", 2)(m, q, k, v, mask, i=i, f=f)
    return raw("attention_bwd", 4)(m, g, q, k, v, mask, y, lse, i=i, f=f)


def rotary(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: bool = False) -> np.ndarray:
    n = cos.shape[-1]
    first, second = (slice(0, 2 * n, 2), slice(1, 2 * n, 2)) if interleaved else (slice(0, n), slice(n, 2 * n))
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def _heads(t: int, s: int, d: int, e: int, *more: Any, h: int = 2, hk: int = 2, **attributes: Any) -> Any:
    return case((2, h, t, d), (2, hk, s, d), (2, hk, s, e), *more, **attributes)


# fmt: off
ATTENTION = (
    Spec(name="attention", python="nn.functional.scaled_dot_product_attention", ref=attention, rtol=SUMMED, atol=(3e-6, 1e-14),
         call=lambda m, *t, **k: m.nn.functional.scaled_dot_product_attention(*t, **k), domain=Domain(-1, 1),
         cases=(  # query, key, value, mask
             case((3, 4), (3, 4), (3, 4)), case((2, 3, 4), (2, 5, 4), (2, 5, 3), Bools((3, 5))), _heads(3, 3, 4, 4, is_causal=True),
             _heads(3, 5, 2, 4, (2, 1, 3, 5), scale=0.3), _heads(2, 4, 3, 3, Bools((2, 1, 1, 4))), _heads(4, 3, 1, 1, (4, 1)),
             _heads(5, 3, 2, 2, is_causal=True, h=4, enable_gqa=True), _heads(2, 3, 2, 2, (1, 4, 1, 3), h=4, hk=1, enable_gqa=True),
             _heads(1, 1, 1, 1), _heads(2, 3, 2, 2, Bools((1, 3))), _heads(0, 3, 2, 2), _heads(70, 66, 3, 5, is_causal=True)),
         rows=lambda n: (case((2, n, 3), (2, n, 3), (2, n, 2), is_causal=True), case((2, 3, n), (2, 2, n), (2, 2, n)),
                         case((1, 3, n, 2), (1, 3, 4, 2), (1, 3, 4, n), (n, 4))),
         large=(case((2, 3, 300, 32), (2, 3, 300, 32), (2, 3, 300, 32), is_causal=True),
                case((300, 64), (500, 64), (500, 64), Bools((300, 500)))),
         errors=((gd.ShapeError, "two dimensions", lambda: _sdpa(ones(3), ones(2, 3), ones(2, 3))),
                 (gd.ShapeError, "B, Hk, S, D", lambda: _sdpa(ones(2, 3), ones(2, 4), ones(2, 3))),
                 (gd.ShapeError, "B, Hk, S, D", lambda: _sdpa(ones(2, 3), ones(2, 3), ones(3, 3))),
                 (gd.ShapeError, "enable_gqa", lambda: _sdpa(ones(4, 2, 3), ones(2, 2, 3), ones(2, 2, 3))),
                 (gd.ShapeError, "multiple", lambda: _sdpa(ones(3, 2, 3), ones(2, 2, 3), ones(2, 2, 3), enable_gqa=True)),
                 (gd.ShapeError, "broadcast", lambda: _sdpa(ones(2, 3), ones(2, 3), ones(2, 3), ones(3, 2))),
                 (gd.DTypeError, "one dtype", lambda: _sdpa(ones(2, 3), ones(2, 3, dtype="float64"), ones(2, 3))),
                 (gd.DTypeError, "bool", lambda: _sdpa(ones(2, 3), ones(2, 3), ones(2, 3), ones(2, 2, dtype="int64"))),
                 (gd.InvalidValueError, "attn_mask must be None",
                  lambda: _sdpa(ones(2, 3), ones(2, 3), ones(2, 3), ones(2, 2), is_causal=True)),
                 (gd.InvalidValueError, "dropout_p", lambda: _sdpa(ones(2, 3), ones(2, 3), ones(2, 3), dropout_p=2.0)),
                 (gd.DTypeError, "Tensor", lambda: _sdpa(ones(2, 3), None, ones(2, 3))))),  # type: ignore[arg-type]
    Spec(name="attention_bwd", call=_attention_bwd, ref=attention_bwd, out=("same",) * 4, order=0, rtol=SUMMED, atol=(5e-6, 1e-13),
         torch=False, canaries=False, domain=Domain(-1, 1), reads_rounded=True,
         cases=(  # g, query, key, value, mask
             case((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 6, 5), (1, 2, 6, 4), i=(-1, -1, 0, 7), f=(0.4, 0.0)),
             case((2, 4, 3, 4), (2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 4), (1, 4, 3, 1), i=(1, 2, 1, 15), f=(0.4, 0.0)),
             case((2, 1, 70, 3), (2, 1, 70, 2), (2, 1, 67, 2), (2, 1, 67, 3), (1, 1, 70, 67), i=(-1, 0, 0, 15), f=(0.4, 0.0)),
             case((2, 1, 70, 3), (2, 1, 70, 2), (2, 1, 67, 2), (2, 1, 67, 3), (2, 1, 1, 67), i=(-1, 3, 0, 10), f=(0.4, 0.0)),
             case((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 6, 5), (1, 2, 6, 4), Bools((1, 1, 3, 6)), i=(-1, -1, 0, 5), f=(0.4, 0.0))),
         rows=lambda n: (case((1, 2, n, 2), (1, 2, n, 3), (1, 1, n, 3), (1, 1, n, 2), i=(-1, 0, 0, 7), f=(0.5, 0.0)),
                         case((1, 1, 3, n), (1, 1, 3, n), (1, 1, 2, n), (1, 1, 2, n), i=(-1, -1, 0, 7), f=(0.5, 0.0))),
         large=(case((2, 3, 200, 32), (2, 3, 200, 32), (2, 3, 200, 32), (2, 3, 200, 32), i=(-1, 0, 0, 7), f=(0.2, 0.0)),
                case((1, 1, 300, 32), (1, 1, 300, 32), (1, 1, 300, 32), (1, 1, 300, 32), (1, 1, 300, 300),
                     i=(-1, 0, 0, 15), f=(0.2, 0.0)))),
    Spec(name="rotary", python="nn.functional.rotary_embedding", call=lambda m, *t, **k: F.rotary_embedding(*t, **k),
         ref=rotary, torch=False, rtol=SUMMED, atol=(1e-6, 1e-15),
         cases=(case((3, 4), (3, 2), (3, 2)), case((2, 3, 4, 6), (4, 3), (4, 3), interleaved=True),
                case((2, 3, 4, 7), (2, 1, 4, 2), (2, 1, 4, 2)),
                case((3, 4), (1, 2), (1, 2)), case((0, 4), (1, 2), (1, 2)), case((2, 3), (2, 0), (2, 0)), case((4,), (2,), (2,)),
                case((3, 4), Const((3, 2)), Const((3, 2)))),
         rows=lambda n: (case((2, 2 * n), (2, n), (2, n)), case((n, 5), (n, 2), (n, 2), interleaved=True)),
         large=(case((2, 3, 200, 64), (200, 32), (200, 32)),),
         errors=((gd.ShapeError, "at most D / 2", lambda: F.rotary_embedding(ones(3, 4), ones(3, 3), ones(3, 3))),
                 (gd.ShapeError, "one shape", lambda: F.rotary_embedding(ones(3, 4), ones(3, 2), ones(1, 2))),
                 (gd.DTypeError, "Tensor", lambda: F.rotary_embedding(ones(3, 4), 1, ones(3, 2))))),  # type: ignore[arg-type]
)
# fmt: on
