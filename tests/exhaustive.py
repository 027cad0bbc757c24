#!/usr/bin/env python3
"""The largest error of every float32 elementary function, over all 2^32 inputs, on every instruction set of this machine.

A C program (tests/c/exhaustive.c) runs the library's kernels beside the C library's float64 functions, in as many processes
as there are processors: a minute or so for each function on two. `--paste` puts the table into docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench")]

import machine  # noqa: E402
import report  # noqa: E402
from building import PROGRAMS, compile_with_library  # noqa: E402

import gradino as gd  # noqa: E402

FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "log2", "sin", "cos", "tanh", "sigmoid", "erf", "gelu", "gelu_tanh", "silu", "softplus",
    "log_sigmoid", "sqrt", "rsqrt", "reciprocal",
)  # fmt: skip
DOCUMENT = ROOT / "docs" / "accuracy.md"
PARTS = 64  # pieces of the range: what processes take in turn
LIMIT = 2.0


def program(folder: Path) -> Path:
    """The measuring program, built against the installed library."""
    return compile_with_library(folder / "exhaustive", PROGRAMS / "exhaustive.c", "-O3")


def measure(binary: Path, function: str, first: int, count: int, step: int) -> dict[str, tuple[float, float]]:
    """Largest error in ULP and its input, per instruction set; `differ`: where AVX2 and AVX-512 have other bits."""
    words = [str(binary), function, str(first), str(count), str(step)]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    lines = (line.split() for line in printed.splitlines())
    return {name: (float(error), float(at)) for name, error, at in lines}


def exhaust(binary: Path, function: str) -> dict[str, tuple[float, float]]:
    """The same over all floats."""
    size = (1 << 32) // PARTS
    with ThreadPoolExecutor(machine.usable_cpus()) as pool:
        found = list(pool.map(lambda part: measure(binary, function, part * size, size, 1), range(PARTS)))
    worst = {name: max(part[name] for part in found) for name in found[0] if name != "differ"}
    if "differ" in found[0]:
        worst["differ"] = (sum(part["differ"][0] for part in found), 0.0)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", default=list(FUNCTIONS), help="(default: all)")
    parser.add_argument("--paste", action="store_true", help="into docs/accuracy.md")
    args = parser.parse_args()
    isas = gd.config.supported_isas()
    rows, failed = [], []
    with tempfile.TemporaryDirectory() as folder:
        binary = program(Path(folder))
        for function in args.functions:
            worst = exhaust(binary, function)
            rows.append([f"`{function}`"] + [f"{worst[isa][0]:.3f} at {worst[isa][1]:.9g}" for isa in isas])
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
            failed += [f"{function} on {isa}" for isa in isas if not worst[isa][0] <= LIMIT]
            if worst.get("differ", (0, 0))[0]:
                failed.append(f"{function}: AVX2 and AVX-512 differ at {worst['differ'][0]:.0f} inputs")
    name, flags = machine.cpu()
    text = report.table(["largest error in ULP", *isas], rows)
    text += f"\n\nAll 2^32 inputs. {name}; {' '.join(flags)}; gradino {gd.__version__}.\n"
    sys.stdout.write(text)
    if failed:
        sys.exit(f"more than {LIMIT:g} ULP, or other bits: {'; '.join(failed)}")
    if args.paste:
        report.paste(DOCUMENT, "accuracy", text)


if __name__ == "__main__":
    main()
