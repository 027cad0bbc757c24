"""Python numbers that a dtype cannot hold: comparisons are exact, arithmetic says which number does not fit which dtype."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from helpers import values

import gradino as gd

COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
LIMITS = {"bool": (0, 1), "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
NEAR = [sign * 2**bits + step for bits in (7, 31, 32, 40, 53, 63, 64, 100) for sign in (1, -1) for step in (-1, 0, 1)]
HUGE = 10**400  # beyond float64, too


@pytest.mark.parametrize("name", LIMITS)
def test_comparisons_with_any_integer_are_exact(name: str) -> None:
    elements = [*LIMITS[name], 0, 1]
    t = gd.tensor(elements, dtype=getattr(gd, name))
    for number in (*NEAR, HUGE, -HUGE, 10**5000):
        for compare in COMPARISONS:
            what = f"{compare.__name__} of {name} and {number.bit_length()} bits"
            assert compare(t, number).tolist() == [compare(int(x), number) for x in elements], what
            assert compare(number, t).tolist() == [compare(number, int(x)) for x in elements], f"reverse {what}"
            assert compare(t, number).dtype is gd.bool, what
    assert (2**40 in t) == (2**40 in elements) and HUGE not in t


@pytest.mark.parametrize("name", LIMITS)
def test_arithmetic_refuses_what_does_not_fit(name: str) -> None:
    t = gd.tensor([1, 1], dtype=getattr(gd, name))
    low, high = LIMITS[name if name != "bool" else "int64"]  # a bool and an int give int64
    for call in ARITHMETIC:
        for number in (*NEAR, HUGE):
            for way in (lambda: call(t, number), lambda: call(number, t)):  # noqa: B023
                if low <= number <= high:
                    assert not way().is_floating_point()
                else:
                    with pytest.raises(gd.InvalidValueError, match="does not fit int") as raised:
                        way()
                    assert isinstance(raised.value, OverflowError)


@pytest.mark.parametrize("name", LIMITS)
def test_division_takes_any_number_as_its_results_are_floats(name: str) -> None:
    t = gd.tensor([1, 1], dtype=getattr(gd, name))
    assert (t / 2**100).tolist() == [2.0**-100] * 2 and (-(2**100) / t).tolist() == [-(2.0**100)] * 2
    with pytest.raises(gd.InvalidValueError, match="does not fit float64"):
        t / HUGE


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_float_tensors_take_large_integers_as_floats(name: str) -> None:
    t = gd.tensor([0.0, -1.5, 2.0**100], dtype=getattr(gd, name))
    for number in (2**63, -(2**64), 2**100):
        for call in (*COMPARISONS, operator.add, operator.sub, operator.mul, operator.truediv):
            assert call(t, number).tolist() == call(t, float(number)).tolist(), f"{call.__name__} {number}"
    with pytest.raises(gd.InvalidValueError, match="add: an integer of 1329 bits does not fit float64"):
        t + HUGE


INTO_INT32: dict[str, Callable[[gd.Tensor, Any], Any]] = {
    "fill_": lambda t, n: t.fill_(n),
    "full": lambda t, n: gd.full((2,), n, dtype=gd.int32),
    "full_like": lambda t, n: gd.full_like(t, n),
    "masked_fill": lambda t, n: t.masked_fill(t == 0, n),
    "where": lambda t, n: t.where(t == 0, n),
    "gd.where": lambda t, n: gd.where(t == 0, n, t),
    "maximum": lambda t, n: gd.maximum(t, n),
    "setitem": lambda t, n: operator.setitem(t, 0, n),
    "tensor": lambda t, n: gd.tensor([n], dtype=gd.int32),
    "arange": lambda t, n: gd.arange(n, n + 2, dtype=gd.int32),
    "add": lambda t, n: gd.add(n, t),
    "add_": lambda t, n: t.add_(n),
    "alpha": lambda t, n: t.add_(t, alpha=n),
}


@pytest.mark.parametrize("way", INTO_INT32)
@pytest.mark.parametrize("number", [2**31, -(2**40), 2**70, HUGE], ids=["2**31", "-2**40", "2**70", "10**400"])
def test_every_way_into_an_int32_tensor_refuses_what_does_not_fit(way: str, number: int) -> None:
    t = gd.zeros(2, dtype=gd.int32)
    with pytest.raises(gd.InvalidValueError, match="fit"):
        INTO_INT32[way](t, number)
    assert values(t).tolist() == [0, 0]


@pytest.mark.parametrize("number", [1e20, float("inf"), float("nan")])
@pytest.mark.parametrize("way", ["fill_", "full", "masked_fill"])
def test_floats_that_no_integer_holds_are_refused(way: str, number: float) -> None:
    with pytest.raises(gd.InvalidValueError, match="does not fit int32"):
        INTO_INT32[way](gd.zeros(2, dtype=gd.int32), number)
