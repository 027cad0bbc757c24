"""Writes docs/op-support.md, the list of all ops, from the op table and the op specs: `python docs/op_support.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from completeness import DOCUMENT, document, table
from specs import SPECS

if __name__ == "__main__":
    DOCUMENT.write_text(document(table(), SPECS))
    print(f"wrote {DOCUMENT}")
