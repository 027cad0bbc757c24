"""What the operator sweep knows beforehand: operators that gradino does not have, and differences that are meant."""

from __future__ import annotations

# Operators that gradino does not have: (names, as a regular expression, reason).
ABSENT: tuple[tuple[str, str], ...] = ()

# Differences that are meant: (operators, regular expression on what is different, reason).
DELIBERATE: tuple[tuple[str, str, str], ...] = ()

# Operators whose results are allowed a larger error: factor on the tolerances.
LOOSE: dict[str, float] = {}
