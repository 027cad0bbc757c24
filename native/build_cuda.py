"""Builds the CUDA part: for GPUs with nvcc, or for the CPU, with the emulator, so that tests can run its kernels anywhere.

    python native/build.py --emulate    # build/emulate/libgradino_cuda_emulated.so, by g++ or clang++
    python native/build.py --cuda       # gradino/libgradino_cuda.so, for all architectures
    python native/build.py --cuda --cuda-arch 80,90 --compile-only  # a check

Used by build.py and setup.py.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from build import NATIVE, ROOT, BuildError, exported, install, is_current, locked, processors

CUDA = NATIVE / "cuda"
EMULATED, LIBRARY = "libgradino_cuda_emulated.so", "libgradino_cuda.so"
EXPORTS = f"-Wl,--version-script={CUDA / 'exports.map'}"
INCLUDES = ["-Inative/cuda", "-Inative"]

# ---- Compiling and linking -------------------------------------------------------------------------------------------


def run(command: Sequence[str], verbose: bool = False) -> str:
    """What the compiler says; BuildError where it fails."""
    if verbose:
        print(shlex.join(command), file=sys.stderr)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    text = done.stdout + done.stderr
    if done.returncode != 0:
        raise BuildError(f"{shlex.join(command)}\n{text}")
    return text


@contextmanager
def remade(target: Path, command: list[str]) -> Iterator[Path]:
    """A file to write to, which becomes the target if all goes well; the command that made it is remembered."""
    partial = target.with_name(f"{target.stem}.tmp{target.suffix}")
    yield partial
    os.replace(partial, target)
    target.with_suffix(".command").write_text(shlex.join(command), encoding="utf-8")


def is_made(target: Path, command: list[str]) -> bool:
    """Whether this command made the target, from files that are not newer."""
    record = target.with_suffix(".command")
    made = record.exists() and record.read_text(encoding="utf-8") == shlex.join(command)
    return made and is_current(target, target.with_suffix(".d"))


def compile_all(folder: Path, sources: list[Path], command: list[str], verbose: bool, language: list[str]) -> tuple[list[Path], int]:
    """Objects of the sources and how many of them were made now. What the compiler said stands beside each, in .log."""
    objects = [folder / f"{source.stem}.o" for source in sources]

    def one(source: Path, target: Path) -> bool:
        whole = [*command, *language, "-c", os.path.relpath(source, ROOT)]
        if is_made(target, whole):
            return False
        with remade(target, whole) as partial:
            text = run([*whole, "-MMD", "-MF", str(target.with_suffix(".d")), "-o", str(partial)], verbose)
            target.with_suffix(".log").write_text(text, encoding="utf-8")
        return True

    work = sorted(zip(sources, objects), key=lambda pair: -pair[0].stat().st_size)
    with ThreadPoolExecutor(processors()) as pool:
        count = sum(pool.map(lambda pair: one(*pair), work))
    return objects, count


def link(library: Path, objects: list[Path], command: list[str], verbose: bool) -> None:
    """Links the objects, unless that is done, and checks that the one entry point is all that is to be seen."""
    whole = [*command, *map(str, objects)]
    record = library.with_suffix(".command")
    newest = max(target.stat().st_mtime_ns for target in objects)
    if library.exists() and library.stat().st_mtime_ns >= newest and record.exists():
        if record.read_text(encoding="utf-8") == shlex.join(whole):
            return
    with remade(library, whole) as partial:
        run([*whole, "-o", str(partial)], verbose)
        foreign = [name for name in exported(partial) or [] if name != "gd_cuda_open"]
        if foreign:
            raise BuildError(f"{library.name} exports {', '.join(foreign[:10])}")


def cuda_sources() -> list[Path]:
    return sorted(CUDA.glob("*.cu"))


# ---- For the CPU ------------------------------------------------------------------------------------------------------

CPP_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]  # "unroll"
CPP_FLAGS = "-std=c++17 -O1 -g -fPIC -pthread -fvisibility=hidden -fno-exceptions -ffp-contract=off -fno-math-errno".split()


def cpp_compiler(name: str | None = None) -> list[str]:
    for word in [name or os.environ.get("CXX", "").strip() or "g++", "clang++", "c++"]:
        command = shlex.split(word)
        if shutil.which(command[0]):
            return command
    raise BuildError("no C++ compiler found (looked for CXX, g++, clang++, c++): apt install g++")


def has_fma() -> bool:
    """Whether this processor has x86's fused multiply-add: a call of the C library stands in for it elsewhere."""
    try:
        return " fma " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def emulated_command(compiler: list[str]) -> list[str]:
    return [*compiler, *CPP_FLAGS, *CPP_WARNINGS, *(["-mavx2", "-mfma"] if has_fma() else []), "-Inative/cuda/emulate", *INCLUDES]


def build_emulated(cc: str | None = None, verbose: bool = False, sources: list[Path] | None = None, folder: Path | None = None) -> Path:
    """The CUDA part for the CPU; other sources and another folder are for tests of the emulator itself."""
    began = time.monotonic()
    folder = folder or ROOT / "build" / "emulate"
    folder.mkdir(parents=True, exist_ok=True)
    command = emulated_command(cpp_compiler(cc))
    library = folder / EMULATED
    with locked(folder):
        kernels, made = compile_all(folder, sources or cuda_sources(), command, verbose, ["-x", "c++"])
        runtime, more = compile_all(folder, sorted((CUDA / "emulate").glob("*.cpp")), command, verbose, ["-O2"])
        link(library, [*kernels, *runtime], [*command[:1], "-shared", "-pthread", "-Wl,--no-undefined", EXPORTS], verbose)
    print(f"gradino: {made + more} files of the emulated CUDA part compiled in {time.monotonic() - began:.1f} s", file=sys.stderr)
    return library


# ---- For GPUs ----------------------------------------------------------------------------------------------------------

ARCHITECTURES = (80, 86, 89, 90, 100)  # those of them that the compiler knows; later GPUs run the newest one's PTX
NVCC_FLAGS = [
    *"-std=c++17 -O3 -Werror all-warnings -Xptxas -v -Xfatbin=-compress-all".split(),
    "-fmad=false",  # contraction is as on the CPU: where the source says fma
    "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror",
]


def nvcc_command() -> list[str]:
    """The compiler: NVCC of the environment, else nvcc, else that of CUDA_HOME or /usr/local/cuda."""
    wanted = os.environ.get("NVCC", "").strip()
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    for word in [wanted] if wanted else ["nvcc", *(f"{home}/bin/nvcc" for home in homes if home)]:
        command = shlex.split(word)
        if shutil.which(command[0]):
            return command
    raise BuildError(
        "no CUDA compiler found (looked for NVCC, nvcc, CUDA_HOME): install the CUDA toolkit, 12.0 or newer, "
        "from https://developer.nvidia.com/cuda-downloads or as nvidia-cuda-nvcc of conda-forge"
    )


def has_nvcc() -> bool:
    try:
        nvcc_command()
    except BuildError:
        return False
    return True


def architectures(nvcc: list[str], wanted: str = "") -> list[int]:
    """Numbers of what is built for: those asked for ("80,90"), else all that the compiler knows."""
    known = {int(word) for word in re.findall(r"compute_(\d+)", run([*nvcc, "--list-gpu-arch"]))}
    if not wanted:
        return [number for number in ARCHITECTURES if number in known]
    numbers = [int(word.removeprefix("sm_")) for word in re.split(r"[,; ]+", wanted.strip()) if re.fullmatch(r"(sm_)?\d+", word)]
    unknown = [str(number) for number in numbers if number not in known]
    if unknown or not numbers:
        raise BuildError(f"architectures {wanted!r}: this compiler knows {', '.join(map(str, sorted(known)))}")
    return numbers


def build_cuda(package: Path | None, wanted: str = "", verbose: bool = False) -> Path:
    """The CUDA part for GPUs; into the package, or, without one, compiled and not linked. Returns the folder of the objects."""
    began = time.monotonic()
    nvcc = nvcc_command()
    numbers = architectures(nvcc, wanted or os.environ.get("GRADINO_CUDA_ARCH", ""))
    version = re.search(r"release ([\d.]+)", run([*nvcc, "--version"]))
    folder = ROOT / "build" / "cuda" / "-".join([version[1] if version else "unknown", *map(str, numbers)])
    codes = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    codes.append(f"-gencode=arch=compute_{numbers[-1]},code=compute_{numbers[-1]}")
    with locked(folder):
        objects, made = compile_all(folder, cuda_sources(), [*nvcc, *NVCC_FLAGS, *codes, *INCLUDES], verbose, ["-x", "cu"])
        if package is not None:
            library = folder / LIBRARY
            link(library, objects, [*nvcc, "-shared", "-cudart", "static", codes[0], "-Xlinker", EXPORTS.removeprefix("-Wl,")], verbose)
            install(library, package / LIBRARY)
    names = ", ".join(f"sm_{number}" for number in numbers)
    print(
        f"gradino: {made} of {len(objects)} files of the CUDA part compiled for {names} in {time.monotonic() - began:.0f} s",
        file=sys.stderr,
    )
    return folder


def wants_cuda() -> bool:
    """Whether an installation is to have the CUDA part: it takes minutes, so only where GRADINO_CUDA=1 asks for it."""
    return os.environ.get("GRADINO_CUDA", "").strip() not in ("", "0")
