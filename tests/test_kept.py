"""What keep() puts into the permanent arena goes when nothing needs it any more: no loop makes it grow."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from building import run

import gradino as gd
import gradino.nn.functional as F
from gradino import _lib, nn

pytestmark = pytest.mark.own_arenas


def used() -> int:
    return gd.permanent_arena().stats().used


def kept(*values: float) -> gd.Tensor:
    with gd.step_arena():
        return gd.tensor([float(v) for v in values]).keep()


def test_a_loop_that_keeps_takes_no_more_room_in_the_end() -> None:
    """A hidden state carried along, and the loss of each step."""
    h, before = kept(*[0.0] * 300), 0
    for k in range(100_000):
        with gd.step_arena():
            loss = (h + 1).keep()
            h = loss.keep()
        if k == 100:
            before = used()
    assert used() == before
    assert h.tolist() == [100_000.0] * 300


def test_a_state_trained_through_takes_no_more_room() -> None:
    cell, sizes = nn.LSTMCell(3, 5), set()
    state = None
    for k in range(300):
        with gd.step_arena():
            state = cell(gd.ones(2, 3), state)
            state[0].sum().backward()
            state = state[0].detach().keep(), state[1].keep()
        if k > 20:
            sizes.add(used())
    assert len(sizes) == 1


def test_sizes_of_all_kinds_use_their_places_again() -> None:
    sizes = (0, 1, 16, 17, 1023, 1024, 1025, 1152, 1153, 2048, 5000, 100_000)

    def rounds(count: int) -> None:
        for k in range(count):
            for n in sizes:
                with gd.step_arena():
                    t = gd.full((n,), float(k)).keep()
                assert (t.detach().sum().item() if n else 0) == n * k
                assert t.shape == (n,)

    rounds(3)
    before = used()
    with gd.step_arena():
        rounds(20)
    assert used() == before


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t[1:],
        lambda t: t.reshape(2, 2),
        lambda t: t.detach(),
        lambda t: t.T if t.ndim == 2 else t.unsqueeze(0),
        lambda t: t.squeeze(),
        lambda t: t.to(gd.float32),
        lambda t: t.float(),
        lambda t: t.contiguous(),
        lambda t: F.dropout(t, 0.0),
        lambda t: nn.Dropout(0.0)(t),
        lambda t: nn.Identity()(t),
        lambda t: t.add_(0),
        lambda t: t.requires_grad_(),
        lambda t: gd.clamp(t, min=0),
        lambda t: t.expand(4),
    ],
)
@pytest.mark.parametrize("inside", [True, False])
def test_what_shares_a_kept_tensor_keeps_it(make: Callable[[gd.Tensor], gd.Tensor], inside: bool) -> None:
    with gd.step_arena() if inside else gd.permanent_arena():
        source = kept(1, 2, 3, 4)
        shared = make(source)
        want = shared.tolist()
        del source
        gc.collect()
        others = [kept(9, 9, 9, 9) for _ in range(50)]
        assert shared.tolist() == want and len(others) == 50


def test_a_graph_keeps_what_it_needs() -> None:
    for nested in (False, True):
        with gd.step_arena():
            x = gd.ones(3, requires_grad=True)
            t = kept(1, 2, 3)
            y = (x * t).sum()
            if nested:
                with gd.step_arena():
                    (x * t).sum().backward()
                x.grad = None
            del t
            others = [kept(7, 7, 7) for _ in range(50)]
            y.backward()
            assert x.grad.tolist() == [1, 2, 3] and len(others) == 50


def test_a_kept_leaf_with_a_gradient_stays() -> None:
    with gd.step_arena():
        w = kept(1, 2).requires_grad_()
        y = (w * w).sum()
        y.backward()
        grad = w.grad
        del w
        others = [kept(5, 5) for _ in range(50)]
        assert grad.tolist() == [2, 4] and len(others) == 50


def test_an_array_over_a_kept_tensor_stays_valid() -> None:
    arrays = [kept(k, k).numpy() for k in range(50)]
    for k, array in enumerate(arrays):
        np.testing.assert_array_equal(array, [k, k])


def test_finalisers_leave_a_waiting_error_alone() -> None:
    """Garbage is collected at any moment, also between a failure and the exception that reports it."""
    lib, text = _lib.lib, _lib.text
    handle = gd.ones(2)._h
    array = kept(1, 2).numpy()
    abandon = lib.gd_parameter_abandon
    for finalise in (lambda: abandon(handle), lambda: abandon(0), lambda: kept(3, 4), lambda: nn.Linear(2, 2)):
        assert not lib.gd_reshape(handle, 1, [3])
        before = lib.gd_last_status(), text(lib.gd_last_error())
        made = finalise()
        del made
        gc.collect()
        assert (lib.gd_last_status(), text(lib.gd_last_error())) == before
        lib.gd_clear_error()
    assert array.tolist() == [1, 2]


def test_a_handle_whose_place_was_used_again_is_stale() -> None:
    """Nobody can come by one from Python, but a mistake must not read another tensor."""
    t = kept(1, 2)
    handle = t._h
    del t
    for _ in range(3):
        kept(3, 4)
    with pytest.raises(gd.StaleTensorError):
        gd._core.wrap(handle).sum()


def test_threads_keep_and_drop_at_once() -> None:
    """Also tensors that another thread made."""
    shared: list[tuple[int, gd.Tensor]] = []
    errors: list[str] = []

    def work(seed: int) -> None:
        mine = [(seed, kept(seed, seed, seed))]
        for k in range(2000):
            shared.append((seed * 10_000 + k, kept(*[seed * 10_000 + k] * 3)))
            mine.append(shared.pop(0) if k % 3 else mine[0])
            want, t = mine.pop(0)
            if t.tolist() != [want] * 3:
                errors.append(f"{t.tolist()} instead of {want}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[:3]


def test_the_warning_counts_what_was_kept() -> None:
    code = (
        "import gradino as gd, warnings\n"
        "held = []\n"
        "with gd.step_arena():\n"
        "    x = gd.ones(1 << 20)\n"
        "    with warnings.catch_warnings(record=True) as seen:\n"
        "        warnings.simplefilter('always')\n"
        "        for k in range(70):\n"
        "            held.append(x.keep()); held[-1].requires_grad\n"
        "print(sum('step arena' in str(w.message) for w in seen))\n"
    )
    done = run([sys.executable, "-c", code])
    assert done.stdout.strip() == "1", done.stderr


def test_objects_that_outlive_their_modules_go_quietly() -> None:
    """The interpreter sets a module's names to None before its last objects die."""
    program = """
import gradino as gd, gradino.nn.parameter as parameter, gradino.tensor as tensor
p, k = gd.nn.Parameter(gd.ones(2)), gd.ones(2).keep()
p.register_hook(lambda g: g)
for module in (parameter, tensor):
    module._calls = module.lib = None
del p, k
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
