"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from gradino import dtypes
from gradino._arguments import whole
from gradino._core import wrap
from gradino._lib import lib
from gradino.arena import step_arena
from gradino.errors import DTypeError, InvalidValueError
from gradino.nn._checks import refuse_input
from gradino.nn.module import Module
from gradino.nn.parameter import Parameter
from gradino.tensor import Tensor

__all__ = ["Identity", "Linear", "parameter_dtype", "uniform_parameter"]

_NONE = lib.GD_ABSENT


def parameter_dtype(dtype: Any, device: Any) -> dtypes.dtype:
    """The dtype of a layer's parameters from its ``dtype`` and ``device`` arguments."""
    found = dtypes.resolve("float32" if dtype is None else dtype)
    if not found.is_floating_point:
        raise DTypeError(f"parameters must be floating point, not {found}")
    return found


def uniform_parameter(shape: tuple[int, ...], bound: float, dtype: dtypes.dtype) -> Parameter:
    """A parameter drawn uniformly from [-bound, bound). The draw leaves nothing behind in the active arena."""
    with step_arena():
        return Parameter(wrap(lib.gd_uniform(len(shape), shape, dtype.code, -bound, bound)))


class Linear(Module):
    """``y = x W^T + b``.

    Shapes: input (..., in_features) with at most four dimensions, output (..., out_features),
    weight (out_features, in_features), bias (out_features).
    Weights and biases start uniform in ``+-1/sqrt(in_features)``, as PyTorch's do.

    >>> import gradino as gd
    >>> gd.nn.Linear(4, 2)(gd.zeros(8, 4)).shape
    (8, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        in_features, out_features = whole("Linear", "in_features", in_features), whole("Linear", "out_features", out_features)
        if in_features < 0 or out_features < 0:
            raise InvalidValueError(f"Linear: in_features {in_features} and out_features {out_features} must be at least 0")
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        kind = parameter_dtype(dtype, device)
        self.weight = uniform_parameter((out_features, in_features), bound, kind)
        if bias:
            self.bias = uniform_parameter((out_features,), bound, kind)
        else:
            self.register_parameter("bias", None)

    def forward(self, input: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        bias = self.bias
        try:
            return wrap(lib.gd_linear(input._h, self.weight._h, _NONE if bias is None else bias._h))
        except AttributeError:
            refuse_input("Linear", input)
            raise

    def extra_repr(self) -> str:
        """Sizes, as in PyTorch."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Identity(Module):
    """Returns its input, whatever its arguments were."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input
