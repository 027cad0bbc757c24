"""What is active in a thread, how scopes nest, and what is said where tensors pile up outside of them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from building import run
from helpers import values

import gradino as gd
from gradino import nn

pytestmark = pytest.mark.own_arenas


def python(code: str) -> Any:
    """Runs a program in a fresh interpreter; warnings are shown."""
    return run([sys.executable, "-W", "always", "-c", code])


# ---- Nesting ----------------------------------------------------------------------------------------------------


def test_scopes_nest_and_the_enclosing_arena_comes_back() -> None:
    assert gd.active_arena() == gd.permanent_arena()
    with gd.Arena(name="a") as a:
        assert gd.active_arena() == a
        with gd.step_arena() as s1:
            x = gd.ones(2)
            with gd.step_arena() as s2, a:
                assert len({s1, s2, a}) == 3 and gd.active_arena() == a
                y = gd.ones(2)
            assert gd.active_arena() == s1 and x.arena == s1 and y.arena == a
            assert (x + y).arena == s1
        assert gd.active_arena() == a
        assert y.sum().item() == 2
    assert gd.active_arena() == gd.permanent_arena()


def test_a_step_arena_is_the_same_one_in_every_step_and_deeper_ones_are_others() -> None:
    seen = []
    for _ in range(3):
        with gd.step_arena() as outer, gd.step_arena() as inner:
            seen.append((outer, inner))
    assert len(set(seen)) == 1 and seen[0][0] != seen[0][1]


def test_an_exception_leaves_the_scope() -> None:
    with pytest.raises(ZeroDivisionError), gd.step_arena():
        t = gd.ones(3)
        raise ZeroDivisionError
    assert gd.active_arena() == gd.permanent_arena()
    with pytest.raises(gd.StaleTensorError):
        t.item()


def test_leaving_an_outer_scope_first_raises_and_leaves_both_usable() -> None:
    outer, inner = gd.Arena(name="outer"), gd.step_arena()
    outer.__enter__()
    x = gd.ones(2)
    inner.__enter__()
    y = gd.ones(2)
    with pytest.raises(gd.ArenaError, match="'outer' was left while an inner scope"):
        outer.__exit__(None, None, None)
    assert (x + y).sum().item() == 4 and gd.active_arena() == y.arena
    inner.__exit__(None, None, None)  # and with it the outer one, which nobody will leave again
    assert gd.active_arena() == gd.permanent_arena() and x.sum().item() == 2
    outer.__exit__(None, None, None)
    assert gd.active_arena() == gd.permanent_arena()
    outer.close()

    first, second = gd.step_arena(), gd.step_arena()
    first.__enter__()
    x = gd.ones(2)
    second.__enter__()
    with pytest.raises(gd.ArenaError, match="still open"):
        first.__exit__(None, None, None)
    assert x.sum().item() == 2
    with pytest.raises(gd.ArenaError, match="open already"):
        first.__enter__()
    second.__exit__(None, None, None)
    assert gd.active_arena() == gd.permanent_arena()
    with pytest.raises(gd.StaleTensorError):
        x.sum()
    with first:  # it is over, so it can begin again
        assert gd.ones(2).sum().item() == 2
    assert gd.active_arena() == gd.permanent_arena()


def test_an_exception_leaves_scopes_that_were_dropped_inside() -> None:
    """As after an interrupt between a block's end and its __exit__."""
    with pytest.raises(KeyboardInterrupt), gd.no_grad(), gd.step_arena():
        gd.Arena(name="dropped").__enter__()
        gd.step_arena().__enter__()
        gd.enable_grad().__enter__()
        raise KeyboardInterrupt
    assert gd.active_arena() == gd.permanent_arena() and gd.is_grad_enabled()


def test_a_generator_that_is_closed_leaves_only_its_own_mode() -> None:
    def quiet() -> Iterator[int]:
        with gd.no_grad():
            yield 1

    generator = quiet()
    next(generator)
    with gd.no_grad(), gd.enable_grad():
        generator.close()
        assert gd.is_grad_enabled()
    assert gd.is_grad_enabled()


def test_a_generator_abandoned_inside_a_scope_does_not_touch_newer_ones() -> None:
    def batches() -> Iterator[gd.Tensor]:
        with gd.step_arena():
            yield gd.ones(1)
            yield gd.ones(2)

    late = batches()
    first = next(late)
    with gd.step_arena() as newer:
        x = gd.ones(3)
        with pytest.raises(gd.ArenaError):
            late.close()  # its scope lies below ours: it says so
        assert gd.active_arena() == newer and x.sum().item() == 3 and first.item() == 1
    assert gd.active_arena() == gd.permanent_arena()  # the late one went with ours
    with pytest.raises(gd.StaleTensorError):
        first.item()

    ended = batches()
    next(ended)
    ended.close()
    with gd.step_arena() as again:
        x = gd.ones(3)
        ended.close()
        assert gd.active_arena() == again and x.sum().item() == 3


def test_scopes_nest_64_deep_at_most() -> None:
    open_scopes: list[Any] = []
    try:
        with pytest.raises(gd.ArenaError, match="64 deep"):
            for _ in range(65):
                scope = gd.step_arena()
                scope.__enter__()
                open_scopes.append(scope)
        assert len(open_scopes) == 64
        assert gd.ones(2).sum().item() == 2
    finally:
        for scope in reversed(open_scopes):
            scope.__exit__(None, None, None)
    assert gd.active_arena() == gd.permanent_arena()


# ---- Threads ----------------------------------------------------------------------------------------------------


def in_thread(function: Callable[[], Any]) -> Any:
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(function())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def test_the_active_arena_belongs_to_the_thread() -> None:
    with gd.step_arena() as mine:
        x = gd.ones(3)

        def other() -> tuple[bool, bool, float]:
            outside = gd.active_arena() == gd.permanent_arena()
            with gd.step_arena() as theirs:
                return outside, theirs == mine, (x * 2).sum().item()

        assert in_thread(other) == (True, False, 6.0)
        assert gd.active_arena() == mine and x.sum().item() == 3


def test_the_step_arena_of_a_thread_that_ended_is_closed_but_its_views_live() -> None:
    def work() -> tuple[gd.Tensor, np.ndarray]:
        with gd.step_arena():
            t = gd.full((50,), 2.0)
            kept = t.keep()
            return kept, t.numpy()

    before = len(gd.memory_stats())
    kept, view = in_thread(work)
    while len(gd.memory_stats()) > before:  # join() returns a little before the thread is gone
        time.sleep(0.001)
    assert (view == 2).all() and kept.sum().item() == 100


def test_two_threads_fill_one_arena() -> None:
    rounds = 400
    with gd.Arena() as shared:

        def work() -> None:
            with shared:
                for k in range(rounds):
                    t = gd.full((k % 70 + 1,), float(k))
                    made.append((k, t))
                    assert gd.arange(5).sum().item() == 10

        made: list[tuple[int, gd.Tensor]] = []
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(made) == 4 * rounds
        assert all((t.numpy() == k).all() for k, t in made)


def test_threads_share_a_mode_and_an_arena_but_not_their_scopes() -> None:
    """In turns, so that a scope of one thread is open whenever the other leaves its own."""
    quiet, arena = gd.no_grad(), gd.Arena(name="shared")
    mine, theirs = threading.Event(), threading.Event()

    def turns(first: threading.Event, second: threading.Event, start: bool) -> None:
        for _ in range(50):
            if not start:
                first.wait()
                first.clear()
            start = False
            with quiet, arena:
                assert not gd.is_grad_enabled() and gd.active_arena() == arena
                second.set()
                first.wait()
                first.clear()
            assert gd.is_grad_enabled() and gd.active_arena() == gd.permanent_arena()
            second.set()

    def other() -> None:
        try:
            turns(theirs, mine, False)
        finally:
            mine.set()

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    turns(mine, theirs, True)
    theirs.set()
    thread.join()
    assert gd.is_grad_enabled() and gd.active_arena() == gd.permanent_arena()
    arena.close()


def test_a_backward_does_not_take_back_what_another_thread_made_meanwhile() -> None:
    """Both use the permanent arena; backward forgets its temporaries only if nothing of others lies between."""
    stop = threading.Event()
    kept: list[tuple[float, gd.Tensor]] = []

    def make() -> None:
        k = 0.0
        while not stop.is_set() and k < 3000:
            kept.append((k, gd.full((16,), k)))
            kept.append((k, kept[-1][1].reshape(4, 4)))
            k += 1

    thread = threading.Thread(target=make)
    thread.start()
    w = nn.Parameter(gd.ones(8))
    for _ in range(300):
        ((w * 2).exp().sum()).backward()
    stop.set()
    thread.join()
    assert all((values(t) == k).all() for k, t in kept)
    np.testing.assert_allclose(values(w.grad), 300 * 2 * np.exp(2), rtol=1e-4)


# ---- Piling up --------------------------------------------------------------------------------------------------

PILE = """
import gradino as gd, numpy as np
w = gd.nn.Parameter(gd.ones(1000, 1000))
for _ in range(100):
    y = (w * 2).sum()
    {use}
"""


@pytest.mark.parametrize("use", ["y.backward()", "y.detach().numpy()", "y.tolist()", "float(y)"])
def test_allocations_outside_step_arenas_warn_once_and_say_what_to_write(use: str) -> None:
    done = python(PILE.format(use=use))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning") == 1, done.stderr
    assert "with gd.step_arena():" in done.stderr and "MiB" in done.stderr


def test_many_small_tensors_outside_step_arenas_warn() -> None:
    done = python("import gradino as gd\nx = gd.ones(1)\nfor _ in range(740_000): x.reshape(1)\nx.tolist()")
    assert done.stderr.count("RuntimeWarning") == 1 and "tensors were made outside" in done.stderr, done.stderr


def test_inside_step_arenas_nothing_warns() -> None:
    code = PILE.replace("    y =", "    with gd.step_arena():\n     y =").replace("    {use}", "     y.backward()")
    done = python(code)
    assert done.returncode == 0 and done.stderr == "", done.stderr
