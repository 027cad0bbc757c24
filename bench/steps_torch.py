"""The workloads on PyTorch, eager, with its fastest AdamW (`fused=True`)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, optim
from workloads import CHAIN, LR, Arrays, Run, Workload, weights

NAME = f"PyTorch {torch.__version__}"


def sequential(w: Workload, arrays: Arrays) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in zip(w.sizes, w.sizes[1:]):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    model.load_state_dict({name: torch.tensor(value) for name, value in weights(arrays).items()})
    return model


def training(model: nn.Module, arrays: Arrays) -> Run:
    """Forward, cross-entropy, backward, AdamW, and the loss read as a number."""
    x, y = torch.tensor(arrays["x"]), torch.tensor(arrays["y"])
    opt = optim.AdamW(model.parameters(), lr=LR, fused=True)

    def step() -> float:
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

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(self.lstm(x)[0][-1])


def lstm(w: Workload, arrays: Arrays) -> Run:
    model = Classifier(*w.sizes[1:])
    model.load_state_dict({name: torch.tensor(value) for name, value in weights(arrays).items()})
    return training(model, arrays)


def infer(w: Workload, arrays: Arrays) -> Run:
    model, x = sequential(w, arrays).eval(), torch.tensor(arrays["x"])

    def step() -> Any:
        with torch.inference_mode():
            return model(x).numpy()

    return Run(step, lambda result: result)


def chain(w: Workload, arrays: Arrays) -> Run:
    x, y = torch.tensor(arrays["x"]), torch.tensor(arrays["y"])

    def step() -> float:
        z = x
        for _ in range(CHAIN):
            z = (z * y + x).tanh()
        return z.mean().item()

    return Run(step, float)


def optimizer(w: Workload, arrays: Arrays) -> Run:
    parameters = [nn.Parameter(torch.tensor(arrays[f"p.{i}"])) for i in range(w.batch)]
    for i, p in enumerate(parameters):
        p.grad = torch.tensor(arrays[f"g{i}"])
    opt = optim.AdamW(parameters, lr=LR, fused=True)
    return Run(opt.step, lambda _: parameters[0].detach().numpy())
