#!/usr/bin/env python3
"""Where the time of a small training step goes: Python, binding, recording, kernel, op by op.

Four loops time one call: from Python as users write it; the bare binding from Python; from C (probe.c); from
C with a batch of no rows, which does everything but arithmetic. Differences of neighbours are the columns;
where no batch is involved, what C takes stands under recording.
`--paste` puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import machine
import probe
import report

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim
from gradino._lib import ffi, lib, op_id

BATCH = 16
CALLS, SAMPLES = 100, 200
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


class Small:
    """Tensors of the 4-16-3 MLP with a batch of some rows; inside a step arena."""

    def __init__(self, model: nn.Sequential, x: gd.Tensor, y: gd.Tensor) -> None:
        self.x, self.y = x, y
        self.hidden = model[0](x)
        self.active = model[1](self.hidden)
        self.logits = model[2](self.active)
        self.loss = F.cross_entropy(self.logits, y)


class Row(NamedTuple):
    """One call, four ways. `python` and `binding` get a Small; `c` names a function of probe.c, `tensors` gives it its tensors."""

    name: str
    python: Callable[[Small], Any]
    binding: Callable[[Small], Any]
    c: str
    tensors: Callable[[Small], list[int]] = lambda s: [0]
    has_batch: bool = True


def linear(name: str, layer: nn.Linear, x: Callable[[Small], gd.Tensor]) -> Row:
    assert layer.bias is not None
    w, b = layer.weight._h, layer.bias._h
    return Row(name, lambda s: layer(x(s)), lambda s: lib.gd_linear(x(s)._h, w, b), "linear", lambda s: [x(s)._h, w, b])


def rows(model: nn.Sequential, opt: optim.AdamW) -> list[Row]:
    """The calls of a training step, in order."""
    layer, relu, native = model[1], op_id("relu"), opt._native

    def arena(_: Small) -> None:
        with gd.step_arena():
            pass

    return [
        Row("`with step_arena()`", arena, lambda s: lib.gd_scope_exit(lib.gd_scope_enter_step()), "scope", has_batch=False),
        linear("`Linear(4, 16)`", model[0], lambda s: s.x),
        Row("`ReLU`", lambda s: layer(s.hidden), lambda s: lib.gd_unary(relu, s.hidden._h), "unary", lambda s: [s.hidden._h, relu]),
        linear("`Linear(16, 3)`", model[2], lambda s: s.active),
        Row(
            "`cross_entropy`",
            lambda s: F.cross_entropy(s.logits, s.y),
            lambda s: lib.gd_cross_entropy(s.logits._h, s.y._h, 0, -100, 1, 0.0),
            "cross_entropy",
            lambda s: [s.logits._h, s.y._h],
        ),
        Row(
            "`backward()`",
            lambda s: s.loss.backward(retain_graph=True),
            lambda s: lib.gd_backward(s.loss._h, 0, True, False, ffi.NULL),
            "backward",
            lambda s: [s.loss._h],
        ),
        Row("`opt.step()`", lambda s: opt.step(), lambda s: lib.gd_optimizer_step(native), "step", has_batch=False),
        Row("`opt.zero_grad()`", lambda s: opt.zero_grad(), lambda s: lib.gd_optimizer_zero_grad(native), "zero_grad", has_batch=False),
        Row(
            "`loss.item()`",
            lambda s: s.loss.item(),
            lambda s: lib.gd_item_float(s.loss._h),
            "item",
            lambda s: [s.loss._h],
            has_batch=False,
        ),
    ]


def best(seconds: Callable[[], float]) -> float:
    """Microseconds of one call: the shortest of many samples, the one that nothing disturbed."""
    return 1e6 * min(seconds() for _ in range(SAMPLES)) / CALLS


def in_python(call: Callable[[Small], Any], make: Callable[[], Small]) -> float:
    """Microseconds of a call from a Python loop, the loop and the lambda around it not counted."""

    def seconds(function: Callable[[Small], Any]) -> float:
        with gd.step_arena():
            small = make()
            start = time.perf_counter()
            for _ in range(CALLS):
                function(small)
            return time.perf_counter() - start

    return best(lambda: seconds(call)) - best(lambda: seconds(lambda s: None))


def in_c(library: ctypes.CDLL, row: Row, opt: optim.AdamW, make: Callable[[], Small]) -> float:
    """Microseconds of a call from a C loop."""
    run = probe.function(library, row.c, ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p, ctypes.c_int64)
    native = int(ffi.cast("intptr_t", opt._native))

    def seconds() -> float:
        with gd.step_arena():
            tensors = row.tensors(make())
            return run((ctypes.c_uint64 * len(tensors))(*tensors), native, CALLS)

    return best(seconds)


def whole_step(model: nn.Sequential, opt: optim.AdamW, x: gd.Tensor, y: gd.Tensor) -> float:
    """Microseconds of the step itself."""

    def seconds() -> float:
        start = time.perf_counter()
        for _ in range(CALLS):
            with gd.step_arena():
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                opt.step()
                opt.zero_grad()
                loss.item()
        return time.perf_counter() - start

    return best(seconds)


def costs() -> str:
    """The table."""
    library = probe.require()
    gd.set_num_threads(1)
    gd.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    opt = optim.AdamW(model.parameters())
    x, y = gd.randn(BATCH, 4), gd.randint(0, 3, (BATCH,))
    whole = whole_step(model, opt, x, y)

    def full() -> Small:
        return Small(model, x, y)

    def empty() -> Small:
        return Small(model, x[:0], y[:0])

    lines: list[list[str]] = []
    total = [0.0] * 5
    with gd.step_arena():
        full().loss.backward()  # gives the optimizer something to do
    for row in rows(model, opt):
        python, binding = in_python(row.python, full), in_python(row.binding, full)
        c = in_c(library, row, opt, full)
        recording = min(in_c(library, row, opt, empty), c) if row.has_batch else c
        cells = [python - binding, binding - c, recording, c - recording, python]
        total = [t + cell for t, cell in zip(total, cells)]
        lines.append([row.name, *(f"{max(cell, 0):.2f}" for cell in cells)])
        if not row.has_batch:
            lines[-1][4] = ""
    lines.append(["all of these", *(f"{t:.2f}" for t in total)])
    lines.append(["the whole step, timed alone", "", "", "", "", f"{whole:.2f}"])
    return report.table(["us of one call", "Python", "binding", "recording", "kernel", "in all"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paste", action="store_true", help="into docs/performance.md")
    args = parser.parse_args()
    text = costs()
    name, flags = machine.cpu()
    text += (
        f"\n\nBest of {SAMPLES} samples of {CALLS} calls, 1 thread, float32. {name}; {' '.join(flags)}; "
        f"gradino {gd.__version__}; load averages {machine.load()}.\n"
    )
    print(text)
    if args.paste:
        report.paste(DOCUMENT, "costs", text)


if __name__ == "__main__":
    main()
