"""What tests of the build and of the C side share: places, compiler, programs run in a clean environment."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
PROGRAMS = ROOT / "tests" / "c"

sys.path.insert(0, str(NATIVE))
import build  # noqa: E402

# The parts of the library that stand without tensors.
SYSTEM_SOURCES = [NATIVE / "thread.c", NATIVE / "limits.c", PROGRAMS / "alone.c"]


SANITIZED = "lib" in os.environ.get("LD_PRELOAD", "") and "san" in os.environ.get("LD_PRELOAD", "")  # under `make sanitize` or `make tsan`


def package_directory() -> Path:
    """Where the installed package is, without importing it."""
    spec = importlib.util.find_spec("gradino")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def clean_environment(**changes: str) -> dict[str, str]:
    """The environment without what would steer the library, the compiler or a sanitizer."""
    steering = ("GRADINO_", "OMP_", "LD_PRELOAD", "LD_LIBRARY_PATH", "CFLAGS", "CPPFLAGS", "LDFLAGS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    return kept | {"PYTHONPATH": str(package_directory().parent)} | changes


def run(command: list[object], timeout: float = 120, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end with captured text; from / and in a clean environment unless told otherwise."""
    options.setdefault("env", clean_environment())
    options.setdefault("cwd", "/")
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, **options)


def check(command: list[object], timeout: float = 120, **options: object) -> str:
    """Runs a command that must succeed; returns what it printed."""
    done = run(command, timeout, **options)
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def config_flags() -> list[str]:
    """What a C program needs to use the package under test, as `python -m gradino config` says."""
    return shlex.split(check([sys.executable, "-m", "gradino", "config", "--cflags", "--libs"]))


def compile_program(target: Path, sources: list[Path], *flags: str, sanitize: str = "") -> Path:
    """Compiles and links a C program that reaches into native/."""
    cc = build.find_compiler().command
    options = [
        "-std=gnu11",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        f"-I{NATIVE}",
        '-DGD_VERSION="test"',
    ]
    if sanitize:
        options += [f"-fsanitize={sanitize}", "-fno-sanitize-recover=undefined"]
        probe = run([*cc, "-x", "c", "-", f"-fsanitize={sanitize}", "-o", target], input="int main(void) { return 0; }")
        if probe.returncode or run([target]).returncode:
            pytest.skip(f"{cc[0]} has no working -fsanitize={sanitize} here")
    check([*cc, *options, *flags, *sources, "-o", target, "-lm"])
    return target


def compile_with_library(target: Path, source: Path, *flags: str, cc: str | None = None) -> Path:
    """Compiles a C program that uses the library under test."""
    command = [cc] if cc else build.find_compiler().command
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror"]
    check([*command, "-std=gnu11", "-O1", "-g", "-pthread", *flags, *warnings, source, *config_flags(), "-lm", "-o", target])
    return target


def without_randomised_addresses() -> list[str]:
    """A prefix for programs under the thread sanitizer, which cannot map every random layout."""
    return ["setarch", "-R"] if shutil.which("setarch") else []
