"""Functions of layers and losses, with PyTorch's names and arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradino._arguments import probability
from gradino._core import call, unary, wrap
from gradino._lib import lib, op_id
from gradino.errors import InvalidValueError
from gradino.functions import sigmoid, tanh
from gradino.functions.convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d, fold, unfold
from gradino.nn import _activations, _class_margins, _distances, _dropouts, _embeddings, _losses
from gradino.nn._activations import *  # noqa: F403
from gradino.nn._attention import rotary_embedding, scaled_dot_product_attention
from gradino.nn._channel_norms import batch_norm, group_norm, instance_norm, local_response_norm, normalize
from gradino.nn._checks import in_place, reduction_of, refuse_input
from gradino.nn._class_margins import *  # noqa: F403
from gradino.nn._distances import *  # noqa: F403
from gradino.nn._dropouts import *  # noqa: F403
from gradino.nn._embeddings import *  # noqa: F403
from gradino.nn._losses import *  # noqa: F403
from gradino.nn._pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    avg_pool1d,
    avg_pool2d,
    lp_pool1d,
    lp_pool2d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_unpool1d,
    max_unpool2d,
)
from gradino.nn._resizing import channel_shuffle, interpolate, pixel_shuffle, pixel_unshuffle
from gradino.nn.pad import pad
from gradino.tensor import Tensor

__all__ = [
    "cross_entropy", "dropout", "gelu", "layer_norm", "linear", "log_softmax", "one_hot", "pad", "relu", "rms_norm",
    "sigmoid", "silu", "softmax", "softplus", "tanh",
]  # fmt: skip
__all__ += ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "fold", "unfold"]
__all__ += ["rotary_embedding", "scaled_dot_product_attention"]
__all__ += ["channel_shuffle", "interpolate", "pixel_shuffle", "pixel_unshuffle"]
__all__ += ["batch_norm", "group_norm", "instance_norm", "local_response_norm", "normalize"]
__all__ += [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices", "avg_pool1d", "avg_pool2d", "lp_pool1d", "lp_pool2d", "max_pool1d", "max_pool1d_with_indices",
    "max_pool2d", "max_pool2d_with_indices", "max_unpool1d", "max_unpool2d",
]  # fmt: skip
__all__ += _activations.__all__ + _class_margins.__all__ + _distances.__all__ + _dropouts.__all__ + _embeddings.__all__ + _losses.__all__

_GELU = {"none": op_id("gelu"), "tanh": op_id("gelu_tanh")}
_SILU = op_id("silu")
_NONE = lib.GD_ABSENT
_CODE = {"none": 0, "mean": 1, "sum": 2}


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``: input (..., in), weight (out, in), bias (out) -> (..., out)."""
    try:
        return wrap(lib.gd_linear(input._h, weight._h, _NONE if bias is None else bias._h))
    except AttributeError:
        refuse_input("linear", input, weight, *(() if bias is None else (bias,)))
        raise


def sizes_of(name: str, shape: int | Sequence[int]) -> tuple[int, ...]:
    """``normalized_shape`` as a tuple."""
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not all(isinstance(n, int) and n >= 0 for n in sizes):
        raise InvalidValueError(f"{name}: normalized_shape is {shape}, must be sizes")
    return sizes


def layer_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and (biased) variance over the last dimensions.

    Shapes: input (..., *normalized_shape), weight and bias normalized_shape; result like the input. The statistics are
    float64, so a large mean costs no precision.

    Source: Ba, Kiros and Hinton, Layer Normalization, 2016.

    Raises:
        ShapeError: if the input does not end with normalized_shape, or a parameter has another shape.
    """
    sizes = sizes_of("layer_norm", normalized_shape)
    try:
        w, b = _NONE if weight is None else weight._h, _NONE if bias is None else bias._h
        return call("layer_norm", lib.gd_layer_norm, input._h, len(sizes), sizes, w, b, eps)
    except AttributeError:
        refuse_input("layer_norm", input, *(t for t in (weight, bias) if t is not None))
        raise


def rms_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight``, with the mean over the last dimensions; eps None: that of the dtype.

    Shapes: input (..., *normalized_shape), weight normalized_shape; result like the input.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.

    Raises:
        ShapeError: if the input does not end with normalized_shape, or the weight has another shape.
    """
    sizes = sizes_of("rms_norm", normalized_shape)
    try:
        w = _NONE if weight is None else weight._h
        return call("rms_norm", lib.gd_rms_norm, input._h, len(sizes), sizes, w, math.nan if eps is None else eps)
    except AttributeError:
        refuse_input("rms_norm", input, *(() if weight is None else (weight,)))
        raise


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of logits against classes or probabilities, log-softmax included.

    Shapes: input (N, C), (C) or (N, C, d1, d2); target the same without C holding int64 classes, or the
    input's shape holding probabilities; weight (C). Result: scalar, or the target's shape for ``"none"``.

    With smoothing e: ``q = (1-e) onehot + e/C``, ``loss_n = -sum_c w_c q_nc log p_nc``. ``"mean"`` divides by the
    sum of the targets' weights. Targets equal to ``ignore_index`` count nothing; a mean over none is NaN with
    gradient 0.

    Raises:
        OutOfRangeError: for a class outside [0, C).
    """
    kind = _CODE[reduction_of("cross_entropy", size_average, reduce, reduction)]
    try:
        w = _NONE if weight is None else weight._h
        return call("cross_entropy", lib.gd_cross_entropy, input._h, target._h, w, ignore_index, kind, label_smoothing)
    except AttributeError:
        refuse_input("cross_entropy", input, target, *(() if weight is None else (weight,)))
        raise


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability ``p`` and scales the rest by ``1/(1-p)``, in training only."""
    p = probability("dropout", "p", p)
    refuse_input("dropout", input)
    if not training or p == 0:
        return input
    return in_place("dropout", input, inplace, lambda x: wrap(lib.gd_dropout(x._h, p, True)))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(x, 0)``, elementwise; NaN stays NaN."""
    refuse_input("relu", input)
    return input.relu() if inplace is False else in_place("relu", input, inplace, lambda x: x.relu())


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``x Phi(x)``, elementwise, with Phi the normal distribution; never NaN but for NaN.

    ``approximate="tanh"``: ``x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2``.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.

    Raises:
        InvalidValueError: if approximate is neither "none" nor "tanh".
    """
    if not isinstance(approximate, str) or approximate not in _GELU:
        raise InvalidValueError(f"gelu: approximate is {approximate!r}, must be 'none' or 'tanh'")
    refuse_input("gelu", input)
    return unary(_GELU[approximate], input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x sigmoid(x)``, elementwise, also known as swish; never NaN but for NaN."""
    refuse_input("silu", input)
    return unary(_SILU, input) if inplace is False else in_place("silu", input, inplace, lambda x: unary(_SILU, x))


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta x)) / beta``, elementwise; x itself where ``beta x`` is above the threshold."""
    refuse_input("softplus", input)
    return call("softplus", lib.gd_softplus, input._h, beta, threshold)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``, computed in ``dtype`` if given; NaN for a row of -inf."""
    refuse_input("softmax", input)
    return input.softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``log(softmax(x))`` along ``dim``, computed in ``dtype`` if given, without overflow."""
    refuse_input("log_softmax", input)
    return input.log_softmax(dim, dtype=dtype)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (...) -> int64 (..., num_classes): 1 at the class, else 0. -1: as many as the largest class needs."""
    refuse_input("one_hot", tensor)
    return call("one_hot", lib.gd_one_hot, tensor._h, num_classes)
