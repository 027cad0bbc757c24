#!/usr/bin/env python3
"""Trains a character LSTM on real text, draws its loss and memory, saves and reloads it, lets it write.

The text is Python's own language reference, which every Python carries (``pydoc_data.topics``), or any
file: ``char_lstm.py --data FILE``. The network sees one character and says what comes next; it has never
heard of words. ``--help`` lists what can be changed; ``--steps 20`` is a quick look.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim
from gradino.config import get_isa

State = tuple[gd.Tensor, gd.Tensor]


class CharLSTM(nn.Module):
    """Characters (T, B) as int64 -> logits (T, B, vocabulary) of the character that follows each."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, dropout=dropout if layers > 1 else 0.0)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, characters: gd.Tensor, state: State | None = None) -> tuple[gd.Tensor, State]:
        """Logits, and the state to go on from."""
        output, state = self.lstm(self.embedding(characters), state)
        return self.head(self.dropout(output)), state


# ---- Text -----------------------------------------------------------------------------------------------


def read_text(path: str | None) -> str:
    """The file's text, or Python's language reference."""
    if path:
        return Path(path).read_text(encoding="utf-8")
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ImportError:
        sys.exit("char_lstm: this Python comes without pydoc_data; name a text with --data FILE")
    return "\n\n\n".join(topics[name] for name in sorted(topics))


def encode(text: str, alphabet: str) -> np.ndarray[Any, Any]:
    """Each character as its number in the alphabet, int64."""
    number = {character: i for i, character in enumerate(alphabet)}
    return np.array([number[character] for character in text], np.int64)


def columns(ids: np.ndarray[Any, Any], batch: int, start: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The text in ``batch`` columns side by side, (length, batch), and the same one character later."""
    length = (len(ids) - 1 - start) // batch
    here, ahead = ids[start : start + batch * length], ids[start + 1 : start + 1 + batch * length]
    return here.reshape(batch, length).T, ahead.reshape(batch, length).T


def kept(state: State) -> State:
    """The state as a copy in the arena around this step's, without the history that made it."""
    return state[0].keep(), state[1].keep()


# ---- Training -------------------------------------------------------------------------------------------


def loss_of(model: CharLSTM, here: Any, ahead: Any, state: State | None, reduction: str = "mean") -> tuple[gd.Tensor, State]:
    """Cross entropy of the next characters, in nats, and the state after the last one."""
    logits, state = model(gd.tensor(here), state)
    return F.cross_entropy(logits.flatten(0, 1), gd.tensor(ahead).flatten(), reduction=reduction), state


def validate(model: CharLSTM, ids: np.ndarray[Any, Any], batch: int = 8, length: int = 256) -> float:
    """Mean loss per character over a text the model was not trained on."""
    here, ahead = columns(ids, batch)
    total, state = 0.0, None
    model.eval()
    with gd.step_arena(), gd.no_grad():
        for i in range(0, len(here), length):
            with gd.step_arena():
                loss, state = loss_of(model, here[i : i + length], ahead[i : i + length], state, "sum")
                total, state = total + loss.item(), kept(state)
    model.train()
    return total / here.size


class History(NamedTuple):
    """What training leaves for the picture."""

    train: list[float]
    validation: list[tuple[int, float]]  # (step, loss)
    step_bytes: list[int]  # the step arena when it is fullest: activations, gradients, graph
    pass_bytes: list[int]  # the arena around it: states carried from step to step
    seconds: float


def train(model: CharLSTM, ids: np.ndarray[Any, Any], held_out: np.ndarray[Any, Any], given: argparse.Namespace) -> History:
    """Pass after pass through the text, each from another start; the LSTM's state is carried along."""
    optimizer = optim.AdamW(model.parameters(), lr=given.lr)
    history = History([], [(0, validate(model, held_out))], [], [], 0.0)
    rng = np.random.default_rng(given.seed)
    look = max(1, given.steps // 10)
    began = time.perf_counter()
    with Progress(given.steps * given.batch * given.length) as progress:
        while len(history.train) < given.steps:
            here, ahead = columns(ids, given.batch, int(rng.integers(given.length)))
            state = None
            with gd.step_arena() as around:
                for i in range(0, len(here) - given.length + 1, given.length):
                    step = len(history.train) + 1
                    warm, cool = min(1, step / min(100, given.steps / 10)), (1 + math.cos(math.pi * step / given.steps)) / 2
                    optimizer.param_groups[0]["lr"] = given.lr * warm * (0.02 + 0.98 * cool)
                    with gd.step_arena() as inside:  # whatever this step makes is gone at the end of the block
                        loss, state = loss_of(model, here[i : i + given.length], ahead[i : i + given.length], state)
                        loss.backward()
                        optimizer.step()
                        optimizer.zero_grad()
                        state = kept(state)  # ... but for what is kept in the arena around it
                        history.train.append(loss.item())
                        history.step_bytes.append(inside.stats().used)
                    history.pass_bytes.append(around.stats().used)
                    progress.advance(given.batch * given.length, history.train[-1])
                    if step % look == 0:
                        history.validation.append((step, validate(model, held_out)))
                    if step == given.steps:
                        break
    return history._replace(seconds=time.perf_counter() - began)


class Progress:
    """tqdm's bar with characters per second and the loss, or plain lines where tqdm is missing."""

    def __init__(self, characters: int) -> None:
        self.total, self.done, self.loss, self.began = characters, 0, math.nan, time.perf_counter()
        try:
            from tqdm import tqdm
        except ImportError:
            self.bar = None
            print("tqdm is not installed: plain progress")
        else:
            quiet = 0.5 if sys.stderr.isatty() else 20  # seconds between updates
            self.bar = tqdm(total=characters, unit="char", unit_scale=True, mininterval=quiet, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def advance(self, characters: int, loss: float) -> None:
        """Say that so many more characters were learned from, at this loss."""
        before, self.done = self.done, self.done + characters
        self.loss = loss if math.isnan(self.loss) else 0.95 * self.loss + 0.05 * loss
        if self.bar is not None:
            self.bar.set_postfix_str(f"loss {self.loss:.3f}", refresh=False)
            self.bar.update(characters)
        elif before * 20 // self.total != self.done * 20 // self.total:
            rate = self.done / (time.perf_counter() - self.began)
            print(f"{self.done / self.total:4.0%}  loss {self.loss:.3f}  {rate:,.0f} characters/s", flush=True)


# ---- After training -------------------------------------------------------------------------------------


def draw(history: History, path: Path) -> bool:
    """The loss and the arenas' memory over the steps, as a picture. False where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    steps = np.arange(1, len(history.train) + 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    width = max(1, len(steps) // 100)
    smooth = np.convolve(history.train, np.ones(width) / width, "valid")
    left.plot(steps, history.train, color="#9ecae1", linewidth=0.6, label="training, each step")
    left.plot(steps[width - 1 :], smooth, color="#08519c", linewidth=1.5, label=f"training, mean of {width} steps")
    left.plot(*np.array(history.validation).T, "o-", color="#d94801", linewidth=1.5, markersize=4, label="validation")
    left.set(title="Loss", xlabel="step", ylabel="nats per character", ylim=(0, None))
    mib = 2**20
    right.plot(steps, np.array(history.step_bytes) / mib, color="#08519c", linewidth=1.5, label="step arena, at its fullest")
    kept_label = "arena around a pass: states kept for the next step"
    right.plot(steps, np.array(history.pass_bytes) / mib, color="#d94801", linewidth=1, label=kept_label)
    right.set(title="Arena memory", xlabel="step", ylabel="MiB", ylim=(0, 1.3 * max(history.step_bytes + history.pass_bytes) / mib))
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return True


def save(model: CharLSTM, path: Path) -> None:
    """All parameters by name in one .npz file, which appears whole or not at all."""
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        np.savez(file, **arrays)
    os.replace(partial, path)


def load(model: CharLSTM, path: Path) -> None:
    """Parameters from a file of ``save``; names and shapes must be the model's."""
    with np.load(path) as arrays:
        model.load_state_dict(dict(arrays))


def write(model: CharLSTM, alphabet: str, prompt: str, length: int, temperature: float) -> str:
    """Text that goes on from the prompt, drawn one character at a time from what the model expects."""
    written, state = prompt, None
    model.eval()
    with gd.step_arena(), gd.no_grad():
        unread = encode(prompt, alphabet).reshape(-1, 1)
        for _ in range(length):
            with gd.step_arena():
                logits, state = model(gd.tensor(unread), state)
                state = kept(state)
                gumbel = -(-gd.rand(len(alphabet)).log()).log()  # the largest of logits + gumbel is a draw from softmax
                drawn = (logits[-1, 0] / temperature + gumbel).argmax().item()
            written += alphabet[drawn]
            unread = np.array([[drawn]])
    return written


def arguments(words: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", metavar="FILE", help="text to learn from, UTF-8 (default: Python's language reference)")
    parser.add_argument("--steps", type=int, default=4000, help="training steps")
    parser.add_argument("--hidden", type=int, default=256, help="hidden units of the LSTM")
    parser.add_argument("--embedding", type=int, default=64, help="numbers per character")
    parser.add_argument("--layers", type=int, default=1, help="LSTM layers")
    parser.add_argument("--batch", type=int, default=16, help="places in the text read side by side")
    parser.add_argument("--length", type=int, default=64, help="characters of each in one step")
    parser.add_argument("--lr", type=float, default=6e-3, help="highest learning rate of AdamW")
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout before and between layers and the head")
    parser.add_argument("--seed", type=int, default=0, help="of weights, starts and the sample")
    parser.add_argument("--prompt", default="The ", help="what the sample begins with")
    parser.add_argument("--write", type=int, default=600, metavar="N", help="characters to sample")
    parser.add_argument("--temperature", type=float, default=0.5, help="of the sample; lower is safer")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for model and picture")
    given = parser.parse_args(words)
    if min(given.steps, given.batch, given.length) < 1:
        parser.error("--steps, --batch and --length must be at least 1")
    return given


def main(words: list[str] | None = None) -> None:
    """Train, show, save, reload, write."""
    given = arguments(words)
    text = read_text(given.data)
    alphabet = "".join(sorted(set(text) | set(given.prompt)))
    ids = encode(text, alphabet)
    ids, held_out = np.split(ids, [len(ids) * 19 // 20])
    if len(ids) < given.batch * (given.length + 1) + given.length or len(held_out) < 16:
        sys.exit(f"char_lstm: {len(text):,} characters are too few for --batch {given.batch} and --length {given.length}")
    given.out.mkdir(parents=True, exist_ok=True)
    gd.manual_seed(given.seed)

    def new_model() -> CharLSTM:
        return CharLSTM(len(alphabet), given.embedding, given.hidden, given.layers, given.dropout)

    model = new_model()
    print(f"text: {len(text):,} characters, {len(alphabet)} different; the last {len(held_out):,} are held out")
    print(f"model: {model.num_parameters():,} parameters; {gd.get_num_threads()} threads, {get_isa()} kernels")
    history = train(model, ids, held_out, given)
    (_, before), (_, after) = history.validation[0], (given.steps, validate(model, held_out))
    rate = given.steps * given.batch * given.length / history.seconds
    print(f"trained: {given.steps:,} steps in {history.seconds:.1f} s, {rate:,.0f} characters/s with validation")
    print(f"validation loss: before {before:.4f}, after {after:.4f} nats per character")

    picture = given.out / "char_lstm.png"
    print(f"picture: {picture}" if draw(history, picture) else "picture: skipped, matplotlib is not installed")
    saved = given.out / "char_lstm.npz"
    save(model, saved)
    model = new_model()
    load(model, saved)
    again = validate(model, held_out)
    if again != after:
        sys.exit(f"char_lstm: the reloaded model has validation loss {again!r}, the saved one {after!r}")
    print(f"saved and reloaded: {saved}, validation loss again {again:.4f}")
    gd.manual_seed(given.seed)
    print(f"\nwritten by the model, character by character:\n{'-' * 72}")
    written = write(model, alphabet, given.prompt, given.write, given.temperature)
    print("\n".join(textwrap.fill(line, 72) for line in written.splitlines()))


if __name__ == "__main__":
    main()
