"""Sequences of different lengths in an LSTM, given as lengths or packed."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits
from lstm_reference import inputs

import gradino as gd
from gradino import nn
from gradino.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence


@pytest.mark.parametrize("bidirectional, batch_first", list(product((False, True), (False, True))))
def test_lengths_equal_shorter_sequences(bidirectional: bool, batch_first: bool, isa: str, rng: Any) -> None:
    """Each row equals the row run alone at its true length; past it outputs and gradients are 0."""
    model = nn.LSTM(3, 4, 2, batch_first=batch_first, bidirectional=bidirectional)
    lengths = [7, 0, 3, 1, 7]
    x, state = inputs(model, 7, 5, rng, "float32")
    assert state is not None
    y, (h, c) = model(x, state, lengths=lengths)
    ((y * y).sum() + (h * c).sum()).backward()
    rows = x.transpose(0, 1) if not batch_first else x
    outputs, slopes = (t.transpose(0, 1) if not batch_first else t for t in (y, x.grad))
    for b, n in enumerate(lengths):
        what = f"row {b} of length {n}, {isa}"
        own = (state[0][:, b : b + 1].contiguous(), state[1][:, b : b + 1].contiguous())
        assert not outputs[b, n:].ne(0).any(), what
        assert not slopes[b, n:].ne(0).any(), what
        if n == 0:
            assert_same_bits(h[:, b : b + 1].contiguous(), own[0], what=what)
            continue
        row = rows[b, :n].unsqueeze(0 if batch_first else 1).contiguous()
        y1, (h1, c1) = model(row, own)
        assert_same_bits(outputs[b, :n].contiguous(), y1.squeeze(0 if batch_first else 1), what=what)
        assert_same_bits(h[:, b].contiguous(), h1.squeeze(1), what=what)
        assert_same_bits(c[:, b].contiguous(), c1.squeeze(1), what=what)


def test_padding_never_matters(rng: Any) -> None:
    """NaN and infinity in the padding reach neither values nor gradients."""
    model = nn.LSTM(3, 4, 2, bidirectional=True)
    a = rng.standard_normal((5, 3, 3)).astype(np.float32)
    results = []
    for filler in (0.0, np.nan, np.inf):
        a[2:, 0], a[4:, 2] = filler, filler
        x = gd.tensor(a, requires_grad=True)
        y, (h, c) = model(x, lengths=[2, 5, 4])
        (y.sum() + h.sum() + c.sum()).backward()
        results.append([y, h, c, x.grad, *(p.grad.clone() for p in model.parameters())])
        model.zero_grad()
    for other in results[1:]:
        for got, want in zip(other, results[0], strict=True):
            assert_same_bits(got, want, what="padding")


def test_lengths_take_integers_of_any_kind(rng: Any) -> None:
    model = nn.LSTM(2, 3)
    x = gd.tensor(rng.standard_normal((4, 2, 2)), dtype="float32")
    want = model(x, lengths=[4, 2])[0]
    for lengths in ((4, 2), np.array([4, 2]), np.array([4, 2], np.int32), gd.tensor([4, 2]), gd.tensor([4, 2], dtype=gd.int32)):
        assert_same_bits(model(x, lengths=lengths)[0], want, what=repr(lengths))


IMPOSSIBLE = [
    ([5, 1], gd.OutOfRangeError, "length 5 of sequence 0 is impossible: the input has 4 steps, so it must be from 0 to 4"),
    ([1, -1], gd.OutOfRangeError, "length -1 of sequence 1 is impossible: the input has 4 steps, so it must be from 0 to 4"),
    ([4, 2**40], gd.OutOfRangeError, "length 1099511627776 of sequence 1 is impossible"),
    ([4], gd.ShapeError, "lengths has shape (1,), must be (2,): one per sequence"),
    ([4, 1, 1], gd.ShapeError, "lengths has shape (3,), must be (2,): one per sequence"),
    ([[4, 1]], gd.ShapeError, "lengths has shape (1, 2), must be (2,): one per sequence"),
    ([], gd.ShapeError, "lengths has shape (0,), must be (2,): one per sequence"),
    (4, gd.ShapeError, "lengths has shape (), must be (2,): one per sequence"),
    ([4.0, 1.0], gd.DTypeError, "must be integers, one per sequence, got [4.0, 1.0] (gradino.float32)"),
    ([True, True], gd.DTypeError, "must be integers, one per sequence, got [True, True] (gradino.bool)"),
    ("41", gd.DTypeError, "must be integers, one per sequence, got '41'"),
    ([4, None], gd.DTypeError, "must be integers, one per sequence, got [4, None]"),
    ([4, [1]], gd.DTypeError, "must be integers, one per sequence, got [4, [1]]"),
]


@pytest.mark.parametrize(("lengths", "error", "text"), IMPOSSIBLE, ids=lambda x: repr(x) if isinstance(x, (list, int)) else "")
def test_impossible_lengths_are_refused(lengths: Any, error: type[Exception], text: str) -> None:
    model = nn.LSTM(2, 3)
    with pytest.raises(error) as caught:
        model(gd.zeros(4, 2, 2), lengths=lengths)
    assert text in str(caught.value) and str(caught.value).lower().startswith("lstm: ")
    if error is not gd.OutOfRangeError:
        with pytest.raises(error) as caught:
            pack_padded_sequence(gd.zeros(4, 2, 2), lengths, enforce_sorted=False)
        assert str(caught.value) == f"pack_padded_sequence: {text if error is gd.ShapeError else 'lengths ' + text}"
    assert model(gd.zeros(4, 2, 2), lengths=[4, 1])[0].shape == (4, 2, 3)


def test_packed_sequences(rng: Any) -> None:
    for batch_first, model_first in product((False, True), (False, True)):
        model = nn.LSTM(2, 3, bidirectional=True, batch_first=model_first)
        x = gd.tensor(rng.standard_normal((3, 6, 2) if batch_first else (6, 3, 2)), dtype="float32")
        packed = pack_padded_sequence(x, [2, 5, 1], batch_first=batch_first, enforce_sorted=False)
        result, (h, c) = model(packed)
        y, lengths = pad_packed_sequence(result, batch_first=batch_first)
        again = x if batch_first == model_first else x.transpose(0, 1)
        want, (h1, c1) = model(again, lengths=[2, 5, 1])
        want = want if batch_first == model_first else want.transpose(0, 1)
        assert lengths.tolist() == [2, 5, 1]
        assert_same_bits(y, (want[:, :5] if batch_first else want[:5]).contiguous(), what="packed output")
        assert_same_bits(h, h1, what="packed h_n")
        assert_same_bits(c, c1, what="packed c_n")
        long, _ = pad_packed_sequence(result, batch_first=batch_first, padding_value=7.0, total_length=8)
        assert long.shape[1 if batch_first else 0] == 8
        assert (long[0, 2:] if batch_first else long[2:, 0]).eq(7).all()
    with pytest.raises(ValueError, match="decreasing"):
        pack_padded_sequence(gd.zeros(4, 2, 2), [1, 4])
    for bad in ([0, 4], [4, 5], [4, -1]):
        with pytest.raises(ValueError, match="between 1 and 4"):
            pack_padded_sequence(gd.zeros(4, 2, 2), bad, enforce_sorted=False)
    with pytest.raises(ValueError, match="total_length"):
        pad_packed_sequence(pack_padded_sequence(gd.zeros(4, 2, 2), [4, 1]), total_length=3)
    rows = [gd.ones(3, 2), gd.ones(1, 2)]
    assert pad_sequence(rows, batch_first=True, padding_value=-1.0).tolist()[1] == [[1, 1], [-1, -1], [-1, -1]]
    assert pad_sequence(rows, batch_first=True, padding_value=-1.0, padding_side="left").tolist()[1] == [[-1, -1], [-1, -1], [1, 1]]
    assert pack_sequence(rows).lengths.tolist() == [3, 1]
