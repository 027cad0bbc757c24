"""The benchmarks run, and what they validate holds: one pass of each, nothing is timed for its own sake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MARKS = "head\n<!-- peers:begin -->\nold\n<!-- peers:end -->\ntail\n"


pytestmark = pytest.mark.skipif(
    "LD_PRELOAD" in os.environ, reason="a sanitized library is too slow for benchmarks, and its ops are tested one by one"
)


def run(*command: str) -> str:
    """Runs Python from the project's folder and returns what it printed."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_peers_agree_and_are_reported(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    target = tmp_path / "figures.json"
    text = run("bench/peers.py", "--quick", "--threads", "1", "--json", str(target))
    figures = json.loads(target.read_text(encoding="utf-8"))
    rows = figures["peers"]["torch"]["rows"]
    assert len(rows) >= 11
    for row in rows:
        assert row["workload"] in text
        assert row["gradino"] > 0 and row["peer"] > 0 and row["ratio"] > 0, row
    assert figures["memory"].keys() == {"gradino", *figures["peers"]}
    assert "--quick: these figures say nothing" in text


def test_convolutions_and_their_networks_are_pytorchs() -> None:
    pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    for only in ("3x3, 64 channels, 8x8", "digits, 8x8, batch 64"):
        text = run("bench/cnn.py", "--effort", "quick", "--threads", "1", "--only", only)
        assert text.count(only) == (1 if "digits" in only else 2), text
    assert "PyTorch takes" in text


def test_a_gpt_loses_as_in_pytorch() -> None:
    pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    text = run("bench/gpt.py", "--quick", "--threads", "1", "--sizes", "small", "--dtypes", "float32")
    assert text.count("| 4 layers, width 128") == 1, text


def test_microbenchmarks_hold_what_they_validate() -> None:
    pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")
    assert " passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--benchmark-disable", "bench")


@pytest.mark.parametrize("script", ["cnn.py", "costs.py", "gpt.py", "limits.py", "peers.py", "rows.py"])
def test_scripts_explain_themselves(script: str) -> None:
    assert "usage:" in run(f"bench/{script}", "--help")


def test_tables_are_pasted_between_marks(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text(MARKS, encoding="utf-8")
    code = (
        f"import sys; sys.path.insert(0, 'bench'); import report, pathlib; report.paste(pathlib.Path({str(document)!r}), 'peers', 'new\\n')"
    )
    run("-c", code)
    assert document.read_text(encoding="utf-8") == MARKS.replace("old", "new")
