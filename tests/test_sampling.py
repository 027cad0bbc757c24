"""Samplers: which tokens may be drawn, ties, extremes, wrong arguments; case G03."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradino as gd
from gradino.sampling import greedy, process, sample

LOGITS = [[1.0, 3.0, 3.0, -1.0], [0.0, -2.0, 5.0, 5.0]]


def allowed(logits: list[list[float]], **arguments: Any) -> list[list[int]]:
    weights = process(gd.tensor(logits), **arguments).numpy()
    return [np.flatnonzero(row > -np.inf).tolist() for row in weights]


def test_g03_temperature_zero_takes_the_lowest_of_the_likeliest_and_no_random_number() -> None:
    before = gd.get_rng_state()
    assert sample(gd.tensor(LOGITS), 0.0).tolist() == [1, 2]
    assert gd.get_rng_state() == before
    assert greedy(gd.tensor(LOGITS)).tolist() == [1, 2]
    assert sample(gd.zeros(2, 5), 0).tolist() == [0, 0]
    assert sample(gd.tensor([[-math.inf, 2.0, -math.inf]]), 0).tolist() == [1]


@pytest.mark.parametrize("temperature", [1e-6, 1e-38, 1e-45, 5e-324])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_g03_a_tiny_temperature_is_the_likeliest_without_overflow(temperature: float, dtype: str) -> None:
    logits = gd.tensor([[1.0, 9.0, 3.0], [-1000.0, -3.0, -2.0]], dtype=dtype)
    assert np.isfinite(process(logits, temperature).amax(1).double().numpy()).all()
    for _ in range(20):
        assert sample(logits, temperature).tolist() == [1, 2]


def test_g03_infinite_temperature_is_uniform_over_allowed_tokens() -> None:
    gd.manual_seed(0)
    drawn = sample(gd.tensor([[5.0, -math.inf, -3.0, 100.0]]).expand(3000, 4), math.inf).numpy()
    counts = np.bincount(drawn, minlength=4)
    assert counts[1] == 0 and np.abs(counts[[0, 2, 3]] - 1000).max() < 130


@pytest.mark.parametrize("temperature", [-1.0, math.nan, -math.inf, "warm", True])
def test_g03_impossible_temperatures_are_refused(temperature: Any) -> None:
    with pytest.raises(gd.InvalidValueError, match="temperature"):
        sample(gd.zeros(1, 3), temperature)


@pytest.mark.parametrize("row", [[math.nan, 1.0], [-math.inf, -math.inf], [math.inf, 0.0]])
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_g03_logits_that_mean_nothing_are_an_error(row: list[float], temperature: float) -> None:
    with pytest.raises(gd.GradinoError, match="logit"):
        sample(gd.tensor([[0.0, 1.0], row]), temperature)


def test_g03_each_row_may_have_its_temperature() -> None:
    gd.manual_seed(1)
    heat = gd.tensor([0.0, 1.0, 0.0])
    logits = gd.tensor([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    drawn = np.array([sample(logits, heat).tolist() for _ in range(50)])
    assert (drawn[:, 0] == 1).all() and (drawn[:, 2] == 0).all() and len(set(drawn[:, 1])) == 2
    with pytest.raises(gd.ShapeError, match="one for each row"):
        sample(logits, gd.zeros(2))
    with pytest.raises(gd.InvalidValueError, match="temperature"):
        sample(logits, gd.tensor([0.0, math.nan, 1.0]))


def test_top_k_keeps_so_many_and_the_lowest_of_ties() -> None:
    assert allowed(LOGITS, top_k=1) == [[1], [2]]
    assert allowed(LOGITS, top_k=2) == [[1, 2], [2, 3]]
    assert allowed([[1.0, 1.0, 1.0, 1.0]], top_k=3) == [[0, 1, 2]]
    assert allowed(LOGITS, top_k=9) == [[0, 1, 2, 3]] * 2


def test_top_p_keeps_the_likeliest_that_add_up_to_it() -> None:
    logits = [list(np.log([0.5, 0.3, 0.15, 0.05]))]
    assert allowed(logits, top_p=0.4) == [[0]]
    assert allowed(logits, top_p=0.6) == [[0, 1]]
    assert allowed(logits, top_p=0.9) == [[0, 1, 2]]
    assert allowed(logits, top_p=1.0) == [[0, 1, 2, 3]]
    assert allowed(logits, top_p=1e-9) == [[0]]
    assert allowed([[2.0, 2.0, 2.0]], top_p=0.5) == [[0, 1]]


def test_min_p_keeps_what_is_near_the_highest() -> None:
    logits = [list(np.log([0.5, 0.3, 0.15, 0.05]))]
    assert allowed(logits, min_p=0.25) == [[0, 1, 2]]
    assert allowed(logits, min_p=1.0) == [[0]]
    assert allowed(logits, min_p=0.0) == [[0, 1, 2, 3]]


def test_tokens_that_occurred_become_less_likely_once() -> None:
    logits, previous = gd.tensor([[2.0, -2.0, 1.0]]), gd.tensor([[0, 1, 0]])
    weights = process(logits, repetition_penalty=2.0, previous=previous)
    np.testing.assert_allclose((weights - weights[:, 2:]).numpy(), [[0.0, -5.0, 0.0]], atol=1e-6)


def test_n04_padding_of_the_vocabulary_is_never_drawn() -> None:
    gd.manual_seed(2)
    logits = gd.zeros(1000, 64)
    logits[:, 60] = 50.0
    assert sample(logits, vocab_size=50).amax().item() < 50
    assert sample(logits[:3], 0, vocab_size=50).tolist() == [0, 0, 0]
    assert sample(logits[:3], math.inf, vocab_size=1).tolist() == [0, 0, 0]


def test_frequencies_are_the_softmax() -> None:
    gd.manual_seed(3)
    row = gd.tensor([0.0, 1.0, 2.0])
    drawn = sample(row.expand(6000, 3), 2.0).numpy()
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 6000, (row / 2).softmax(0).numpy(), atol=0.03)
    assert sample(row).shape == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [("top_k", 0), ("top_k", 1.5), ("top_p", 0.0), ("top_p", 1.1), ("min_p", -0.1), ("min_p", math.nan), ("repetition_penalty", 0.0),
     ("vocab_size", 0)],
)  # fmt: skip
def test_wrong_arguments_are_named(name: str, value: Any) -> None:
    with pytest.raises(gd.InvalidValueError, match=name):
        sample(gd.zeros(1, 3), **{name: value})


def test_wrong_logits_are_refused() -> None:
    with pytest.raises(gd.ShapeError, match="B, V"):
        sample(gd.zeros(1, 2, 3))
    with pytest.raises(gd.ShapeError, match="at least one token"):
        sample(gd.zeros(1, 0))
    with pytest.raises(gd.DTypeError, match="floats"):
        sample(gd.zeros(1, 2, dtype=gd.int64))
