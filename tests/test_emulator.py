"""The emulator that runs CUDA kernels on the CPU: what is right passes, and faults that were planted are found.

Run by `make test-emulated`. The kernels of cuda/planted.cu stand in for ops of a CUDA part of their own.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from building import NATIVE, ROOT, check, clean_environment, run

sys.path.insert(0, str(NATIVE))
import build_cuda

PLANTED = ROOT / "tests" / "cuda" / "planted.cu"
SEEDS = ["0", "1", "2"]  # 0: threads and blocks in order
CALL = """
import sys
import gradino as gd
x = (gd.arange(256) % 7).float().reshape(4, 64)
op = getattr(gd, sys.argv[1], None) or getattr(gd.nn.functional, sys.argv[1])
try:
    y = op(x.to("cuda")).cpu()
except gd.DeviceError as error:
    sys.exit(f"DeviceError: {error}")
assert y.equal(x.sum(1, keepdim=True).expand(4, 64)), y[:, :4].tolist()
"""

pytestmark = pytest.mark.skipif(
    "GRADINO_TEST_EMULATED" not in os.environ, reason="compiles C++ for half a minute: `make test-emulated` runs it"
)


@pytest.fixture(scope="module")
def planted() -> Path:
    """A CUDA part of planted kernels."""
    if not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("no C++ compiler here: apt install g++")
    sources = [PLANTED, *(NATIVE / "cuda" / f"{name}.cu" for name in ("table", "runtime"))]
    return build_cuda.build_emulated(sources=sources, folder=ROOT / "build" / "planted")


def called(library: Path, op: str, **environment: str) -> tuple[int, str]:
    done = run([sys.executable, "-c", CALL, op], env=clean_environment(GRADINO_CUDA_LIBRARY=str(library), **environment))
    return done.returncode, done.stdout + done.stderr


RIGHT = {
    "neg": "shuffles",
    "abs": "shared memory",
    "sign": "barriers of warps",
    "square": "votes and atomics",
    "floor": "tensor cores",
    "ceil": "asynchronous copies",
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("op", RIGHT, ids=RIGHT.get)
def test_what_is_right_passes(planted: Path, op: str, seed: str) -> None:
    status, text = called(planted, op, GRADINO_EMULATE_SEED=seed)
    assert status == 0, text


WRONG = {
    "exp": ("no_barrier", r"block \(\d,0,0\), thread \(\d+,0,0\): (a race: reads 4 bytes|reads 4 bytes .* not written)"),
    "expm1": ("no_inner_barrier", r"thread \(\d+,0,0\): a race: (reads|writes) 4 bytes"),
    "log": ("one_too_far", r"thread \(63,0,0\): out of bounds of shared memory: element 64 of 64"),
    "log1p": ("dynamic_too_far", r"thread \(63,0,0\): out of bounds of shared memory: element 63 of 63"),
    "log2": ("", r"AssertionError"),  # a wrong reduction width breaks no rule: the result is wrong
    "sin": ("barrier_in_a_branch", r"divergent barrier: 32 of 64 threads wait at .*planted\.cu:\d+, .* 32 have exited"),
    "cos": ("two_barriers", r"divergent barriers: this thread is at .*planted\.cu:\d+, thread \d+ at .*planted\.cu:\d+"),
    "tanh": ("never_written", r"thread \(5,0,0\): reads 4 bytes at 20 of shared memory that this block has not written"),
    "sigmoid": ("lane_that_left", r"a shuffle from lane (24|25|26|27|28|29|30|31), which is not active"),
    "erf": ("not_in_the_mask", r"lane (1[6-9]|2\d|3[01]) is not in the mask 0000ffff"),
    "gelu": ("lanes_apart", r"divergent warp: \d+ lanes"),
    "sqrt": ("far_away", r"touches the address 0x[0-9a-f]+, where there is no memory of a device"),
    "rsqrt": ("copy_not_awaited", r"that this block has not written"),
    "reciprocal": ("not_aligned", r"an address in shared memory that is not a multiple of 16"),
    "silu": ("right_shuffles", r"2048 threads in a block"),
    "mish": ("right_shuffles", r"102400 bytes of shared memory: at most 101376"),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("op", WRONG, ids=[name or "wrong_width" for name, _ in WRONG.values()])
def test_what_is_wrong_is_found(planted: Path, op: str, seed: str) -> None:
    kernel, words = WRONG[op]
    status, text = called(planted, op, GRADINO_EMULATE_SEED=seed)
    assert status != 0 and kernel in text and re.search(words, text), text


def test_host_code_that_touches_device_memory_faults(planted: Path) -> None:
    """With GRADINO_EMULATE_GUARD; without it, it reads what is there."""
    code = (
        "import gradino as gd, ctypes; x = gd.ones(4).to('cuda'); gd.cuda.synchronize(); "
        "print(ctypes.c_float.from_address(x.data_ptr()).value); print(x.tolist())"
    )
    assert check([sys.executable, "-c", code], env=clean_environment(GRADINO_CUDA_LIBRARY=str(planted))).startswith("1.0")
    done = run([sys.executable, "-c", code], env=clean_environment(GRADINO_CUDA_LIBRARY=str(planted), GRADINO_EMULATE_GUARD="1"))
    assert done.returncode < 0, done.stdout + done.stderr
    code = "import gradino as gd; x = gd.ones(64).to('cuda'); print(gd.neg(x).tolist()[0])"
    for how in ("GUARD", "DEFER"):
        environment = clean_environment(GRADINO_CUDA_LIBRARY=str(planted), **{f"GRADINO_EMULATE_{how}": "1"})
        assert check([sys.executable, "-c", code], env=environment) == "64.0\n"


def test_a_kernel_that_fails_does_not_spoil_the_next(planted: Path) -> None:
    code = (
        "import gradino as gd\nx = gd.ones(64).to('cuda')\n"
        "for op in (gd.exp, gd.sin, gd.sqrt):\n"
        "    try: op(x).tolist(); raise SystemExit('no error')\n    except gd.DeviceError: pass\n"
        "    assert gd.neg(x).tolist() == [64.0] * 64\n"
    )
    check([sys.executable, "-c", code], env=clean_environment(GRADINO_CUDA_LIBRARY=str(planted)))
