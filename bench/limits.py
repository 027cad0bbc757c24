#!/usr/bin/env python3
"""What this machine can do at most, and how much of it gradino's kernels reach: `python -m gradino bench` as Markdown.

`--paste` puts the table into docs/performance.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import machine
import report

from gradino.tools import bench, probe

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def fma_peak(threads: int, isa: str | None = None, dtype: str = "float32") -> float:
    """GFLOP/s of fused multiply-adds (with portable kernels on x86-64: of what they have) with that many threads."""
    with probe.threads(threads):
        return probe.arithmetic(dtype, isa) / 1e9


def limits(threads: list[int]) -> str:
    """The table, a column per thread count, and what it takes to judge it."""
    result = bench.measure(threads)
    lines = bench.rows(result["limits"], threads) + bench.rows(result["kernels"], threads)
    head = ["and the share of the limit that kernels reach", *map(report.threads, threads)]
    about = [result["processor"], " ".join(result["instruction sets"]), f"gradino {result['gradino']}", f"load averages {result['load']}"]
    return report.table(head, lines) + f"\n\n{'; '.join(about)}; {100 * result['share']:.0f}% of the processors were free.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=machine.usable_cpus(), help="(default: %(default)s)")
    parser.add_argument("--paste", action="store_true", help="into docs/performance.md")
    args = parser.parse_args()
    text = limits(sorted({1, args.threads}))
    print(text)
    if args.paste:
        report.paste(DOCUMENT, "limits", text)


if __name__ == "__main__":
    main()
