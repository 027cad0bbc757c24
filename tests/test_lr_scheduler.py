"""Learning rate schedules: values worked out by hand, state, errors, use in training."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import gradino as gd
from gradino import nn, optim
from gradino.optim import lr_scheduler as sched


def sgd(*rates: float) -> optim.SGD:
    groups = [{"params": [nn.Parameter(gd.zeros(2))], "lr": lr} for lr in rates or (1.0,)]
    return optim.SGD(groups, lr=1.0, momentum=0.9)


def step(optimizer: optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = gd.ones(2)
    optimizer.step()


def rates(optimizer: optim.Optimizer, scheduler: Any, epochs: int) -> list[float]:
    """The rate of the first group at each epoch."""
    seen = []
    for _ in range(epochs):
        assert scheduler.get_last_lr() == [g["lr"] for g in optimizer.param_groups]
        seen.append(optimizer.param_groups[0]["lr"])
        step(optimizer)
        scheduler.step()
    return seen


BY_HAND = {
    "StepLR": (lambda o: sched.StepLR(o, 2, gamma=0.5), [1, 1, 0.5, 0.5, 0.25]),
    "MultiStepLR": (lambda o: sched.MultiStepLR(o, [1, 3, 3], gamma=0.5), [1, 0.5, 0.5, 0.125, 0.125]),
    "ConstantLR": (lambda o: sched.ConstantLR(o, 0.25, total_iters=2), [0.25, 0.25, 1, 1]),
    "LinearLR": (lambda o: sched.LinearLR(o, 0.5, total_iters=4), [0.5, 0.625, 0.75, 0.875, 1, 1]),
    "ExponentialLR": (lambda o: sched.ExponentialLR(o, 0.5), [1, 0.5, 0.25]),
    "PolynomialLR": (lambda o: sched.PolynomialLR(o, 4), [1, 0.75, 0.5, 0.25, 0, 0]),
    "LambdaLR": (lambda o: sched.LambdaLR(o, lambda e: 1 / (1 + e)), [1, 1 / 2, 1 / 3]),
    "MultiplicativeLR": (lambda o: sched.MultiplicativeLR(o, lambda e: 0.1 * e), [1, 0.1, 0.02]),
    "CosineAnnealingLR": (lambda o: sched.CosineAnnealingLR(o, 4, 0.2), [0.6 + 0.4 * math.cos(math.pi * t / 4) for t in range(13)]),
    "WarmRestarts": (lambda o: sched.CosineAnnealingWarmRestarts(o, 2, 2), [1, 0.5, 1, 0.8535533906, 0.5, 0.1464466094, 1]),
    "OneCycleLR": (lambda o: sched.OneCycleLR(o, 1.0, 5, pct_start=0.4, anneal_strategy="linear", div_factor=2, final_div_factor=2),
                   [0.5, 1, 0.75, 0.5, 0.25]),
    "CyclicLR": (lambda o: sched.CyclicLR(o, 0.0, 1.0, step_size_up=2, mode="triangular2"), [0, 0.5, 1, 0.5, 0, 0.25, 0.5, 0.25, 0]),
    "WarmupCosineLR": (lambda o: sched.WarmupCosineLR(o, 4, 10, 0.1),
                       [0.2, 0.4, 0.6, 0.8, 1, 0.9397114317, 0.775, 0.55, 0.325, 0.1602885683, 0.1, 0.1, 0.1]),
    "SequentialLR": (lambda o: sched.SequentialLR(o, [sched.LinearLR(o, 0.5, total_iters=2), sched.ExponentialLR(o, 0.5)], [2]),
                     [0.5, 0.75, 1, 0.5, 0.25]),
    "ChainedScheduler": (lambda o: sched.ChainedScheduler([sched.StepLR(o, 2, 0.5), sched.ExponentialLR(o, 0.5)]), [1, 0.5, 0.125, 0.0625]),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_values(name):
    make, expected = BY_HAND[name]
    optimizer = sgd()
    assert rates(optimizer, make(optimizer), len(expected)) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_saved_schedule_goes_on_alike(name):
    make, expected = BY_HAND[name]
    one, two = sgd(), sgd()
    first = make(one)
    rates(one, first, 2)
    state, optimizer_state = first.state_dict(), one.state_dict()
    second = make(two)
    two.load_state_dict(optimizer_state)
    second.load_state_dict(state)
    rest = len(expected) - 2
    assert rates(two, second, rest) == rates(one, first, rest)
    assert "optimizer" not in state


def test_o04_schedules_begin_and_end_well():
    for warmup, decay, expected in [(0, 2, [1, 0.5, 0, 0]), (2, 2, [1 / 3, 2 / 3, 0, 0]), (0, 0, [0, 0])]:
        optimizer = sgd()
        assert rates(optimizer, sched.WarmupCosineLR(optimizer, warmup, decay), len(expected)) == pytest.approx(expected)
    optimizer = sgd(1.0, 0.5)
    scheduler = sched.CosineAnnealingLR(optimizer, 4)
    expected = [1, 0.853553, 0.5, 0.146447, 0, 0.146447, 0.5, 0.853553, 1, 0.853553]
    assert rates(optimizer, scheduler, 10) == pytest.approx(expected, abs=1e-6)
    assert scheduler.get_last_lr() == pytest.approx([0.5, 0.25])
    beyond = sgd()
    beyond.param_groups[0]["initial_lr"] = 1.0
    assert sched.WarmupCosineLR(beyond, 4, 10, 0.1, last_epoch=50).get_last_lr() == [0.1]


def chain(o: optim.Optimizer) -> sched.ChainedScheduler:
    return sched.ChainedScheduler([sched.LinearLR(o, 0.2, total_iters=3), sched.ExponentialLR(o, 0.9)])


def test_combinations_nest():
    """PyTorch's chain takes one step too many as the first of a sequence, and cannot be a later part of one."""
    alone, first, later = sgd(), sgd(), sgd()
    plain = rates(alone, chain(alone), 6)
    assert rates(first, sched.SequentialLR(first, [chain(first), sched.StepLR(first, 9)], [6]), 7) == [*plain, 1.0]
    assert rates(later, sched.SequentialLR(later, [sched.ConstantLR(later, 0.5, 9), chain(later)], [2]), 8) == [0.5, 0.5, *plain]


def test_a_state_is_a_copy():
    optimizer = sgd()
    scheduler = sched.StepLR(optimizer, 1)
    state = scheduler.state_dict()
    rates(optimizer, scheduler, 3)
    assert state["last_epoch"] == 0 and state["_last_lr"] == [1.0]


def test_plateau():
    optimizer = sgd(1.0, 0.1)
    scheduler = sched.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=[0.0, 0.1])
    seen = []
    for loss in [3.0, 2.0, gd.tensor(2.0), 2.0, 2.0, 2.0, 2.0, 1.0]:
        scheduler.step(loss)
        seen.append(optimizer.param_groups[0]["lr"])
    assert seen == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]
    assert optimizer.param_groups[1]["lr"] == 0.1
    assert scheduler.best == 1.0 and not scheduler.in_cooldown


def test_plateau_with_nan_counts_as_no_better():
    optimizer = sgd()
    scheduler = sched.ReduceLROnPlateau(optimizer, "max", patience=0)
    scheduler.step(1.0)
    scheduler.step(float("nan"))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)


def test_a_step_before_the_optimizers_warns_once():
    optimizer = sgd()
    scheduler = sched.StepLR(optimizer, 5)
    with pytest.warns(UserWarning, match=r"came before the first optimizer.step\(\)"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()


def test_an_optimizer_applied_in_backward_counts_as_stepped():
    w = nn.Parameter(gd.ones(2))
    optimizer = optim.AdamW([w], lr=0.1)
    scheduler = sched.ExponentialLR(optimizer, 0.5)
    with gd.step_arena():
        (w * w).sum().backward(optimizer=optimizer)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05


def test_the_optimizer_uses_the_rate():
    w = nn.Parameter(gd.zeros(1))
    optimizer = optim.SGD([w], lr=1.0)
    scheduler = sched.ExponentialLR(optimizer, 0.5)
    for _ in range(3):
        w.grad = gd.ones(1)
        optimizer.step()
        scheduler.step()
    assert w.item() == -(1 + 0.5 + 0.25)


def test_one_cycle_moves_adams_beta():
    optimizer = optim.Adam([nn.Parameter(gd.zeros(2))], lr=0.1)
    scheduler = sched.OneCycleLR(optimizer, 1.0, epochs=5, steps_per_epoch=2)
    assert optimizer.param_groups[0]["betas"] == (0.95, 0.999)
    seen = []
    for _ in range(9):
        step(optimizer)
        scheduler.step()
        seen.append(optimizer.param_groups[0]["betas"][0])
    assert min(seen) == pytest.approx(0.85) and seen[-1] == pytest.approx(0.95)


def test_continuing_needs_the_optimizers_state():
    one = sgd(0.5)
    first = sched.StepLR(one, 2)
    rates(one, first, 3)
    with pytest.raises(KeyError, match="no 'initial_lr'"):
        sched.StepLR(sgd(0.5), 2, last_epoch=2)
    two = sgd(0.5)
    two.load_state_dict(one.state_dict())
    second = sched.StepLR(two, 2, last_epoch=first.last_epoch - 1)
    assert second.base_lrs == [0.5] and second.last_epoch == first.last_epoch


ERRORS = [
    (lambda o: sched.StepLR(o, 0), "step_size is 0"),
    (lambda o: sched.ConstantLR(o, 1.5), "factor is 1.5"),
    (lambda o: sched.LinearLR(o, 0.0), "start_factor is 0.0"),
    (lambda o: sched.LinearLR(o, 0.5, 2), "end_factor is 2"),
    (lambda o: sched.CosineAnnealingLR(o, 0), "T_max is 0"),
    (lambda o: sched.CosineAnnealingWarmRestarts(o, 0), "T_0 is 0"),
    (lambda o: sched.CosineAnnealingWarmRestarts(o, 2, 1.5), "T_mult is 1.5"),
    (lambda o: sched.CosineAnnealingWarmRestarts(o, 2).step(-1), "epoch is -1"),
    (lambda o: sched.WarmupCosineLR(o, 5, 4), "got 5 and 4"),
    (lambda o: sched.OneCycleLR(o, 1.0), "give total_steps"),
    (lambda o: sched.OneCycleLR(o, 1.0, 0), "total_steps is 0"),
    (lambda o: sched.OneCycleLR(o, 1.0, epochs=2, steps_per_epoch=1.5), "steps_per_epoch is 1.5"),
    (lambda o: sched.OneCycleLR(o, 1.0, 5, pct_start=2.0), "pct_start is 2.0"),
    (lambda o: sched.OneCycleLR(o, 1.0, 5, anneal_strategy="up"), "anneal_strategy is 'up'"),
    (lambda o: sched.OneCycleLR(o, [1.0, 2.0], 5), "max_lr has 2 values, the optimizer 1"),
    (lambda o: sched.CyclicLR(o, 0.1, 1.0, mode="square"), "mode is 'square'"),
    (lambda o: sched.CyclicLR(o, 0.1, 1.0, step_size_up=0), "step_size_up is 0"),
    (lambda o: sched.LambdaLR(o, [abs, abs]), "lr_lambda has 2 values"),
    (lambda o: sched.SequentialLR(o, [sched.StepLR(o, 1)], [3]), "1 schedulers need 0 milestones, got 1"),
    (lambda o: sched.SequentialLR(o, [], []), "at least one scheduler"),
    (lambda o: sched.ChainedScheduler([sched.StepLR(o, 1), sched.StepLR(sgd(), 1)]), "belongs to another optimizer"),
    (lambda o: sched.ChainedScheduler([sched.ReduceLROnPlateau(o)]), "need a metric"),
    (lambda o: sched.ReduceLROnPlateau(o, factor=1.0), "factor is 1.0"),
    (lambda o: sched.ReduceLROnPlateau(o, "best"), "mode is 'best'"),
    (lambda o: sched.ReduceLROnPlateau(o, threshold_mode="some"), "threshold_mode is 'some'"),
]


@pytest.mark.parametrize(("make", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make(sgd())


def test_what_is_no_optimizer():
    for make in (lambda: sched.StepLR([], 1), lambda: sched.OneCycleLR(None, 1.0, 5), lambda: sched.ReduceLROnPlateau({})):
        with pytest.raises(TypeError, match="expected an Optimizer, got"):
            make()


def test_one_cycle_ends():
    optimizer = sgd()
    scheduler = sched.OneCycleLR(optimizer, 1.0, 3)
    rates(optimizer, scheduler, 3)
    with pytest.raises(ValueError, match="step 4 of a schedule of 3 steps"):
        scheduler.step()
