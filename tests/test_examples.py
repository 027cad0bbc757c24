"""The examples run as their readers run them, shortened, and what they print is what they promise."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

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


def loaded(name: str) -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{Path(name).stem}", EXAMPLES / name)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_char_lstm_goes_without_the_language_reference(tmp_path: Path) -> None:
    assert "name a text with --data" in run("char_lstm.py", "--out", str(tmp_path), code=2, **without("pydoc_data", folder=tmp_path))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read: No such file or directory"),
        ("folder", "cannot be read: Is a directory"),
        (b"", "0 characters are too few"),
        (b"too short", "9 characters are too few"),
        (b"caf\xe9 " * 1000, "is not UTF-8 text: byte 3 is 0xe9"),
    ],
    ids=["missing", "folder", "empty", "short", "latin-1"],
)
def test_char_lstm_says_what_is_wrong_with_the_text(tmp_path: Path, content: bytes | str | None, complaint: str) -> None:
    file = tmp_path / "text.txt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content == "folder":
        file.mkdir()
    said = run("char_lstm.py", "--data", str(file), "--out", str(tmp_path / "out"), code=2)
    assert said.startswith("char_lstm: ") and complaint in said and len(said.splitlines()) == 1, said


PROGRAMS = [
    "char_lstm.py",
    "cnn_digits.py",
    "iris.py",
    "spiral.py",
    "digits_lstm.py",
    "mlp_digits.py",
    "mixed_precision.py",
    "gpt_char.py",
    "checkpointing.py",
]
REFUSED = [
    ("char_lstm.py", option, word)
    for option, words in {
        "--temperature": "-1 nan inf warm",
        "--lr": "-1 nan inf",
        "--dropout": "-0.1 1.1 nan",
        "--seed": "-1 1.5 18446744073709551616",
        "--write": "-1",
        **dict.fromkeys(("--steps", "--batch", "--length", "--hidden", "--embedding", "--layers"), "0 -1 1e3 99999999999"),
    }.items()
    for word in words.split()
] + [
    (name, option, "-1")
    for name, options in {
        "iris.py": "--epochs --seed",
        "spiral.py": "--steps --points --seed",
        "digits_lstm.py": "--epochs --hidden --seed",
        "cnn_digits.py": "--epochs --channels --seed",
        "mlp_digits.py": "--epochs --hidden --seed",
        "mixed_precision.py": "--steps --width --seed",
        "gpt_char.py": "--steps --batch --length --width --layers --heads --write --lr --dropout --temperature --seed",
        "checkpointing.py": "--steps --depth --width --seed",
    }.items()
    for option in options.split()
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_options_outside_their_range_are_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = loaded(name)
    for _, option, word in (case for case in REFUSED if case[0] == name):
        with pytest.raises(SystemExit) as ended:
            example.main([option, word])
        said = capsys.readouterr().err
        assert ended.value.code == 2 and option in said and "usage:" in said, f"{name} {option} {word}: {said}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_shows_every_default(name: str) -> None:
    said = " ".join(run(name, "--help").split())
    options = re.findall(r"(--[a-z]+) [A-Z]+ (?!\[)(.*?)(?= --| -h,|$)", said.partition("show this help message and exit")[2])
    assert len(options) >= 2
    for option, text in options:
        assert text.count("(default: ") == 1 and "None" not in text, f"{name} {option}: {text}"


PANGRAM = "the quick brown fox jumps over the lazy dog. "


@pytest.fixture(scope="module")
def small_text(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options for a run of a second on a text of few characters, one of them outside ASCII."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "text.txt").write_text((PANGRAM + "é\n") * 120, encoding="utf-8")
    return ["--data", str(folder / "text.txt"), "--steps", "150", *SMALL, "--out", str(folder)]


def sample(output: str) -> str:
    """What the model wrote."""
    return output.split("-" * 72 + "\n")[1].rstrip("\n")


@draws
def test_char_lstm_greedily_from_nothing(small_text: list[str]) -> None:
    greedy = [*small_text, "--prompt", "", "--temperature", "0"]
    first, other = run("char_lstm.py", *greedy), run("char_lstm.py", *greedy, "--write", "30")
    assert "prompt:" not in first
    assert PANGRAM[:20] in sample(first) and sample(first).startswith(sample(other)[:20])  # no chance in it


@draws
def test_char_lstm_leaves_out_of_the_prompt_what_the_text_does_not_have(small_text: list[str]) -> None:
    output = run("char_lstm.py", *small_text, "--prompt", "Thē qu")
    assert "prompt: 'Thē qu' has characters that the text has not; 'h qu' is left of it" in output
    assert sample(output).startswith("h qu")


@draws
@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_char_lstm_prints_to_an_ascii_terminal(small_text: list[str], environment: dict[str, str]) -> None:
    assert "dog. ?\nthe" in sample(run("char_lstm.py", *small_text, "--temperature", "0", "--prompt", "the", **environment))


def test_char_lstm_says_when_training_diverges(tmp_path: Path, small_text: list[str]) -> None:
    assert "try a lower --lr" in run("char_lstm.py", *small_text, "--lr", "1e30", "--out", str(tmp_path), code=1)
    assert not list(tmp_path.iterdir())


def test_char_lstm_says_when_it_cannot_write(tmp_path: Path, small_text: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "cannot be made: " in run("char_lstm.py", *small_text, "--out", str(tmp_path / "file"), code=2)


def test_char_lstm_ends_quietly_when_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(EXAMPLES / "char_lstm.py"), "--steps", "1000000", "--out", str(tmp_path)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}

    def listen() -> None:  # where the tests run in the background of a shell, interrupts are ignored, and so they would be here
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(command, cwd=ROOT, preexec_fn=listen, **pipes) as process:
        assert process.stdout and process.stderr
        while not process.stdout.readline().startswith("model:"):  # the next thing it does is train
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130 and "char_lstm: interrupted" in said and "Traceback" not in said, said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_char_lstm_writes_files_whole_or_not_at_all(tmp_path: Path, error: type[BaseException]) -> None:
    whole_file = loaded("char_lstm.py").whole_file
    path = tmp_path / "model.npz"
    for before in (None, b"old"):
        with pytest.raises(error), whole_file(path) as file:
            file.write(b"half")
            raise error
        assert not list(tmp_path.glob("*.partial")) and (path.read_bytes() if path.exists() else None) == before
        with whole_file(path) as file:
            file.write(b"old")
    assert path.read_bytes() == b"old"


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


def test_mlp_digits() -> None:
    pytest.importorskip("sklearn", reason="the pictures come with scikit-learn, which is not installed")
    output = run("mlp_digits.py", "--epochs", "6")
    (before,), (after,) = numbers(r"before: ([\d.]+)%", output), numbers(r"after: ([\d.]+)%", output)
    assert before < 30 and after > 93, output


def test_cnn_digits() -> None:
    pytest.importorskip("sklearn", reason="the pictures come with scikit-learn, which is not installed")
    output = run("cnn_digits.py", "--epochs", "5")
    (before,), (after,) = numbers(r"before: ([\d.]+)%", output), numbers(r"after: ([\d.]+)%", output)
    assert before < 30 and after > 94, output
    assert len(output.split("looks for:\n")[1].splitlines()) == 3


def test_cnn_digits_says_what_is_missing(tmp_path: Path) -> None:
    assert "pip install scikit-learn" in run("cnn_digits.py", code=1, **without("sklearn", folder=tmp_path))


def test_mixed_precision() -> None:
    output = run("mixed_precision.py", "--steps", "60", "--width", "64")
    found = re.findall(r"^(float32|bfloat16|float16) +([\d.]+) .* (\d+)$", output, re.MULTILINE)
    losses = {name: float(loss) for name, loss, _ in found}
    assert len(losses) == 3 and max(losses.values()) < 1.1 * min(losses.values()) + 1e-3, output
    assert [int(skipped) > 0 for _, _, skipped in found] == [False, False, True], output


def test_gpt_char(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(PANGRAM * 100, encoding="utf-8")
    small = "--steps 120 --length 32 --width 64 --layers 2 --heads 2 --batch 8 --write 90 --temperature 0".split()
    output = run("gpt_char.py", "--data", str(tmp_path / "text.txt"), *small)
    (before,), (after,) = numbers(r"before: ([\d.]+) nats", output), numbers(r"after: ([\d.]+) nats", output)
    assert before > 3 and after < 1, output
    assert len(output.rstrip("\n").rpartition("\n\n")[2]) >= 85, output


def test_checkpointing() -> None:
    output = run("checkpointing.py", "--steps", "2", "--depth", "16", "--width", "32")
    found = re.findall(r"([\d.]+) MiB +[\d.]+ s +([\d.]+)$", output, re.MULTILINE)
    assert len(found) == 3 and len({loss for _, loss in found}) == 1 and "the losses are the same" in output, output
    assert 3 * float(found[0][0]) < float(found[2][0]), output
