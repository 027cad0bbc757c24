"""Convolutions written plainly, in float64: loops over taps and groups."""

from __future__ import annotations

from typing import Any

import numpy as np

Pair = tuple[int, int]


def pair(value: Any) -> Pair:
    return (value, value) if isinstance(value, int) else tuple(value)


def windows(x: np.ndarray, kernel: Pair, stride: Pair, before: Pair, after: Pair, dilation: Pair) -> np.ndarray:
    """(N, C, H, W) -> (N, C, KH, KW, OH, OW): what each tap sees at each point."""
    x = np.pad(x, ((0, 0), (0, 0), *zip(before, after)))
    points = [(x.shape[2 + d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in range(2)]
    found = np.empty((*x.shape[:2], *kernel, *points))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows, columns = (slice(k * d, k * d + (p - 1) * s + 1, s) for k, d, p, s in zip((i, j), dilation, points, stride))
            found[:, :, i, j] = x[:, :, rows, columns]
    return found


def scattered(patches: np.ndarray, size: Pair, stride: Pair, before: Pair, after: Pair, dilation: Pair) -> np.ndarray:
    """The transpose of windows()."""
    n, c, kh, kw, oh, ow = patches.shape
    x = np.zeros((n, c, *(s + b + a for s, b, a in zip(size, before, after))))
    for i in range(kh):
        for j in range(kw):
            rows, columns = (slice(k * d, k * d + (p - 1) * s + 1, s) for k, d, p, s in zip((i, j), dilation, (oh, ow), stride))
            x[:, :, rows, columns] += patches[:, :, i, j]
    return x[:, :, before[0] : before[0] + size[0], before[1] : before[1] + size[1]]


def conv2d(x: Any, w: Any, b: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> np.ndarray:
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(pair(dilation), w.shape[2:])]
        before, after = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    else:
        before = after = pair(0 if padding == "valid" else padding)
    if x.ndim == 3:
        return conv2d(x[None], w, b, stride, padding, dilation, groups)[0]
    seen = windows(x, w.shape[2:], pair(stride), before, after, pair(dilation))
    o, c = w.shape[0] // groups, w.shape[1]
    parts = [np.einsum("ncijhw,ocij->nohw", seen[:, g * c : (g + 1) * c], w[g * o : (g + 1) * o]) for g in range(groups)]
    return np.concatenate(parts, 1) + (0 if b is None else np.reshape(b, (-1, 1, 1)))


def conv_transpose2d(
    x: Any, w: Any, b: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1
) -> np.ndarray:
    if x.ndim == 3:
        return conv_transpose2d(x[None], w, b, stride, padding, output_padding, groups, dilation)[0]
    stride, padding, dilation, extra = pair(stride), pair(padding), pair(dilation), pair(output_padding)
    whole = [(x.shape[2 + d] - 1) * stride[d] + dilation[d] * (w.shape[2 + d] - 1) + 1 + extra[d] for d in range(2)]
    c = x.shape[1] // groups
    parts = [np.einsum("nchw,coij->noijhw", x[:, g * c : (g + 1) * c], w[g * c : (g + 1) * c]) for g in range(groups)]
    full = scattered(np.concatenate(parts, 1), (whole[0], whole[1]), stride, (0, 0), (0, 0), dilation)
    y = full[:, :, padding[0] : whole[0] - padding[0], padding[1] : whole[1] - padding[1]]
    return y + (0 if b is None else np.reshape(b, (-1, 1, 1)))


def conv_bwd_weight(g: Any, x: Any, i: tuple[int, ...]) -> np.ndarray:
    """Attributes as in native/ops.def."""
    groups, kernel = i[6], (i[9], i[10])
    seen = windows(x, kernel, i[0:2], i[2:4], i[7:9], i[4:6])
    o, c = g.shape[1] // groups, x.shape[1] // groups
    return np.concatenate([np.einsum("nohw,ncijhw->ocij", g[:, k * o : (k + 1) * o], seen[:, k * c : (k + 1) * c]) for k in range(groups)])


def unfold(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> np.ndarray:
    if x.ndim == 3:
        return unfold(x[None], kernel_size, dilation, padding, stride)[0]
    seen = windows(x, pair(kernel_size), pair(stride), pair(padding), pair(padding), pair(dilation))
    return seen.reshape(x.shape[0], int(np.prod(seen.shape[1:4])), int(np.prod(seen.shape[4:])))


def fold(x: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> np.ndarray:
    if x.ndim == 2:
        return fold(x[None], output_size, kernel_size, dilation, padding, stride)[0]
    size, kernel, pad = pair(output_size), pair(kernel_size), pair(padding)
    points = [(size[d] + 2 * pad[d] - pair(dilation)[d] * (kernel[d] - 1) - 1) // pair(stride)[d] + 1 for d in range(2)]
    patches = x.reshape(x.shape[0], x.shape[1] // (kernel[0] * kernel[1]), *kernel, *points)
    return scattered(patches, size, pair(stride), pad, pad, pair(dilation))
