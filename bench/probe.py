"""Builds probe.c with the system's compiler and loads it."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradino import __main__ as gradino_main

SOURCE = Path(__file__).with_name("probe.c")


class ProbeError(Exception):
    """There is no C compiler here, or it refuses probe.c."""


def load() -> ctypes.CDLL:
    """The probe as a library; its functions return seconds.

    Raises:
        ProbeError: with the compiler's words.
    """
    compiler = shlex.split(os.environ.get("CC", "cc"))
    include, lib = gradino_main.PACKAGE / "include", gradino_main.PACKAGE
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "probe.so"
        command = [*compiler, "-std=gnu11", "-O2", "-funroll-loops", "-shared", "-fPIC", f"-I{include}", str(SOURCE)]
        command += ["-o", str(target), f"-L{lib}", f"-Wl,-rpath,{lib}", "-lgradino"]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            raise ProbeError(f"{compiler[0]}: {error.strerror}") from None
        if done.returncode:
            raise ProbeError(done.stderr.strip())
        return ctypes.CDLL(str(target))


def function(library: ctypes.CDLL, name: str, *arguments: Any) -> Callable[..., float]:
    """A function of the probe that returns seconds, with its argument types."""
    found = getattr(library, f"probe_{name}")
    found.restype, found.argtypes = ctypes.c_double, list(arguments)
    return found  # type: ignore[no-any-return]


def require() -> ctypes.CDLL:
    """The probe, or the end of the program with the reason."""
    try:
        return load()
    except ProbeError as error:
        sys.exit(f"this needs a C compiler to build {SOURCE.name}: {error}")
