"""Values of every op: specs x kernel set x dtype, in all memory layouts, and all short lengths."""

from __future__ import annotations

import pytest
from checks import check_lengths, check_values
from spec_kinds import LAYOUTS
from specs import LIST

VALUES = [pytest.param(spec, dtype, id=f"{spec.name}-{dtype}") for spec in LIST for dtype in spec.dtypes]
ROWS = [pytest.param(spec, dtype, id=f"{spec.name}-{dtype}") for spec in LIST if spec.rows for dtype in spec.dtypes]
LENGTHS = [pytest.param(spec, dtype, id=f"{spec.name}-{dtype}") for spec in LIST if spec.elementwise for dtype in spec.dtypes]


@pytest.mark.parametrize(("spec", "dtype"), VALUES)
def test_values(isa, spec, dtype):
    for case in spec.cases:
        for layout in LAYOUTS[:1] if spec.factory else LAYOUTS:
            check_values(spec, case, dtype, layout)


@pytest.mark.parametrize(("spec", "dtype"), ROWS)
def test_n17_rows_of_all_lengths(isa, spec, dtype):
    for n in range(1, 68):
        for case in spec.rows(n):
            check_values(spec, case, dtype, "guarded")


@pytest.mark.parametrize(("spec", "dtype"), LENGTHS)
def test_n17_all_lengths(isa, spec, dtype):
    check_lengths(spec, dtype)
