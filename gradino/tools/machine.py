"""The machine that figures are taken on: what it is, and whether other work disturbs them."""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import time
from pathlib import Path

# Below this share of the processors a busy thread does not get what a figure assumes.
ENOUGH = 0.95
_TOLD_FLAGS = ("avx2", "fma", "avx512f", "avx512bw", "avx512_bf16", "amx_tile", "asimd", "sve")


def usable_cpus() -> int:
    """Processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu() -> tuple[str, list[str]]:
    """Name of the processor, and those of its instruction sets that matter here."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    name = fields.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in fields:  # virtual machines give general names
        name += f" (family {fields['cpu family']}, model {fields.get('model', '?')})"
    return name, [flag for flag in _TOLD_FLAGS if flag in flags]


def load() -> str:
    """The load averages over 1, 5 and 15 minutes."""
    return ", ".join(f"{x:.2f}" for x in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"


def share(threads: int, seconds: float = 0.4) -> float:
    """The part of `seconds` in which `threads` busy threads really ran: 1 on a machine that is free.

    Asked directly because a load average still tells of what ended a minute ago.
    """
    block, ran = b"\0" * (1 << 20), []

    def busy() -> None:
        start, cpu_start = time.perf_counter(), time.thread_time()
        while time.perf_counter() < start + seconds:
            hashlib.sha256(block)  # leaves the interpreter to the others
        ran.append((time.thread_time() - cpu_start) / (time.perf_counter() - start))

    workers = [threading.Thread(target=busy) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return min(ran)
