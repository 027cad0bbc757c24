"""Runs the recorded calls of all op specs again on a CUDA device, by default the emulated one, and compares with the CPU.

    python tests/cuda_replay.py                     # every op
    python tests/cuda_replay.py softmax layer_norm  # some
    python tests/cuda_replay.py --real sum          # on a GPU, with gradino/libgradino_cuda.so

The calls are those of test_aarch64.py: forward and backward, all dtypes, strided inputs, lengths around vectors and blocks. They
are recorded at first use and kept in build/trace.
"""

from __future__ import annotations

import argparse
import os
import sys

from building import NATIVE, PROGRAMS, check, clean_environment, package_directory, run
from tracing import FLAGS, FOLDER, recorded_calls

sys.path.insert(0, str(NATIVE))
import build_cuda


def replay(ops: list[str], real: bool = False, timeout: float = 3000, **environment: str) -> tuple[int, str]:
    """Exit status and what was printed."""
    trace = recorded_calls()
    if real:
        cuda = package_directory() / build_cuda.LIBRARY
    else:
        cuda = build_cuda.build_emulated()
    library = package_directory()
    program = FOLDER / "replay"
    check(["gcc", *FLAGS, PROGRAMS / "replay.c", f"-L{library}", f"-Wl,-rpath,{library}", "-lgradino", "-lm", "-o", program])
    done = run([program, *trace, 1, *ops], timeout, env=clean_environment(GRADINO_CUDA_LIBRARY=str(cuda), **environment))
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description="Replays recorded calls of ops on a CUDA device.")
    parser.add_argument("ops", nargs="*", help="names of ops (default: all)")
    parser.add_argument("--real", action="store_true", help="on a GPU instead of the emulator")
    given = parser.parse_args()
    kept = {name: value for name, value in os.environ.items() if name.startswith("GRADINO_EMULATE_")}
    status, text = replay(given.ops, given.real, **kept)
    print(text, end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
