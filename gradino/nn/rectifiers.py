"""More activations as modules. Each works elementwise, unless it says otherwise, and names the function it calls."""

from __future__ import annotations

import warnings
from typing import Any

from gradino._arguments import flag
from gradino.arena import step_arena
from gradino.errors import InvalidValueError
from gradino.factories import full
from gradino.nn import _activations as A
from gradino.nn.linear import parameter_dtype
from gradino.nn.module import Module
from gradino.nn.parameter import Parameter
from gradino.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "Mish", "PReLU", "RReLU",
    "ReLU6", "ReLUSquared", "SELU", "Softcap", "Softmax2d", "Softmin", "Softshrink", "Softsign", "SwiGLU", "Tanhshrink", "Threshold",
]  # fmt: skip


class _InPlace(Module):
    """A module that may write its result over its input."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.inplace = flag(type(self).__name__, "inplace", inplace)

    def extra_repr(self) -> str:
        """The settings."""
        return ", ".join([*self._settings(), *(["inplace=True"] if self.inplace else [])])

    def _settings(self) -> list[str]:
        return []


class LeakyReLU(_InPlace):
    """``x`` above 0, ``negative_slope * x`` below."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.leaky_relu(input, self.negative_slope, self.inplace)

    def _settings(self) -> list[str]:
        return [f"negative_slope={self.negative_slope}"]


class PReLU(Module):
    """``x`` above 0, ``weight * x`` below, with one trained weight or one for each channel (the second dimension)."""

    weight: Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters  # type: ignore[method-assign,assignment]  # PyTorch's name
        self.init = init
        with step_arena():
            self.weight = Parameter(full((num_parameters,), init, dtype=parameter_dtype(dtype, device)))

    def reset_parameters(self) -> None:
        """All weights are ``init`` again."""
        self.weight.detach().fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of weights."""
        return f"num_parameters={self.num_parameters}"


class RReLU(_InPlace):
    """Leaky ReLU whose slope below 0 is drawn for each element from [lower, upper) in training, and their mean else."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def _settings(self) -> list[str]:
        return [f"lower={self.lower}", f"upper={self.upper}"]


class ELU(_InPlace):
    """``x`` above 0, ``alpha (exp(x) - 1)`` below."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.elu(input, self.alpha, self.inplace)

    def _settings(self) -> list[str]:
        return [f"alpha={self.alpha}"]


class CELU(_InPlace):
    """``x`` above 0, ``alpha (exp(x / alpha) - 1)`` below."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.celu(input, self.alpha, self.inplace)

    def _settings(self) -> list[str]:
        return [f"alpha={self.alpha}"]


class SELU(_InPlace):
    """``1.0507 elu(x, 1.6733)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace)

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.selu(input, self.inplace)


class Hardtanh(_InPlace):
    """``x`` limited to [min_val, max_val]; ``min_value`` and ``max_value`` are their old names."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        if min_value is not None or max_value is not None:
            warnings.warn("Hardtanh: min_value and max_value are deprecated, use min_val and max_val", FutureWarning, stacklevel=2)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if not self.min_val < self.max_val:
            raise InvalidValueError(f"Hardtanh: min_val is {self.min_val} and max_val {self.max_val}: it must be greater")

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def _settings(self) -> list[str]:
        return [f"min_val={self.min_val}", f"max_val={self.max_val}"]


class ReLU6(Hardtanh):
    """``x`` limited to [0, 6]."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def _settings(self) -> list[str]:
        return []


class Threshold(_InPlace):
    """``x`` above the threshold, ``value`` up to it."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold, self.value = threshold, value

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.threshold(input, self.threshold, self.value, self.inplace)

    def _settings(self) -> list[str]:
        return [f"threshold={self.threshold}", f"value={self.value}"]


class _Simple(_InPlace):
    """A module without settings. PyTorch does not show whether it works in place."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace)

    def extra_repr(self) -> str:
        """Nothing."""
        return ""


class Hardswish(_Simple):
    """``x relu6(x + 3) / 6``."""

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.hardswish(input, self.inplace)


class Hardsigmoid(_Simple):
    """``relu6(x + 3) / 6``."""

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.hardsigmoid(input, self.inplace)


class Mish(_InPlace):
    """``x tanh(softplus(x))``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace)

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.mish(input, self.inplace)


class Hardshrink(Module):
    """``x`` outside [-lambd, lambd], 0 inside."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The bound."""
        return f"{self.lambd}"


class Softshrink(Module):
    """``x - lambd`` above lambd, ``x + lambd`` below -lambd, 0 between."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The bound."""
        return str(self.lambd)


class Tanhshrink(Module):
    """``x - tanh(x)``."""

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.tanhshrink(input)


class Softsign(Module):
    """``x / (1 + |x|)``."""

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.softsign(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``, without overflow."""

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.logsigmoid(input)


class Softmin(Module):
    """``softmax(-x)`` along ``dim``."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        if dim is None:
            raise InvalidValueError("Softmin: dim must be given")
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.softmax2d(input)


class GLU(Module):
    """``a * sigmoid(b)`` of the two halves of the input along ``dim``, which becomes half as large."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """(..., 2 n, ...) -> (..., n, ...)."""
        return A.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class SwiGLU(Module):
    """``silu(a) * b`` of the two halves of the input along ``dim``, which becomes half as large. Not in PyTorch."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """(..., 2 n, ...) -> (..., n, ...)."""
        return A.swiglu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class ReLUSquared(Module):
    """``max(x, 0)^2``. Not in PyTorch."""

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.relu_squared(input)


class Softcap(Module):
    """``cap * tanh(x / cap)``: values kept within (-cap, cap). Not in PyTorch."""

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        return A.softcap(input, self.cap)

    def extra_repr(self) -> str:
        """The bound."""
        return f"cap={self.cap}"
