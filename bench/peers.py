#!/usr/bin/env python3
"""gradino beside PyTorch and JAX: the same training steps from the same weights and data.

One process per peer. Each workload is first validated (losses agree over several steps), then timed in
alternating turns; medians and ratios are reported with everything needed to judge them.
`python bench/peers.py --help` lists the options.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import machine
import report
from compare import FULL, QUICK, RTOL, compare
from workloads import MEMORY, SEED

HERE = Path(__file__).resolve().parent
PEERS = {"torch": "PyTorch", "jax": "JAX"}
BUSY = 3  # exit status
MEMORY_STEPS = 20


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- What runs in processes of its own -----------------------------------------------------------------------


def peak_memory(library: str) -> dict[str, float]:
    """MiB that training MEMORY adds to the peak of this process after the import."""
    import importlib

    unit = 1 if sys.platform == "darwin" else 1024
    arrays = MEMORY.arrays()
    steps = importlib.import_module(f"steps_{library}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = getattr(steps, MEMORY.kind)(MEMORY, arrays)
    for _ in range(MEMORY_STEPS):
        run.step()
    return {"MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit / 2**20}


def import_seconds(module: str) -> float:
    """Seconds from a bare interpreter to an imported module; the first one leaves its byte code for the next."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def child(args: argparse.Namespace, *task: str) -> Any:
    """Runs this file again for one task and returns what it reports."""
    read, write = os.pipe()
    command = [sys.executable, __file__, "--threads", str(args.threads), *task, "--to", str(write)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads), GRADINO_NUM_THREADS=str(args.threads))
    process = subprocess.Popen(command, pass_fds=(write,), env=environment)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        text = pipe.read()
    if process.wait():
        sys.exit(f"peers.py: {' '.join(task)} failed with status {process.returncode}; its message stands above")
    return json.loads(text)


# ---- The report --------------------------------------------------------------------------------------------------


def installed_mib(module: str) -> float:
    """Size of a package's folder and of the folders that its wheels put beside it; not of what it depends on."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent
    folders = [folder, folder.parent / f"{module}.libs", folder.parent / f"{module}lib"]  # jaxlib is jax's own library
    files = [f for d in folders if d.exists() for f in d.rglob("*")]
    return sum(f.stat().st_size for f in files if f.is_file() and f.suffix != ".pyc") / 2**20


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Everything, as it goes into the JSON file."""
    quick = ["--quick"] if args.quick else []
    result: dict[str, Any] = {
        "machine": machine.describe(),
        "load": machine.load(),
        "share": machine.share(args.threads),
        "threads": args.threads,
        "dtype": "float32",
        "seed": SEED,
        "validation": f"{(QUICK if args.quick else FULL).validation} steps agree within {RTOL:g}",
        "quick": args.quick,
        "peers": {},
        "skipped": {},
    }
    for peer, name in PEERS.items():
        if importlib.util.find_spec(peer) is None:
            result["skipped"][name] = f"no module {peer} here"
            note(f"{name}: skipped, {result['skipped'][name]}")
            continue
        note(f"{name}, {report.threads(args.threads)}:")
        result["peers"][peer] = child(args, "--pair", peer, *quick)
    there = ["gradino", *result["peers"]]
    result["memory"] = {name: child(args, "--memory", name)["MiB"] for name in there}
    repeats = range(1 if args.quick else 5)
    modules = ["numpy", *there]
    times = [[import_seconds(m) for m in modules] for _ in repeats]  # in turn
    result["import"] = {m: min(column) for m, column in zip(modules, zip(*times))}
    result["installed"] = {m: installed_mib(m) for m in modules}
    result["share_after"] = machine.share(args.threads)
    return result


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=machine.usable_cpus(), help="for all libraries (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a few steps of each, to see that all of it runs; no figures")
    parser.add_argument("--anyway", action="store_true", help="measure although other work disturbs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    parser.add_argument("--readme", action="store_true", help="paste the tables into README.md and docs/performance.md")
    for task in ("pair", "memory", "to"):  # of the processes it starts
        parser.add_argument(f"--{task}", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.threads < 1:
        parser.error(f"--threads is {args.threads}, must be at least 1")
    if args.readme and (args.quick or args.anyway):
        parser.error("--readme publishes figures: they must be full ones from a quiet machine")
    return args


def run_task(args: argparse.Namespace) -> None:
    """In a process started by child()."""
    if args.pair:
        result: Any = compare(args.pair, args.threads, QUICK if args.quick else FULL, note)
    else:
        result = peak_memory(args.memory)
    with os.fdopen(int(args.to), "w", encoding="utf-8") as pipe:
        json.dump(result, pipe)


def refuse_if_busy(share: float, args: argparse.Namespace) -> None:
    if share >= machine.ENOUGH or args.quick:
        return
    text = f"other work takes {100 - 100 * share:.0f}% of the processors (load averages {machine.load()})"
    if not args.anyway:
        note(f"peers.py: {text}: figures would say nothing. Wait for a quiet machine, or use --anyway")
        sys.exit(BUSY)
    note(f"peers.py: warning: {text}")


def main() -> None:
    args = arguments()
    if args.to:
        run_task(args)
        return
    refuse_if_busy(machine.share(args.threads), args)
    result = measure(args)
    text = report.tables(result)
    print(text)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if args.markdown:
        args.markdown.write_text(text, encoding="utf-8")
    refuse_if_busy(result["share_after"], args)
    if args.readme:
        for name in ("README.md", "docs/performance.md"):
            report.paste(HERE.parent / name, "peers", text)


if __name__ == "__main__":
    main()
