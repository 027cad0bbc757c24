"""Activations and dropout as modules."""

from __future__ import annotations


from gradino._core import unary, wrap
from gradino._lib import lib, op_id
from gradino.errors import InvalidValueError
from gradino.nn.module import Module
from gradino.tensor import Tensor

__all__ = ["Dropout", "LogSoftmax", "ReLU", "Sigmoid", "Softmax", "Tanh"]

_RELU, _SIGMOID, _TANH = op_id("relu"), op_id("sigmoid"), op_id("tanh")
_SOFTMAX, _LOG_SOFTMAX = op_id("softmax"), op_id("log_softmax")


def refuse_inplace(name: str, inplace: bool) -> None:
    """gradino never writes activations in place."""
    if inplace:
        raise InvalidValueError(f"{name}: inplace=True is not supported: gradino's step arenas make it needless")


class ReLU(Module):
    """``max(x, 0)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        refuse_inplace("ReLU", inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return unary(_RELU, input)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return unary(_SIGMOID, input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return unary(_TANH, input)


class Softmax(Module):
    """``exp(x) / sum(exp(x))`` along ``dim``."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return wrap(lib.gd_softmax(_SOFTMAX, input._h, self.dim))

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """``log(softmax(x))`` along ``dim``."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return wrap(lib.gd_softmax(_LOG_SOFTMAX, input._h, self.dim))

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Dropout(Module):
    """In training, zeroes elements with probability ``p`` and scales the rest by ``1/(1-p)``.

    The mask is never stored: backward draws it again from the same counter.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        refuse_inplace("Dropout", inplace)
        if not 0 <= p <= 1:
            raise InvalidValueError(f"Dropout: p is {p}, must be in [0, 1]")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        """Same shape."""
        return wrap(lib.gd_dropout(input._h, self.p, self.training)) if self.training else input

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


