"""What the peers run. Sizes stand here once; weights and data are drawn once for all libraries.

`kind` names the function of steps_gradino.py, steps_torch.py and steps_jax.py that makes the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

SEED = 0
LR = 1e-3
CHAIN = 5  # times z = tanh(z * y + x)
Arrays = dict[str, np.ndarray]


class Run(NamedTuple):
    """One timed iteration, and how to read what it returned as numbers to compare."""

    step: Callable[[], Any]
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class Workload:
    """One row of the table. sizes: layers of an MLP; (T, I, H, classes) of an LSTM; (rows, columns) of matrices."""

    name: str
    kind: str
    sizes: tuple[int, ...]
    batch: int = 0

    def arrays(self) -> Arrays:
        """Weights under PyTorch's names (everything with a dot), and data. float32, classes int64."""
        rng = np.random.default_rng(SEED)
        return _ARRAYS[self.kind](self, rng)


WORKLOADS = [
    Workload("train MLP 4-16-3, batch 16", "mlp", (4, 16, 3), 16),
    Workload("train MLP 2-32-3, batch 512", "mlp", (2, 32, 3), 512),
    Workload("train MLP 64-128-64-10, batch 64", "mlp", (64, 128, 64, 10), 64),
    Workload("train MLP 784-512-512-10, batch 128", "mlp", (784, 512, 512, 10), 128),
    Workload("train LSTM 28-32, 28 steps, batch 16", "lstm", (28, 28, 32, 10), 16),
    Workload("train LSTM 28-128, 28 steps, batch 64", "lstm", (28, 28, 128, 10), 64),
    Workload("train LSTM 128-512, 64 steps, batch 32", "lstm", (64, 128, 512, 10), 32),
    Workload("infer MLP 4-16-3, batch 16", "infer", (4, 16, 3), 16),
    Workload("16 elementwise ops on 16 x 16", "chain", (16, 16)),
    Workload("16 elementwise ops on 1024 x 1024", "chain", (1024, 1024)),
    Workload("AdamW step, 10 M parameters in 10 matrices", "optimizer", (1000, 1000), 10),
]
MEMORY = WORKLOADS[3]


def _uniform(rng: np.random.Generator, fan_in: int, *shape: int) -> np.ndarray:
    return rng.uniform(-(fan_in**-0.5), fan_in**-0.5, shape).astype(np.float32)


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def _mlp(w: Workload, rng: np.random.Generator) -> Arrays:
    arrays = {"x": _normal(rng, w.batch, w.sizes[0]), "y": rng.integers(0, w.sizes[-1], w.batch)}
    for i, (fan_in, fan_out) in enumerate(zip(w.sizes, w.sizes[1:])):
        arrays[f"{2 * i}.weight"] = _uniform(rng, fan_in, fan_out, fan_in)
        arrays[f"{2 * i}.bias"] = _uniform(rng, fan_in, fan_out)
    return arrays


def _lstm(w: Workload, rng: np.random.Generator) -> Arrays:
    steps, inputs, hidden, classes = w.sizes
    arrays = {"x": _normal(rng, steps, w.batch, inputs), "y": rng.integers(0, classes, w.batch)}
    for name, shape in (("weight_ih", (inputs,)), ("weight_hh", (hidden,)), ("bias_ih", ()), ("bias_hh", ())):
        arrays[f"lstm.{name}_l0"] = _uniform(rng, hidden, 4 * hidden, *shape)
    arrays["head.weight"] = _uniform(rng, hidden, classes, hidden)
    arrays["head.bias"] = _uniform(rng, hidden, classes)
    return arrays


def _chain(w: Workload, rng: np.random.Generator) -> Arrays:
    return {"x": _normal(rng, *w.sizes), "y": _normal(rng, *w.sizes)}


def _optimizer(w: Workload, rng: np.random.Generator) -> Arrays:
    arrays = {}
    for i in range(w.batch):
        arrays[f"p.{i}"], arrays[f"g{i}"] = _normal(rng, *w.sizes), _normal(rng, *w.sizes)
    return arrays


_ARRAYS = {"mlp": _mlp, "infer": _mlp, "lstm": _lstm, "chain": _chain, "optimizer": _optimizer}


def weights(arrays: Arrays) -> Arrays:
    """The arrays that are parameters."""
    return {name: value for name, value in arrays.items() if "." in name}
