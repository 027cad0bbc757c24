"""Specs of functions over channels and planes that are made of ops, or are another face of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import references_planes as p
from spec_kinds import ALL, EXACT, SUMMED, Const, Domain, Given, Spec, case, ones

import gradino as gd

F = gd.nn.functional


def _call(name: str) -> Any:
    return lambda m, *tensors, **a: getattr(m.nn.functional, name)(*tensors, **a)


def _pooled(name: str, ref: Any, dims: int, *cases: Any, **more: Any) -> Spec:
    return Spec(name=name, call=_call(name), ref=lambda x, **a: ref(x, dims=dims, **a), cases=cases, **more)


def _instance_norm(x: np.ndarray, w: Any = None, b: Any = None, *, eps: float) -> np.ndarray:
    return p.group_norm(x, w, b, groups=x.shape[1], eps=eps)


def _local_response_norm(x: np.ndarray, size: int, alpha: float) -> np.ndarray:
    c, y = x.shape[1], np.zeros_like(x)
    for k in range(c):
        y[:, k] = x[:, k] / (1 + alpha * (x[:, max(k - size // 2, 0) : k + (size - 1) // 2 + 1] ** 2).sum(1) / size) ** 0.75
    return y


def _lp(x: np.ndarray, *, dims: int, norm_type: float, kernel_size: Any, **a: Any) -> np.ndarray:
    count = kernel_size**dims
    return (p.avg_pool(x**norm_type, dims=dims, kernel_size=kernel_size, **a) * count) ** (1 / norm_type)


def _unpool(x: np.ndarray, index: np.ndarray, *, room: tuple[int, ...]) -> np.ndarray:
    out = np.zeros((*x.shape[: x.ndim - len(room)], int(np.prod(room))), x.dtype)
    np.put_along_axis(out, index.reshape(*out.shape[:-1], -1), x.reshape(*out.shape[:-1], -1), -1)
    return out.reshape(*out.shape[:-1], *room)


def _normalize(x: np.ndarray, p: float = 2.0, dim: int = 1) -> np.ndarray:
    return np.asarray(x / np.maximum(np.linalg.norm(x, ord=p, axis=dim, keepdims=True), 1e-12))


# fmt: off
PLANES = (
    Spec(name="instance_norm", rtol=SUMMED, atol=(4e-6, 4e-14), ref=_instance_norm,
         call=lambda m, x, w=None, b=None, *, eps: m.nn.functional.instance_norm(x, weight=w, bias=b, eps=eps),
         cases=(case((2, 3, 5), (3,), (3,), eps=1e-2), case((2, 3, 3, 4), eps=1e-2), case((2, 2, 20), (2,), None, eps=1e-2)),
         errors=((gd.InvalidValueError, "more than 1 spatial element", lambda: F.instance_norm(ones(2, 3, 1))),
                 (gd.InvalidValueError, "running_mean and running_var", lambda: F.instance_norm(ones(2, 3, 4), use_input_stats=False)))),
    Spec(name="local_response_norm", call=_call("local_response_norm"), ref=_local_response_norm, rtol=(2e-6, 1e-14),
         cases=(case((2, 5, 3), size=2, alpha=0.1), case((1, 4, 2, 3), size=3, alpha=1.0), case((2, 1, 3), size=5, alpha=0.5),
                case((0, 3, 2), size=2, alpha=0.1)),
         errors=((gd.ShapeError, "three dimensions", lambda: F.local_response_norm(ones(2, 3), 2)),)),
    Spec(name="normalize", call=_call("normalize"), ref=_normalize, rtol=(2e-6, 1e-14), domain=Domain(-3, 3, kinks=(0,), nonzero=True),
         cases=(case((2, 3)), case((4, 3), p=1.0, dim=0), case((2, 3, 2), p=3.0, dim=-1), case((2, 3), p=float("inf"))),
         errors=((gd.InvalidValueError, "out= is not supported", lambda: F.normalize(ones(2, 2), out=ones(2, 2))),)),
    *(_pooled(name, p.max_pool, dims, case(x, kernel_size=2), case(x, kernel_size=3, stride=1, padding=1), rtol=EXACT,
              out=("same", "int64"))
      for name, dims, x in (("max_pool1d_with_indices", 1, (2, 2, 5)), ("max_pool2d_with_indices", 2, (2, 4, 5)))),
    *(_pooled(name, p.max_pool, dims, case(x, output_size=2), rtol=EXACT, out=("same", "int64")) for name, dims, x in (
        ("adaptive_max_pool1d_with_indices", 1, (2, 2, 5)), ("adaptive_max_pool2d_with_indices", 2, (2, 4, 5)))),
    *(_pooled(name, lambda x, **a: p.max_pool(x, **a)[0], dims, *cases, rtol=EXACT) for name, dims, cases in (
        ("max_pool1d", 1, (case((2, 2, 5), kernel_size=2), case((2, 5), kernel_size=3, stride=2))),
        ("adaptive_max_pool1d", 1, (case((2, 2, 5), output_size=3),)), ("adaptive_max_pool2d", 2, (case((2, 2, 5, 4), output_size=3),)))),
    *(_pooled(name, p.avg_pool, dims, *cases, rtol=SUMMED, atol=(1e-6, 1e-14)) for name, dims, cases in (
        ("avg_pool1d", 1, (case((2, 2, 5), kernel_size=2), case((2, 5), kernel_size=3, stride=2, padding=1))),
        ("adaptive_avg_pool1d", 1, (case((2, 2, 5), output_size=3), case((2, 4), output_size=1))),
        ("adaptive_avg_pool2d", 2, (case((2, 2, 5, 4), output_size=3), case((2, 5, 4), output_size=1))))),
    *(_pooled(name, _lp, dims, case(x, norm_type=2.0, kernel_size=2), case(x, norm_type=3.0, kernel_size=2, stride=1),
              rtol=(2e-6, 1e-14),
              domain=Domain(0.1, 3)) for name, dims, x in (("lp_pool1d", 1, (2, 2, 6)), ("lp_pool2d", 2, (2, 4, 6)))),
    Spec(name="max_unpool1d", rtol=EXACT, ref=lambda x, index: _unpool(x, index.reshape(x.shape), room=(6,)),
         call=lambda m, x, index: m.nn.functional.max_unpool1d(x, index.reshape(x.shape), 2),
         cases=(case((1, 3), Given((1, 2, 5))), case((1, 2, 3), Given((0, 3, 4, 1, 2, 5)))),
         errors=((gd.OutOfRangeError, "must be in [0, 4)", lambda: F.max_unpool1d(ones(1, 2), gd.tensor([[0, 4]]), 2)),
                 (gd.InvalidValueError, "within one stride",
                     lambda: F.max_unpool1d(ones(1, 2), gd.tensor([[0, 3]]), 2, output_size=(9,))))),
    Spec(name="max_unpool2d", rtol=EXACT, ref=lambda x, index: _unpool(x, index.reshape(x.shape), room=(2, 4)),
         call=lambda m, x, index: m.nn.functional.max_unpool2d(x, index.reshape(x.shape), 2),
         cases=(case((2, 1, 2), Given((1, 7, 4, 3))),)),
    Spec(name="pixel_unshuffle", call=lambda m, x, r: m.nn.functional.pixel_unshuffle(x, r), ref=p.pixel_unshuffle, rtol=EXACT, dtypes=ALL,
         cases=(case((1, 4, 6), r=2), case((2, 2, 3, 3), r=3))),
    Spec(name="channel_shuffle", call=lambda m, x, groups: m.nn.functional.channel_shuffle(x, groups), rtol=EXACT, dtypes=ALL,
         ref=lambda x, groups: np.swapaxes(x.reshape(x.shape[0], groups, -1, *x.shape[2:]), 1, 2).reshape(x.shape),
         cases=(case((2, 6, 2), groups=2), case((1, 6, 2, 3), groups=3)),
         errors=((gd.ShapeError, "cannot be shared", lambda: F.channel_shuffle(ones(1, 3, 2), 2)),)),
    Spec(name="instance_norm_running", rtol=SUMMED, atol=(4e-6, 4e-14), cases=(case((2, 3, 5), Const((3,), -1), Const((3,))),),
         call=lambda m, x, mean, var: m.nn.functional.instance_norm(x, mean, var, use_input_stats=False),
         ref=lambda x, mean, var: p.batch_norm(x, None, None, mean, var)),
)
# fmt: on
