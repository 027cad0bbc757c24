#!/usr/bin/env python3
"""Row kernels beside PyTorch and beside a copy: softmax, losses, norms and sums on 16 M float32, one thread each.

Each result is first compared with PyTorch's; then a copy of as many bytes, gradino and PyTorch take turns. A
share is the bytes that must be read and written, by the time, as part of the rate of a copy: the faster of memcpy
and a loop that writes past the caches. `--paste` puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import machine
import numpy as np
import report

import gradino as gd
from gradino._core import wrap
from gradino._lib import ffi, op_id
from gradino._lib import lib as native

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
ELEMENTS = 1 << 24
COLUMNS = 1024
ROUNDS = 7
RTOL = 1e-4


class Row(NamedTuple):
    """A line of the table: what either library does, and how many times the input's bytes pass through memory."""

    name: str
    passes: int
    make: Callable[[Any], Callable[[], Any]]  # from a Library to what is timed
    shape: tuple[int, ...] = (ELEMENTS // COLUMNS, COLUMNS)


class Library(NamedTuple):
    """What the rows need of either library; inputs are made from the same NumPy arrays."""

    m: Any
    tensor: Callable[[np.ndarray], Any]
    array: Callable[[Any], np.ndarray]
    x: Any
    g: Any
    labels: Any


def forward(function: Callable[[Any, Any], Any]) -> Callable[[Library], Callable[[], Any]]:
    return lambda lib: lambda: function(lib.m, lib.x)


def backward(
    function: Callable[[Any, Any, Any], Any], ours: Callable[..., Any], inputs: Callable[[Library], list[Any]] = lambda lib: []
) -> Any:
    """The gradient alone, the forward pass was made before: `ours` calls the op that backward records, as it does for
    a tensor in the middle of a graph (the leaf's gradient would be a copy)."""

    def make(lib: Library) -> Callable[[], Any]:
        x, others = lib.x.detach().requires_grad_(), inputs(lib)
        y = function(lib, x, [t.requires_grad_() for t in others])
        g = lib.g.reshape(y.shape) if y.shape == x.shape else None
        if lib.m is gd:
            return lambda: ours(lib, y, *others)
        return lambda: lib.m.autograd.grad(y, [x, *others], g, retain_graph=True)[0]

    return make


def op(name: str, *tensors: Any, i: Sequence[int] = ()) -> gd.Tensor:
    """An op of the table by name."""
    attributes = ffi.new("gd_attr *")
    attributes.i[0 : len(i)] = list(i)
    with gd.no_grad():
        return wrap(native.gd_call(op_id(name), [0 if t is None else t._h for t in tensors], len(tensors), attributes))


def output(y: gd.Tensor, k: int) -> gd.Tensor:
    return wrap(native.gd_output(y._h, k))


def entropy_slope(library: Library, y: gd.Tensor) -> gd.Tensor:
    g = gd.ones(())
    return op("cross_entropy_bwd", g, library.x, library.labels, None, output(y, 1), output(y, 2), i=(-100, 1))


def norm_parameters(lib: Library) -> list[Any]:
    n = lib.x.shape[-1]
    return [lib.tensor(np.linspace(0.5, 1.5, n, dtype=np.float32)), lib.tensor(np.linspace(-1, 1, n, dtype=np.float32))]


def norm(function: Callable[..., Any]) -> Callable[[Library], Callable[[], Any]]:
    def make(lib: Library) -> Callable[[], Any]:
        parameters = norm_parameters(lib)
        return lambda: function(lib.m.nn.functional, lib.x, *parameters)

    return make


def layer_norm(f: Any, x: Any, w: Any, b: Any) -> Any:
    return f.layer_norm(x, (x.shape[-1],), w, b)


def rms_norm(f: Any, x: Any, w: Any, *_: Any) -> Any:
    return f.rms_norm(x, (x.shape[-1],), w, 1e-6)


def layer_norm_slopes(library: Library, y: gd.Tensor, w: gd.Tensor, b: gd.Tensor) -> gd.Tensor:
    return op("layer_norm_bwd", library.g, library.x, w, output(y, 1), i=(1, 7))


def rms_norm_slopes(library: Library, y: gd.Tensor, w: gd.Tensor) -> gd.Tensor:
    return op("rms_norm_bwd", library.g, library.x, w, output(y, 1), i=(1, 3))


ROWS: list[Row] = [
    Row("softmax, last of {}", 2, forward(lambda m, x: m.softmax(x, -1))),
    Row("softmax, first of {}", 2, forward(lambda m, x: m.softmax(x, 0)), (COLUMNS, ELEMENTS // COLUMNS)),
    Row("softmax, last of {}", 2, forward(lambda m, x: m.softmax(x, -1)), (ELEMENTS // 64, 64)),
    Row("softmax, gradient, {}", 3, backward(lambda lib, x, _: lib.m.softmax(x, -1), lambda lib, y: op("softmax_bwd", lib.g, y, i=(3,)))),
    Row("log_softmax, last of {}", 2, forward(lambda m, x: m.log_softmax(x, -1))),
    Row(
        "log_softmax, gradient, {}",
        3,
        backward(lambda lib, x, _: lib.m.log_softmax(x, -1), lambda lib, y: op("log_softmax_bwd", lib.g, y, i=(3,))),
    ),
    Row("cross_entropy {}", 1, lambda lib: lambda: lib.m.nn.functional.cross_entropy(lib.x, lib.labels)),
    Row("cross_entropy, gradient, {}", 2, backward(lambda lib, x, _: lib.m.nn.functional.cross_entropy(x, lib.labels), entropy_slope)),
    Row("layer_norm {}", 2, norm(layer_norm)),
    Row(
        "layer_norm, gradients, {}",
        3,
        backward(lambda lib, x, p: layer_norm(lib.m.nn.functional, x, *p), layer_norm_slopes, norm_parameters),
    ),
    Row("rms_norm {}", 2, norm(rms_norm)),
    Row(
        "rms_norm, gradients, {}",
        3,
        backward(lambda lib, x, p: rms_norm(lib.m.nn.functional, x, *p), rms_norm_slopes, lambda lib: norm_parameters(lib)[:1]),
    ),
    Row("sum of all {}", 1, forward(lambda m, x: m.sum(x))),
    Row("sum, last of {}", 1, forward(lambda m, x: m.sum(x, -1))),
    Row("sum, first of {}", 1, forward(lambda m, x: m.sum(x, 0))),
    Row("mean of all {}", 1, forward(lambda m, x: m.mean(x))),
    Row("mean, last of {}", 1, forward(lambda m, x: m.mean(x, -1))),
    Row("mean, first of {}", 1, forward(lambda m, x: m.mean(x, 0))),
    Row("amax, last of {}", 1, forward(lambda m, x: m.amax(x, -1))),
    Row("var of all {}", 1, forward(lambda m, x: m.var(x))),
    Row("logsumexp of all {}", 1, forward(lambda m, x: m.logsumexp(x, (0, 1)))),
    Row("argmax of all {}", 1, forward(lambda m, x: m.argmax(x))),
]


def libraries(shape: tuple[int, ...]) -> tuple[Library, Library]:
    import torch

    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    labels = rng.integers(0, shape[1], shape[0])
    return (
        Library(gd, gd.tensor, lambda t: t.detach().numpy(), *map(gd.tensor, (x, g, labels))),
        Library(torch, torch.from_numpy, lambda t: t.detach().numpy(), *map(torch.from_numpy, (x, g, labels))),
    )


def seconds(step: Callable[[], Any]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def in_arena(step: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        with gd.step_arena():
            step()

    return run


def measure(row: Row, rounds: int, copy: Callable[[], float]) -> tuple[float, float, float]:
    """Medians: seconds of gradino, ratio of PyTorch to it, seconds of the copy (twice the input's bytes)."""
    with gd.Arena(name="rows") as arena:
        ours, theirs = libraries(row.shape)
        mine, peer = row.make(ours), row.make(theirs)
        with gd.step_arena():
            a, b = ours.array(mine()), theirs.array(peer())
            worst, scale = float(np.abs(a - b).max()), float(np.abs(b).max())
            assert a.shape == b.shape and worst <= RTOL * scale, f"{row.name}: differs by {worst:.3g} of {scale:.3g}"
            del a
        mine = in_arena(mine)
        samples = []
        for _ in range(rounds + 1):
            samples.append((copy(), seconds(mine), seconds(peer), seconds(mine)))
        del ours, mine
    arena.close()
    samples = samples[1:]
    own = [min(s[1], s[3]) for s in samples]
    return statistics.median(own), statistics.median(s[2] / t for s, t in zip(samples, own)), min(s[0] for s in samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="(default: %(default)s)")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--paste", action="store_true", help="into docs/performance.md")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
    import torch

    torch.set_num_threads(args.threads)
    gd.set_num_threads(args.threads)
    source, target = gd.ones(ELEMENTS).numpy(), gd.zeros(ELEMENTS).numpy()
    libc, taken = ctypes.CDLL(None), ffi.new("double *")
    libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

    def memcpy() -> None:
        libc.memcpy(target.ctypes.data, source.ctypes.data, source.nbytes)

    def streamed() -> None:
        native.gd_probe(native.GD_PROBE_COPY, ELEMENTS, ffi.from_buffer(target), ffi.from_buffer(source), ffi.NULL, taken)

    def copy() -> float:
        return min(seconds(memcpy), seconds(streamed))

    lines, copies = [], []
    for row in ROWS:
        name = row.name.format(" x ".join(map(str, row.shape)))
        if args.only not in name:
            continue
        own, ratio, copied = measure(row, args.rounds, copy)
        copies.append(2 * source.nbytes / copied / 1e9)
        rate = row.passes * source.nbytes / own / 1e9
        lines.append([name, f"{own * 1e3:.2f} ms", f"{rate:.1f} GB/s", f"{100 * rate / copies[-1]:.0f}%", f"{ratio:.1f}x"])
    text = report.table(["", "gradino", "read and written", "of a copy", "PyTorch takes"], lines)
    name, flags = machine.cpu()
    text += (
        f"\n\n{name}; {' '.join(flags)}; {report.threads(args.threads)}; a copy: {statistics.median(copies):.1f} GB/s; "
        f"gradino {gd.__version__}, PyTorch {torch.__version__}; normal numbers of seed 0; medians of {args.rounds} rounds; "
        f"load averages {machine.load()}.\n"
    )
    print(text)
    if args.paste:
        report.paste(DOCUMENT, "rows", text)


if __name__ == "__main__":
    main()
