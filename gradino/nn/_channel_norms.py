"""Functions that normalise channels: batch, group, instance and local response norm, and vectors of length one."""

from __future__ import annotations

import math
from typing import Any

from gradino._arguments import whole
from gradino._core import call
from gradino._lib import lib
from gradino.errors import DTypeError, GradinoError, InvalidValueError, ShapeError
from gradino.nn._pooling import avg_pool2d
from gradino.tensor import Tensor

__all__ = ["batch_norm", "group_norm", "instance_norm", "local_response_norm", "normalize"]

_NONE = lib.GD_ABSENT


def _handles(name: str, *optional: Tensor | None) -> list[int]:
    """Handles of tensors that may be absent."""
    for t in optional:
        if t is not None and not isinstance(t, Tensor):
            raise DTypeError(f"{name}: expected a Tensor or None, got {type(t).__name__}")
    return [_NONE if t is None else t._h for t in optional]


def _need_tensor(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise DTypeError(f"{name}: expected a Tensor, got {type(input).__name__}")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, with one of each per channel.

    Shapes: input (N, C), (N, C, L) or (N, C, H, W); all others (C,); result like the input.

    In training, mean and (biased) variance are those of the batch, and the running ones, where given, are updated in
    place: ``momentum * new + (1 - momentum) * old``, with the unbiased variance. Else the running ones are used.
    Statistics are float64, so a large mean costs no precision.

    Source: Ioffe and Szegedy, Batch Normalization, 2015.

    Raises:
        InvalidValueError: in training with one value per channel; else without running statistics.
    """
    return tracked_batch_norm(input, running_mean, running_var, None, weight, bias, training, momentum, eps)


def tracked_batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    num_batches_tracked: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float | None,
    eps: float,
) -> Tensor:
    """:func:`batch_norm` that also counts batches; momentum None: all batches weigh the same."""
    _need_tensor("batch_norm", input)
    w, b, mean, var, batches = _handles("batch_norm", weight, bias, running_mean, running_var, num_batches_tracked)
    factor = math.nan if momentum is None and num_batches_tracked is not None else momentum or 0.0
    return call("batch_norm", lib.gd_batch_norm, input._h, w, b, mean, var, batches, bool(training), factor, eps)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """Normalises each group of channels of each sample, then scales and shifts each channel.

    Shapes: input (N, C), (N, C, L) or (N, C, H, W), weight and bias (C,); result like the input.

    Source: Wu and He, Group Normalization, 2018.

    Raises:
        ShapeError: if the channels do not divide into the groups.
        InvalidValueError: with one value per group.
    """
    _need_tensor("group_norm", input)
    groups = whole("group_norm", "num_groups", num_groups)
    if input.ndim < 2:
        raise GradinoError(f"group_norm: the input has shape {input.shape}, but must have at least two dimensions: (N, C, ...)")
    if groups > 0 and input.shape[0] * input.shape[1] // groups * math.prod(input.shape[2:]) == 1:
        raise InvalidValueError(f"group_norm: expected more than 1 value per channel when training, got an input of shape {input.shape}")
    return call("group_norm", lib.gd_group_norm, input._h, groups, *_handles("group_norm", weight, bias), eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each channel of each sample, then scales and shifts each channel.

    Shapes: input (N, C, L) or (N, C, H, W), all others (C,); result like the input. ``use_input_stats=False`` takes the
    running statistics instead; else those are updated, where given, with the mean over the samples.

    Source: Ulyanov, Vedaldi and Lempitsky, Instance Normalization, 2016.

    Raises:
        InvalidValueError: with one value per channel and sample.
    """
    _need_tensor("instance_norm", input)
    w, b, mean, var = _handles("instance_norm", weight, bias, running_mean, running_var)
    return call("instance_norm", lib.gd_instance_norm, input._h, w, b, mean, var, bool(use_input_stats), momentum, eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``x / (k + alpha * mean(x^2))^beta``, with the mean over ``size`` neighbouring channels, zeros beyond the edges.

    Shapes: input (N, C, L) or (N, C, H, W); result like the input.

    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural Networks, 2012.
    """
    _need_tensor("local_response_norm", input)
    if input.ndim < 3:
        raise ShapeError(f"local_response_norm: the input has shape {input.shape}, but must have at least three dimensions: (N, C, ...)")
    size = whole("local_response_norm", "size", size)
    if size < 1:
        raise InvalidValueError(f"local_response_norm: size is {size}, must be at least 1")
    if input.numel() == 0:
        return input
    n, c = input.shape[:2]
    squares = input.square().reshape(n, 1, c, -1)
    mean = avg_pool2d(squares, (size, 1), stride=1, padding=(size // 2, 0))[:, :, :c]
    return input / (mean.reshape(input.shape) * alpha + k) ** beta


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """``x / max(norm_p(x), eps)`` along ``dim``. Shapes: result like the input."""
    _need_tensor("normalize", input)
    if out is not None:
        raise InvalidValueError("normalize: out= is not supported")
    return input / _norm(input, p, dim).clamp(min=eps)


def _norm(x: Tensor, p: float, dim: int) -> Tensor:
    if p == 2:
        return x.square().sum(dim, keepdim=True).sqrt()
    if p == 1:
        return x.abs().sum(dim, keepdim=True)
    if p == math.inf:
        return x.abs().amax(dim, keepdim=True)
    if p == -math.inf:
        return x.abs().amin(dim, keepdim=True)
    if p == 0:
        return (x != 0).to(x.dtype).sum(dim, keepdim=True)
    return (x.abs() ** p).sum(dim, keepdim=True) ** (1 / p)
