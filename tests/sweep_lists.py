"""What the operator sweep knows beforehand: operators that gradino does not have, and differences that are meant."""

from __future__ import annotations

EITHER_SIDE = "a number may stand on either side, where PyTorch wants a tensor"

# Operators that gradino does not have: (names, as a regular expression, reason).
ABSENT: tuple[tuple[str, str], ...] = ()

# Differences that are meant: (operators, regular expression on what is different, reason).
DELIBERATE: tuple[tuple[str, str, str], ...] = ()

# Operators whose results are allowed a larger error: factor on the tolerances.
LOOSE: dict[str, float] = {}

# Error inputs that gradino accepts, which is meant: (operators, regular expression on the input, reason).
WIDER: tuple[tuple[str, str, str], ...] = (
    (
        ".*",
        r"^int64\(3,\), 2 \(PyTorch: \)|^2, int64\(3,\) \(PyTorch: \)",
        EITHER_SIDE,
    ),
    ("__r.*__", r"^2, 3 \(PyTorch: \)", EITHER_SIDE),
)
