"""The place of a parameter that is gone is used again, and nothing of the old one shows."""

import gc

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
