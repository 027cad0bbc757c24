"""What specs do not say of arranging: indices of triangles, shapes that are broadcast, writes through views, and odd arguments."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same_bits

import gradino as gd


@pytest.mark.parametrize("offset", [-2, 0, 1])
@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (4, 2), (0, 3)])
def test_indices_of_triangles(rows, columns, offset):
    for ours, theirs in ((gd.tril_indices, np.tril_indices), (gd.triu_indices, np.triu_indices)):
        assert ours(rows, columns, offset).tolist() == [list(map(int, x)) for x in theirs(rows, offset, columns)]


def test_broadcast_shapes():
    assert gd.broadcast_shapes((2, 1, 3), (4, 1), (3,)) == (2, 4, 3) and gd.broadcast_shapes() == ()
    with pytest.raises(gd.ShapeError, match="dimension -1 is 2 and 3"):
        gd.broadcast_shapes((2,), (3,))


def test_diagonals_and_windows_are_views():
    x = gd.zeros(3, 3)
    x.diagonal(1).fill_(2)
    x.diagonal().copy_(gd.tensor([1.0, 2.0, 3.0]))
    assert x.tolist() == [[1, 2, 0], [0, 2, 2], [0, 0, 3]]
    y = gd.arange(6)
    y.unfold(0, 2, 2).select(0, 1).fill_(9)
    assert y.tolist() == [0, 1, 9, 9, 4, 5]


def test_arguments_by_name_and_one_by_one():
    x = gd.arange(6.0).reshape(2, 3)
    for a, b in ((x.flip(0, 1), x.flip(dims=(0, 1))), (x.repeat(2, 1), x.repeat(repeats=(2, 1))), (x.tile(2), x.tile(dims=(2,)))):
        assert_same_bits(a, b)
    assert gd.atleast_2d(x, gd.ones(2))[1].shape == (1, 2)
    assert gd.meshgrid([gd.ones(2), gd.ones(3)], indexing="xy")[0].shape == (3, 2)
    with pytest.warns(UserWarning, match="indexing"):
        gd.meshgrid(gd.ones(2))


def test_repeat_interleave_of_numbers():
    assert gd.repeat_interleave(gd.tensor([2, 0, 3])).tolist() == [0, 0, 2, 2, 2]
    with pytest.raises(gd.InvalidValueError, match="output_size"):
        gd.repeat_interleave(gd.ones(3), 2, output_size=5)


def test_pad_of_every_dtype():
    for dtype in ("bool", "int32", "bfloat16", "float16"):
        x = gd.ones(2, dtype=dtype)
        assert gd.nn.functional.pad(x, (1, 0)).tolist() == [0, 1, 1]
    assert gd.nn.functional.pad(gd.ones(1, dtype="int64"), (0, 1), value=2**60 + 1).tolist() == [1, 2**60 + 1]
    assert gd.nn.functional.pad(gd.ones(1), (0, 1), value=-float("inf")).tolist() == [1, -float("inf")]
