#!/usr/bin/env python3
"""One command for a machine with a GPU: builds, checks every op against the CPU, and measures. Under 8 minutes on a card.

    python bench/gpu_check.py                      # everything; writes out/gpu_check.json and out/gpu_check.md
    python bench/gpu_check.py --parts kernels,steps
    python bench/gpu_check.py --emulated           # the same with the emulator and small sizes: checks this program, no figures

Each part runs in a process of its own, within its time, and what fails does not keep the next from running. Needs the CUDA
toolkit for `build`, gcc for `replay`, pytest for `suite`; PyTorch is compared with where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "bench"
EMULATED = ROOT / "build" / "emulate" / "libgradino_cuda_emulated.so"
TOTAL = 460  # seconds of all parts
SHARE = {"build": 240, "replay": 120, "suite": 120, "limits": 40, "kernels": 90, "steps": 90}  # seconds at most, if so many are left
MEASURES = ("limits", "kernels", "steps")


def card() -> dict[str, str]:
    """What nvidia-smi says of the first GPU."""
    fields = ("name", "compute_cap", "driver_version", "memory.total", "clocks.max.sm", "clocks.max.mem")
    if not shutil.which("nvidia-smi"):
        return {}
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True)
    values = done.stdout.splitlines()[0].split(", ") if done.returncode == 0 and done.stdout else []
    return dict(zip(fields, values))


# ---- The parts: each prints one JSON object as its last line ----------------------------------------------------------------------


def run(command: list[Any], timeout: float, **environment: str) -> tuple[bool, str]:
    """Whether a command went well in time, and the end of what it printed."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as late:
        text = late.stdout or b""
        return False, f"{text.decode(errors='replace') if isinstance(text, bytes) else text}\nnot done after {timeout:.0f} s"
    return done.returncode == 0, done.stdout


def build(given: argparse.Namespace, seconds: float) -> dict[str, Any]:
    began = time.monotonic()
    ok, text = run([sys.executable, "native/build.py", "--inplace"], seconds)
    if ok:
        if given.emulated:
            command = ["--emulate"]
        else:
            major = card().get("compute_cap", "").replace(".", "")
            command = ["--cuda", *(["--cuda-arch", given.arch or major] if given.arch or major else [])]
        ok, text = run([sys.executable, "native/build.py", *command], seconds - (time.monotonic() - began))
    return {"ok": ok, "text": text[-2000:]}


def replay(given: argparse.Namespace, seconds: float) -> dict[str, Any]:
    ok, text = run([sys.executable, "tests/cuda_replay.py", *([] if given.emulated else ["--real"]), *given.ops], seconds)
    return {"ok": ok, "text": text[-6000:]}


def suite(given: argparse.Namespace, seconds: float) -> dict[str, Any]:
    lines = (ROOT / "tests" / "device_suite.txt").read_text(encoding="utf-8").splitlines()
    files = [f"tests/{line.strip()}" for line in lines if line.strip() and not line.startswith("#")]
    if given.emulated:
        files = files[:1]
    workers = ["-n", "8"] if run([sys.executable, "-c", "import xdist"], 60)[0] and not given.emulated else []
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", *workers, *files]
    ok, text = run(command, seconds, GRADINO_TEST_DEVICE="cuda")
    return {"ok": ok, "text": text[-6000:]}


def measure(part: str, small: bool) -> dict[str, Any]:
    """Runs in a process of its own."""
    sys.path[:0] = [str(ROOT), str(HERE)]
    import gpu_kernels as work

    import gradino as gd

    sizes = work.SMALL if small else work.Sizes()
    found: dict[str, Any] = {"ok": True, "rows": []}
    if part == "steps":
        return steps(gd, work, sizes)
    cases = work.limits(gd, sizes) if part == "limits" else work.kernels(gd, sizes)
    while True:
        try:
            case = next(cases, None)
            if case is None:
                break
            seconds = work.seconds_of(gd, case.run, sizes.seconds)
            row = {"name": case.name, "seconds": seconds, "kind": case.kind}
            row |= {"gigabytes": case.bytes / seconds * 1e-9} if case.bytes else {"teraflops": case.operations / seconds * 1e-12}
            found["rows"].append(row)
        except gd.GradinoError as error:
            found["ok"] = False
            found.setdefault("errors", []).append(str(error)[:500])
            if not found["rows"]:
                break
        print(json.dumps(found), flush=True)
    return found


def steps(gd: Any, work: Any, sizes: Any) -> dict[str, Any]:
    """Training steps on gradino and, where it has a device, on PyTorch."""
    libraries: dict[str, Any] = {"gradino": gd}
    try:
        import torch

        if torch.cuda.is_available():
            torch.backends.cuda.matmul.allow_tf32 = True
            libraries["torch"] = torch
    except ImportError:
        pass
    found: dict[str, Any] = {"ok": True, "rows": []}
    for name, make in work.STEPS.items():
        for bfloat16 in (False, True):
            row: dict[str, Any] = {"name": f"{name} {'bfloat16' if bfloat16 else 'float32'}"}
            for library, lib in libraries.items():
                try:
                    row[library] = work.time_steps(lib, make(lib, library, sizes, bfloat16), sizes.steps)
                except Exception as error:
                    found["ok"] = False
                    row[f"{library} error"] = f"{type(error).__name__}: {error}"[:500]
            found["rows"].append(row)
            print(json.dumps(found), flush=True)
    return found


def measured(given: argparse.Namespace, part: str, seconds: float) -> dict[str, Any]:
    ok, text = run([sys.executable, __file__, "--measure", part, *(["--emulated"] if given.emulated else [])], seconds)
    lines = [line for line in text.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {"rows": []}
    found["ok"] = ok and bool(found.get("ok", False))
    if not found["ok"]:
        found["text"] = "\n".join(line for line in text.splitlines() if not line.startswith("{"))[-3000:]
    return found


# ---- The report ----------------------------------------------------------------------------------------------------------------


def share(row: dict[str, Any], limits: dict[str, float]) -> str:
    """Of what the card was measured to do at most."""
    if "gigabytes" in row:
        return f"{row['gigabytes'] / limits['copy']:.0%}" if limits.get("copy") else ""
    most = limits.get(row["kind"])
    return f"{row['teraflops'] / most:.0%}" if most else ""


def report(result: dict[str, Any]) -> str:
    """The table, in Markdown."""
    lines = [f"# GPU check: {result['card'].get('name', 'emulated')}", ""]
    for part, found in result["parts"].items():
        words = "passed" if found["ok"] else "FAILED"
        lines.append(f"- {part}: {words} in {found['seconds']:.0f} s")
    rows = result["parts"].get("limits", {}).get("rows", [])
    limits = {row["kind"]: row["teraflops"] for row in rows if "teraflops" in row}
    limits["copy"] = next((row["gigabytes"] for row in rows if row["name"] == "copy"), 0.0)
    lines += ["", "| | time | rate | of the limit |", "| --- | ---: | ---: | ---: |"]
    for row in [*rows, *result["parts"].get("kernels", {}).get("rows", [])]:
        rate = f"{row['gigabytes']:.0f} GB/s" if "gigabytes" in row else f"{row['teraflops']:.1f} TFLOP/s"
        lines.append(f"| {row['name']} | {row['seconds'] * 1e6:.1f} us | {rate} | {share(row, limits)} |")
    lines += ["", "| training step | gradino | PyTorch | gradino is | losses |", "| --- | ---: | ---: | ---: | --- |"]
    for row in result["parts"].get("steps", {}).get("rows", []):
        ours, theirs = row.get("gradino"), row.get("torch")
        times = [f"{x[0] * 1e3:.2f} ms" if x else "" for x in (ours, theirs)]
        faster = f"{theirs[0] / ours[0]:.2f}x" if ours and theirs else ""
        losses = "; ".join(f"{x[1]:.4f} to {x[2]:.4f}" for x in (ours, theirs) if x)
        lines.append(f"| {row['name']} | {times[0]} | {times[1]} | {faster} | {losses} |")
    for part, found in result["parts"].items():
        if not found["ok"]:
            lines += ["", f"## {part}", "", "```", *found.get("errors", []), found.get("text", ""), "```"]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds, checks and measures gradino on a GPU.")
    parser.add_argument("--parts", default=",".join(SHARE), help=f"some of {','.join(SHARE)}")
    parser.add_argument("--arch", default="", help="architecture to build for (default: the card's)")
    parser.add_argument("--ops", nargs="*", default=[], help="replay these ops only")
    parser.add_argument("--emulated", action="store_true", help="without a GPU: small sizes, to check this program")
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="folder of the results (default: out)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.emulated)))
        return 0
    if given.emulated:
        os.environ["GRADINO_CUDA_LIBRARY"] = str(EMULATED)
    began = time.monotonic()
    result: dict[str, Any] = {"card": card(), "emulated": given.emulated, "parts": {}}
    given.out.mkdir(parents=True, exist_ok=True)
    unknown = [part for part in given.parts.split(",") if part not in SHARE]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}: there are {', '.join(SHARE)}")
    for part in given.parts.split(","):
        start = time.monotonic()
        seconds = min(SHARE[part], TOTAL - (start - began)) if not given.emulated else 900
        if seconds < 5:
            found: dict[str, Any] = {"ok": False, "text": "no time was left"}
        elif part in MEASURES:
            found = measured(given, part, seconds)
        else:
            found = {"build": build, "replay": replay, "suite": suite}[part](given, seconds)
        found["seconds"] = time.monotonic() - start
        result["parts"][part] = found
        print(f"{part}: {'passed' if found['ok'] else 'FAILED'} in {found['seconds']:.0f} s", flush=True)
        (given.out / "gpu_check.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
        (given.out / "gpu_check.md").write_text(report(result), encoding="utf-8")
    print(report(result))
    return 0 if all(found["ok"] for found in result["parts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
