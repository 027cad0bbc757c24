"""Pictures of what the engine does: the graph behind a loss, and the use of arenas over time."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradino._lib import check, ffi, lib, text
from gradino.dtypes import BY_CODE
from gradino.errors import DTypeError, GradinoError, InvalidValueError
from gradino.tensor import Tensor

if TYPE_CHECKING:
    from gradino.nn import Module
    from gradino.profiler import profile
    from gradino.profiler.events import KernelEvent

__all__ = ["draw_arena_timeline", "draw_graph"]

_FEW = 16  # inputs of an op that are asked for at once
_COLOURS = {"leaf": "#dcefdc", "parameter": "#cfe2f7", "op": "#f4f4f4", "view": "#ffffff", "root": "#f7d9d4"}


# ---- The graph -----------------------------------------------------------------------------------------------------


class _Node:
    """One op or leaf of the graph."""

    def __init__(self, handle: int, info: Any) -> None:
        self.handle = handle
        self.shape = tuple(info.shape[0 : info.rank])
        self.dtype = BY_CODE[info.dtype].name
        self.is_leaf, self.is_parameter = bool(info.is_leaf), bool(info.is_parameter)
        self.is_view = info.base != handle
        self.bytes = 0 if self.is_view else info.numel * BY_CODE[info.dtype].itemsize
        self.op = "" if info.is_leaf or info.op < 0 else text(lib.gd_op_name(info.op))


def _inputs(handle: int) -> list[int]:
    """Handles of the inputs that gradients go to."""
    room = _FEW
    while True:
        handles = ffi.new("gd_tensor[]", room)
        count = check(lib.gd_graph_inputs(handle, handles, room))
        if count <= room:
            return [h for h in ffi.unpack(handles, count) if h]
        room = count


def _walk(root: int, most: int) -> tuple[dict[int, _Node], list[tuple[int, int]], int]:
    """Nodes in the order of their distance from the root, edges from input to result, and how many nodes were left out."""
    info, nodes, edges = ffi.new("gd_tensor_info *"), dict[int, _Node](), list[tuple[int, int]]()
    seen, waiting, left_out = set[int](), deque([root]), 0

    def primary(handle: int) -> int:
        check(lib.gd_info(handle, info))
        return int(handle - info.out_index)

    seen.add(primary(root))
    waiting = deque(seen)
    while waiting:
        handle = waiting.popleft()
        drawn = len(nodes) < most
        check(lib.gd_info(handle, info))
        is_leaf = bool(info.is_leaf)
        if drawn:
            nodes[handle] = _Node(handle, info)
        else:
            left_out += 1
        for raw in [] if is_leaf else _inputs(handle):
            source = primary(raw)
            if drawn:
                edges.append((source, handle))
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return nodes, edges, left_out


def _names(model: Module | None, params: Mapping[str, Any] | None) -> dict[int, str]:
    found = {p._h: name for name, p in model.named_parameters()} if model is not None else {}
    for name, p in (params or {}).items():
        if not isinstance(p, Tensor):
            raise DTypeError(f"draw_graph: params must hold tensors, {name!r} is a {type(p).__name__}")
        found[p._h] = name
    return found


def _size(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if n == int(n) else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError


def _quoted(label: str) -> str:
    return '"' + label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _dot(root: int, nodes: dict[int, _Node], edges: list[tuple[int, int]], names: dict[int, str], left_out: int, direction: str) -> str:
    """The graph in Graphviz' language."""
    lines = [
        f"digraph gradino {{\n  rankdir={direction};",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10];',
    ]
    number = {handle: k for k, handle in enumerate(nodes)}
    for handle, n in nodes.items():
        name = names.get(handle, "")
        kind = (
            "parameter" if n.is_parameter or name else "leaf" if n.is_leaf else "root" if handle == root else "view" if n.is_view else "op"
        )
        title = name or ("parameter" if n.is_parameter else "leaf") if n.is_leaf else n.op + (f" ({name})" if name else "")
        memory = "a view" if n.is_view else _size(n.bytes)
        label = f"{title}\n{n.shape} {n.dtype}\n{memory}"
        lines.append(f'  n{number[handle]} [label={_quoted(label)}, fillcolor="{_COLOURS[kind]}"];')
    if left_out:
        lines.append(f'  cut [label="{left_out} more nodes\\nare not shown", style=dashed];')
    cut = set()
    for source, target in edges:
        if source in number:
            lines.append(f"  n{number[source]} -> n{number[target]};")
        elif target not in cut:
            cut.add(target)
            lines.append(f"  cut -> n{number[target]} [style=dashed];")
    total = sum(n.bytes for n in nodes.values() if not n.is_leaf)
    lines.append(f'  label="{len(nodes)} nodes; results hold {_size(total)}"; labelloc=b; fontname="Helvetica"; fontsize=10;\n}}')
    return "\n".join(lines) + "\n"


def draw_graph(
    loss: Tensor,
    path: str | os.PathLike[str],
    *,
    model: Module | None = None,
    params: Mapping[str, Any] | None = None,
    max_nodes: int = 1000,
    direction: str = "TB",
) -> str:
    """Draws the graph that a backward of ``loss`` would walk: ops with shape, dtype and memory, and the leaves.

    Args:
        path: where to; ``.dot`` is text and needs nothing, ``.svg``, ``.png`` and ``.pdf`` need the Python package graphviz
            (``pip install 'gradino[graph]'``) and Graphviz' program ``dot``.
        model: whose parameters are shown by name.
        params: names and tensors that are shown by name, instead or as well.
        max_nodes: how many are drawn, from the loss on; the picture, and a warning, say how many were left out.
        direction: ``"TB"`` (inputs above) or ``"LR"`` (inputs on the left).

    Returns: the graph in Graphviz' language.

    >>> import gradino as gd
    >>> x = gd.ones(2, 3, requires_grad=True)
    >>> text = gd.utils.draw_graph((x * 2).sum(), "graph.dot", params={"x": x})
    >>> print(text.count("->"), "mul" in text)
    2 True
    """
    if not isinstance(loss, Tensor):
        raise DTypeError(f"draw_graph: expected a Tensor, got {type(loss).__name__}")
    to, kind = Path(path), Path(path).suffix.lower().lstrip(".")
    if kind not in ("dot", "gv", "svg", "png", "pdf"):
        raise InvalidValueError(f"draw_graph: {to.name!r} must end with .dot, .svg, .png or .pdf")
    if direction not in ("TB", "LR", "BT", "RL"):
        raise InvalidValueError(f"draw_graph: direction is {direction!r}, must be 'TB', 'LR', 'BT' or 'RL'")
    if max_nodes < 1:
        raise InvalidValueError(f"draw_graph: max_nodes is {max_nodes}, must be at least 1")
    if not loss.requires_grad:
        raise GradinoError("draw_graph: the tensor has no graph: nothing that it was computed from requires grad")
    nodes, edges, left_out = _walk(loss._h, max_nodes)
    source = _dot(next(iter(nodes)), nodes, edges, _names(model, params), left_out, direction)
    if kind in ("dot", "gv"):
        to.write_text(source, encoding="utf-8")
    else:
        to.write_bytes(_rendered(source, kind))
    if left_out:
        warnings.warn(
            f"draw_graph: {left_out} nodes are not shown: the graph has more than max_nodes={max_nodes}", UserWarning, stacklevel=2
        )
    return source


def _rendered(source: str, kind: str) -> bytes:
    try:
        import graphviz  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise GradinoError(
            f"draw_graph: .{kind} needs the Python package graphviz: pip install 'gradino[graph]'; a .dot file needs nothing"
        ) from None
    try:
        picture: bytes = graphviz.Source(source).pipe(format=kind)
    except graphviz.ExecutableNotFound:
        raise GradinoError(
            f"draw_graph: .{kind} needs Graphviz' program `dot`, which is not on the PATH: install it, say with "
            "`apt install graphviz`; a .dot file needs nothing"
        ) from None
    return picture


# ---- Arenas over time ------------------------------------------------------------------------------------------------


def draw_arena_timeline(prof: profile, path: str | os.PathLike[str], *, arenas: int = 4, ops: int = 10) -> dict[str, int]:
    """Draws what a profile saw of arenas: bytes in use over time, the high-water mark, marks and resets, and who allocated.

    Args:
        prof: a finished :func:`gradino.profiler.profile`.
        path: where to; matplotlib (``pip install 'gradino[demo]'``) decides by the ending: .svg, .png, .pdf.
        arenas: at most so many, those that took most.
        ops: so many ops are named beside each arena, those whose results took most.

    Returns: the high-water mark of each arena drawn, in bytes.
    """
    found: dict[int, list[KernelEvent]] = {}
    for event in prof.arena_events:
        if event.arena >= 0:
            found.setdefault(event.arena, []).append(event)
    if not found:
        raise GradinoError("draw_arena_timeline: the profile saw no arena: was anything computed inside, and is it finished?")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise GradinoError("draw_arena_timeline needs matplotlib: pip install 'gradino[demo]'") from None
    high = {a: max(e.used for e in events) for a, events in found.items()}
    chosen = sorted(high, key=lambda a: -high[a])[:arenas]
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gradino", "font.size": 9}):
        figure = Figure(figsize=(12, 3.2 * len(chosen)), layout="constrained")
        axes = figure.subplots(len(chosen), 2, squeeze=False, width_ratios=(3, 1))
        for row, a in zip(axes, chosen):
            name = prof.arena_names.get(a, f"arena {a}")
            _draw_use(row[0], name, found[a], high[a], prof._begun)
            _draw_makers(row[1], found[a], ops)
        figure.savefig(Path(path))
    return {prof.arena_names.get(a, f"arena {a}"): high[a] for a in chosen}


def _draw_use(axes: Any, name: str, events: list[KernelEvent], high: int, zero: int) -> None:
    """The line of one arena."""
    times, use = [], []
    for e in events:
        at = (e.stop - zero) / 1e6
        times.append(at)
        use.append(e.used / 2**20)
        if e.workspace:  # given back at once
            times.append(at)
            use.append((e.used - e.workspace) / 2**20)
    axes.step(times, use, where="post", linewidth=0.8, color="#3b6fb6")
    axes.fill_between(times, use, step="post", color="#3b6fb6", alpha=0.15)
    axes.axhline(high / 2**20, linestyle="--", linewidth=0.8, color="#c8442f", label=f"high water {_size(high)}")
    for kind, colour in (("reset", "#777777"), ("mark", "#2a9d6f"), ("rewind", "#c98a1b")):
        places = [(e.stop - zero) / 1e6 for e in events if e.name == kind]
        if places:
            label = f"{len(places)} {kind}{'s' * (len(places) > 1)}"
            axes.plot(places, [0] * len(places), linestyle="", marker="|", markersize=8, color=colour, label=label, clip_on=False)
    axes.set(title=name, xlabel="ms", ylabel="MiB in use", ylim=(0, None))
    axes.legend(loc="upper right", fontsize=7)


def _draw_makers(axes: Any, events: list[KernelEvent], most: int) -> None:
    """Bars of the ops whose results took most, workspace not counted."""
    made: dict[str, int] = {}
    for e in events:
        if e.made:
            made[e.key] = made.get(e.key, 0) + e.made
    names = sorted(made, key=lambda k: -made[k])[:most][::-1]
    axes.barh(names, [made[k] / 2**20 for k in names], color="#8a63b8")
    axes.tick_params(axis="y", labelsize=7)
    axes.set(xlabel="MiB allocated by results")
