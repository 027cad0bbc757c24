"""The op table, the specs, the Python functions and docs/op-support.md, held against each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spec_kinds import ALL, HALVES, Spec

import gradino
from gradino._lib import ffi, lib, text

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "op-support.md"
SHORT = dict(zip((*ALL, *HALVES), ("f32", "f64", "i64", "i32", "bool", "bf16", "f16")))
ORDERS = ("none", "first order", "second order")


class Row(NamedTuple):
    """A row of native/ops.def, as the library has it."""

    name: str
    vjp: str
    internal: bool
    elementwise: bool
    view: bool
    avx512: bool


def table() -> list[Row]:
    """The op table of the library in use."""
    info, rows = ffi.new("gd_op_info *"), []
    for op in range(lib.gd_op_count()):
        assert lib.gd_op_describe(op, info) == 0
        flags = (info.is_internal, info.is_elementwise, info.is_view, info.has_avx512)
        rows.append(Row(text(info.name), text(info.vjp), *map(bool, flags)))
    return rows


def names_in_file() -> list[str]:
    """The rows of native/ops.def, as the file has them."""
    return re.findall(r"^OP\((\w+)\s*,", (ROOT / "native" / "ops.def").read_text(), re.MULTILINE)


def python_name(row: Row, spec: Spec | None) -> str:
    """Dotted name in the package of what runs the op; empty where only the library does."""
    return (spec.python if spec else "") or ("" if row.internal else row.name)


def resolve(dotted: str) -> Any:
    """What a dotted name in the package stands for, or None."""
    found: Any = gradino
    for part in dotted.split("."):
        found = getattr(found, part, None)
    return found


def missing(rows: Sequence[Row], specs: Mapping[str, Spec], document: str) -> list[str]:
    """What is missing for each op, in words."""
    found = [f"{name}: has a spec in tests/specs/, but no row in native/ops.def" for name in specs if name not in {r.name for r in rows}]
    documented = set(re.findall(r"^\| `(\w+)` \|", document, re.MULTILINE))
    found += [f"{name}: stands in docs/op-support.md, but not in native/ops.def" for name in sorted(documented - {r.name for r in rows})]
    for row in rows:
        spec, dotted = specs.get(row.name), python_name(row, specs.get(row.name))
        if spec is None:
            found.append(f"{row.name}: no spec in tests/specs/")
        else:
            if not spec.cases:
                found.append(f"{row.name}: its spec has no cases")
            if (spec.order > 0) != (row.vjp != "none"):
                found.append(f"{row.name}: the table says vjp `{row.vjp}`, the spec says order {spec.order}")
            if spec.elementwise != row.elementwise:
                found.append(f"{row.name}: only one of table and spec says that it is elementwise")
            if not (spec.elementwise or spec.rows or row.view):
                found.append(f"{row.name}: its spec has no `rows`, which check all short lengths")
        if dotted and not callable(resolve(dotted)):
            found.append(f"{row.name}: no Python function gradino.{dotted}")
        elif dotted and not (resolve(dotted).__doc__ or "").strip():
            found.append(f"{row.name}: gradino.{dotted} has no docstring")
        if row.name not in documented:
            found.append(f"{row.name}: no line in docs/op-support.md; write it with `python docs/op_support.py`")
    return found


def document(rows: Sequence[Row], specs: Mapping[str, Spec]) -> str:
    """docs/op-support.md."""
    lines = [
        "# Ops and where they run",
        "",
        "Written by `python docs/op_support.py` from `native/ops.def` and `tests/specs/`; do not edit.",
        "",
        "Dtypes: float32, float64, int64, int32, bool, and bfloat16, float16, which [compute in float32](dtypes.md).",
        "Gradient: how often the op can be differentiated. Kernels: every op runs on any CPU (portable) and with AVX2;",
        "where no AVX-512 kernel stands, AVX-512 machines use AVX2's.",
        "",
    ]
    for title, internal in (("## Ops with a Python function", False), ("## Ops that gradients record", True)):
        lines += [title, "", "| op | Python | dtypes | gradient | kernels |", "|---|---|---|---|---|"]
        for row in rows:
            if row.internal != internal or row.name not in specs:
                continue
            spec = specs[row.name]
            dotted = python_name(row, spec)
            cells = (
                f"`{row.name}`",
                f"`gradino.{dotted}`" if dotted else "",
                " ".join(SHORT[d] for d in (*ALL, *HALVES) if d in spec.dtypes or d in spec.halves),
                ORDERS[spec.order],
                "view" if row.view else "portable, AVX2, AVX-512" if row.avx512 else "portable, AVX2",
            )
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)
