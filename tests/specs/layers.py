"""Losses, matrix products and recurrent layers. See the package's own text for how entries read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import references as r
from spec_kinds import (
    NUMBERS,
    SUMMED,
    Const,
    Domain,
    Given,
    Ints,
    Spec,
    case,
    named,
    ones,
    raw,
)  # fmt: skip

import gradino as gd
from gradino._core import wrap
from gradino._lib import lib

F = gd.nn.functional


def _lstm(m: Any, *tensors: gd.Tensor | None, reverse: bool = False, batch_first: bool = False) -> tuple[gd.Tensor, ...]:
    y = wrap(lib.gd_lstm(*(0 if t is None else t._h for t in tensors), reverse, batch_first))
    return y, wrap(lib.gd_output(y._h, 1)), wrap(lib.gd_output(y._h, 2))


def _cross_entropy_bwd(m: Any, g: gd.Tensor, *tensors: gd.Tensor | None, i: tuple[int, int], f: tuple[float]) -> gd.Tensor:
    _, lse, normaliser = raw("cross_entropy", 3)(m, *tensors, i=i, f=f)
    return raw("cross_entropy_bwd")(m, g, *tensors, lse, normaliser, i=i, f=f)


def _lstm_bwd(m: Any, dy: Any, dh: Any, dc: Any, *tensors: gd.Tensor | None, **attributes: bool) -> tuple[gd.Tensor, ...]:
    at = (attributes.get("reverse", False), attributes.get("batch_first", False))
    y, _, _, gates, cells = raw("lstm", 5)(m, *tensors, i=at)
    _, h0, c0, _, w_hh, _, _, lengths = tensors
    return raw("lstm_bwd", 4)(m, dy, dh, dc, w_hh, gates, cells, y, h0, c0, lengths, i=at)


# fmt: off
LOSSES = (
    Spec(name="cross_entropy", python="nn.functional.cross_entropy", call=lambda m, *t, **k: m.nn.functional.cross_entropy(*t, **k),
         ref=r.cross_entropy, rtol=SUMMED, atol=(2e-6, 1e-14),
         cases=(  # logits, targets, weight
             case((4, 3), Ints((4,), 0, 3)), case((4, 3), Given((2, -100, 0, -100)), reduction="sum"), case((1, 1), Ints((1,), 0, 1)),
             case((4, 3), Given((1, 1, 7, 0)), ignore_index=7), case((5, 4), Ints((5,), 0, 4), Const((4,)), label_smoothing=0.2),
             case((5, 4), Ints((5,), 0, 4), Const((4,)), reduction="none"), case((3, 4), Const((3, 4), low=0)),
             case((3, 4), Const((3, 4), low=0), Const((4,)), reduction="sum", label_smoothing=0.1), case((3,), Ints((), 0, 3)),
             case((2, 3, 4), Ints((2, 4), 0, 3), reduction="none"), case((2, 3, 2, 2), Ints((2, 2, 2), 0, 3)),
             case((2, 3, 2), Const((2, 3, 2), low=0), reduction="none"), case((0, 3), Ints((0,), 0, 3), reduction="sum"),
             case((2, 67), Ints((2,), 0, 67)), case((2, 67), Const((2, 67), low=0)),
             case((2, 1100), Ints((2,), 0, 1100), label_smoothing=0.1),
             case((2, 1100), Const((2, 1100), low=0), Const((1100,)), label_smoothing=0.1)),
         rows=lambda n: tuple(case((3, n), t, Const((n,)), label_smoothing=0.2) for t in (Ints((3,), 0, n), Const((3, n), low=0))),
         large=(case((9000, 17), Ints((9000,), 0, 17)), case((70, 3000), Const((70, 3000), low=0), reduction="sum")),
         errors=((gd.OutOfRangeError, "-1 is out of range", lambda: F.cross_entropy(ones(1, 3), gd.tensor([-1]))),
                 (gd.OutOfRangeError, "3 is out of range", lambda: F.cross_entropy(ones(1, 3), gd.tensor([3]))),
                 (gd.OutOfRangeError, "-4 is out of range", lambda: F.cross_entropy(ones(1, 3), gd.tensor([-4]))),
                 (gd.ShapeError, "label per row", lambda: F.cross_entropy(ones(2, 3), gd.tensor([1]))),
                 (gd.ShapeError, "one per class", lambda: F.cross_entropy(ones(1, 3), gd.tensor([1]), ones(2))),
                 (gd.ShapeError, "class dimension", lambda: F.cross_entropy(ones(2, 3), ones(2))),
                 (gd.InvalidValueError, "label_smoothing", lambda: F.cross_entropy(ones(1, 3), gd.tensor([1]), label_smoothing=1.5)),
                 (gd.InvalidValueError, "reduction", lambda: F.cross_entropy(ones(1, 3), gd.tensor([1]), reduction="avg")))),
    Spec(name="cross_entropy_bwd", call=_cross_entropy_bwd, ref=r.cross_entropy_bwd, order=0, rtol=SUMMED, atol=(2e-6, 1e-14), torch=False,
         canaries=False, cases=(  # g, logits, targets, weight
             case((), (4, 3), Ints((4,), 0, 3), None, i=(-100, 1), f=(0.0,)),
             case((), (4, 3), Given((2, -100, 0, -100)), Const((3,)), i=(-100, 1), f=(0.2,)),
             case((3,), (3, 5), Const((3, 5), low=0), Const((5,)), i=(-100, 0), f=(0.1,)),
             case((), (2, 67), Ints((2,), 0, 67), None, i=(-100, 2), f=(0.0,)),
             case((), (2, 1100), Const((2, 1100), low=0), Const((1100,)), i=(-100, 1), f=(0.1,)),
             case((2,), (2, 1100), Ints((2,), 0, 1100), None, i=(-100, 0), f=(0.1,))),
         rows=lambda n: tuple(case((3,), (3, n), t, Const((n,)), i=(-100, 0), f=(0.2,)) for t in (Ints((3,), 0, n), Const((3, n), low=0))),
         large=(case((9000,), (9000, 17), Ints((9000,), 0, 17), None, i=(-100, 0), f=(0.0,)),)),
    Spec(name="mse_loss", python="nn.functional.mse_loss", call=lambda m, *t, **k: m.nn.functional.mse_loss(*t, **k), ref=r.mse_loss,
         rtol=SUMMED, cases=(
             case((5,), (5,)), case((2, 3), (2, 3), reduction="sum"), case((2, 3, 4), (2, 3, 4), reduction="none"), case((), ()),
             case((0,), (0,), reduction="sum"), case((2, 1, 3, 4), (2, 1, 3, 4)), case((1100,), (1100,))),
         rows=lambda n: tuple(case((n,), (n,), reduction=how) for how in ("none", "mean", "sum")), large=(case((400, 300), (400, 300)),),
         errors=((gd.ShapeError, "equal", lambda: F.mse_loss(ones(2), ones(3))),
                 (gd.InvalidValueError, "reduction", lambda: F.mse_loss(ones(2), ones(2), reduction="x")))),
    Spec(name="mse_loss_bwd", call=raw("mse_loss_bwd"), ref=r.mse_loss_bwd, rtol=SUMMED, torch=False,
         cases=(case((), (5,), (5,), i=(1,)), case((), (2, 3), (2, 3), i=(2,)), case((2, 3), (2, 3), (2, 3), i=(0,))),
         rows=lambda n: (case((), (n,), (n,), i=(1,)), case((n,), (n,), (n,), i=(0,))), large=(case((), (400, 300), (400, 300), i=(1,)),)),
)

LSTM_CASES = (  # x, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths
    case((3, 2, 2), (2, 3), (2, 3), (12, 2), (12, 3), (12,), (12,), None),
    case((3, 2, 2), None, None, (12, 2), (12, 3), None, None, None, reverse=True),
    case((2, 4, 3), (2, 2), (2, 2), (8, 3), (8, 2), (8,), (8,), Given((4, 2)), batch_first=True),
    case((4, 3, 1), None, None, (8, 1), (8, 2), (8,), (8,), Given((1, 4, 2)), reverse=True),
    case((1, 1, 1), None, None, (4, 1), (4, 1), (4,), (4,), None),
)

LSTM_SLOPES = (  # dy, dh, dc
    ((3, 2, 3), (2, 3), (2, 3)), ((3, 2, 3), None, (2, 3)), ((2, 4, 2), (2, 2), None), ((4, 3, 2), (3, 2), (3, 2)), (None, (1, 1), None),
)

PRODUCTS = (
    Spec(name="matmul", call=named("matmul"), ref=np.matmul, dtypes=NUMBERS, rtol=SUMMED, scale=lambda a, b: np.abs(a) @ np.abs(b),
         cases=tuple(case(a, b) for a, b in (
             ((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
             ((2, 1, 2, 3), (4, 3, 2)), ((2, 3, 4, 2), (2, 1, 2, 3)), ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((1, 1), (1, 1)),
             ((3, 17), (17, 33)), ((5, 2, 3), (3,)), ((3, 700), (700, 5)))),
         rows=lambda n: (case((2, n), (n, 3)), case((n, 3), (3, 2)), case((3, 2), (2, n))), large=tuple(case(a, b) for a, b in (
             ((150, 300), (300, 170)), ((64, 20, 30), (64, 30, 20)), ((2, 3000), (3000, 400)), ((5000, 3), (3, 7)))),
         errors=((gd.ShapeError, "last dimension of a", lambda: gd.matmul(ones(2, 3), ones(2, 3))),
                 (gd.ShapeError, "at least one dimension", lambda: gd.matmul(ones(), ones(2))),
                 (gd.ShapeError, "leading dimensions", lambda: gd.matmul(ones(2, 2, 3), ones(3, 3, 2))),
                 (gd.DTypeError, "one dtype", lambda: gd.matmul(ones(2, 2), ones(2, 2, dtype="float64"))),
                 (gd.DTypeError, "bool", lambda: gd.matmul(ones(2, 2, dtype="bool"), ones(2, 2, dtype="bool"))))),
    Spec(name="linear", python="nn.functional.linear", call=lambda m, *t: m.nn.functional.linear(*t), rtol=SUMMED,
         ref=lambda x, w, b=0: x @ w.T + b, scale=lambda x, w, b=0: np.abs(x) @ np.abs(w).T + np.abs(b),
         cases=(case((2, 3), (4, 3), (4,)), case((2, 3), (4, 3)), case((3,), (4, 3), (4,)), case((2, 5, 3), (4, 3), (4,)),
                case((2, 2, 2, 3), (1, 3), (1,)), case((0, 3), (4, 3), (4,)), case((2, 0), (4, 0), (4,)), case((7, 19), (35, 19), (35,))),
         rows=lambda n: (case((2, n), (3, n), (3,)), case((n, 3), (2, 3), (2,)), case((3, 2), (n, 2), (n,))),
         large=(case((150, 300), (170, 300), (170,)), case((3, 1000), (900, 1000), (900,))),
         errors=((gd.ShapeError, "weight", lambda: F.linear(ones(2, 3), ones(4, 2))),
                 (gd.ShapeError, "bias", lambda: F.linear(ones(2, 3), ones(4, 3), ones(3))),
                 (gd.DTypeError, "one dtype", lambda: F.linear(ones(2, 3), ones(4, 3, dtype="float64"))))),
    Spec(name="lstm", python="nn.LSTM", call=_lstm, ref=r.lstm, out=("same",) * 3, rtol=(5e-6, 1e-14), atol=(5e-6, 1e-14), order=1,
         torch=False, cases=LSTM_CASES, domain=Domain(-1, 1),
         rows=lambda n: (case((2, 2, 3), (2, n), (2, n), (4 * n, 3), (4 * n, n), (4 * n,), (4 * n,), None),),
         large=(case((9, 70, 40), (70, 72), (70, 72), (288, 40), (288, 72), (288,), (288,), None),),
         errors=tuple((kind, words, lambda t=t: _lstm(gd, ones(3, 1, 2), *t)) for kind, words, t in (
             (gd.OutOfRangeError, "length 5", (None, None, ones(4, 2), ones(4, 1), None, None, gd.tensor([5]))),
             (gd.ShapeError, "w_hh", (None, None, ones(4, 2), ones(4, 2), None, None, None)),
             (gd.ShapeError, "h0", (ones(2, 2), None, ones(4, 2), ones(4, 1), None, None, None))))),
    Spec(name="lstm_bwd", call=_lstm_bwd, ref=r.lstm_bwd, out=("same",) * 4, rtol=(5e-6, 1e-13), atol=(5e-6, 1e-14), order=0, torch=False,
         canaries=False, domain=Domain(-1, 1),
         cases=tuple(replace(c, inputs=slopes + c.inputs) for c, slopes in zip(LSTM_CASES, LSTM_SLOPES)),
         rows=lambda n: (case((2, 2, n), (2, n), (2, n), (2, 2, 3), (2, n), (2, n), (4 * n, 3), (4 * n, n), (4 * n,), (4 * n,), None),)),
)
# fmt: on
