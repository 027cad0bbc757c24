"""Optimizers: case O01, groups, settings, errors, and the step taken inside backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits
from optim_cases import KINDS, model_and_data, one, update

import gradino as gd
from gradino import nn, optim
from gradino.nn import functional as F

# ---- Case O01 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "eps, wanted", [(1e-8, [0.900000002, 0.800000004, 0.700000006]), (1e-3, [0.9001996008, 0.8003992016, 0.7005988024])]
)
def test_o01_bias_correction_and_epsilon(eps: float, wanted: list[float], isa: str) -> None:
    """Case O01: moments are corrected, and epsilon is added after the correction."""
    p = one()
    opt = optim.Adam([p], lr=0.1, eps=eps)
    for want in wanted:
        p.grad = gd.tensor([0.5], dtype=gd.float64)
        opt.step()
        assert p.item() == pytest.approx(want, abs=1e-9), isa


def test_o01_small_and_zero_gradients_and_decay(isa: str) -> None:
    for kind, options, gradient, want in (
        (optim.Adam, {}, 1e-8, 0.95),
        (optim.Adam, {}, 0.0, 1.0),
        (optim.AdamW, {"weight_decay": 0.1}, 0.5, 0.89),
        (optim.Adam, {"weight_decay": 0.1}, 0.5, 0.9),
    ):
        p = one(1.0, gradient)
        kind([p], lr=0.1, **options).step()
        assert p.item() == pytest.approx(want, abs=3e-9), (kind.__name__, options, gradient, isa)


def test_o01_step_counter_is_exact_and_corrections_are_double() -> None:
    """Counters of 1e6 and 2**24 + 1 in a float32 parameter."""
    for step in (10**6, 2**24 + 1):
        p = nn.Parameter(gd.ones(1))
        opt = optim.Adam([p], lr=0.1)
        moments = {"step": step - 1, "exp_avg": gd.full((1,), 0.5), "exp_avg_sq": gd.full((1,), 0.25)}
        opt.load_state_dict({"state": {0: moments}, "param_groups": opt.state_dict()["param_groups"]})
        p.grad = gd.full((1,), 0.5)
        opt.step()
        assert opt.state_dict()["state"][0]["step"] == step
        assert p.item() == pytest.approx(0.9, abs=1e-6)


# ---- Step inside backward -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, options", KINDS)
def test_backward_with_optimizer_is_backward_step_zero_grad(kind: Any, options: dict[str, Any], isa: str) -> None:
    """Bit for bit, over 15 steps, also for a recurrent model whose weights are used by several ops."""
    ends = []
    for fused in (False, True):
        model, x, y = model_and_data()
        lstm = nn.LSTM(16, 8)
        head = nn.Linear(8, 3)
        parameters = [*model[:2].parameters(), *lstm.parameters(), *head.parameters()]
        opt = kind(parameters, **options)
        for _ in range(15):
            with gd.step_arena():
                hidden = model[:2](x)
                out, (h, _) = lstm(gd.stack([hidden, hidden * 0.5]))
                loss = F.cross_entropy(head(h[0]), y) + F.cross_entropy(head(out[0]), y)
                update(loss, opt, fused)
        assert all(p.grad is None for p in parameters)
        ends.append(parameters)
    for k, (a, b) in enumerate(zip(*ends, strict=True)):
        assert_same_bits(a, b, what=f"{kind.__name__} {options}, {isa}: parameter {k}")


def test_backward_with_optimizer_and_gradients_from_before() -> None:
    """Gradients that were there are added to, and stepped also where this loss does not reach."""
    ends = []
    for fused in (False, True):
        a, b, c = one(1.0, 0.5), one(2.0, 0.25), one(3.0)
        opt = optim.SGD([a, b], lr=0.1)
        loss = a * c
        update(loss, opt, fused)
        ends.append([a.item(), b.item(), c.item(), a.grad, b.grad, c.grad.item()])
    assert ends[0] == ends[1]
    a_after, b_after, *rest = ends[0]
    assert [a_after, b_after] == pytest.approx([0.65, 1.975], rel=1e-15)  # without fused multiply-add the last bit differs
    assert rest == [3, None, None, 1]


def test_backward_with_optimizer_waits_for_detached_readers() -> None:
    """A parameter that another gradient still reads through a detached view is updated last."""
    ends = []
    for fused in (False, True):
        w, x = one(2.0), one(3.0)
        opt = optim.SGD([w, x], lr=0.1)
        for _ in range(3):
            loss = (w * w) * 1.0 + (x * w.detach()) * 1.0 + x.detach() * w
            update(loss, opt, fused)
        ends.append((w.item(), x.item()))
    assert ends[0] == ends[1]


def test_backward_with_optimizer_outside_any_step_arena() -> None:
    """amsgrad's memory is not given back with what backward used."""
    ends = []
    for fused in (False, True):
        p = one(1.0)
        opt = optim.Adam([p], lr=0.1, amsgrad=True)
        with gd.permanent_arena():
            for t in range(4):
                loss = (p * p).sum() * (4.0 - t)
                update(loss, opt, fused)
                gd.full((8,), 1e9, dtype=gd.float64)
        ends.append(p.item())
    assert ends[0] == ends[1]


def test_backward_with_optimizer_excludes_create_graph() -> None:
    p = one()
    with pytest.raises(ValueError, match="create_graph"):
        (p * p).backward(create_graph=True, optimizer=optim.SGD([p], lr=0.1))


# ---- Groups and settings ------------------------------------------------------------------------------------


def test_the_same_parameter_twice_is_an_error() -> None:
    p = one()
    for params in ([p, p], [{"params": [p]}, {"params": [p]}], [{"params": [p, p]}]):
        with pytest.raises(ValueError, match="same parameter"):
            optim.SGD(params, lr=0.1)
    opt = optim.SGD([p], lr=0.1)
    with pytest.raises(ValueError, match="same parameter"):
        opt.add_param_group({"params": [p]})
    assert len(opt.param_groups) == 1


def test_groups_take_their_own_settings_and_names() -> None:
    model, _, _ = model_and_data()
    opt = optim.AdamW(
        [{"params": model[0].named_parameters(), "weight_decay": 0.0}, {"params": model[2].named_parameters(), "lr": 1.0}], lr=0.1
    )
    first, second = opt.param_groups
    assert (first["lr"], first["weight_decay"], second["lr"], second["weight_decay"]) == (0.1, 0.0, 1.0, 0.01)
    assert first["param_names"] == ["weight", "bias"] and first["params"][0] is model[0].weight


def test_parameters_without_gradient_are_left_alone() -> None:
    for kind, options in KINDS:
        p, q = one(1.0, 0.5), one(2.0)
        opt = kind([p, q], **{**options, "weight_decay": 0.1})
        opt.step()
        assert p.item() != 1.0 and q.item() == 2.0
        if kind is not optim.Adagrad:  # whose sums are there from the beginning, as in PyTorch
            assert set(opt.state_dict()["state"]) == {0}


def test_zero_grad() -> None:
    p = one(1.0, 0.5)
    opt = optim.SGD([p], lr=0.1)
    opt.zero_grad(set_to_none=False)
    assert p.grad.item() == 0
    held = p.grad
    opt.zero_grad()
    assert p.grad is None
    with pytest.raises(gd.StaleTensorError, match="zero_grad"):
        held.item()


def test_closure_runs_with_recording_on() -> None:
    p = one(3.0)
    opt = optim.SGD([p], lr=0.1)

    def closure() -> gd.Tensor:
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with gd.no_grad():
        assert opt.step(closure).item() == 9.0
    assert p.item() == pytest.approx(2.4)


def test_lr_changes_between_steps() -> None:
    p = one(0.0)
    opt = optim.SGD([p], lr=1.0)
    for lr in (1.0, 0.5, 0.0, 2.0):
        opt.param_groups[0]["lr"] = lr
        p.grad = gd.tensor([1.0], dtype=gd.float64)
        opt.step()
    assert p.item() == -3.5
    opt.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr is -1"):
        opt.step()


def test_parameters_of_a_group_changed_by_hand_are_noticed() -> None:
    for change in (
        lambda o: o.param_groups[0]["params"].append(one()),
        lambda o: o.param_groups[0]["params"].__setitem__(0, nn.Parameter(gd.ones(3))),
        lambda o: o.param_groups[0].__setitem__("params", []),
        lambda o: o.param_groups.append({"params": [one()], "lr": 0.1}),
    ):
        opt = optim.SGD([one(1.0, 0.5)], lr=0.1)
        opt.step()
        change(opt)
        with pytest.raises(gd.GradinoError, match="add_param_group"):
            opt.step()


def test_plain_leaves_can_be_optimized() -> None:
    with gd.permanent_arena():
        x = gd.tensor([1.0, 2.0], requires_grad=True)
    opt = optim.Adam([x], lr=0.1)
    (x * x).sum().backward()
    opt.step()
    assert_close(x, np.array([0.9, 1.9], np.float32), atol=1e-6, what="plain leaf")
    with pytest.raises(gd.ArenaError, match="step arena"):
        optim.SGD([gd.ones(2, requires_grad=True)], lr=0.1)
    with pytest.raises(ValueError, match="leaf"):
        optim.SGD([x * 2], lr=0.1)


def test_one_optimizer_with_moments_at_a_time() -> None:
    p = one(1.0, 0.5)
    first = optim.Adam([p], lr=0.1)
    first.step()
    second = optim.Adam([p], lr=0.1)
    second.step()
    assert second.state_dict()["state"][0]["step"] == 1
    with pytest.raises(gd.GradinoError, match="taken over"):
        first.step()


def test_moments_live_beside_the_parameter() -> None:
    p = one(1.0, 0.5)
    assert p.exp_avg is p.exp_avg_sq is p.prev_grad is None
    opt = optim.Adam([p], lr=0.1, betas=(0.9, 0.99))
    opt.step()
    assert p.exp_avg.item() == pytest.approx(0.05) and p.exp_avg_sq.item() == pytest.approx(0.0025)
    assert set(opt.state[p]) == {"step", "exp_avg", "exp_avg_sq"} and opt.state[p]["exp_avg"].item() == p.exp_avg.item()
    q = one(1.0, 0.5)
    sgd = optim.SGD([q], lr=0.1, momentum=0.9)
    sgd.step()
    assert q.prev_grad.item() == 0.5 and q.exp_avg is None
    del opt
    assert p.exp_avg is None


def test_state_made_in_a_step_arena_survives_it() -> None:
    p = nn.Parameter(gd.ones(3))
    opt = optim.Adam([p], lr=0.1, amsgrad=True)
    for _ in range(3):
        p.grad = None
        with gd.step_arena():
            (p * p).sum().backward()
            opt.step()
        gd.full((1000,), 7.0)
    assert opt.state_dict()["state"][0]["step"] == 3
    assert (p.grad - 2 * p).abs().max().item() < 0.3 and p.exp_avg.shape == (3,)


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda p: optim.SGD([], lr=0.1), ValueError, "empty"),
        (lambda p: optim.SGD(p, lr=0.1), TypeError, "iterable"),
        (lambda p: optim.SGD({"params": [p]}, lr=0.1), TypeError, "dict"),
        (lambda p: optim.SGD([{"lr": 0.1}]), TypeError, "params"),
        (lambda p: optim.SGD([{"params": {p}}]), TypeError, "set"),
        (lambda p: optim.SGD([1.0]), TypeError, "float"),
        (lambda p: optim.SGD([("a", p), one()]), TypeError, "pairs"),
        (lambda p: optim.SGD([p], lr=-1), ValueError, "lr is -1"),
        (lambda p: optim.SGD([p], lr=float("nan")), ValueError, "nan"),
        (lambda p: optim.SGD([p], momentum=-0.1), ValueError, "momentum"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "nesterov"),
        (lambda p: optim.SGD([p], momentum=0.9, dampening=0.1, nesterov=True), ValueError, "dampening"),
        (lambda p: optim.SGD([{"params": [p], "betas": 1}]), ValueError, "betas"),
        (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "betas"),
        (lambda p: optim.Adam([p], betas=(0.9, -0.1)), ValueError, "betas"),
        (lambda p: optim.Adam([p], eps=-1e-8), ValueError, "eps"),
        (lambda p: optim.AdamW([p], weight_decay=-0.1), ValueError, "weight_decay"),
        (lambda p: optim.Adam([p], differentiable=True), ValueError, "differentiable"),
        (lambda p: optim.AdamW([p], capturable=True), ValueError, "capturable"),
    ],
)
def test_errors_name_what_is_wrong(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        make(one())
    assert text in str(caught.value)


def test_fused_and_foreach_are_accepted() -> None:
    for kind in (optim.SGD, optim.Adam, optim.AdamW):
        assert kind([one()], lr=0.1, fused=True, foreach=False)
