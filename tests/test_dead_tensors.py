"""What every use of a tensor says whose arena was reset, and what made inside a step outlives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import values

import gradino as gd
from gradino import nn, optim

pytestmark = pytest.mark.own_arenas


# ---- Dead tensors -----------------------------------------------------------------------------------------------

USES: dict[str, Callable[[gd.Tensor], Any]] = {
    "unary": lambda t: t.exp(),
    "binary": lambda t: t + gd.ones(3),
    "binary, right": lambda t: gd.ones(3) + t,
    "number": lambda t: 2 * t,
    "comparison": lambda t: t > 0,
    "sum": lambda t: t.sum(),
    "max": lambda t: t.max(0),
    "softmax": lambda t: t.softmax(0),
    "matmul": lambda t: gd.ones(2, 3) @ t,
    "view": lambda t: t.reshape(3, 1),
    "slice": lambda t: t[1:],
    "index": lambda t: t[0],
    "mask": lambda t: t[t > 0],
    "assignment": lambda t: t.__setitem__(0, 1.0),
    "assigned": lambda t: gd.zeros(3).__setitem__(slice(None), t),
    "in place": lambda t: t.add_(1),
    "fill": lambda t: t.zero_(),
    "where": lambda t: gd.where(gd.ones(3) > 0, t, t),
    "cat": lambda t: gd.cat([gd.ones(3), t]),
    "stack": lambda t: gd.stack([gd.ones(3), t]),
    "item": lambda t: t.item(),
    "tolist": lambda t: t.tolist(),
    "numpy": lambda t: t.numpy(),
    "array": lambda t: np.asarray(t),
    "float": lambda t: float(t),
    "bool": lambda t: bool(t),
    "len": lambda t: len(t),
    "iteration": lambda t: list(t),
    "shape": lambda t: t.shape,
    "dtype": lambda t: t.dtype,
    "requires_grad": lambda t: t.requires_grad,
    "requires_grad_": lambda t: t.requires_grad_(),
    "grad": lambda t: t.grad,
    "set grad": lambda t: setattr(t, "grad", None),
    "retain_grad": lambda t: t.retain_grad(),
    "backward": lambda t: t.backward(gd.ones(3)),
    "gradient of backward": lambda t: (gd.ones(3, requires_grad=True) * 1).backward(t),
    "autograd.grad": lambda t: gd.autograd.grad([t], [t]),
    "clone": lambda t: t.clone(),
    "detach": lambda t: t.detach(),
    "keep": lambda t: t.keep(),
    "to": lambda t: t.to(gd.float64),
    "arena": lambda t: t.arena,
    "like": lambda t: gd.zeros_like(t),
    "parameter": lambda t: nn.Parameter(t),
    "tensor": lambda t: gd.tensor(t),
    "optimizer": lambda t: optim.SGD([t], lr=0.1),
}


@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_dead_tensor_names_its_arena(use: str) -> None:
    with gd.Arena(name="the loop") as arena:
        dead = gd.ones(3)
    arena.reset()
    with gd.step_arena(), pytest.raises(gd.StaleTensorError, match="'the loop' was reset") as caught:
        USES[use](dead)
    for advice in (".item()", ".numpy()", ".keep()"):
        assert advice in str(caught.value)
    assert isinstance(caught.value, gd.ArenaError)


def test_dead_tensors_can_be_shown_and_compared_as_objects() -> None:
    with gd.step_arena():
        dead = gd.ones(3)
        view = dead[1:]
    for t in (dead, view):
        assert "gone" in repr(t) or "reset" in repr(t)
        assert len(repr(t)) < 300
        assert t is t and hash(t) == hash(t)
        str(t), f"{t}"


def test_a_view_dies_with_its_storage_and_a_graph_with_its_inputs() -> None:
    with gd.Arena(name="below") as below:
        base = gd.ones(4, requires_grad=True)
        with gd.Arena(name="above"):
            view, result = base[1:], (base * base).sum()
            below.reset()
            with pytest.raises(gd.StaleTensorError, match="'below' was reset"):
                view.sum()
            assert result.item() == 4
            with pytest.raises(gd.StaleTensorError, match="'below' was reset"):
                result.backward()


def test_kept_tensors_cross_the_step() -> None:
    losses, hidden = [], gd.zeros(3)
    with gd.Arena() as epoch:
        for k in range(4):
            with gd.step_arena() as step:
                state = hidden + k
                assert state.arena == step
                hidden = state.keep()
                assert hidden.arena == epoch and not hidden.requires_grad
                losses.append((state.sum() * 2).keep())
                view = state.reshape(3, 1).expand(3, 2).T.keep()
                assert view.is_contiguous() and view.shape == (2, 3)
        assert [x.item() for x in losses] == [0, 6, 18, 36]
        assert hidden.tolist() == [6, 6, 6] and hidden.sum().arena == epoch
    with gd.step_arena():
        assert gd.ones(2).keep().arena == gd.permanent_arena()


# ---- Long-lived things made inside a step -------------------------------------------------------------------------


def test_gradients_and_optimizer_state_made_in_a_step_survive_it() -> None:
    def train(inside: bool) -> list[np.ndarray]:
        gd.manual_seed(0)
        with gd.step_arena():
            model = nn.Linear(3, 2)
            plain = nn.Parameter(gd.ones(2))
        leaf = gd.ones(2, requires_grad=True)
        opt = optim.Adam([*model.parameters(), plain, leaf], lr=0.1)
        for _ in range(3):
            if inside:
                with gd.step_arena():
                    ((model(gd.ones(4, 3)) * plain + leaf) ** 2).sum().backward()
                with gd.step_arena():
                    gd.full((1000,), 9.0)
                    opt.step()
                with gd.step_arena():
                    gd.full((1000,), 7.0)
                    opt.zero_grad()
            else:
                ((model(gd.ones(4, 3)) * plain + leaf) ** 2).sum().backward()
                opt.step()
                opt.zero_grad()
        state = [values(s) for p in [*model.parameters(), plain] for s in (p, p.exp_avg, p.exp_avg_sq)]
        return [*state, values(leaf)]

    for a, b in zip(train(True), train(False)):
        np.testing.assert_array_equal(a, b)


def test_a_leaf_in_a_step_arena_cannot_be_optimized() -> None:
    with gd.step_arena(), pytest.raises(gd.ArenaError, match="would die with it"):
        optim.SGD([gd.ones(2, requires_grad=True)], lr=0.1)
