"""Builds gradino._native, the cffi API-mode extension over libgradino, with the few types of python/types.c.

Its declarations are the region between the cffi marks of gradino.h, so there is no second copy.
Compiled like any C file of the library: no other build tool has a say in flags or places.
"""

from __future__ import annotations

import contextlib
import io
import sys
import sysconfig
from pathlib import Path

from build import MACOS, NATIVE, BuildError, Built, Compiler, Options, environment_flags, install, run

# How the library calls Python, see gradino/_calls.py.
CALLBACK = """
extern "Python" int32_t gd_python_callback(int, int64_t, gd_tensor, const gd_tensor *, int64_t, gd_tensor *, int64_t, int);
"""
MODULE = "gradino._native"
# Free-threaded interpreters have no stable ABI.
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")
TYPES = NATIVE / "python" / "types.c"
# The generated module is the first part; ours adds its types to it.
WHOLE = f"""#define PyInit__native gd_init_cffi
#include "cffi.c"
#undef PyInit__native
#include "{TYPES.relative_to(NATIVE).as_posix()}"
"""
BESIDE = ["-undefined", "dynamic_lookup", "-Wl,-rpath,@loader_path"] if MACOS else ["-Wl,-rpath,$ORIGIN", "-Wl,--enable-new-dtags"]
EXTENSION = "_native" + (".abi3.so" if STABLE_ABI else sysconfig.get_config_var("EXT_SUFFIX"))


def declarations() -> str:
    """The part of gradino.h that cffi parses."""
    text = (NATIVE / "gradino.h").read_text(encoding="utf-8")
    begin, end = text.find("/* cffi:begin */"), text.find("/* cffi:end */")
    if not 0 <= begin < end:
        raise BuildError("native/gradino.h: the cffi marks are missing")
    return text[begin:end] + CALLBACK


def generated_source(directory: Path) -> Path:
    """Writes the C source of the extension; leaves the file alone if it is the same."""
    try:
        import cffi
    except ImportError:
        raise BuildError("the Python extension needs cffi: pip install cffi") from None
    ffi = cffi.FFI()
    ffi.cdef(declarations())
    ffi.set_source(MODULE, '#include "gradino.h"', py_limited_api=STABLE_ABI)
    with contextlib.redirect_stdout(io.StringIO()):
        ffi.emit_c_code(str(directory / "cffi.c"))
    target = directory / "_native.c"
    if not target.exists() or target.read_text(encoding="utf-8") != WHOLE:
        target.write_text(WHOLE, encoding="utf-8")
    return target


def python_flags() -> list[str]:
    """Where Python.h is, and what the interpreter expects of an extension."""
    include = sysconfig.get_path("include")
    if not (Path(include) / "Python.h").exists():
        raise BuildError(
            f"Python.h is not in {include}: install the headers of Python {sys.version_info[0]}.{sys.version_info[1]}, "
            "for example with `apt install python3-dev` (Debian, Ubuntu) or `dnf install python3-devel` (Fedora)"
        )
    return [f"-I{include}", f"-I{sysconfig.get_path('platinclude')}"]


def build_extension(compiler: Compiler, options: Options, built: Built, package: Path) -> Path:
    """Compiles the extension, links it with the library beside it, and puts it into the package."""
    assert built.library is not None
    directory = built.directory / f"python-{sys.version_info[0]}.{sys.version_info[1]}"
    directory.mkdir(exist_ok=True)
    source = generated_source(directory)
    target, extension = package / EXTENSION, directory / EXTENSION
    command = [
        *compiler.command,
        *("-std=gnu11", "-O2", "-fPIC", "-pthread", "-fvisibility=hidden", "-DNDEBUG"),
        *environment_flags("CPPFLAGS", "CFLAGS"),
        f"-I{NATIVE}",
        *python_flags(),
        *(["-DPy_LIMITED_API=0x030A0000"] if STABLE_ABI else []),
        str(source),
        f"-L{built.library.parent}",
        "-lgradino",
        "-shared",
        *environment_flags("LDFLAGS"),
        *BESIDE,
        *(("-Wl,--strip-all",) if options.strip and not MACOS else ()),
    ]
    record = directory / "command.txt"
    current = record.exists() and record.read_text(encoding="utf-8") == "\n".join(command) and extension.exists()
    newest = max(path.stat().st_mtime_ns for path in (source, directory / "cffi.c", TYPES, NATIVE / "gradino.h"))
    if not current or extension.stat().st_mtime_ns < newest:
        done, text = run([*command, "-o", str(extension)], options)
        if not done:
            raise BuildError(f"the Python extension does not build:\n{text}")
        record.write_text("\n".join(command), encoding="utf-8")
    install(extension, target)
    return target
