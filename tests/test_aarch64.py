"""The library on another architecture: built for aarch64 and run under user-mode emulation. Run by `make test-aarch64`.

Every op, its gradient included, must give there what it gives here: a library that writes down its calls (trace.c)
runs the op specs, and replay.c runs those calls again on aarch64. The other C programs run as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from building import PROGRAMS, ROOT, build, check, clean_environment, run
from tracing import FLAGS, recorded_calls, tracing_library

TARGET = "aarch64-linux-gnu"
CC, EMULATOR = f"{TARGET}-gcc", "qemu-aarch64"
MISSING = [tool for tool in (CC, EMULATOR, "gcc") if shutil.which(tool) is None]

pytestmark = [
    pytest.mark.skipif("GRADINO_TEST_AARCH64" not in os.environ, reason="takes a cross compiler and minutes: `make test-aarch64` runs it"),
    pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)} here: apt install gcc-{TARGET} qemu-user"),
]


@pytest.fixture(scope="module")
def library() -> Path:
    """The folder of the library for aarch64, as native/build.py makes it."""
    built = build.build_library(build.Options(cc=CC, werror=True))
    assert built.library is not None
    return built.library.parent


def compiled(folder: Path, source: Path, library: Path, cc: str, *more: object) -> Path:
    """A program for the machine that cc compiles for."""
    target = folder / f"{source.stem}-{cc}"
    check([cc, *FLAGS, source, *more, f"-L{library}", f"-Wl,-rpath,{library}", "-lgradino", "-lm", "-o", target])
    return target


def emulated(program: Path, *words: object, timeout: float = 600, **environment: str) -> str:
    """What the program prints under emulation."""
    assert b"\xb7\0" == program.read_bytes()[18:20], f"{program} is not for aarch64"
    command = [EMULATOR, "-L", f"/usr/{TARGET}", program, *words]
    done = run(command, timeout, env=clean_environment(**environment))
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


# ---- Ops ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tracing() -> Path:
    """The folder of a library for this machine, with the kernels that aarch64 has, that writes down its calls."""
    return tracing_library().parent


@pytest.fixture(scope="module")
def trace() -> tuple[Path, Path]:
    """The calls of all op specs, and how far results may be from those."""
    return recorded_calls()


def test_every_op_gives_there_what_it_gives_here(library: Path, trace: tuple[Path, Path], tmp_path: Path) -> None:
    program = compiled(tmp_path, PROGRAMS / "replay.c", library, CC)
    printed = [emulated(program, *trace, GRADINO_NUM_THREADS=threads) for threads in ("1", "3")]
    assert re.match(r"\d{4,} calls of \d\d+ ops with portable kernels", printed[0]), printed[0]
    assert printed[0] == printed[1], "the number of threads changes bits"
    print(printed[0], end="")


def tensor(values: list[float]) -> bytes:
    """A float32 vector as trace.h has it."""
    n = len(values)
    return struct.pack(f"<4iq4q4q{n}f", 1, 0, 1, 0, n, n, 0, 0, 0, 1, 0, 0, 0, *values)


def test_the_comparison_sees_a_wrong_result(tracing: Path, trace: tuple[Path, Path], tmp_path: Path) -> None:
    """The harness itself, on this machine: the trace fits to the bit; a planted difference and a missing op are found."""
    program = compiled(tmp_path, PROGRAMS / "replay.c", tracing, "gcc")
    exact = tmp_path / "exact.txt"
    exact.write_text("".join(f"{line.split()[0]} 0 0 0 0 0\n" for line in trace[1].read_text().splitlines()))
    assert run([program, trace[0], exact], 600).returncode == 0
    for result, words in (([4.0, 6.0], "the trace has no call of it"), ([4.0, 6.00001], "at 1 it is 6, must be 6.00001")):
        planted = tmp_path / "planted.bin"
        call = struct.pack("<60si13q2d", b"add", 2, *[0] * 13, 0.0, 0.0)
        planted.write_bytes(call + tensor([1.0, 2.0]) + tensor([3.0, 4.0]) + struct.pack("<i", 1) + tensor(result))
        done = run([program, planted, trace[1]])
        assert done.returncode == 1 and words in done.stdout, done.stdout


def test_the_product_is_vectorised(library: Path) -> None:
    objdump = shutil.which(f"{TARGET}-objdump")
    assert objdump is not None, "comes with the compiler"
    text = subprocess.run([objdump, "-d", str(library / "gemm.portable.o")], capture_output=True, text=True, check=True).stdout
    for lanes in ("4s", "2d"):
        assert len(re.findall(rf"\bfmla\s+v\d+\.{lanes}", text)) >= 16, f"no fused multiply-adds of .{lanes} vectors in the product"


# ---- Programs ---------------------------------------------------------------------------------------------------


def test_training_goes_the_same_way(library: Path, tracing: Path, tmp_path: Path) -> None:
    """Autograd and all optimizers: losses and parameters after some steps."""
    here = check([compiled(tmp_path, PROGRAMS / "train.c", tracing, "gcc"), 1])
    program = compiled(tmp_path, PROGRAMS / "train.c", library, CC)
    there = emulated(program, 1)
    assert emulated(program, 3) == there, "the number of threads changes bits"
    for a, b in zip(here.splitlines(), there.splitlines(), strict=True):
        (name, figures), (other, others) = a.split(":"), b.split(":")
        assert name == other and len(figures.split()) == 6
        tolerance = 2e-5 if "float32" in name else 1e-8
        assert list(map(float, others.split())) == pytest.approx(list(map(float, figures.split())), rel=tolerance), name


@pytest.mark.parametrize("name, words", [("api", []), ("stress", [1, 1500]), ("threads", [4, 8])])
def test_programs_run_clean(library: Path, tmp_path: Path, name: str, words: list[object]) -> None:
    """The header's promises, random use of arenas and ops, many threads in the engine at once."""
    emulated(compiled(tmp_path, PROGRAMS / f"{name}.c", library, CC), *words)


def test_the_tutorial_trains_on_iris(library: Path, tmp_path: Path) -> None:
    printed = emulated(compiled(tmp_path, ROOT / "examples" / "c" / "iris.c", library, CC), ROOT / "examples" / "iris.csv")
    losses = [float(x) for x in re.findall(r"training loss ([\d.]+)", printed)]
    assert losses[0] > 0.8 and losses[-1] < 0.08, printed
    assert int(re.search(r"(\d+) of 30 named rightly", printed)[1]) >= 28, printed
