"""Channel norms, pooling and resizing. See the package's own text for how entries read."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import references_planes as p
from spec_kinds import (
    ALL,
    EXACT,
    NUMBERS,
    SUMMED,
    Const,
    Ints,
    Spec,
    case,
    ones,
    raw,
)  # fmt: skip

import gradino as gd

F = gd.nn.functional


def _batch_norm(m: Any, x: Any, w: Any = None, b: Any = None, mean: Any = None, var: Any = None, *, eps: float = 1e-5) -> Any:
    return m.nn.functional.batch_norm(x, mean, var, w, b, training=mean is None, eps=eps)


def _norm_bwd(name: str, inputs: int) -> Any:
    def call(m: Any, g: Any, x: Any, w: Any, *, i: tuple[int, int], f: tuple[float]) -> Any:
        _, statistics = raw(name, 2)(m, x, w, *(None,) * (inputs - 2), i=i[:1], f=f)
        dtype = x.dtype.code if w is None else w.dtype.code
        return raw(f"{name}_bwd", 3)(m, g, x, w, statistics, i=(*i, dtype), f=f)

    return call


# (x, channels): columns, rows, planes of all sizes around the vector's
SHAPES = (
    ((5, 3), 3),
    ((4, 3, 7), 3),
    ((2, 4, 3, 5), 4),
    ((3, 2, 16), 2),
    ((2, 6, 2, 2), 6),
    ((1, 2, 3, 3), 2),
    ((2, 1, 17), 1),
    ((2, 3, 1, 20), 3),
)


def _max_pool(m: Any, x: Any, *, dims: int, **a: Any) -> Any:
    name = f"adaptive_max_pool{dims}d" if "output_size" in a else f"max_pool{dims}d"
    return getattr(m.nn.functional, name)(x, **a, return_indices=True)


def _avg_pool(m: Any, x: Any, *, dims: int, **a: Any) -> Any:
    return getattr(m.nn.functional, f"adaptive_avg_pool{dims}d" if "output_size" in a else f"avg_pool{dims}d")(x, **a)


def _avg_attributes(sizes: tuple[int, int], k: int, stride: int, pad: int, ceil: bool = False, count: bool = True, divisor: int = 0) -> Any:
    return (k, k, stride, stride, pad, pad, count, divisor, ceil, 0, 2, *sizes)


def _avg_bwd(g: np.ndarray, *, i: Any) -> np.ndarray:
    def forward(x: np.ndarray) -> np.ndarray:
        if i[9]:
            return p.avg_pool(x, dims=2, output_size=tuple(i[:2]))
        return p.avg_pool(
            x,
            dims=2,
            kernel_size=i[:2],
            stride=i[2:4],
            padding=i[4:6],
            ceil_mode=bool(i[8]),
            count_include_pad=bool(i[6]),
            divisor_override=i[7] or None,
        )

    return p.adjoint(forward, g, i[11:13])


def _resize_bwd(g: np.ndarray, *, i: Any) -> np.ndarray:
    mode = ("nearest", "nearest-exact", "bilinear")[i[2]]
    return p.adjoint(lambda x: p.resize(x, size=i[:2], mode=mode, align_corners=bool(i[3])), g, i[4:6])


def _resize_scale(x: np.ndarray, **a: Any) -> np.ndarray:
    return p.resize(np.abs(x), **a)


def _interpolate(m: Any, x: Any, **a: Any) -> Any:
    return m.nn.functional.interpolate(x, **a)


# fmt: off
PLANES = (
    Spec(name="batch_norm", python="nn.functional.batch_norm", call=_batch_norm, ref=p.batch_norm, rtol=SUMMED, atol=(4e-6, 4e-14),
         cases=(*(case(x, (c,), (c,), eps=1e-2) for x, c in SHAPES), case((4, 3, 2, 2), eps=1e-2), case((4, 3, 5), (3,), None, eps=1e-2),
                case((4, 3, 5), None, (3,), eps=1e-2), case((4, 3), (3,), (3,), Const((3,), -1), Const((3,)), eps=1e-3),
                case((2, 3, 4, 5), (3,), (3,), Const((3,), -1), Const((3,))), case((2, 3, 20), None, None, Const((3,), -1), Const((3,))),
                case((0, 3), (3,), (3,)), case((2, 3, 0), (3,), (3,)), case((0, 2, 3, 3), (2,), (2,), Const((2,)), Const((2,)))),
         rows=lambda n: (case((3, n), (n,), (n,), eps=1e-2), case((2, 2, n), (2,), (2,), eps=1e-2), case((n + 1, 3), (3,), (3,), eps=1e-2)),
         large=(case((64, 500), (500,), (500,), eps=1e-2), case((8, 40, 20, 20), (40,), (40,), eps=1e-2),
                case((3, 2, 20000), (2,), (2,), eps=1e-2)),
         errors=((gd.InvalidValueError, "more than 1 value per channel", lambda: F.batch_norm(ones(1, 3), None, None, training=True)),
                 (gd.InvalidValueError, "running_mean and running_var", lambda: F.batch_norm(ones(2, 3), None, None)),
                 (gd.ShapeError, "two dimensions", lambda: F.batch_norm(ones(3), None, None, training=True)),
                 (gd.ShapeError, "one per channel", lambda: F.batch_norm(ones(2, 3), None, None, ones(2), training=True)),
                 (gd.ShapeError, "one per channel", lambda: F.batch_norm(ones(2, 3), ones(2), ones(3), training=True)),
                 (gd.DTypeError, "one dtype", lambda: F.batch_norm(ones(2, 3), None, None, ones(3, dtype="float64"), training=True)),
                 (gd.DTypeError, "floating point", lambda: F.batch_norm(gd.ones(2, 3, dtype="int64"), None, None, training=True)))),
    Spec(name="group_norm", python="nn.functional.group_norm", rtol=SUMMED, atol=(4e-6, 4e-14), torch=True,
         call=lambda m, x, w=None, b=None, *, groups, eps: m.nn.functional.group_norm(x, groups, w, b, eps), ref=p.group_norm,
         cases=(*(case(x, (c,), (c,), groups=g, eps=1e-2) for x, c in SHAPES for g in (1, 2, c) if c % g == 0 and (len(x) > 2 or g < c)),
                case((2, 4, 3), groups=2, eps=1e-2), case((2, 4, 3), (4,), None, groups=2, eps=1e-2),
                case((0, 4, 3), (4,), (4,), groups=2, eps=1e-2)),
         rows=lambda n: (case((2, 2, n + 1), (2,), (2,), groups=2, eps=1e-2), case((2, 2 * n, 3), (2 * n,), (2 * n,), groups=2, eps=1e-2)),
         large=(case((16, 32, 20, 20), (32,), (32,), groups=8, eps=1e-2), case((2, 2, 20000), (2,), (2,), groups=1, eps=1e-2)),
         errors=((gd.ShapeError, "share evenly", lambda: F.group_norm(ones(2, 3), 2)),
                 (gd.InvalidValueError, "at least one", lambda: F.group_norm(ones(2, 3), 0)),
                 (gd.InvalidValueError, "more than 1 value", lambda: F.group_norm(ones(1, 3), 3)),
                 (gd.GradinoError, "two dimensions", lambda: F.group_norm(ones(3), 1)))),
    *(Spec(name=f"{name}_bwd", call=_norm_bwd(name, inputs), ref=partial(p.channel_norm_bwd, group=group), order=0, rtol=SUMMED,
           scale=partial(p.channel_norm_bwd, group=group, part=np.abs), atol=(1e-6, 4e-15), out=("same",) * 3, torch=False, canaries=False,
           cases=tuple(case(x, x, (c,) if w else None, i=(1, wanted), f=(1e-2,)) for x, c in SHAPES
                       for w, wanted in ((True, 7), (False, 1), (True, 2), (True, 1), (True, 4))),
           rows=lambda n: tuple(case(x, x, (x[1],), i=(1, 7), f=(1e-2,)) for x in ((3, n), (2, 2, n))),
           large=tuple(case(x, x, (x[1],), i=(1, 7), f=(1e-2,)) for x in ((64, 500), (8, 40, 20, 20), (3, 2, 20000))))
      for name, inputs, group in (("batch_norm", 5, False), ("group_norm", 3, True))),
    Spec(name="max_pool", python="nn.functional.max_pool2d", call=_max_pool, ref=p.max_pool, rtol=EXACT, out=("same", "int64"),
         cases=(case((2, 6, 7), dims=2, kernel_size=2), case((2, 2, 7, 8), dims=2, kernel_size=3, stride=2, padding=1),
                case((2, 5, 9), dims=2, kernel_size=(2, 3), stride=(1, 2), dilation=2),
                case((1, 7, 7), dims=2, kernel_size=2, ceil_mode=True),
                case((1, 5, 5), dims=2, kernel_size=3, stride=1, padding=1, ceil_mode=True), case((3, 4), dims=1, kernel_size=2),
                case((2, 3, 9), dims=1, kernel_size=3, stride=2, padding=1), case((2, 2, 1, 1), dims=2, kernel_size=1),
                case((0, 2, 4, 4), dims=2, kernel_size=2), case((2, 5, 7), dims=2, output_size=(2, 3)),
                case((2, 3, 9), dims=1, output_size=4),
                case((2, 2, 4, 4), dims=2, output_size=2), case((1, 3, 3), dims=2, output_size=5)),
         rows=lambda n: (case((2, 3, n), dims=2, kernel_size=(2, 1), stride=(1, 1)), case((2, n), dims=1, kernel_size=1, stride=2),
                         case((2, n + 1), dims=1, kernel_size=2, stride=1), case((1, n, 3), dims=2, kernel_size=(1, 3), stride=3)),
         large=(case((4, 8, 40, 50), dims=2, kernel_size=3, stride=2, padding=1), case((2, 300, 400), dims=1, kernel_size=2)),
         errors=((gd.ShapeError, "too small", lambda: F.max_pool2d(ones(1, 2, 2), 3)),
                 (gd.InvalidValueError, "half of the window", lambda: F.max_pool2d(ones(1, 4, 4), 2, padding=2)),
                 (gd.InvalidValueError, "at least 1", lambda: F.max_pool2d(ones(1, 4, 4), 2, stride=0)),
                 (gd.InvalidValueError, "at least 1", lambda: F.max_pool1d(ones(1, 4), 0)),
                 (gd.ShapeError, "must be (C, H, W)", lambda: F.max_pool2d(ones(4, 4), 2)),
                 (gd.ShapeError, "must be one number or 2", lambda: F.max_pool2d(ones(1, 4, 4), (2, 2, 2))),
                 (gd.ShapeError, "must have elements", lambda: F.max_pool2d(ones(1, 0, 4), 1)),
                 (gd.DTypeError, "bool", lambda: F.max_pool2d(gd.ones(1, 2, 2, dtype="bool"), 2)))),
    Spec(name="max_pool_bwd", call=raw("max_pool_bwd"), ref=p.max_pool_bwd,
        scale=lambda g, index, **a: p.max_pool_bwd(np.abs(g), index, **a), dtypes=NUMBERS, rtol=(1e-6, 4e-15), torch=False,
         cases=tuple(case(g, Ints(g, 0, room), i=(*to, *(0,) * 8, 2)) for g, room, to in (((2, 3, 3), 16, (4, 4)), ((2, 2, 2, 2), 6, (2,
         3)))),
         rows=lambda n: (case((2, 1, n), Ints((2, 1, n), 0, 3 * n), i=(3, n, *(0,) * 8, 2)),),
         large=(case((4, 8, 20, 25), Ints((4, 8, 20, 25), 0, 2000), i=(40, 50, *(0,) * 8, 2)),)),
    Spec(name="avg_pool", python="nn.functional.avg_pool2d", call=_avg_pool, ref=p.avg_pool,
        scale=partial(p.avg_pool, magnitude=True), rtol=SUMMED,
         cases=(case((2, 6, 7), dims=2, kernel_size=2), case((2, 2, 7, 8), dims=2, kernel_size=3, stride=2, padding=1),
                case((2, 5, 9), dims=2, kernel_size=(2, 3), stride=(1, 2)), case((1, 7, 7), dims=2, kernel_size=2, ceil_mode=True),
                case((1, 5, 5), dims=2, kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
                case((1, 5, 5), dims=2, kernel_size=3, padding=1, divisor_override=2), case((3, 4), dims=1, kernel_size=2),
                case((2, 3, 9), dims=1, kernel_size=3, stride=2, padding=1, count_include_pad=False),
                case((0, 2, 4, 4), dims=2, kernel_size=2),
                case((2, 5, 7), dims=2, output_size=(2, 3)), case((2, 3, 9), dims=1, output_size=4),
                case((2, 2, 4, 4), dims=2, output_size=2),
                case((2, 2, 4, 3), dims=2, output_size=1), case((1, 3, 3), dims=2, output_size=5)),
         rows=lambda n: (case((2, 3, n), dims=2, kernel_size=(2, 1), stride=(1, 1)), case((2, n), dims=1, kernel_size=1, stride=2),
                         case((2, n + 1), dims=1, kernel_size=2, stride=1), case((1, n, 3), dims=2, kernel_size=(1, 3), stride=3)),
         large=(case((4, 8, 40, 50), dims=2, kernel_size=3, stride=2, padding=1), case((2, 300, 400), dims=1, kernel_size=2)),
         errors=((gd.InvalidValueError, "divisor_override is 0", lambda: F.avg_pool2d(ones(1, 4, 4), 2, divisor_override=0)),
                 (gd.ShapeError, "too small", lambda: F.avg_pool1d(ones(1, 2), 3)),
                 (gd.DTypeError, "floating point", lambda: F.avg_pool2d(gd.ones(1, 2, 2, dtype="int64"), 2)),
                 (gd.InvalidValueError, "at least 0", lambda: F.adaptive_avg_pool2d(ones(1, 4, 4), (-2, 2))))),
    Spec(name="avg_pool_bwd", call=raw("avg_pool_bwd"), ref=_avg_bwd, rtol=SUMMED, atol=(1e-6, 1e-14), torch=False,
         cases=(case((2, 3, 3), i=_avg_attributes((6, 7), 2, 2, 0)), case((2, 2, 4, 4), i=_avg_attributes((7, 8), 3, 2, 1)),
                case((1, 3, 3), i=_avg_attributes((5, 5), 3, 2, 1, True, False)),
                case((1, 3, 3), i=_avg_attributes((5, 5), 3, 1, 0, divisor=2)),
                case((2, 2, 3), i=(2, 3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 5, 7))),
         rows=lambda n: (case((2, 3, n), i=_avg_attributes((3, n), 1, 1, 0)),),
         large=(case((4, 8, 20, 25), i=_avg_attributes((40, 50), 3, 2, 1)),)),
    Spec(name="resize", python="nn.functional.interpolate", call=_interpolate, ref=p.resize, scale=_resize_scale, rtol=SUMMED,
        atol=(2e-6, 1e-13),
         cases=tuple(case((2, 2, 3, 4), size=size, **a) for size in ((5, 9), (2, 2), (1, 7), (3, 4))
                     for a in ({"mode": "nearest"}, {"mode": "nearest-exact"}, {"mode": "bilinear"}, {"mode": "bilinear",
                         "align_corners": True}))
               + (case((2, 3, 5), size=7, mode="linear"), case((2, 3, 5), size=7), case((0, 3, 5), size=7),
                   case((1, 1, 1, 1), size=(3, 2), mode="bilinear")),
         rows=lambda n: (case((1, 2, 2, n), size=(3, 2 * n), mode="bilinear"), case((1, 2, n), size=n + 1)),
         large=(case((2, 8, 40, 50), size=(80, 99), mode="bilinear"), case((2, 8, 40, 50), size=(80, 99))),
         errors=((gd.InvalidValueError, "either size or scale_factor", lambda: F.interpolate(ones(1, 1, 2))),
                 (gd.InvalidValueError, "not both", lambda: F.interpolate(ones(1, 1, 2), 3, 2)),
                 (gd.InvalidValueError, "bicubic interpolation is not supported",
                     lambda: F.interpolate(ones(1, 1, 2, 2), 3, mode="bicubic")),
                 (gd.InvalidValueError, "antialias", lambda: F.interpolate(ones(1, 1, 2, 2), 3, mode="bilinear", antialias=True)),
                 (gd.InvalidValueError, "linear modes", lambda: F.interpolate(ones(1, 1, 2), 3, align_corners=True)),
                 (gd.InvalidValueError, "must be one of", lambda: F.interpolate(ones(1, 1, 2), 3, mode="bilinear")),
                 (gd.InvalidValueError, "explicit size", lambda: F.interpolate(ones(1, 1, 2), 3, recompute_scale_factor=True)),
                 (gd.ShapeError, "at least 1", lambda: F.interpolate(ones(1, 1, 2), 0)),
                 (gd.ShapeError, "must be (N, C, L)", lambda: F.interpolate(ones(1, 2), 3)))),
    Spec(name="resize_bwd", call=raw("resize_bwd"), ref=_resize_bwd, scale=lambda g, **a: _resize_bwd(np.abs(g), **a), rtol=SUMMED,
        atol=(2e-6, 1e-13), torch=False,
         cases=tuple(case((2, 2, 5, 6), i=(5, 6, mode, align, 3, 4)) for mode, align in ((0, 0), (1, 0), (2, 0), (2, 1))),
         rows=lambda n: (case((1, 2, 3, n), i=(3, n, 2, 0, 2, n)),), large=(case((2, 8, 40, 50), i=(40, 50, 2, 0, 20, 30)),)),
    Spec(name="pixel_shuffle", python="nn.functional.pixel_shuffle", call=lambda m, x, r: m.nn.functional.pixel_shuffle(x, r),
        rtol=EXACT, dtypes=ALL,
         ref=p.pixel_shuffle, cases=(case((4, 2, 3), r=2), case((2, 9, 1, 2), r=3), case((2, 3, 2, 2), r=1)),
         rows=lambda n: (case((4, 2, n), r=2),), large=(case((2, 36, 40, 50), r=3),),
         errors=((gd.ShapeError, "multiple of its square", lambda: F.pixel_shuffle(ones(3, 2, 2), 2)),
                 (gd.InvalidValueError, "at least 1", lambda: F.pixel_shuffle(ones(4, 2, 2), 0)),
                 (gd.ShapeError, "three dimensions", lambda: F.pixel_shuffle(ones(4, 2), 2)),
                 (gd.ShapeError, "multiples of it", lambda: F.pixel_unshuffle(ones(4, 3, 2), 2)))),
)
# fmt: on
