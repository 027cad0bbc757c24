"""Learning rate schedules in step with PyTorch's, for several groups, optimizers and ways of combining them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from peer import torch

import gradino as gd
from gradino import nn, optim

CASES: dict[str, Any] = {
    "step": lambda m, o: m.StepLR(o, 3, 0.3),
    "multistep": lambda m, o: m.MultiStepLR(o, [2, 5, 5, 11], 0.4),
    "constant": lambda m, o: m.ConstantLR(o, 0.3, 4),
    "linear": lambda m, o: m.LinearLR(o, 0.2, 0.9, 7),
    "linear to 0": lambda m, o: m.LinearLR(o, 1.0, 0.0, 10),
    "exponential": lambda m, o: m.ExponentialLR(o, 0.93),
    "polynomial": lambda m, o: m.PolynomialLR(o, 9, 2.5),
    "lambda": lambda m, o: m.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "multiplicative": lambda m, o: m.MultiplicativeLR(o, lambda e: 0.7 + 0.01 * e),
    "cosine": lambda m, o: m.CosineAnnealingLR(o, 6, 0.001),
    "cosine, odd": lambda m, o: m.CosineAnnealingLR(o, 7),
    "restarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 3, 2, 0.002),
    "restarts, equal": lambda m, o: m.CosineAnnealingWarmRestarts(o, 4),
    "one cycle": lambda m, o: m.OneCycleLR(o, [0.5, 0.2], 25),
    "one cycle, linear": lambda m, o: m.OneCycleLR(o, 0.5, epochs=5, steps_per_epoch=6, anneal_strategy="linear", pct_start=0.4),
    "one cycle, three phases": lambda m, o: m.OneCycleLR(o, 0.5, 26, three_phase=True, base_momentum=[0.8, 0.7]),
    "one cycle, no momentum": lambda m, o: m.OneCycleLR(o, 0.5, 26, cycle_momentum=False, div_factor=10),
    "cyclic": lambda m, o: m.CyclicLR(o, 0.01, [0.1, 0.4], 3, 5),
    "cyclic, halving": lambda m, o: m.CyclicLR(o, 0.01, 0.4, 3, mode="triangular2"),
    "cyclic, shrinking": lambda m, o: m.CyclicLR(o, [0.01, 0.02], 0.4, 3, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "cyclic, own": lambda m, o: m.CyclicLR(o, 0.01, 0.4, 3, scale_fn=lambda x: 0.5 ** (x - 1), scale_mode="cycle"),
    "warm-up, cosine": lambda m, o: m.SequentialLR(o, [m.LinearLR(o, 0.1, total_iters=4), m.CosineAnnealingLR(o, 12)], [4]),
    "three in turn": lambda m, o: m.SequentialLR(o, [m.ConstantLR(o, 0.5, 3), m.ExponentialLR(o, 0.8), m.StepLR(o, 2)], [3, 9]),
    "restarts in turn": lambda m, o: m.SequentialLR(o, [m.ConstantLR(o, 0.5, 9), m.CosineAnnealingWarmRestarts(o, 3, 2)], [4]),
    "chained": lambda m, o: m.ChainedScheduler([m.ConstantLR(o, 0.1, 4), m.ExponentialLR(o, 0.9)]),
}


def twins(kind: str) -> tuple[Any, Any]:
    settings = {"lr": 0.1, "momentum": 0.9} if kind == "SGD" else {"lr": 0.1}
    ours = [nn.Parameter(gd.zeros(2)), nn.Parameter(gd.zeros(3))]
    theirs = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(3))]
    groups = [[{"params": [a]}, {"params": [b], "lr": 0.03}] for a, b in (ours, theirs)]
    return getattr(optim, kind)(groups[0], **settings), getattr(torch.optim, kind)(groups[1], **settings)


def assert_same(ours: Any, theirs: Any, what: str) -> None:
    for i, (g, t) in enumerate(zip(ours.param_groups, theirs.param_groups, strict=True)):
        for name in ("lr", "momentum", "betas"):
            if name in t:
                assert g[name] == pytest.approx(t[name], rel=1e-12, abs=1e-18), f"{what}: {name} of group {i}"


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", CASES)
def test_in_step(name, kind):
    ours, theirs = twins(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, about its deprecated parts and the missing optimizer steps
        a, b = CASES[name](optim.lr_scheduler, ours), CASES[name](torch.optim.lr_scheduler, theirs)
        assert_same(ours, theirs, f"{name}, start")
        for epoch in range(25):
            a.step()
            b.step()
            assert_same(ours, theirs, f"{name}, after step {epoch + 1}")
            assert a.get_last_lr() == pytest.approx(b.get_last_lr(), rel=1e-12, abs=1e-18)
            assert a.last_epoch == b.last_epoch if hasattr(b, "last_epoch") else True


@pytest.mark.parametrize("settings", [
    {}, {"mode": "max"}, {"patience": 2, "cooldown": 3}, {"threshold_mode": "abs", "threshold": 0.1, "patience": 1},
    {"min_lr": [0.05, 0.001], "patience": 0}, {"mode": "max", "threshold": 0.2, "patience": 3, "factor": 0.5}, {"patience": 0, "eps": 0.02},
])  # fmt: skip
def test_plateau_in_step(settings):
    ours, theirs = twins("SGD")
    a, b = optim.lr_scheduler.ReduceLROnPlateau(ours, **settings), torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **settings)
    metrics = np.random.default_rng(0).uniform(0.5, 1.0, 80)
    metrics[40] = np.nan
    for epoch, metric in enumerate(metrics):
        a.step(float(metric))
        b.step(float(metric))
        assert_same(ours, theirs, f"{settings}, after step {epoch + 1}")


def test_restarts_at_parts_of_an_epoch():
    ours, theirs = twins("SGD")
    a = optim.lr_scheduler.CosineAnnealingWarmRestarts(ours, 3, 2)
    b = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(theirs, 3, 2)
    for epoch in np.arange(0, 25, 0.37):
        a.step(float(epoch))
        b.step(float(epoch))
        assert_same(ours, theirs, f"epoch {epoch}")


def test_a_rate_changed_by_hand_stays():
    ours, theirs = twins("SGD")
    a, b = optim.lr_scheduler.StepLR(ours, 4), torch.optim.lr_scheduler.StepLR(theirs, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epoch in range(12):
            if epoch == 5:
                ours.param_groups[0]["lr"] = theirs.param_groups[0]["lr"] = 0.7
            a.step()
            b.step()
            assert_same(ours, theirs, f"after step {epoch + 1}")
