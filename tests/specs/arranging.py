"""Padding, turning, diagonals and windows. See the package's own text for how entries read."""

from __future__ import annotations

from typing import Any

import numpy as np
from spec_kinds import ALL, EXACT, NUMBERS, SUMMED, Spec, case, named, ones, raw

import gradino as gd

F = gd.nn.functional
MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(x: Any, pad: tuple[int, ...], mode: str = "constant", value: float | None = None) -> Any:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]
    cut = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape))]
    more = {"constant_values": value or 0} if mode == "constant" else {}
    return np.pad(cut, [(max(a, 0), max(b, 0)) for a, b in pairs], MODES[mode], **more)


def _pad_transposed(g: Any, i: tuple[int, ...]) -> Any:
    """What pad does to the numbers of the places says where each gradient goes."""
    shape, pairs = i[9:13], list(zip(i[1:5], i[5:9]))
    mode = list(MODES.values())[i[0]]
    places = np.arange(np.prod(shape)).reshape(shape)
    to = np.pad(places, pairs, mode, **({"constant_values": -1} if mode == "constant" else {}))
    out = np.zeros(places.size + 1)
    np.add.at(out, to.ravel(), g.ravel())  # the constant's go to the last one
    return out[:-1].reshape(shape[4 - g.ndim :])


def _undiagonal(g: Any, i: tuple[int, ...]) -> Any:
    offset, d1, d2, rows, columns = i
    rank = g.ndim + 1
    rest = list(g.shape[:-1])
    out = np.zeros((*rest, rows, columns))
    k = np.arange(g.shape[-1])
    out[..., k + max(-offset, 0), k + max(offset, 0)] = g
    return np.moveaxis(out, (-2, -1), (d1 - 4 + rank, d2 - 4 + rank))


def _unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, size, dimension)
    return np.take(windows, np.arange(0, windows.shape[dimension], step), dimension)


def _unfold_transposed(g: Any, i: tuple[int, ...]) -> Any:
    dim, size, step, entries = i
    axis = dim - 4 + g.ndim - 1
    out = np.zeros((*g.shape[:axis], entries, *g.shape[axis + 1 : -1]))
    moved, windows = np.moveaxis(out, axis, 0), np.moveaxis(g, (axis, -1), (0, 1))
    for w in range(windows.shape[0]):
        for k in range(size):
            moved[w * step + k] += windows[w, k]
    return out


ARRANGING = (
    Spec(
        name="pad",
        python="nn.functional.pad",
        call=lambda m, x, **k: m.nn.functional.pad(x, **k),
        ref=_pad,
        dtypes=NUMBERS,
        rtol=EXACT,
        cases=(
            case((5,), pad=(2, 1)),
            case((3, 4), pad=(1, 0, 0, 2)),
            case((3, 4), pad=(-1, 2)),
            case((2, 3, 4, 2), pad=(0, 1, 2, 0, -1, 1, 1, 1)),
            case((2, 3), pad=()),
            case((0,), pad=(1, 2)),
            case((2, 5), pad=(-3, -2)),
            case((3,), pad=(1, 1), value=2),
            case((2, 5), pad=(3, 2), mode="reflect"),
            case((2, 3, 4), pad=(2, -1, 1, 2), mode="reflect"),
            case((2, 5), pad=(3, 2), mode="replicate"),
            case((2, 3, 2), pad=(2, 0, -1, 4), mode="replicate"),
            case((2, 5), pad=(5, 2), mode="circular"),
            case((2, 3, 4, 3), pad=(1, 2, 0, 3), mode="circular"),
            case((2, 5), pad=(-2, 3), mode="circular"),
        ),
        rows=lambda n: (case((n,), pad=(1, 2)), case((2, n), pad=(n - 1, 1), mode="replicate"), case((n, 2), pad=(0, 0, 1, -1))),
        large=(case((300, 300), pad=(3, 3, 3, 3)), case((20, 60, 70), pad=(9, 9, 9, 9), mode="reflect")),
        errors=(
            (gd.ShapeError, "reflect", lambda: F.pad(ones(2, 3), (3, 0), "reflect")),
            (gd.ShapeError, "do not fit", lambda: F.pad(ones(3), (-2, -2))),
            (gd.ShapeError, "circular", lambda: F.pad(ones(2, 3), (4, 0), "circular")),
            (gd.ShapeError, "one or two more", lambda: F.pad(ones(3), (1, 1), "reflect")),
            (gd.ShapeError, "empty", lambda: F.pad(ones(2, 0), (1, 1), "replicate")),
            (gd.ShapeError, "a pair for each", lambda: F.pad(ones(3), (1, 1, 1, 1))),
            (gd.ShapeError, "a pair for each", lambda: F.pad(ones(3), (1,))),
            (gd.InvalidValueError, "mode", lambda: F.pad(ones(3), (1, 1), "edge")),
            (gd.InvalidValueError, "takes no value", lambda: F.pad(ones(2, 3), (1, 1), "reflect", 2.0)),
        ),
    ),
    Spec(
        name="pad_bwd",
        call=raw("pad_bwd"),
        ref=_pad_transposed,
        rtol=SUMMED,
        atol=(1e-6, 1e-14),
        torch=False,
        cases=(
            case((8,), i=(1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 1, 5)),
            case((2, 6), i=(2, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 2, 3)),
            case((2, 5, 7), i=(3, 0, 0, 1, 2, 0, 0, 1, 1, 1, 2, 3, 4)),
            case((3, 5), i=(0, 0, 0, 1, 0, 0, 0, 0, 2, 1, 1, 2, 3)),
            case((2, 3, 4, 7), i=(1, 0, 0, 1, 1, 0, 0, 0, 2, 2, 3, 3, 4)),
        ),
        rows=lambda n: (
            case((n + 3,), i=(2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 1, n)),
            case((2, n + 2), i=(3, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 2, n)),
        ),
        large=(case((20, 78, 88), i=(1, 0, 0, 9, 9, 0, 0, 9, 9, 1, 20, 60, 70)),),
    ),
    Spec(
        name="flip",
        call=named("flip"),
        ref=lambda x, dims: np.flip(x, dims),
        dtypes=ALL,
        rtol=EXACT,
        cases=(
            case((5,), dims=(0,)),
            case((2, 3), dims=(1,)),
            case((2, 3, 4), dims=(0, -1)),
            case((2, 3, 2, 3), dims=(1, 2)),
            case((0, 3), dims=(0,)),
            case((2, 3), dims=()),
            case((1, 4), dims=(0, 1)),
        ),
        rows=lambda n: (case((n,), dims=(0,)), case((3, n), dims=(0,)), case((n, 3), dims=(0, 1))),
        large=(case((300, 500), dims=(0, 1)),),
        errors=(
            (gd.InvalidValueError, "twice", lambda: gd.flip(ones(2, 3), (0, 0))),
            (gd.OutOfRangeError, "out of range", lambda: gd.flip(ones(2), (1,))),
        ),
    ),
    Spec(
        name="diagonal",
        call=named("diagonal"),
        ref=lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
        dtypes=ALL,
        rtol=EXACT,
        cases=(
            case((3, 4)),
            case((4, 3), offset=1),
            case((3, 3), offset=-2),
            case((2, 3, 4), dim1=-1, dim2=1),
            case((2, 3, 4, 2), dim1=3, dim2=0),
            case((0, 3)),
            case((2, 2), offset=5),
        ),
        errors=(
            (gd.InvalidValueError, "the same", lambda: gd.diagonal(ones(2, 2), 0, 1, 1)),
            (gd.OutOfRangeError, "out of range", lambda: gd.diagonal(ones(2, 2), 0, 0, 2)),
        ),
    ),
    Spec(
        name="undiagonal",
        call=raw("undiagonal"),
        ref=_undiagonal,
        dtypes=ALL,
        rtol=EXACT,
        torch=False,
        cases=(
            case((3,), i=(0, 2, 3, 3, 3)),
            case((2,), i=(1, 2, 3, 4, 3)),
            case((2, 3), i=(-1, 1, 3, 4, 3)),
            case((2, 3, 2), i=(0, 0, 2, 2, 2)),
            case((0,), i=(0, 2, 3, 0, 3)),
        ),
        rows=lambda n: (case((n,), i=(1, 2, 3, n + 1, n + 1)),),
    ),
    Spec(
        name="unfold",
        python="Tensor.unfold",
        call=lambda m, x, dimension, size, step: x.unfold(dimension, size, step),
        ref=_unfold,
        dtypes=ALL,
        rtol=EXACT,
        cases=(
            case((7,), dimension=0, size=3, step=2),
            case((3, 5), dimension=0, size=2, step=1),
            case((2, 3, 6), dimension=-1, size=4, step=1),
            case((2, 5, 3), dimension=1, size=5, step=3),
        ),
        errors=(
            (gd.ShapeError, "do not fit", lambda: ones(3).unfold(0, 4, 1)),
            (gd.InvalidValueError, "step", lambda: ones(3).unfold(0, 1, 0)),
            (gd.ShapeError, "four", lambda: ones(1, 1, 1, 2).unfold(3, 1, 1)),
        ),
    ),
    Spec(
        name="unfold_bwd",
        call=raw("unfold_bwd"),
        ref=_unfold_transposed,
        rtol=SUMMED,
        atol=(1e-6, 1e-14),
        torch=False,
        cases=(case((3, 3), i=(3, 3, 2, 7)), case((2, 4, 3), i=(3, 3, 1, 6)), case((4, 2, 2), i=(2, 2, 1, 5))),
        rows=lambda n: (case((n, 2), i=(3, 2, 1, n + 1)),),
    ),
)
