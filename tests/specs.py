"""THE list of op specs: one entry for each row of native/ops.def. Adding an op means adding its entry here.

How entries read: `m` is gradino or torch, `ref` gets float64 and int64 arrays. Families are in spec_kinds.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import references as r
from spec_kinds import (
    ALL,
    BINARY_CASES,
    DIMS_CASES,
    EMPTY_REDUCE,
    EXACT,
    FLOATS,
    NUMBERS,
    REDUCE_CASES,
    SUMMED,
    UNARY_CASES,
    Bools,
    Const,
    Domain,
    Given,
    Ints,
    Spec,
    along_rows,
    binary,
    case,
    large_rows,
    named,
    ones,
    raw,
    reduction,
    slope,
    unary,
    unary_float,
)  # fmt: skip

import gradino as gd
from gradino._core import wrap
from gradino._lib import lib

F = gd.nn.functional


def _seeded(make: Any) -> Any:
    """Random numbers from one place of the stream."""
    gd.set_rng_state((r.SEED, r.POSITION))
    return make()


def _lstm(m: Any, *tensors: gd.Tensor | None, reverse: bool = False, batch_first: bool = False) -> tuple[gd.Tensor, ...]:
    y = wrap(lib.gd_lstm(*(0 if t is None else t._h for t in tensors), reverse, batch_first))
    return y, wrap(lib.gd_output(y._h, 1)), wrap(lib.gd_output(y._h, 2))


def _cross_entropy_bwd(m: Any, g: gd.Tensor, *tensors: gd.Tensor | None, i: tuple[int, int], f: tuple[float]) -> gd.Tensor:
    _, lse, normaliser = raw("cross_entropy", 3)(m, *tensors, i=i, f=f)
    return raw("cross_entropy_bwd")(m, g, *tensors, lse, normaliser, i=i, f=f)


def _norm(name: str) -> Any:
    def call(m: Any, *t: Any, shape: tuple[int, ...], **more: float) -> Any:
        return getattr(m.nn.functional, name)(t[0], shape, *t[1:], **({"eps": 1e-6} if name == "rms_norm" else {}), **more)

    return call


def _norm_bwd(name: str, inputs: int, outputs: int) -> Any:
    def call(m: Any, g: Any, x: Any, w: Any, *, i: tuple[int, int], f: tuple[float]) -> Any:
        _, statistics = raw(name, 2)(m, x, w, *(None,) * (inputs - 2), i=i[:1], f=f)
        return raw(f"{name}_bwd", outputs)(m, g, x, w, statistics, i=i, f=f)

    return call


def _lstm_bwd(m: Any, dy: Any, dh: Any, dc: Any, *tensors: gd.Tensor | None, **attributes: bool) -> tuple[gd.Tensor, ...]:
    at = (attributes.get("reverse", False), attributes.get("batch_first", False))
    y, _, _, gates, cells = raw("lstm", 5)(m, *tensors, i=at)
    _, h0, c0, _, w_hh, _, _, lengths = tensors
    return raw("lstm_bwd", 4)(m, dy, dh, dc, w_hh, gates, cells, y, h0, c0, lengths, i=at)


def _clamp_bwd(g: Any, x: Any, f: Any) -> Any:
    return np.where(((x >= f[0]) | np.isnan(f[0])) & ((x <= f[1]) | np.isnan(f[1])), g, 0)


def _unslice(g: Any, i: tuple[int, ...]) -> Any:
    out = np.zeros(i[8:12])
    out[tuple(slice(i[d], i[d] + (n - 1) * i[4 + d] + 1, i[4 + d]) for d, n in enumerate((1,) * (4 - g.ndim) + g.shape))] = g
    return out.reshape(i[12 - i[12] : 12])


def _expand(x: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(x, [n if n >= 0 else x.shape[d] for d, n in enumerate(shape, x.ndim - len(shape))])


def _gather(x: Any, index: Any, dim: int) -> Any:
    return np.take_along_axis(x[tuple(slice(None) if d == dim % x.ndim else slice(n) for d, n in enumerate(index.shape))], index, dim)


def _along(f: Any) -> Any:
    """A NumPy reduction with PyTorch's arguments."""
    return lambda x, dim=None, keepdim=False: f(x, axis=dim, keepdims=keepdim)


def _sized(*shapes: tuple[int, ...], **attributes: Any) -> tuple[Any, ...]:
    return tuple(case(size=shape, **attributes) for shape in shapes)


def _add_at(g: Any, index: Any, i: tuple[int, ...], whole: bool) -> Any:
    axis = i[0] - 4 + g.ndim
    out = np.zeros(i[6 - g.ndim : 6] if whole else (*g.shape[:axis], i[1], *g.shape[axis + 1 :]))
    for at in np.ndindex(g.shape):
        out[(*at[:axis], index[at] if whole else index[at[axis]], *at[axis + 1 :])] += g[at]
    return out


NAN, ZEROS = float("nan"), gd.zeros
NO_ZERO = (Domain(-9, 9), Domain(-4, 4, kinks=(0,), nonzero=True))

# fmt: off
UNARY = (
    unary("neg", np.negative, dtypes=NUMBERS, rtol=EXACT),
    unary("abs", np.abs, dtypes=NUMBERS, rtol=EXACT, kinks=(0,)),
    unary("sign", np.sign, dtypes=NUMBERS, rtol=EXACT, kinks=(0,)),
    unary("square", np.square, dtypes=NUMBERS),
    unary("relu", lambda x: np.maximum(x, 0), dtypes=NUMBERS, rtol=EXACT, kinks=(0,)),
    unary("floor", np.floor, dtypes=NUMBERS, rtol=EXACT, kinks="integers"),
    unary("ceil", np.ceil, dtypes=NUMBERS, rtol=EXACT, kinks="integers"),
    unary("round", np.round, dtypes=NUMBERS, rtol=EXACT, kinks="halves"),
    unary_float("sqrt", np.sqrt, 0.05, 9),
    unary_float("rsqrt", lambda x: 1 / np.sqrt(x), 0.1, 9),
    unary_float("reciprocal", np.reciprocal, 0.1, 5),
    unary_float("exp", np.exp, -20, 20),
    unary_float("expm1", np.expm1, -10, 10),
    unary_float("log", np.log, 0.01, 30),
    unary_float("log1p", np.log1p, -0.9, 30),
    unary_float("log2", np.log2, 0.01, 30),
    unary_float("sin", np.sin, -40, 40, atol=(0, 1e-15)),
    unary_float("cos", np.cos, -40, 40, atol=(0, 1e-15)),
    unary_float("tanh", np.tanh, -6, 6),
    unary_float("sigmoid", r.sigmoid, -12, 12),
    unary_float("erf", r.erf, -4.5, 4.5),
    *(unary(name, ref, -6, 6, python=f"nn.functional.{name[:4]}", rtol=(2.4e-7, 2e-14), call=call)
      for name, ref, call in (("gelu", r.gelu, lambda m, x: m.nn.functional.gelu(x)),
                              ("gelu_tanh", r.gelu_tanh, lambda m, x: m.nn.functional.gelu(x, approximate="tanh")),
                              ("silu", r.silu, lambda m, x: m.nn.functional.silu(x)))),
    unary("softplus", r.softplus, -9, 30, kinks=(20, 4), python="nn.functional.softplus",
          call=lambda m, x, **k: m.nn.functional.softplus(x, **k),
          cases=(*UNARY_CASES, *(case(shape, beta=2.0, threshold=8.0) for shape in ((7,), (2, 3))))),
    unary("logical_not", np.logical_not, dtypes=ALL, out="bool", order=0),
    unary("isnan", np.isnan, dtypes=ALL, out="bool", order=0),
    unary("isfinite", np.isfinite, dtypes=ALL, out="bool", order=0),
    unary("cast", lambda x, to: x.astype(to), kinks="integers", dtypes=ALL, rtol=(6e-8, 0), out=lambda dtype, to: to, python="Tensor.to",
          call=lambda m, x, to: x.to(getattr(m, to)),
          cases=(*(case((3, 5), to=dtype) for dtype in ALL), case((), to="int64"), case((0,), to="bool")),
          errors=((gd.DTypeError, "not supported", lambda: ones(2).to("complex64")),)),
    unary("copy", np.copy, dtypes=ALL, rtol=EXACT, call=lambda m, x: x.clone(), python="Tensor.clone", errors=()),
    unary("clamp", lambda x, **bounds: np.clip(x, bounds.get("min"), bounds.get("max")), dtypes=NUMBERS, rtol=EXACT, kinks=(-1, 2),
          cases=tuple(case(*c.inputs, **k) for c in UNARY_CASES[:5] for k in ({"min": -1}, {"max": 2}, {"min": -1, "max": 2})),
          errors=((gd.DTypeError, "bool", lambda: gd.clamp(ones(2, dtype="bool"), 0, 1)),
                  (gd.InvalidValueError, "min and max", lambda: gd.clamp(ones(2))))),
    slope("relu_bwd", lambda g, y: np.where(y <= 0, 0, g), rtol=EXACT, domain=(Domain(), Domain(kinks=(0,)))),
    slope("sigmoid_bwd", lambda g, y: g * y * (1 - y), domain=(Domain(), Domain(0.02, 0.98)), scale=lambda g, y: np.abs(g * y)),
    slope("tanh_bwd", lambda g, y: g * (1 - y * y), domain=(Domain(), Domain(-0.98, 0.98)), scale=lambda g, y: np.abs(g)),
    *(slope(f"{name}_bwd", ref, domain=(Domain(), Domain(-6, 6)), scale=lambda g, x: np.abs(g), rtol=(2e-6, 2e-14))
      for name, ref in (("gelu", r.gelu_bwd), ("gelu_tanh", r.gelu_tanh_bwd), ("silu", r.silu_bwd))),
    slope("softplus_bwd", r.softplus_bwd, domain=(Domain(), Domain(-9, 30, kinks=(20, 16))), rtol=(2e-6, 2e-15),
          cases=tuple(case(shape, shape, f=f) for shape in ((5,), (2, 3), (0,)) for f in ((1.0, 20.0), (0.5, 8.0)))),
    slope("clamp_bwd", _clamp_bwd, rtol=EXACT, domain=(Domain(), Domain(kinks=(-1, 2))),
          cases=tuple(case(shape, shape, f=f) for shape, f in (
              ((7,), (-1.0, 2.0)), ((2, 3), (NAN, 2.0)), ((5,), (-1.0, NAN)), ((0,), (-1.0, 2.0))))),
)

BINARY = (
    binary("add", np.add, dtypes=ALL),
    binary("sub", np.subtract, errors=((gd.DTypeError, "bool", lambda: gd.sub(ones(2, dtype="bool"), ones(2, dtype="bool"))),)),
    binary("mul", np.multiply, dtypes=ALL),
    binary("div", np.divide, out="float", domain=(Domain(), Domain(0.2, 5, nonzero=True))),
    binary("pow", np.power, domain=(Domain(0.1, 4), Domain(-3, 3)), dtypes=FLOATS,
           errors=((gd.InvalidValueError, "negative", lambda: gd.pow(ones(2, dtype="int64"), gd.tensor([-1, 1]))),)),
    binary("floor_divide", np.floor_divide, domain=NO_ZERO,
           errors=((gd.DivisionByZeroError, "zero", lambda: gd.floor_divide(ones(2, dtype="int64"), ZEROS(2, dtype="int64"))),)),
    binary("remainder", np.remainder, domain=NO_ZERO, atol=(1e-6, 1e-14),
           errors=((gd.DivisionByZeroError, "zero", lambda: gd.remainder(ones(2, dtype="int32"), ZEROS(2, dtype="int32"))),)),
    binary("maximum", np.maximum, dtypes=ALL, rtol=EXACT),
    binary("minimum", np.minimum, dtypes=ALL, rtol=EXACT),
    slope("chain", lambda g, s: g * s, cases=BINARY_CASES),
    *(binary(name, ref, dtypes=ALL, out="bool", order=0, domain=Domain(-2, 2)) for name, ref in (
        ("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal),
        ("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor))),
    Spec(name="where", call=named("where"), ref=np.where, dtypes=ALL, rtol=EXACT, elementwise=True,
         cases=tuple(case(Bools(a), *c.inputs) for c in BINARY_CASES for a in (c.inputs[0], ())),
         errors=((gd.DTypeError, "bool", lambda: gd.where(ones(2), ones(2), ones(2))),
                 (gd.ShapeError, "broadcast", lambda: gd.where(ones(2, dtype="bool"), ones(3), ones(3))))),
)

REDUCTIONS = (
    reduction("sum", _along(np.sum), dtypes=ALL, out="wide", rtol=SUMMED, scale=_along(lambda x, **k: np.sum(np.abs(x), **k))),
    reduction("mean", _along(np.mean), rtol=SUMMED, scale=_along(lambda x, **k: np.mean(np.abs(x), **k)),
              errors=((gd.DTypeError, "float", lambda: gd.mean(ones(3, dtype="int64"))),)),
    reduction("prod", _along(np.prod), REDUCE_CASES, domain=Domain(nonzero=True), dtypes=ALL, out="wide", rtol=SUMMED,
              large=(case((4000, 40), dim=1), case((40, 4000), dim=0))),
    reduction("var", lambda x, dim=None, keepdim=False, correction=1: x.var(axis=dim, keepdims=keepdim, ddof=correction),
              (*DIMS_CASES, case((3, 4), correction=0), case((3, 4), dim=1, correction=2)), rtol=SUMMED, atol=(1e-12, 1e-28)),
    *(reduction(name, _along(f), empty=(), dtypes=ALL, rtol=EXACT) for name, f in (("amax", np.max), ("amin", np.min))),
    *(Spec(name=name, python=f"Tensor.{name[:3]}", dtypes=ALL, rtol=EXACT, out=("same", "int64"), call=named(name[:3]),
           ref=lambda x, dim, keepdim=False, f=f, a=a: (f(x, axis=dim, keepdims=keepdim), a(x, axis=dim, keepdims=keepdim)),
           cases=(*(c for c in REDUCE_CASES if "dim" in c.attributes), case((), dim=0)), rows=along_rows, large=large_rows(),
           errors=((gd.ShapeError, "no elements", lambda name=name: getattr(gd, name[:3])(ones(2, 0), dim=1)),))
      for name, f, a in (("max_dim", np.max, np.argmax), ("min_dim", np.min, np.argmin))),
    *(reduction(name, _along(f), REDUCE_CASES, empty=(), dtypes=NUMBERS, out="int64", order=0)
      for name, f in (("argmax", np.argmax), ("argmin", np.argmin))),
    *(reduction(name, _along(f), dtypes=ALL, out="bool", order=0, domain=Domain(-1, 1)) for name, f in (("any", np.any), ("all", np.all))),
    reduction("logsumexp", r.logsumexp, tuple(c for c in DIMS_CASES if "dim" in c.attributes and 0 not in c.inputs[0]), EMPTY_REDUCE[1:],
              atol=(5e-7, 2e-15)),
    *(Spec(name=name, call=named(name), ref=ref, rtol=SUMMED, atol=(1e-6, 4e-15),
           cases=tuple(case(shape, dim=dim) for shape, dim in (
               ((5,), 0), ((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1), ((2, 3, 2, 3), 0), ((1, 1), 1), ((), 0), ((0, 3), 1), ((3, 0), 1),
               ((2, 67), 1), ((2, 1100), 1), ((1100, 2), 0))), rows=along_rows, large=large_rows(),
           errors=((gd.OutOfRangeError, "dimension", lambda name=name: getattr(gd, name)(ones(2, 3), dim=2)),
                   (gd.DTypeError, "float", lambda name=name: getattr(gd, name)(ones(2, dtype="int64"), dim=0))))
      for name, ref in (("softmax", r.softmax), ("log_softmax", r.log_softmax))),
    *(Spec(name=name, call=raw(name), ref=ref, rtol=SUMMED, torch=False, domain=(Domain(), Domain(-2, -0.1)),
           scale=lambda g, y, i: np.abs(g) * (1 + np.abs(y)) + (np.exp(y) + np.abs(y)) * np.abs(g).sum(axis=i[0] - 4, keepdims=True),
           cases=tuple(case(shape, shape, i=(d,)) for shape, d in (
               ((5,), 3), ((3, 4), 2), ((3, 4), 3), ((2, 3, 4), 2), ((0, 3), 3), ((2, 67), 3), ((2, 1100), 3))),
           rows=lambda n: tuple(case(shape, shape, i=(d,)) for shape, d in (((3, n), 3), ((n, 3), 2))),
           large=tuple(case(shape, shape, i=(d,)) for shape, d in (((900, 150), 3), ((500, 300), 2))))
      for name, ref in (("softmax_bwd", r.softmax_bwd), ("log_softmax_bwd", r.log_softmax_bwd))),
)

NORM_SHAPES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((5,), 1), ((3, 4), 1), ((2, 3, 4), 2), ((2, 3, 2, 3), 1), ((2, 3, 2, 3), 3), ((4, 2), 1), ((0, 3), 1), ((2, 67), 1), ((2, 1100), 1))
NORMS = (
    *(Spec(name=name, python=f"nn.functional.{name}", call=_norm(name), ref=ref, rtol=SUMMED, atol=(1e-6, 4e-15),
           cases=tuple(case(x, *p, shape=x[len(x) - n :]) for x, n in NORM_SHAPES for p in ((), *parameters(x[len(x) - n :]))),
           rows=lambda n, p=parameters: (case((n,), shape=(n,)), case((3, n), *p((n,))[-1], shape=(n,))),
           large=tuple(case(shape, *parameters(shape[1:])[-1], shape=shape[1:]) for shape in ((900, 150), (3, 50000), (20000, 7))),
           errors=((gd.ShapeError, "normalized_shape", lambda name=name: getattr(F, name)(ones(2, 3), 2)),
                   (gd.ShapeError, "at least one", lambda name=name: getattr(F, name)(ones(2, 3), ())),
                   (gd.ShapeError, "weight has shape", lambda name=name: getattr(F, name)(ones(2, 3), 3, ones(2))),
                   (gd.ShapeError, "longer than", lambda name=name: getattr(F, name)(ones(2, 3), (1, 1, 1, 2, 3))),
                   (gd.DTypeError, "float", lambda name=name: getattr(F, name)(ones(2, 3, dtype="int64"), 3)),
                   (gd.DTypeError, "one dtype", lambda name=name: getattr(F, name)(ones(2, 3), 3, ones(3, dtype="float64")))))
      for name, ref, parameters in (
          ("layer_norm", r.layer_norm, lambda n: ((n, n), (n, None), (None, n))), ("rms_norm", r.rms_norm, lambda n: ((n,),)))),
    *(Spec(name=f"{name}_bwd", call=_norm_bwd(name, inputs, 2 + centred), ref=partial(r.norm_bwd, centred=centred), order=0, rtol=SUMMED,
           scale=partial(r.norm_bwd_scale, centred=centred), atol=(1e-6, 4e-15), out=("same",) * (2 + centred), torch=False, canaries=False,
           cases=tuple(case(x, x, x[len(x) - n :] if w else None, i=(n, wanted), f=(1e-2,))
                       for x, n in NORM_SHAPES for w, wanted in ((True, 7), (False, 1), (True, 2), (True, 1))),
           rows=lambda n: tuple(case((k, n), (k, n), (n,) if w else None, i=(1, 7), f=(1e-2,)) for k, w in ((3, True), (40, False))),
           large=tuple(case(x, x, x[1:], i=(1, 7), f=(1e-2,)) for x in ((900, 150), (3, 50000), (20000, 7))))
      for name, inputs, centred in (("layer_norm", 3, True), ("rms_norm", 2, False))),
)

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

VIEWS = (
    Spec(name="reshape", call=named("reshape"), ref=lambda x, shape: x.reshape(shape), dtypes=ALL, rtol=EXACT,
         cases=tuple(case(old, shape=new) for old, new in (
             ((2, 6), (3, 4)), ((2, 3, 4), (-1,)), ((12,), (2, 1, 3, -1)), ((1,), ()), ((), (1, 1)), ((0, 3), (3, 0)), ((2, 3, 4), (6, 4)),
             ((2, 3, 4), (2, 12)))),
         errors=((gd.ShapeError, "elements", lambda: ones(2, 3).reshape(4)), (gd.ShapeError, "-1", lambda: ones(4).reshape(-1, -1)),
                 (gd.ShapeError, "does not fit", lambda: ones(2, 3).reshape(4, -1)),
                 (gd.ShapeError, "four dimensions", lambda: ones(2).reshape(1, 1, 1, 1, 2)),
                 (gd.ShapeError, "without a copy", lambda: ones(2, 3).t().view(6)))),
    Spec(name="permute", call=named("permute"), ref=lambda x, dims: np.transpose(x, dims), dtypes=ALL, rtol=EXACT,
         cases=(case((2, 3), dims=(1, 0)), case((2, 3, 4), dims=(2, 0, 1)), case((2, 3, 4, 5), dims=(3, 1, 0, 2)), case((), dims=()),
                case((0, 2), dims=(-1, 0))),
         errors=((gd.ShapeError, "once", lambda: ones(2, 3).permute(0, 0)), (gd.ShapeError, "once", lambda: ones(2, 3).permute(0)),
                 (gd.OutOfRangeError, "dimension", lambda: ones(2, 3).permute(0, 2)))),
    Spec(name="expand", python="Tensor.expand", call=lambda m, x, shape: x.expand(*shape), ref=_expand, dtypes=ALL, rtol=EXACT,
         cases=(case((3, 1), shape=(3, 4)), case((3,), shape=(2, -1)), case((), shape=(2, 3)), case((1, 3), shape=(0, 3)),
                case((2, 1, 3), shape=(4, 2, 5, 3))),
         errors=((gd.ShapeError, "size 1", lambda: ones(2).expand(3)), (gd.ShapeError, "at least its own", lambda: ones(2, 3).expand(3)),
                 (gd.ShapeError, "four", lambda: ones(2).expand(1, 1, 1, 1, 2)))),
    Spec(name="slice", python="Tensor.__getitem__", call=lambda m, x, at: x[at], ref=lambda x, at: x[at], dtypes=ALL, rtol=EXACT,
         cases=tuple(case(shape, at=at) for shape, at in (
             ((7,), slice(2, 6)), ((7,), slice(1, None, 3)), ((3, 5), (slice(None), slice(-3, -1))), ((3, 5), (1, slice(0, 5, 2))),
             ((2, 3, 4), (..., 2)), ((3,), slice(2, 1)), ((0, 3), slice(0, 4)), ((3, 4), (None, slice(1, 3))), ((5,), -2),
             ((2, 3, 4, 5), (slice(1, 2), slice(None, None, 2), 1, slice(1, 4))))),
         errors=((gd.OutOfRangeError, "out of range", lambda: ones(2)[2]), (gd.errors.IndexStepError, "step", lambda: ones(2)[::-1]),
                 (gd.OutOfRangeError, "indices", lambda: ones(2)[0, 0]))),
    Spec(name="detach", python="Tensor.detach", call=lambda m, x: x.detach(), ref=np.copy, dtypes=ALL, rtol=EXACT, order=0,
         cases=UNARY_CASES[:5]),
)

MOVES = (
    Spec(name="cat", call=lambda m, *t, dim=0: m.cat(t, dim), ref=lambda *a, dim=0: np.concatenate(a, dim), dtypes=ALL, rtol=EXACT,
         cases=(case((2, 3), (4, 3)), case((2, 3), (2, 1), (2, 2), dim=1), case((3,)), case((0,), (3,)), case((2, 3, 4), (2, 3, 1), dim=-1),
                case((2, 2, 3, 2), (2, 5, 3, 2), dim=1), case((2, 0), (2, 0), dim=1), case(*[(1, 2)] * 20)),
         rows=lambda n: (case((n,), (n,)), case((3, n), (3, 2), dim=1)),
         large=(case((300, 300), (300, 200), dim=1), case((90000,), (30000,))),
         errors=((gd.ShapeError, "differ outside", lambda: gd.cat([ones(2, 3), ones(2, 4)])),
                 (gd.ShapeError, "scalars", lambda: gd.cat([ones(), ones()])), (gd.DTypeError, "non-empty", lambda: gd.cat([])),
                 (gd.OutOfRangeError, "dimension", lambda: gd.cat([ones(2)], 1)))),
    Spec(name="unslice", call=raw("unslice"), ref=_unslice, dtypes=ALL, rtol=EXACT, torch=False,
         cases=(case((2,), i=(0, 0, 0, 1, 1, 1, 1, 3, 1, 1, 1, 7, 1)), case((2, 3), i=(0, 0, 1, 0, 1, 1, 2, 1, 1, 1, 5, 4, 2)),
                case((1, 2, 2, 1), i=(1, 0, 1, 2, 1, 1, 1, 1, 3, 2, 4, 3, 4)), case((0,), i=(0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 3, 1))),
         rows=lambda n: (case((n,), i=(0, 0, 0, 1, 1, 1, 1, 2, 1, 1, 1, 2 * n + 1, 1)),),
         large=(case((90000,), i=(0, 0, 0, 5, 1, 1, 1, 1, 1, 1, 1, 90009, 1)),)),
    Spec(name="index_select", call=lambda m, x, index, dim: m.index_select(x, dim, index), dtypes=ALL, rtol=EXACT,
         ref=lambda x, index, dim: np.take(x, index, dim),
         cases=tuple(case(shape, Given(index), dim=dim) for shape, index, dim in (
             ((5,), (4, 0, 0, 2), 0), ((3, 4), (2, 1), 0), ((3, 4), (3, 3, 0), -1), ((2, 3, 4, 2), (1,), 2), ((3, 2), (), 0))),
         rows=lambda n: (case((n,), Ints((n,), 0, n), dim=0), case((3, n), Given((2, 0)), dim=0)),
         large=(case((300, 70), Ints((3000,), 0, 300), dim=0),),
         errors=((gd.OutOfRangeError, "5 is out of range", lambda: gd.index_select(ones(5, 2), 0, gd.tensor([5]))),
                 (gd.OutOfRangeError, "-6 is out of range", lambda: gd.index_select(ones(5), 0, gd.tensor([-6]))),
                 (gd.ShapeError, "one dimension", lambda: gd.index_select(ones(5), 0, gd.tensor([[1]]))),
                 (gd.DTypeError, "int64", lambda: gd.index_select(ones(5), 0, ones(2))))),
    Spec(name="index_add_zeros", call=raw("index_add_zeros"), ref=partial(_add_at, whole=False), rtol=SUMMED, torch=False,
         scale=lambda g, index, i: _add_at(np.abs(g), index, i, False),
         cases=(case((4,), Given((4, 0, 0, 2)), i=(3, 5)), case((2, 4), Given((2, 1)), i=(2, 3)), case((3, 3), Given((3, 3, 0)), i=(3, 4)),
                case((0, 2), Given(()), i=(2, 3))),
         rows=lambda n: (case((n,), Ints((n,), 0, 5), i=(3, 5)), case((2, n), Given((1, 1)), i=(2, 3))),
         large=(case((3000, 70), Ints((3000,), 0, 50), i=(2, 50)),)),
    Spec(name="gather", call=lambda m, x, index, dim: m.gather(x, dim, index), ref=_gather, dtypes=ALL, rtol=EXACT,
         cases=(case((5,), Ints((7,), 0, 5), dim=0), case((3, 4), Ints((2, 4), 0, 3), dim=0), case((3, 4), Ints((2, 6), 0, 4), dim=1),
                case((2, 3, 2, 3), Ints((2, 2, 2, 3), 0, 3), dim=-3), case((3, 4), Ints((0, 4), 0, 3), dim=0)),
         rows=lambda n: (case((5,), Ints((n,), 0, 5), dim=0), case((4, n), Ints((3, n), 0, 4), dim=0)),
         large=(case((400, 300), Ints((400, 300), 0, 300), dim=1),),
         errors=((gd.OutOfRangeError, "3 is out of range", lambda: gd.gather(ones(3), 0, gd.tensor([3]))),
                 (gd.ShapeError, "does not fit", lambda: gd.gather(ones(3), 0, gd.tensor([[0]]))),
                 (gd.ShapeError, "does not fit", lambda: gd.gather(ones(3, 2), 0, ZEROS(1, 3, dtype="int64"))),
                 (gd.DTypeError, "int64", lambda: gd.gather(ones(3), 0, ones(1))))),
    Spec(name="scatter_add_zeros", call=raw("scatter_add_zeros"), ref=partial(_add_at, whole=True), rtol=SUMMED, torch=False,
         scale=lambda g, index, i: _add_at(np.abs(g), index, i, True), cases=tuple(case(shape, Ints(shape, 0, i[1]), i=i) for shape, i in (
             ((7,), (3, 5, 1, 1, 1, 5)), ((2, 4), (2, 3, 1, 1, 3, 4)), ((2, 6), (3, 4, 1, 1, 3, 4)))),
         rows=lambda n: (case((n,), Ints((n,), 0, 5), i=(3, 5, 1, 1, 1, 5)),),
         large=(case((400, 90), Ints((400, 90), 0, 70), i=(3, 70, 1, 1, 400, 70)),)),
    Spec(name="one_hot", python="nn.functional.one_hot", call=lambda m, x, num_classes=-1: m.nn.functional.one_hot(x, num_classes),
         ref=lambda x, num_classes=-1: np.eye(x.max() + 1 if num_classes < 0 else num_classes, dtype=np.int64)[x], dtypes=("int64",),
         out="int64", order=0, rows=lambda n: (case(Ints((3,), 0, n), num_classes=n), case(Ints((n,), 0, 3), num_classes=3)),
         cases=(case(Ints((5,), 0, 3), num_classes=3), case(Ints((2, 3), 0, 4), num_classes=6), case(Ints((4,), 0, 9)),
                case(Ints((), 0, 3), num_classes=4), case(Ints((0,), 0, 3), num_classes=4)),
         errors=((gd.OutOfRangeError, "3 is out of range", lambda: F.one_hot(gd.tensor([3]), 3)),
                 (gd.OutOfRangeError, "-1 is out of range", lambda: F.one_hot(gd.tensor([-1]), 3)),
                 (gd.InvalidValueError, "at least one", lambda: F.one_hot(gd.tensor([0]), 0)),
                 (gd.DTypeError, "int64", lambda: F.one_hot(ones(2), 3)),
                 (gd.ShapeError, "four dimensions", lambda: F.one_hot(ZEROS(1, 1, 1, 1, dtype="int64"), 3)))),
    Spec(name="nonzero", call=named("nonzero"), ref=np.argwhere, dtypes=ALL, out="int64", order=0, domain=Domain(-1, 1), canaries=False,
         cases=(case((7,)), case((3, 4)), case((2, 3, 2, 2)), case((0,)), case((1,))), rows=lambda n: (case((n,)),),
         large=(case((400, 300)),)),
)

SIZES = ((7,), (3, 5), (), (0,), (1, 67))
FILLING = (
    Spec(name="fill", python="full", factory=True, dtypes=ALL, order=0, ref=lambda size, value, dtype: np.full(size, value),
         call=lambda m, size, value, dtype: m.full(size, value, dtype=getattr(m, dtype)),
         cases=(*_sized(*SIZES, value=2.5), *_sized((2, 1, 3, 5), value=-1)), rows=lambda n: _sized((n,), value=1),
         large=_sized((400, 300), value=3),
         errors=((gd.ShapeError, "four dimensions", lambda: gd.full((1,) * 5, 1)), (gd.ShapeError, "-1", lambda: gd.full((-1,), 1)),
                 (gd.OutOfMemoryError, "", lambda: gd.full((2**31, 2**31, 2**10), 1)),
                 (gd.DTypeError, "not supported", lambda: gd.full((2,), 1, dtype="int8")))),
    Spec(name="arange", factory=True, dtypes=NUMBERS, order=0, call=lambda m, *, a, b, s, dtype: m.arange(a, b, s, dtype=getattr(m, dtype)),
         ref=lambda a, b, s, dtype: np.arange(a, b, s), cases=tuple(case(a=a, b=b, s=s) for a, b, s in (
             (0, 7, 1), (5, -4, -2), (3, 3, 1), (0, 300, 1))), rows=lambda n: (case(a=-1, b=n - 1, s=1),),
         large=(case(a=0, b=90000, s=1),),
         errors=((gd.InvalidValueError, "step", lambda: gd.arange(0, 5, 0)), (gd.InvalidValueError, "step", lambda: gd.arange(0, 5, -1)))),
    Spec(name="eye", factory=True, dtypes=ALL, rtol=EXACT, order=0, call=lambda m, *, n, k, dtype: m.eye(n, k, dtype=getattr(m, dtype)),
         ref=lambda n, k, dtype: np.eye(n, k), cases=tuple(case(n=n, k=k) for n, k in ((3, 3), (2, 5), (4, 1), (0, 2))),
         rows=lambda n: (case(n=2, k=n),), large=(case(n=400, k=300),),
         errors=((gd.ShapeError, "-1", lambda: gd.eye(-1)),)),
    Spec(name="uniform", python="rand", factory=True, order=0, rtol=EXACT, torch=False, ref=r.uniform, cases=_sized(*SIZES),
         rows=lambda n: _sized((n,)), large=_sized((400, 300)),
         call=lambda m, *, size, dtype: _seeded(lambda: m.rand(*size, dtype=dtype)),
         errors=((gd.DTypeError, "float", lambda: gd.rand(2, dtype="int64")),
                 (gd.ShapeError, "four dimensions", lambda: gd.rand(1, 1, 1, 1, 1)))),
    Spec(name="normal", python="randn", factory=True, order=0, rtol=(1e-6, 1e-14), atol=(2e-6, 1e-14), torch=False, ref=r.normal,
         cases=_sized(*SIZES), call=lambda m, *, size, dtype: _seeded(lambda: m.randn(*size, dtype=dtype)),
         rows=lambda n: _sized((n,)), large=_sized((400, 300)),
         errors=((gd.DTypeError, "float", lambda: gd.randn(2, dtype="int64")),)),
    Spec(name="randint", factory=True, dtypes=("int64",), order=0, torch=False, ref=r.randint,
         cases=(*_sized(*SIZES, low=0, high=10), *_sized((9,), low=-3, high=2**40)),
         rows=lambda n: _sized((n,), low=0, high=10), large=_sized((400, 300), low=0, high=10),
         call=lambda m, *, size, low, high, dtype: _seeded(lambda: m.randint(low, high, size)),
         errors=((gd.InvalidValueError, "less than", lambda: gd.randint(3, 3, (2,))),)),
    Spec(name="dropout", python="nn.functional.dropout", torch=False, ref=r.dropout,
         call=lambda m, x, p: _seeded(lambda: m.nn.functional.dropout(x, p)),
         cases=tuple(case(shape, p=p) for shape, p in zip(((7,), (3, 5), (2, 3, 2, 2), (4,), (), (0,)), (0.5, 0.1, 0.9, 1.0, 0.3, 0.3))),
         rows=lambda n: (case((n,), p=0.4),), large=(case((400, 300), p=0.4),),
         errors=((gd.InvalidValueError, "p is -0.1", lambda: F.dropout(ones(2), -0.1)),
                 (gd.InvalidValueError, "p is 1.1", lambda: F.dropout(ones(2), 1.1)),
                 (gd.DTypeError, "float", lambda: F.dropout(ones(2, dtype="int64"), 0.5)))),
)
# fmt: on

LIST = (*UNARY, *BINARY, *REDUCTIONS, *NORMS, *LOSSES, *PRODUCTS, *VIEWS, *MOVES, *FILLING)
SPECS: dict[str, Spec] = {spec.name: spec for spec in LIST}
