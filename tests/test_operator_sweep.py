"""PyTorch's own sample inputs: at least 97 % agree, what differs has a reason, and what is absent is listed.

Three samples of each operator and dtype; `python tests/operator_sweep.py` looks at all of them and writes docs/operator-sweep.md.
"""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: there are no samples")

from sweep import operators, reason_for, reason_of_absence, sweep  # noqa: E402
from sweep_lists import ABSENT, DELIBERATE, WIDER  # noqa: E402
from sweep_names import ABSENT_NAMES, names, reason_of  # noqa: E402

ENOUGH = 0.97


@pytest.mark.own_arenas
def test_samples() -> None:
    rows = [sweep(op, most=3) for op in operators()]
    here = [row for row in rows if not row.absent]
    unlisted = sorted({row.operator for row in rows if row.absent and reason_of_absence(row.operator) is None})
    assert not unlisted, f"neither in gradino nor in ABSENT: {unlisted}"
    unexplained = [
        f"{row.name}: {found} ({row.examples[found]})" for row in here for found in row.differ if reason_for(row.name, found) is None
    ]
    unexplained += [f"{row.name} accepts {text}" for row in here for text in row.accepted]
    assert not unexplained, "\n".join(unexplained)
    agree, scope = sum(row.agree for row in here), sum(row.scope for row in here)
    assert scope > 1000 and agree >= ENOUGH * scope, f"{agree} of {scope} samples agree"


def test_names() -> None:
    unlisted = [f"{where}.{name}" for where, name, has in names() if not has and reason_of(where, name) is None]
    assert not unlisted, f"neither in gradino nor in ABSENT_NAMES: {unlisted}"


def test_lists_are_regular_expressions() -> None:
    for row in (*ABSENT, *DELIBERATE, *WIDER, *ABSENT_NAMES):
        for pattern in row[:-1]:
            re.compile(pattern)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x + 1e-3, "value"),
        (lambda x: x.to("float16"), "dtype"),
        (lambda x: x.reshape(-1, 1), "shape"),
        (lambda x: x.detach(), "gradient: the result does not require grad"),
        (lambda x: x + (x - x.detach()), "gradient 0: value"),
    ],
)
@pytest.mark.own_arenas
def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch, change, words) -> None:
    import sweep as module

    import gradino as gd

    op = next(o for o in operators() if o.name == "exp")
    monkeypatch.setattr(module, "function_of", lambda op: lambda x: change(gd.exp(x)))
    row = module.sweep(op, most=1, dtypes=("float64",))
    assert row.agree == 0 and all(words in found for found in row.differ), row.differ
