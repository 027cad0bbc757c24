"""Activation functions, with PyTorch's names and arguments."""

from __future__ import annotations

from typing import Any

from gradino._arguments import as_float
from gradino._core import call, unary
from gradino._lib import lib, op_id
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.factories import arange, rand_like, zeros_like
from gradino.functions import where
from gradino.nn._checks import in_place, refuse_input
from gradino.tensor import Tensor

__all__ = [
    "celu", "celu_", "elu", "elu_", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_",
    "leaky_relu", "leaky_relu_", "logsigmoid", "mish", "prelu", "relu6", "relu_", "relu_squared", "rrelu", "rrelu_", "selu", "selu_",
    "softcap", "softmax2d", "softmin", "softshrink", "softsign", "swiglu", "tanhshrink", "threshold", "threshold_",
]  # fmt: skip

_HARDSWISH, _LOG_SIGMOID, _MISH, _SILU = op_id("hardswish"), op_id("log_sigmoid"), op_id("mish"), op_id("silu")
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` above 0, ``negative_slope * x`` below, elementwise."""
    slope = as_float("leaky_relu", negative_slope)
    return in_place("leaky_relu", input, inplace, lambda x: call("leaky_relu", lib.gd_leaky_relu, x._h, slope))


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``x`` above 0, ``weight * x`` below, with one weight or one for each channel (the second dimension)."""
    refuse_input("prelu", input, weight)
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise ShapeError(f"prelu: weight has shape {tuple(weight.shape)}, must hold one number or one for each of {channels} channels")
    if weight.numel() > 1 or weight.ndim:
        weight = weight.reshape([weight.numel()] + [1] * (input.ndim - 2)) if input.ndim > 1 else weight.reshape([1] * input.ndim)
    result: Tensor = where(input > 0, input, weight * input)
    return result


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """Leaky ReLU whose slope below 0 is drawn for each element from [lower, upper) in training, and their mean else."""
    if not lower <= upper:
        raise InvalidValueError(f"rrelu: lower is {lower} and upper {upper}: lower must not be greater")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    return in_place("rrelu", input, inplace, lambda x: where(x <= 0, x * (rand_like(x) * (upper - lower) + lower), x))


def _elu(name: str, input: Tensor, alpha: float, scale: float, scaled_input: bool, inplace: bool) -> Tensor:
    alpha = as_float(name, alpha)
    return in_place(name, input, inplace, lambda x: call(name, lib.gd_elu, x._h, alpha, scale, scaled_input))


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` above 0, ``alpha (exp(x) - 1)`` below, elementwise.

    Source: Clevert, Unterthiner and Hochreiter, 2016.
    """
    return _elu("elu", input, alpha, 1.0, False, inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``1.0507 elu(x, 1.6733)``, which keeps mean 0 and variance 1 from layer to layer.

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.
    """
    return _elu("selu", input, _SELU_ALPHA, _SELU_SCALE, False, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` above 0, ``alpha (exp(x / alpha) - 1)`` below, elementwise.

    Raises:
        DivisionByZeroError: for alpha 0.
    """
    return _elu("celu", input, alpha, 1.0, True, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` limited to [min_val, max_val], with gradient 0 at the bounds and beyond."""
    low, high = as_float("hardtanh", min_val), as_float("hardtanh", max_val)

    def limited(x: Tensor) -> Tensor:
        return call("hardtanh", lib.gd_hardtanh, x._h, low, high) if x.dtype.is_floating_point else x.clamp(int(low), int(high))

    return in_place("hardtanh", input, inplace, limited)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``x`` limited to [0, 6]."""
    return hardtanh(input, 0, 6, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x relu6(x + 3) / 6``, elementwise.

    Source: Howard et al., Searching for MobileNetV3, 2019.
    """
    return in_place("hardswish", input, inplace, lambda x: _of_floats("hardswish", _HARDSWISH, x))


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``relu6(x + 3) / 6``, elementwise."""
    return in_place("hardsigmoid", input, inplace, lambda x: relu6(x + 3) / 6)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x tanh(softplus(x))``, elementwise; never NaN but for NaN.

    Source: Misra, Mish, 2020.
    """
    return in_place("mish", input, inplace, lambda x: _of_floats("mish", _MISH, x))


def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(x))``, elementwise, without overflow."""
    refuse_input("logsigmoid", input)
    return _of_floats("logsigmoid", _LOG_SIGMOID, input)


def _of_floats(name: str, op: int, x: Tensor) -> Tensor:
    """A unary op, which would make floats of integers."""
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{name}: the input is {x.dtype.name}, but must be floating point")
    return unary(op, x)


def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``, elementwise."""
    refuse_input("softsign", input)
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``, elementwise."""
    refuse_input("tanhshrink", input)
    return input - input.tanh()


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x - lambd`` above lambd, ``x + lambd`` below -lambd, 0 between, elementwise.

    Raises:
        InvalidValueError: for a negative lambd.
    """
    refuse_input("softshrink", input)
    if not lambd >= 0:
        raise InvalidValueError(f"softshrink: lambd is {lambd}, must be at least 0")
    result: Tensor = where(input > lambd, input - lambd, where(input < -lambd, input + lambd, input * 0))
    return result


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``x`` outside [-lambd, lambd], 0 inside, elementwise."""
    refuse_input("hardshrink", input)
    result: Tensor = where((input >= -lambd) & (input <= lambd), zeros_like(input), input)
    return result


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``x`` above the threshold, ``value`` up to it, elementwise."""
    return in_place("threshold", input, inplace, lambda x: x.masked_fill(x <= threshold, value))


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``softmax(-x)`` along ``dim``, computed in ``dtype`` if given.

    Raises:
        InvalidValueError: if dim is not given, which PyTorch would guess.
    """
    refuse_input("softmin", input)
    if dim is None:
        raise InvalidValueError("softmin: dim must be given")
    return (-input).softmax(dim, dtype=dtype)


def softmax2d(input: Tensor) -> Tensor:
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""
    refuse_input("Softmax2d", input)
    if input.ndim not in (3, 4):
        raise ShapeError(f"Softmax2d: the input has shape {tuple(input.shape)}, must be (N, C, H, W) or (C, H, W)")
    return input.softmax(-3)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """``a * sigmoid(b)`` of the two halves of the input along ``dim``.

    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks, 2017.

    Raises:
        ShapeError: if that dimension cannot be halved.
    """
    a, b = _halves("glu", input, dim)
    return a * b.sigmoid()


def swiglu(input: Tensor, dim: int = -1) -> Tensor:
    """``silu(a) * b`` of the two halves of the input along ``dim``, the gate first. PyTorch has no function for it.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.

    Raises:
        ShapeError: if that dimension cannot be halved.
    """
    a, b = _halves("swiglu", input, dim)
    return unary(_SILU, a) * b


def _halves(name: str, input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    refuse_input(name, input)
    if input.ndim == 0 or input.shape[dim] % 2:
        raise ShapeError(f"{name}: dimension {dim} of shape {tuple(input.shape)} cannot be halved: its size must be even")
    a, b = input.chunk(2, dim) if input.shape[dim] else (input, input)
    return a, b


def relu_squared(input: Tensor) -> Tensor:
    """``max(x, 0)^2``, elementwise. PyTorch has no function for it.

    Source: So et al., Primer, 2021.
    """
    refuse_input("relu_squared", input)
    return input.relu().square()


def softcap(input: Tensor, cap: float) -> Tensor:
    """``cap * tanh(x / cap)``, elementwise: logits kept within (-cap, cap). PyTorch has no function for it.

    Raises:
        InvalidValueError: for a cap that is not above 0.
    """
    refuse_input("softcap", input)
    if not cap > 0:
        raise InvalidValueError(f"softcap: cap is {cap}, must be above 0")
    return (input / cap).tanh() * cap


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of nearly one-hot vectors: softmax of ``(logits + Gumbel noise) / tau`` along ``dim``.

    With ``hard`` the result is one-hot, with the gradient of the soft one. ``eps`` has no effect, as in PyTorch.

    Source: Jang, Gu and Poole, 2017.
    """
    refuse_input("gumbel_softmax", logits)
    uniform = rand_like(logits).clamp(min=1e-38 if logits.dtype.itemsize > 2 else 1e-7)
    soft = ((logits - (-uniform.log()).log()) / tau).softmax(dim)
    if not hard:
        return soft
    largest = soft.detach().max(dim, keepdim=True)
    index = largest[1] if isinstance(largest, tuple) else largest.indices
    places = [1] * soft.ndim
    places[dim] = soft.shape[dim]
    one: Tensor = (arange(soft.shape[dim], device=soft.device).reshape(places) == index).to(soft.dtype)
    return one - soft.detach() + soft


def relu_(input: Tensor) -> Tensor:
    """``relu`` in place."""
    return in_place("relu_", input, True, lambda x: x.relu())


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``leaky_relu`` in place."""
    return leaky_relu(input, negative_slope, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``elu`` in place."""
    return elu(input, alpha, True)


def selu_(input: Tensor) -> Tensor:
    """``selu`` in place."""
    return selu(input, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``celu`` in place."""
    return celu(input, alpha, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``hardtanh`` in place."""
    return hardtanh(input, min_val, max_val, True)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """``rrelu`` in place."""
    return rrelu(input, lower, upper, training, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """``threshold`` in place."""
    return in_place("threshold_", input, True, lambda x: x.masked_fill(x <= threshold, value))
