"""Runs the op specs so that a library with tests/c/trace.c writes all their calls down, backward ones included.

A program, started by test_aarch64.py: `python trace_specs.py TOLERANCES`, with GRADINO_TRACE naming the trace. The
second file says, op by op, how far another machine's results may be from these: twice what the spec allows, because
both may be off.
"""

from __future__ import annotations

import sys
from pathlib import Path

from checks import check_values, differentiable, gradients
from checks import run as run_case
from spec_kinds import ALL, Spec, draw, generator
from specs import LIST

import gradino as gd

LAYOUTS = ("contiguous", "transposed", "strided")
LENGTHS = (1, 7, 33)
LONG = 40_003  # enough work for several threads


def run(spec: Spec) -> None:
    """All cases in all dtypes; other layouts and long ones in the first dtype only."""
    cases = [*spec.cases, *(case for n in LENGTHS for case in (spec.rows(n) if spec.rows else ()))]
    if spec.elementwise:
        cases += [spec.cases[0].of_length(n) for n in (*LENGTHS, LONG)]
    for dtype in [d for d in spec.dtypes if d in ALL]:
        first = dtype == spec.dtypes[0]
        for case in [*cases, *(spec.large[:1] if first else ())]:
            for layout in LAYOUTS if first and case not in spec.large and not spec.factory else LAYOUTS[:1]:
                with gd.step_arena():
                    check_values(spec, case, dtype, layout)
            if spec.order and dtype.startswith("float") and differentiable(spec, case):
                with gd.step_arena():
                    gradients(spec, case, dtype)


def run_halves(spec: Spec) -> None:
    """The cases in bfloat16 and float16."""
    for dtype in spec.halves:
        for case in spec.cases:
            arrays = draw(spec, case.inputs, "float32", generator(spec.name, str(case), dtype))
            with gd.step_arena():
                tensors = [None if a is None else gd.tensor(a) for a in arrays]
                run_case(spec, case, [t.to(dtype) if t is not None and t.is_floating_point() else t for t in tensors], dtype)


def main() -> None:
    lines = []
    for spec in LIST:
        run(spec)
        run_halves(spec)
        scaled = int(not spec.elementwise or spec.scale is not None)
        allowed = [f"{2 * spec.rtol[k]:g} {2 * spec.atol[k]:g}" for k in (0, 1)]
        lines.append(f"{spec.name} {' '.join(allowed)} {scaled}\n")
    Path(sys.argv[1]).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
