"""The profiler: what ran, how often, with which shapes, bytes and operations; ranges; traces; a full ring."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import gradino as gd
from gradino import nn
from gradino._lib import ffi, lib
from gradino.nn import functional as F
from gradino.profiler import KernelEvent, ProfilerActivity, counting, profile, record_function


@pytest.fixture(autouse=True)
def quick_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that need not be measured."""
    monkeypatch.setattr(counting, "_limits", lambda threads: (1e11, 1e10))


def kernels(prof: profile) -> list[KernelEvent]:
    return [e for e in prof.events() if isinstance(e, KernelEvent)]


def trained(steps: int = 3, **options: Any) -> profile:
    gd.manual_seed(0)
    model, x, y = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), gd.randn(5, 6), gd.randint(0, 3, (5,))
    opt = gd.optim.Adam(model.parameters())
    with profile(**options) as prof:
        for _ in range(steps):
            with gd.step_arena():
                F.cross_entropy(model(x), y).backward()
                opt.step()
                opt.zero_grad()
            prof.step()
    return prof


def test_what_runs_is_noted_with_shapes_bytes_and_operations() -> None:
    a, b = gd.ones(4, 3), gd.ones(3, 5)
    with profile() as prof:
        a @ b
        gd.exp(a)
    matmul, exp = kernels(prof)
    assert (matmul.name, matmul.input_shapes, matmul.result_shape, matmul.dtypes) == ("matmul", ((4, 3), (3, 5)), (4, 5), ("float32",) * 2)
    assert matmul.bytes == 4 * (12 + 15 + 20) and matmul.flops == 2 * 4 * 3 * 5
    assert exp.bytes == 2 * 4 * 12 and exp.flops == 20 * 12
    assert matmul.start < matmul.stop <= exp.start and matmul.thread == threading.get_native_id()


def test_an_expanded_input_is_read_once() -> None:
    x = gd.ones(3, 1).expand(3, 1000)
    with profile() as prof:
        x.exp()
    assert kernels(prof)[0].bytes == 4 * (3 + 3000)


def test_nothing_is_noted_outside() -> None:
    with profile() as prof:
        gd.ones(3)
    gd.ones(3).exp()
    assert [e.name for e in kernels(prof)] == ["fill"]
    with profile() as prof:
        pass
    assert not prof.events() and not prof.key_averages().entries


def test_forward_backward_and_optimizer() -> None:
    found = {a.key: a for a in trained().key_averages()}
    assert found["linear"].count == 6 and found["d(relu): relu_bwd"].count == 3 and found["adam"].count >= 3
    assert found["d(linear): matmul"].count == 9, "no gradient goes to the input"
    most = 3 * 4 * 7 * (48 + 16 + 32 + 16)  # values, gradients and two moments, each parameter padded to 64 bytes
    assert 3 * 4 * 7 * (48 + 8 + 24 + 3) <= found["adam"].bytes <= most
    assert {f"ProfilerStep#{k}" for k in range(3)} <= set(found)


def test_bytes_and_operations_add_up() -> None:
    prof = trained()
    averages = prof.key_averages()
    total = averages.total_average()
    assert total.count == len(kernels(prof)) and total.bytes == sum(e.bytes for e in kernels(prof))
    assert total.flops == sum(e.flops for e in kernels(prof))
    assert prof.self_cpu_time_total == pytest.approx(sum(e.cpu_time_total for e in kernels(prof)))
    by_shape = prof.key_averages(group_by_input_shape=True)
    assert sum(a.count for a in by_shape if not a.is_range) == total.count and len(by_shape) > len(averages)
    assert len({a.input_shapes for a in by_shape if a.key == "linear"}) == 2


def test_table() -> None:
    averages = trained().key_averages()
    text = averages.table(sort_by="count", row_limit=2)
    lines = text.splitlines()
    assert "Self CPU" in lines[1] and "of limit" in lines[1] and len({len(line) for line in lines[:6]}) == 1
    assert "rows are not shown." in text and "Limit: 100 GFLOP/s, 10.0 GB/s" in text
    counts = [a.count for a in sorted(averages, key=lambda a: -a.count)]
    assert lines[3].split()[-1].endswith("%") and f" {counts[0]} " in lines[3]
    assert "of limit" not in averages.table(limits=False)
    assert [line.split()[0] for line in averages.table(top_level_events_only=True, limits=False).splitlines()[3:6]] == [
        "ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2",
    ]  # fmt: skip
    with pytest.raises(gd.InvalidValueError, match="sort_by is 'x'"):
        averages.table(sort_by="x")


def test_ranges_know_what_is_inside() -> None:
    @record_function("decorated")
    def work() -> gd.Tensor:
        return gd.ones(100).exp()

    with profile() as prof, record_function("whole"):
        work()
        gd.zeros(3)
    ranges = {a.key: a for a in prof.key_averages() if a.is_range}
    ops = sum(e.cpu_time_total for e in kernels(prof))
    assert ranges["whole"].cpu_time_total - ranges["whole"].self_cpu_time_total == pytest.approx(ops)
    assert ranges["decorated"].cpu_time_total <= ranges["whole"].cpu_time_total
    assert work.__name__ == "work"
    with record_function("outside"):
        pass
    assert "outside" not in [a.key for a in prof.key_averages()]


def test_other_threads_are_seen() -> None:
    with profile() as prof:
        thread = threading.Thread(target=lambda: gd.ones(5).exp())
        thread.start()
        thread.join()
        gd.zeros(2)
    assert len({e.thread for e in kernels(prof)}) == 2


def test_a_ring_may_grow_while_another_thread_is_at_work() -> None:
    done = threading.Event()

    def work() -> None:
        with gd.no_grad():
            while not done.is_set():
                with gd.step_arena():
                    gd.ones(4).exp()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for capacity in range(5000, 50000, 1000):
            with profile(capacity=capacity) as prof:
                gd.zeros(3).sin()
            assert "sin" in [e.name for e in kernels(prof)], f"capacity {capacity}"
    finally:
        done.set()
        thread.join()


def test_a_full_ring_keeps_the_newest_and_says_so() -> None:
    x = gd.ones(3)
    with profile(capacity=4) as prof:
        for _ in range(5):
            x.exp()
        x.log()
        x.sin()
    assert [e.name for e in kernels(prof)] == ["exp", "exp", "log", "sin"] and prof.lost == 3
    assert "first 3 events were lost" in prof.key_averages().table(limits=False)


def test_chrome_trace(tmp_path: Path) -> None:
    prof = trained()
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ops = [e for e in events if e["ph"] == "X" and e["cat"] == "cpu_op"]
    assert len(ops) == len(kernels(prof)) and all(e["dur"] >= 0 and e["ts"] >= 0 for e in ops)
    assert {"Input Dims", "bytes", "flops", "Input type"} <= set(ops[0]["args"])
    assert any(e["ph"] == "C" and e["args"]["bytes"] > 0 for e in events) and any(e["cat"] == "user_annotation" for e in events)


def test_arena_use_is_noted() -> None:
    with gd.Arena(name="seen") as arena, profile() as prof:
        gd.ones(1000)
        mark = arena.mark()
        gd.ones(1000)
        arena.rewind(mark)
        arena.reset()
    arena.close()
    seen = [e for e in prof.arena_events if prof.arena_names.get(e.arena) == "seen"]
    assert [e.name for e in seen] == ["fill", "mark", "fill", "rewind", "reset"]
    assert [e.used for e in seen] == [4032, 4032, 8064, 4032, 0] and [e.made for e in seen] == [4000, 0, 4000, 0, 0]


def test_a_profile_takes_no_memory_of_arenas_while_it_runs() -> None:
    x = gd.ones(64)
    with gd.Arena() as arena:
        used = []
        for on in (False, True):
            if on:
                lib.gd_profile_start(100)
            arena.reset()
            x.exp()
            used.append(arena.stats().used)
            if on:
                lib.gd_profile_stop()
    arena.close()
    assert used[0] == used[1]


@pytest.mark.parametrize("option", ["schedule", "on_trace_ready", "with_stack", "with_modules", "experimental_config"])
def test_what_is_not_supported_says_so(option: str) -> None:
    with pytest.raises(gd.InvalidValueError, match=f"{option}= is not supported"):
        profile(**{option: True})


def test_misuse() -> None:
    with pytest.raises(gd.InvalidValueError, match="room for 0 events"):
        profile(capacity=0).start()
    assert profile(activities=[ProfilerActivity.CPU])
    with pytest.raises(gd.InvalidValueError, match="not supported"):
        profile(activities=["cuda"])  # type: ignore[list-item]
    with profile() as prof:
        with pytest.raises(gd.GradinoError, match="running already"):
            profile().start()
        gd.ones(2)
    with pytest.raises(gd.GradinoError, match="does not run"):
        prof.stop()
    with pytest.raises(ValueError), profile() as prof:
        gd.ones(2)
        raise ValueError
    assert len(kernels(prof)) == 1, "an exception ends it, too"
    with pytest.raises(gd.InvalidValueError, match="group_by_stack_n"):
        prof.key_averages(group_by_stack_n=1)


def test_operations_of_products() -> None:
    assert counting.flops_of("linear", [(7, 3), (5, 3), (5,)], (7, 5), 21, False) == 2 * 7 * 3 * 5
    assert counting.flops_of("conv", [(2, 4, 9, 9), (8, 2, 3, 3)], (2, 8, 7, 7), 0, False) == 2 * (2 * 8 * 49) * 2 * 9
    assert counting.flops_of("conv_bwd_input", [(2, 8, 7, 7), (8, 2, 3, 3)], (2, 4, 9, 9), 0, False) == 2 * (2 * 8 * 49) * 2 * 9
    assert counting.flops_of("conv_bwd_weight", [(2, 8, 7, 7), (2, 4, 9, 9)], (8, 2, 3, 3), 0, False) == 2 * (2 * 8 * 49) * 2 * 9
    q, k = (2, 3, 5, 8), (2, 3, 7, 8)
    assert counting.flops_of("attention", [q, k, k], q, 0, False) == 2 * 2 * 2 * 3 * 5 * 7 * 8
    assert counting.flops_of("attention_bwd", [q, q, k], q, 0, False) == 5 * 2 * 2 * 3 * 5 * 7 * 8
    assert counting.flops_of("lstm", [(4, 2, 3)], (4, 2, 5), 0, False) == 8 * 4 * 2 * 5 * 8 + 100 * 40
    assert counting.flops_of("adam", [(10,)], (), 10, True) == 140
    assert counting.flops_of("no such op", [(10,)], (10,), 10, False) == 10


def test_the_ring_can_be_read_in_part() -> None:
    lib.gd_profile_start(8)
    gd.ones(2).exp()
    assert lib.gd_profile_stop() == 2
    out = ffi.new("gd_profile_event[1]")
    assert lib.gd_profile_read(out, 1) == 2 and ffi.string(lib.gd_profile_name(out[0].op)) == b"fill"
