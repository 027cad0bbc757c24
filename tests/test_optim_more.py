"""Lion, Muon, groups without decay, and what all optimizers refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from optim_cases import KINDS, one
from peer import array, torch

import gradino as gd
from gradino import nn, optim


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("maximize", [False, True])
def test_lion_is_its_formula(isa: str, dtype: str, maximize: bool) -> None:
    rng = np.random.default_rng(3)
    p = nn.Parameter(gd.tensor(rng.standard_normal((3, 37)), dtype=dtype))
    opt = optim.Lion([p], lr=0.01, betas=(0.8, 0.95), weight_decay=0.1, maximize=maximize)
    x, m = array(p).astype(np.float64), np.zeros((3, 37))
    for _ in range(50):
        g = rng.standard_normal((3, 37))
        p.grad = gd.tensor(g, dtype=dtype)
        opt.step()
        g = -g if maximize else g
        x = x * (1 - 0.01 * 0.1) - 0.01 * np.sign(0.8 * m + 0.2 * g)
        m = 0.95 * m + 0.05 * g
    assert_close(p, x, rtol=1e-5, atol=1e-5, what=f"Lion {isa} {dtype}")
    assert_close(p.exp_avg, m, rtol=1e-5, atol=1e-6, what=f"Lion's moment {isa} {dtype}")


def test_lion_stands_still_at_zero_and_keeps_nan() -> None:
    p = nn.Parameter(gd.ones(3))
    opt = optim.Lion([p], lr=0.5)
    p.grad = gd.tensor([0.0, float("nan"), -2.0])
    opt.step()
    assert p.tolist()[0] == 1.0 and p.tolist()[2] == 1.5 and np.isnan(p.tolist()[1])


MUON: list[dict[str, Any]] = [
    {"lr": 0.02},
    {"lr": 0.02, "momentum": 0.5, "nesterov": False, "weight_decay": 0.0},
    {"lr": 0.01, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3},
    {"lr": 0.02, "ns_coefficients": (2.0, -1.5, 0.5), "eps": 1e-4},
]


@pytest.mark.parametrize("options", MUON)
@pytest.mark.parametrize("shape", [(6, 4), (4, 9), (5, 5), (1, 7)])
def test_muon_is_pytorchs(options: dict[str, Any], shape: tuple[int, int]) -> None:
    """Both iterate in bfloat16, whose roundings grow in the iteration: one update differs by a few of them."""
    rng = np.random.default_rng(11)
    start = rng.standard_normal(shape).astype(np.float32)
    p, q = nn.Parameter(gd.tensor(start)), torch.nn.Parameter(torch.tensor(start))
    ours, theirs = optim.Muon([p], **options), torch.optim.Muon([q], **options)
    for _ in range(8):
        g = rng.standard_normal(shape).astype(np.float32)
        before = array(p).copy()
        q.data.copy_(torch.tensor(before))
        p.grad, q.grad = gd.tensor(g), torch.tensor(g)
        ours.step()
        theirs.step()
        moved = np.abs(array(q) - before).max()
        assert np.abs(array(p) - array(q)).max() < 0.08 * moved, (options, shape)
    entry = ours.state_dict()["state"][0]
    assert_close(entry["momentum_buffer"], array(theirs.state[q]["momentum_buffer"]), rtol=1e-5, atol=1e-6, what="momentum")
    mine = ours.state_dict(convert=torch.as_tensor)
    fresh = optim.Muon([p], lr=9.0)
    fresh.load_state_dict(theirs.state_dict())
    assert fresh.param_groups[0]["lr"] == options["lr"]
    assert_close(fresh.state[p]["momentum_buffer"], array(theirs.state[q]["momentum_buffer"]), rtol=0, what="loaded momentum")
    theirs.load_state_dict(mine)


def test_muon_trains_in_a_steady_state() -> None:
    gd.manual_seed(0)
    model = nn.Linear(8, 8, bias=False)
    opt, x = optim.Muon(model.parameters(), lr=0.05), gd.randn(16, 8)
    losses = []
    for _ in range(30):
        with gd.step_arena():
            loss = nn.functional.mse_loss(model(x), x)
            loss.backward()
            opt.step()
            opt.zero_grad()
            losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def test_muon_refuses() -> None:
    with pytest.raises(ValueError, match="only matrices"):
        optim.Muon([nn.Parameter(gd.ones(3))])
    with pytest.raises(ValueError, match="adjust_lr_fn"):
        optim.Muon([nn.Parameter(gd.ones(3, 3))], adjust_lr_fn="no")
    p = nn.Parameter(gd.ones(2, 2))
    opt = optim.Muon([p])
    with pytest.raises(ValueError, match="call step"):
        (p * p).sum().backward(optimizer=opt)


def test_no_decay_groups() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 3, bias=False))
    model[2].weight.requires_grad_(False)
    decayed, others = optim.no_decay_groups(model, 0.3)
    assert [n for n, _ in decayed["params"]] == ["0.weight"] and decayed["weight_decay"] == 0.3
    assert [n for n, _ in others["params"]] == ["0.bias", "1.weight", "1.bias"] and others["weight_decay"] == 0


@pytest.mark.parametrize("kind, options", KINDS)
def test_the_same_parameter_twice(kind: type[optim.Optimizer], options: dict[str, Any]) -> None:
    p = one()
    with pytest.raises(ValueError, match="twice"):
        kind([p, p], **options)
    with pytest.raises(ValueError, match="two groups"):
        kind([{"params": [p]}, {"params": [p]}], **options)


@pytest.mark.parametrize("kind, options", KINDS)
def test_a_closure_is_called_with_gradients_on(kind: type[optim.Optimizer], options: dict[str, Any]) -> None:
    p = one(2.0)
    opt = kind([p], **options)

    def closure() -> gd.Tensor:
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with gd.no_grad():
        assert opt.step(closure).item() == 4.0
    assert p.item() < 2.0


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda p: optim.RMSprop(p, alpha=-1), "alpha"),
        (lambda p: optim.Adagrad(p, lr_decay=-1), "lr_decay"),
        (lambda p: optim.Adagrad(p, initial_accumulator_value=-1), "initial_accumulator_value"),
        (lambda p: optim.Adadelta(p, rho=1.5), "rho"),
        (lambda p: optim.Adamax(p, betas=(1.0, 0.9)), "betas"),
        (lambda p: optim.NAdam(p, momentum_decay=-1), "momentum_decay"),
        (lambda p: optim.RAdam(p, eps=-1), "eps"),
        (lambda p: optim.Lion(p, lr=-1), "lr"),
        (lambda p: optim.RAdam(p, capturable=True), "capturable"),
        (lambda p: optim.RMSprop(p, differentiable=True), "differentiable"),
        (lambda p: optim.AdamW(p, fused=True, foreach=True), "fused and foreach"),
    ],
)
def test_settings_that_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make([one()])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind, options", KINDS)
def test_halves_are_updated_in_float32(kind: type[optim.Optimizer], options: dict[str, Any], dtype: str) -> None:
    """One update of a half parameter is the float32 one, rounded."""
    rng = np.random.default_rng(5)
    x, g = (gd.tensor(rng.standard_normal(70)).to(dtype) for _ in range(2))
    small, large = nn.Parameter(x), nn.Parameter(x.float())
    small.grad, large.grad = g, g.float()
    for p in (small, large):
        kind([p], **options).step()
    assert small.tolist() == large.detach().to(dtype).tolist()


class Simple(optim.Optimizer):
    """SGD with momentum as one writes it for PyTorch."""

    def __init__(self, params: Any, lr: float = 0.1, momentum: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @gd.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"], state["buffer"] = 0, gd.zeros_like(p)
                state["step"] += 1
                state["buffer"].mul_(group["momentum"]).add_(p.grad)
                p.add_(state["buffer"], alpha=-group["lr"])


def test_an_optimizer_of_ones_own() -> None:
    p, q = one(1.0), one(1.0)
    mine, theirs = Simple([p], lr=0.05), optim.SGD([q], lr=0.05, momentum=0.9)
    for k in range(6):
        for x, opt in ((p, mine), (q, theirs)):
            x.grad = gd.tensor([0.3 * k], dtype=gd.float64)
            opt.step()
        if k == 2:
            other = Simple([p], lr=9.0)
            other.load_state_dict(mine.state_dict())
            mine = other
    assert p.item() == pytest.approx(q.item(), rel=1e-12) and mine.state[p]["step"] == 6
    with pytest.raises(NotImplementedError, match="define step"):
        (p * 2).sum().backward(optimizer=mine)
    with pytest.raises(NotImplementedError, match="define step"):
        optim.Optimizer([one()], {}).step()
