"""Random numbers whose distribution tensors describe."""

from __future__ import annotations

from typing import Any

from gradino import devices, dtypes
from gradino._arguments import as_float, flag, whole
from gradino._core import sizes
from gradino._random import exponentials, normals, uniforms
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.functions._arguments import _tensor
from gradino.functions.arranging import broadcast_shapes
from gradino.functions.sorting import searchsorted
from gradino.tensor import Tensor

__all__ = ["bernoulli", "multinomial", "normal"]


def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """1 with the probability that each element says (or with ``p``), and 0 else, in the input's dtype."""
    return _tensor("bernoulli", input).bernoulli(p, generator=generator)


@devices.placed
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers; mean and standard deviation are numbers or tensors that are broadcast. Two numbers need ``size``."""
    from gradino.factories import _dtype

    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if not given:
        if size is None:
            raise InvalidValueError("normal: with two numbers the size must be given")
        made = normals(
            "normal", sizes((size,), "normal"), _dtype(dtype, device), generator, as_float("normal", mean), as_float("normal", std)
        )
        return made.requires_grad_() if requires_grad else made
    if size is not None:
        raise InvalidValueError("normal: the size is that of the tensors")
    _dtype(dtype, device)
    for x in given:
        if not x.dtype.is_floating_point:
            raise DTypeError(f"normal: tensors must be floating point, got {x.dtype}")
    if isinstance(std, Tensor):
        if std.numel() and not std.amin().item() >= 0:
            raise InvalidValueError("normal: standard deviations must be at least 0")
    elif not as_float("normal", std) >= 0:
        raise InvalidValueError(f"normal: std is {std}, must be at least 0")
    shape = broadcast_shapes(*(x.shape for x in given))
    deviation, middle = (x.detach() if isinstance(x, Tensor) else as_float("normal", x) for x in (std, mean))
    with devices.beside(given[0]):
        return normals("normal", shape, given[0].dtype, generator) * deviation + middle


def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """Places drawn with the probabilities that a vector, or each row of a matrix, is proportional to: (num_samples) or (rows, num_samples).

    Without ``replacement`` no place is drawn twice.
    """
    weights, count = _tensor("multinomial", input).detach(), whole("multinomial", "num_samples", num_samples)
    if weights.ndim not in (1, 2) or not weights.dtype.is_floating_point:
        raise ShapeError(f"multinomial: expected a vector or matrix of floats, got shape {weights.shape}, {weights.dtype}")
    rows = weights.reshape(-1, weights.shape[-1]).to(dtypes.float64)
    places = rows.shape[1]
    if count < 1 or (not flag("multinomial", "replacement", replacement) and count > places):
        raise InvalidValueError(f"multinomial: {count} samples from {places} places" + ("" if count < 1 else " without replacement"))
    if not rows.numel():
        raise ShapeError(f"multinomial: shape {weights.shape} has no probabilities")
    if not (rows.amin().item() >= 0 and rows.amax().item() < float("inf")):
        raise InvalidValueError("multinomial: probabilities must be finite and at least 0")
    if not rows.sum(1).amin().item() > 0:
        raise InvalidValueError("multinomial: the probabilities of a row add up to 0")
    if replacement:
        ends = rows.cumsum(1)
        total = ends.narrow(1, places - 1, 1)
        last = (ends < total).sum(1, keepdim=True)  # the last place that can be drawn
        with devices.beside(rows):
            drawn = uniforms("multinomial", (rows.shape[0], count), dtypes.float64, generator) * total
        found = searchsorted(ends, drawn, right=True).minimum(last)
    else:
        if (rows > 0).sum(1).amin().item() < count:
            raise InvalidValueError(f"multinomial: {count} samples without replacement, but fewer places have a probability above 0")
        with devices.beside(rows):
            times = exponentials("multinomial", rows.shape, dtypes.float64, generator).clamp(min=1e-300)
        found = (rows / times).topk(count, 1).indices
    return found.reshape(count) if weights.ndim == 1 else found
