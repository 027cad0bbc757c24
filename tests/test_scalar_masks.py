"""A mask without dimensions adds one, of size 1 where it holds and 0 where not, as in NumPy and PyTorch."""

from typing import Any

import numpy as np
import pytest

import gradino as gd


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_reading(shape: tuple[int, ...], holds: bool) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    got = gd.tensor(array)[gd.tensor(holds)]
    want = array[np.array(holds)]
    assert got.shape == want.shape and got.tolist() == want.tolist()


@pytest.mark.parametrize("holds", [True, False])
def test_beside_other_indices(holds: bool) -> None:
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    x, mask, there = gd.tensor(array), gd.tensor(holds), np.array(holds)
    cases: list[tuple[Any, Any]] = [
        ((slice(1), mask), (slice(1), there)),
        ((mask, slice(None), slice(2)), (there, slice(None), slice(2))),
        ((..., mask), (..., there)),
        ((None, mask), (None, there)),
    ]
    for own, numpys in cases:
        got, want = x[own], array[numpys]
        assert got.shape == want.shape and got.tolist() == want.tolist()


@pytest.mark.parametrize("value", [9.0, [7.0, 8.0]])
def test_writing(value: Any) -> None:
    x = gd.ones(2)
    x[gd.tensor(False)] = value
    assert x.tolist() == [1.0, 1.0]
    x[gd.tensor(True)] = value
    assert x.tolist() == (value if isinstance(value, list) else [value] * 2)


def test_gradient() -> None:
    x = gd.tensor(1.5, requires_grad=True)
    x[x > 0].sum().backward()
    assert x.grad is not None and x.grad.item() == 1.0
    x.grad = None
    x[x < 0].sum().backward()
    assert x.grad is not None and x.grad.item() == 0.0
