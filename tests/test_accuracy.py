"""The errors of the float32 elementary functions on a sample of all floats; `make exhaustive` takes them all."""

from __future__ import annotations

from pathlib import Path

import exhaustive
import pytest

# Every 4099th bit pattern; and around each exponent's ends and sixteenths, where formulas change.
SAMPLES = ((0, (1 << 32) // 4099, 4099), *(((1 << 32) + k & 0xFFFFFFFF, 1 << 13, 1 << 19) for k in range(-2, 3)))


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exhaustive.program(tmp_path_factory.mktemp("accuracy"))


@pytest.mark.parametrize("function", exhaustive.FUNCTIONS)
def test_errors(binary: Path, function: str) -> None:
    """At most 2 ULP on every instruction set, NaN and infinities where they belong, AVX2 and AVX-512 with the same bits."""
    for first, count, step in SAMPLES:
        for isa, (error, at) in exhaustive.measure(binary, function, first, count, step).items():
            what = f"{function}({at!r}) on {isa}: {error} ULP (bit patterns from {first} in steps of {step})"
            assert error <= (0 if isa == "differ" else exhaustive.LIMIT), what
