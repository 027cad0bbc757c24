"""The calls of all op specs, written down by a library that is built for it: for running them again elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from building import NATIVE, PROGRAMS, ROOT, build, check, clean_environment

FOLDER = ROOT / "build" / "trace"
FLAGS = ["-std=gnu11", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}"]


def tracing_library() -> Path:
    """A library for this machine, with portable kernels alone, that writes down its calls."""
    options = build.Options(cc="gcc", no_x86=True)
    built = build.build_library(options, linking=False)
    compiler = build.find_compiler("gcc")
    FOLDER.mkdir(parents=True, exist_ok=True)
    library, traced = FOLDER / build.LIBRARY, FOLDER / "trace.o"
    objects = [path for path in built.objects if path.name != "record.o"]
    newest = max(path.stat().st_mtime_ns for path in [*built.objects, PROGRAMS / "trace.c", PROGRAMS / "trace.h"])
    if not library.exists() or library.stat().st_mtime_ns < newest:
        flags = build.compile_flags(compiler, options)
        check([*compiler.command, "-c", PROGRAMS / "trace.c", *flags, f"-I{NATIVE}", "-o", traced], cwd=ROOT)
        check([*compiler.command, *objects, traced, *build.link_flags(compiler, options), "-o", library])
    return library


def recorded_calls() -> tuple[Path, Path]:
    """The calls of all op specs, and how far results may be from those."""
    library = tracing_library()
    calls, tolerances = FOLDER / "calls.bin", FOLDER / "tolerances.txt"
    tests = ROOT / "tests"
    made_from = [library, tests / "trace_specs.py", tests / "checks.py", tests / "spec_kinds.py", *(tests / "specs").glob("*.py")]
    newest = max(path.stat().st_mtime_ns for path in made_from)
    if not calls.exists() or not tolerances.exists() or calls.stat().st_mtime_ns < newest:
        environment = clean_environment(LD_LIBRARY_PATH=str(FOLDER), GRADINO_TRACE=str(calls), GRADINO_NUM_THREADS="1")
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), environment["PYTHONPATH"]])
        calls.unlink(missing_ok=True)
        check([sys.executable, ROOT / "tests" / "trace_specs.py", tolerances], timeout=900, env=environment)
        assert calls.exists(), "the package did not load the library that traces"
    return calls, tolerances
