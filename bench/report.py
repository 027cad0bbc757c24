"""Figures as Markdown, and their way into a document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NAMES = {"torch": "PyTorch", "jax": "JAX", "gradino": "gradino", "numpy": "NumPy"}


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    unit, size = next((u for u in (("s", 1), ("ms", 1e-3)) if seconds >= u[1]), ("us", 1e-6))
    value = seconds / size
    return f"{value:.{0 if value >= 99.5 else 1 if value >= 9.95 else 2}f} {unit}"


def ratio(value: float) -> str:
    """How many times as fast."""
    return f"{value:.0f}x" if value >= 9.95 else f"{value:.1f}x" if value >= 1.95 else f"{value:.2f}x"


def threads(n: int) -> str:
    """As in prose."""
    return f"{n} thread" + ("s" if n > 1 else "")


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def steps(result: dict[str, Any]) -> str:
    """Time of a step: gradino, then each peer with gradino's advantage."""
    pairs = list(result["peers"].items())
    head, rows = ["one step", "gradino"], []
    for peer, _ in pairs:
        head += [NAMES[peer] + (" (jit)" if peer == "jax" else ""), "gradino is"]
    for i, first in enumerate(pairs[0][1]["rows"] if pairs else []):
        row = [first["workload"], duration(first["gradino"])]
        for peer, pair in pairs:
            entry = pair["rows"][i]
            alone = peer == "torch" and result["threads"] > 1 and entry["setting"] == threads(1)
            row += [duration(entry["peer"]) + (" (1 thread)" if alone else ""), ratio(entry["ratio"])]
        rows.append(row)
    return table(head, rows)


def footprint(result: dict[str, Any]) -> str:
    """Memory, import time and size."""
    memory = result["memory"]
    rows = [
        [
            NAMES[m],
            duration(result["import"][m]),
            f"{result['installed'][m]:.1f} MiB",
            f"{memory[m]:.1f} MiB" if m in memory else "",
        ]
        for m in result["import"]
    ]
    return table(["", "import", "installed", "peak memory of training"], rows)


def tables(result: dict[str, Any]) -> str:
    """All that may be published, with what it takes to judge it."""
    where = result["machine"]
    versions = [pair["name"] for pair in result["peers"].values()]
    ours = next((pair["ours"] for pair in result["peers"].values()), "gradino")
    alone = ", PyTorch with 1 where that was faster" if result["threads"] > 1 else ""
    lines = [
        steps(result),
        "",
        footprint(result),
        "",
        f"{where['processor']}; {where['instruction sets']}; {where['system']}; Python {where['Python']}. "
        f"{', '.join([ours, *versions])}; {threads(result['threads'])} each{alone}; "
        f"{result['dtype']}; data from seed {result['seed']}; validated: {result['validation']}. "
        "Medians of alternating turns in one process; ratios are medians over rounds. "
        "Memory: what training the 784-512-512-10 MLP adds to the peak of a process. "
        f"Load averages {result['load']}; {100 * result['share']:.0f}% of the processors were free.",
    ]
    lines += [f"{name}: skipped, {why}." for name, why in result["skipped"].items()]
    if result["quick"]:
        lines.append("\nTaken with --quick: these figures say nothing.")
    return "\n".join(lines) + "\n"


def paste(path: Path, name: str, text: str) -> None:
    """Puts text between the marks `<!-- name:begin -->` and `<!-- name:end -->` of a document."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    document = path.read_text(encoding="utf-8")
    head, found, rest = document.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{path}: the marks {begin} and {end} are missing, so the table has no place")
    path.write_text(f"{head}{begin}\n{text}{end}{tail}", encoding="utf-8")
