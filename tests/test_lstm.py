"""LSTM and LSTMCell: against a composed reference, finite differences and hand-checked numbers; edges and errors."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits
from lstm_reference import assert_same_gradients, composed, inputs

import gradino as gd
from gradino import nn

CASES = list(product((1, 2), (False, True), (False, True), (False, True), (False, True)))


@pytest.mark.parametrize("layers, bidirectional, batch_first, states, bias", CASES)
def test_equals_composed(layers: int, bidirectional: bool, batch_first: bool, states: bool, bias: bool, isa: str, rng: Any) -> None:
    """The fused op and its fused backward equal a cell built from cat, matmul, sigmoid and tanh."""
    model = nn.LSTM(3, 5, layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional, dtype=gd.float64)
    for lengths in (None, [6, 1, 4, 0]):
        x, state = inputs(model, 6, 4, rng, "float64", states)
        assert_same_gradients(
            model,
            lambda x=x, state=state, n=lengths: model(x, state, lengths=n),
            lambda x=x, state=state, n=lengths: composed(model, x, state, n),
            [x, *(state or ())],
            1e-12,
            f"{model}, {isa}, states {states}, lengths {lengths}",
        )


@pytest.mark.parametrize(
    "steps, batch, width, hidden", [(1, 1, 1, 1), (1, 5, 3, 2), (7, 1, 4, 8), (3, 9, 17, 33), (4, 17, 1, 16), (12, 8, 30, 7)]
)
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 2e-5)])
def test_sizes_around_the_tiles(steps: int, batch: int, width: int, hidden: int, dtype: str, tolerance: float, isa: str, rng: Any) -> None:
    model = nn.LSTM(width, hidden, dtype=dtype)
    x, state = inputs(model, steps, batch, rng, dtype)
    assert state is not None
    what = f"T {steps}, B {batch}, I {width}, H {hidden}, {dtype}, {isa}"
    assert_same_gradients(model, lambda: model(x, state), lambda: composed(model, x, state), [x, *state], tolerance, what)


@pytest.mark.parametrize("lengths", [None, [3, 0, 1]])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradcheck(lengths: list[int] | None, bidirectional: bool, rng: Any) -> None:
    model = nn.LSTM(2, 2, bidirectional=bidirectional, dtype=gd.float64)
    x, state = inputs(model, 3, 3, rng, "float64")
    assert state is not None

    def run(x: gd.Tensor, h: gd.Tensor, c: gd.Tensor, *weights: gd.Tensor) -> list[gd.Tensor]:
        copy = nn.LSTM(2, 2, bidirectional=bidirectional, dtype=gd.float64)
        for (name, _), w in zip(model.named_parameters(), weights, strict=True):
            copy.__dict__[name] = w
        y, (hn, cn) = copy(x, (h, c), lengths=lengths)
        return [y, hn, cn]

    assert gd.autograd.gradcheck(run, [x, *state, *(p.detach().clone().requires_grad_() for p in model.parameters())])


def test_r01_gate_order(isa: str) -> None:
    """Case R01: gates in PyTorch's order i, f, g, o, two biases."""
    model = nn.LSTM(1, 1, dtype=gd.float64)
    values = {"weight_ih_l0": [0.1, 0.2, 0.3, 0.4], "weight_hh_l0": [0.5, 0.6, 0.7, 0.8], "bias_ih_l0": [0.01, 0.02, 0.03, 0.04]}
    values["bias_hh_l0"] = [0.05, 0.06, 0.07, 0.08]
    model.load_state_dict({k: np.array(v).reshape(4, *([1] * ("weight" in k))) for k, v in values.items()})
    x = gd.tensor([[[1.0]], [[-2.0]], [[0.5]]], dtype=gd.float64, requires_grad=True)
    h0, c0 = (gd.tensor([[[v]]], dtype=gd.float64, requires_grad=True) for v in (0.25, -0.5))
    y, (h, c) = model(x, (h0, c0))
    y.sum().backward()
    wanted = {
        "y": (y, [-0.0045023005, -0.0721891644, -0.0083065005]),
        "h_T": (h, [-0.0083065005]),
        "c_T": (c, [-0.0146979132]),
        "dx": (x.grad, [0.1154131893, 0.0436311199, 0.0796692297]),
        "dh0": (h0.grad, [0.2878338909]),
        "dc0": (c0.grad, [0.6171136212]),
        "dw_ih": (model.weight_ih_l0.grad, [0.3011252246, -0.1347542699, 0.0684332196, 0.1107348251]),
    }
    for name, (got, want) in wanted.items():
        assert_close(got.flatten(), np.array(want), atol=1e-9, what=f"{name}, {isa}")
    assert_same_bits(model.bias_ih_l0.grad, model.bias_hh_l0.grad, what="both bias gradients are equal")


# ---- Shapes and arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_first", [False, True])
def test_input_without_batch(batch_first: bool, rng: Any) -> None:
    model = nn.LSTM(3, 4, 2, batch_first=batch_first, bidirectional=True)
    x = gd.tensor(rng.standard_normal((5, 3)), dtype="float32")
    h0, c0 = (gd.tensor(rng.standard_normal((4, 4)), dtype="float32") for _ in range(2))
    y, (h, c) = model(x, (h0, c0))
    batched = x.unsqueeze(0 if batch_first else 1)
    want, (h1, c1) = model(batched, (h0.unsqueeze(1), c0.unsqueeze(1)))
    assert (y.shape, h.shape, c.shape) == ((5, 8), (4, 4), (4, 4))
    for got, expected in ((y, want.squeeze(0 if batch_first else 1)), (h, h1.squeeze(1)), (c, c1.squeeze(1))):
        assert_same_bits(got, expected, what="without batch")
    with pytest.raises(gd.ShapeError, match="two dimensions"):
        model(x, (h0.unsqueeze(1), c0.unsqueeze(1)))


def test_empty_batch_and_no_steps(isa: str) -> None:
    model = nn.LSTM(3, 4, bidirectional=True)
    y, (h, c) = model(gd.zeros(5, 0, 3))
    assert (y.shape, h.shape, c.shape) == ((5, 0, 8), (2, 0, 4), (2, 0, 4))
    state = (gd.ones(2, 3, 4), gd.ones(2, 3, 4) * 2)
    y, (h, c) = model(gd.zeros(0, 3, 3, requires_grad=True), state)
    assert y.shape == (0, 3, 8) and h.eq(1).all() and c.eq(2).all()
    (y.sum() + h.sum()).backward()
    assert not model.weight_ih_l0.grad.ne(0).any()


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda m, x: m(gd.zeros(4, 2, 5)), gd.ShapeError, "(T, B, 3)"),
        (lambda m, x: m(gd.zeros(4)), gd.ShapeError, "(4,)"),
        (lambda m, x: m(x, gd.zeros(1, 2, 4)), gd.DTypeError, "pair"),
        (lambda m, x: m(x, (gd.zeros(1, 2, 4), gd.zeros(1, 3, 4))), gd.ShapeError, "c_0"),
        (lambda m, x: m(x, (gd.zeros(2, 2, 4), gd.zeros(2, 2, 4))), gd.ShapeError, "(1, 2, 4)"),
        (lambda m, x: m(x.double()), gd.DTypeError, "float64"),
        (lambda m, x: m(x._array()), gd.DTypeError, "ndarray"),
        (lambda m, x: nn.LSTM(3, 0), ValueError, "hidden_size 0"),
        (lambda m, x: nn.LSTM(3, 4, num_layers=0), ValueError, "num_layers 0"),
        (lambda m, x: nn.LSTM(3, 4, dropout=1.5), ValueError, "1.5"),
        (lambda m, x: nn.LSTM(3, 4, device="cuda"), gd.DeviceError, "cuda"),
        (lambda m, x: nn.LSTM(3, 4, dtype="int64"), gd.DTypeError, "int64"),
        (lambda m, x: nn.LSTMCell(3, 4)(gd.zeros(2, 4)), gd.ShapeError, "(B, 3)"),
        (lambda m, x: nn.LSTMCell(3, 4)(gd.zeros(2, 3), (gd.zeros(2, 4), gd.zeros(3, 4))), gd.ShapeError, "c0"),
    ],
)
def test_errors_name_what_is_wrong(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call(nn.LSTM(3, 4), gd.zeros(4, 2, 3))
    assert text in str(caught.value)


def test_cell_is_one_step(isa: str, rng: Any) -> None:
    for bias in (True, False):
        cell = nn.LSTMCell(3, 4, bias=bias)
        layer = nn.LSTM(3, 4, bias=bias)
        layer.load_state_dict({f"{k}_l0": v for k, v in cell.state_dict().items()})
        x, h, c = (gd.tensor(rng.standard_normal(s), dtype="float32") for s in ((6, 3), (6, 4), (6, 4)))
        h1, c1 = cell(x, (h, c))
        _, (h2, c2) = layer(x.unsqueeze(0), (h.unsqueeze(0), c.unsqueeze(0)))
        assert_same_bits(h1, h2.squeeze(0), what=f"h, bias {bias}, {isa}")
        assert_same_bits(c1, c2.squeeze(0), what=f"c, bias {bias}, {isa}")
        single = cell(x[0], (h[0], c[0]))
        assert_same_bits(single[0], h1[0].contiguous(), what="without batch")
        assert cell(x)[0].shape == (6, 4)


def test_cell_gradcheck(rng: Any) -> None:
    cell = nn.LSTMCell(2, 3, dtype=gd.float64)
    leaves = [gd.tensor(rng.standard_normal(s), requires_grad=True) for s in ((2, 2), (2, 3), (2, 3))]
    assert gd.autograd.gradcheck(lambda x, h, c: cell(x, (h, c)), leaves)


def test_second_derivative_is_refused_by_name(rng: Any) -> None:
    model = nn.LSTM(2, 3)
    x, _ = inputs(model, 2, 1, rng, "float32")
    with pytest.raises(gd.GradinoError, match="lstm: its second derivative"):
        model(x)[0].sum().backward(create_graph=True)


def test_dropout_between_layers(rng: Any) -> None:
    """Active in training only, between layers only, scaled; the last layer's output is not dropped."""
    model = nn.LSTM(3, 8, 2, dropout=1.0)
    plain = nn.LSTM(3, 8, 2)
    plain.load_state_dict(model.state_dict())
    x, _ = inputs(model, 4, 2, rng, "float32")
    blind = nn.LSTM(8, 8)
    blind.load_state_dict({k.replace("_l1", "_l0"): v for k, v in model.state_dict().items() if "_l1" in k})
    assert_same_bits(model(x)[0], blind(gd.zeros(4, 2, 8))[0], what="p=1 in training: the second layer sees zeros")
    assert_same_bits(model.eval()(x)[0], plain(x)[0], what="in evaluation nothing is dropped")
    with pytest.warns(UserWarning, match="num_layers=1"):
        nn.LSTM(3, 8, dropout=0.5)
    half = nn.LSTM(3, 8, 2, dropout=0.5)
    gd.manual_seed(1)
    first = half(x)[0]
    gd.manual_seed(1)
    assert_same_bits(half(x)[0], first, what="same seed")
    assert not gd.equal(half(x)[0], first)
