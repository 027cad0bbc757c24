"""Losses over pairs of tensors, and the negative log-likelihood. See the package's own text for how entries read."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from spec_kinds import SUMMED, Const, Domain, Given, Ints, Spec, case, ones, raw

import gradino as gd

F = gd.nn.functional
HOW = {0: "none", 1: "mean", 2: "sum"}


def _reduced(loss: Any, reduction: str) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"):
        return loss if reduction == "none" else loss.sum() / max(loss.size, 1) if reduction == "mean" else loss.sum()


def _spread(g: Any, slope: Any, i: tuple[int, ...]) -> Any:
    return g * slope / (slope.size if i[0] == 1 else 1)


def _smooth(x: Any, y: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    d = np.abs(x - y)
    return _reduced(np.where(d < beta, d * d / (2 * beta or 1), d - beta / 2), reduction)


def _smooth_bwd(g: Any, x: Any, y: Any, i: tuple[int, ...], f: tuple[float, ...]) -> Any:
    d, huber = x - y, len(i) > 1 and i[1]
    slope = np.where(np.abs(d) < f[0], d / (f[0] or 1), np.sign(d)) * (f[0] if huber else 1)
    return _spread(g, slope, i)


def _logits(x: Any, y: Any, reduction: str = "mean") -> Any:
    return _reduced(np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x))), reduction)


def _bce(x: Any, y: Any, reduction: str = "mean") -> Any:
    return _reduced(-(y * np.log(x) + (1 - y) * np.log1p(-x)), reduction)


def _bce_bwd(g: Any, x: Any, y: Any, i: tuple[int, ...]) -> Any:
    return _spread(g, (x - y) / np.maximum(x * (1 - x), 1e-12), i)


def _weights(t: Any, w: Any, classes: int, ignored: int) -> Any:
    valid = t != ignored
    return np.where(valid, np.ones(len(t)) if w is None else w[np.where(valid, t, 0)], 0)


def _nll(x: Any, t: Any, w: Any = None, reduction: str = "mean", ignore_index: int = -100) -> Any:
    if x.ndim > 2:
        rows = np.moveaxis(x, 1, -1)
        flat = _nll(rows.reshape(-1, x.shape[1]), t.reshape(-1), w, reduction, ignore_index)
        return flat.reshape(t.shape) if reduction == "none" else flat
    share = _weights(t, w, x.shape[1], ignore_index)
    loss = -share * x[np.arange(len(t)), np.where(share == 0, 0, t)]
    return loss if reduction == "none" else loss.sum() / (share.sum() if reduction == "mean" else 1)


def _nll_bwd(g: Any, x: Any, t: Any, w: Any, i: tuple[int, int]) -> Any:
    share = _weights(t, w, x.shape[1], i[0])
    dx = np.zeros(x.shape)
    dx[np.arange(len(t)), np.where(share == 0, 0, t)] = -share * g / (share.sum() if i[1] == 1 else 1)
    return dx


def _nll_bwd_call(m: Any, g: Any, x: Any, t: Any, w: Any, i: tuple[int, int]) -> Any:
    _, normaliser = raw("nll_loss", 2)(m, x, t, w, i=i)
    return raw("nll_loss_bwd")(m, g, x, t, w, normaliser, i=i)


PAIRS = (
    case((5,), (5,)), case((2, 3), (2, 3), reduction="sum"), case((2, 3, 4), (2, 3, 4), reduction="none"), case((), ()),
    case((0,), (0,), reduction="sum"), case((2, 1, 3, 4), (2, 1, 3, 4)), case((1100,), (1100,)),
)  # fmt: skip


def _pair(name: str, ref: Any, bwd: Any, domain: Any, cases: Any = (), attributes: Any = ({},), **more: Any) -> tuple[Spec, Spec]:
    """A loss and its slope."""

    def function(m: Any, *tensors: Any, **options: Any) -> Any:
        return getattr(m.nn.functional, name)(*tensors, **options)

    loss = Spec(
        name=name, python=f"nn.functional.{name}", call=function, ref=ref, domain=domain, cases=(*PAIRS, *cases),
        rows=lambda n: tuple(case((n,), (n,), reduction=how) for how in HOW.values()), large=(case((400, 300), (400, 300)),),
        errors=((gd.InvalidValueError, "reduction", lambda: function(gd, ones(2), ones(2), reduction="x")),
                (gd.DTypeError, "float", lambda: function(gd, ones(2, dtype="int64"), ones(2, dtype="int64")))), **more,
    )  # fmt: skip
    back = Spec(
        name=f"{name}_bwd", call=raw(f"{name}_bwd"), ref=bwd, torch=False, domain=(Domain(), *domain),
        cases=tuple(case(*shapes, i=(k,), **a) for a in attributes for shapes, k in (
            (((), (5,), (5,)), 1), (((), (2, 3), (2, 3)), 2), (((2, 3), (2, 3), (2, 3)), 0))),
        rows=lambda n: (case((), (n,), (n,), i=(1,), **attributes[0]), case((n,), (n,), (n,), i=(0,), **attributes[0])),
        large=(case((), (400, 300), (400, 300), i=(1,), **attributes[0]),), **more,
    )  # fmt: skip
    return loss, back


# fmt: off
PAIR_LOSSES = (
    *_pair("smooth_l1_loss", _smooth, _smooth_bwd, (Domain(0.5, 3), Domain(-3, -0.5)),
           (case((7,), (7,), beta=4.0), case((7,), (7,), beta=0.0)),
           ({"f": (0.5,)}, {"f": (9.0,)}), rtol=SUMMED, atol=(1e-6, 1e-14)),
    *_pair("binary_cross_entropy_with_logits", _logits, lambda g, x, y, i: _spread(g, expit(x) - y, i), (Domain(-6, 6), Domain(0, 1)),
           rtol=SUMMED, atol=(1e-6, 1e-14)),
    *_pair("binary_cross_entropy", _bce, _bce_bwd, (Domain(0.05, 0.95), Domain(0, 1)), rtol=(3e-6, 1e-13), atol=(1e-6, 1e-14)),
    Spec(name="nll_loss", python="nn.functional.nll_loss", call=lambda m, *t, **k: m.nn.functional.nll_loss(*t, **k), ref=_nll, rtol=SUMMED,
         atol=(1e-6, 1e-14), cases=(
             case((4, 3), Ints((4,), 0, 3)), case((4, 3), Given((2, -100, 0, -100)), reduction="sum"), case((1, 1), Ints((1,), 0, 1)),
             case((4, 3), Given((1, 1, 7, 0)), ignore_index=7), case((5, 4), Ints((5,), 0, 4), Const((4,)), reduction="none"),
             case((2, 3, 4), Ints((2, 4), 0, 3), reduction="none"), case((2, 3, 2, 2), Ints((2, 2, 2), 0, 3)),
             case((0, 3), Ints((0,), 0, 3), reduction="sum")),
         rows=lambda n: (case((3, n), Ints((3,), 0, n), Const((n,))), case((n, 3), Ints((n,), 0, 3))),
         large=(case((90000, 3), Ints((90000,), 0, 3)),),
         errors=((gd.OutOfRangeError, "3 is out of range", lambda: F.nll_loss(ones(1, 3), gd.tensor([3]))),
                 (gd.ShapeError, "one per class", lambda: F.nll_loss(ones(1, 3), gd.tensor([1]), ones(2))))),
    Spec(name="nll_loss_bwd", call=_nll_bwd_call, ref=_nll_bwd, torch=False, canaries=False, rtol=SUMMED,
         cases=(case((), (4, 3), Ints((4,), 0, 3), None, i=(-100, 1)), case((3,), (3, 5), Given((2, -100, 4)), Const((5,)), i=(-100, 0)),
                case((), (4, 3), Ints((4,), 0, 3), Const((3,)), i=(1, 2))),
         rows=lambda n: (case((3,), (3, n), Ints((3,), 0, n), None, i=(-100, 0)),),
         large=(case((), (9000, 17), Ints((9000,), 0, 17), None, i=(-100, 1)),)),
)
# fmt: on
