"""The C API: the tutorial program, a program that tests the header's promises, C++, and the library loaded by ctypes."""

from __future__ import annotations

import ctypes
import re
import shutil
import sys
from pathlib import Path

import pytest
from building import NATIVE, PROGRAMS, ROOT, SANITIZED, check, compile_with_library, config_flags, package_directory, run

TUTORIAL, TABLE = ROOT / "examples" / "c" / "iris.c", ROOT / "examples" / "iris.csv"


@pytest.fixture(params=["gcc", "clang"])
def cc(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


def test_the_tutorial_trains_on_iris(cc: str, tmp_path: Path) -> None:
    program = compile_with_library(tmp_path / "iris", TUTORIAL, "-std=c11", "-O2", "-pedantic", cc=cc)
    printed = check([program, TABLE])
    losses = [float(x) for x in re.findall(r"training loss ([\d.]+)", printed)]
    assert losses[0] > 0.8 and losses[-1] < 0.08, printed
    assert losses == sorted(losses, reverse=True)
    right = int(re.search(r"(\d+) of 30 named rightly", printed)[1])
    assert right >= 28, printed
    for name in ("permanent", "step"):
        assert re.search(rf"arena {name} +\d+ bytes at most", printed), printed
    assert "321 resets" in printed
    assert check([program, TABLE]) == printed, "two runs differ"


def test_the_tutorial_names_what_is_wrong_with_its_table(tmp_path: Path) -> None:
    program = compile_with_library(tmp_path / "iris", TUTORIAL)
    table = tmp_path / "table.csv"
    rows = TABLE.read_text().splitlines()
    for text, words in (
        (None, "cannot read"),
        ("\n".join(rows[:100]), "line 101"),
        ("\n".join([*rows[:40], "a,b", *rows[40:]]), "line 41"),
        ("\n".join([*rows[:-1], "1,2,3,4,tulip"]), "fourth kind"),
    ):
        table.unlink(missing_ok=True)
        if text is not None:
            table.write_text(text)
        done = run([program, table])
        assert done.returncode == 1 and words in done.stderr, done.stderr


def test_the_header_keeps_its_promises(cc: str, tmp_path: Path) -> None:
    program = compile_with_library(tmp_path / "api", PROGRAMS / "api.c", "-std=c11", cc=cc)
    assert check([program]) == "all is well\n"


def test_random_use_of_arenas_and_ops(tmp_path: Path) -> None:
    """Against a plain model of what must be alive; `make sanitize` runs it longer, where stray accesses are seen."""
    program = compile_with_library(tmp_path / "stress", PROGRAMS / "stress.c")
    for seed in range(3):
        assert check([program, seed, 4000]).endswith("all is well\n")


CPP = """
#include <cstdio>
#include <vector>
#include "gradino.h"

int main() {
    const std::vector<float> values{1, 2, 3};
    const int64_t n = (int64_t)values.size();
    const gd_tensor x = gd_from_data(1, &n, GD_FLOAT32, values.data());
    const gd_tensor y = gd_reduce(GD_OP_sum, gd_mul(gd_square(x), gd_exp(gd_sub(x, x))), nullptr, 0, 0, 0);
    std::printf("%g\\n", gd_item_float(y));
    return gd_exp(0) == 0 && gd_last_status() == GD_ERR ? 0 : 1;
}
"""


@pytest.mark.parametrize("cxx", ["g++", "clang++"])
def test_the_header_is_cpp_as_well(cxx: str, tmp_path: Path) -> None:
    if shutil.which(cxx) is None:
        pytest.skip(f"{cxx} is not installed")
    source = tmp_path / "program.cpp"
    source.write_text(CPP)
    for standard in ("c++11", "c++20"):
        check([cxx, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", source, *config_flags(), "-o", tmp_path / "program"])
        assert check([tmp_path / "program"]) == "14\n"


def test_the_header_includes_alone_and_twice(cc: str, tmp_path: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text('#include "gradino.h"\n#include "gradino.h"\nint main(void) { return 0; }\n')
    for standard in ("c11", "c17", "gnu11"):
        compile_with_library(tmp_path / "empty", source, f"-std={standard}", "-pedantic", cc=cc)


def test_every_op_without_attributes_has_a_function(cc: str, tmp_path: Path) -> None:
    """Elementwise ops with a Python function, but for those that take an attribute and have a function of their own."""
    rows = re.findall(
        r"^OP\((\w+)\s*,\s*(\w+)\s*,\s*\d+\s*,\s*\w+\s*,\s*\w+\s*,\s*[^,]+,\s*([\w|]+)\s*,", (NATIVE / "ops.def").read_text(), re.M
    )
    wanted = {name: int(nin) for name, nin, flags in rows if "EW" in flags.split("|") and "INTERNAL" not in flags and nin in "12"}
    for name in ("cast", "clamp", "elu", "hardtanh", "leaky_relu", "softplus"):
        assert wanted.pop(name) == 1
    assert len(wanted) > 35
    calls = "\n".join(f"    t = gd_{name}({', '.join('t' * nin)});" for name, nin in wanted.items())
    source = tmp_path / "calls.c"
    source.write_text(f'#include "gradino.h"\nint main(void) {{\n    gd_tensor t = 0;\n{calls}\n    return (int)t;\n}}\n')
    check([compile_with_library(tmp_path / "calls", source, "-std=c11", cc=cc)])


# ---- ctypes -----------------------------------------------------------------------------------------------------

CTYPES = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
for name in ("gd_from_data", "gd_call", "gd_unary", "gd_reduce", "gd_get_grad", "gd_parameter"):
    getattr(lib, name).restype = ctypes.c_uint64
lib.gd_scope_enter_step.restype = ctypes.c_int64
lib.gd_item_float.restype = ctypes.c_double
lib.gd_last_error.restype = ctypes.c_char_p
i64, u64 = ctypes.c_int64, ctypes.c_uint64
values = (ctypes.c_float * 3)(1, 2, 3)
scope = i64(lib.gd_scope_enter_step())
x = u64(lib.gd_from_data(i64(1), (i64 * 1)(3), 0, values))
w = u64(lib.gd_parameter(x, 1))
y = u64(lib.gd_call(lib.gd_op_find(b"mul"), (u64 * 2)(w.value, w.value), i64(2), None))
total = u64(lib.gd_reduce(lib.gd_op_find(b"sum"), y, None, i64(0), 0, ctypes.c_double(0)))
assert lib.gd_item_float(total) == 14
assert lib.gd_backward(total, u64(0), 0, 0, None) >= 0
grad = (ctypes.c_float * 3)()
assert lib.gd_copy_out(u64(lib.gd_get_grad(w)), grad, i64(12)) >= 0 and list(grad) == [2, 4, 6]
assert lib.gd_scope_exit(scope) == 0
assert lib.gd_unary(lib.gd_op_find(b"exp"), x) == 0 and b"'step' was reset" in lib.gd_last_error()
assert "gradino" not in sys.modules and "numpy" not in sys.modules
print("all is well")
"""


def test_ctypes_loads_and_trains_without_the_package() -> None:
    library = next(package_directory().glob("libgradino.*"))
    assert check([sys.executable, "-I", "-c", CTYPES, library]) == "all is well\n"


@pytest.mark.skipif(SANITIZED, reason="the package has the sanitized library loaded, from another file")
def test_the_library_can_be_loaded_twice_and_stays() -> None:
    """Beside the package, as a C extension of somebody else would: one copy of the state."""
    import gradino as gd
    from gradino._lib import lib

    library = ctypes.CDLL(str(next(package_directory().glob("libgradino.*"))))
    library.gd_arena_permanent.restype = ctypes.c_size_t
    from gradino._lib import ffi

    assert library.gd_arena_permanent() == int(ffi.cast("size_t", lib.gd_arena_permanent()))
    assert gd.ones(2).sum().item() == 2
