"""Specs of functions that arrange, order, pick and multiply, and are made of ops."""

from __future__ import annotations

from typing import Any

import numpy as np
from spec_kinds import ALL, EXACT, FLOATS, NUMBERS, SUMMED, Domain, Given, Ints, Spec, case, named, ones

import gradino as gd

CLOSE = {"rtol": SUMMED, "atol": (2e-5, 1e-12), "canaries": False}
DISTINCT = Domain(-9, 9, nonzero=True)
MARKS = {"order": 0, "out": "int64"}


def _moving(name: str, ref: Any, *cases: Any, **more: Any) -> Spec:
    """A function that moves elements and changes none."""
    return Spec(name=name, ref=ref, cases=cases, **({"call": named(name), "dtypes": ALL, "rtol": EXACT, "canaries": False} | more))


def _float(name: str, ref: Any, *cases: Any, **more: Any) -> Spec:
    return Spec(name=name, ref=ref, cases=cases, **({"call": named(name)} | CLOSE | more))


def _listed(name: str) -> Any:
    """A call with all tensors as one list."""
    return lambda m, *tensors: getattr(m, name)(tensors)


def _pairs(name: str) -> Any:
    return lambda m, x, **more: tuple(getattr(m, name)(x, **more))


def _block_diag(*blocks: np.ndarray) -> np.ndarray:
    blocks = tuple(np.atleast_2d(b) for b in blocks)
    out, i, j = np.zeros([sum(b.shape[d] for b in blocks) for d in (0, 1)], blocks[0].dtype), 0, 0
    for b in blocks:
        out[i : i + b.shape[0], j : j + b.shape[1]] = b
        i, j = i + b.shape[0], j + b.shape[1]
    return out


def _embedded(x: np.ndarray, offset: int = 0) -> np.ndarray:
    n = x.shape[-1] + abs(offset)
    out, k = np.zeros((*x.shape[:-1], n, n), x.dtype), np.arange(x.shape[-1])
    out[..., k + max(-offset, 0), k + max(offset, 0)] = x
    return out


def _replaced(at: Any) -> Any:
    """A reference that writes src at a place of a copy."""

    def ref(x: np.ndarray, src: np.ndarray, **attributes: Any) -> np.ndarray:
        out = np.array(x)
        where = at(**attributes)
        if callable(where):
            where(out)[...] = src
        else:
            out[where] = src
        return out

    return ref


def _kth(x: np.ndarray, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    places = np.argsort(x, dim, kind="stable")
    at = np.take(places, [k - 1], dim)
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (values.squeeze(dim), at.squeeze(dim))


def _median(x: np.ndarray, dim: int = -1, keepdim: bool = False) -> Any:
    return _kth(x, (x.shape[dim] + 1) // 2, dim, keepdim)


def _mode(x: np.ndarray, dim: int = -1) -> Any:
    def one(line: np.ndarray) -> Any:
        values, counts = np.unique(line, return_counts=True)
        best = values[np.argmax(counts)]
        return best, np.nonzero(line == best)[0][-1]

    moved = np.moveaxis(x, dim, -1)
    found = [one(moved[at]) for at in np.ndindex(moved.shape[:-1])]
    return tuple(np.array([f[k] for f in found]).reshape(moved.shape[:-1]) for k in (0, 1))


def _trapezoids(y: np.ndarray, x: np.ndarray | None = None, dx: float = 1) -> np.ndarray:
    widths = dx if x is None else np.diff(x)
    return np.cumsum((y[..., 1:] + y[..., :-1]) * widths / 2, -1)


ARRANGED = (
    _moving("fliplr", np.fliplr, case((2, 3)), case((2, 3, 4)), errors=((gd.ShapeError, "at least 2", lambda: gd.fliplr(ones(2))),)),
    _moving("flipud", np.flipud, case((3,)), case((3, 2)), errors=((gd.ShapeError, "at least 1", lambda: gd.flipud(ones())),)),
    _moving(
        "roll",
        lambda x, shifts, dims=None: np.roll(x, shifts, dims),
        case((5,), shifts=2),
        case((3, 4), shifts=-1, dims=1),
        case((3, 4), shifts=(1, 6), dims=(0, 1)),
        case((2, 3, 2), shifts=5),
        case((0, 3), shifts=1, dims=0),
        errors=((gd.InvalidValueError, "shifts", lambda: gd.roll(ones(2, 3), (1, 2), 0)),),
    ),
    _moving(
        "rot90",
        lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
        *(case((2, 3), k=k) for k in range(-1, 4)),
        case((2, 3, 4), dims=(1, 2)),
        errors=((gd.InvalidValueError, "two dimensions", lambda: gd.rot90(ones(2, 2), 1, (0,))),),
    ),
    _moving(
        "tile",
        lambda x, dims: np.tile(x, dims),
        case((3,), dims=(2,)),
        case((2, 3), dims=(2, 1, 2)),
        case((2, 3), dims=(3,)),
        case((), dims=(2,)),
        case((2,), dims=(0,)),
        errors=((gd.InvalidValueError, "at least 0", lambda: gd.tile(ones(2), (-1,))),),
    ),
    _moving(
        "repeat_interleave",
        lambda x, repeats, dim=None: np.repeat(x, repeats, dim),
        case((3,), repeats=2),
        case((2, 3), repeats=2, dim=1),
        case((2, 2, 2, 2), repeats=3, dim=2),
        case((2, 3), repeats=0, dim=0),
        errors=(
            (gd.InvalidValueError, "at least 0", lambda: gd.repeat_interleave(ones(2), -1)),
            (gd.ShapeError, "one for all", lambda: gd.repeat_interleave(ones(3), gd.tensor([1, 2]), 0)),
        ),
    ),
    _moving(
        "repeat_interleave_each",
        lambda x, n, dim: np.repeat(x, n, dim),
        case((3, 2), Given((2, 0, 3)), dim=0),
        call=lambda m, x, n, dim: m.repeat_interleave(x, n, dim),
    ),
    _moving(
        "movedim",
        lambda x, source, destination: np.moveaxis(x, source, destination),
        case((2, 3, 4), source=0, destination=-1),
        case((2, 3, 4, 2), source=(0, 2), destination=(2, 1)),
        errors=((gd.InvalidValueError, "places", lambda: gd.movedim(ones(2, 2), (0, 1), 0)),),
    ),
    _moving("moveaxis", lambda x, source, destination: np.moveaxis(x, source, destination), case((2, 3, 4), source=1, destination=0)),
    _moving("swapaxes", lambda x, axis0, axis1: np.swapaxes(x, axis0, axis1), case((2, 3, 4), axis0=0, axis1=-1)),
    _moving("swapdims", lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1), case((2, 3, 4), dim0=0, dim1=1)),
    _moving(
        "unflatten",
        lambda x, dim, sizes: x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :]),
        case((6, 2), dim=0, sizes=(2, -1)),
        case((2, 6), dim=1, sizes=(3, 2)),
        errors=((gd.ShapeError, "multiply", lambda: gd.unflatten(ones(6), 0, (4, 2))),),
    ),
    _moving("ravel", np.ravel, case((2, 3)), case(()), case((0, 2))),
    _moving("broadcast_to", lambda x, size: np.broadcast_to(x, size), case((3, 1), size=(2, 3, 4))),
    _moving("broadcast_tensors", lambda *a: tuple(np.broadcast_arrays(*a)), case((3, 1), (2,)), out=("same",) * 2),
    _moving(
        "meshgrid",
        lambda *a, indexing: tuple(np.meshgrid(*a, indexing=indexing)),
        case((2,), (3,), indexing="ij"),
        case((2,), (3,), indexing="xy"),
        out=("same",) * 2,
        errors=((gd.ShapeError, "vectors", lambda: gd.meshgrid(ones(2, 2), indexing="ij")),),
    ),
    _moving("cartesian_prod", lambda a, b: np.stack([g.ravel() for g in np.meshgrid(a, b, indexing="ij")], 1), case((2,), (3,))),
    *(
        _moving(f"atleast_{k}d", f, case(()), case((3,)), case((2, 3)), case((2, 3, 2)))
        for k, f in ((1, np.atleast_1d), (2, np.atleast_2d), (3, np.atleast_3d))
    ),
    *(
        _moving(name, lambda *a, f=f: f(a), *cases, call=_listed(name))
        for name, f, cases in (
            ("hstack", np.hstack, (case((2,), (3,)), case((2, 3), (2, 1)))),
            ("vstack", np.vstack, (case((3,), (3,)), case((2, 3), (1, 3)))),
            ("row_stack", np.vstack, (case((3,), (3,)),)),
            ("dstack", np.dstack, (case((3,), (3,)), case((2, 3), (2, 3)))),
            ("column_stack", np.column_stack, (case((3,), (3, 2)), case((2, 3), (2, 1)))),
        )
    ),
    _moving(
        "tensor_split",
        lambda x, dim=0: tuple(np.array_split(x, 3, dim)),
        case((7,)),
        case((2, 4), dim=1),
        out=("same",) * 3,
        call=lambda m, x, dim=0: m.tensor_split(x, 3, dim),
    ),
    *(
        _moving(name, lambda x, f=f: tuple(f(x, 2)), shape, out=("same",) * 2, call=lambda m, x, name=name: getattr(m, name)(x, 2))
        for name, f, shape in (
            ("hsplit", np.hsplit, case((2, 4))),
            ("vsplit", np.vsplit, case((4, 2))),
            ("dsplit", np.dsplit, case((2, 1, 4))),
        )
    ),
    _moving(
        "diag",
        lambda x, diagonal=0: np.diag(x, diagonal),
        case((3,)),
        case((2,), diagonal=-1),
        case((3, 4), diagonal=1),
        case((3, 3)),
        errors=((gd.ShapeError, "neither", lambda: gd.diag(ones(2, 2, 2))),),
    ),
    _moving("diag_embed", _embedded, case((2, 3)), case((2,), offset=-2), case((2, 2, 2), offset=1)),
    _moving("diagflat", lambda x, offset=0: np.diagflat(x, offset), case((2, 2)), case((2,), offset=1)),
    _float("trace", np.trace, case((3, 4)), dtypes=NUMBERS, out="wide", errors=((gd.ShapeError, "no matrix", lambda: gd.trace(ones(2))),)),
    _moving("block_diag", _block_diag, case((2, 3), (1, 2)), case((2,), (2, 2), ())),
    _moving("select_scatter", _replaced(lambda dim, index: (slice(None),) * dim + (index,)), case((3, 4), (3,), dim=1, index=2)),
    _moving(
        "slice_scatter",
        _replaced(lambda dim, start, end: (slice(None),) * dim + (slice(start, end),)),
        case((3, 4), (3, 2), dim=1, start=1, end=3),
    ),
    _moving("diagonal_scatter", _replaced(lambda offset: lambda out: np.einsum("ii->i", out[:, offset:])), case((3, 4), (3,), offset=1)),
)

ORDERED = (
    _moving(
        "argsort",
        lambda x, dim=-1, descending=False: np.argsort(-x if descending else x, dim, kind="stable"),
        case((7,)),
        case((3, 4), dim=0),
        case((2, 30), descending=True),
        dtypes=FLOATS,
        call=lambda m, x, **k: m.argsort(x, stable=True, **k),
        **MARKS,
    ),
    _moving("msort", lambda x: np.sort(x, 0), case((5,)), case((3, 4))),
    _moving(
        "kthvalue",
        _kth,
        case((7,), k=3),
        case((3, 4), k=2, dim=0, keepdim=True),
        call=_pairs("kthvalue"),
        dtypes=FLOATS,
        domain=DISTINCT,
        out=("same", "int64"),
        errors=((gd.OutOfRangeError, "k is 0", lambda: gd.kthvalue(ones(3), 0)),),
    ),
    _moving(
        "median",
        _median,
        case((7,), dim=0),
        case((3, 4), dim=-1),
        case((2, 6), dim=1, keepdim=True),
        call=_pairs("median"),
        dtypes=FLOATS,
        domain=DISTINCT,
        out=("same", "int64"),
        errors=((gd.OutOfRangeError, "no elements", lambda: gd.median(ones(2, 0), 1)),),
    ),
    _moving(
        "nanmedian",
        _median,
        case((7,), dim=0),
        case((3, 4), dim=-1),
        call=_pairs("nanmedian"),
        dtypes=FLOATS,
        domain=DISTINCT,
        out=("same", "int64"),
    ),
    _moving(
        "mode",
        _mode,
        case((9,)),
        case((4, 7), dim=1),
        call=_pairs("mode"),
        dtypes=("int64", "int32"),
        order=0,
        out=("same", "int64"),
        torch=False,
    ),
    *(
        _float(
            name,
            lambda x, q, dim=None, interpolation="linear": np.quantile(x, q, axis=dim, method=interpolation),
            case((9,), q=0.3),
            case((3, 4), q=0.5, dim=1),
            case((2, 6), q=1.0, dim=1),
            case((5,), q=0.6, interpolation="higher"),
            case((5,), q=0.6, interpolation="lower"),
            domain=DISTINCT,
        )
        for name in ("quantile", "nanquantile")
    ),
    _moving("unique", np.unique, case((30,)), case((3, 4)), case((0,)), order=0),
    _moving("unique_consecutive", lambda x: x[np.concatenate([[True], x[1:] != x[:-1]])], case((20,)), order=0),
    _moving(
        "bucketize",
        lambda x, edges: np.searchsorted(np.sort(edges), x),
        case((7,), (3,)),
        dtypes=NUMBERS,
        call=lambda m, x, edges: m.bucketize(x, m.sort(edges).values),
        **MARKS,
    ),
    _float(
        "histc",
        lambda x, **k: np.histogram(x, k["bins"], (k["min"], k["max"]))[0].astype(x.dtype),
        case((90,), bins=7, min=-2, max=2),
        order=0,
    ),
    _moving(
        "bincount",
        lambda x, minlength=0: np.bincount(x, minlength=minlength),
        case(Ints((30,), 0, 9)),
        case(Ints((0,), 0, 9), minlength=3),
        dtypes=("int64",),
        **MARKS,
    ),
    _moving("isin", lambda x, y: np.isin(x, y), case((9,), (3,)), case((2, 3), (0,)), dtypes=NUMBERS, order=0, out="bool"),
    _moving("diff", lambda x, n=1, dim=-1: np.diff(x, n, dim), case((7,)), case((3, 4), dim=0), case((9,), n=3), case((1,)), **CLOSE),
    *(
        _float(
            name,
            lambda y, x=None, dim=-1: np.trapezoid(y, x, axis=dim) if hasattr(np, "trapezoid") else np.trapz(y, x, axis=dim),
            case((7,)),
            case((2, 5), (5,)),
            case((3, 4), dim=0),
        )
        for name in ("trapezoid", "trapz")
    ),
    _float("cumulative_trapezoid", _trapezoids, case((7,)), case((2, 5), (5,))),
)

COMPOSED_MOVES = (*ARRANGED, *ORDERED)
OTHER_ARGUMENTS = (
    "tile",
    "hstack",
    "tensor_split",
    "hsplit",
    "vsplit",
    "dsplit",
    "scatter_add",
    "scatter_reduce",
    "index_add",
    "index_copy",
    "index_fill",
    "index_reduce",
    "index_put",
    "bucketize",
    "isin",
    "cdist",
    "chain_matmul",
    "sort",
    "searchsorted",
    "linear_scan",
    "scatter",
    "vector_norm",
    "unfold",
    "narrow",
    "select",
    "broadcast_to",
)
"""Functions that a method of that name is not called like, or a spec not like them."""
