"""The thread pool and how many threads it takes: limits of machine and container, environment, fork."""

from __future__ import annotations

import functools
import itertools
import os
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from building import NATIVE, PROGRAMS, SYSTEM_SOURCES, check, clean_environment, compile_program, package_directory, run
from building import without_randomised_addresses as fixed_addresses

CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
linux = pytest.mark.skipif(sys.platform != "linux", reason="affinity and cgroups are Linux's")

# Asks the library alone, as a C program would.
ASK = """
import ctypes, os, sys
cpus = sys.argv[2]
if cpus:
    os.sched_setaffinity(0, map(int, cpus.split(",")))
lib = ctypes.CDLL(sys.argv[1])
lib.gd_take_warning.restype = ctypes.c_char_p
status = lib.gd_init_status()
print(lib.gd_get_num_threads(), lib.gd_default_num_threads(), status, (lib.gd_take_warning() or b"").decode(), sep="|")
"""


def ask(cpus: list[int] | None = None, **environment: str) -> tuple[int, int, str]:
    """Threads, status of initialisation and warning of a fresh process on these CPUs."""
    library = next(package_directory().glob("libgradino.*"))
    words = ",".join(map(str, cpus or []))
    printed = check([sys.executable, "-c", ASK, library, words], env=clean_environment(**environment))
    threads, default, status, warning = printed.strip().split("|")
    assert threads == default
    return int(threads), int(status), warning


# ---- How many threads (case T01) --------------------------------------------------------------------


def cgroup_root(root: Path, membership: str, files: dict[str, str]) -> str:
    """A directory that stands in for / with this /proc/self/cgroup and these files below /sys/fs/cgroup."""
    for name, text in {"proc/self/cgroup": membership, **{f"sys/fs/cgroup/{k}": v for k, v in files.items()}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def v1(where: str, quota: str, period: str = "100000\n") -> dict[str, str]:
    return {f"{where}/cpu.cfs_quota_us": quota, f"{where}/cpu.cfs_period_us": period}


V1_LINES = "12:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n"
CGROUPS = {
    # name: membership, files, processors granted (None: no limit)
    "v2 one and a half": ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
    "v2 half": ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
    "v2 one, other period": ("0::/\n", {"cpu.max": "20000 20000\n"}, 1),
    "v2 tiny": ("0::/\n", {"cpu.max": "1 1000000\n"}, 1),
    "v2 unlimited": ("0::/\n", {"cpu.max": "max 100000\n"}, None),
    "v2 huge": ("0::/\n", {"cpu.max": "9223372036854775807 1\n"}, None),
    "v2 garbage": ("0::/\n", {"cpu.max": "lots\n"}, None),
    "v2 empty": ("0::/\n", {"cpu.max": ""}, None),
    "v2 period 0": ("0::/\n", {"cpu.max": "100000 0\n"}, None),
    "v2 nested": ("0::/a/b\n", {"a/b/cpu.max": "50000 100000\n"}, 1),
    "v2 parent is tighter": ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "100000 100000\n"}, 1),
    "v2 path of the host": ("0::/kubepods/x\n", {"cpu.max": "100000 100000\n"}, 1),
    "v2 no files": ("0::/a\n", {}, None),
    "v1 one and a half": (V1_LINES, v1("cpu/docker/x", "150000\n"), 2),
    "v1 half": (V1_LINES, v1("cpu/docker/x", "50000\n"), 1),
    "v1 unlimited": (V1_LINES, v1("cpu/docker/x", "-1\n"), None),
    "v1 inside the container": (V1_LINES, v1("cpu", "100000\n"), 1),
    "v1 mounted by its list": (V1_LINES, v1("cpu,cpuacct/docker/x", "100000\n"), 1),
    "v1 period missing": (V1_LINES, {"cpu/docker/x/cpu.cfs_quota_us": "100000\n"}, None),
    "v1 of another controller": ("3:cpuset:/x\n", v1("cpu/x", "100000\n"), None),
    "hybrid": ("4:cpu:/x\n0::/\n", v1("cpu/x", "100000\n"), 1),
    "garbage": ("nothing\n::\n:\n\n", {}, None),
}


@linux
@pytest.mark.parametrize("name", CGROUPS)
def test_t01_cgroup_quota(name: str, tmp_path: Path) -> None:
    membership, files, granted = CGROUPS[name]
    threads, _, _ = ask(GRADINO_CGROUP_ROOT=cgroup_root(tmp_path, membership, files))
    assert threads == min(granted or len(CPUS), len(CPUS))


@linux
def test_t01_no_proc_file(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("100000 100000\n")
    assert ask(GRADINO_CGROUP_ROOT=str(tmp_path))[0] == 1


@linux
@pytest.mark.parametrize("count", [1, 2])
def test_t01_affinity(count: int, tmp_path: Path) -> None:
    if len(CPUS) < count:
        pytest.skip(f"this process may use {len(CPUS)} CPU")
    assert ask(CPUS[:count], GRADINO_CGROUP_ROOT=str(tmp_path))[0] == count


@pytest.mark.parametrize(("value", "threads"), [("1", 1), ("7", 7), (" 3 ", 3), ("1024", 1024)])
def test_t01_gradino_num_threads(value: str, threads: int) -> None:
    assert ask(GRADINO_NUM_THREADS=value, OMP_NUM_THREADS="5") == (threads, 0, "")


@pytest.mark.parametrize("value", ["0", "-1", "abc", "2x", "1.5", "1025", "99999999999999999999", " "])
def test_t01_bad_gradino_num_threads_warns_and_is_ignored(value: str) -> None:
    default, _, _ = ask()
    threads, status, warning = ask(GRADINO_NUM_THREADS=value)
    assert (threads, status) == (default, 1)
    assert f"GRADINO_NUM_THREADS={value} " in warning and "1 to 1024" in warning


@pytest.mark.parametrize(("value", "threads"), [("3", 3), ("4,2", 4), ("5000", 1024), ("", None), ("0", None), ("abc", None)])
def test_t01_omp_num_threads(value: str, threads: int | None) -> None:
    assert ask(OMP_NUM_THREADS=value) == (threads or ask()[0], 0, "")


def test_empty_gradino_num_threads_counts_as_unset() -> None:
    assert ask(GRADINO_NUM_THREADS="", OMP_NUM_THREADS="3") == (3, 0, "")


# ---- The pool ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[object]]:
    """The command that runs tests/c/pool.c, built with a sanitizer or none."""

    @functools.cache
    def command(sanitize: str) -> list[object]:
        sources = [PROGRAMS / "pool.c", NATIVE / "cpu.c", *SYSTEM_SOURCES]
        program = compile_program(tmp_path_factory.mktemp("pool") / "pool", sources, sanitize=sanitize)
        return [*(fixed_addresses() if sanitize == "thread" else []), program]

    return command


MODES = [("counts", 1), ("concurrent", 300), ("modes", 20)]
# The thread sanitizer knows no threads in a forked child.
RUNS = [(sanitize, *mode) for sanitize in ("", "address,undefined", "thread") for mode in MODES]
# Not with the address sanitizer: GCC 12's takes a lock in the child that a thread of the parent may hold.
RUNS += [("", "fork", 100), ("undefined", "fork", 20)]


@pytest.mark.parametrize(("sanitize", "mode", "rounds"), RUNS)
def test_pool(pool: Callable[[str], list[object]], sanitize: str, mode: str, rounds: int) -> None:
    assert check([*pool(sanitize), mode, rounds]).strip() == "ok"


@linux
def test_t01_two_processes_on_one_core(pool: Callable[[str], list[object]]) -> None:
    """Threads that wait give the core away: two processes take about twice the time of one."""
    [program] = pool("")

    def processor_time(copies: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = " & ".join([f"{program} jobs 20000"] * copies) + " & wait"
        check(
            ["sh", "-c", command],
            env=clean_environment(GRADINO_NUM_THREADS="2"),
            preexec_fn=lambda: os.sched_setaffinity(0, CPUS[:1]),
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    alone, together = (min(processor_time(copies) for _ in range(3)) for copies in (1, 2))
    assert together < 2.5 * alone, f"alone {alone:.2f} s, two {together:.2f} s of processor time"


# ---- Through the package ----------------------------------------------------------------------------


FORK = """
import os, signal, sys, threading
import numpy as np
import gradino as gd

def work():
    a = gd.ones(256, 256, requires_grad=True)
    with gd.step_arena():
        y = (a @ a).sum()
        y.backward()
        return y.item(), a.grad.numpy().copy()

gd.set_num_threads(4)
value, grad = work()
stop = False
def busy():
    while not stop:
        work()
others = [threading.Thread(target=busy) for _ in range(int(sys.argv[1]))]
for other in others:
    other.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        again, grad_again = work()
        os._exit(0 if again == value == 256.0**3 and np.array_equal(grad, grad_again) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert work()[0] == value
stop = True
for other in others:
    other.join()
print("ok")
"""


@pytest.mark.parametrize("busy_threads", [0, 1])
def test_m05_fork_after_the_pool_has_started(busy_threads: int) -> None:
    began = time.monotonic()
    assert check([sys.executable, "-W", "ignore", "-c", FORK, busy_threads]).strip() == "ok"
    assert time.monotonic() - began < 60


def small_training(seed: int, steps: int = 10) -> list[float]:
    """Losses of a few steps of a two-layer model of its own."""
    import gradino as gd

    rng = np.random.default_rng(seed)
    x, y = (gd.from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in ((256, 64), (256, 64)))
    w = [gd.from_numpy(rng.standard_normal((64, 64)).astype(np.float32)).requires_grad_() for _ in range(2)]
    losses = []
    for _ in range(steps):
        with gd.step_arena():
            loss = ((((x @ w[0]).tanh() @ w[1]) - y) ** 2).mean()
            loss.backward()
            losses.append(loss.item())
            with gd.no_grad():
                for p in w:
                    p.sub_(p.grad)
                    p.grad = None
    return losses


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_t01_the_same_bits_from_any_thread_with_any_number_of_threads() -> None:
    """Threads train at once while the thread count changes under them."""
    import gradino as gd

    before = gd.get_num_threads()
    gd.set_num_threads(1)
    expected = [small_training(seed) for seed in range(3)]
    assert all(losses[-1] < losses[0] for losses in expected)
    try:
        with ThreadPoolExecutor(3) as executor:
            results = [executor.submit(small_training, seed % 3) for seed in range(12)]
            for k in itertools.count():
                gd.set_num_threads(1 + k % 5)
                if all(result.done() for result in results):
                    break
        assert [result.result() for result in results] == 4 * expected
    finally:
        gd.set_num_threads(before)


def test_set_num_threads() -> None:
    import gradino as gd

    before = gd.get_num_threads()
    try:
        for n in (1, 3, 2, before):
            gd.set_num_threads(n)
            assert gd.get_num_threads() == n
        for n in (0, -1, 1025):
            with pytest.raises(ValueError, match=f"{n}.*1 to 1024"):
                gd.set_num_threads(n)
        assert gd.get_num_threads() == before
    finally:
        gd.set_num_threads(before)


def test_bad_num_threads_is_a_warning_of_import() -> None:
    done = run([sys.executable, "-c", "import gradino"], env=clean_environment(GRADINO_NUM_THREADS="many"))
    assert done.returncode == 0, done.stderr
    assert "Warning: GRADINO_NUM_THREADS=many" in done.stderr
