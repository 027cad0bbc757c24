"""docs/operator-sweep.md, from the rows of a sweep."""

from __future__ import annotations

from collections import defaultdict

from sweep import Row, reason_for, reason_of_absence
from sweep_lists import WIDER
from sweep_names import names, reason_of

HEAD = """# The operator sweep

Written by `python tests/operator_sweep.py --write`; do not edit.

PyTorch keeps, for every operator, inputs that its own tests use (`op_db`). The sweep gives them to both libraries, in
float32, float64, int64 and bool, and compares values, dtypes, shapes, the gradients of float64, the method and the in-place
method of that name, and which inputs are refused. `python tests/operator_sweep.py cumsum sort` shows some operators with every
difference.

A sample agrees if all of that agrees. Samples that cannot be asked of gradino (more than four dimensions, complex, sparse, int8,
channels-last, ...) are out of scope and counted apart.
"""


def share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f} %"


def document(rows: list[Row], most: int | None = None) -> str:
    """The whole page."""
    here, absent = [r for r in rows if not r.absent], [r for r in rows if r.absent]
    agree, scope, everything = sum(r.agree for r in here), sum(r.scope for r in here), sum(r.scope for r in rows)
    refused, beyond = sum(r.refused for r in here), sum(sum(r.beyond.values()) for r in here)
    accepted = sum(len(r.accepted) + r.wider for r in here)
    lines = [
        HEAD,
        f"- Operators: {len(here)} of {len(rows)} entries of the table.",
        f"- Samples of those: **{agree} of {scope} agree, {share(agree, scope)}**; {beyond} more are out of scope.",
        f"- Samples of all operators, with those that gradino does not have: {agree} of {everything}, {share(agree, everything)}."
        if most is None
        else f"- Looked at: at most {most} samples of each operator and dtype, of operators that gradino has.",
        f"- Inputs that PyTorch refuses: gradino refuses {refused} of {refused + accepted}.",
        "",
        "## What differs, and why",
        "",
        "| operator | samples | agree | differs | reason |",
        "|---|---|---|---|---|",
    ]
    for r in sorted(here, key=lambda r: r.name):
        reasons: dict[str, int] = defaultdict(int)
        for found, count in r.differ.items():
            reasons[reason_for(r.name, found) or "not explained"] += count
        for reason, count in reasons.items():
            lines.append(f"| `{r.name}` | {r.scope} | {r.agree} | {count} | {reason} |")
    lines += ["", "Inputs that PyTorch refuses and gradino takes:", ""]
    lines += [f"- {reason}" for reason in dict.fromkeys(reason for _, _, reason in WIDER)]
    lines += ["", "## Operators that gradino does not have", "", "| operators | reason |", "|---|---|"]
    groups: dict[str, list[str]] = defaultdict(list)
    for r in absent:
        groups[reason_of_absence(r.operator) or "not there yet"].append(f"`{r.operator}`")
    lines += [f"| {' '.join(dict.fromkeys(group))} | {reason} |" for reason, group in sorted(groups.items())]
    lines += ["", "## Names that gradino does not have", ""]
    for where, title in (
        ("torch", "Functions of `torch`"),
        ("Tensor", "Methods and attributes of tensors"),
        ("functional", "`nn.functional`"),
    ):
        of = [(n, has) for place, n, has in names() if place == where]
        lines += [f"### {title}", "", f"{sum(has for _, has in of)} of {len(of)} are there.", "", "| names | reason |", "|---|---|"]
        groups = defaultdict(list)
        for n, has in of:
            if not has:
                groups[reason_of(where, n) or "not there yet"].append(f"`{n}`")
        lines += [f"| {' '.join(group)} | {reason} |" for reason, group in sorted(groups.items())] + [""]
    lines += ["## All operators", "", "| operator | samples | agree | out of scope |", "|---|---|---|---|"]
    lines += [f"| `{r.name}` | {r.scope} | {r.agree} | {sum(r.beyond.values())} |" for r in sorted(here, key=lambda r: r.name)]
    return "\n".join([*lines, ""])
