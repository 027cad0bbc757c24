"""`python -m gradino info`: what was detected on this machine and what is used of it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from gradino import config
from gradino._lib import check, ffi, lib, text
from gradino._version import __version__
from gradino.tools import machine

PACKAGE = Path(__file__).resolve().parent.parent
ENVIRONMENT = ("GRADINO_ISA", "GRADINO_NUM_THREADS", "OMP_NUM_THREADS")


def library_path() -> str:
    """The file that the library was loaded from: another one than the package's where LD_LIBRARY_PATH names one."""
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        mapped = []
    found = [line.split(maxsplit=5)[-1] for line in mapped if "/libgradino." in line]
    return found[0] if found else next((str(path) for path in PACKAGE.glob("libgradino.*")), "unknown")


def kernels() -> dict[str, str]:
    """The kernel set that each op of the table runs now; ops that only change a view have none."""
    info, isa, used = ffi.new("gd_op_info *"), config.get_isa(), {}
    for op in range(lib.gd_op_count()):
        check(lib.gd_op_describe(op, info))
        if info.has_kernel:
            used[text(info.name)] = isa if isa != "avx512" or info.has_avx512 else "avx2"
    return used


def collect() -> dict[str, Any]:
    """Everything, as `--json` prints it; sizes are bytes, None is what does not apply."""
    found = ffi.new("gd_machine *")
    lib.gd_machine_describe(found)
    arena = lib.gd_arena_get_stats(lib.gd_arena_permanent())
    return {
        "gradino": __version__,
        "library": {"version": text(lib.gd_version()), "path": library_path()},
        "python": platform.python_version(),
        "numpy": _numpy_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": {
            "model": machine.cpu()[0],
            "features": text(lib.gd_cpu_features()).split(),
            "caches": {"L1d": found.l1d, "L2": found.l2, "L3": found.l3},
        },
        "processors": {"online": found.online, "affinity": found.affinity or None, "cgroup quota": found.granted or None},
        "threads": {"in use": config.get_num_threads(), "default": lib.gd_default_num_threads(), "requested": found.requested or None},
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        "devices": ["cpu"],
        "arena": {"reserved": arena.reserved, "committed": arena.committed},
        "kernel sets": {"supported": config.supported_isas(), "in use": config.get_isa()},
        "kernels": kernels(),
    }


def _numpy_version() -> str:
    import numpy

    return str(numpy.__version__)


def size(count: int) -> str:
    """Bytes in the largest unit that keeps a digit before the point."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.4g} {unit}"


def _wrapped(words: list[str], width: int = 88) -> list[str]:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def as_text(facts: dict[str, Any] | None = None) -> str:
    """The same for people."""
    f = facts or collect()
    cpus, threads, sets = f["processors"], f["threads"], f["kernel sets"]
    limits = [f"{n} by {name}" for name, n in cpus.items() if n and name != "online"]
    rows = [
        ("gradino", f["gradino"] + ("" if f["library"]["version"] == f["gradino"] else f", library {f['library']['version']}")),
        ("library", f["library"]["path"]),
        ("Python", f"{f['python']}, NumPy {f['numpy']}; {f['system']}"),
        ("processor", f["processor"]["model"]),
        ("features", " ".join(f["processor"]["features"]) or "none that is used"),
        ("caches", ", ".join(f"{name} {size(n)}" for name, n in f["processor"]["caches"].items())),
        ("processors", ", ".join([f"{cpus['online']} online", *limits])),
        ("threads", f"{threads['in use']} in use, {threads['default']} by default"),
        *(("environment", f"{name}={value}") for name, value in f["environment"].items()),
        ("devices", ", ".join(f["devices"])),
        ("arena", f"{size(f['arena']['reserved'])} of address space reserved, {size(f['arena']['committed'])} of memory in use"),
        ("kernel sets", f"{', '.join(sets['supported'])}; in use: {sets['in use']}"),
    ]
    for isa in reversed(sets["supported"]):
        ops = [op for op, used in f["kernels"].items() if used == isa]
        rows += [(f"  {isa}" if i == 0 else "", line) for i, line in enumerate(_wrapped(ops)) if line]
    return "\n".join(f"{name:12} {value}" for name, value in rows)
