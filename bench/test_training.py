"""Layers, optimizers and whole training steps, on the workloads that the peers run too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import steps_gradino
from validate import agrees, in_arena
from workloads import WORKLOADS, Workload

import gradino as gd
from gradino import nn, optim
from gradino.config import get_isa, set_isa

LSTMS = [w for w in WORKLOADS if w.kind == "lstm"]
OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=1e-3),
    "SGD with momentum": lambda p: optim.SGD(p, lr=1e-3, momentum=0.9),
    "Adam": lambda p: optim.Adam(p),
    "AdamW": lambda p: optim.AdamW(p),
}
MATRICES, SIDE = 10, 1000  # of an optimizer: 10 M parameters


def named(w: Workload) -> str:
    return w.name


def lstm(w: Workload) -> tuple[nn.LSTM, gd.Tensor]:
    arrays = w.arrays()
    layer = nn.LSTM(w.sizes[1], w.sizes[2])
    layer.load_state_dict({name[5:]: value for name, value in arrays.items() if name.startswith("lstm.")})
    return layer, gd.tensor(arrays["x"])


@pytest.mark.parametrize("w", LSTMS, ids=named)
def test_lstm_forward(benchmark: Any, w: Workload) -> None:
    layer, x = lstm(w)

    def forward() -> gd.Tensor:
        with gd.no_grad():
            return layer(x)[0]

    agrees(forward, forward)
    benchmark(in_arena(forward))


@pytest.mark.parametrize("w", LSTMS, ids=named)
def test_lstm_forward_and_backward(benchmark: Any, w: Workload) -> None:
    layer, x = lstm(w)

    def step() -> gd.Tensor:
        layer.zero_grad()
        layer(x)[0].sum().backward()
        return layer.weight_hh_l0.grad

    agrees(step, step, rtol=1e-3)
    benchmark(in_arena(step))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(benchmark: Any, name: str) -> None:
    def make() -> tuple[nn.Parameter, Any]:
        gd.manual_seed(0)
        with gd.step_arena():
            parameters = [nn.Parameter(gd.randn(SIDE, SIDE)) for _ in range(MATRICES)]
            for p in parameters:
                p.grad = gd.randn(SIDE, SIDE)
        return parameters[0], OPTIMIZERS[name](parameters)

    def stepped() -> gd.Tensor:
        first, opt = make()
        opt.step()
        return first.detach().clone()

    agrees(stepped, stepped)
    benchmark(make()[1].step)


@pytest.mark.parametrize("w", WORKLOADS, ids=named)
def test_workload(benchmark: Any, w: Workload) -> None:
    def results() -> list[Any]:
        run = getattr(steps_gradino, w.kind)(w, w.arrays())
        return [run.read(run.step()) for _ in range(3)]

    isa, ours = get_isa(), results()
    set_isa("portable")
    try:
        reference = results()
    finally:
        set_isa(isa)
    np.testing.assert_allclose(ours[-1], reference[-1], rtol=1e-4, atol=1e-5)
    benchmark(getattr(steps_gradino, w.kind)(w, w.arrays()).step)
