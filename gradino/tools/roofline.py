"""`python -m gradino bench --plot FILE`: every op of the table under this machine's roofline.

An op is placed by its arithmetic intensity (operations per byte of its inputs and results) and by the operations per
second it reaches, on tensors that no cache holds. A multiplication, addition, comparison, division or root counts as
one operation, an elementary function as 20 (about what its polynomial takes), a moved element as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradino as gd
from gradino import config
from gradino._core import wrap
from gradino._lib import check, ffi, lib, op_id, text
from gradino.tools import machine, probe
from gradino.tools.bench import limits, seconds_of

ROWS, COLUMNS = 4096, 2048  # of a matrix: 32 MiB of float32
CLASSES = 1024
PARAMETERS = 10_000_000
SECONDS = 0.1  # of one op
ELEMENTARY = 20
ELEMENTARY_OPS = (
    "exp expm1 log log1p log2 sin cos tanh sigmoid erf gelu gelu_tanh silu softplus gelu_bwd gelu_tanh_bwd silu_bwd softplus_bwd pow"
).split()
REDUCTIONS = {
    "sum": 1, "mean": 1, "prod": 1, "var": 4, "amax": 1, "amin": 1, "max_dim": 1, "min_dim": 1, "argmax": 1, "argmin": 1, "any": 1,
    "all": 1, "logsumexp": ELEMENTARY + 3,
}  # fmt: skip

Tensors = list["gd.Tensor | None"]


@dataclass(frozen=True)
class Recipe:
    """How an op is called: `make` gives inputs (None where absent) and attributes; `flops` is per element of the largest tensor."""

    family: str
    flops: float
    make: Callable[[], tuple[Tensors, tuple[int, ...], tuple[float, ...]]]
    call: Callable[[], gd.Tensor] | None = None  # instead of the op's number, for what needs no inputs
    total: float = 0.0  # operations of the whole call, instead of flops


@dataclass(frozen=True)
class Placed:
    """An op in the picture."""

    name: str
    family: str
    intensity: float  # operations per byte
    rate: float  # GFLOP/s


# ---- Recipes ----------------------------------------------------------------------------------------------------


def _x(rows: int, columns: int = COLUMNS) -> gd.Tensor:
    """Numbers in [0.5, 1.5), where every function is defined."""
    return gd.rand(rows, columns) + 0.5


def _raw(name: str, tensors: Tensors, i: tuple[int, ...] = (), f: tuple[float, ...] = ()) -> gd.Tensor:
    attributes = ffi.new("gd_attr *")
    attributes.i[0 : len(i)] = list(i)
    attributes.f[0 : len(f)] = list(f)
    return wrap(lib.gd_call(op_id(name), [0 if t is None else t._h for t in tensors], len(tensors), attributes))


def _elementwise(name: str, nin: int, n: int) -> Recipe:
    attributes: dict[str, tuple[tuple[int, ...], tuple[float, ...]]] = {
        "cast": ((lib.GD_FLOAT64,), ()), "clamp": ((), (0.6, 1.4)), "clamp_bwd": ((), (0.6, 1.4)), "softplus": ((), (1.0, 20.0)),
        "softplus_bwd": ((), (1.0, 20.0)),
    }  # fmt: skip
    flops = ELEMENTARY if name in ELEMENTARY_OPS else 3 if name.endswith("_bwd") else 1

    def make() -> tuple[Tensors, tuple[int, ...], tuple[float, ...]]:
        tensors: Tensors = [_x(n) for _ in range(nin)]
        if name == "where":
            tensors[0] = _x(n) > 1
        if name == "gcd" or name.startswith("bitwise_"):
            tensors = [t.int() + 1 for t in tensors if t is not None]
        return tensors, *attributes.get(name, ((), ()))

    return Recipe("elementwise", flops, make)


def _rows(n: int) -> Iterator[tuple[str, Recipe]]:
    """Reductions, softmax, norms, losses: along the last dimension."""
    for name, flops in REDUCTIONS.items():
        yield name, Recipe("rows", flops, lambda: ([_x(n)], (1 << 3,), (1.0,)))
    for name in ("softmax", "log_softmax"):
        yield name, Recipe("rows", ELEMENTARY + 4, lambda: ([_x(n)], (3,), ()))
        flops = 4 if name == "softmax" else ELEMENTARY + 3
        yield f"{name}_bwd", Recipe("rows", flops, lambda: ([_x(n), -_x(n)], (3,), ()))

    def normalised(name: str, backward: bool) -> Recipe:
        count = 2 if name == "layer_norm" else 1

        def make() -> tuple[Tensors, tuple[int, ...], tuple[float, ...]]:
            x, parameters = _x(n), [gd.ones(COLUMNS) for _ in range(count)]
            forward: Tensors = [x, *parameters]
            if not backward:
                return forward, (1,), (1e-5,)
            y = _raw(name, forward, (1,), (1e-5,))
            return [_x(n), x, parameters[0], wrap(lib.gd_output(y._h, 1))], (1,), (1e-5,)

        return Recipe("rows", 14 if backward else 8, make)

    for name in ("layer_norm", "rms_norm"):
        yield name, normalised(name, False)
        yield f"{name}_bwd", normalised(name, True)

    def labelled(backward: bool) -> Recipe:
        def make() -> tuple[Tensors, tuple[int, ...], tuple[float, ...]]:
            x, labels = _x(n, CLASSES), gd.randint(0, CLASSES, (n,))
            if not backward:
                return [x, labels, None], (-100, 1), (0.0,)
            y = _raw("cross_entropy", [x, labels, None], (-100, 1), (0.0,))
            return [gd.ones(()), x, labels, None, *(wrap(lib.gd_output(y._h, k)) for k in (1, 2))], (-100, 1), (0.0,)

        return Recipe("rows", ELEMENTARY + 2, make)

    yield "cross_entropy", labelled(False)
    yield "cross_entropy_bwd", labelled(True)
    yield "mse_loss", Recipe("rows", 3, lambda: ([_x(n), _x(n)], (1,), ()))
    yield "mse_loss_bwd", Recipe("rows", 2, lambda: ([gd.ones(()), _x(n), _x(n)], (1,), ()))


def _products(scale: float) -> Iterator[tuple[str, Recipe]]:
    n, steps, batch, inputs, units = int(1024 * scale**0.5), 28, max(int(64 * scale), 2), 28, 128
    yield "matmul", Recipe("products", 0, lambda: ([_x(n, n), _x(n, n)], (), ()), total=2.0 * n**3)
    yield "linear", Recipe("products", 0, lambda: ([_x(128, 784), _x(512, 784), gd.ones(512)], (), ()), total=2.0 * 128 * 784 * 512)

    def recurrent(backward: bool) -> Recipe:
        def make() -> tuple[Tensors, tuple[int, ...], tuple[float, ...]]:
            w_ih, w_hh = gd.randn(4 * units, inputs) / 8, gd.randn(4 * units, units) / 8
            forward: Tensors = [gd.randn(steps, batch, inputs), None, None, w_ih, w_hh, gd.zeros(4 * units), gd.zeros(4 * units), None]
            if not backward:
                return forward, (0, 0), ()
            y = _raw("lstm", forward, (0, 0))
            gates, cells = (wrap(lib.gd_output(y._h, k)) for k in (3, 4))
            return [gd.ones(steps, batch, units), None, None, w_hh, gates, cells, y, None, None, None], (0, 0), ()

        depth = units if backward else inputs + units
        return Recipe("products", 0, make, total=2.0 * steps * batch * 4 * units * depth + 100.0 * steps * batch * units)

    yield "lstm", recurrent(False)
    yield "lstm_bwd", recurrent(True)


def _moves(n: int) -> Iterator[tuple[str, Recipe]]:
    c = COLUMNS
    yield "cat", Recipe("moving", 1, lambda: ([_x(n // 2), _x(n // 2)], (2,), ()))
    yield "unslice", Recipe("moving", 1, lambda: ([_x(n)], (0, 0, 0, 32, 1, 1, 1, 1, 1, 1, n, c + 64, 2), ()))
    yield "index_select", Recipe("moving", 1, lambda: ([_x(n), gd.randint(0, n, (n,))], (2,), ()))
    yield "index_add_zeros", Recipe("moving", 1, lambda: ([_x(n), gd.randint(0, n, (n,))], (2, n), ()))
    yield "gather", Recipe("moving", 1, lambda: ([_x(n), gd.randint(0, c, (n, c))], (3,), ()))
    yield "scatter_add_zeros", Recipe("moving", 1, lambda: ([_x(n), gd.randint(0, c, (n, c))], (3, c, 1, 1, n, c), ()))
    yield "one_hot", Recipe("moving", 1, lambda: ([gd.randint(0, CLASSES, (n,))], (CLASSES,), ()))
    yield "nonzero", Recipe("moving", 1, lambda: ([gd.arange(n * c) % 2], (n * c // 2,), ()))
    yield "dropout", Recipe("moving", ELEMENTARY, lambda: ([_x(n)], (0,) * 6 + (1, 2), (0.5,)))
    fillers: dict[str, tuple[float, Callable[[], gd.Tensor]]] = {
        "fill": (1, lambda: gd.full((n, c), 2.0)),
        "arange": (1, lambda: gd.arange(n * c, dtype="float32")),
        "eye": (1, lambda: gd.eye(n, c)),
        "uniform": (ELEMENTARY, lambda: gd.rand(n, c)),
        "normal": (2 * ELEMENTARY, lambda: gd.randn(n, c)),
        "randint": (ELEMENTARY, lambda: gd.randint(0, 10, (n, c))),
    }
    for name, (flops, call) in fillers.items():
        yield name, Recipe("moving", flops, lambda: ([], (), ()), call)


def _planes(n: int) -> Iterator[tuple[str, Recipe]]:
    """Norms of channels, pooling, resizing: over planes of 32 x 64."""
    channels, height, width = 16, 32, 64
    samples = max(n * COLUMNS // (channels * height * width), 1)

    def x(h: int = height, w: int = width) -> gd.Tensor:
        return gd.rand(samples, channels, h, w) + 0.5

    def normalised(name: str, i: int, absent: int, backward: bool) -> Recipe:
        def make() -> tuple[Tensors, tuple[int, ...], tuple[float, ...]]:
            planes, w = x(), gd.ones(channels)
            forward: Tensors = [planes, w, gd.zeros(channels), *(None,) * absent]
            if not backward:
                return forward, (i,), (1e-5,)
            y = _raw(name, forward, (i,), (1e-5,))
            return [x(), planes, w, wrap(lib.gd_output(y._h, 1))], (i, 7, lib.GD_FLOAT32), (1e-5,)

        return Recipe("rows", 14 if backward else 8, make)

    for name, i, absent in (("batch_norm", 1, 2), ("group_norm", 4, 0)):
        yield name, normalised(name, i, absent, False)
        yield f"{name}_bwd", normalised(name, i, absent, True)
    two, small = (2, 2, 2, 2, 0, 0), (height // 2, width // 2)

    def places() -> gd.Tensor:
        return gd.arange(small[0] * small[1]).reshape(1, 1, *small).expand(samples, channels, *small)

    yield "max_pool", Recipe("moving", 1, lambda: ([x()], (*two, 1, 1, 0, 0, 2, 1), ()))
    yield "max_pool_bwd", Recipe("moving", 1, lambda: ([x(*small), places()], (height, width, *(0,) * 8, 2), ()))
    yield "avg_pool", Recipe("moving", 1, lambda: ([x()], (*two, 1, 0, 0, 0, 2), ()))
    yield "avg_pool_bwd", Recipe("moving", 1, lambda: ([x(*small)], (*two, 1, 0, 0, 0, 2, height, width), ()))
    yield "resize", Recipe("moving", 9, lambda: ([x(*small)], (height, width, 2), ()))
    yield "resize_bwd", Recipe("moving", 12, lambda: ([x()], (height, width, 2, 0, *small), ()))
    yield "pixel_shuffle", Recipe("moving", 1, lambda: ([x()], (2, 0), ()))


def recipes(scale: float = 1.0) -> dict[str, Recipe]:
    """A recipe for each op that has a kernel and one; `scale` makes the sizes smaller."""
    n, info = max(int(ROWS * scale), 32), ffi.new("gd_op_info *")
    found = dict([*_rows(n), *_planes(n), *_products(scale), *_moves(n)])
    for op in range(lib.gd_op_count()):
        check(lib.gd_op_describe(op, info))
        name = text(info.name)
        if info.is_elementwise and name not in found:
            found[name] = _elementwise(name, info.nin, n)
    return found


def unplaced() -> list[str]:
    """Ops with a kernel that have no recipe."""
    info, known, missing = ffi.new("gd_op_info *"), recipes(), []
    for op in range(lib.gd_op_count()):
        check(lib.gd_op_describe(op, info))
        if info.has_kernel and text(info.name) not in known:
            missing.append(text(info.name))
    return missing


# ---- Measuring --------------------------------------------------------------------------------------------------


def _size(handle: int) -> tuple[int, int]:
    """Elements and bytes of a tensor."""
    t = wrap(handle)
    return t.numel(), t.numel() * t.dtype.itemsize


def place(name: str, recipe: Recipe, seconds: float = SECONDS) -> Placed:
    """Measures one op."""
    info = ffi.new("gd_op_info *")
    check(lib.gd_op_describe(op_id(name), info))
    with gd.Arena(name="roofline") as arena, gd.no_grad():
        tensors, i, f = recipe.make()
        with gd.step_arena():
            result = recipe.call() if recipe.call else _raw(name, tensors, i, f)
            sizes = [_size(t._h) for t in tensors if t is not None] + [_size(lib.gd_output(result._h, k)) for k in range(info.nout)]
        taken = seconds_of(recipe.call or (lambda: _raw(name, tensors, i, f)), seconds)
    arena.close()
    work = recipe.total or recipe.flops * max(n for n, _ in sizes)
    return Placed(name, recipe.family, work / sum(size for _, size in sizes), work / taken / 1e9)


def optimizers(n: int, seconds: float = SECONDS) -> list[Placed]:
    """SGD with momentum and AdamW on n parameters."""
    found = []
    for name, flops, size, make in (
        ("sgd", 4, 20, lambda p: gd.optim.SGD([p], lr=1e-3, momentum=0.9)),
        ("adamw", 14, 28, lambda p: gd.optim.AdamW([p])),
    ):
        p = gd.nn.Parameter(gd.zeros(n))
        p.grad = gd.ones(n)
        taken = seconds_of(make(p).step, seconds)
        found.append(Placed(name, "optimizers", flops / size, flops * n / taken / 1e9))
    return found


def measure(threads: int = 1, scale: float = 1.0, seconds: float = SECONDS) -> dict[str, Any]:
    """All ops, and the roof: GFLOP/s and GB/s."""
    bounds = limits(threads, scale)
    with probe.threads(threads):
        ops = [place(name, recipe, seconds) for name, recipe in recipes(scale).items()]
        ops += optimizers(max(int(PARAMETERS * scale), 1), seconds)
    memory = max(bounds[key].value for key in probe.MEMORY)
    about = f"{machine.cpu()[0]}; {config.get_isa()}, float32, {threads} thread{'s' * (threads > 1)}; gradino {gd.__version__}"
    return {
        "peak": bounds["float32"].value,
        "memory": memory,
        "copy": bounds["copy"].value,
        "ops": ops,
        "about": about,
        "unplaced": unplaced(),
    }


# ---- The picture ------------------------------------------------------------------------------------------------

COLOURS = {"elementwise": "#3b6fb6", "rows": "#2a9d6f", "products": "#c8442f", "moving": "#8a63b8", "optimizers": "#c98a1b"}
FAMILIES = {"rows": "reductions, norms, losses", "products": "products, LSTM", "moving": "moving, filling, random"}
LINE = 0.047  # decades between names
COLUMN = 3  # the largest intensity of a column over its smallest


def spread(values: list[float], distance: float) -> list[float]:
    """Ascending values, moved apart to at least the distance and kept around where they were."""
    blocks: list[list[float]] = []  # mean wish of the first place, number of places
    for k, value in enumerate(values):
        blocks.append([value, 1, k])
        while len(blocks) > 1 and blocks[-2][0] + blocks[-2][1] * distance > blocks[-1][0]:
            wish, count, _ = blocks.pop()
            first = blocks[-1]
            first[0] = (first[0] * first[1] + (wish - first[1] * distance) * count) / (first[1] + count)
            first[1] += count
    return [wish + k * distance for wish, count, _ in blocks for k in range(int(count))]


def columns(ops: list[Placed]) -> list[list[Placed]]:
    """Ops of similar intensity, whose names stand below each other, by rate."""
    found: list[list[Placed]] = []
    for p in sorted(ops, key=lambda p: p.intensity):
        if not found or p.intensity > COLUMN * found[-1][0].intensity:
            found.append([])
        found[-1].append(p)
    return [sorted(column, key=lambda p: p.rate) for column in found]


def plot(result: dict[str, Any], path: Path) -> None:
    """Writes the picture; the ending of the name says in which format."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("the picture needs matplotlib: pip install matplotlib") from None
    from math import log10

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gradino", "font.size": 9}):
        figure, axes = pyplot.subplots(figsize=(11, 9))
        ops, peak, memory = result["ops"], result["peak"], result["memory"]
        low, high = min(p.intensity for p in ops) / 3, max(p.intensity for p in ops) * 2
        corner = peak / memory
        roof = f"fused multiply-adds {peak:.0f} GFLOP/s, memory {memory:.0f} GB/s"
        axes.plot([low, corner, high], [low * memory, peak, peak], color="black", linewidth=1.2, label=roof)
        slope: dict[str, Any] = {"color": "black", "linewidth": 0.7, "linestyle": ":", "label": f"copy {result['copy']:.0f} GB/s"}
        axes.plot([low, peak / result["copy"]], [low * result["copy"], peak], **slope)
        for family, colour in COLOURS.items():
            members = [p for p in ops if p.family == family]
            across, up = [p.intensity for p in members], [p.rate for p in members]
            axes.scatter(across, up, s=12, color=colour, label=FAMILIES.get(family, family), zorder=3)
        for k, column in enumerate(columns(ops)):
            left = k == 0  # the first column has its names on its left
            edge = min(p.intensity for p in column) / 1.15 if left else max(p.intensity for p in column) * 1.15
            for p, y in zip(column, spread([log10(p.rate) for p in column], LINE)):
                axes.plot([p.intensity, edge], [p.rate, 10**y], color=COLOURS[p.family], linewidth=0.3)
                name, side = (f"{p.name} ", "right") if left else (f" {p.name}", "left")
                axes.text(edge, 10**y, name, fontsize=6.5, va="center", ha=side, color=COLOURS[p.family])
        axes.set(xscale="log", yscale="log", xlim=(low, high), xlabel="operations per byte", ylabel="GFLOP/s", title=result["about"])
        axes.title.set_fontsize(9)
        axes.grid(True, which="major", linewidth=0.3)
        axes.legend(loc="lower right", frameon=False, fontsize=8)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)
