"""Specs of functions that pick, write at an index and multiply, and are made of ops."""

from __future__ import annotations

from typing import Any

import numpy as np
from composed_moves import CLOSE, MARKS, _float, _moving
from spec_kinds import NUMBERS, Bools, Domain, Given, Ints, Spec, case, ones

import gradino as gd


def _along(name: str) -> Any:
    """A call (input, dim, index, ..)."""
    return lambda m, x, *rest, dim, **more: getattr(m, name)(x, dim, *rest, **more)


def _added(at: Any) -> Any:
    """A reference that adds src[k] to the places at(index)[k] of a copy along an axis."""

    def ref(x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, alpha: float = 1) -> np.ndarray:
        out = np.array(x)
        at(np.moveaxis(out, dim, 0), index, np.moveaxis(src, dim, 0) * alpha)
        return out

    return ref


def _set_rows(out: np.ndarray, index: np.ndarray, src: Any) -> None:
    for k, i in enumerate(index):
        out[i] = src[k] if np.ndim(src) else src


def _scatter_add(x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> np.ndarray:
    out = np.array(x)
    for at in np.ndindex(index.shape):
        out[(*at[:dim], index[at], *at[dim + 1 :])] += src[at]
    return out


def _scatter_mean(x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, reduce: str, include_self: bool = True) -> np.ndarray:
    filled = x if include_self else x * (1 - np.sign(_scatter_add(np.zeros_like(x), index, np.ones_like(src), dim)))
    counts = _scatter_add(np.full_like(x, include_self), index, np.ones_like(src), dim)
    return _scatter_add(filled, index, src, dim) / np.maximum(counts, 1)


def _put(x: np.ndarray, index: np.ndarray, src: np.ndarray, accumulate: bool = False) -> np.ndarray:
    out = np.array(x).ravel()
    for i, v in zip(index.ravel(), src.ravel()):
        out[i] = out[i] + v if accumulate else v
    return out.reshape(x.shape)


def _masked_scatter(x: np.ndarray, mask: np.ndarray, src: np.ndarray) -> np.ndarray:
    out = np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)))
    where = np.broadcast_to(mask, out.shape)
    out[where] = src.ravel()[: where.sum()]
    return out


def _renorm(x: np.ndarray, p: float, dim: int, maxnorm: float) -> np.ndarray:
    norms = (np.abs(x) ** p).sum(axis=tuple(d for d in range(x.ndim) if d != dim), keepdims=True) ** (1 / p)
    return x * np.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1)


def _distances(a: np.ndarray, b: np.ndarray, p: float = 2.0) -> np.ndarray:
    return (np.abs(a[..., :, None, :] - b[..., None, :, :]) ** p).sum(-1) ** (1 / p)


PICKED = (
    _moving("take", lambda x, index: x.ravel()[index], case((3, 4), Ints((2, 3), 0, 12))),
    _moving("take_along_dim", lambda x, index, dim: np.take_along_axis(x, index, dim), case((3, 4), Ints((3, 2), 0, 4), dim=1)),
    _float("scatter_add", _scatter_add, case((3, 4), Ints((2, 4), 0, 3), (2, 4), dim=0), call=_along("scatter_add"), dtypes=NUMBERS),
    _float(
        "scatter_reduce",
        _scatter_mean,
        case((3, 4), Ints((3, 6), 0, 4), (3, 6), dim=1, reduce="mean"),
        call=_along("scatter_reduce"),
        errors=((gd.InvalidValueError, "reduce", lambda: gd.scatter_reduce(ones(2), 0, gd.tensor([0]), ones(1), "median")),),
    ),
    _float(
        "index_add",
        _added(np.add.at),
        case((3, 4), Given((2, 0, 2)), (3, 4), dim=0),
        case((2, 3), Given((1, 1)), (2, 2), dim=1, alpha=2),
        call=_along("index_add"),
        dtypes=NUMBERS,
    ),
    _moving("index_copy", _added(_set_rows), case((3, 4), Given((2, 0)), (2, 4), dim=0), call=_along("index_copy")),
    _moving(
        "index_fill",
        lambda x, index, dim: _added(_set_rows)(x, index, np.broadcast_to(1, (len(index), *x.shape[1:])), dim),
        case((3, 4), Given((2, 0)), dim=0),
        call=lambda m, x, index, dim: m.index_fill(x, dim, index, 1),
    ),
    _float(
        "index_reduce",
        _added(np.multiply.at),
        case((3, 4), Given((2, 0, 2)), (3, 4), dim=0),
        call=lambda m, x, i, s, dim: m.index_reduce(x, dim, i, s, "prod"),
    ),
    _float(
        "index_put",
        lambda x, i, j, v: _put(x, i * x.shape[1] + j, v, True),
        case((3, 4), Given((2, 0, 2)), Given((1, 3, 1)), (3,)),
        call=lambda m, x, i, j, v: m.index_put(x, (i, j), v, accumulate=True),
        dtypes=NUMBERS,
    ),
    _moving("put", _put, case((3, 4), Given((7, 0, 11)), (3,))),
    _moving(
        "masked_select",
        lambda x, mask: np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape))[
            np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))
        ],
        case((3, 4), Bools((3, 4))),
        case((4,), Bools((3, 1))),
    ),
    _moving("masked_scatter", _masked_scatter, case((3, 4), Bools((3, 4)), (12,)), case((2, 3), Bools((3,)), (2, 3))),
    _moving("argwhere", np.argwhere, case((7,)), case((2, 3, 2)), canaries=False, **MARKS),
    _moving("count_nonzero", lambda x, dim=None: np.count_nonzero(x, dim), case((7,)), case((2, 3), dim=1), **MARKS),
)

MULTIPLIED = (
    _float(
        "norm",
        lambda x, dim=None: np.linalg.norm(x.ravel() if dim is None else x, axis=dim),
        case((7,)),
        case((3, 4)),
        case((3, 4), dim=1),
        domain=Domain(0.1, 2),
    ),
    _float("dist", lambda x, y, p=2: (np.abs(x - y) ** p).sum() ** (1 / p), case((3, 4), (4,)), case((5,), (5,), p=3)),
    _float("renorm", _renorm, case((3, 4), p=2, dim=0, maxnorm=1.5)),
    *(_float(name, np.dot, case((5,), (5,))) for name in ("dot", "vdot")),
    *(_float(name, np.outer, case((3,), (4,)), dtypes=NUMBERS) for name in ("outer", "ger")),
    _float("inner", np.inner, case((2, 3), (4, 3)), case((5,), (5,)), case((), (3,))),
    _float("mv", np.matmul, case((2, 3), (3,)), errors=((gd.ShapeError, "2 dimensions", lambda: gd.mv(ones(2), ones(2))),)),
    _float(
        "addmm",
        lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b),
        case((2, 4), (2, 3), (3, 4), beta=2, alpha=-1),
        case((4,), (2, 3), (3, 4)),
    ),
    _float("addmv", lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b), case((2,), (2, 3), (3,), beta=0.5)),
    _float("addr", lambda x, a, b, beta=1, alpha=1: beta * x + alpha * np.outer(a, b), case((2, 3), (2,), (3,), alpha=3)),
    _float("baddbmm", lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b), case((2, 2, 4), (2, 2, 3), (2, 3, 4), beta=2)),
    _float("addbmm", lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b).sum(0), case((2, 4), (3, 2, 3), (3, 3, 4), beta=2)),
    _float("addcmul", lambda x, a, b, value=1: x + value * a * b, case((3, 4), (4,), (3, 1), value=2), dtypes=NUMBERS),
    _float("addcdiv", lambda x, a, b, value=1: x + value * a / b, case((3, 4), (4,), (3, 1), value=2), domain=Domain(0.5, 2)),
    _float("cross", lambda a, b, dim: np.cross(a, b, axis=dim), case((2, 3), (2, 3), dim=1), case((3, 4), (3, 4), dim=0)),
    _float("kron", np.kron, case((2, 3), (3, 2)), case((2,), (3,)), case((2,), (2, 2)), dtypes=NUMBERS),
    _float("cov", np.cov, case((3, 7)), case((5,)), rtol=(1e-5, 1e-12)),
    _float("corrcoef", np.corrcoef, case((3, 7)), rtol=(1e-5, 1e-12)),
    _float("chain_matmul", lambda *a: np.linalg.multi_dot(a), case((2, 5), (5, 3), (3, 4))),
    _float(
        "tensordot",
        lambda a, b, dims: np.tensordot(a, b, dims),
        case((2, 3, 4), (3, 4, 2), dims=2),
        case((2, 3), (4, 2), dims=([0], [1])),
        errors=((gd.ShapeError, "pair 0", lambda: gd.tensordot(ones(2, 3), ones(2, 3), 1)),),
    ),
    _float("cdist", _distances, case((4, 3), (5, 3)), case((2, 4, 3), (2, 5, 3), p=1.0), case((2, 4, 3), (5, 3), p=3.0)),
    *(
        Spec(
            name=f"einsum {text}",
            call=lambda m, *t, text=text: m.einsum(text, *t),
            ref=lambda *a, text=text: np.einsum(text, *a),
            cases=(case(*shapes),),
            **CLOSE,
        )
        for text, shapes in (
            ("ij,jk->ik", ((2, 3), (3, 4))),
            ("bij,bjk", ((2, 2, 3), (2, 3, 4))),
            ("ii->i", ((3, 3),)),
            ("ii", ((3, 3),)),
            ("ij->ji", ((2, 3),)),
            ("ij->", ((2, 3),)),
            ("i,j->ij", ((2,), (3,))),
            ("bhqd,bhkd->bhqk", ((2, 2, 3, 4), (2, 2, 5, 4))),
            ("ij,ij->", ((2, 3), (2, 3))),
            ("...ij,...jk->...ik", ((2, 1, 2, 3), (4, 3, 2))),
            ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
            ("iij,jk->ik", ((2, 2, 3), (3, 2))),
            ("bi,oi->bo", ((2, 3), (4, 3))),
            ("i,i,i->i", ((3,), (3,), (3,))),
            ("ab,cd->", ((2, 3), (2, 2))),
            ("...,...->...", ((2, 3), (3,))),
        )
    ),
)

COMPOSED_PICKS = (*PICKED, *MULTIPLIED)
