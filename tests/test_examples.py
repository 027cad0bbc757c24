"""The examples run as their readers run them, shortened, and what they print is what they promise."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from building import SANITIZED

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SMALL = ["--hidden", "32", "--embedding", "16", "--batch", "8", "--length", "32", "--lr", "0.02", "--write", "60"]

draws = pytest.mark.skipif(SANITIZED, reason="matplotlib throws C++ exceptions, which the preloaded sanitizer does not survive")


def run(name: str, *words: str, code: int = 0, **environment: str) -> str:
    """What the example prints. A warning is an error."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *words]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == code, f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def numbers(pattern: str, output: str) -> list[float]:
    """The numbers that the pattern's groups match."""
    found = re.search(pattern, output)
    assert found, f"no {pattern!r} in\n{output}"
    return [float(x) for x in found.groups()]


def without(*modules: str, folder: Path) -> dict[str, str]:
    """An environment where these modules cannot be imported."""
    for module in modules:
        (folder / f"{module}.py").write_text(f"raise ImportError('{module} is hidden by the test')\n")
    inherited = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {"PYTHONPATH": os.pathsep.join([str(folder), *inherited])}


@draws
def test_char_lstm_learns_saves_draws_and_writes(tmp_path: Path) -> None:
    output = run("char_lstm.py", "--steps", "60", *SMALL, "--out", str(tmp_path))
    before, after = numbers(r"validation loss: before ([\d.]+), after ([\d.]+)", output)
    assert after < before - 1, output
    assert f"validation loss again {after:.4f}" in output
    with np.load(tmp_path / "char_lstm.npz") as arrays:
        assert arrays["lstm.weight_hh_l0"].shape == (128, 32)
    assert not list(tmp_path.glob("*.partial"))
    text = output.split("-" * 72 + "\n")[1].rstrip("\n")
    assert text.startswith("The ") and len(text) <= 64
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "char_lstm.png").read_bytes().startswith(b"\x89PNG")
    else:
        assert "picture: skipped" in output


@draws
def test_char_lstm_learns_any_file_by_heart(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("the quick brown fox jumps over the lazy dog. " * 120, encoding="utf-8")
    words = ["--data", str(file), "--steps", "300", *SMALL, "--prompt", "the q", "--out", str(tmp_path / "new" / "folder")]
    output = run("char_lstm.py", *words)
    (after,) = numbers(r"after ([\d.]+)", output)
    assert after < 0.1, output
    assert "quick brown fox jumps over the lazy dog. the quick brown" in output


@draws
def test_char_lstm_does_the_same_with_any_number_of_threads(tmp_path: Path) -> None:
    words = ["--steps", "20", *SMALL, "--layers", "2", "--dropout", "0.1", "--out", str(tmp_path)]
    outputs = [run("char_lstm.py", *words, GRADINO_NUM_THREADS=n) for n in ("1", "2")]
    one, two = ([line for line in o.splitlines() if not line.startswith(("model:", "trained:"))] for o in outputs)
    assert one == two


def test_char_lstm_needs_neither_tqdm_nor_matplotlib(tmp_path: Path) -> None:
    environment = without("tqdm", "matplotlib", folder=tmp_path)
    output = run("char_lstm.py", "--steps", "20", *SMALL, "--out", str(tmp_path), **environment)
    assert "tqdm is not installed" in output and "100%  loss" in output
    assert "picture: skipped, matplotlib is not installed" in output


def test_char_lstm_says_when_the_text_is_too_short(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("too short", encoding="utf-8")
    assert "are too few" in run("char_lstm.py", "--data", str(file), "--out", str(tmp_path), code=1)


def test_char_lstm_goes_without_the_language_reference(tmp_path: Path) -> None:
    assert "name a text with --data" in run("char_lstm.py", "--out", str(tmp_path), code=1, **without("pydoc_data", folder=tmp_path))


def test_iris() -> None:
    output = run("iris.py", "--epochs", "20")
    (right,) = numbers(r"unseen flowers: (\d+) of 30", output)
    assert right >= 28, output


def test_iris_table() -> None:
    lines = (EXAMPLES / "iris.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines[1:]]
    assert len(rows) == 150 and all(len(row) == 5 for row in rows)
    lengths = np.array([row[:4] for row in rows], np.float64)
    assert lengths.mean(0).round(3).tolist() == [5.843, 3.057, 3.758, 1.199]
    kinds = [row[4] for row in rows]
    assert [kinds.count(kind) for kind in dict.fromkeys(kinds)] == [50, 50, 50]


def test_spiral() -> None:
    output = run("spiral.py", "--steps", "400")
    (right,) = numbers(r"([\d.]+)% of 450 points", output)
    assert right >= 99, output
    assert sum(set(line) <= set(".o#") for line in output.splitlines()) == 26


def test_digits_lstm() -> None:
    pytest.importorskip("sklearn", reason="the pictures come with scikit-learn, which is not installed")
    output = run("digits_lstm.py", "--epochs", "6")
    (before,), (after,) = numbers(r"before: ([\d.]+)%", output), numbers(r"after: ([\d.]+)%", output)
    assert before < 30 and after > 85, output
    assert "names the same pictures" in output


def test_digits_lstm_says_what_is_missing(tmp_path: Path) -> None:
    assert "pip install scikit-learn" in run("digits_lstm.py", code=1, **without("sklearn", folder=tmp_path))
