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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

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


def give_up(why: object, code: int = 2) -> NoReturn:
    """End the program: 2 is for what was asked, 1 for what went wrong on the way."""
    print(f"char_lstm: {why}", file=sys.stderr)
    raise SystemExit(code)


def read_text(path: Path | None) -> str:
    """The file's text, or Python's language reference."""
    if path is None:
        try:
            topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
        except ImportError:
            give_up("this Python comes without pydoc_data; name a text with --data FILE")
        return "\n\n\n".join(topics[name] for name in sorted(topics))
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        give_up(f"--data {path} cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        give_up(f"--data {path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}")


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


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that appears whole or not at all, whatever ends the writing."""
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


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
    with whole_file(path) as file:
        figure.savefig(file, dpi=100, format="png")
    plt.close(figure)
    return True


def save(model: CharLSTM, path: Path) -> None:
    """All parameters by name in one .npz file."""
    arrays = {name: tensor.cpu().numpy() for name, tensor in model.state_dict().items()}
    with whole_file(path) as file:
        np.savez(file, **arrays)


def load(model: CharLSTM, path: Path) -> None:
    """Parameters from a file of ``save``; names and shapes must be the model's."""
    with np.load(path) as arrays:
        model.load_state_dict(dict(arrays))


def write(model: CharLSTM, alphabet: str, prompt: str, length: int, temperature: float) -> str:
    """Text that goes on from the prompt, drawn one character at a time from what the model expects.

    At temperature 0 the likeliest character is taken. Without a prompt the model begins after the alphabet's
    first character, which in most texts is the line break.
    """
    written, state = prompt, None
    model.eval()
    with gd.step_arena(), gd.no_grad():
        unread = encode(prompt or alphabet[0], alphabet).reshape(-1, 1)
        for _ in range(length):
            with gd.step_arena():
                logits, state = model(gd.tensor(unread), state)
                state = kept(state)
                scores = logits[-1, 0]
                if temperature:  # the largest of scores / temperature + gumbel is a draw from softmax(scores / temperature)
                    scores = scores - temperature * (-gd.rand(len(alphabet)).log()).log()
                drawn = scores.argmax().item()
            written += alphabet[drawn]
            unread = np.array([[drawn]])
    return written


def number(kind: Callable[[str], Any], low: float, high: float, open_end: bool = False) -> Callable[[str], Any]:
    """A reader of int or float options that must lie in [low, high], or in [low, high) with ``open_end``."""

    def read(word: str) -> Any:
        try:
            value = kind(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{word!r} is not {'an integer' if kind is int else 'a number'}") from None
        if not low <= value <= high or (open_end and value == high):
            raise argparse.ArgumentTypeError(f"{word} is not in [{low:g}, {high:g}{')' if open_end else ']'}")
        return value

    return read


def arguments(words: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    count, size = number(int, 1, 10**9), number(int, 1, 10**5)
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="UTF-8 text to learn from (default: Python's language reference)",
    )
    add("--steps", type=count, default=4000, help="training steps")
    add("--hidden", type=size, default=256, help="hidden units of the LSTM")
    add("--embedding", type=size, default=64, help="numbers per character")
    add("--layers", type=size, default=1, help="LSTM layers")
    add("--batch", type=count, default=16, help="places in the text read side by side")
    add("--length", type=count, default=64, help="characters of each in one step")
    add("--lr", type=number(float, 0, math.inf, open_end=True), default=6e-3, help="highest learning rate of AdamW")
    add("--dropout", type=number(float, 0, 1), default=0.1, help="dropout before and between layers and the head")
    add("--seed", type=number(int, 0, 2**64, open_end=True), default=0, help="of weights, starts and the sample")
    add("--device", default="cpu", help="cpu or cuda: where tensors are and work is done")
    add("--prompt", default="The ", help="what the sample begins with (default: %(default)r)")
    add("--write", type=number(int, 0, 10**9), default=600, metavar="N", help="characters to sample")
    add("--temperature", type=number(float, 0, math.inf, open_end=True), default=0.5, help="of the sample; lower is safer, 0 is greedy")
    add("--out", type=Path, default=Path("out"), help="folder for model and picture")
    return parser.parse_args(words, argparse.Namespace(data=None))


def main(words: list[str] | None = None) -> None:
    """Train, show, save, reload, write."""
    given = arguments(words)
    text = read_text(given.data)
    alphabet = "".join(sorted(set(text)))
    ids = encode(text, alphabet)
    ids, held_out = np.split(ids, [len(ids) * 19 // 20])
    if len(ids) < given.batch * (given.length + 1) + given.length or len(held_out) < 16:
        give_up(f"{len(text):,} characters are too few for --batch {given.batch} and --length {given.length}")
    prompt = "".join(character for character in given.prompt if character in alphabet)
    if prompt != given.prompt:
        print(f"prompt: {given.prompt!r} has characters that the text has not; {prompt!r} is left of it")
    try:
        given.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        give_up(f"--out {given.out} cannot be made: {error.strerror}")
    gd.manual_seed(given.seed)
    gd.set_default_device(given.device)

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

    if not math.isfinite(after):
        give_up("the training went astray: try a lower --lr", code=1)
    picture = given.out / "char_lstm.png"
    print(f"picture: {picture}" if draw(history, picture) else "picture: skipped, matplotlib is not installed")
    saved = given.out / "char_lstm.npz"
    save(model, saved)
    model = new_model()
    load(model, saved)
    again = validate(model, held_out)
    if again != after:
        give_up(f"the reloaded model has validation loss {again!r}, the saved one {after!r}", code=1)
    print(f"saved and reloaded: {saved}, validation loss again {again:.4f}")
    gd.manual_seed(given.seed)
    print(f"\nwritten by the model, character by character:\n{'-' * 72}")
    written = write(model, alphabet, prompt, given.write, given.temperature)
    print("\n".join(textwrap.fill(line, 72) for line in written.splitlines()))


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal that lacks a character shows '?'
    try:
        main()
    except KeyboardInterrupt:
        give_up("interrupted", code=130)
    except (OSError, gd.OutOfMemoryError) as error:
        give_up(error, code=1)
