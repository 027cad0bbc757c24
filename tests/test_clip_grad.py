"""Limiting gradients: values by hand, and PyTorch's where it is installed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradino as gd
from gradino import nn
from gradino.nn import utils


def with_gradients(*gradients: object, dtype: str = "float32") -> list[nn.Parameter]:
    made = []
    for g in gradients:
        t = gd.tensor(g, dtype=dtype)
        p = nn.Parameter(gd.zeros(t.shape, dtype=dtype))
        p.grad = t
        made.append(p)
    return made


def gradients(parameters: list[nn.Parameter]) -> list[object]:
    return [p.grad.tolist() for p in parameters]  # type: ignore[union-attr]


def test_a_long_gradient_is_scaled():
    ps = with_gradients([3.0], [[0.0, 4.0]], dtype="float64")
    total = utils.clip_grad_norm_(ps, 1.0)
    assert total.item() == 5.0 and total.shape == ()
    assert gradients(ps) == [[pytest.approx(0.6)], [[0.0, pytest.approx(0.8)]]]
    assert utils.get_total_norm([p.grad for p in ps]).item() <= 1.0


def test_a_short_gradient_stays():
    ps = with_gradients([0.3], [0.4])
    before = gradients(ps)
    assert utils.clip_grad_norm_(iter(ps), 1.0).item() == pytest.approx(0.5)
    assert gradients(ps) == before


def test_orders():
    ps = with_gradients([3.0, -4.0], [1.0])
    norm = [utils.get_total_norm([p.grad for p in ps], kind).item() for kind in (1, 2, 3, math.inf, "inf")]
    assert norm == pytest.approx([8, math.sqrt(26), 92 ** (1 / 3), 4, 4])


def test_values():
    ps = with_gradients([3.0, -4.0, 0.5, math.nan], [[-0.1]])
    utils.clip_grad_value_(ps, 1.0)
    np.testing.assert_array_equal(ps[0].grad.numpy(), np.float32([1, -1, 0.5, math.nan]))
    assert gradients(ps[1:]) == [[[pytest.approx(-0.1)]]]


def test_nothing_to_clip():
    p = nn.Parameter(gd.ones(3))
    assert utils.clip_grad_norm_([p], 1.0).item() == 0 and p.grad is None
    assert utils.clip_grad_norm_([], 1.0).item() == 0
    assert utils.clip_grad_norm_(with_gradients(np.zeros((0, 2))), 1.0).item() == 0
    assert utils.clip_grad_norm_(with_gradients([0.0]), 1.0).item() == 0


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_not_finite(bad):
    ps = with_gradients([bad, 1.0])
    with pytest.raises(gd.GradinoError, match="error_if_nonfinite=False lets it pass"):
        utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)
    np.testing.assert_array_equal(ps[0].grad.numpy(), np.float32([bad, 1]))
    assert not math.isfinite(utils.clip_grad_norm_(ps, 1.0).item())


def test_the_norm_lives_in_the_active_arena():
    ps = with_gradients([3.0, 4.0])
    with gd.step_arena() as arena:
        total = utils.clip_grad_norm_(ps, 1.0)
        assert total.item() == 5 and total.arena == gd.active_arena() == arena
    assert utils.clip_grad_norm_(ps, 1.0).arena == gd.active_arena() != arena


def test_errors():
    with pytest.raises(gd.InvalidValueError, match="norm_type is 0"):
        utils.get_total_norm([gd.ones(2)], 0)
    with pytest.raises(TypeError, match="clip_grad_norm_: expected tensors, got int"):
        utils.clip_grad_norm_([1], 1.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [1.0, 2.0, 3.5, math.inf])
def test_as_in_pytorch(kind, dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = [np.asarray(rng.standard_normal(s)).astype(dtype) for s in [(5, 3), (7,), (), (2, 3, 4, 5)]]
    ours = with_gradients(*values, dtype=dtype)
    theirs = [torch.nn.Parameter(torch.zeros(v.shape, dtype=getattr(torch, dtype))) for v in values]
    for q, v in zip(theirs, values):
        q.grad = torch.tensor(v)
    a, b = utils.clip_grad_norm_(ours, 2.0, kind), torch.nn.utils.clip_grad_norm_(theirs, 2.0, kind)
    assert a.item() == pytest.approx(b.item(), rel=1e-6)
    for p, q in zip(ours, theirs):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-6)


def test_parameters_as_one_vector():
    model = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(model.parameters())
    assert vector.shape == (9,)
    vector.sum().backward()
    assert model.weight.grad.tolist() == [[1, 1]] * 3
    utils.vector_to_parameters(gd.arange(9.0), model.parameters())
    assert model.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and model.bias.tolist() == [6, 7, 8] and model.weight.requires_grad
    with pytest.raises(gd.ShapeError, match=r"shape \(8,\), the parameters 9 elements"):
        utils.vector_to_parameters(gd.zeros(8), model.parameters())
    assert model.bias.tolist() == [6, 7, 8]


@pytest.mark.parametrize("value, kind", [(300.0, 2.0), (300.0, 3.0), (1e-4, 2.0), (300.0, 1.0)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_squared_where_there_is_room(value: float, kind: float, dtype: str):
    (p,) = with_gradients(np.full(4, value, np.float32), dtype=dtype)
    total = utils.clip_grad_norm_([p], value / 2, kind)
    assert total.dtype == getattr(gd, dtype) and total.item() == pytest.approx(value * 4 ** (1 / kind), rel=1e-2)
    assert p.grad is not None
    assert p.grad.float().tolist() == pytest.approx([value / 2 / 4 ** (1 / kind)] * 4, rel=2e-2)
