"""Nothing stays active behind an interrupt, a generator or a coroutine, whatever the order in which blocks end."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from building import SANITIZED, run

import gradino as gd

pytestmark = pytest.mark.own_arenas


def nothing_is_active() -> bool:
    return gd.active_arena() == gd.permanent_arena() and gd.is_grad_enabled()


# ---- Interrupts -------------------------------------------------------------------------------------------------

BOMBS = """
import random, signal, sys
import gradino as gd

class Bomb(Exception):
    pass

def explode(*_):
    raise Bomb

signal.signal(signal.SIGALRM, explode)
random.seed(int(sys.argv[1]))
own = gd.Arena(name="own")

def work():
    while True:
        BLOCK

x = gd.ones(2)
hits = 0
for k in range(int(sys.argv[2])):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-6, 1e-4))
        work()
    except Bomb:
        hits += 1
    assert gd.active_arena() == gd.permanent_arena(), f"after {k} interrupts {gd.active_arena()} is active"
    assert gd.is_grad_enabled(), f"after {k} interrupts nothing is recorded"
own.close()  # refused if a scope of it were open
with gd.step_arena() as a:  # the first one of the thread, as always: no depth was lost
    assert (x + 1).tolist() == [2, 2]
assert [name for name in gd.memory_stats() if name.startswith("step")] in (["step"], ["step", "step 2"]), gd.memory_stats()
print(hits)
"""
BLOCKS = {
    "step arena": "with gd.step_arena(): pass",
    "nested": "with gd.step_arena(), gd.step_arena(): gd.ones(2)",
    "arena": "with own: pass",
    "no_grad": "with gd.no_grad(): pass",
    "modes": "with gd.inference_mode(), gd.enable_grad(), gd.set_grad_enabled(False): pass",
    "all": "with gd.step_arena(), gd.no_grad(), own: x = gd.ones(2)",
}
WITHOUT_GAPS = sys.version_info >= (3, 11)  # 3.10 may take an interrupt between a block's end and the call of __exit__


@pytest.mark.skipif(SANITIZED, reason="the sanitizer makes every step too slow for interrupts in the middle of one")
@pytest.mark.parametrize("block", BLOCKS if WITHOUT_GAPS else ["step arena", "nested", "no_grad", "modes"])
def test_interrupts_at_any_moment_leave_nothing_active(block: str) -> None:
    done = run([sys.executable, "-c", BOMBS.replace("BLOCK", BLOCKS[block]), 1, 3000])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 3000


def test_an_object_that_dies_with_its_scope_open_gives_it_up() -> None:
    """What is left of a block whose __exit__ was never called."""
    for make in (gd.step_arena, gd.Arena, gd.no_grad, gd.inference_mode):
        lost: Any = make()
        lost.__enter__()
        assert not nothing_is_active()
        del lost
        assert nothing_is_active(), make


def test_a_scope_given_up_below_a_living_one_ends_with_it() -> None:
    lost, quiet = gd.step_arena(), gd.no_grad()
    lost.__enter__(), quiet.__enter__()
    with gd.enable_grad(), gd.step_arena() as inner:
        del lost, quiet
        assert gd.active_arena() == inner and gd.is_grad_enabled()
        kept = gd.ones(2).keep()
    assert nothing_is_active()
    assert kept.tolist() == [1, 1]  # not kept in the arena that has just ended


def test_scopes_given_up_by_another_thread_end_at_the_next_block() -> None:
    things = [gd.step_arena(), gd.no_grad()]
    things[0].__enter__(), things[1].__enter__()
    thread = threading.Thread(target=things.clear)
    thread.start()
    thread.join()
    with gd.step_arena():
        assert gd.is_grad_enabled()
    assert nothing_is_active()


# ---- Generators and coroutines ---------------------------------------------------------------------------------------


def batches(count: int) -> Iterator[gd.Tensor]:
    for k in range(count):
        with gd.step_arena(), gd.no_grad():
            yield gd.full((2,), float(k))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_generators_that_interleave_leave_nothing_active() -> None:
    """Each order of beginning, going on, and being closed, of three generators."""
    rng = random.Random(0)
    for _ in range(300):
        alive = [batches(3) for _ in range(3)]
        while alive:
            k = rng.randrange(len(alive))
            try:
                if rng.random() < 0.3:
                    alive.pop(k).close()
                else:
                    next(alive[k])
            except StopIteration:
                alive.pop(k)
            except gd.ArenaError as error:
                assert "inner scope" in str(error)
                del alive[k : k + 1]
        assert nothing_is_active()


def test_the_error_of_an_outer_block_leaves_the_inner_one_usable() -> None:
    outer = batches(2)
    first = next(outer)
    with gd.step_arena() as inner:
        x = gd.ones(2)
        with pytest.raises(gd.ArenaError, match="ends together with that one"):
            next(outer)
        assert gd.active_arena() == inner and (x + first).tolist() == [1, 1]
        assert (x + 1).arena == inner
    assert nothing_is_active()


def test_coroutines_that_interleave_are_refused_and_leave_nothing_active() -> None:
    async def step(ticks: int) -> float:
        with gd.step_arena(), gd.enable_grad():
            x = gd.full((3,), float(ticks))
            for _ in range(ticks):
                await asyncio.sleep(0)
            return x.sum().item()

    async def all_of(*ticks: int) -> list[Any]:
        return await asyncio.gather(*(step(k) for k in ticks), return_exceptions=True)

    for ticks in ((1, 2), (2, 1), (1, 1), (3, 1, 2), (1, 5, 1, 4)):
        results = asyncio.run(all_of(*ticks))
        assert nothing_is_active()
        assert any(isinstance(r, gd.ArenaError) for r in results) or results == [3.0 * k for k in ticks]
    assert asyncio.run(all_of(2)) == [6.0]


def test_a_generator_closed_by_another_thread() -> None:
    own = gd.Arena(name="own")

    def generator() -> Iterator[int]:
        with own, gd.step_arena(), gd.no_grad():
            yield 1

    waiting = generator()
    next(waiting)
    thread = threading.Thread(target=waiting.close)
    thread.start()
    thread.join()
    with gd.step_arena():
        assert gd.is_grad_enabled()
    assert nothing_is_active()
    own.close()


def test_a_forgotten_generator_in_a_cycle() -> None:
    class Holder:
        waiting: Any = None

    def generator(holder: Holder) -> Iterator[int]:
        with gd.step_arena(), gd.no_grad():
            yield len(str(holder))

    holder = Holder()
    holder.waiting = generator(holder)
    next(holder.waiting)
    del holder
    gc.collect()
    assert nothing_is_active()
