"""The same bits whatever else is in the batch, with any number of threads, and run after run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits
from lstm_reference import inputs

import gradino as gd
from gradino import nn


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width, hidden", [(3, 4), (17, 33), (64, 128)])
def test_a_row_alone_has_the_bits_of_the_row_in_a_batch(width: int, hidden: int, dtype: str, isa: str, rng: Any) -> None:
    model = nn.LSTM(width, hidden, 2, bidirectional=True, dtype=dtype)
    linear = nn.Linear(2 * hidden, 2 * width + 1, dtype=dtype)
    x, state = inputs(model, 5, 8, rng, dtype)
    assert state is not None
    y, (h, c) = model(x, state)
    logits = linear(y)
    p = logits.softmax(-1)
    for b in range(8):
        what = f"row {b}, I {width}, H {hidden}, {dtype}, {isa}"
        y1, (h1, c1) = model(x[:, b : b + 1], (state[0][:, b : b + 1], state[1][:, b : b + 1]))
        for name, alone, whole in (("y", y1, y), ("h_n", h1, h), ("c_n", c1, c)):
            assert_same_bits(alone, whole[:, b : b + 1].contiguous(), what=f"{name}, {what}")
        logits1 = linear(y1)
        assert_same_bits(logits1, logits[:, b : b + 1].contiguous(), what=f"linear, {what}")
        assert_same_bits(logits1.softmax(-1), p[:, b : b + 1].contiguous(), what=f"softmax, {what}")


TRAINING = """
import hashlib
import numpy as np
import gradino as gd
from gradino import nn, optim
gd.manual_seed(3)
rng = np.random.default_rng(0)
data, labels = rng.standard_normal((16, 48, 24)).astype(np.float32), rng.integers(0, 10, 48)
lstm, head = nn.LSTM(24, 64, 2, bidirectional=True, dropout=0.2), nn.Linear(128, 10)
opt = optim.AdamW([*lstm.parameters(), *head.parameters()], lr=1e-2)
for step in range(50):
    with gd.step_arena():
        y, _ = lstm(gd.tensor(data), lengths=[16 - b % 5 for b in range(48)])
        loss = nn.functional.cross_entropy(head(y[-1]), gd.tensor(labels))
        loss.backward()
        opt.step()
        opt.zero_grad()
        value = loss.item()
bits = b"".join(p.detach()._array().tobytes() for p in [*lstm.parameters(), *head.parameters()])
print(gd.get_num_threads(), value, hashlib.sha256(bits).hexdigest())
"""


def test_training_has_the_same_bits_with_any_thread_count() -> None:
    """50 steps, with 1 and 2 threads and run after run."""
    runs = {}
    for label, threads in (("1", "1"), ("2", "2"), ("2 again", "2")):
        env = {**os.environ, "GRADINO_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", TRAINING], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{label} threads: {done.stderr}"
        count, loss, digest = done.stdout.split()
        assert count == threads and float(loss) < 2.2, f"{label} threads: {done.stdout}"
        runs[label] = digest
    assert len(set(runs.values())) == 1, runs


def test_changing_the_thread_count_changes_no_bit(rng: Any) -> None:
    digests = set()
    before = gd.get_num_threads()
    try:
        for threads in (1, 2, 3, 1):
            gd.set_num_threads(threads)
            gd.manual_seed(9)
            model = nn.LSTM(40, 72)
            x = gd.tensor(np.random.default_rng(1).standard_normal((9, 70, 40)), dtype="float32", requires_grad=True)
            y, (h, c) = model(x)
            (y.sum() + (h * c).sum()).backward()
            parts = [y, h, c, x.grad, *(p.grad for p in model.parameters())]
            digests.add(hashlib.sha256(b"".join(t.detach()._array().tobytes() for t in parts)).hexdigest())
    finally:
        gd.set_num_threads(before)
    assert len(digests) == 1


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("width", [1024, 1003])
def test_large_softmax_has_the_bits_of_small_ones(name: str, width: int, isa: str, rng: Any) -> None:
    """Along either dimension; 16 MiB and more are written past the caches, and columns are worked on in panels."""
    a = rng.standard_normal((4400, width), dtype=np.float32)
    for dim, x in ((1, a), (0, np.ascontiguousarray(a.T))):
        whole = getattr(gd.tensor(x), name)(dim)
        for first in range(0, 4400, 1100):
            part = (slice(first, first + 1100), slice(None))[:: 1 if dim else -1]
            small = getattr(gd.tensor(np.ascontiguousarray(x[part])), name)(dim)
            assert_same_bits(whole[part].contiguous(), small, what=f"{name} along {dim} of width {width}, from {first}, {isa}")


@pytest.mark.parametrize("hidden", [20, 190])
def test_lstm_rows_and_threads(hidden: int, isa: str) -> None:
    """Tasks of eight rows, and of more where the weights are large: outputs and gradients keep their bits."""
    rng = np.random.default_rng(3)
    model, data = nn.LSTM(9, hidden), rng.standard_normal((3, 37, 9)).astype(np.float32)
    before = gd.get_num_threads()

    def run(rows: slice) -> list[np.ndarray]:
        with gd.step_arena():
            x = gd.tensor(data[:, rows], requires_grad=True)
            y, (h, c) = model(x)
            (y.sum() + (h * c).sum()).backward()
            return [t.numpy().copy() for t in (y.detach(), x.grad, *(p.grad for p in model.parameters()))]

    try:
        results = []
        for threads in (1, 2, 3):
            gd.set_num_threads(threads)
            model.zero_grad()
            results.append(run(slice(None)))
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                assert_same_bits(a, b)
        for row in (0, 8, 36):
            y, dx, *_ = run(slice(row, row + 1))
            assert_same_bits(y, results[0][0][:, row : row + 1])
            assert_same_bits(dx, results[0][1][:, row : row + 1])
    finally:
        gd.set_num_threads(before)
