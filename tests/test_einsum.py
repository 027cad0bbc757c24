"""einsum: random equations against NumPy's, broadcasting, other ways to call it, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_close

import gradino as gd


@pytest.mark.parametrize("seed", range(60))
def test_random_equations(seed):
    rng = np.random.default_rng(seed)
    sizes = dict(zip("abcd", rng.integers(1, 4, 4)))
    terms = ["".join(rng.choice(list("abcd"), rng.integers(1, 4))) for _ in range(rng.integers(1, 4))]
    used = sorted({c for term in terms for c in term})
    output = "".join(rng.permutation(used)[: rng.integers(0, min(len(used), 3) + 1)])
    equation = f"{','.join(terms)}->{output}"
    arrays = [rng.uniform(-1, 1, [sizes[c] for c in term]) for term in terms]
    try:
        y = gd.einsum(equation, *map(gd.tensor, arrays))
    except gd.ShapeError as error:
        assert "at most four" in str(error), f"{equation}: {error}"
        return
    assert_close(y, np.einsum(equation, *arrays), atol=1e-12, what=f"seed {seed}: {equation}")


def test_the_result_follows_from_the_letters_where_it_is_not_given():
    a, b = gd.arange(6.0).reshape(2, 3), gd.arange(12.0).reshape(3, 4)
    assert gd.einsum("ij,jk", a, b).tolist() == (a @ b).tolist()
    assert gd.einsum("ba", a).tolist() == a.T.tolist()
    assert gd.einsum("ij, ij", a, a).item() == (a * a).sum().item()


def test_lists_of_numbers():
    a, b = gd.arange(6.0).reshape(2, 3), gd.arange(12.0).reshape(3, 4)
    assert gd.einsum(a, [0, 1], b, [1, 2], [0, 2]).tolist() == (a @ b).tolist()
    assert gd.einsum(a, [..., 1], b, [1, 2]).shape == (2, 4)


def test_sizes_of_one_are_broadcast():
    a, b = gd.ones(2, 1), gd.arange(3.0)
    assert gd.einsum("ij,j->ij", a, b).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert gd.einsum("ij,j->i", a, b).tolist() == [3, 3]


def test_integers():
    a = gd.arange(6).reshape(2, 3)
    assert gd.einsum("ij,kj->ik", a, a).tolist() == [[5, 14], [14, 50]]


@pytest.mark.parametrize(
    ("equation", "shapes", "kind", "words"),
    [
        ("ij,jk->ik", [(2, 3)], gd.InvalidValueError, "names 2 operands, got 1"),
        ("ij->i", [(2,)], gd.ShapeError, "does not fit"),
        ("ij,jk->ik", [(2, 3), (4, 2)], gd.ShapeError, "stands for 3 and 4"),
        ("ij->k", [(2, 2)], gd.InvalidValueError, "must be in an operand"),
        ("i1->i", [(2, 2)], gd.InvalidValueError, "expected letters"),
        ("ii->i", [(2, 3)], gd.ShapeError, "stands for 2 and 3"),
        ("ab,cd,e->abcde", [(1, 1), (1, 1), (1,)], gd.ShapeError, "at most four"),
    ],
)
def test_refused(equation, shapes, kind, words):
    with pytest.raises(kind, match=words):
        gd.einsum(equation, *(gd.ones(s) for s in shapes))
