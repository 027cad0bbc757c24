"""Activations and dropout as modules."""

from __future__ import annotations

from gradino._arguments import flag, probability, whole
from gradino._core import unary, wrap
from gradino._lib import lib, op_id
from gradino.errors import InvalidValueError
from gradino.nn._checks import in_place, refuse_input
from gradino.nn.functional import gelu, softplus
from gradino.nn.module import Module
from gradino.tensor import Tensor

__all__ = ["GELU", "Dropout", "LogSoftmax", "ReLU", "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh"]

_RELU, _SIGMOID, _SILU, _TANH = op_id("relu"), op_id("sigmoid"), op_id("silu"), op_id("tanh")
_SOFTMAX, _LOG_SOFTMAX = op_id("softmax"), op_id("log_softmax")


class _Unary(Module):
    """A module that applies one unary op."""

    _op: int
    inplace = False

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise: the result has the input's shape."""
        if self.inplace:
            return in_place(type(self).__name__, input, True, lambda x: unary(self._op, x))
        try:
            return unary(self._op, input)
        except AttributeError:
            refuse_input(type(self).__name__, input)
            raise


class ReLU(_Unary):
    """``max(x, 0)``; NaN stays NaN."""

    _op = _RELU

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = flag("ReLU", "inplace", inplace)

    def extra_repr(self) -> str:
        """Whether it works in place."""
        return "inplace=True" if self.inplace else ""


class Sigmoid(_Unary):
    """``1 / (1 + exp(-x))``."""

    _op = _SIGMOID


class Tanh(_Unary):
    """The hyperbolic tangent."""

    _op = _TANH


class SiLU(_Unary):
    """``x sigmoid(x)``."""

    _op = _SILU

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = flag("SiLU", "inplace", inplace)

    def extra_repr(self) -> str:
        """Whether it works in place."""
        return "inplace=True" if self.inplace else ""


class GELU(Module):
    """``x Phi(x)``, with Phi the normal distribution; ``approximate="tanh"`` for its tanh form."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise InvalidValueError(f"GELU: approximate is {approximate!r}, must be 'none' or 'tanh'")
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise: the result has the input's shape."""
        return gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """The form."""
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """``log(1 + exp(beta x)) / beta``; x itself where ``beta x`` is above the threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise: the result has the input's shape."""
        return softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Steepness and threshold."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _Softmax(Module):
    """A module that normalises along one dimension."""

    _op: int

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        if dim is None:
            raise InvalidValueError(f"{type(self).__name__}: dim must be given")
        self.dim = whole(type(self).__name__, "dim", dim)

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape."""
        try:
            return wrap(lib.gd_softmax(self._op, input._h, self.dim))
        except AttributeError:
            refuse_input(type(self).__name__, input)
            raise

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_Softmax):
    """``exp(x) / sum(exp(x))`` along ``dim``; NaN for a row of -inf."""

    _op = _SOFTMAX


class LogSoftmax(_Softmax):
    """``log(softmax(x))`` along ``dim``, without overflow."""

    _op = _LOG_SOFTMAX


class Dropout(Module):
    """In training, zeroes elements with probability ``p`` and scales the rest by ``1/(1-p)``.

    The mask is never stored: backward draws it again from the same counter.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = flag("Dropout", "inplace", inplace)
        self.p = probability("Dropout", "p", p)

    def forward(self, input: Tensor) -> Tensor:
        """The result has the input's shape; in evaluation it is the input."""
        refuse_input("Dropout", input)
        if not self.training or not self.p:
            return input
        if self.inplace:
            return in_place("Dropout", input, True, lambda x: wrap(lib.gd_dropout(x._h, self.p, True)))
        return wrap(lib.gd_dropout(input._h, self.p, True))

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"
