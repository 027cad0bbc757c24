"""The place of a parameter that is gone is used again, and nothing of the old one shows."""

import gc

import numpy as np
import pytest

import gradino as gd
from gradino import nn, optim


def one_step(lr: float = 0.1) -> gd.Tensor:
    model = nn.Linear(8, 8)
    optimizer = optim.AdamW(model.parameters(), lr=lr, weight_decay=0)
    with gd.step_arena():
        model(gd.ones(2, 8)).sum().backward()
        optimizer.step()
    assert model.weight.exp_avg is not None
    return gd.tensor(model.weight.exp_avg)


def test_moments_of_a_new_model_start_from_zero() -> None:
    """Also where the dropped parameters stood at the end of the slab."""
    for _ in range(3):
        first = one_step()
        gc.collect()
        assert gd.allclose(first, gd.full((8, 8), 0.2))


def test_many_models_use_the_same_place() -> None:
    places = set()
    for _ in range(50):
        model = nn.Linear(64, 64)
        places.add(model.weight._info().data)
        del model
        gc.collect()
    assert len(places) == 1


# ---- Parameters whose object is gone ----------------------------------------------------------------------------


@pytest.mark.parametrize("arena", ["step", "permanent"])
@pytest.mark.own_arenas
def test_a_graph_keeps_the_parameters_it_needs(arena: str) -> None:
    """As in `nn.Linear(3, 2)(x)`: the layer is gone before backward."""
    with gd.step_arena() if arena == "step" else gd.permanent_arena():
        x = gd.ones(4, 3, requires_grad=True)
        layer = nn.Linear(3, 2)
        want = layer.weight.detach().numpy().sum(0)
        y = layer(x).tanh().sum() * 0 + layer(x).sum()
        del layer
        gc.collect()
        others = [nn.Linear(3, 2) for _ in range(5)]
        y.backward()
        np.testing.assert_allclose(x.grad.tolist(), [want.tolist()] * 4, rtol=1e-6)
        assert len(others) == 5


@pytest.mark.own_arenas
def test_a_graph_keeps_a_parameter_that_a_newer_graph_has_read_too() -> None:
    with gd.step_arena():
        x = gd.ones(4, 3, requires_grad=True)
        layer = nn.Linear(3, 2)
        y = layer(x).sum()
        with gd.step_arena():
            layer(x).sum().backward()
        want = (2 * layer.weight.detach().sum(0)).tolist()  # of both graphs
        del layer
        gc.collect()
        others = [nn.Linear(3, 2) for _ in range(5)]
        y.backward()
        np.testing.assert_allclose(x.grad.tolist(), [want] * 4, rtol=1e-6)
        assert len(others) == 5


@pytest.mark.own_arenas
def test_a_graph_keeps_a_parameter_that_it_reads_through_a_view() -> None:
    with gd.step_arena():
        x = gd.ones(4, 3, requires_grad=True)
        layer = nn.Linear(3, 2)
        with gd.no_grad():
            values = layer.weight.T
        want = layer.weight.detach().sum(0).tolist()
        y = x.matmul(values).sum()
        del layer
        gc.collect()
        others = [nn.Linear(3, 2) for _ in range(5)]
        y.backward()
        np.testing.assert_allclose(x.grad.tolist(), [want] * 4, rtol=1e-6)
        assert len(others) == 5


@pytest.mark.parametrize("train", [True, False], ids=["trained", "only run"])
@pytest.mark.parametrize("arena", ["step", "permanent"])
@pytest.mark.own_arenas
def test_places_of_dropped_layers_are_used_again(arena: str, train: bool) -> None:
    places = set()
    for _ in range(300):
        with gd.step_arena() if arena == "step" else gd.permanent_arena():
            layer = nn.Linear(10, 10)
            places.add(layer.weight.detach()._info().data)
            if train:
                layer(gd.ones(1, 10)).sum().backward()
            else:
                with gd.no_grad():
                    layer(gd.ones(1, 10))
    assert len(places) < 10, f"{len(places)} places for layers of which one lives at a time"


@pytest.mark.own_arenas
def test_a_dropped_layer_goes_with_the_arena_of_its_graph() -> None:
    with gd.Arena() as arena:
        y = nn.Linear(50, 50)(gd.ones(1, 50)).sum()
        arena.reset()
        place = nn.Parameter(gd.ones(50, 50)).detach()._info().data
        with pytest.raises(gd.StaleTensorError):
            y.backward()
    again = [nn.Parameter(gd.ones(50, 50)).detach()._info().data for _ in range(3)]
    assert place in again
