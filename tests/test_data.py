"""Datasets, samplers, collating, and the DataLoader without workers."""

from __future__ import annotations

import math
from collections import Counter, namedtuple

import numpy as np
import pytest

import gradino as gd
from gradino.utils import data as d

Pair = namedtuple("Pair", "x y")


class Squares(d.Dataset):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[int, float]:
        return i, float(i * i)


class Stream(d.IterableDataset):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


def order(loader: d.DataLoader) -> list[int]:
    """The sample numbers that a loader over Squares, or over a stream, gives."""
    with gd.step_arena():
        return [i for batch in loader for i in (batch[0] if isinstance(batch, list) else batch).reshape(-1).tolist()]


# ---- Datasets ---------------------------------------------------------------------------------------------------


def test_tensor_dataset():
    data = d.TensorDataset(gd.arange(12).reshape(4, 3), gd.arange(4.0))
    assert len(data) == 4 and [t.tolist() for t in data[2]] == [[6, 7, 8], 2.0]
    assert [t.shape for t in data[1:3]] == [(2, 3), (2,)]


def test_parts_and_sums_of_datasets():
    a, b = Squares(3), Squares(2)
    both = a + b
    assert [both[i][0] for i in range(-5, 5)] == [0, 1, 2, 0, 1] * 2
    assert [d.Subset(both, [4, 0])[i] for i in (0, 1)] == [(1, 1.0), (0, 0.0)]
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]


def test_random_split():
    gd.manual_seed(1)
    one, two = d.random_split(Squares(10), [7, 3])
    assert (len(one), len(two)) == (7, 3) and sorted([*one.indices, *two.indices]) == list(range(10))
    assert one.indices != list(range(7))
    assert [len(s) for s in d.random_split(Squares(10), [0.25, 0.25, 0.5])] == [3, 2, 5]
    again = d.random_split(Squares(10), [7, 3], generator=gd.Generator().manual_seed(5))
    assert again[0].indices == d.random_split(Squares(10), [7, 3], generator=gd.Generator().manual_seed(5))[0].indices


def test_token_windows(tmp_path):
    tokens = np.arange(11, dtype=np.uint16)
    tokens.tofile(tmp_path / "tokens.bin")
    for source in (tokens, gd.arange(11), tmp_path / "tokens.bin", str(tmp_path / "tokens.bin")):
        data = d.TokenDataset(source, 3)
        assert len(data) == 3
        x, y = data[2]
        assert x.dtype == np.int64 and x.tolist() == [6, 7, 8] and y.tolist() == [7, 8, 9]
    close = d.TokenDataset(tokens, 3, stride=1)
    assert len(close) == 8 and close[7][1].tolist() == [8, 9, 10] and close[-1][0].tolist() == [7, 8, 9]
    assert len(d.TokenDataset(np.arange(4), 3)) == 1


# ---- Samplers ---------------------------------------------------------------------------------------------------


def test_random_order_is_a_permutation_that_differs_from_pass_to_pass():
    sampler = d.RandomSampler(range(50))
    one, two = list(sampler), list(sampler)
    assert sorted(one) == sorted(two) == list(range(50)) and one != two
    assert len(list(d.RandomSampler(range(5), num_samples=12))) == 12
    assert max(Counter(d.RandomSampler(range(5), num_samples=10)).values()) == 2, (
        "without replacement, every one comes before any comes again"
    )


def test_random_order_never_changes():
    """Saved seeds must mean the same in every version of gradino and NumPy."""
    assert d.RandomSampler(range(8)).order(2024) == [2, 7, 0, 1, 6, 4, 5, 3]
    assert gd.Generator().manual_seed(7)._draw() == 7191089600892374487


def test_with_replacement_and_weights():
    n = 20_000
    drawn = Counter(d.RandomSampler(range(4), replacement=True, num_samples=n, generator=gd.Generator()))
    assert all(abs(drawn[i] - n / 4) < 5 * math.sqrt(n * 3 / 16) for i in range(4))
    drawn = Counter(d.WeightedRandomSampler([1, 0, 3], n, generator=gd.Generator()))
    assert drawn[1] == 0 and abs(drawn[2] - 0.75 * n) < 5 * math.sqrt(n * 3 / 16)
    assert sorted(d.WeightedRandomSampler([1, 0, 3, 2], 3, replacement=False)) == [0, 2, 3]
    assert sorted(d.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]


@pytest.mark.parametrize(
    ("n", "drop", "sizes"), [(7, False, [3, 3, 1]), (7, True, [3, 3]), (6, False, [3, 3]), (0, False, []), (2, True, [])]
)
def test_batches(n, drop, sizes):
    batches = d.BatchSampler(d.SequentialSampler(range(n)), 3, drop)
    assert [len(b) for b in batches] == sizes and len(batches) == len(sizes)


def test_a_generator_is_independent():
    generator = gd.Generator().manual_seed(3)
    state = gd.get_rng_state()
    one = list(d.RandomSampler(range(20), generator=generator))
    assert gd.get_rng_state() == state
    place = generator.get_state()
    two = list(d.RandomSampler(range(20), generator=generator))
    generator.set_state(place)
    assert list(d.RandomSampler(range(20), generator=generator)) == two != one
    assert generator.initial_seed() == 3


# ---- Collating --------------------------------------------------------------------------------------------------


def test_collate():
    c = d.default_collate
    assert c([gd.ones(2), gd.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert c([np.ones((1, 2), np.float32)] * 3).shape == (3, 1, 2)
    assert c([1, 2]).dtype is gd.int64 and c([1.0, 2.0]).dtype is gd.float64 and c([True, False]).dtype is gd.bool
    assert c([np.float32(1), np.float32(2)]).dtype is gd.float32 and c([np.int32(1)]).dtype is gd.int32
    assert c(["a", "b"]) == ["a", "b"]
    batch = c([(1, {"a": 2.0}), (3, {"a": 4.0})])
    assert isinstance(batch, list) and batch[0].tolist() == [1, 3] and batch[1]["a"].tolist() == [2, 4]
    pair = c([Pair(1, "x"), Pair(2, "y")])
    assert isinstance(pair, Pair) and pair.x.tolist() == [1, 2] and pair.y == ["x", "y"]


@pytest.mark.parametrize(("samples", "error", "message"), [
    ([object()], gd.DTypeError, "batch of object samples: give the DataLoader a collate_fn"), ([None], gd.DTypeError, "NoneType"),
    ([(1, 2), (1,)], gd.ShapeError, "different numbers of parts"), ([np.ones(2), np.ones(3)], gd.ShapeError, r"\(2,\), \(3,\)"),
    ([gd.ones(2), gd.ones(3)], gd.ShapeError, "stack"),
])  # fmt: skip
def test_what_cannot_be_collated(samples, error, message):
    with pytest.raises(error, match=message):
        d.default_collate(samples)


def test_convert():
    kept = object()
    out = d.default_convert({"a": np.arange(3), "b": (np.float32(2), [kept, "s"])})
    assert out["a"].tolist() == [0, 1, 2] and out["b"][0].item() == 2 and out["b"][1] == [kept, "s"]


# ---- The loader -------------------------------------------------------------------------------------------------


def test_batches_in_order():
    loader = d.DataLoader(Squares(7), 3)
    with gd.step_arena():
        batches = [(i.tolist(), s.tolist()) for i, s in loader]
    assert batches == [([0, 1, 2], [0, 1, 4]), ([3, 4, 5], [9, 16, 25]), ([6], [36])]
    assert len(loader) == 3 and len(d.DataLoader(Squares(7), 3, drop_last=True)) == 2
    assert order(d.DataLoader(Squares(3))) == [0, 1, 2]


def test_tensor_datasets_are_gathered_whole():
    data = d.TensorDataset(gd.randn(20, 3), gd.arange(20))
    for dataset in (data, d.Subset(d.Subset(data, range(0, 20, 2)), [9, 3, 1])):
        with gd.step_arena():
            quick = [b for batch in d.DataLoader(dataset, 4) for b in batch]
            slow = [b for batch in d.DataLoader(dataset, 4, collate_fn=lambda s: d.default_collate(s)) for b in batch]
            assert len(quick) == len(slow) and all(gd.equal(a, b) for a, b in zip(quick, slow))
            quick[0].zero_()
    assert data.tensors[0].abs().sum().item() > 0, "a batch is a copy"


def test_shuffling():
    gd.manual_seed(4)
    loader = d.DataLoader(Squares(30), 4, shuffle=True)
    one, two = order(loader), order(loader)
    assert sorted(one) == sorted(two) == list(range(30)) and one != two
    gd.manual_seed(4)
    assert order(d.DataLoader(Squares(30), 7, shuffle=True)) == one
    state = gd.get_rng_state()
    own = d.DataLoader(Squares(30), 4, shuffle=True, generator=gd.Generator().manual_seed(1))
    assert order(own) != order(own) and gd.get_rng_state() == state


def test_samplers_of_ones_own():
    assert order(d.DataLoader(Squares(9), 2, sampler=[5, 3, 8])) == [5, 3, 8]
    assert order(d.DataLoader(Squares(9), batch_sampler=[[1], [2, 3]])) == [1, 2, 3]
    whole = d.DataLoader(Squares(9), batch_sampler=d.BatchSampler(d.RandomSampler(range(9)), 4, False))
    assert sorted(order(whole)) == list(range(9)) and len(whole) == 3


def test_without_batches():
    with gd.step_arena():
        assert [i for i, _ in d.DataLoader(Squares(3), batch_size=None)] == [0, 1, 2]
        samples = list(d.DataLoader([np.arange(2), np.arange(3)], batch_size=None))
        assert samples[1].shape == (3,)


def test_iterable_datasets():
    assert order(d.DataLoader(Stream(7), 3)) == list(range(7))
    assert order(d.DataLoader(Stream(7), 3, drop_last=True)) == list(range(6))
    assert list(d.DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]


def test_getitems_is_used():
    class Many(Squares):
        def __getitems__(self, indices: list[int]) -> list[tuple[int, float]]:
            return [(-i, 0.0) for i in indices]

    assert order(d.DataLoader(Many(3), 2)) == [0, -1, -2]


def test_two_passes_at_once():
    loader = d.DataLoader(Squares(4), 2)
    with gd.step_arena():
        assert [(a[0].tolist(), b[0].tolist()) for a, b in zip(loader, loader)] == [([0, 1], [0, 1]), ([2, 3], [2, 3])]


def numbers(loader: d.DataLoader) -> list[list[int]]:
    """The sample numbers of each batch."""
    return [(b[0] if isinstance(b, list) else b).tolist() for b in loader]


# ---- Resuming ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [0, 1, 4, 7, 8])
@pytest.mark.parametrize("make", [
    lambda: d.DataLoader(Squares(30), 4, shuffle=True), lambda: d.DataLoader(Squares(30), 4), lambda: d.DataLoader(Stream(30), 4),
    lambda: d.DataLoader(Squares(30), batch_sampler=d.BatchSampler(d.RandomSampler(range(30)), 4, False)),
], ids=["shuffled", "in order", "iterable", "batch sampler"])  # fmt: skip
def test_i07_resuming(make, taken):
    gd.manual_seed(0)
    whole = make()
    with gd.step_arena():
        batches = numbers(whole)
        following = numbers(whole)
    gd.manual_seed(0)
    first = make()
    with gd.step_arena():
        running = iter(first)
        for _ in range(taken):
            next(running)
        state, random = first.state_dict(), gd.get_rng_state()
        gd.manual_seed(99)
        second = make()
        second.load_state_dict(state)
        gd.set_rng_state(random)
        rest = numbers(second)
        next_pass = numbers(second)
    assert rest == batches[taken:] and next_pass == following


def test_between_passes_there_is_nothing_to_resume():
    loader = d.DataLoader(Squares(5), 2, shuffle=True)
    assert loader.state_dict() == {"seed": None, "yielded": 0}
    order(loader)
    assert loader.state_dict() == {"seed": None, "yielded": 0}


def test_a_state_that_was_loaded_is_the_state():
    loader = d.DataLoader(Squares(5), 2)
    loader.load_state_dict({"seed": 12, "yielded": 1})
    assert loader.state_dict() == {"seed": 12, "yielded": 1}
    assert order(loader) == [2, 3, 4]


# ---- Errors -----------------------------------------------------------------------------------------------------

ERRORS = [
    (lambda: d.DataLoader(Squares(3), 0), "batch_size is 0"),
    (lambda: d.DataLoader(Squares(3), 1.5), "batch_size is 1.5"),
    (lambda: d.DataLoader(Squares(3), num_workers=-1), "num_workers is -1"),
    (lambda: d.DataLoader(Squares(3), shuffle=True, sampler=[1]), "sampler and shuffle"),
    (lambda: d.DataLoader(Squares(3), 2, batch_sampler=[[1]]), "batch_sampler excludes"),
    (lambda: d.DataLoader(Squares(3), batch_size=None, drop_last=True), "no last batch"),
    (lambda: d.DataLoader(Stream(3), shuffle=True), "its own order"),
    (lambda: d.DataLoader(Squares(3), timeout=3), "timeout is for workers"),
    (lambda: d.DataLoader(Squares(3), num_workers=1, timeout=-3), "timeout is -3"),
    (lambda: d.DataLoader(Squares(3), prefetch_factor=2), "prefetch_factor is for workers"),
    (lambda: d.DataLoader(Squares(3), num_workers=1, prefetch_factor=-2), "prefetch_factor is -2"),
    (lambda: d.DataLoader(Squares(3), persistent_workers=True), "persistent_workers is for workers"),
    (lambda: d.DataLoader(Squares(3)).load_state_dict({"seed": 1, "yielded": -1}), "-1 batches"),
    (lambda: d.TensorDataset(gd.ones(2), gd.ones(3)), "first dimensions must be equal"),
    (lambda: d.TensorDataset(gd.ones(())), "first dimensions must be equal"),
    (lambda: d.ConcatDataset([]), "at least one dataset"),
    (lambda: d.ConcatDataset([Stream(1)]), "use ChainDataset"),
    (lambda: d.random_split(Squares(3), [1, 1]), "do not add up to the dataset's length 3"),
    (lambda: d.TokenDataset(np.arange(3), 3), "no window of block_size 3"),
    (lambda: d.TokenDataset(np.ones(9), 3), "must be integers"),
    (lambda: d.RandomSampler(range(3), num_samples=0), "num_samples is 0"),
    (lambda: d.WeightedRandomSampler([0, 0], 1), "not all 0"),
    (lambda: d.WeightedRandomSampler([-1, 2], 1), "of at least 0"),
    (lambda: d.WeightedRandomSampler([1, 0], 2, replacement=False), "from 1 that have a weight"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_indices_out_of_range():
    for data, i in ((Squares(2) + Squares(2), 4), (d.TokenDataset(np.arange(5), 2), 2)):
        with pytest.raises(IndexError, match=f"index {i} of"):
            data[i]


def test_what_is_not_defined_says_so():
    for make in (lambda: d.Dataset()[0], lambda: iter(d.IterableDataset()), lambda: iter(d.Sampler())):
        with pytest.raises(NotImplementedError, match="define __"):
            make()


def test_pinning_warns():
    with pytest.warns(UserWarning, match="no GPU to pin memory for"):
        d.DataLoader(Squares(3), pin_memory=True)


@pytest.mark.own_arenas
def test_batches_outside_of_arenas_do_not_gather():
    data = d.TensorDataset(gd.randn(64, 256), gd.arange(64))
    w = gd.nn.Parameter(gd.zeros(256))
    used = []
    for _ in range(30):
        for x, y in d.DataLoader(data, 16, shuffle=True):
            with gd.step_arena():
                ((x @ w - y) ** 2).mean().backward()
        used.append(gd.permanent_arena().stats().used)
    assert used[-1] == used[3], "passes after the first few take no memory"
    assert (x.shape, y.shape) == ((16, 256), (16,)) and x.abs().sum().item() > 0
