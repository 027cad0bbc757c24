"""`python -m gradino bench`: the limits of this machine, and the share of them that kernels reach.

A limit is the best of many samples of a loop in C; a kernel's figure is the best of many calls from Python in a
step arena of their own, with what Python takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import gradino as gd
from gradino import config
from gradino.functions.pointwise import add, exp
from gradino.functions.reductions import sum as total
from gradino.tools import machine, probe

LONG = 1 << 24  # elements of a vector that no cache holds
COLUMNS = 4096  # of the same as a matrix
PARAMETERS = 10_000_000
SQUARES = (64, 256, 512, 1024, 2048)
STEPS, SEQUENCES, INPUTS, UNITS = 28, 64, 28, 128  # of the LSTM
SMALL = 1 / 64  # of the sizes, for a first look
SECONDS = probe.SECONDS  # of one figure


@dataclass(frozen=True)
class Figure:
    """One line of the table: `value` is a rate, or a time in microseconds."""

    name: str
    threads: int
    value: float
    unit: str  # GFLOP/s, GB/s or us
    limit: str = ""  # the name of the figure that bounds it
    share: float | None = None  # of that limit


@dataclass(frozen=True)
class Kernel:
    """What to measure: `make` returns the call; `work` counts operations or bytes, by the unit of the limit."""

    name: str
    limit: str
    work: float
    make: Callable[[], Callable[[], Any]]


GFLOPS, GBS = "GFLOP/s", "GB/s"
UNITS_OF = {**dict.fromkeys(probe.ARITHMETIC, GFLOPS), **dict.fromkeys(probe.MEMORY, GBS)}
LIMIT_NAMES = {
    "float32": "fused multiply-adds, float32",
    "float64": "fused multiply-adds, float64",
    "bfloat16": "dot products of bfloat16 pairs",
    "copy": "copy: a = b",
    "triad": "triad: a = b + 3 c",
    "update": "update in place: a = a + 3 b",
    "read": "reading: sum of a",
}


def seconds_of(step: Callable[[], Any], seconds: float = probe.SECONDS) -> float:
    """Seconds of a call in a step arena of its own, the best of many."""

    def sample() -> float:
        start = time.perf_counter()
        with gd.step_arena():
            step()
        return time.perf_counter() - start

    sample()
    return probe.least(sample, seconds)


# ---- What is measured -----------------------------------------------------------------------------------------


def product(n: int, dtype: str) -> Kernel:
    """A square matrix product."""

    def make() -> Callable[[], Any]:
        a, b = gd.randn(n, n).to(dtype), gd.randn(n, n).to(dtype)
        return lambda: a @ b

    return Kernel(f"matmul {n} x {n} x {n}, {dtype}", dtype, 2.0 * n**3, make)


def over_memory(name: str, function: Callable[..., Any], n: int, read: int, written: int, columns: int = 0) -> Kernel:
    """A call on `read` float32 tensors of n elements, which writes `written` as large ones."""

    def make() -> Callable[[], Any]:
        tensors = [gd.rand(n // columns, columns) if columns else gd.rand(n) for _ in range(read)]
        return lambda: function(*tensors)

    size = f"{n // columns} x {columns}" if columns else f"{n} elements"
    limit = "read" if not written else "triad" if read > 1 else "copy"
    return Kernel(f"{name}, {size}", limit, 4.0 * n * (read + written), make)


def adamw(n: int) -> Kernel:
    """An AdamW step: parameter, gradient and two moments are read, all but the gradient written."""

    def make() -> Callable[[], Any]:
        p = gd.nn.Parameter(gd.rand(n))
        p.grad = gd.rand(n)
        return gd.optim.AdamW([p]).step

    return Kernel(f"AdamW, {n} parameters", "update", 28.0 * n, make)


def lstm(steps: int, batch: int, inputs: int, units: int) -> Kernel:
    """Forward and backward of an LSTM layer: its products, counted once forward and twice backward (no gradient of x)."""

    def make() -> Callable[[], Any]:
        layer, x = gd.nn.LSTM(inputs, units), gd.randn(steps, batch, inputs)

        def step() -> None:
            layer(x)[0].sum().backward()
            for p in layer.parameters():
                p.grad = None

        return step

    flops = 2.0 * steps * batch * 4 * units * (2 * inputs + 3 * units)
    return Kernel(f"LSTM {inputs}-{units}, {steps} steps, batch {batch}, forward and backward", "float32", flops, make)


def kernels(scale: float = 1.0) -> Iterator[Kernel]:
    """The list; `scale` makes the sizes smaller, to see that everything works."""
    n = max(int(LONG * scale), COLUMNS)
    for size in SQUARES:
        if size <= 512 or scale == 1:
            yield product(size, "float32")
    yield product(512, "float64")
    if hasattr(gd, "bfloat16"):
        yield product(512, "bfloat16")
    yield over_memory("a + b", add, n, 2, 1)
    yield over_memory("exp", exp, n, 1, 1)
    yield over_memory("sum", total, n, 1, 0)
    yield over_memory("softmax", lambda x: gd.nn.functional.softmax(x, -1), n, 1, 1, COLUMNS)
    yield adamw(max(int(PARAMETERS * scale), 1))
    yield lstm(STEPS, max(int(SEQUENCES * scale), 2), INPUTS, UNITS)


# ---- Measuring --------------------------------------------------------------------------------------------------


def limits(threads: int, scale: float = 1.0, seconds: float = probe.SECONDS) -> dict[str, Figure]:
    """The machine's limits with that many threads, by the names that kernels refer to."""
    with probe.threads(threads):
        rates = {dtype: probe.arithmetic(dtype, seconds=seconds) for dtype in probe.ARITHMETIC}
        rates |= probe.memory(max(int(probe.ELEMENTS * scale), 1024), seconds)
        found = {key: Figure(LIMIT_NAMES[key], threads, rate / 1e9, UNITS_OF[key]) for key, rate in rates.items() if rate}
        if threads > 1:
            found["region"] = Figure("a parallel region in which all threads meet", threads, 1e6 * probe.region(seconds), "us")
    return found


def reached(kernel: Kernel, threads: int, bounds: dict[str, Figure], seconds: float = probe.SECONDS) -> Figure:
    """What a kernel reaches; without a share where there is no limit to compare with."""
    with gd.Arena(name="bench") as arena, probe.threads(threads):
        rate = kernel.work / seconds_of(kernel.make(), seconds) / 1e9
    arena.close()
    bound = bounds.get(kernel.limit)
    return Figure(kernel.name, threads, rate, UNITS_OF[kernel.limit], kernel.limit, rate / bound.value if bound else None)


def call_overhead(seconds: float = probe.SECONDS) -> Figure:
    """What an op on one element costs from Python."""
    calls = 1000
    x = gd.ones(1)

    def step() -> None:
        for _ in range(calls):
            add(x, x)

    with gd.Arena(name="bench") as arena, probe.threads(1):
        taken = seconds_of(step, seconds)
    arena.close()
    return Figure("a + b on one element, called from Python", 1, 1e6 * taken / calls, "us")


def measure(threads: list[int], scale: float = 1.0, seconds: float = probe.SECONDS) -> dict[str, Any]:
    """All figures, with what it takes to judge them."""
    name, flags = machine.cpu()
    bounds = {n: limits(n, scale, seconds) for n in threads}
    with gd.no_grad():
        overhead = call_overhead(seconds)
    return {
        "gradino": gd.__version__,
        "processor": name,
        "instruction sets": flags,
        "kernel set": config.get_isa(),
        "load": machine.load(),
        "share": machine.share(max(threads)),
        "quick": scale != 1,
        "limits": [asdict(figure) for n in threads for figure in bounds[n].values()] + [asdict(overhead)],
        "kernels": [asdict(reached(kernel, n, bounds[n], seconds)) for kernel in kernels(scale) for n in threads],
    }


# ---- Showing ------------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def cell(figure: dict[str, Any] | None) -> str:
    """As in a table."""
    if figure is None:
        return ""
    share = "" if figure["share"] is None else f", {100 * figure['share']:3.0f}%"
    return f"{number(figure['value'])} {figure['unit']}{share}"


def rows(figures: list[dict[str, Any]], threads: list[int]) -> list[list[str]]:
    """A line per name with a cell per thread count."""
    by_name: dict[str, dict[int, dict[str, Any]]] = {}
    for figure in figures:
        by_name.setdefault(figure["name"], {})[figure["threads"]] = figure
    return [[name, *(cell(found.get(n)) for n in threads)] for name, found in by_name.items()]


def as_text(result: dict[str, Any], threads: list[int]) -> str:
    """The table for people."""
    head = ["", *(f"{n} thread{'s' if n > 1 else ''}" for n in threads)]
    parts = [("Limits", rows(result["limits"], threads)), ("Kernels, and their share of the limit", rows(result["kernels"], threads))]
    table = [head, *(line for _, lines in parts for line in lines)]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]

    def laid_out(line: list[str]) -> str:
        return "  ".join([f"  {line[0]:{widths[0]}}", *(f"{text:>{width}}" for text, width in zip(line[1:], widths[1:]))]).rstrip()

    lines = [f"{result['processor']}; gradino {result['gradino']}, {result['kernel set']}", laid_out(head)]
    for title, found in parts:
        lines += [title, *map(laid_out, found)]
    if result["share"] < machine.ENOUGH:
        lines.append(f"Other work took {100 - 100 * result['share']:.0f}% of the processors: these figures say little.")
    if result["quick"]:
        lines.append("Taken with --quick: these figures say nothing.")
    return "\n".join(lines)
