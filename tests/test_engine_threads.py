"""The engine under threads, forks and interrupts: every thread's work is as if it were alone, in a child as in its parent."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import PROGRAMS, check, compile_with_library
from helpers import values

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim
from gradino._lib import lib

pytestmark = pytest.mark.own_arenas


def lstm_training(seed: int, steps: int = 6) -> list[np.ndarray]:
    """Loss of each step and the weights at the end, of a model whose numbers come from NumPy."""
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32) / 4

    model = nn.Sequential(nn.Linear(24, 40), nn.Tanh())
    lstm, head = nn.LSTM(40, 32), nn.Linear(32, 5)
    parameters = [*model.parameters(), *lstm.parameters(), *head.parameters()]
    with gd.no_grad(), gd.step_arena():
        for p in parameters:
            p.copy_(gd.tensor(numbers(*p.shape)))
    opt = optim.AdamW(parameters, lr=1e-2)
    x, y = gd.tensor(numbers(7, 33, 24)), gd.tensor(rng.integers(0, 5, 33))
    losses = []
    for k in range(steps):
        with gd.step_arena():
            loss = F.cross_entropy(head(lstm(model(x))[0][-1]), y)
            if k % 2:
                loss.backward(optimizer=opt)
            else:
                loss.backward()
                opt.step()
                opt.zero_grad()
            losses.append(loss.numpy() if not loss.requires_grad else loss.detach().numpy())
    return [np.array(losses), *(values(p) for p in parameters)]


def run_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    results: list[Any] = [None] * count

    def run(k: int) -> None:
        try:
            results[k] = work(k)
        except BaseException as error:
            results[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in results:
        if isinstance(r, BaseException):
            raise r
    return results


@pytest.mark.parametrize("engine_threads", [1, 2])
def test_many_threads_train_models_of_their_own(engine_threads: int) -> None:
    before = gd.get_num_threads()
    gd.set_num_threads(engine_threads)
    try:
        alone = [lstm_training(seed) for seed in range(2)]
        for k, result in enumerate(run_threads(6, lambda k: lstm_training(k % 2))):
            for got, want in zip(result, alone[k % 2]):
                np.testing.assert_array_equal(got, want, err_msg=f"thread {k}")
    finally:
        gd.set_num_threads(before)


def test_threads_make_and_drop_parameters_at_once() -> None:
    def work(k: int) -> None:
        rng = np.random.default_rng(k)
        kept: list[tuple[float, nn.Parameter, np.ndarray]] = []
        for _ in range(300):
            value, n = float(rng.integers(1000)), int(rng.integers(1, 200))
            p = nn.Parameter(gd.full((n,), value))
            with gd.step_arena():
                (p * 2).sum().backward()
            kept.append((value, p, p.detach().numpy()))
            if len(kept) > 8:
                value, p, view = kept.pop(int(rng.integers(8)))
                assert (values(p) == value).all() and (values(p.grad) == 2).all()
                del p
                assert (view == value).all()

    run_threads(4, work)


def test_the_c_program_of_many_threads(tmp_path: Path) -> None:
    program = compile_with_library(tmp_path / "threads", PROGRAMS / "threads.c")
    assert check([program, 6, 40]) == "all is well\n"


# ---- Fork (M05) -------------------------------------------------------------------------------------------------

FORK = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
import gradino as gd
from gradino import nn
from test_engine_threads import lstm_training

gd.set_num_threads(3)
expect = lstm_training(1)
kept = gd.full((1000,), 3.0).numpy()
stop = False

def allocate():  # takes every lock there is, all the time
    arena = gd.Arena()
    while not stop:
        with arena:
            views = [gd.ones(50).numpy() for _ in range(5)]
        p = nn.Parameter(gd.ones(100))
        with gd.step_arena():
            (p * 2).sum().backward()
        del p, views
        arena.reset()
        gd.memory_stats()

def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))

def child():
    ok = same(lstm_training(1), expect)
    with gd.Arena() as arena:
        mark = arena.mark()
        t = gd.ones(100_000)
        view = t.numpy()
        arena.rewind(mark)
        gd.zeros(200_000)
        ok = ok and (view == 1).all()
    arena.close()
    with gd.step_arena():
        a = gd.ones(300, 300)
        ok = ok and (a @ a).sum().item() == 300.0**3
    gd.set_num_threads(2)
    return ok and (kept == 3).all() and same(lstm_training(1), expect)

others = [threading.Thread(target=f) for f in (allocate, allocate, lambda: [lstm_training(2) for _ in iter(lambda: stop, True)])]
for other in others:
    other.start()
for k in range(15):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # the machine may be slow; a deadlock stands for ever
        os._exit(0 if child() else 1)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"child {k}: status {status} (14: it hung)"
stop = True
for other in others:
    other.join()
assert same(lstm_training(1), expect)
print("ok")
"""


def test_m05_children_of_a_busy_process_work() -> None:
    assert check([sys.executable, "-W", "ignore", "-c", FORK, Path(__file__).parent], timeout=300).strip() == "ok"


def test_m05_a_child_that_resets_does_not_touch_its_parent() -> None:
    code = """
import os, sys
import numpy as np
import gradino as gd
with gd.step_arena() as arena:
    t = gd.full((10_000,), 5.0)
    p = gd.nn.Parameter(t)
    pid = os.fork()
    if pid == 0:
        arena.reset()
        gd.full((20_000,), -1.0)
        p.data = gd.zeros(10_000)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert t.sum().item() == 50_000 and p.sum().item() == 50_000
print("ok")
"""
    assert check([sys.executable, "-W", "ignore", "-c", code]).strip() == "ok"


# ---- Interrupts -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_an_interrupt_anywhere_in_a_step_leaves_the_next_one_as_it_was() -> None:
    """A timer raises KeyboardInterrupt at some place of a training step, a different one in each round.

    Python itself may drop a `with` block while it enters or leaves it; such a scope is left here by hand.
    """

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))
    opt = optim.SGD(model.parameters(), lr=0.0)
    x, y = gd.randn(16, 20), gd.zeros(16, dtype=gd.int64)
    arena = gd.Arena(name="mine")

    def step() -> float:
        with gd.step_arena():
            with arena, gd.no_grad():
                scale = model(x).mean()
            loss = F.cross_entropy(model(x * (1 + 0 * scale)), y)
            with gd.enable_grad():
                loss.backward()
            opt.step()
            opt.zero_grad()
            return float(loss.item())

    expect = step()
    weights = [values(p) for p in model.parameters()]
    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = dropped = 0
    try:
        for k in range(600):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + k * 5e-7)
                step()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            dropped += leave_all_scopes()
            opt.zero_grad()
            arena.reset()
            assert step() == expect
            assert gd.active_arena() == gd.permanent_arena() and gd.is_grad_enabled()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 20, f"only {interrupted} of 600 steps were interrupted"
    assert dropped < interrupted
    for p, want in zip(model.parameters(), weights):
        np.testing.assert_array_equal(values(p), want)
    arena.close()


def leave_all_scopes() -> int:
    """Leaves what this thread has open, from the inside out; says whether there was anything."""
    if gd.active_arena() == gd.permanent_arena() and gd.is_grad_enabled():
        return 0
    probe: int = lib.gd_grad_mode_enter(1)  # ids of scopes and modes count up together
    for number in range(probe, max(probe - 1000, 0), -1):
        lib.gd_scope_exit(number)
        lib.gd_grad_mode_exit(number, 0)
    return 1
