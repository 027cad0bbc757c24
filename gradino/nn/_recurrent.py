"""What LSTM, GRU and RNN share: sizes, parameters by layer and direction, and how they are shown."""

from __future__ import annotations

import math
import warnings
from typing import Any

from gradino._arguments import probability, whole
from gradino.errors import InvalidValueError
from gradino.nn.linear import parameter_dtype, uniform_parameter
from gradino.nn.module import Module
from gradino.nn.parameter import Parameter

__all__ = ["Recurrent", "RecurrentCell"]


class Recurrent(Module):
    """Layers of recurrent units. ``gates`` products of each unit stand in one weight, in PyTorch's order."""

    def _open(
        self,
        gates: int,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        title = type(self).__name__
        input_size, hidden_size = whole(title, "input_size", input_size), whole(title, "hidden_size", hidden_size)
        num_layers, dropout = whole(title, "num_layers", num_layers), probability(title, "dropout", dropout)
        if min(input_size, hidden_size, num_layers) < 1:
            sizes = f"input_size {input_size}, hidden_size {hidden_size}, num_layers {num_layers}"
            raise InvalidValueError(f"{title}: {sizes}: each must be at least 1")
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"{title}: dropout={dropout} stands between layers and does nothing for num_layers=1", stacklevel=3)
        settled = parameter_dtype(dtype, device)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, float(dropout), bidirectional
        self._names: list[list[tuple[str, ...]]] = []
        directions, rows = ("", "_reverse") if bidirectional else ("",), gates * hidden_size
        bound = 1 / math.sqrt(hidden_size)
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * len(directions)
            per_layer = []
            for suffix in directions:
                names = tuple(f"{kind}_l{layer}{suffix}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
                shapes = [(rows, width), (rows, hidden_size), (rows,), (rows,)]
                for name, shape in list(zip(names, shapes, strict=True))[: 4 if bias else 2]:
                    setattr(self, name, uniform_parameter(shape, bound, settled))
                per_layer.append(names)
            self._names.append(per_layer)

    def flatten_parameters(self) -> None:
        """Nothing to do: parameters always lie side by side."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction: weight_ih, weight_hh and, with bias, bias_ih, bias_hh."""
        return [[self.__dict__[n] for n in names[: 4 if self.bias else 2]] for per_layer in self._names for names in per_layer]

    def extra_repr(self) -> str:
        """Sizes and what differs from the defaults, as in PyTorch."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0), ("bidirectional", False)):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


class RecurrentCell(Module):
    """The parameters of one step: ``weight_ih``, ``weight_hh``, ``bias_ih``, ``bias_hh``."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def _open(self, gates: int, input_size: int, hidden_size: int, bias: bool, device: Any, dtype: Any) -> None:
        title = type(self).__name__
        input_size, hidden_size = whole(title, "input_size", input_size), whole(title, "hidden_size", hidden_size)
        if min(input_size, hidden_size) < 1:
            raise InvalidValueError(f"{title}: input_size {input_size} and hidden_size {hidden_size} must be at least 1")
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        bound, kind = 1 / math.sqrt(hidden_size), parameter_dtype(dtype, device)
        self.weight_ih = uniform_parameter((gates * hidden_size, input_size), bound, kind)
        self.weight_hh = uniform_parameter((gates * hidden_size, hidden_size), bound, kind)
        if bias:
            self.bias_ih = uniform_parameter((gates * hidden_size,), bound, kind)
            self.bias_hh = uniform_parameter((gates * hidden_size,), bound, kind)
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)

    def extra_repr(self) -> str:
        """Sizes, as in PyTorch."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
