"""Optimizers against PyTorch, live: 200 steps of every variant, groups, changed settings, state dicts exchanged."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from peer import array, torch

import gradino as gd
from gradino import nn, optim

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
SHAPES = [(5, 3), (7,), (), (2, 3, 4), (1, 33)]
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "weight_decay": 0.02}),
    ("SGD", {"lr": 0.02, "momentum": 0.9}),
    ("SGD", {"lr": 0.02, "momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.02, "momentum": 0.8, "dampening": 0.2, "weight_decay": 0.03, "maximize": True}),
    ("SGD", {"lr": 0.02, "momentum": 0.8, "nesterov": True, "weight_decay": 0.03, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.7, 0.9), "eps": 1e-3}),
    ("Adam", {"lr": 0.01, "betas": (0.0, 0.0)}),
    ("Adam", {"lr": 0.01, "betas": (0.3, 0.999), "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "amsgrad": True, "maximize": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.0, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.02, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1, "momentum": 0.8, "centered": True}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5, "maximize": True}),
    ("Adagrad", {"lr": 0.05}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1, "initial_accumulator_value": 0.3, "eps": 1e-4, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.01, "betas": (0.3, 0.9), "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.01, "betas": (0.7, 0.9), "weight_decay": 0.1, "momentum_decay": 0.02}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.01, "betas": (0.7, 0.9), "weight_decay": 0.1, "eps": 1e-3}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
]
KINDS = sorted({kind for kind, _ in SETTINGS})


class Twins:
    """The same parameters in both libraries, and gradients for them: noise and the parameter itself, which stays bounded."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        start = [np.asarray(self.rng.standard_normal(s)).astype(dtype) for s in SHAPES]
        self.ours = [nn.Parameter(gd.tensor(a)) for a in start]
        self.theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start]

    def set_gradients(self, absent: tuple[int, ...] = (), sign: float = 1.0) -> None:
        for k, (p, q) in enumerate(zip(self.ours, self.theirs, strict=True)):
            if k in absent:
                p.grad = q.grad = None
                continue
            g = (np.asarray(self.rng.standard_normal(p.shape)) + sign * array(q)).astype(self.dtype)
            p.grad, q.grad = gd.tensor(g), torch.tensor(g)

    def assert_equal(self, what: str) -> None:
        for k, (p, q) in enumerate(zip(self.ours, self.theirs, strict=True)):
            tolerance = TOLERANCE[self.dtype]
            assert_close(p, array(q), rtol=tolerance, atol=tolerance, what=f"{what}, {self.dtype}: parameter {k} of shape {p.shape}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind, options", SETTINGS)
def test_200_steps(kind: str, options: dict[str, Any], dtype: str, isa: str) -> None:
    twins = Twins(dtype)
    ours, theirs = getattr(optim, kind)(twins.ours, **options), getattr(torch.optim, kind)(twins.theirs, **options)
    for _ in range(200):
        twins.set_gradients(sign=-1.0 if options.get("maximize") else 1.0)
        ours.step()
        theirs.step()
    twins.assert_equal(f"{kind} {options}, {isa}, 200 steps")


@pytest.mark.parametrize("kind, options", SETTINGS)
def test_groups_missing_gradients_and_changed_settings(kind: str, options: dict[str, Any]) -> None:
    """Groups with their own lr, gradients that come and go, lr and decay changed between steps, a group added later."""
    twins = Twins("float64", 3)
    made = []
    for module, parameters in ((optim, twins.ours), (torch.optim, twins.theirs)):
        groups = [{"params": parameters[:2]}, {"params": parameters[2:4], "lr": 0.003, "weight_decay": 0.2}]
        made.append(getattr(module, kind)(groups, **options))
    for t in range(60):
        absent = ((), (0,), (1, 2), (0, 1, 2, 3, 4))[t % 4]
        if t == 20:
            for optimizer, parameters in zip(made, (twins.ours, twins.theirs), strict=True):
                optimizer.add_param_group({"params": parameters[4], "lr": 0.02})
        for optimizer in made:
            optimizer.param_groups[0]["lr"] = 0.01 * 0.98**t
            optimizer.param_groups[1]["weight_decay"] = 0.1 if t > 30 else 0.2
        twins.set_gradients(absent)
        for optimizer in made:
            optimizer.step()
    twins.assert_equal(f"{kind} {options}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind, options", SETTINGS)
def test_state_dicts_exchange(kind: str, options: dict[str, Any], dtype: str) -> None:
    """10 steps, both take over the other's state, 10 more: still the same."""
    twins = Twins(dtype, 5)
    ours, theirs = getattr(optim, kind)(twins.ours, **options), getattr(torch.optim, kind)(twins.theirs, **options)
    for _ in range(10):
        twins.set_gradients()
        ours.step()
        theirs.step()
    mine, yours = ours.state_dict(convert=torch.as_tensor), copy.deepcopy(theirs.state_dict())
    assert mine["param_groups"][0]["params"] == yours["param_groups"][0]["params"]
    assert set(mine["param_groups"][0]) <= set(yours["param_groups"][0])
    for k, entry in yours["state"].items():
        assert {n for n, v in entry.items() if v is not None} - {"step"} == set(mine["state"][k]) - {"step"}, f"{kind} {options}: {k}"
    fresh, tfresh = getattr(optim, kind)(twins.ours, lr=9.0), getattr(torch.optim, kind)(twins.theirs, lr=9.0)
    fresh.load_state_dict(yours)
    tfresh.load_state_dict(mine)
    assert fresh.param_groups[0]["lr"] == tfresh.param_groups[0]["lr"] == ours.param_groups[0]["lr"]
    for _ in range(10):
        twins.set_gradients()
        fresh.step()
        tfresh.step()
    twins.assert_equal(f"{kind} {options}: states exchanged")


def test_momentum_switched_on_and_off() -> None:
    twins = Twins("float64", 9)
    ours, theirs = optim.SGD(twins.ours, lr=0.05), torch.optim.SGD(twins.theirs, lr=0.05)
    for t in range(30):
        for optimizer in (ours, theirs):
            optimizer.param_groups[0]["momentum"] = 0.0 if t % 10 < 3 else 0.9
        twins.set_gradients()
        ours.step()
        theirs.step()
    twins.assert_equal("momentum on and off")


def test_text_and_defaults() -> None:
    for kind in KINDS:
        ours, theirs = getattr(optim, kind)([nn.Parameter(gd.ones(2))]), getattr(torch.optim, kind)([torch.nn.Parameter(torch.ones(2))])
        for name, value in ours.defaults.items():
            assert theirs.defaults[name] == value, f"{kind}: {name}"
        lines = repr(theirs).splitlines()
        assert [line for line in repr(ours).splitlines() if line not in lines] == []


def test_a_bfloat16_state_of_pytorch_loads() -> None:
    """NumPy has no bfloat16, so its values come another way."""
    q = torch.nn.Parameter(torch.ones(5, dtype=torch.bfloat16))
    theirs = torch.optim.Adam([q], lr=0.1, foreach=False)
    q.grad = torch.arange(5, dtype=torch.bfloat16)
    theirs.step()
    p = nn.Parameter(gd.ones(5, dtype=gd.bfloat16))
    ours = optim.Adam([p], lr=0.1)
    ours.load_state_dict(theirs.state_dict())
    for name in ("exp_avg", "exp_avg_sq"):
        assert ours.state[p][name].tolist() == theirs.state[q][name].tolist()
