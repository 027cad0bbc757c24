"""Right results of channel norms, pooling and resizing, in float64 NumPy, by the definition and without haste."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# ---- Norms of channels ------------------------------------------------------------------------------------


def _channelwise(p: Any, x: np.ndarray) -> Any:
    return p.reshape(-1, *(1,) * (x.ndim - 2)) if isinstance(p, np.ndarray) else p


def _segments(x: np.ndarray, groups: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """x in a shape whose `axes` are what shares statistics: a channel of all samples (groups 0), or a group of one."""
    if not groups:
        return x, (0, *range(2, x.ndim))
    return x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups), (2,)


def _normal(x: np.ndarray, groups: int, eps: float, given: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The normalised input, and what it was multiplied with."""
    s, axes = _segments(x, groups)
    if given is not None:
        mean, var = (_channelwise(p, x) for p in given)
    else:
        mean, var = s.mean(axis=axes, keepdims=True), s.var(axis=axes, keepdims=True)
    scale = 1 / np.sqrt(var + eps)
    return ((s - mean) * scale).reshape(x.shape), np.broadcast_to(scale, s.shape).reshape(x.shape)


def batch_norm(x: np.ndarray, w: Any = None, b: Any = None, mean: Any = None, var: Any = None, *, eps: float = 1e-5) -> np.ndarray:
    normal = _normal(x, 0, eps, None if mean is None else (mean, var))[0]
    return np.asarray(normal * _channelwise(1 if w is None else w, x) + _channelwise(0 if b is None else b, x))


def group_norm(x: np.ndarray, w: Any = None, b: Any = None, *, groups: int, eps: float = 1e-5) -> np.ndarray:
    normal = _normal(x, groups, eps)[0]
    return np.asarray(normal * _channelwise(1 if w is None else w, x) + _channelwise(0 if b is None else b, x))


def channel_norm_bwd(
    g: np.ndarray, x: np.ndarray, w: Any, *, i: tuple[int, int], f: tuple[float], group: bool, part: Callable[[Any], Any] = lambda a: a
) -> tuple[np.ndarray, ...]:
    """dx, dweight and dbias; those that bits of i[1] do not ask for are empty. `part` abs: every term's magnitude."""
    groups, sign = i[0] if group else 0, -1 if part is not np.abs else 1
    xh, scale = _normal(x, groups, f[0])
    xh, g = part(xh), part(g)
    gw, others = g if w is None else g * part(_channelwise(w, x)), (0, *range(2, x.ndim))
    s, axes = _segments(gw, groups)
    t = _segments(xh, groups)[0]
    dx = (s + sign * t * (s * t).mean(axis=axes, keepdims=True) + sign * s.mean(axis=axes, keepdims=True)).reshape(x.shape) * scale
    made = dx, (g * xh).sum(axis=others), g.sum(axis=others)
    return tuple(a if i[1] >> k & 1 else np.zeros(0) for k, a in enumerate(made))


# ---- Pooling ------------------------------------------------------------------------------------------------


def _pair(value: Any, dims: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,) * dims


def _axis(size: int, k: int, stride: int, pad: int, dilation: int, ceil: bool) -> list[tuple[range, int]]:
    """The elements of each window along an axis, and its size with padding."""
    reach, found = (k - 1) * dilation + 1, []
    count = (math.ceil if ceil else math.floor)((size + 2 * pad - reach) / stride) + 1
    if ceil and (count - 1) * stride >= size + pad:
        count -= 1
    for o in range(count):
        start = o * stride - pad
        whole = range(start, start + reach, dilation)
        found.append((range(min(p for p in whole if p >= 0), min(size, start + reach), dilation), min(start + reach, size + pad) - start))
    return found


def _adaptive(size: int, out: int) -> list[tuple[range, int]]:
    spans = [(o * size // out, -((o + 1) * -size // out)) for o in range(out)]
    return [(range(a, b), b - a) for a, b in spans]


def windows(shape: tuple[int, ...], dims: int, **a: Any) -> tuple[tuple[int, ...], Iterator[tuple[tuple[int, ...], Any, int]]]:
    """Sizes of the output, and for each window its place, an index of its elements, and its size with padding."""
    sizes = shape[-dims:]
    if "output_size" in a:
        axes = [_adaptive(n, o) for n, o in zip(sizes, _pair(a["output_size"], dims))]
    else:
        k = _pair(a["kernel_size"], dims)
        parts = (_pair(a.get(name, other), dims) for name, other in (("stride", k), ("padding", 0), ("dilation", 1)))
        axes = [_axis(*one, a.get("ceil_mode", False)) for one in zip(sizes, k, *parts)]

    def walk() -> Iterator[tuple[tuple[int, ...], Any, int]]:
        for place in np.ndindex(*(len(axis) for axis in axes)):
            chosen = [axis[o] for axis, o in zip(axes, place)]
            yield place, np.ix_(*(list(elements) for elements, _ in chosen)), math.prod(whole for _, whole in chosen)

    return tuple(len(axis) for axis in axes), walk()


def max_pool(x: np.ndarray, *, dims: int, **a: Any) -> tuple[np.ndarray, np.ndarray]:
    sizes, each = windows(x.shape, dims, **a)
    lead = x.shape[:-dims]
    y, index = np.zeros((*lead, *sizes), x.dtype), np.zeros((*lead, *sizes), np.int64)
    places = np.arange(math.prod(x.shape[-dims:])).reshape(x.shape[-dims:])
    for place, window, _ in each:
        part = x[(..., *window)]
        part = part.reshape(*lead, math.prod(part.shape[x.ndim - dims :]))
        best = part.argmax(-1)
        y[(..., *place)] = np.take_along_axis(part, best[..., None], -1)[..., 0]
        index[(..., *place)] = places[window].reshape(-1)[best]
    return y, index


def max_pool_bwd(g: np.ndarray, index: np.ndarray, *, i: tuple[int, ...]) -> np.ndarray:
    """g added at the places of planes of i[0] x i[1]; i[2]: written."""
    out = np.zeros((*g.shape[:-2], i[0] * i[1]), g.dtype)
    flat, at = g.reshape(*g.shape[:-2], -1), index.reshape(*g.shape[:-2], -1)
    for lead in np.ndindex(*g.shape[:-2]):
        if i[2]:
            out[lead][at[lead]] = flat[lead]
        else:
            np.add.at(out[lead], at[lead], flat[lead])
    return out.reshape(*g.shape[:-2], i[0], i[1])


def avg_pool(
    x: np.ndarray, *, dims: int, count_include_pad: bool = True, divisor_override: int | None = None, magnitude: bool = False, **a: Any
) -> np.ndarray:
    sizes, each = windows(x.shape, dims, **a)
    y = np.zeros((*x.shape[:-dims], *sizes))
    for place, window, whole in each:
        part = np.abs(x[(..., *window)]) if magnitude else x[(..., *window)]
        count = divisor_override or (whole if count_include_pad else math.prod(part.shape[x.ndim - dims :]))
        y[(..., *place)] = part.sum(axis=tuple(range(x.ndim - dims, x.ndim))) / (abs(count) if magnitude else count)
    return y


def adjoint(forward: Callable[[np.ndarray], np.ndarray], g: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """The transpose of a linear map of planes, from its columns."""
    dims, count = len(sizes), math.prod(sizes)
    columns = forward(np.eye(count).reshape(count, *sizes)).reshape(count, -1)
    return np.asarray((g.reshape(*g.shape[:-dims], -1) @ columns.T).reshape(*g.shape[:-dims], *sizes))


# ---- Resizing -----------------------------------------------------------------------------------------------


def _resize_axis(x: np.ndarray, out: int, mode: str, align: bool) -> np.ndarray:
    """Along the last axis."""
    n, o = x.shape[-1], np.arange(out)
    if mode == "nearest":
        return x[..., o * n // out]
    if mode == "nearest-exact":
        return x[..., np.minimum(((2 * o + 1) * n) // (2 * out), n - 1)]
    at = o * (n - 1) / max(out - 1, 1) if align else np.maximum((o + 0.5) * n / out - 0.5, 0)
    low = np.minimum(np.floor(at).astype(int), n - 1)
    part = at - low
    return np.asarray(x[..., low] * (1 - part) + x[..., np.minimum(low + 1, n - 1)] * part)


def resize(x: np.ndarray, *, size: Any, mode: str = "nearest", align_corners: bool | None = None) -> np.ndarray:
    sizes = (size,) if isinstance(size, int) else size
    kind = "linear" if mode == "bilinear" else mode
    y = _resize_axis(x, sizes[-1], kind, bool(align_corners))
    return np.swapaxes(_resize_axis(np.swapaxes(y, -1, -2), sizes[0], kind, bool(align_corners)), -1, -2) if len(sizes) == 2 else y


def pixel_shuffle(x: np.ndarray, r: int) -> np.ndarray:
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    parts = np.moveaxis(x.reshape(*lead, c // r**2, r, r, h, w), (-4, -3), (-3, -1))
    return parts.reshape(*lead, c // r**2, h * r, w * r)


def pixel_unshuffle(x: np.ndarray, r: int) -> np.ndarray:
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    parts = np.moveaxis(x.reshape(*lead, c, h // r, r, w // r, r), (-3, -1), (-4, -3))
    return parts.reshape(*lead, c * r**2, h // r, w // r)
