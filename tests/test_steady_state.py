"""From the third step on a training step asks nothing of the system: no malloc, no mmap, no page fault."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

import pytest
from building import PROGRAMS, build, check, clean_environment, compile_with_library

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="counts through glibc's own names of malloc")
MACHINE_FLAGS = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_with_library(tmp_path_factory.mktemp("steady") / "steady", PROGRAMS / "steady.c", "-Wno-missing-prototypes")


@glibc
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_a_c_program_trains_without_a_system_call(steady: Path, model: str, threads: int) -> None:
    printed = check([steady, model, threads])
    first, later = printed.splitlines()
    assert int(re.search(r"calls (\d+)", first)[1]) > 0, f"the counter sees nothing: {first}"
    assert later.startswith("later steps: calls 0, page faults 0,"), printed


TRAIN = """
import ctypes, gc, re, resource, sys
import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(20, 48, num_layers=2, dropout=0.1), nn.Linear(48, 10)
    def forward(self, x):
        return self.head(self.lstm(x)[0][-1])

gd.set_num_threads(int(sys.argv[2]))
gd.manual_seed(0)
y = gd.randint(0, 10, (32,))
if sys.argv[1] == "lstm":
    model, x = Recurrent(), gd.randn(9, 32, 20)
else:
    model, x = nn.Sequential(nn.Linear(30, 100), nn.Tanh(), nn.Dropout(0.1), nn.Linear(100, 10)), gd.randn(32, 30)
opt = optim.AdamW(model.parameters(), lr=1e-2)

def step(fused):
    with gd.step_arena():
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        if fused:
            loss.backward(optimizer=opt)
        else:
            loss.backward()
            opt.step()
            opt.zero_grad()
        return loss.item()

def maps():
    with open("/proc/self/maps") as f:
        return [line for line in f if "libgradino" in line or " 00:00 0 " in line and "[" not in line]

own = ctypes.CDLL(None)
code = [line.split()[0].split("-") for line in maps() if "libgradino" in line and "r-xp" in line][0]
own.count_calls_from(*(ctypes.c_size_t(int(a, 16)) for a in code))
fused = sys.argv[3] == "fused"
gd.Arena().close()  # for the counter to see
first = step(fused), step(fused)
warm_up = own.counted_calls()
for _ in range(30):
    step(fused)
own.count_calls_from(*(ctypes.c_size_t(int(a, 16)) for a in code))
gc.disable()
windows = []
for _ in range(6):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(25):
        last = step(fused)
    windows.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(warm_up, own.counted_calls(), min(windows), last < first[0])
"""


@glibc
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
@pytest.mark.parametrize("how", ["plain", "fused"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_python_trains_without_a_system_call_of_the_engine(model: str, threads: int, how: str, tmp_path: Path) -> None:
    shim = tmp_path / "count_calls.so"
    check([*build.find_compiler().command, *MACHINE_FLAGS, "-shared", "-fPIC", PROGRAMS / "count_calls.c", "-o", shim])
    printed = check([sys.executable, "-c", TRAIN, model, threads, how], env=clean_environment(LD_PRELOAD=str(shim)))
    warm_up, calls, faults, learns = printed.split()
    assert int(warm_up) > 0, f"the counter sees nothing: {printed}"
    assert int(calls) == 0, f"the engine called the system {calls} times in 150 steps"
    assert int(faults) == 0, f"at least {faults} page faults in every 25 steps"
    assert learns == "True"
