"""The right results where NumPy has no function for them: losses, the recurrent layer, random numbers. Float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

erf, _erfc = np.vectorize(math.erf, otypes=[float]), np.vectorize(math.erfc, otypes=[float])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# ---- Activations, with their limits at the infinities ---------------------------------------------------------


def _within(f: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """f, and what it comes to far out: x on the right, -0 on the left."""
    return lambda x: np.where(x > 1e4, x, np.where(x < -1e4, -0.0, f(np.clip(x, -1e4, 1e4))))


def _steep(f: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """g f(x), where f is a slope that is 1 far right and 0 far left."""
    return lambda g, x: g * f(np.clip(x, -1e4, 1e4))


def _bent(x: np.ndarray) -> np.ndarray:
    return 2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)


def _silu_slope(x: np.ndarray) -> np.ndarray:
    return sigmoid(x) * (1 + x * sigmoid(-x))


def _gelu_tanh_slope(x: np.ndarray) -> np.ndarray:
    z = _bent(x)
    return sigmoid(z) * (1 + x * sigmoid(-z) * 2 * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x))


gelu = _within(lambda x: x * _erfc(-x / np.sqrt(2)) / 2)
gelu_tanh = _within(lambda x: x * sigmoid(_bent(x)))
silu = _within(lambda x: x * sigmoid(x))
gelu_bwd = _steep(lambda x: _erfc(-x / np.sqrt(2)) / 2 + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi))
gelu_tanh_bwd = _steep(_gelu_tanh_slope)
silu_bwd = _steep(_silu_slope)


def softplus(x: np.ndarray, beta: float = 1.0, threshold: float = 20.0) -> np.ndarray:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta)


def softplus_bwd(g: np.ndarray, x: np.ndarray, f: tuple[float, float]) -> np.ndarray:
    return g * np.where(x * f[0] > f[1], 1, sigmoid(x * f[0]))


def softmax(x: np.ndarray, dim: int) -> np.ndarray:
    if not x.size:
        return x
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


def log_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    if not x.size:
        return x
    shifted = x - x.max(axis=dim, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=dim, keepdims=True))


def logsumexp(x: np.ndarray, dim: Any, keepdim: bool = False) -> np.ndarray:
    m = x.max(axis=dim, keepdims=True, initial=-np.inf)
    m = np.where(np.isfinite(m), m, 0)
    y = np.log(np.exp(x - m).sum(axis=dim, keepdims=True)) + m
    return y if keepdim else y.squeeze(dim)


def softmax_bwd(g: np.ndarray, y: np.ndarray, i: tuple[int]) -> np.ndarray:
    axis = i[0] - 4
    return y * (g - (g * y).sum(axis=axis, keepdims=True))


def log_softmax_bwd(g: np.ndarray, y: np.ndarray, i: tuple[int]) -> np.ndarray:
    return g - np.exp(y) * g.sum(axis=i[0] - 4, keepdims=True)


# ---- Norms -------------------------------------------------------------------------------------------------


def _normal(x: np.ndarray, count: int, eps: float, centred: bool) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """The rows of x normalised over the last dimensions, 1 / sqrt(var + eps), and these dimensions."""
    axes = tuple(range(x.ndim - count, x.ndim))
    d = x - x.mean(axis=axes, keepdims=True) if centred and x.size else x
    scale = 1 / np.sqrt((d * d).mean(axis=axes, keepdims=True) + eps) if x.size else np.ones(())
    return d * scale, scale, axes


def layer_norm(x: np.ndarray, w: Any = None, b: Any = None, *, shape: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    return _normal(x, len(shape), eps, True)[0] * (1 if w is None else w) + (0 if b is None else b)


def rms_norm(x: np.ndarray, w: Any = None, *, shape: tuple[int, ...], eps: float = 1e-6) -> np.ndarray:
    return np.asarray(_normal(x, len(shape), eps, False)[0] * (1 if w is None else w))


def norm_bwd(g: np.ndarray, x: np.ndarray, w: Any, *, i: tuple[int, int], f: tuple[float], centred: bool) -> tuple[np.ndarray, ...]:
    """dx, dweight and dbias; those that bits of i[1] do not ask for are empty."""
    return _norm_bwd(g, x, w, i, f, centred, lambda a: a)


def norm_bwd_scale(g: np.ndarray, x: np.ndarray, w: Any, *, i: tuple[int, int], f: tuple[float], centred: bool) -> tuple[np.ndarray, ...]:
    """The same with every term's magnitude."""
    return _norm_bwd(g, x, w, i, f, centred, np.abs)


def _norm_bwd(
    g: np.ndarray, x: np.ndarray, w: Any, i: tuple[int, int], f: tuple[float], centred: bool, part: Callable[[Any], Any]
) -> tuple[np.ndarray, ...]:
    xh, scale, axes = _normal(x, i[0], f[0], centred)
    xh, g = part(xh), part(g)
    gw, sign = g if w is None else g * part(w), -1 if part is not np.abs else 1
    dx = gw + sign * xh * (gw * xh).mean(axis=axes, keepdims=True) + (sign * gw.mean(axis=axes, keepdims=True) if centred else 0)
    rows = tuple(range(x.ndim - i[0]))
    made = (dx * scale, (g * xh).sum(axis=rows), g.sum(axis=rows))[: 2 + centred]
    return tuple(a if i[1] >> k & 1 else np.zeros(0) for k, a in enumerate(made))


# ---- Losses ------------------------------------------------------------------------------------------------


def reduced(x: np.ndarray, reduction: str, count: float) -> np.ndarray:
    return x if reduction == "none" else np.asarray(x.sum() / (count if reduction == "mean" else 1))


def targets(x: np.ndarray, target: np.ndarray, weight: np.ndarray | None, ignore_index: int, smoothing: float) -> tuple[np.ndarray, float]:
    """The weighted probabilities q (N, C) of loss_n = -sum_c q_nc log p_nc, and what a mean divides by."""
    n, classes = x.shape
    w = np.ones(classes) if weight is None else weight
    if target.dtype.kind == "f":
        return ((1 - smoothing) * target + smoothing / classes) * w, float(n)
    kept = target != ignore_index
    hard = np.zeros((n, classes))
    hard[np.flatnonzero(kept), target[kept]] = 1
    q = ((1 - smoothing) * hard + smoothing / classes) * w
    return q * kept[:, None], float(w[target[kept]].sum())


def cross_entropy(
    x: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None, *, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> np.ndarray:  # fmt: skip
    shape = target.shape if target.dtype.kind == "i" else target.shape[:1] + target.shape[2:] if x.ndim > 1 else ()
    if x.ndim == 1:
        x, target = x[None], target[None]
    elif x.ndim > 2:
        target = np.moveaxis(target, 1, -1).reshape(-1, x.shape[1]) if target.dtype.kind == "f" else target.reshape(-1)
        x = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
    q, total = targets(x, target, weight, ignore_index, label_smoothing)
    losses = -(q * log_softmax(x, 1)).sum(axis=1) if x.size else np.zeros(x.shape[0])
    return reduced(losses, reduction, total).reshape(shape if reduction == "none" else ())


def cross_entropy_bwd(
    g: np.ndarray, x: np.ndarray, target: np.ndarray, weight: np.ndarray | None, *, i: tuple[int, int], f: tuple[float]
) -> np.ndarray:  # fmt: skip
    q, total = targets(x, target, weight, i[0], f[0])
    slope = q.sum(axis=1, keepdims=True) * softmax(x, 1) - q
    return slope * (g[:, None] if i[1] == 0 else g / (total if i[1] == 1 else 1))


def mse_loss(x: np.ndarray, y: np.ndarray, reduction: str = "mean") -> np.ndarray:
    return reduced((x - y) ** 2, reduction, x.size)


def mse_loss_bwd(g: np.ndarray, x: np.ndarray, y: np.ndarray, *, i: tuple[int]) -> np.ndarray:
    return 2 * g * (x - y) / (x.size if i[0] == 1 else 1)


# ---- LSTM ----------------------------------------------------------------------------------------------------


def _lstm_steps(
    x: np.ndarray, h: np.ndarray | None, c: np.ndarray | None, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray | None,
    b_hh: np.ndarray | None, lengths: np.ndarray | None, reverse: bool,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """Step by step (T, B, I) -> t, which rows are real, their gates, cells and hidden states before and after."""
    steps, batch, _ = x.shape
    hidden = w_hh.shape[1]
    h = np.zeros((batch, hidden)) if h is None else h
    c = np.zeros((batch, hidden)) if c is None else c
    bias = sum(b for b in (b_ih, b_hh) if b is not None)
    for t in reversed(range(steps)) if reverse else range(steps):
        a, b, g, o = np.split(x[t] @ w_ih.T + h @ w_hh.T + bias, 4, axis=1)
        gates = sigmoid(a), sigmoid(b), np.tanh(g), sigmoid(o)
        cell = gates[1] * c + gates[0] * gates[2]
        real = np.ones((batch, 1), bool) if lengths is None else (t < lengths)[:, None]
        new_h, new_c = np.where(real, gates[3] * np.tanh(cell), h), np.where(real, cell, c)
        yield t, real, gates, c, h, new_c, new_h
        h, c = new_h, new_c


def lstm(x: np.ndarray, *others: Any, reverse: bool = False, batch_first: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y, h_n, c_n of one layer in one direction; a reversed one starts at a sequence's last real step."""
    x = x.swapaxes(0, 1) if batch_first else x
    y = np.zeros((*x.shape[:2], others[3].shape[1]))
    for t, real, *_, c, h in _lstm_steps(x, *others, reverse):
        y[t], last = np.where(real, h, 0), (h, c)
    return (y.swapaxes(0, 1) if batch_first else y, *last)


def lstm_bwd(
    dy: np.ndarray | None,
    dh: np.ndarray | None,
    dc: np.ndarray | None,
    x: np.ndarray,
    *others: Any,
    reverse: bool = False,
    batch_first: bool = False,
) -> tuple[np.ndarray, ...]:
    """Slopes of the gates before activation, hidden states before each step (both 0 past a length), slopes of h0 and c0."""
    flip = (lambda a: a.swapaxes(0, 1)) if batch_first else (lambda a: a)
    x, w_hh = flip(x), others[3]
    state = (x.shape[1], w_hh.shape[1])
    dy = np.zeros((x.shape[0], *state)) if dy is None else flip(dy)
    dh, dc = (np.zeros(state) if d is None else d for d in (dh, dc))
    dgates, before = np.zeros((*x.shape[:2], 4 * state[1])), np.zeros((x.shape[0], *state))
    for t, real, (i, f, g, o), c, h, new_c, _ in reversed(list(_lstm_steps(x, *others, reverse))):
        through = dh + dy[t]
        inner = dc + through * o * (1 - np.tanh(new_c) ** 2)
        slopes = inner * g * i * (1 - i), inner * c * f * (1 - f), inner * i * (1 - g * g), through * np.tanh(new_c) * o * (1 - o)
        dgates[t] = np.where(real, np.concatenate(slopes, axis=1), 0)
        before[t] = np.where(real, h, 0)
        dh, dc = np.where(real, dgates[t] @ w_hh, dh), np.where(real, inner * f, dc)
    return flip(dgates), flip(before), dh, dc


# ---- Random numbers: Philox4x32-10 (Salmon and others, SC 2011) ---------------------------------------------------


def philox(seed: int, counters: np.ndarray, half: int = 0) -> np.ndarray:
    """Four 32-bit words for each counter, (n, 4), as uint64."""
    low = np.uint64(0xFFFFFFFF)
    counters, zero = counters.astype(np.uint64), np.zeros(counters.shape, np.uint64)
    c = [counters & low, counters >> np.uint64(32), zero + np.uint64(half), zero]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=-1)


def words32(seed: int, position: int, n: int) -> np.ndarray:
    """One 32-bit word for each of n elements."""
    return philox(seed, position + np.arange(-(-n // 4))).reshape(-1)[:n]


def words64(seed: int, position: int, n: int) -> np.ndarray:
    """One 64-bit word for each of n elements: 0 and 1 of a counter from its half 0, 2 and 3 from half 1."""
    counters = position + np.arange(-(-n // 4))
    w = np.stack([philox(seed, counters, half) for half in (0, 1)], axis=1).reshape(-1, 4, 2)
    return (w[..., 0] | w[..., 1] << np.uint64(32)).reshape(-1)[:n]


SEED, POSITION = 0x123456789ABCDEF, 77


def _sized(fill: Callable[[int, str], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda *, size, dtype, **k: fill(int(np.prod(size)), dtype, **k).reshape(size)


@_sized
def uniform(n: int, dtype: str) -> np.ndarray:
    if dtype == "float32":
        return (words32(SEED, POSITION, n) >> np.uint64(8)).astype(np.float64) * 2.0**-24
    return (words64(SEED, POSITION, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@_sized
def normal(n: int, dtype: str) -> np.ndarray:
    """Box and Muller: each pair of words gives a radius and an angle, the latter as a quarter and a signed rest."""
    bits = 32 if dtype == "float32" else 64
    words = (words32 if bits == 32 else words64)(SEED, POSITION, n + n % 2)
    u = ((words[0::2] >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0 ** -(bits - 1)
    quarter, rest = words[1::2] >> np.uint64(bits - 2), (words[1::2] << np.uint64(66 - bits)).astype(np.int64)
    radius, angle = np.sqrt(-2 * np.log(u)), quarter * (np.pi / 2) + rest * (np.pi / 4 / 2.0**63)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:n]


@_sized
def randint(n: int, dtype: str, low: int, high: int) -> np.ndarray:
    return np.array([low + ((int(w) * (high - low)) >> 64) for w in words64(SEED, POSITION, n)], np.int64)


def dropout(x: np.ndarray, p: float) -> np.ndarray:
    keep = (words32(SEED, POSITION, x.size) >> np.uint64(8)) >= np.ceil(p * 2**24)
    return np.where(keep.reshape(x.shape), x * (1 / (1 - p) if p < 1 else 0), 0)


def amin_of(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return np.min(x, axis=dim, keepdims=keepdim)


def amax_of(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return np.max(x, axis=dim, keepdims=keepdim)
