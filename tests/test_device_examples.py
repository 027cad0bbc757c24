"""The examples train on a CUDA device, or the emulated one that GRADINO_CUDA_LIBRARY names, with the losses of the CPU."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradino as gd

pytestmark = pytest.mark.skipif(not gd.cuda.is_available(), reason="no CUDA device and no emulated one")
ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {
    "mlp_digits.py": "--epochs 1 --hidden 16",
    "cnn_digits.py": "--epochs 1 --channels 2",
    "char_lstm.py": "--steps 3 --hidden 16 --batch 4 --length 8 --write 5",
    "gpt_char.py": "--steps 4 --width 16 --layers 1 --heads 2 --length 16 --batch 2 --write 5",
}


def losses(name: str, device: str, folder: Path) -> list[str]:
    """The lines with losses and scores that the example prints, without speeds."""
    words = [sys.executable, str(ROOT / "examples" / name), *EXAMPLES[name].split(), "--device", device]
    if name.endswith(("lstm.py", "char.py")):
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 80)
        words += ["--data", str(folder / "text.txt")]
    if name == "char_lstm.py":
        words += ["--out", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name} on {device}:\n{done.stdout}\n{done.stderr}"
    found = [re.sub(r", [\d,]+ characters/s", "", line) for line in done.stdout.splitlines() if re.search("loss|before|after", line)]
    assert len(found) >= 2, done.stdout
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_losses_are_those_of_the_cpu(name: str, tmp_path: Path) -> None:
    assert losses(name, "cuda", tmp_path) == losses(name, "cpu", tmp_path)
