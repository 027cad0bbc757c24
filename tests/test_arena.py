"""Arenas: growth, marks, scopes, limits, and what happens to tensors whose arena is gone."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import values

import gradino as gd
from gradino._lib import ffi

pytestmark = pytest.mark.own_arenas

MIB = 1 << 20
KIB = 1 << 10


def of_bytes(n: int) -> gd.Tensor:
    """A tensor of so many bytes."""
    return gd.zeros(n, dtype=gd.bool)


def address(t: gd.Tensor) -> int:
    return int(ffi.cast("intptr_t", t._info().data))


# ---- Growth and statistics -----------------------------------------------------------------------------------


def test_grows_without_moving_and_aligns() -> None:
    with gd.Arena(reserve=256 * MIB) as arena:
        tensors = [gd.full((n,), float(n)) for n in (1, 3, 17, 1000, 70_001, 1_000_003, 5_000_000)]
        places = [address(t) for t in tensors]
        assert all(p % 64 == 0 for p in places)
        assert places == sorted(places)
        for n, t in zip((1, 3, 17, 1000, 70_001, 1_000_003, 5_000_000), tensors):
            assert (t.numpy() == n).all()
        stats = arena.stats()
    assert stats.reserved == 256 * MIB
    assert stats.used == stats.high_water == sum((4 * n + 63) // 64 * 64 for n in (1, 3, 17, 1000, 70_001, 1_000_003, 5_000_000))
    assert stats.used <= stats.committed <= stats.reserved
    assert stats.allocations == 7 and stats.resets == 0


def test_reset_keeps_committed_memory_and_counts() -> None:
    with gd.Arena(reserve=16 * MIB) as arena:
        first = gd.ones(MIB)
        place = address(first)
        before = arena.stats()
        arena.reset()
        after = arena.stats()
        assert (after.used, after.high_water, after.committed, after.resets) == (0, before.high_water, before.committed, 1)
        assert address(gd.ones(5)) == place
        assert arena.stats().allocations == before.allocations + 1


def test_commit_makes_memory_ready() -> None:
    assert gd.Arena(reserve=8 * MIB, commit=3 * MIB).stats().committed >= 3 * MIB
    for reserve, commit in ((MIB, 2 * MIB), (MIB, -1)):
        with pytest.raises(ValueError, match="commit"):
            gd.Arena(reserve=reserve, commit=commit)
    for reserve in (0, -1, 1 << 47):
        with pytest.raises(ValueError, match=r"reserve|2\^46"):
            gd.Arena(reserve=reserve)


def test_memory_stats_lists_open_arenas_by_name() -> None:
    with gd.Arena(name="one") as one, gd.Arena(name="one"), gd.step_arena() as step:
        gd.ones(10)
        stats = gd.memory_stats()
        assert {"permanent", "one", "one 2", "step"} <= set(stats)
        assert stats["one"] == one.stats()
        assert step.stats().used == 64 and step.stats() in stats.values()
    one.close()
    assert "one 2" not in gd.memory_stats()


def test_small_tensors_fill_an_arena_to_the_last_byte() -> None:
    """Nodes are sized for it: 64 bytes each, and as many views again."""
    with gd.Arena(reserve=MIB) as arena:
        tensors = [gd.ones(1) for _ in range(MIB // 64)]
        assert arena.stats().used == MIB
        views = [t.reshape(1, 1) for t in tensors[:1000]]
        assert views[-1].item() == 1
        with pytest.raises(gd.OutOfMemoryError):
            gd.ones(1)


# ---- Full arenas (M01) ------------------------------------------------------------------------------------------


def test_exact_fit_succeeds_and_one_byte_more_fails_with_numbers() -> None:
    with gd.Arena(reserve=MIB, name="small") as arena:
        of_bytes(1000)
        used = arena.stats().used
        left = MIB - used
        with pytest.raises(gd.OutOfMemoryError) as caught:
            of_bytes(left + 1)
        text = str(caught.value)
        for number in ("'small'", f"{left + 1} bytes requested", f"{used} used", f"{MIB} reserved"):
            assert number in text, text
        assert isinstance(caught.value, MemoryError)
        assert arena.stats().used == used
        assert of_bytes(left).numel() == left
        assert arena.stats().used == MIB
        with pytest.raises(gd.OutOfMemoryError):
            of_bytes(1)
        assert of_bytes(0).shape == (0,)
        arena.reset()
        assert of_bytes(MIB).numel() == MIB


def test_a_failing_op_leaves_the_arena_as_it_was() -> None:
    """Products and their workspace, casts before an op, lists, copies before a view: nothing of a failed call stays."""
    left = 20_000
    with gd.Arena(reserve=4 * MIB) as arena:
        a, i, v = gd.ones(150, 300), gd.ones(4_000, dtype=gd.int64), gd.ones(300)
        b, index = gd.ones(2_000, dtype=gd.bool), gd.zeros(20_000, dtype=gd.int32)
        x, y, bias = gd.ones(60, 30, 3), gd.zeros(60, 3, dtype=gd.int64), gd.ones(7)
        few, wrong = x[:, :2], y + 5
        rows, wide = [gd.ones(1) for _ in range(50)], [gd.ones(1).expand(300) for _ in range(50)]
        of_bytes(arena.stats().reserved - arena.stats().used - left)
        used = arena.stats().used
        failing: dict[str, Callable[[], Any]] = {
            "product": lambda: a.T @ a,
            "product with vector": lambda: v @ a.T.expand(90, 300, 150),
            "factory": lambda: gd.ones(left),
            "cast, then op": lambda: i / 3,
            "number, then cast, then op": lambda: i + 1.5,
            "cast of the input": lambda: i.exp(),
            "promotion": lambda: b * i,
            "where": lambda: gd.where(b[:1], i, v[:1]),
            "stack of many": lambda: gd.stack(wide),
            "cat of many": lambda: gd.cat(wide),
            "stack of unequal": lambda: gd.stack([*rows, bias]),
            "cat of unequal": lambda: gd.cat([*rows, a]),
            "shapes": lambda: a + bias,
            "copy, then view": lambda: a.T.reshape(-1),
            "index of int32": lambda: v[index],
            "loss of many dimensions": lambda: gd.nn.functional.cross_entropy(x, y),
            "label out of range": lambda: gd.nn.functional.cross_entropy(few, wrong),
            "softmax": lambda: a.softmax(-1),
            "clone": lambda: a.clone(),
            "dropout": lambda: gd.nn.functional.dropout(a, 0.5),
            "list of rows": lambda: gd.tensor(np.zeros(left)),
            "nonzero": lambda: i.nonzero(),
        }
        for name, call in failing.items():
            with pytest.raises((gd.OutOfMemoryError, gd.ShapeError, IndexError), match=r".+"):
                call()
                pytest.fail(f"{name} went well")
            assert arena.stats().used == used, f"{name} left {arena.stats().used - used} bytes"
        assert (v + 1).sum().item() == 600


def test_backward_that_runs_out_midway_can_be_repeated() -> None:
    from gradino import nn

    w = nn.Parameter(gd.ones(100, 100))
    with gd.Arena(reserve=MIB) as arena:
        x = gd.ones(100, 100)
        loss = ((x @ w).tanh() @ w).square().sum()
        filler_bytes = MIB - arena.stats().used - 100_000
        mark = arena.mark()
        of_bytes(filler_bytes)
        used = arena.stats().used
        with pytest.raises(gd.OutOfMemoryError, match="requested"):
            loss.backward()
        assert arena.stats().used == used and w.grad is None
        arena.rewind(mark)
        loss.backward()
        expect = values(w.grad)
    with gd.step_arena():
        w.grad = None
        ((gd.ones(100, 100) @ w).tanh() @ w).square().sum().backward()
        np.testing.assert_array_equal(values(w.grad), expect)


def test_tensors_without_bytes() -> None:
    with gd.Arena(reserve=MIB) as arena:
        for shape in ((0,), (3, 0), (0, 5, 2), (2, 0, 3, 4)):
            t = gd.zeros(shape)
            assert t.numel() == 0 and t.shape == shape and t.numpy().shape == shape
            assert (t + 1).shape == shape and t.sum().item() == 0
        arena.reset()
        of_bytes(0)
        assert arena.stats().used == 0 and arena.stats().high_water < MIB


def test_arenas_run_out_at_1024_and_come_back() -> None:
    gc.collect()
    arenas = []
    with pytest.raises(gd.ArenaError, match=r"1024 arenas are open"):
        for _ in range(1100):
            arenas.append(gd.Arena(reserve=64 * KIB))
    assert 900 < len(arenas) < 1024
    with arenas[500]:
        assert gd.ones(3).sum().item() == 3
    arenas[7].close()
    with gd.Arena(reserve=64 * KIB):
        assert gd.ones(3).sum().item() == 3
    arenas.clear()
    gc.collect()
    with gd.Arena(reserve=64 * KIB):
        gd.ones(3)


# ---- Marks ------------------------------------------------------------------------------------------------------


def test_rewind_forgets_what_came_after_the_mark() -> None:
    with gd.Arena() as arena:
        old = gd.ones(3)
        mark = arena.mark()
        for k in range(5):
            new = gd.full((1000,), float(k))
            assert new.sum().item() == 1000 * k
            arena.rewind(mark)
            with pytest.raises(gd.StaleTensorError):
                new.sum()
            assert arena.stats().used == 64
            assert old.sum().item() == 3


def test_stale_and_foreign_marks_are_refused() -> None:
    with gd.Arena(name="ours") as arena, gd.Arena() as other:
        pass
    with arena:
        outer = arena.mark()
        t = gd.ones(2)
        inner = arena.mark()
        arena.rewind(outer)
        for bad in (inner, t._h, 0, 12345, (1 << 64) - 1, other.mark()):
            with pytest.raises(gd.ArenaError, match="not a mark of arena 'ours'"):
                arena.rewind(bad)
        arena.rewind(outer)
        arena.reset()
        with pytest.raises(gd.ArenaError, match="reset or rewound past it"):
            arena.rewind(outer)
    with pytest.raises(gd.ArenaError, match="permanent"):
        gd.permanent_arena().rewind(gd.permanent_arena().mark())
    with pytest.raises(gd.ArenaError, match="permanent"):
        gd.permanent_arena().reset()


def test_epochs_run_out_without_a_handle_coming_back() -> None:
    """White box: the epoch is the third word of the arena; the last one is set by hand."""
    last = (1 << 28) - 1
    arena = gd.Arena(name="old")
    words = ffi.cast("uint32_t *", arena._pointer)
    with arena:
        t = gd.ones(1)
        assert (t._h >> 26 & 1023, t._h >> 36) == (words[1], words[2]), "the layout of gd_arena has changed: adapt this test"
        words[2] = last - 1
        arena.reset()
        t = gd.ones(1)
        assert t._h >> 36 == last and t.item() == 1
        with pytest.raises(gd.ArenaError, match=r"reset 2\^28 times"):
            arena.reset()
        with pytest.raises(gd.ArenaError, match="as often as it can be"):
            arena.rewind(arena.mark())
        assert t.item() == 1
        (gd.ones(3, requires_grad=True) * 2).sum().backward()
        assert t.item() == 1
    arena.close()
    with pytest.raises(gd.StaleTensorError):
        t.item()
    number = t._h >> 26 & 1023
    for _ in range(3):  # the slot is not used again
        with gd.Arena() as new:
            assert gd.ones(1)._h >> 26 & 1023 != number
        new.close()


def test_a_step_arena_whose_epochs_run_out_is_replaced() -> None:
    def run() -> None:
        with gd.step_arena() as arena:
            first = arena
            ffi.cast("uint32_t *", arena._pointer)[2] = (1 << 28) - 4
            gd.ones(1)
        for k in range(6):
            with gd.step_arena() as arena:
                (gd.ones(2, requires_grad=True) * k).sum().backward()
                seen.append(arena == first)

    seen: list[bool] = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(seen) == 6 and not seen[-1]


# ---- Closing and collecting -------------------------------------------------------------------------------------


def test_closed_arenas_say_so() -> None:
    with gd.Arena(name="gone") as arena:
        t = gd.ones(4)
        with pytest.raises(gd.ArenaError, match="active"):
            arena.close()
    arena.close()
    arena.close()
    assert repr(arena) == "Arena(closed)" and arena.name == "closed"
    for call in (arena.reset, arena.mark, arena.stats, arena.__enter__):
        with pytest.raises(gd.ArenaError, match="closed"):
            call()
    with pytest.raises(gd.StaleTensorError, match="'gone' was closed"):
        t.sum()
    with pytest.raises(gd.ArenaError, match="not yours"):
        gd.permanent_arena().close()
    with gd.step_arena() as step, pytest.raises(gd.ArenaError, match="not yours"):
        step.close()


def test_a_slot_used_again_does_not_lend_its_name() -> None:
    with gd.Arena(name="first") as arena:
        t = gd.ones(1)
    arena.close()
    arenas = [gd.Arena(name="second") for _ in range(2)]
    with pytest.raises(gd.StaleTensorError) as caught:
        t.item()
    assert "second" not in str(caught.value) and len(arenas) == 2


def test_collected_arenas_are_closed_and_views_live_on() -> None:
    gc.collect()
    before = len(gd.memory_stats())
    arena = gd.Arena()
    with arena:
        t = gd.full((100,), 3.0)
        view = t.numpy()
    del arena
    gc.collect()
    assert len(gd.memory_stats()) == before
    assert (view == 3).all()
    with pytest.raises(gd.StaleTensorError, match="closed"):
        t.sum()
    with gd.Arena():
        gd.zeros(10_000)
        assert (view == 3).all()
