"""State of optimizers: saved, loaded, copied, pickled; the same training goes on, bit for bit."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from helpers import assert_same_bits
from optim_cases import KINDS, model_and_data, one

import gradino as gd
from gradino import nn, optim
from gradino.nn import functional as F


def train(model: nn.Module, opt: optim.Optimizer, x: gd.Tensor, y: gd.Tensor, steps: int) -> None:
    for _ in range(steps):
        with gd.step_arena():
            F.cross_entropy(model(x), y).backward()
            opt.step()
            opt.zero_grad()


@pytest.mark.parametrize("kind, options", KINDS)
@pytest.mark.parametrize("way", ["state_dict", "deepcopy", "pickle"])
def test_resumed_training_has_the_same_bits(kind: Any, options: dict[str, Any], way: str) -> None:
    model, x, y = model_and_data()
    opt = kind(model.parameters(), **options)
    train(model, opt, x, y, 5)
    if way == "deepcopy":
        again, opt2 = copy.deepcopy((model, opt))
    elif way == "pickle":
        again, opt2 = pickle.loads(pickle.dumps((model, opt)))
    else:
        again = model_and_data(1)[0]
        again.load_state_dict(model.state_dict())
        opt2 = kind(again.parameters(), lr=5.0)
        opt2.load_state_dict(opt.state_dict())
    assert opt2.param_groups[0]["params"][0] is again[0].weight
    train(model, opt, x, y, 5)
    train(again, opt2, x, y, 5)
    for (name, p), q in zip(model.named_parameters(), again.parameters(), strict=True):
        assert_same_bits(q, p, what=f"{kind.__name__} {options} by {way}: {name}")


def test_state_dict_is_a_copy() -> None:
    p = one(1.0, 0.5)
    opt = optim.Adam([p], lr=0.1)
    opt.step()
    state = opt.state_dict()
    before = state["state"][0]["exp_avg"].item()
    opt.step()
    assert state["state"][0]["exp_avg"].item() == before and state["state"][0]["step"] == 1


def test_loading_an_empty_state_starts_afresh() -> None:
    p = one(1.0, 0.5)
    opt = optim.Adam([p], lr=0.1)
    fresh = opt.state_dict()
    opt.step()
    opt.load_state_dict(fresh)
    assert p.exp_avg is None and opt.state_dict()["state"] == {}
    q = one(p.item(), 0.5)
    other = optim.Adam([q], lr=0.1)
    opt.step()
    other.step()
    assert_same_bits(p, q, what="after loading an empty state")


def test_names_match_entries() -> None:
    """Parameters in another order find their own moments; another name or shape is refused by name, nothing changed."""
    a, b = nn.Parameter(gd.ones(2)), nn.Parameter(gd.ones(3))
    opt = optim.SGD([("a", a), ("b", b)], lr=0.1, momentum=0.9)
    a.grad, b.grad = gd.full((2,), 2.0), gd.full((3,), 3.0)
    opt.step()
    state = opt.state_dict()
    other = optim.SGD([("b", nn.Parameter(gd.ones(3))), ("a", nn.Parameter(gd.ones(2)))], lr=0.5, momentum=0.9)
    other.load_state_dict(state)
    assert other.param_groups[0]["params"][0].prev_grad.tolist() == [3, 3, 3] and other.param_groups[0]["lr"] == 0.1
    renamed = optim.SGD([("a", nn.Parameter(gd.ones(2))), ("c", nn.Parameter(gd.ones(3)))], lr=0.5, momentum=0.9)
    with pytest.raises(gd.GradinoError, match=r"no parameter 'c'; it has \['a', 'b'\]"):
        renamed.load_state_dict(state)
    assert renamed.param_groups[0]["lr"] == 0.5 and renamed.state_dict()["state"] == {}
    reshaped = optim.SGD([("a", nn.Parameter(gd.ones(2))), ("b", nn.Parameter(gd.ones(4)))], lr=0.5, momentum=0.9)
    with pytest.raises(gd.GradinoError, match=r"'b' has shape \(3,\), the parameter \(4,\)"):
        reshaped.load_state_dict(state)
    unnamed = optim.SGD([nn.Parameter(gd.ones(2)), nn.Parameter(gd.ones(3))], lr=0.5, momentum=0.9)
    with pytest.warns(UserWarning, match="position"):
        unnamed.load_state_dict(state)
    with pytest.raises(gd.GradinoError, match=r"\[2\] parameters, this optimizer of \[1\]"):
        optim.SGD([one()], lr=0.1).load_state_dict(state)


def test_a_state_is_never_read_beside_somebody_elses_moments() -> None:
    """The moments lie with the parameter, so an optimizer whose moments were taken over has no state to give."""
    p = nn.Parameter(gd.ones(2))
    first = optim.Adam([p])
    p.grad = gd.ones(2)
    first.step()
    assert first.state_dict()["state"][0]["step"] == 1
    second = optim.Adam([p])
    second.step()
    with pytest.raises(gd.GradinoError, match="taken over"):
        first.state_dict()
    assert second.state_dict()["state"][0]["step"] == 1
