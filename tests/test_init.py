"""Initial values: moments and bounds of each distribution, exact structure, errors, and that nothing is recorded."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradino as gd
from gradino import nn
from gradino.nn import init

SHAPE = (300, 200)
N = math.prod(SHAPE)


def parameter(*shape: int, dtype: str = "float32") -> nn.Parameter:
    return nn.Parameter(gd.full(shape, 7.0, dtype=dtype))


# name: (how, mean, standard deviation, bound), from the papers' formulas
DRAWS = {
    "uniform": (lambda t: init.uniform_(t, -1, 3), 1.0, 4 / math.sqrt(12), (-1, 3)),
    "normal": (lambda t: init.normal_(t, 2.0, 0.5), 2.0, 0.5, None),
    "trunc_normal": (lambda t: init.trunc_normal_(t), 0.0, 0.8796, (-2, 2)),
    "trunc_normal, a tail": (lambda t: init.trunc_normal_(t, 0.0, 1.0, 3.0, 4.0), 3.26045, 0.22199, (3, 4)),
    "xavier_uniform": (lambda t: init.xavier_uniform_(t, 2.0), 0.0, 2 * math.sqrt(2 / 500), 2 * math.sqrt(6 / 500)),
    "xavier_normal": (lambda t: init.xavier_normal_(t), 0.0, math.sqrt(2 / 500), None),
    "kaiming_uniform": (lambda t: init.kaiming_uniform_(t, math.sqrt(5)), 0.0, math.sqrt(1 / 3 / 200), math.sqrt(1 / 200)),
    "kaiming_normal": (lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), 0.0, math.sqrt(2 / 300), None),
    "kaiming_normal, tanh": (lambda t: init.kaiming_normal_(t, nonlinearity="tanh"), 0.0, 5 / 3 / math.sqrt(200), None),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name):
    how, mean, std, bound = DRAWS[name]
    gd.manual_seed(3)
    t = parameter(*SHAPE)
    assert how(t) is t and t.requires_grad and t.is_leaf
    values = t.detach().numpy().astype("float64")
    assert values.mean() == pytest.approx(mean, abs=5 * std / math.sqrt(N))
    assert values.std() == pytest.approx(std, rel=5 / math.sqrt(N) + 1e-3)
    if bound:
        bound = bound if isinstance(bound, tuple) else (-bound, bound)
        assert bound[0] <= values.min() and values.max() <= np.float32(bound[1])
    again = parameter(*SHAPE)
    gd.manual_seed(3)
    how(again)
    assert gd.equal(again, t), "the same seed draws the same"


def test_constants():
    assert init.constant_(parameter(2, 3), 0.5).tolist() == [[0.5] * 3] * 2
    assert init.ones_(parameter(2)).tolist() == [1, 1]
    assert init.zeros_(parameter(2)).tolist() == [0, 0]
    assert init.eye_(parameter(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (4, 2, 3), (6, 1, 2, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_orthogonal(shape, dtype):
    t = init.orthogonal_(parameter(*shape, dtype=dtype), gain=2.0)
    m = t.detach().numpy().reshape(shape[0], -1).astype("float64") / 2
    product = m @ m.T if m.shape[0] <= m.shape[1] else m.T @ m
    np.testing.assert_allclose(product, np.eye(min(m.shape)), atol=1e-6 if dtype == "float32" else 1e-14)


def test_dirac():
    t = init.dirac_(parameter(4, 2, 3), groups=2).detach().numpy()
    expected = np.zeros((4, 2, 3))
    expected[[0, 1, 2, 3], [0, 1, 0, 1], 1] = 1
    assert (t == expected).all()


def test_fans_count_the_window():
    gd.manual_seed(0)
    t = init.kaiming_uniform_(parameter(64, 16, 3, 5), nonlinearity="linear")
    assert abs(t.detach().numpy()).max() == pytest.approx(math.sqrt(3 / (16 * 15)), rel=1e-3)


def test_empty_tensors():
    for f in (init.uniform_, init.xavier_normal_, init.kaiming_uniform_, init.orthogonal_, init.trunc_normal_, init.eye_):
        assert f(parameter(0, 4)).shape == (0, 4)


def test_nothing_is_left_behind():
    t = parameter(50, 50)
    init.orthogonal_(t)
    before = gd.permanent_arena().stats().used
    for f in (init.orthogonal_, init.trunc_normal_, init.xavier_uniform_, init.eye_, init.zeros_):
        f(t)
    assert gd.permanent_arena().stats().used == before


def test_a_module_initialised_by_apply():
    def start(m):
        if isinstance(m, nn.Linear):
            init.zeros_(m.bias)
            init.constant_(m.weight, 0.1)

    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).apply(start)
    assert model(gd.ones(1, 2)).item() == pytest.approx(0.06)


def test_gains():
    assert init.calculate_gain("linear") == init.calculate_gain("sigmoid") == 1
    assert init.calculate_gain("tanh") == 5 / 3 and init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / (1 + 1e-4)) and init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)


ERRORS = [
    (lambda: init.calculate_gain("swish"), "no gain for 'swish'"),
    (lambda: init.calculate_gain("leaky_relu", True), "slope must be a number"),
    (lambda: init.xavier_uniform_(parameter(3)), "at least two dimensions"),
    (lambda: init.kaiming_normal_(parameter(3, 3), mode="fan"), "mode is 'fan'"),
    (lambda: init.orthogonal_(parameter(3)), "at least two dimensions"),
    (lambda: init.eye_(parameter(3)), "must have 2 dimensions"),
    (lambda: init.dirac_(parameter(3, 3)), "must have 3 or 4 dimensions"),
    (lambda: init.dirac_(parameter(3, 3, 3), groups=2), "cannot be split into 2 groups"),
    (lambda: init.trunc_normal_(parameter(3), a=1.0, b=1.0), "a < b"),
    (lambda: init.trunc_normal_(parameter(3), std=0.0), "std > 0"),
    (lambda: init.trunc_normal_(parameter(3), 0.0, 1e-3, 5.0, 6.0), "too far from the mean"),
    (lambda: init.normal_(parameter(3), generator=object()), "generator must be None"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
