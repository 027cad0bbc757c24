"""GRU and plain recurrent layers: the input's product of all steps at once, then step by step."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from gradino import functions
from gradino._core import wrap
from gradino._lib import ffi, lib, op_id
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.factories import arange, zeros
from gradino.nn import functional as F
from gradino.nn._recurrent import Recurrent, RecurrentCell
from gradino.nn.utils.rnn import PackedSequence, whole_lengths
from gradino.tensor import Tensor

__all__ = ["GRU", "RNN", "GRUCell", "RNNCell"]

_GRU_CELL = op_id("gru_cell")


def _gru(gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
    """The state after a step: (B, 3H), (B, 3H), (B, H) -> (B, H)."""
    return wrap(lib.gd_call(_GRU_CELL, [gi._h, gh._h, h._h], 3, ffi.NULL))


class _OneState(Recurrent):
    """Layers whose state is one tensor."""

    @abstractmethod
    def _step(self, gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
        """The next state, from the products of input and state."""

    def forward(self, input: Any, hx: Tensor | None = None, lengths: Any = None) -> tuple[Any, Tensor]:
        """Returns ``output, h_n``. A packed sequence gives a packed one."""
        title = type(self).__name__
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise InvalidValueError(f"{title}: a packed sequence has its own lengths")
            packed = input.padded if input.batch_first == self.batch_first else input.padded.transpose(0, 1)
            output, state = self.forward(packed, hx, input.lengths)
            return input.like(output, self.batch_first), state
        if not isinstance(input, Tensor) or not (hx is None or isinstance(hx, Tensor)):
            raise DTypeError(f"{title}: input and hx must be tensors, got {type(input).__name__} and {type(hx).__name__}")
        if input.ndim == 2:
            if hx is not None and hx.ndim != 2:
                raise ShapeError(f"{title}: hx has shape {tuple(hx.shape)}, must have two dimensions as the input has no batch")
            dim = 0 if self.batch_first else 1
            output, state = self.forward(input.unsqueeze(dim), None if hx is None else hx.unsqueeze(1), lengths)
            return output.squeeze(dim), state.squeeze(1)
        if input.ndim != 3 or input.shape[2] != self.input_size:
            order = "(B, T" if self.batch_first else "(T, B"
            raise ShapeError(f"{title}: input has shape {tuple(input.shape)}, must be {order}, {self.input_size})")
        directions, batch = len(self._names[0]), input.shape[0 if self.batch_first else 1]
        want = (self.num_layers * directions, batch, self.hidden_size)
        if hx is not None and tuple(hx.shape) != want:
            raise ShapeError(f"{title}: hx has shape {tuple(hx.shape)}, must be {want}")
        real = None if lengths is None else self._real_steps(whole_lengths(title, lengths), input, batch)
        x, finals = input, []
        for layer, per_layer in enumerate(self._names):
            if layer and self.dropout and self.training:
                x = F.dropout(x, self.dropout)
            outputs = []
            for d, names in enumerate(per_layer):
                h0 = zeros(batch, self.hidden_size, dtype=input.dtype, device=input.device) if hx is None else hx[layer * directions + d]
                y, h = self._run(x, h0, names, real, d == 1)
                outputs.append(y)
                finals.append(h)
            x = outputs[0] if directions == 1 else functions.cat(outputs, -1)
        return x, functions.stack(finals)

    def _real_steps(self, lengths: Tensor, input: Tensor, batch: int) -> Tensor:
        """Which steps are real: (T, B, 1)."""
        steps = input.shape[1 if self.batch_first else 0]
        if tuple(lengths.shape) != (batch,):
            raise ShapeError(f"{type(self).__name__}: lengths has shape {tuple(lengths.shape)}, must be ({batch},): one per sequence")
        for n in lengths.tolist():
            if not 0 <= n <= steps:
                raise InvalidValueError(f"{type(self).__name__}: length {n} is impossible: the input has {steps} steps")
        return (arange(steps, device=lengths.device).unsqueeze(1) < lengths.unsqueeze(0)).unsqueeze(2)

    def _run(self, x: Tensor, h: Tensor, names: tuple[str, ...], real: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor]:
        """One layer in one direction: all outputs and the final state."""
        own, dim = self.__dict__, 1 if self.batch_first else 0
        w_ih, w_hh = own[names[0]], own[names[1]]
        b_ih, b_hh = (own[names[2]], own[names[3]]) if self.bias else (None, None)
        steps = x.shape[dim]
        if real is not None:  # what stands past a length may be anything
            mask = real.transpose(0, 1) if self.batch_first else real
            x = functions.where(mask, x, zeros((), dtype=x.dtype, device=x.device))
        products = F.linear(x, w_ih, b_ih)
        outputs: list[Any] = [None] * steps
        nothing = None if real is None else zeros((), dtype=h.dtype, device=h.device)
        for t in reversed(range(steps)) if reverse else range(steps):
            new = self._step(products.select(dim, t), F.linear(h, w_hh, b_hh), h)
            if real is None:
                outputs[t] = h = new
            else:
                outputs[t] = functions.where(real[t], new, nothing)
                h = functions.where(real[t], new, h)
        if not steps:
            return zeros(*x.shape[:2], self.hidden_size, dtype=x.dtype, device=x.device), h
        return functions.stack(outputs, dim), h


class GRU(_OneState):
    """Gated recurrent units, PyTorch's arguments, names, shapes and gate order (r, z, n).

    For each step: ``r, z = sigmoid(W_ir x + b_ir + W_hr h + b_hr), ...``; ``n = tanh(W_in x + b_in + r (W_hn h + b_hn))``, the
    reset gate after the product; ``h = (1 - z) n + z h``.

    Shapes, with D = 2 if bidirectional else 1:
        input (T, B, input_size), or (B, T, input_size) with ``batch_first``, or (T, input_size) without batch;
        h_0 (num_layers * D, B, hidden_size), zeros if left out;
        output like input with D * hidden_size; h_n like h_0.

    Parameters: ``weight_ih_l0`` (3 * hidden, input), ``weight_hh_l0`` (3 * hidden, hidden), ``bias_ih_l0``,
    ``bias_hh_l0`` (3 * hidden), then ``_l1`` ..., with ``_reverse`` for the second direction.

    ``forward(input, hx, lengths=...)`` takes the true length of each sequence, int64 (B): outputs past it
    are 0, the final state is that of the last real step. The second derivative is not available.

    Source: Cho et al., 2014.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._open(3, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def _step(self, gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
        return _gru(gi, gh, h)


class RNN(_OneState):
    """Plain recurrent layers: ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or with relu. PyTorch's arguments, names and shapes.

    Shapes, parameters and ``lengths`` as for :class:`GRU`, with ``hidden`` in the place of ``3 * hidden``.

    Source: Elman, 1990.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.nonlinearity = _nonlinearity("RNN", nonlinearity)
        self._open(1, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def _step(self, gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
        return (gi + gh).tanh() if self.nonlinearity == "tanh" else (gi + gh).relu()


def _nonlinearity(title: str, name: str) -> str:
    if name not in ("tanh", "relu"):
        raise InvalidValueError(f"{title}: nonlinearity is {name!r}, must be 'tanh' or 'relu'")
    return name


class _Cell(RecurrentCell):
    """One step."""

    @abstractmethod
    def _step(self, gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
        """The next state, from the products of input and state."""

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state (B, hidden_size), or without B; a zero state if ``hx`` is left out."""
        title = type(self).__name__
        if not isinstance(input, Tensor) or not (hx is None or isinstance(hx, Tensor)):
            raise DTypeError(f"{title}: input and hx must be tensors, got {type(input).__name__} and {type(hx).__name__}")
        if input.ndim == 1:
            return self.forward(input.unsqueeze(0), None if hx is None else hx.unsqueeze(0)).squeeze(0)
        if input.ndim != 2 or input.shape[1] != self.input_size:
            raise ShapeError(f"{title}: input has shape {tuple(input.shape)}, must be (B, {self.input_size})")
        want = (input.shape[0], self.hidden_size)
        h = zeros(*want, dtype=input.dtype, device=input.device) if hx is None else hx
        if tuple(h.shape) != want:
            raise ShapeError(f"{title}: hx has shape {tuple(h.shape)}, must be {want}")
        return self._step(F.linear(input, self.weight_ih, self.bias_ih), F.linear(h, self.weight_hh, self.bias_hh), h)


class GRUCell(_Cell):
    """One step of a :class:`GRU`: input (B, input_size) and state (B, hidden_size), or both without B -> the next state.

    Parameters ``weight_ih`` (3 * hidden, input), ``weight_hh`` (3 * hidden, hidden), ``bias_ih``, ``bias_hh`` (3 * hidden).
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self._open(3, input_size, hidden_size, bias, device, dtype)

    def _step(self, gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
        return _gru(gi, gh, h)


class RNNCell(_Cell):
    """One step of an :class:`RNN`: input (B, input_size) and state (B, hidden_size), or both without B -> the next state.

    Parameters ``weight_ih`` (hidden, input), ``weight_hh`` (hidden, hidden), ``bias_ih``, ``bias_hh`` (hidden).
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.nonlinearity = _nonlinearity("RNNCell", nonlinearity)
        self._open(1, input_size, hidden_size, bias, device, dtype)

    def _step(self, gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
        return (gi + gh).tanh() if self.nonlinearity == "tanh" else (gi + gh).relu()

    def extra_repr(self) -> str:
        """Sizes, as in PyTorch."""
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")
