#!/usr/bin/env python3
"""Builds libgradino: every C file with the flags of its instruction set, in parallel, then links.

The one place that knows compiler flags: a command line tool for development, imported by setup.py.
Standard library only; the Python extension (--inplace) also needs cffi. CC, CPPFLAGS, CFLAGS and
LDFLAGS are honoured, except for flags that would change which instructions or which arithmetic a
file uses: one file built for too new a CPU, or with fast-math, would spoil the whole library.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
PACKAGE = ROOT / "gradino"
HEADERS = ("gradino.h", "ops.def")  # what a C program that uses the library needs

MACOS = sys.platform == "darwin"
LIBRARY = "libgradino.dylib" if MACOS else "libgradino.so"

STANDARD = ["-std=gnu11", "-fPIC", "-pthread", "-fvisibility=hidden"]
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wmissing-prototypes", "-Wstrict-prototypes"]
# Values must not depend on how a compiler contracts or reorders; errno and traps are not used.
ARITHMETIC = ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
RELEASE = ["-O3", "-DNDEBUG"]
DEBUG = ["-Og", "-g"]
SANITIZE = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]

# Baseline x86-64 is spelled out: some distributions' compilers default to a newer one.
X86_BASELINE = ["-march=x86-64", "-mtune=generic"]
ISA_FLAGS = {
    "portable": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx2", "-mfma", "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl"],
}
ISA_FLAGS["avx512bf16"] = [*ISA_FLAGS["avx512"], "-mavx512bf16"]  # not a kernel set: a few kernels beside AVX-512's

LINK = ["-shared", "-pthread"]
# nodelete: pool threads may outlive a dlclose. new-dtags: LD_LIBRARY_PATH can stand in a sanitized library.
LINK_LINUX = [
    f"-Wl,-soname,{LIBRARY}",
    "-Wl,-Bsymbolic-functions,--as-needed,--enable-new-dtags",
    "-Wl,-z,relro,-z,now,-z,noexecstack,-z,nodelete",
]
LINK_MACOS = [f"-Wl,-install_name,@rpath/{LIBRARY}"]

# Flags of the environment that are ours to choose.
OURS = re.compile(
    r"-O(\d|s|z|g|fast|)|-std=.*|-(march|mcpu|mtune|mfpmath)=.*|-mno-.*|-m(sse|ssse|avx|fma|f16c|bmi).*"
    r"|-flto(=.*)?|-ffast-math|-funsafe-math-optimizations|-fassociative-math|-freciprocal-math"
    r"|-ffinite-math-only|-fno-signed-zeros|-ffp-contract=.*|-ffp-model=.*|-mdaz-ftz|-fvisibility=.*|-shared|-fsanitize=.*"
)


class BuildError(Exception):
    """What went wrong, in words for the person who builds."""


@dataclass(frozen=True)
class Compiler:
    command: tuple[str, ...]
    version: str
    machine: str  # as in x86_64-linux-gnu

    @property
    def is_clang(self) -> bool:
        return "clang" in self.version.lower()


@dataclass(frozen=True)
class Options:
    cc: str | None = None
    sanitize: str = ""  # as for -fsanitize=
    werror: bool = False
    debug: bool = False
    no_x86: bool = False  # build what another architecture would build
    strip: bool = False
    verbose: bool = False


@dataclass
class Built:
    directory: Path
    objects: dict[Path, str] = field(default_factory=dict)  # object -> ISA; "" for files built once
    library: Path | None = None


def version() -> str:
    """The version, from the one file that states it."""
    text = (PACKAGE / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if not found:
        raise BuildError('gradino/_version.py: no line __version__ = "..."')
    return found[1]


def find_compiler(cc: str | None = None) -> Compiler:
    """The C compiler: `cc`, else CC of the environment, else the first of gcc, clang, cc."""
    wanted = cc or os.environ.get("CC", "").strip()
    names = [wanted] if wanted else ["gcc", "clang", "cc"]
    for name in names:
        command = shlex.split(name)
        if shutil.which(command[0]):
            break
    else:
        raise BuildError(
            f"no C compiler found (looked for {', '.join(names)}): install one, for example with "
            "`apt install gcc` (Debian, Ubuntu), `dnf install gcc` (Fedora), `xcode-select --install` (macOS), "
            "or set CC"
        )

    def ask(flag: str) -> str:
        try:
            return subprocess.run([*command, flag], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise BuildError(f"the C compiler {name!r} does not answer {flag}: {error}") from None

    return Compiler(tuple(command), ask("--version").splitlines()[0], ask("-dumpmachine").strip())


def environment_flags(*names: str) -> list[str]:
    """Flags of these environment variables, without those that are ours to choose."""
    return [flag for name in names for flag in shlex.split(os.environ.get(name, "")) if not OURS.fullmatch(flag)]


def has_x86(compiler: Compiler, options: Options) -> bool:
    return compiler.machine.startswith(("x86_64", "amd64")) and not options.no_x86


def compile_flags(compiler: Compiler, options: Options) -> list[str]:
    """Flags of every C file; those of its ISA come on top."""
    flags = [*STANDARD, *WARNINGS, *ARITHMETIC]
    if options.sanitize:
        flags += [f"-fsanitize={options.sanitize}", *SANITIZE]
    else:
        flags += DEBUG if options.debug else RELEASE
    if options.werror:
        flags.append("-Werror")
    if compiler.machine.startswith(("x86_64", "amd64")):
        flags += X86_BASELINE
    if options.no_x86:
        flags.append("-DGD_NO_X86")
    return [*flags, f'-DGD_VERSION="{version()}"', *environment_flags("CPPFLAGS", "CFLAGS")]


def link_flags(compiler: Compiler, options: Options) -> list[str]:
    flags = [*LINK, *(LINK_MACOS if MACOS else LINK_LINUX)]
    if options.sanitize:
        flags.append(f"-fsanitize={options.sanitize}")
        if compiler.is_clang:
            flags.append("-shared-libsan")
    elif not MACOS:
        flags.append("-Wl,--no-undefined")
    if options.strip and not MACOS:
        flags.append("-Wl,--strip-all")
    return [*flags, *environment_flags("LDFLAGS"), "-lm"]


def sources(x86: bool) -> list[tuple[Path, str]]:
    """Every C file with the ISA it is to be built for ("" for those that hold no kernels)."""
    portable = sorted((NATIVE / "portable").glob("*.c"))
    found = [(path, "") for path in sorted(NATIVE.glob("*.c"))]
    found += [(path, "portable") for path in portable]
    if x86:
        found += [(path, "avx2") for path in portable]
        found += [(path, isa) for isa in ("avx512", "avx512bf16") for path in sorted((NATIVE / isa).glob("*.c"))]
    return found


def build_directory(compiler: Compiler, options: Options, base: Path | None = None) -> Path:
    """Where objects of this compiler with these flags are kept."""
    flags = [flag for flag in compile_flags(compiler, options) if flag != "-Werror"]
    key = "\0".join([compiler.version, compiler.machine, *compiler.command, *flags])
    words = ["clang" if compiler.is_clang else "gcc", *options.sanitize.split(","), "debug" * options.debug]
    words += ["no-x86" * options.no_x86, hashlib.sha256(key.encode()).hexdigest()[:10]]
    return (base or ROOT / "build" / "native") / "-".join(filter(None, words))


def is_current(target: Path, depfile: Path) -> bool:
    """Whether the object is newer than everything it was made from."""
    try:
        made = target.stat().st_mtime_ns
        rule = depfile.read_text(encoding="utf-8").replace("\\\n", " ")
        used = shlex.split(rule.partition(": ")[2].splitlines()[0])
        return all((ROOT / name).stat().st_mtime_ns < made for name in used)
    except (OSError, IndexError):
        return False


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keeps a second build out of the same directory."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w") as handle:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def run(command: list[str], options: Options) -> tuple[bool, str]:
    """Runs a compiler command from the root of the source tree; says whether it went well, and what it printed."""
    if options.verbose:
        print(shlex.join(command), flush=True)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0:
        sys.stderr.write(done.stdout)
        return True, done.stdout
    return False, done.stdout or f"{shlex.join(command)}: exit status {done.returncode}\n"


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_objects(compiler: Compiler, options: Options, built: Built) -> int:
    """Compiles what is out of date; returns how many files that were."""

    def warned(target: Path) -> Path:
        """Where the warnings of an object's compilation are kept: with -Werror it is not good enough."""
        return target.with_suffix(".warnings")

    flags = compile_flags(compiler, options)
    todo: list[tuple[Path, list[str]]] = []
    for source, isa in sources(has_x86(compiler, options)):
        target = built.directory / (f"{source.stem}.{isa}.o" if isa else f"{source.stem}.o")
        built.objects[target] = isa
        if is_current(target, target.with_suffix(".d")) and not (options.werror and warned(target).exists()):
            continue
        isa_flags = [f"-DGD_ISA={isa}", *ISA_FLAGS[isa]] if isa else []
        name = os.path.relpath(source, ROOT)
        depfile = ["-MMD", "-MF", str(target.with_suffix(".d"))]
        todo.append((target, [*compiler.command, "-c", name, *flags, *isa_flags, *depfile, "-Inative", "-o"]))

    def one(item: tuple[Path, list[str]]) -> str:
        target, command = item
        partial = target.with_suffix(".tmp.o")
        done, text = run([*command, str(partial)], options)
        if not done:
            return text
        if text:
            warned(target).write_text(text, encoding="utf-8")
        else:
            warned(target).unlink(missing_ok=True)
        os.replace(partial, target)
        return ""

    todo.sort(key=lambda item: -(ROOT / item[1][len(compiler.command) + 1]).stat().st_size)
    with ThreadPoolExecutor(processors()) as pool:
        problems = [text for text in pool.map(one, todo) if text]
    if problems:
        raise BuildError(f"{len(problems)} of {len(todo)} files do not compile:\n" + "".join(problems))
    return len(todo)


def exported(library: Path) -> list[str] | None:
    """Names the library exports; None where there is no nm to ask."""
    nm = shutil.which("nm") or shutil.which("llvm-nm")
    if nm is None:
        return None
    command = [nm, "-gU", str(library)] if MACOS else [nm, "-D", "--defined-only", "--format=posix", str(library)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[2].lstrip("_") if MACOS else line.split()[0] for line in lines]


def link(compiler: Compiler, options: Options, built: Built) -> None:
    """Links the objects, unless the library is newer and was linked by the same command."""
    library = built.directory / LIBRARY
    record = built.directory / "link.txt"
    command = [*compiler.command, *map(str, built.objects), *link_flags(compiler, options), "-o"]
    built.library = library
    newest = max(target.stat().st_mtime_ns for target in built.objects)
    if library.exists() and library.stat().st_mtime_ns >= newest and record.exists():
        if record.read_text(encoding="utf-8") == shlex.join(command):
            return
    partial = library.with_suffix(".tmp")
    done, text = run([*command, str(partial)], options)
    if not done:
        raise BuildError(f"{LIBRARY} does not link:\n{text}")
    foreign = [name for name in exported(partial) or [] if not name.startswith("gd_")]
    if foreign and not options.sanitize:
        raise BuildError(f"{LIBRARY} exports names that do not start with gd_: {', '.join(foreign[:10])}")
    os.replace(partial, library)
    record.write_text(shlex.join(command), encoding="utf-8")


def build_library(options: Options, base: Path | None = None, linking: bool = True) -> Built:
    """Compiles and links libgradino; nothing is done twice."""
    began = time.monotonic()
    compiler = find_compiler(options.cc)
    built = Built(build_directory(compiler, options, base))
    with locked(built.directory):
        count = compile_objects(compiler, options, built)
        if linking:
            link(compiler, options, built)
    seconds = time.monotonic() - began
    print(
        f"gradino: {count} of {len(built.objects)} files compiled in {seconds:.1f} s with {compiler.version}",
        file=sys.stderr,
    )
    return built


def install(source: Path, target: Path) -> None:
    """Copies a file into place in one step, so that a running process keeps the old one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".tmp")
    shutil.copy2(source, partial)
    os.replace(partial, target)


def package_files() -> list[str]:
    """What build_package adds to the package, relative to it."""
    from build_cuda import LIBRARY as CUDA_LIBRARY
    from build_cuda import wants_cuda
    from ffi_build import EXTENSION

    return [LIBRARY, *([CUDA_LIBRARY] if wants_cuda() else []), *(f"include/{name}" for name in HEADERS), EXTENSION]


def build_package(options: Options, package: Path, base: Path | None = None) -> Built:
    """Puts library, headers and the Python extension into the package directory."""
    from build_cuda import build_cuda, wants_cuda
    from ffi_build import build_extension

    built = build_library(options, base)
    assert built.library is not None
    install(built.library, package / LIBRARY)
    for name in HEADERS:
        install(NATIVE / name, package / "include" / name)
    build_extension(find_compiler(options.cc), options, built, package)
    if wants_cuda():
        build_cuda(package, verbose=options.verbose)
    return built


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="native/build.py", description="Builds libgradino.")
    parser.add_argument("--cc", help="the compiler, such as gcc or clang (default: CC, else gcc, clang, cc)")
    parser.add_argument("--sanitize", default="", metavar="LIST", help="address,undefined or thread")
    parser.add_argument("--werror", action="store_true", help="treat warnings as errors")
    parser.add_argument("--debug", action="store_true", help="no optimisation to speak of, symbols, assertions")
    parser.add_argument("--no-x86", action="store_true", help="build what another architecture would build")
    parser.add_argument("--strip", action="store_true", help="leave out symbols, as a release does")
    parser.add_argument("--compile-only", action="store_true", help="do not link")
    parser.add_argument("--inplace", action="store_true", help="put library, headers and extension into gradino/")
    parser.add_argument("--out", type=Path, metavar="DIR", help="put the library there")
    parser.add_argument("--emulate", action="store_true", help="build the CUDA part for the CPU, for tests, and nothing else")
    parser.add_argument("--cuda", action="store_true", help="build the CUDA part with nvcc into gradino/, and nothing else")
    parser.add_argument("--cuda-arch", default="", metavar="LIST", help="for these GPUs, such as 80,90 (default: all that are supported)")
    parser.add_argument("--verbose", action="store_true", help="show the commands")
    given = parser.parse_args(arguments)
    options = Options(given.cc, given.sanitize, given.werror, given.debug, given.no_x86, given.strip, given.verbose)
    try:
        if given.emulate:
            from build_cuda import build_emulated

            print(build_emulated(given.cc, given.verbose))
            return 0
        if given.cuda:
            from build_cuda import build_cuda

            print(build_cuda(None if given.compile_only else given.out or PACKAGE, given.cuda_arch, given.verbose))
            return 0
        if given.inplace:
            build_package(options, PACKAGE)
            print(PACKAGE / LIBRARY)
            return 0
        built = build_library(options, linking=not given.compile_only)
        if built.library is not None:
            if given.out:
                install(built.library, given.out / LIBRARY)
            print(given.out / LIBRARY if given.out else built.library)
    except BuildError as error:
        print(f"gradino: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.modules["build"] = sys.modules["__main__"]  # one of it, with one BuildError
    sys.exit(main())
