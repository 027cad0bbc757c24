"""State of modules: state dicts, copies, pickles, and how long parameters live."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits
from test_module import Block, Net

import gradino as gd
from gradino import nn


class Tied(nn.Module):
    """Input and output share one table, and one module stands under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.table.weight
        self.mix = self.again = nn.Linear(4, 4)

    def forward(self, ids: gd.Tensor) -> gd.Tensor:
        return self.out(self.again(self.mix(self.table(ids))))


# ---- State dicts --------------------------------------------------------------------------------------------


def test_state_dict_shares_memory_and_has_no_history() -> None:
    block = Block()
    state = block.state_dict()
    assert list(state) == ["scale", "shift", "count", "inner.weight", "inner.bias"]
    assert not any(t.requires_grad for t in state.values())
    with gd.no_grad():
        block.scale.fill_(7.0)
    assert state["scale"].tolist() == [7, 7, 7]
    assert block.state_dict(keep_vars=True)["scale"] is block.scale
    assert list(block.state_dict(prefix="b.")) == [f"b.{n}" for n in state]
    into: dict[str, Any] = {"there": 1}
    assert block.state_dict(destination=into) is into and len(into) == 6


def test_load_is_strict_and_changes_nothing_when_it_fails() -> None:
    net = Net()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    good = {k: np.full(v.shape, 2.0) for k, v in before.items()}
    for change, texts in (
        ({"first.scale": None}, ["Missing key", "'first.scale'"]),
        ({"extra": np.ones(1)}, ["Unexpected key", "'extra'"]),
        ({"first.scale": np.ones(4)}, ["size mismatch for first.scale", "(4,)", "(3,)"]),
        ({"first.scale": None, "extra": np.ones(1), "head.1.weight": np.ones((3, 2))}, ["'first.scale'", "'extra'", "(3, 2)"]),
    ):
        state = {k: v for k, v in {**good, **change}.items() if v is not None}
        with pytest.raises(gd.GradinoError) as caught:
            net.load_state_dict(state)
        assert all(text in str(caught.value) for text in [*texts, "Net"]), str(caught.value)
        for key, value in net.state_dict().items():
            assert_same_bits(value, before[key], what=key)
    with pytest.raises(TypeError, match="mapping"):
        net.load_state_dict(list(good))  # type: ignore[arg-type]


def test_load_leniently() -> None:
    net = Net()
    result = net.load_state_dict({"first.scale": np.ones(3) * 5, "extra": np.ones(1)}, strict=False)
    assert result.missing_keys == [k for k in net.state_dict() if k != "first.scale"] and result.unexpected_keys == ["extra"]
    assert net.first.scale.tolist() == [5, 5, 5]
    with pytest.raises(gd.GradinoError, match="size mismatch"):
        net.load_state_dict({"first.scale": np.ones(4)}, strict=False)


def test_load_copies_and_casts() -> None:
    block, other = Block(), Block().double()
    state = other.state_dict()
    block.load_state_dict(state)
    with gd.no_grad():
        other.scale.fill_(9.0)
    assert block.scale.dtype is gd.float32 and block.scale.tolist() == [1, 1, 1]
    assert block.load_state_dict(block.state_dict()) == ([], [])


def test_loading_takes_no_lasting_memory() -> None:
    model = nn.Linear(64, 64)
    state = {k: v._array() for k, v in model.state_dict().items()}
    model.load_state_dict(state)
    before = gd.active_arena().stats().used, gd.permanent_arena().stats().used
    for _ in range(5):
        model.load_state_dict(state)
    after = gd.active_arena().stats().used, gd.permanent_arena().stats().used
    assert after == before


def test_tied_weights_load_from_one_name() -> None:
    model, other = Tied(), Tied()
    state = model.state_dict()
    assert list(state) == ["table.weight", "out.weight", "mix.weight", "mix.bias", "again.weight", "again.bias"]
    other.load_state_dict(state)
    for drop in (("table.weight", "again.bias", "again.weight"), ("out.weight", "mix.weight", "mix.bias")):
        fresh = Tied()
        fresh.load_state_dict({k: v for k, v in state.items() if k not in drop})
        assert_same_bits(fresh.out.weight, model.table.weight, what="tied table")
        assert_same_bits(fresh.again.weight, model.mix.weight, what="shared module")
    with pytest.raises(gd.GradinoError, match=r"'table\.weight', 'out\.weight'"):
        Tied().load_state_dict({k: v for k, v in state.items() if "mix" in k})


def test_training_tied_weights_sums_both_gradients() -> None:
    model = Tied().double()
    ids = gd.tensor([1, 3])
    model(ids).square().sum().backward()
    tied = model.table.weight.grad.clone()
    apart = Tied().double()
    apart.load_state_dict(model.state_dict())
    apart.out.weight = nn.Parameter(apart.table.weight.detach())
    apart(ids).square().sum().backward()
    assert gd.allclose(tied, apart.table.weight.grad + apart.out.weight.grad, rtol=1e-12)


# ---- Copies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_p05_copies_of_modules(way: Any) -> None:
    """Case P05: own memory, names, tying, requires_grad, modes and buffers kept; the graph of a forward is not needed."""
    model = nn.Sequential(Block(), Tied(), nn.LSTM(3, 4, 2, bidirectional=True), nn.Dropout(0.3))
    model[0].shift.requires_grad = False
    model[0](gd.ones(1, 2))
    model[3].eval()
    again = way(model)
    assert repr(again) == repr(model) and [m.training for m in again.modules()] == [m.training for m in model.modules()]
    for (name, p), (name2, q) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert name == name2 and p is not q and p.requires_grad == q.requires_grad and type(q) is nn.Parameter
        assert_same_bits(q, p, what=name)
    assert again[1].out.weight is again[1].table.weight and again[1].again is again[1].mix
    with gd.no_grad():
        again[0].scale.fill_(5.0)
        again[0].count.fill_(8.0)
    assert model[0].scale.tolist() == [1, 1, 1] and model[0].count.item() == 0
    x = gd.ones(2, 1, 3)
    assert_same_bits(again[2](x)[0], model[2](x)[0], what="the copy computes the same")


def test_p05_deepcopy_of_leaves_keeps_gradients() -> None:
    """Case P05: the gradient goes into new storage; the result of an op is refused."""
    for leaf in (nn.Parameter(gd.tensor([1.0, 2.0])), gd.tensor([1.0, 2.0], requires_grad=True)):
        (leaf * leaf).sum().backward()
        twin = copy.deepcopy(leaf)
        assert twin.requires_grad and type(twin) is type(leaf) and twin.grad.tolist() == [2, 4]
        leaf.grad.fill_(0.0)
        assert twin.grad.tolist() == [2, 4]
        (twin * 3).sum().backward()
        assert leaf.grad.tolist() == [0, 0] and twin.grad.tolist() == [5, 7]
    with pytest.raises(gd.GradinoError, match="leaves"):
        copy.deepcopy(leaf * 2)
    keeps = nn.Linear(2, 1)
    keeps.last = keeps(gd.ones(1, 2))
    with pytest.raises(gd.GradinoError, match="leaves"):
        copy.deepcopy(keeps)
    p = nn.Parameter(gd.ones(2))
    first, second = copy.deepcopy([p, p])
    assert first is second


def test_p05_pickle_of_a_small_view_is_small() -> None:
    base = gd.zeros(1024, 1024)
    text = pickle.dumps(base[3, 4:5])
    assert len(text) < 1024 and pickle.loads(text).tolist() == [0]
    strided = gd.arange(12).reshape(3, 4).t()[::2]
    assert pickle.loads(pickle.dumps(strided)).tolist() == strided.tolist()
    p = pickle.loads(pickle.dumps(nn.Parameter(gd.ones(2), requires_grad=False)))
    assert type(p) is nn.Parameter and not p.requires_grad


# ---- Lifetime -----------------------------------------------------------------------------------------------


def test_memory_of_dropped_models_is_used_again() -> None:
    """Neither slab nor permanent arena grows when models come and go, with gradients, moments and step arenas."""

    def one_life() -> None:
        model = nn.Sequential(nn.Linear(33, 65), nn.LSTM(65, 9))
        opt = gd.optim.Adam(model.parameters(), amsgrad=True)
        with gd.step_arena():
            model[1](model[0](gd.ones(2, 3, 33)))[0].sum().backward()
            opt.step()
            assert model[0].weight.grad is not None and model[0].weight.exp_avg is not None
        del model, opt

    one_life()
    places = set()
    before = gd.permanent_arena().stats()
    for _ in range(30):
        one_life()
        places.add(nn.Parameter(gd.ones(8))._info().data)
    after = gd.permanent_arena().stats()
    assert (after.used, after.allocations) == (before.used, before.allocations) and len(places) == 1


def test_dead_parameters_say_so() -> None:
    model = nn.Linear(2, 2)
    loss = model(gd.ones(1, 2)).sum()
    with gd.no_grad():
        view = model.weight[0]  # no graph comes back to it
    loss.backward()  # after it no graph needs the parameters
    grad = model.weight.grad
    del model
    gc.collect()
    nn.Linear(2, 2)
    for t in (view, grad):
        with pytest.raises(gd.StaleTensorError, match="parameter that was freed"):
            t.sum()
    with pytest.raises(gd.StaleTensorError):
        loss.backward()
    assert "freed" in repr(view)


def test_a_state_dict_keeps_its_parameters() -> None:
    """Detached values and state dicts outlive the module: they hold on to its parameters."""
    state, weight = nn.Linear(2, 2).state_dict(), nn.Linear(2, 2, bias=False).weight.detach()
    gc.collect()
    want = {name: value.tolist() for name, value in state.items()}, weight.tolist()
    others = [nn.Linear(2, 2) for _ in range(5)]
    assert ({name: value.tolist() for name, value in state.items()}, weight.tolist()) == want
    assert str(others[0].load_state_dict(state)) == "<All keys matched successfully>"
    assert others[0].weight.tolist() == want[0]["weight"]


def test_m02_arrays_outlive_parameters() -> None:
    """Case M02: a NumPy view of a parameter keeps reading the same numbers when the model is gone and others come."""
    model = nn.Linear(16, 16)
    array = model.weight.detach().numpy()
    want = array.copy()
    del model
    gc.collect()
    for k in range(5):
        nn.Linear(16, 16).load_state_dict({"weight": np.full((16, 16), k), "bias": np.zeros(16)})
    assert np.array_equal(array, want)
    array[0, 0] = 5.0  # still writable, and nobody else's
    del array
    gc.collect()
    assert nn.Parameter(gd.zeros(16, 16)).sum().item() == 0


def test_m02_parameters_and_gradients_made_inside_a_step_arena_survive() -> None:
    """Case M02: parameter, gradient and moments are permanent wherever they are first made."""
    with gd.step_arena():
        model = nn.Linear(3, 1)
        opt = gd.optim.Adam(model.parameters(), lr=0.1)
        model(gd.ones(2, 3)).sum().backward()
        opt.step()
        want = [model.weight._array(), model.weight.grad._array(), model.weight.exp_avg._array()]
    with gd.step_arena():
        gd.full((4096,), 3.0)
    for t, expected in zip((model.weight, model.weight.grad, model.weight.exp_avg), want, strict=True):
        assert_same_bits(t, expected, what="after the arena was reset")


def test_a_gradient_read_as_array_is_a_copy() -> None:
    p = nn.Parameter(gd.ones(2))
    (p * 3).sum().backward()
    array = p.grad.numpy()
    (p * 5).sum().backward()
    assert array.tolist() == [3, 3] and p.grad.tolist() == [8, 8] and not array.flags.writeable
