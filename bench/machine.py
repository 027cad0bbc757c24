"""The machine as reports name it; what it is and how busy, gradino.tools.machine finds out."""

from __future__ import annotations

import platform

from gradino.tools.machine import ENOUGH, cpu, load, share, usable_cpus

__all__ = ["ENOUGH", "cpu", "describe", "load", "share", "usable_cpus"]


def describe() -> dict[str, str]:
    """Processor, system and Python, for the head of a report."""
    name, flags = cpu()
    return {
        "processor": f"{name}, {usable_cpus()} usable",
        "instruction sets": " ".join(flags) or "unknown",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": platform.python_version(),
    }
