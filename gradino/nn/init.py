"""Initial values for parameters, under PyTorch's names. Each function overwrites its tensor, records nothing, and returns it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradino import factories
from gradino.arena import step_arena
from gradino.errors import InvalidValueError, ShapeError
from gradino.grad_mode import no_grad
from gradino.tensor import Tensor

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_",
    "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

_GAINS = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"), 1.0),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """What a layer's standard deviation is multiplied with before a nonlinearity; ``param`` is leaky ReLU's slope.

    Raises:
        InvalidValueError: for a nonlinearity that has none, or a slope that is no number.
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise InvalidValueError(f"calculate_gain: leaky_relu's slope must be a number, got {param!r}")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise InvalidValueError(f"calculate_gain: no gain for {nonlinearity!r}; there are {sorted([*_GAINS, 'leaky_relu'])}")
    return _GAINS[nonlinearity]


def _written(tensor: Tensor, values: Tensor | np.ndarray[Any, Any]) -> Tensor:
    with no_grad():
        tensor.copy_(values if isinstance(values, Tensor) else Tensor(values, dtype=tensor.dtype))
    return tensor


def _no_generator(name: str, generator: Any) -> None:
    if generator is not None:
        raise InvalidValueError(f"{name}: there is one random number generator, set by gd.manual_seed(): generator must be None")


def constant_(tensor: Tensor, val: float) -> Tensor:
    """``val`` everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in [a, b)."""
    _no_generator("uniform_", generator)
    with no_grad(), step_arena():
        return tensor.uniform_(a, b)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with the given mean and standard deviation."""
    _no_generator("normal_", generator)
    with no_grad(), step_arena():
        return tensor.normal_(mean, std)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None) -> Tensor:
    """Normal, limited to [a, b]: by the inverse of the distribution function, so that no value is drawn twice.

    Raises:
        InvalidValueError: unless ``a < b`` and ``std > 0``.
    """
    _no_generator("trunc_normal_", generator)
    if not a < b or not std > 0:
        raise InvalidValueError(f"trunc_normal_: needs a < b and std > 0, got a={a}, b={b}, std={std}")
    from statistics import NormalDist  # takes long to import

    normal = NormalDist()
    low, high = normal.cdf((a - mean) / std), normal.cdf((b - mean) / std)
    if not low < high:
        raise InvalidValueError(f"trunc_normal_: [{a}, {b}] is too far from the mean {mean} for a standard deviation of {std}")
    with no_grad(), step_arena():
        share = factories.rand(tensor.numel(), dtype="float64", device="cpu").numpy() * (high - low) + low
        share = share.clip(np.nextafter(0, 1), np.nextafter(1, 0))  # the inverse has its infinities at 0 and 1
        values = np.fromiter(map(normal.inv_cdf, share.tolist()), np.float64, share.size) * std + mean
        return _written(tensor, values.clip(a, b).reshape(tensor.shape))


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix, for a tensor of two dimensions."""
    _need_rank("eye_", tensor, (2,))
    with step_arena():
        return _written(tensor, factories.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight (out, in, ...) that passes its input through, as many channels as fit, in each group.

    Raises:
        ShapeError: unless the tensor has three or four dimensions.
        InvalidValueError: if the output channels cannot be split into the groups.
    """
    _need_rank("dirac_", tensor, (3, 4))
    out, inputs, *window = tensor.shape
    if groups < 1 or out % groups:
        raise InvalidValueError(f"dirac_: {out} output channels cannot be split into {groups} groups")
    values, per_group = np.zeros(tensor.shape), out // groups
    middle = tuple(n // 2 for n in window)
    for g in range(groups):
        for channel in range(min(per_group, inputs)):
            place = (g * per_group + channel, channel, *middle)
            values[place] = 1
    with step_arena():
        return _written(tensor, values)


def _need_rank(name: str, tensor: Tensor, ranks: tuple[int, ...]) -> None:
    if tensor.ndim not in ranks:
        raise ShapeError(f"{name}: the tensor must have {' or '.join(map(str, ranks))} dimensions, not the shape {tensor.shape}")


def _fans(name: str, tensor: Tensor) -> tuple[int, int]:
    """How many numbers go into, and come out of, one unit: (out, in, *window)."""
    if tensor.ndim < 2:
        raise ShapeError(f"{name}: fan in and fan out need at least two dimensions, not the shape {tensor.shape}")
    out, inputs, *window = tensor.shape
    return inputs * math.prod(window), out * math.prod(window)


def _fan(name: str, tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise InvalidValueError(f"{name}: mode is {mode!r}, must be 'fan_in' or 'fan_out'")
    return _fans(name, tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in ±gain * sqrt(6 / (fan_in + fan_out)). Source: Glorot and Bengio, 2010."""
    bound = gain * math.sqrt(6.0 / max(sum(_fans("xavier_uniform_", tensor)), 1))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out)). Source: Glorot and Bengio, 2010."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / max(sum(_fans("xavier_normal_", tensor)), 1)), generator)


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Tensor:
    """Uniform in ±gain * sqrt(3 / fan); ``a`` is leaky ReLU's slope. Source: He et al., 2015."""
    fan = _fan("kaiming_uniform_", tensor, mode)
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan); ``a`` is leaky ReLU's slope. Source: He et al., 2015."""
    fan = _fan("kaiming_normal_", tensor, mode)
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1)), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A (semi-)orthogonal matrix times ``gain``; dimensions after the first count as columns. Source: Saxe et al., 2014."""
    _no_generator("orthogonal_", generator)
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: the tensor needs at least two dimensions, not the shape {tensor.shape}")
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    with no_grad(), step_arena():
        noise = factories.randn(rows, tensor.numel() // rows, dtype="float64", device="cpu").numpy()
        wide = noise.shape[0] < noise.shape[1]
        q, r = np.linalg.qr(noise.T if wide else noise)
        q *= np.where(np.diag(r) < 0, -1.0, 1.0)  # makes the draw uniform over orthogonal matrices
        return _written(tensor, gain * (q.T if wide else q).reshape(tensor.shape))
