"""C programs under the sanitizers. Run by `make sanitize` and `make tsan`, which build a library for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from building import PROGRAMS, ROOT, check, run
from building import without_randomised_addresses as fixed_addresses

PRELOADED = os.environ.get("LD_PRELOAD", "")
KIND = "address,undefined" if "libasan" in PRELOADED else "thread" if "libtsan" in PRELOADED else ""
FOLDER = Path(os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)[0] or "/nowhere")

address = pytest.mark.skipif(not KIND.startswith("address"), reason="needs the library that `make sanitize` builds")
either = pytest.mark.skipif(not KIND, reason="needs the library that `make sanitize` or `make tsan` builds")


def sanitized(target: Path, source: Path) -> Path:
    options = ["-std=gnu11", "-O1", "-g", "-pthread", "-fno-omit-frame-pointer", f"-fsanitize={KIND}"]
    if KIND.startswith("address"):
        options.append("-fno-sanitize-recover=undefined")
    check(["gcc", *options, f"-I{ROOT / 'native'}", source, f"-L{FOLDER}", f"-Wl,-rpath,{FOLDER}", "-lgradino", "-lm", "-o", target])
    return target


RUNS = [
    ("address", PROGRAMS / "api.c", []),
    ("address", ROOT / "examples" / "c" / "iris.c", [ROOT / "examples" / "iris.csv"]),
    *[("address", PROGRAMS / "stress.c", [seed, 8000]) for seed in range(10, 16)],
    ("address", PROGRAMS / "threads.c", [6, 60]),
    ("thread", PROGRAMS / "threads.c", [8, 150]),
    ("thread", PROGRAMS / "stress.c", [1, 2000]),
]


@either
@pytest.mark.parametrize("kind, source, words", RUNS, ids=lambda x: x.stem if isinstance(x, Path) else str(x))
def test_a_program_runs_clean(kind: str, source: Path, words: list[object], tmp_path: Path) -> None:
    if not KIND.startswith(kind):
        pytest.skip(f"is for the {kind} sanitizer")
    program = sanitized(tmp_path / source.stem, source)
    done = run([*fixed_addresses(), program, *words], timeout=600)
    assert done.returncode == 0 and "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr[-6000:]


PLANTED = """
#include "gradino.h"
int main(int argc, char **argv) {
    int64_t n = 3, scope = gd_scope_enter_step();
    gd_tensor t = gd_full(1, &n, GD_FLOAT32, 1, 0), later;
    gd_tensor_info info;
    gd_info(t, &info);
    float *x = info.data;
    (void)argv;
    if (argc == 1) x[2] = 5;                                       /* the last element: fine */
    if (argc == 2) x[3] = 5;                                       /* one behind it */
    if (argc == 3) gd_scope_exit(scope), x[0] = 5;                 /* of a step that is over */
    if (argc == 4) later = gd_full(1, &n, GD_FLOAT32, 1, 0), x[15] = (float)later; /* between two tensors */
    return 0;
}
"""


@address
@pytest.mark.parametrize("mistake", range(4))
def test_a_stray_access_to_an_arena_is_caught(mistake: int, tmp_path: Path) -> None:
    source = tmp_path / "planted.c"
    source.write_text(PLANTED)
    done = run([sanitized(tmp_path / "planted", source), *["x"] * mistake])
    if mistake:
        assert done.returncode != 0 and "use-after-poison" in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr
