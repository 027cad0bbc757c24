"""NumPy views over tensors: they outlive resets, arenas and parameters, and memory stays bounded. Sizes that overflow."""

from __future__ import annotations

import gc
import resource
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers import values

import gradino as gd
from gradino import nn, optim

pytestmark = pytest.mark.own_arenas

MIB = 1 << 20


def overwrite(bytes_: int = 2 * MIB) -> None:
    """Fill the active arena with other numbers."""
    for size in (16, 100, 4096, bytes_ // 4):
        gd.full((size,), -77.0)


# ---- Views that outlive a reset (M02) ---------------------------------------------------------------------------


def test_a_view_survives_the_step_and_the_tensors_are_stale() -> None:
    with gd.step_arena():
        t = gd.ones(1000)
        v, s = t.numpy(), t[10:20]
    for _ in range(3):
        with gd.step_arena():
            overwrite()
    assert (v == 1).all()
    for dead in (t, s):
        with pytest.raises(gd.StaleTensorError, match="was reset"):
            dead.sum()


def test_a_view_survives_its_tensor_object() -> None:
    with gd.step_arena():
        v = (gd.ones(100) * 3).numpy()
        gc.collect()
        overwrite()
        assert (v == 3).all()


def test_views_write_through_while_the_tensor_lives() -> None:
    with gd.step_arena():
        t = gd.zeros(2, 3)
        t.numpy()[1, 2] = 5
        assert t[1, 2].item() == 5


@pytest.mark.parametrize("end", ["reset", "rewind", "close", "collect"])
def test_many_views_strided_and_overlapping(end: str) -> None:
    arena = gd.Arena()
    with arena:
        mark = arena.mark()
        base = gd.arange(1200, dtype=gd.float32).reshape(20, 60)
        want = np.arange(1200, dtype=np.float32).reshape(20, 60)
        pairs = [
            (base, want),
            (base.T, want.T),
            (base[3:7], want[3:7]),
            (base[:, 5:50:7], want[:, 5:50:7]),
            (base[4:, 1::3].T, want[4:, 1::3].T),
            (base[2, 3], want[2, 3]),
            (base[19, 59:], want[19, 59:]),
            (base[0].expand(5, 60), np.broadcast_to(want[0], (5, 60))),
            (base.reshape(2, 10, 60).permute(2, 0, 1)[7:9], want.reshape(2, 10, 60).transpose(2, 0, 1)[7:9]),
        ]
        views = [(t.numpy(), w.copy()) for t, w in pairs]
        alone = gd.full((7,), 4.0).numpy()
    del base, pairs
    for round_ in range(4):
        if end == "reset":
            arena.reset()
        elif end == "rewind":
            arena.rewind(mark)
        elif end == "close" and round_ == 0:
            arena.close()
        elif end == "collect" and round_ == 0:
            del arena
            gc.collect()
        if end in ("reset", "rewind"):
            with arena:
                overwrite(MIB)
        else:
            with gd.Arena():
                overwrite(MIB)
        for k, (v, w) in enumerate(views):
            np.testing.assert_array_equal(v, w, err_msg=f"view {k}, {end}, round {round_}")
        assert (alone == 4).all()
        if views:
            views.pop(round_ % len(views))  # some go, the others stay


def test_one_number_kept_per_step_costs_64_bytes() -> None:
    kept, used = [], []
    with gd.Arena() as arena:
        for k in range(1000):
            large = gd.full((20_000,), float(k))
            kept.append((large * 2).mean().numpy())
            gd.full((20_000,), -1.0)
            used.append(arena.stats().used)
            arena.reset()
        assert used[-1] == used[0] + 999 * 64
        assert all(v == 2 * k for k, v in enumerate(kept))
        kept.clear()
        gc.collect()
        gd.full((60_000,), -1.0)
        assert arena.stats().used == 240_000


def test_a_part_kept_per_step_costs_no_more_than_its_tensor() -> None:
    kept = []
    with gd.Arena() as arena:
        for k in range(200):
            large = gd.full((20_000,), float(k))
            kept.append(large[700:703].numpy())
            (large * 2).sum()
            arena.reset()
        gd.ones(1)
        assert arena.stats().high_water <= 201 * 2 * 80_128
        assert all((v == k).all() for k, v in enumerate(kept))


def test_whole_views_are_given_back_when_they_die() -> None:
    with gd.Arena(reserve=64 * MIB) as arena:
        for k in range(500):  # 500 MiB go through 64 MiB
            v = gd.full((MIB // 4,), float(k)).numpy()
            arena.reset()
            assert v[0] == v[-1] == k


def test_a_closed_arena_gives_back_what_no_view_needs() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * resource.getpagesize()

    arena = gd.Arena()
    with arena:
        gd.ones(10 * MIB)
        v = gd.full((1000,), 5.0).numpy()
        gd.ones(10 * MIB)
    before = resident()
    arena.close()
    assert resident() < before - 60 * MIB
    assert (v == 5).all()


def test_views_die_in_other_threads_while_steps_go_on() -> None:
    views: list[np.ndarray] = []
    stop = threading.Event()

    def drop() -> None:
        while not stop.is_set() or views:
            if views:
                v = views.pop()
                assert (v == v[0]).all()
                del v

    thread = threading.Thread(target=drop)
    thread.start()
    for k in range(1500):
        with gd.step_arena():
            t = gd.full((k % 97 + 1,), float(k))
            views.append(t.numpy())
            assert (t + 1).sum().item() == (k + 1) * (k % 97 + 1)
    stop.set()
    thread.join()
    assert not views


# ---- Borrowed memory --------------------------------------------------------------------------------------------


def test_from_numpy_keeps_the_array() -> None:
    with gd.step_arena():
        a = np.arange(100_000, dtype=np.float32)
        ref = weakref.ref(a)
        t = gd.from_numpy(a)
        del a
        gc.collect()
        np.zeros(100_000, np.float32)
        assert ref() is not None and t[99_999].item() == 99_999
        del t
        gc.collect()
        assert ref() is not None
    gc.collect()
    assert ref() is None, "the array outlives the arena that borrowed it"


@pytest.mark.parametrize("part", ["whole", "slice"])
def test_a_view_of_a_borrowed_array_keeps_that_array(part: str) -> None:
    with gd.step_arena():
        a = np.arange(1_000_000, dtype=np.float32)
        t = gd.from_numpy(a)
        v = t.numpy() if part == "whole" else t[10:].T.numpy()
        del a, t
    gc.collect()
    np.full(1_000_000, -1, np.float32)
    np.testing.assert_array_equal(v, np.arange(1_000_000, dtype=np.float32)[0 if part == "whole" else 10 :])


def test_an_array_over_an_arena_that_is_borrowed_again() -> None:
    with gd.step_arena():
        a = gd.arange(1000).numpy()
        b = gd.from_numpy(a[100:900:2]).numpy()
        del a
    gc.collect()
    for _ in range(3):
        with gd.step_arena():
            overwrite()
    np.testing.assert_array_equal(b, np.arange(100, 900, 2))


def test_a_block_that_ended_before_leaves_the_arrays_of_the_next_one() -> None:
    """Its arena is the next block's: what that has borrowed is not for a late __exit__ to let go."""

    def late() -> Iterator[None]:
        with gd.step_arena():
            yield

    generator = late()
    with pytest.raises(KeyError), gd.step_arena():
        next(generator)
        raise KeyError  # ends the generator's block, too, which does not know
    with gd.step_arena(), gd.step_arena():
        a = np.ones(1000, np.float32)
        t, ref = gd.from_numpy(a), weakref.ref(a)
        del a
        generator.close()
        gc.collect()
        assert ref() is not None and t.sum().item() == 1000
    gc.collect()
    assert ref() is None


def test_a_rewind_forgets_arrays_borrowed_since() -> None:
    with gd.Arena() as arena:
        early, late = np.ones(3), np.ones(3)
        t = gd.from_numpy(early)
        mark = arena.mark()
        gd.from_numpy(late)
        refs = weakref.ref(early), weakref.ref(late)
        del early, late
        arena.rewind(mark)
        gc.collect()
        assert refs[1]() is None and refs[0]() is not None and t.sum().item() == 3


# ---- Parameters -------------------------------------------------------------------------------------------------


def test_a_view_of_a_parameter_outlives_it() -> None:
    p = nn.Parameter(gd.full((100,), 2.0))
    views = [p.detach().numpy(), p.detach()[50:].numpy()]
    del p
    gc.collect()
    others = [nn.Parameter(gd.full((100,), 9.0)) for _ in range(5)]
    assert all((v == 2).all() for v in views)
    views.clear()
    gc.collect()
    others.append(nn.Parameter(gd.full((100,), 9.0)))
    assert all((values(p) == 9).all() for p in others)


def test_arrays_of_gradients_and_moments_are_copies() -> None:
    """Their memory is written again by the next step."""
    p = nn.Parameter(gd.ones(3))
    opt = optim.Adam([p], lr=0.1)
    arrays: list[np.ndarray] = []
    for k in range(3):
        with gd.step_arena():
            (p * float(k + 1)).sum().backward()
            arrays += [p.grad.numpy(), p.grad[1:].numpy(), p.grad.detach().reshape(3, 1).numpy()]
            opt.step()
            arrays.append(p.exp_avg.numpy())
            opt.zero_grad()
    for k in range(3):
        for a in arrays[4 * k : 4 * k + 3]:
            assert (a == k + 1).all() and not a.flags.writeable
    assert len({a[0] for a in arrays[3::4]}) == 3


def test_a_gradient_assigned_from_itself() -> None:
    p = nn.Parameter(gd.ones(2, 2))
    (p * gd.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    p.grad = p.grad
    assert p.grad.tolist() == [[1, 2], [3, 4]]
    p.grad = p.grad.T
    assert p.grad.tolist() == [[1, 3], [2, 4]]
    held = p.grad
    p.grad = held * 2
    assert p.grad.tolist() == [[2, 6], [4, 8]]
    with pytest.raises(gd.StaleTensorError, match="clone"):
        held.sum()


# ---- Sizes (M04) ------------------------------------------------------------------------------------------------

TOO_LARGE = [
    (2**62, 4),
    (2**31, 2**31, 2),
    (2**32, 2**32),
    (2**33, 2**33, 2**33, 2**33),
    ((2**64 - 64) // 8,),
    (2**63 - 1,),
    (2**61,),
    (2**46,),
    (2**45, 3),
]


@pytest.mark.parametrize("shape", TOO_LARGE, ids=str)
@pytest.mark.parametrize("dtype", [gd.float32, gd.float64, gd.bool], ids=str)
def test_sizes_that_wrap_around_are_refused(shape: tuple[int, ...], dtype: Any) -> None:
    with gd.Arena() as arena:
        for make in (gd.empty, gd.zeros, gd.ones):
            with pytest.raises((gd.OutOfMemoryError, OverflowError)):
                make(shape, dtype=dtype)
        with pytest.raises((gd.OutOfMemoryError, OverflowError)):
            gd.ones(1, dtype=dtype).reshape(1, 1, 1, 1).expand(*(shape + (1,) * (4 - len(shape)))).clone()
        assert arena.stats().committed < MIB


def test_negative_and_odd_sizes_are_refused() -> None:
    with gd.step_arena():
        for shape in ((-1,), (3, -2), (-(2**62), 4)):
            with pytest.raises(ValueError, match="negative"):
                gd.empty(shape)
        with pytest.raises(OverflowError):
            gd.empty(2**63)
        with pytest.raises(gd.ShapeError, match="four dimensions"):
            gd.empty(1, 1, 1, 1, 1)


def test_a_view_of_more_than_2_to_31_elements_counts_right() -> None:
    with gd.step_arena():
        t = gd.ones(1, 1, dtype=gd.float64).expand(32769, 65536)
        assert t.numel() == 2147549184
        assert t[1, 2].item() == 1 and t.sum().item() == 2147549184.0


@pytest.mark.parametrize("shape, dtype", [((65536, 65536), gd.bool), ((2**31, 2), gd.float32)], ids=["65536 x 65536", "2**31 x 2"])
def test_sizes_beyond_32_bits_are_whole_or_refused(shape: tuple[int, int], dtype: Any) -> None:
    with gd.step_arena():
        try:
            t = gd.empty(shape, dtype=dtype)  # address space: nothing is touched
        except gd.OutOfMemoryError:
            pytest.skip("the system does not promise so much memory")
        assert t.numel() == 2**32 and t[-1:].numel() == 2**32 // shape[0]
        t[-1, -1] = 1
        assert t[-1].sum().item() == 1 and t.arena.stats().used >= 2**32


def test_a_total_of_two_sizes_that_wraps_is_refused() -> None:
    with gd.step_arena():
        half = gd.ones(1, dtype=gd.bool).expand(2**62)
        with pytest.raises((gd.OutOfMemoryError, OverflowError)):
            gd.cat([half, half])
        with pytest.raises((gd.OutOfMemoryError, OverflowError)):
            gd.cat([half, half, half, half])
