"""LSTM layers: one fused op per layer and direction."""

from __future__ import annotations

from typing import Any

from gradino import functions
from gradino._core import wrap
from gradino._lib import lib
from gradino.errors import DTypeError, InvalidValueError, ShapeError
from gradino.nn._recurrent import Recurrent, RecurrentCell
from gradino.nn.utils.rnn import PackedSequence, whole_lengths
from gradino.tensor import Tensor

__all__ = ["LSTM", "LSTMCell"]

_NONE = lib.GD_ABSENT

State = tuple[Tensor, Tensor]


def _handle(t: Tensor | None) -> int:
    return _NONE if t is None else t._h


def _pair(name: str, hx: Any) -> State | None:
    if hx is None or (isinstance(hx, (tuple, list)) and len(hx) == 2 and all(isinstance(t, Tensor) for t in hx)):
        return hx  # type: ignore[return-value]
    raise DTypeError(f"{name}: hx must be a pair of tensors (h_0, c_0), got {type(hx).__name__}")


class LSTM(Recurrent):
    """Long short-term memory, PyTorch's arguments, names, shapes and gate order (i, f, g, o).

    For each step: ``i, f, g, o = W_ih x + b_ih + W_hh h + b_hh``; ``c = sigmoid(f) c + sigmoid(i) tanh(g)``;
    ``h = sigmoid(o) tanh(c)``.

    Shapes, with D = 2 if bidirectional else 1:
        input (T, B, input_size), or (B, T, input_size) with ``batch_first``, or (T, input_size) without batch;
        h_0, c_0 (num_layers * D, B, hidden_size), zeros if left out;
        output like input with D * hidden_size; h_n, c_n like h_0.

    Parameters: ``weight_ih_l0`` (4 * hidden, input), ``weight_hh_l0`` (4 * hidden, hidden), ``bias_ih_l0``,
    ``bias_hh_l0`` (4 * hidden), then ``_l1`` ..., with ``_reverse`` for the second direction.

    ``forward(input, hx, lengths=...)`` takes the true length of each sequence, int64 (B): outputs past it
    are 0, the final state is that of the last real step.

    Source: Hochreiter and Schmidhuber, 1997; forget gate of Gers et al., 2000.
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
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if proj_size:
            raise InvalidValueError("LSTM: proj_size is not supported")
        self._open(4, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)

    def forward(self, input: Any, hx: State | None = None, lengths: Any = None) -> tuple[Any, State]:
        """Returns ``output, (h_n, c_n)``. A packed sequence gives a packed one."""
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise InvalidValueError("LSTM: a packed sequence has its own lengths")
            packed = input.padded if input.batch_first == self.batch_first else input.padded.transpose(0, 1)
            output, state = self.forward(packed, hx, input.lengths)
            return input.like(output, self.batch_first), state
        if not isinstance(input, Tensor):
            raise DTypeError(f"LSTM: input must be a Tensor, got {type(input).__name__}")
        shape = input.shape
        if len(shape) == 2:
            return self._unbatched(input, hx, lengths)
        directions = len(self._names[0])
        self._check(shape, hx, directions)
        lengths = None if lengths is None else whole_lengths("LSTM", lengths)
        x, finals_h, finals_c = input, [], []
        for layer, per_layer in enumerate(self._names):
            if layer and self.dropout and self.training:
                x = wrap(lib.gd_dropout(x._h, self.dropout, True))
            outputs = []
            for d, names in enumerate(per_layer):
                at = layer * directions + d
                h0, c0 = (None, None) if hx is None else (hx[0][at], hx[1][at])
                y, h, c = self._run(x, h0, c0, names, lengths, d == 1)
                outputs.append(y)
                finals_h.append(h)
                finals_c.append(c)
            x = outputs[0] if directions == 1 else functions.cat(outputs, -1)
        if len(finals_h) == 1:
            return x, (finals_h[0].unsqueeze(0), finals_c[0].unsqueeze(0))
        return x, (functions.stack(finals_h), functions.stack(finals_c))

    def _run(self, x: Tensor, h0: Any, c0: Any, names: tuple[str, ...], lengths: Any, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
        own = self.__dict__
        b_ih, b_hh = (own[names[2]]._h, own[names[3]]._h) if self.bias else (_NONE, _NONE)
        w_ih, w_hh, reach = own[names[0]]._h, own[names[1]]._h, _handle(lengths)
        y = wrap(lib.gd_lstm(x._h, _handle(h0), _handle(c0), w_ih, w_hh, b_ih, b_hh, reach, reverse, self.batch_first))
        return y, wrap(lib.gd_output(y._h, 1)), wrap(lib.gd_output(y._h, 2))

    def _unbatched(self, input: Tensor, hx: Any, lengths: Any) -> tuple[Tensor, State]:
        dim, state = 0 if self.batch_first else 1, None
        if _pair("LSTM", hx) is not None:
            for name, t in zip(("h_0", "c_0"), hx, strict=True):
                if t.ndim != 2:
                    raise ShapeError(f"LSTM: {name} has shape {t.shape}, must have two dimensions as the input has no batch")
            state = (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        output, (h, c) = self.forward(input.unsqueeze(dim), state, lengths)
        return output.squeeze(dim), (h.squeeze(1), c.squeeze(1))

    def _check(self, shape: tuple[int, ...], hx: Any, directions: int) -> None:
        if len(shape) != 3 or shape[2] != self.input_size:
            order = "(B, T" if self.batch_first else "(T, B"
            raise ShapeError(f"LSTM: input has shape {shape}, must be {order}, {self.input_size})")
        if _pair("LSTM", hx) is None:
            return
        want = (self.num_layers * directions, shape[0] if self.batch_first else shape[1], self.hidden_size)
        for name, state in zip(("h_0", "c_0"), hx, strict=True):
            if state.shape != want:
                raise ShapeError(f"LSTM: {name} has shape {state.shape}, must be {want}")


class LSTMCell(RecurrentCell):
    """One step of an LSTM: input (B, input_size) and states (B, hidden_size), or all without B.

    Returns ``(h, c)``. Parameters ``weight_ih`` (4 * hidden, input), ``weight_hh`` (4 * hidden, hidden),
    ``bias_ih``, ``bias_hh`` (4 * hidden), gates in order i, f, g, o, as in PyTorch.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self._open(4, input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: State | None = None) -> State:
        """One step; zero states if ``hx`` is left out."""
        hx = _pair("LSTMCell", hx)
        if not isinstance(input, Tensor):
            raise DTypeError(f"LSTMCell: input must be a Tensor, got {type(input).__name__}")
        shape = input.shape
        if len(shape) == 1:
            h, c = self.forward(input.unsqueeze(0), None if hx is None else (hx[0].unsqueeze(0), hx[1].unsqueeze(0)))
            return h.squeeze(0), c.squeeze(0)
        if len(shape) != 2 or shape[1] != self.input_size:
            raise ShapeError(f"LSTMCell: input has shape {shape}, must be (B, {self.input_size})")
        h0, c0 = (_NONE, _NONE) if hx is None else (hx[0]._h, hx[1]._h)
        b_ih, b_hh = _handle(self.bias_ih), _handle(self.bias_hh)
        x = lib.gd_unsqueeze(input._h, 0)
        y = lib.gd_lstm(x, h0, c0, self.weight_ih._h, self.weight_hh._h, b_ih, b_hh, _NONE, False, False)
        return wrap(lib.gd_output(y, 1)), wrap(lib.gd_output(y, 2))
