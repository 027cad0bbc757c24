"""The workloads on gradino, as its README tells users to write them."""

from __future__ import annotations

from typing import Any

from workloads import CHAIN, LR, Arrays, Run, Workload, weights

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim

NAME = f"gradino {gd.__version__}"


def sequential(w: Workload, arrays: Arrays) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in zip(w.sizes, w.sizes[1:]):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    model.load_state_dict(weights(arrays))
    return model


def training(model: nn.Module, arrays: Arrays) -> Run:
    """Forward, cross-entropy, backward, AdamW, and the loss read as a number."""
    x, y = gd.tensor(arrays["x"]), gd.tensor(arrays["y"])
    opt = optim.AdamW(model.parameters(), lr=LR)

    def step() -> float:
        with gd.step_arena():
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            return loss.item()

    return Run(step, float)


def mlp(w: Workload, arrays: Arrays) -> Run:
    return training(sequential(w, arrays), arrays)


class Classifier(nn.Module):
    """An LSTM and a linear layer on its last step."""

    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: gd.Tensor) -> Any:
        return self.head(self.lstm(x)[0][-1])


def lstm(w: Workload, arrays: Arrays) -> Run:
    model = Classifier(*w.sizes[1:])
    model.load_state_dict(weights(arrays))
    return training(model, arrays)


def infer(w: Workload, arrays: Arrays) -> Run:
    model, x = sequential(w, arrays).eval(), gd.tensor(arrays["x"])

    def step() -> Any:
        with gd.step_arena(), gd.inference_mode():
            return model(x).numpy()

    return Run(step, lambda result: result)


def chain(w: Workload, arrays: Arrays) -> Run:
    x, y = gd.tensor(arrays["x"]), gd.tensor(arrays["y"])

    def step() -> float:
        with gd.step_arena():
            z = x
            for _ in range(CHAIN):
                z = (z * y + x).tanh()
            return z.mean().item()

    return Run(step, float)


def optimizer(w: Workload, arrays: Arrays) -> Run:
    parameters = [nn.Parameter(arrays[f"p.{i}"]) for i in range(w.batch)]
    for i, p in enumerate(parameters):
        p.grad = gd.tensor(arrays[f"g{i}"])
    opt = optim.AdamW(parameters, lr=LR)
    return Run(opt.step, lambda _: parameters[0].detach().numpy())
