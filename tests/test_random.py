"""Random functions: generators, distributions by their moments, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import values

import gradino as gd

N = 40000
FILLERS = {
    "uniform_": ((-1, 3), 1.0, 4 / np.sqrt(12)), "normal_": ((2, 3), 2.0, 3.0), "exponential_": ((2,), 0.5, 0.5),
    "geometric_": ((0.25,), 4.0, np.sqrt(12)), "bernoulli_": ((0.3,), 0.3, np.sqrt(0.21)), "random_": ((2, 8), 4.5, np.sqrt(35 / 12)),
    "log_normal_": ((0.0, 0.5), np.exp(0.125), np.sqrt((np.exp(0.25) - 1) * np.exp(0.25))),
}  # fmt: skip


def of(seed: int) -> gd.Generator:
    return gd.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", FILLERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments(name, dtype):
    arguments, mean, deviation = FILLERS[name]
    x = getattr(gd.empty(N, dtype=dtype), name)(*arguments, generator=of(1))
    got = values(x)
    assert abs(got.mean() - mean) < 5 * deviation / np.sqrt(N), (name, got.mean(), mean)
    assert abs(got.std() / deviation - 1) < 0.1, (name, got.std(), deviation)


def test_cauchy_by_its_quartiles():
    x = values(gd.empty(N).cauchy_(1, 2, generator=of(1)))
    assert np.abs(np.quantile(x, [0.25, 0.5, 0.75]) - [-1, 1, 3]).max() < 0.15


CALLS = {
    "rand": lambda g: gd.rand(3, 2, generator=g),
    "randn": lambda g: gd.randn(3, 2, generator=g),
    "randint": lambda g: gd.randint(0, 1000, (6,), generator=g),
    "randperm": lambda g: gd.randperm(20, generator=g),
    "rand_like": lambda g: gd.rand_like(gd.ones(5), generator=g),
    "randn_like": lambda g: gd.randn_like(gd.ones(5), generator=g),
    "randint_like": lambda g: gd.randint_like(gd.ones(9), 1000, generator=g),
    "normal": lambda g: gd.normal(gd.zeros(4), gd.ones(4), generator=g),
    "bernoulli": lambda g: gd.bernoulli(gd.full((40,), 0.5), generator=g),
    "multinomial": lambda g: gd.multinomial(gd.ones(50), 20, generator=g),
    **{name: lambda g, name=name: getattr(gd.empty(30), name)(*FILLERS[name][0], generator=g) for name in FILLERS},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_generator_repeats_itself_and_leaves_the_others_alone(name):
    call = CALLS[name]
    gd.manual_seed(5)
    before = gd.get_rng_state()
    g = of(7)
    first, second = call(g).tolist(), call(g).tolist()
    assert call(of(7)).tolist() == first and second != first
    assert call(of(8)).tolist() != first
    assert gd.get_rng_state() == before
    assert call(None).tolist() != call(None).tolist()


def test_bernoulli():
    p = gd.tensor([0.0, 1.0, 0.25]).reshape(3, 1).expand(3, N).contiguous()
    share = values(gd.bernoulli(p)).mean(1)
    assert share[0] == 0 and share[1] == 1 and abs(share[2] - 0.25) < 0.02
    assert gd.empty(3, dtype="int64").bernoulli_(1.0).tolist() == [1, 1, 1]
    with pytest.raises(gd.InvalidValueError, match=r"\[0, 1\]"):
        gd.bernoulli(gd.tensor([1.5]))


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_takes_what_has_a_probability(replacement):
    weights = gd.tensor([[0.0, 3.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]])
    drawn = values(gd.multinomial(weights.unsqueeze(1).expand(2, 5000, 4).reshape(-1, 4), 2, replacement)).reshape(2, -1)
    assert set(drawn[0]) == {1, 2} and set(drawn[1]) == {0, 3}
    if replacement:
        assert abs((drawn[0] == 1).mean() - 0.75) < 0.03


def test_multinomial_without_replacement_favours_the_likely():
    weights = gd.tensor([8.0, 1.0, 1.0]).expand(4000, 3).contiguous()
    drawn = values(gd.multinomial(weights, 3))
    assert (np.sort(drawn, 1) == [0, 1, 2]).all() and abs((drawn[:, 0] == 0).mean() - 0.8) < 0.03


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gd.multinomial(gd.ones(3), 4), "without replacement"),
        (lambda: gd.multinomial(gd.tensor([0.0, 1.0]), 2), "fewer places"),
        (lambda: gd.multinomial(gd.zeros(3), 1), "add up to 0"),
        (lambda: gd.multinomial(gd.tensor([-1.0, 2.0]), 1), "at least 0"),
        (lambda: gd.empty(2).exponential_(0), "above 0"),
        (lambda: gd.empty(2).geometric_(1.0), "in .0, 1."),
        (lambda: gd.empty(2).uniform_(2, 1), "at most"),
        (lambda: gd.normal(gd.zeros(2), -1.0), "at least 0"),
        (lambda: gd.normal(0.0, 1.0), "size"),
    ],
)
def test_refused(call, words):
    with pytest.raises(gd.InvalidValueError, match=words):
        call()


def test_logspace():
    assert gd.logspace(0, 3, 4).tolist() == [1, 10, 100, 1000] and gd.logspace(0, 3, 4, base=2, dtype="int64").tolist() == [1, 2, 4, 8]
