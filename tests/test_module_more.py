"""Modules: extra state, assigning dtypes, replacing submodules, and what containers can do besides."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import gradino as gd
from gradino import nn


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(2, 2), 0

    def get_extra_state(self) -> Any:
        return {"calls": self.calls}

    def set_extra_state(self, state: Any) -> None:
        self.calls = state["calls"]


def test_extra_state() -> None:
    model, other = nn.Sequential(Counter(), nn.ReLU()), nn.Sequential(Counter(), nn.ReLU())
    model[0].calls = 7
    state = model.state_dict()
    assert state["0._extra_state"] == {"calls": 7}
    other.load_state_dict(state)
    assert other[0].calls == 7
    del state["0._extra_state"]
    with pytest.raises(gd.GradinoError, match="_extra_state"):
        other.load_state_dict(state)
    assert other.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]


def test_assign_takes_dtypes_over() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("steps", gd.zeros(1))
    weight = model.weight
    state = {k: v.double() + 1 for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    assert model.weight.dtype is gd.float32
    model.load_state_dict(state, assign=True)
    assert model.weight is weight and weight.dtype is gd.float64 and model.steps.dtype is gd.float64 and model.steps.item() == 1
    assert weight.tolist() == state["weight"].tolist()


def test_set_submodule() -> None:
    model = nn.Sequential(OrderedDict(a=nn.Sequential(nn.Linear(2, 2)), b=nn.ReLU()))
    model.set_submodule("a.0", nn.Tanh())
    assert isinstance(model.a[0], nn.Tanh)
    with pytest.raises(AttributeError, match="replace"):
        model.set_submodule("a.5", nn.Tanh(), strict=True)


def test_containers() -> None:
    a, b = nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh(), nn.Sigmoid())
    a += b
    assert len(a) == 3 and len(b * 2) == 4 and len(2 * b) == 4
    b *= 3
    assert len(b) == 6
    with pytest.raises(ValueError, match="repeated"):
        b * 0
    layers = nn.ModuleList([nn.ReLU()]) + [nn.Tanh()]
    layers += [nn.Sigmoid()]
    assert [type(m).__name__ for m in layers] == ["ReLU", "Tanh", "Sigmoid"]
    named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    assert isinstance(named.pop("a"), nn.ReLU) and list(named) == ["b"]
    named.clear()
    assert len(named) == 0


def test_parameter_lists_and_dicts() -> None:
    model = nn.Module()
    model.list = nn.ParameterList([gd.ones(2), gd.zeros(3)])
    model.list.append(gd.ones(1))
    model.dict = nn.ParameterDict({"x": gd.ones(2), "y": gd.zeros(1)})
    assert [n for n, _ in model.named_parameters()] == ["list.0", "list.1", "list.2", "dict.x", "dict.y"]
    assert len(model.list) == 3 and [tuple(p.shape) for p in model.list[1:]] == [(3,), (1,)] and model.list[-1] is model.list[2]
    assert model.dict.pop("x").shape == (2,) and "x" not in model.dict and model.dict.get("z") is None
    model.dict.update({"z": gd.ones(4)})
    assert list(model.dict.keys()) == ["y", "z"] and isinstance(model.dict["z"], nn.Parameter)
    assert "Parameter containing: [float32 of size 4]" in repr(model.dict) or "size 4" in repr(model.dict)
    with pytest.raises(IndexError):
        model.list[3]
    with pytest.raises(KeyError):
        model.dict["q"]
