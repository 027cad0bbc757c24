"""Print how gradino's operators agree with PyTorch's on PyTorch's own sample inputs.

python tests/operator_sweep.py                 all operators, a table
python tests/operator_sweep.py cumsum sort     these, with every difference and an example of each
python tests/operator_sweep.py --most 5        at most 5 samples of each operator and dtype
python tests/operator_sweep.py --differ        only what differs, with examples
python tests/operator_sweep.py --write         write docs/operator-sweep.md
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from sweep import Row, in_tables, operators, reason_for, sweep  # noqa: E402


def show(row: Row, details: bool) -> None:
    beyond = sum(row.beyond.values())
    errors = f"{row.refused} of {row.refused + len(row.accepted)} refused" if row.refused + len(row.accepted) else ""
    mark = "absent" if row.absent else "" if not row.differ and not row.accepted else "DIFFERS"
    print(f"{row.name:44} {row.agree:6} of {row.scope:6}  {beyond:5} beyond  {errors:18} {mark}")
    if details and not row.absent:
        for found, count in row.differ.most_common():
            print(f"      {count:4}  {found}\n            {row.examples[found]}  [{reason_for(row.name, found) or 'no reason'}]")
        for text in row.accepted:
            print(f"      accepts {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=None)
    parser.add_argument("--differ", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    chosen = [op for op in operators() if not given.names or op.name in given.names or in_tables(op) in given.names]
    rows = []
    for op in chosen:
        row = sweep(op, given.most)
        rows.append(row)
        if not given.differ or ((row.differ or row.accepted) and not row.absent):
            show(row, bool(given.names) or given.differ)
    here = [r for r in rows if not r.absent]
    agree, scope, everything = sum(r.agree for r in rows), sum(r.scope for r in here), sum(r.scope for r in rows)
    print(f"{len(here)} of {len(rows)} operators; {agree} of {scope} samples agree: {100 * agree / max(scope, 1):.2f} %")
    print(f"over all operators {agree} of {everything}: {100 * agree / max(everything, 1):.2f} %")
    if given.write:
        from sweep_document import document

        (ROOT / "docs" / "operator-sweep.md").write_text(document(rows, given.most))


if __name__ == "__main__":
    main()
