"""The build: what the library exports, which instructions stand where, messages, flags for C programs."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from building import (
    NATIVE,
    PROGRAMS,
    ROOT,
    SYSTEM_SOURCES,
    build,
    check,
    clean_environment,
    compile_program,
    package_directory,
    run,
)

MIB = 1 << 20


@pytest.fixture(scope="module")
def built() -> build.Built:
    """The objects of a release build; those of the installed package where it was built here."""
    return build.build_library(build.Options())


# ---- Which instructions stand where (case B01) --------------------------------------------------------

# Mnemonics of AVX and later begin with v; those of the virtualisation extensions do, too.
VEX = re.compile(r"\tv(?!m(call|launch|resume|read|write|func|load|run|save|xon|xoff|ptrld|ptrst|clear)\b|err\b|erw\b)[a-z0-9]+\b.*")
ZMM = re.compile(r".*(%zmm\d|%[xy]mm(1[6-9]|2\d|3[01])\b|%k[0-7]\b).*")
BANNED = {"": VEX, "portable": VEX, "avx2": ZMM, "avx512": re.compile(r"(?!)"), "avx512bf16": re.compile(r"(?!)")}


def instructions(path: Path) -> str:
    return check(["objdump", "-d", "--no-show-raw-insn", path])


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
def test_b01_no_instruction_outside_the_files_meant_for_it(built: build.Built) -> None:
    x86 = build.has_x86(build.find_compiler(), build.Options())
    assert set(built.objects.values()) == ({"", "portable", "avx2", "avx512", "avx512bf16"} if x86 else {"", "portable"})
    if not x86:
        pytest.skip("not x86-64")
    wrong = []
    for path, isa in built.objects.items():
        found = BANNED[isa].search(instructions(path))
        if found:
            wrong.append(f"{path.name}: {found[0].strip()}")
    assert not wrong


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
def test_b01_the_check_sees_a_planted_instruction(tmp_path: Path) -> None:
    if not build.has_x86(build.find_compiler(), build.Options()):
        pytest.skip("not x86-64")
    source = tmp_path / "planted.c"
    source.write_text("typedef float v __attribute__((vector_size(64), aligned(4)));\nvoid f(float *x) { *(v *)x += 1.0f; }\n")
    cc = build.find_compiler().command
    for isa, bad in (("portable", []), ("avx2", ["portable"]), ("avx512", ["portable", "avx2"])):
        check(
            [
                *cc,
                "-O2",
                "-march=x86-64",
                *build.ISA_FLAGS[isa],
                "-mprefer-vector-width=512",
                "-c",
                source,
                "-o",
                tmp_path / "o.o",
            ]
        )
        text = instructions(tmp_path / "o.o")
        assert [name for name in ("portable", "avx2") if BANNED[name].search(text)] == bad, text


def test_b01_cpu_and_system_decide_together(tmp_path: Path) -> None:
    check([compile_program(tmp_path / "cpu", [PROGRAMS / "cpu.c", *SYSTEM_SOURCES])])


def test_b01_preset_flags_change_neither_instructions_nor_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = "-O2 -O -Ofast -march=native -mtune=haswell -mavx512f -mno-sse4.2 -mfma -ffast-math -flto=auto -flto"
    theirs = "-g -fstack-protector-strong -D_FORTIFY_SOURCE=2 -Wformat -fcf-protection -isystem/opt/include"
    monkeypatch.setenv("CFLAGS", f"{ours} {theirs}")
    monkeypatch.setenv("LDFLAGS", "-Wl,-z,now -flto -ffast-math -L/opt/lib")
    assert build.environment_flags("CFLAGS") == theirs.split()
    assert build.environment_flags("LDFLAGS") == ["-Wl,-z,now", "-L/opt/lib"]
    compiler = build.find_compiler()
    assert build.build_directory(compiler, build.Options()).name != build.build_directory(compiler, build.Options(debug=True)).name


ISA = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
def text(name):
    getattr(lib, name).restype = ctypes.c_char_p
    return getattr(lib, name)().decode()
status = lib.gd_init_status()
print(status, text("gd_get_isa"), text("gd_supported_isas"), text("gd_last_error") if status < 0 else "", sep="|")
"""


def ask_isa(value: str | None) -> tuple[int, str, list[str], str]:
    library = next(package_directory().glob("libgradino.*"))
    env = clean_environment(**({} if value is None else {"GRADINO_ISA": value}))
    status, isa, supported, message = check([sys.executable, "-c", ISA, library], env=env).strip().split("|")
    return int(status), isa, supported.split(), message


def test_b01_the_best_supported_kernels_are_chosen() -> None:
    status, isa, supported, _ = ask_isa(None)
    assert (status, isa) == (0, supported[-1])
    assert supported == ["portable", "avx2", "avx512"][: len(supported)]
    cpuinfo = Path("/proc/cpuinfo")
    if "x86_64" in os.uname().machine and cpuinfo.exists():
        flags = re.search(r"^flags\s*:(.*)$", cpuinfo.read_text(), re.MULTILINE)[1].split()
        assert ("avx512" in supported) == ({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx2", "fma"} <= set(flags))
        assert ("avx2" in supported) == ({"avx2", "fma"} <= set(flags))


def test_b01_every_supported_set_can_be_forced() -> None:
    for isa in ask_isa(None)[2]:
        assert ask_isa(isa)[:2] == (0, isa)


@pytest.mark.parametrize("value", ["sse9", "AVX2", "avx512 ", "x" * 300, "%s%n"])
def test_b01_unknown_isa_is_an_error_that_lists_the_valid(value: str) -> None:
    status, isa, supported, message = ask_isa(value)
    assert status < 0 and isa == supported[-1]
    assert message.startswith(f"GRADINO_ISA: '{value[:40]}") and message.endswith(": " + " ".join(supported))


def test_b01_import_with_unknown_isa_raises() -> None:
    done = run([sys.executable, "-c", "import gradino"], env=clean_environment(GRADINO_ISA="sse9"))
    assert done.returncode != 0
    assert "GRADINO_ISA: 'sse9'" in done.stderr.splitlines()[-1] and "portable" in done.stderr.splitlines()[-1]


# ---- The library --------------------------------------------------------------------------------------


def header_functions() -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", (NATIVE / "gradino.h").read_text(), flags=re.DOTALL)
    begin = text.index("typedef int32_t gd_status")
    return set(re.findall(r"^[a-z][\w ]*?[ *](gd_\w+)\(", text[begin:], re.MULTILINE))


def test_library_exports_the_header_and_nothing_else() -> None:
    library = next(package_directory().glob("libgradino.*"))
    names = build.exported(library)
    if names is None:
        pytest.skip("needs nm")
    assert len(header_functions()) > 90
    if "LD_PRELOAD" not in os.environ:
        assert set(names) == header_functions()


def test_library_loads_without_python(built: build.Built) -> None:
    lib = ctypes.CDLL(str(next(package_directory().glob("libgradino.*"))))
    lib.gd_version.restype = ctypes.c_char_p
    assert lib.gd_version().decode() == build.version()


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_both_compilers_build_without_warnings(cc: str) -> None:
    if shutil.which(cc) is None:
        pytest.skip(f"no {cc} here")
    library = build.build_library(build.Options(cc=cc, werror=True)).library  # the objects are those of a plain build
    code = "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); print(lib.gd_init_status(), lib.gd_op_count())"
    status, ops = check([sys.executable, "-c", code, library]).split()
    assert status == "0" and int(ops) > 50


def test_what_another_architecture_builds() -> None:
    built = build.build_library(build.Options(no_x86=True))
    assert set(built.objects.values()) == {"", "portable"}
    assert check([sys.executable, "-c", ISA, built.library]).strip() == "0|portable|portable|"


def test_nothing_is_built_twice(built: build.Built, capsys: pytest.CaptureFixture[str]) -> None:
    before = built.library.stat().st_mtime_ns
    build.build_library(build.Options())
    assert built.library.stat().st_mtime_ns == before
    assert "gradino: 0 of" in capsys.readouterr().err


def test_a_changed_header_is_noticed(tmp_path: Path) -> None:
    header, target, depfile = tmp_path / "a b.h", tmp_path / "x.o", tmp_path / "x.d"
    header.write_text("")
    target.write_text("")
    depfile.write_text(f"x.o: \\\n {str(header).replace(' ', chr(92) + ' ')}\n")
    os.utime(header, ns=(10, 10))
    os.utime(target, ns=(20, 20))
    assert build.is_current(target, depfile)
    os.utime(header, ns=(30, 30))
    assert not build.is_current(target, depfile)
    header.unlink()
    assert not build.is_current(target, depfile)
    assert not build.is_current(target, tmp_path / "none.d")


def test_b01_no_compiler_is_one_clear_line(tmp_path: Path) -> None:
    done = run([sys.executable, NATIVE / "build.py"], env={"PATH": str(tmp_path)})
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "no C compiler found" in done.stderr and "apt install gcc" in done.stderr
    done = run([sys.executable, NATIVE / "build.py"], env=clean_environment(CC="no-such-cc -x"))
    assert done.returncode == 1 and "no-such-cc" in done.stderr


# ---- The package --------------------------------------------------------------------------------------


def test_package_is_complete() -> None:
    names = ["py.typed", "include/gradino.h", "include/ops.def", *build.package_files()]
    assert [name for name in names if not (package_directory() / name).exists()] == []


def test_wheel_is_small_stable_and_works_wherever_it_lies(tmp_path: Path) -> None:
    setuptools = pytest.importorskip("setuptools", minversion="77", reason="building a wheel takes setuptools 77")
    assert setuptools
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    check([sys.executable, "-c", code, tmp_path], cwd=ROOT, timeout=600)
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"gradino-{build.version()}-cp310-abi3-")
    with zipfile.ZipFile(wheel) as archive:
        assert sum(item.file_size for item in archive.infolist()) < 8 * MIB
        names = {name for name in archive.namelist() if not name.endswith(".py") and ".dist-info/" not in name}
        assert names == {f"gradino/{name}" for name in ("py.typed", "_native.pyi", *build.package_files())}
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
        archive.extractall(tmp_path / "else where")
    env = clean_environment(PYTHONPATH=str(tmp_path / "else where"))
    code = "import gradino, sys; print(gradino.__file__, gradino.__version__)"
    place, version = check([sys.executable, "-c", code], env=env).strip().rsplit(" ", 1)
    assert version == build.version() and Path(place).is_relative_to(tmp_path)


def test_config_flags_build_a_program(tmp_path: Path) -> None:
    if "LD_PRELOAD" in os.environ:
        pytest.skip("the library in place is a sanitized one")
    source = tmp_path / "program.c"
    source.write_text(
        "#include <gradino.h>\n#include <stdio.h>\n"
        'int main(void) { printf("%s %d", gd_version(), gd_init_status()); return gd_op_find("add") != GD_OP_add; }\n'
    )
    flags = shlex.split(check([sys.executable, "-m", "gradino", "config", "--cflags", "--libs"]))
    compiler = build.find_compiler().command
    check([*compiler, source, *flags, "-o", tmp_path / "program"])
    assert check([tmp_path / "program"]) == f"{build.version()} 0"
    cxx = shutil.which("g++") or shutil.which("clang++")
    if cxx:
        check([cxx, "-x", "c++", source, "-x", "none", *flags, "-o", tmp_path / "program"])


def test_config_prints_what_it_is_asked_for() -> None:
    def config(*words: str) -> subprocess.CompletedProcess[str]:
        return run([sys.executable, "-m", "gradino", "config", *words])

    package = package_directory()
    assert config("--version").stdout.strip() == build.version()
    assert config("--includedir").stdout.strip() == str(package / "include")
    assert config("--libdir").stdout.strip() == str(package)
    assert config("--libs").stdout.strip() == f"-L{package} -Wl,-rpath,{package} -lgradino"
    assert config().returncode == 2 and "--cflags" in config().stderr


SUBNORMALS = """
import numpy as np
def alive():
    assert 5e-324 / 1 != 0 and np.float32(1e-40) * np.float32(1) != 0
    assert np.float32(np.finfo(np.float32).smallest_subnormal) == np.float32(1.4e-45)
import gradino as gd
alive()
a = gd.full((512, 512), 1e-40)
assert ((a + a).numpy() != 0).all() and (a.exp().numpy() == 1).all()
gd.set_num_threads(4)
b = gd.full((1 << 20,), 1e-40)
assert ((b * 1.0).numpy() != 0).all()
alive()
"""


def test_n11b_import_leaves_subnormals_alone() -> None:
    check([sys.executable, "-W", "error", "-c", SUBNORMALS])
