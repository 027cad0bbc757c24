"""Tensors taken by other libraries through DLPack: the same memory, for as long as they hold it."""

from __future__ import annotations

import numpy as np
import pytest

import gradino as gd
from gradino import nn


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 1, 2)], ids=str)
def test_dtype_shape_and_values(dtype: str, shape: tuple[int, ...]) -> None:
    want = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    got = np.from_dlpack(gd.tensor(want))
    assert got.dtype == want.dtype and got.shape == shape and got.tolist() == want.tolist()


def test_it_shares_memory_and_outlives_the_arena() -> None:
    with gd.Arena(name="short") as arena:
        t = gd.arange(6).reshape(2, 3).T
        array = np.from_dlpack(t)
        t += 10
        assert array.tolist() == [[10, 13], [11, 14], [12, 15]]
        del t
    arena.reset()
    with arena:
        gd.zeros(1000)
    assert array.tolist() == [[10, 13], [11, 14], [12, 15]]


def test_what_may_not_be_written_is_copied_and_what_requires_grad_refused() -> None:
    wide = gd.ones(1).expand(3)
    assert np.from_dlpack(wide).tolist() == [1, 1, 1]
    w = nn.Parameter(gd.ones(2))
    (w * 2).sum().backward()
    gradient = np.from_dlpack(w.grad)
    w.grad = None
    assert gradient.tolist() == [2, 2]
    with pytest.raises(gd.GradinoError, match="detach"):
        np.from_dlpack(w)
    assert np.from_dlpack(w.detach()).tolist() == [1, 1]


def test_pytorch_takes_tensors_and_states_of_modules() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: NumPy stands in for it")
    t = gd.zeros(2, 3)
    theirs = torch.as_tensor(t)
    theirs += 1
    assert t.tolist() == [[1, 1, 1], [1, 1, 1]]
    ours, other = nn.LSTM(3, 4), torch.nn.LSTM(3, 4)
    other.load_state_dict({name: torch.as_tensor(value) for name, value in ours.state_dict().items()})
    assert other.weight_hh_l0.tolist() == ours.weight_hh_l0.tolist()
    again = nn.LSTM(3, 4)
    again.load_state_dict(other.state_dict())
    assert again.weight_hh_l0.tolist() == ours.weight_hh_l0.tolist()
