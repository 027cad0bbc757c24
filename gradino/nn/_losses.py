"""Losses over pairs of tensors and over classes, with PyTorch's names and arguments."""

from __future__ import annotations

import math

from gradino._core import call, wrap
from gradino._lib import lib
from gradino.dtypes import promote_types
from gradino.errors import InvalidValueError, ShapeError
from gradino.factories import zeros_like
from gradino.functions import where
from gradino.nn._activations import logsigmoid
from gradino.nn._checks import broadcast_shape, reduced, reduction_of, refuse_input, same_size
from gradino.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss",
    "nll_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss",
]  # fmt: skip

_CODE = {"none": 0, "mean": 1, "sum": 2}


def _pair(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one shape and one dtype."""
    x, y = same_size(name, input, target)
    if x.dtype is y.dtype:
        return x, y
    joint = promote_types(x.dtype, y.dtype)
    return x.to(joint), y.to(joint)


def _weighted(name: str, loss: Tensor, weight: Tensor, input: Tensor, reduction: str, by_weight: bool = False) -> Tensor:
    refuse_input(name, weight)
    if weight.shape != input.shape:
        raise ShapeError(f"{name}: weight has shape {tuple(weight.shape)}, must be the input's, {tuple(input.shape)}")
    loss = loss * weight
    return loss.sum() / weight.sum() if by_weight and reduction == "mean" else reduced(loss, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(input - target)^2``, averaged, summed or as it is.

    Shapes: input and target equal (others are broadcast with a warning); result a scalar, or theirs for ``"none"``. With
    ``weight``, of the input's shape, a mean is divided by the sum of weights.
    """
    how = reduction_of("mse_loss", size_average, reduce, reduction)
    x, y = _pair("mse_loss", input, target)
    if weight is None:
        return wrap(lib.gd_mse_loss(x._h, y._h, _CODE[how]))
    return _weighted("mse_loss", wrap(lib.gd_mse_loss(x._h, y._h, 0)), weight, input, how, by_weight=True)


def _smooth(name: str, input: Tensor, target: Tensor, reduction: str, beta: float, huber: bool) -> Tensor:
    x, y = _pair(name, input, target)
    return call(name, lib.gd_smooth_l1_loss, x._h, y._h, _CODE[reduction], beta, huber)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``|input - target|``, averaged, summed or as it is; gradient 0 where they are equal.

    Shapes: input and target equal (others are broadcast with a warning); result a scalar, or theirs for ``"none"``. With
    ``weight``, of the input's shape, a mean is divided by the sum of weights.
    """
    how = reduction_of("l1_loss", size_average, reduce, reduction)
    if weight is None:
        return _smooth("l1_loss", input, target, how, 0.0, False)
    return _weighted("l1_loss", _smooth("l1_loss", input, target, "none", 0.0, False), weight, input, how, by_weight=True)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """``d^2 / (2 beta)`` where ``|d| < beta``, else ``|d| - beta / 2``, with d the difference.

    Source: Girshick, Fast R-CNN, 2015.

    Raises:
        InvalidValueError: for a negative beta.
    """
    if not beta >= 0:
        raise InvalidValueError(f"smooth_l1_loss: beta is {beta}, must be at least 0")
    return _smooth("smooth_l1_loss", input, target, reduction_of("smooth_l1_loss", size_average, reduce, reduction), beta, False)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None) -> Tensor:
    """``d^2 / 2`` where ``|d| < delta``, else ``delta (|d| - delta / 2)``, with d the difference; times ``weight`` if given.

    Source: Huber, 1964.

    Raises:
        InvalidValueError: for a delta that is not above 0.
    """
    if not delta > 0:
        raise InvalidValueError(f"huber_loss: delta is {delta}, must be above 0")
    how = reduction_of("huber_loss", None, None, reduction)
    if weight is None:
        return _smooth("huber_loss", input, target, how, delta, True)
    return _weighted("huber_loss", _smooth("huber_loss", input, target, "none", delta, True), weight, input, how)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(t log x + (1-t) log(1-x))`` of probabilities x, with logarithms not below -100; times ``weight``, broadcast, if given.

    Raises:
        InvalidValueError: for a probability outside [0, 1].
        ShapeError: unless input and target have one shape.
    """
    how = reduction_of("binary_cross_entropy", size_average, reduce, reduction)
    refuse_input("binary_cross_entropy", input, target)
    if input.shape != target.shape:
        raise ShapeError(f"binary_cross_entropy: input has shape {tuple(input.shape)} and target {tuple(target.shape)}: they must be equal")
    if input.numel():
        low, high = input.detach().amin().item(), input.detach().amax().item()
        if low < 0 or high > 1:
            raise InvalidValueError(f"binary_cross_entropy: inputs reach from {low:g} to {high:g}, but probabilities lie in [0, 1]")
    if weight is None:
        return wrap(lib.gd_binary_cross_entropy(input._h, target._h, _CODE[how], False))
    return reduced(wrap(lib.gd_binary_cross_entropy(input._h, target._h, 0, False)) * weight, how)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of ``sigmoid(input)``, without overflow. ``pos_weight`` multiplies the term of positive targets, ``weight`` all.

    Shapes: input and target equal; the weights broadcast to it.

    Raises:
        ShapeError: unless input and target have one shape.
    """
    how = reduction_of("binary_cross_entropy_with_logits", size_average, reduce, reduction)
    refuse_input("binary_cross_entropy_with_logits", input, target)
    if input.shape != target.shape:
        raise ShapeError(
            f"binary_cross_entropy_with_logits: input has shape {tuple(input.shape)} and target {tuple(target.shape)}: they must be equal"
        )
    if pos_weight is not None:
        loss = (1 - target) * input - ((pos_weight - 1) * target + 1) * logsigmoid(input)
        return reduced(loss if weight is None else loss * weight, how)
    if target.dtype is not input.dtype:
        target = target.to(input.dtype)
    if weight is None:
        return wrap(lib.gd_binary_cross_entropy(input._h, target._h, _CODE[how], True))
    return reduced(wrap(lib.gd_binary_cross_entropy(input._h, target._h, 0, True)) * weight, how)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-weight[t] * input[t]`` of log-probabilities and classes t.

    Shapes: input (N, C), (C) or (N, C, d1, d2); int64 target the same without C; weight (C). Result: scalar, or the
    target's shape for ``"none"``. ``"mean"`` divides by the sum of the targets' weights; targets equal to ``ignore_index``
    count nothing, and a mean over none is NaN with gradient 0.

    Raises:
        OutOfRangeError: for a class outside [0, C).
    """
    how = reduction_of("nll_loss", size_average, reduce, reduction)
    refuse_input("nll_loss", input, target, *(() if weight is None else (weight,)))
    if target.dtype.is_floating_point:
        raise ShapeError(f"nll_loss: the target is {target.dtype.name}, but must hold classes (int64)")
    return call("nll_loss", lib.gd_nll_loss, input._h, target._h, lib.GD_ABSENT if weight is None else weight._h, ignore_index, _CODE[how])


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``target (log target - input)`` of log-probabilities ``input``, and 0 where the target is 0; ``log_target``: it is a logarithm, too.

    ``"mean"`` divides by all elements, ``"batchmean"``, which is the divergence, by the first dimension.
    """
    refuse_input("kl_div", input, target)
    batchmean = reduction == "batchmean" and size_average is None and reduce is None
    how = "sum" if batchmean else reduction_of("kl_div", size_average, reduce, reduction)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        zero = target == 0
        loss = where(zero, zeros_like(target), target * where(zero, zeros_like(target), target).log()) - target * input
    total = reduced(loss, how)
    return total / input.shape[0] if batchmean and input.ndim else total


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """``log(1 + exp(-target * input))`` for targets 1 and -1."""
    how = reduction_of("soft_margin_loss", size_average, reduce, reduction)
    refuse_input("soft_margin_loss", input, target)
    broadcast_shape("soft_margin_loss", tuple(input.shape), tuple(target.shape))
    return reduced(-logsigmoid(input * target), how)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """``(log(var) + (input - target)^2 / var) / 2``, with variances not below ``eps``; ``full`` adds ``log(2 pi) / 2``.

    Shapes: input and target equal; var like the input, like it without or with 1 as one dimension, or a number. The
    gradient of var is that of a variance above eps, as in PyTorch.

    Raises:
        InvalidValueError: for a negative variance, or one of another shape.
    """
    how = reduction_of("gaussian_nll_loss", None, None, reduction)
    refuse_input("gaussian_nll_loss", input, target)
    if not isinstance(var, Tensor):
        var = zeros_like(input) + var
    if var.numel() and var.detach().amin().item() < 0:
        raise InvalidValueError("gaussian_nll_loss: var has negative entries")
    if var.shape != input.shape:
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or sum(b for a, b in zip(input.shape, var.shape) if a != b) != 1:
            raise ShapeError(f"gaussian_nll_loss: var has shape {tuple(var.shape)}, which does not fit the input's, {tuple(input.shape)}")
    var = var.detach().clamp(min=eps) + (var - var.detach())
    loss = (var.log() + (input - target).square() / var) * 0.5
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, how)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``exp(input) - target * input``, or with ``log_input=False`` ``input - target * log(input + eps)``.

    ``full`` adds Stirling's ``t log t - t + log(2 pi t) / 2`` where the target t is above 1.
    """
    how = reduction_of("poisson_nll_loss", size_average, reduce, reduction)
    refuse_input("poisson_nll_loss", input, target)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        large = target > 1
        safe = where(large, target, zeros_like(target) + 1)
        loss = loss + where(large, safe * safe.log() - safe + 0.5 * (safe * (2 * math.pi)).log(), zeros_like(safe))
    return reduced(loss, how)
