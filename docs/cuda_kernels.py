"""Writes docs/cuda-kernels.md, what each CUDA kernel takes of a multiprocessor, from what the compiler said: `make cuda-kernels`.

    python docs/cuda_kernels.py FOLDER            # of objects, as native/build.py --cuda prints it
    python docs/cuda_kernels.py --check FOLDER    # writes nothing; fails where a hot kernel spills, as the other does

A kernel is a template; its line has the most that any of its instances takes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parent / "cuda-kernels.md"

# Registers that spill to memory slow a kernel down: it fails the check, unless it is one of these, (file, kernel), which are rarely
# run or wait for memory anyway. All others are hot.
COLD = {("pad", "gd_each_kernel"), ("patches", "gd_each_kernel"), ("scatter", "look_kernel")}

Use = dict[str, int]


def uses(log: str) -> list[tuple[str, str, Use]]:
    """(mangled name, architecture, what it uses) of all kernels of a log."""
    found: dict[tuple[str, str], Use] = {}
    key: tuple[str, str] | None = None
    for line in log.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)' for '(sm_\w+)'", line):
            key = entry[1], entry[2]
            found[key] = {"registers": 0, "shared": 0, "spills": 0, "stack": 0}
        elif key and (stack := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)):
            found[key]["stack"] = int(stack[1])
            found[key]["spills"] = int(stack[2]) + int(stack[3])
        elif key and (used := re.search(r"Used (\d+) registers", line)):
            found[key]["registers"] = int(used[1])
            shared = re.search(r"(\d+) bytes smem", line)
            found[key]["shared"] = int(shared[1]) if shared else 0
            key = None
    return [(name, arch, use) for (name, arch), use in found.items()]


def plain_names(mangled: list[str]) -> list[str]:
    """Names of the templates, without arguments."""
    text = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
    return [re.sub(r"<.*|\(.*", "", re.sub(r"\(anonymous namespace\)::", "", line).removeprefix("void ")) for line in text.splitlines()]


def document(table: dict[tuple[str, str], dict[str, Use]], counts: dict[tuple[str, str], int], archs: list[str]) -> str:
    lines = [
        "# What the CUDA kernels use",
        "",
        f"Written by `docs/cuda_kernels.py` from what the compiler said, for {', '.join(archs)}: do not edit. A line is a kernel's "
        "template, with the most registers, bytes of static shared memory and bytes that spill (stores and loads) of its instances. "
        "Nothing here was measured on a GPU.",
        "",
        "| file | kernel | instances | registers " + "".join(f"| {arch} " for arch in archs[1:]) + "| shared | spills |",
        "| --- | --- | ---: | ---: " + "| ---: " * (len(archs) - 1) + "| ---: | ---: |",
    ]
    lines[4] = lines[4].replace("| registers ", f"| registers {archs[0]} ")
    for (file, kernel), by_arch in sorted(table.items()):
        registers = [str(by_arch[arch]["registers"]) if arch in by_arch else "" for arch in archs]
        shared, spills = (max(use[what] for use in by_arch.values()) for what in ("shared", "spills"))
        lines.append(f"| {file} | `{kernel}` | {counts[file, kernel]} | {' | '.join(registers)} | {shared} | {spills} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="The table of CUDA kernels.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args()
    table: dict[tuple[str, str], dict[str, Use]] = defaultdict(dict)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    spilling = []
    archs: set[str] = set()
    for log in sorted(given.folder.glob("*.log")):
        all_uses = uses(log.read_text(encoding="utf-8"))
        first = min((arch for _, arch, _ in all_uses), default="", key=lambda arch: int(arch[3:]))
        for (_, arch, use), kernel in zip(all_uses, plain_names([name for name, _, _ in all_uses])):
            archs.add(arch)
            counts[log.stem, kernel] += arch == first
            most = table[log.stem, kernel].setdefault(arch, dict.fromkeys(use, 0))
            for what, number in use.items():
                most[what] = max(most[what], number)
            if use["spills"] and (log.stem, kernel) not in COLD:
                spilling.append(f"{log.stem}.cu: {kernel} for {arch} spills {use['spills']} bytes")
    if not table:
        sys.exit(f"{given.folder}: no kernels in its logs")
    if not given.check:
        DOCUMENT.write_text(document(table, counts, sorted(archs, key=lambda arch: int(arch[3:]))), encoding="utf-8")
        print(f"wrote {DOCUMENT}")
    print("\n".join(sorted(set(spilling))[:40]) or f"no hot kernel spills: {sum(counts.values())} instances of {len(table)} kernels")
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
