#!/usr/bin/env python3
"""A small GPT that learns to write like a text, one character at a time.

It learns from Shakespeare where ``../shared/data/tinyshakespeare.txt`` lies beside the project, else from Python's own
language reference; ``--data FILE`` names another text. What to look at: attention is one call, no weight decay for
vectors, the learning rate warms up and sinks, gradients are clipped, and all of a step's memory goes with its arena.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from pathlib import Path

import numpy as np

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim
from gradino.sampling import sample

SHAKESPEARE = Path(__file__).resolve().parents[2] / "shared" / "data" / "tinyshakespeare.txt"


class Attention(nn.Module):
    """Each position gathers from those before it: (B, T, C) -> (B, T, C)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.heads, self.dropout = heads, dropout

    def forward(self, x: gd.Tensor) -> gd.Tensor:
        """Queries, keys and values of all heads come from one product."""
        batch, steps, width = x.shape
        q, k, v = (part.view(batch, steps, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, steps, width))


class Block(nn.Module):
    """Attention, then a perceptron for each position; both add to what flows through."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x: gd.Tensor) -> gd.Tensor:
        """(B, T, C) -> (B, T, C)."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Characters (B, T) -> logits (B, T, vocabulary) of the character that follows each."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.length = length
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:  # the branches' last products are smaller, so that depth does not amplify
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if name.endswith(("out.weight", "mlp.2.weight")) else 0.02)
        self.head.weight = self.tokens.weight  # what a character means and how it is chosen: one table

    def forward(self, characters: gd.Tensor) -> gd.Tensor:
        """What a character means, plus where it stands."""
        x = self.tokens(characters) + self.places(gd.arange(characters.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def read(path: Path | None) -> str:
    """The text to learn from."""
    if path is None and SHAKESPEARE.exists():
        path = SHAKESPEARE
    if path is not None:
        return path.read_text(encoding="utf-8")
    return "\n".join(importlib.import_module("pydoc_data.topics").topics.values())


def batch(text: np.ndarray, rows: int, length: int, rng: np.random.Generator) -> tuple[gd.Tensor, gd.Tensor]:
    """Random windows (rows, length), and the same one character later."""
    windows = rng.integers(0, len(text) - length, rows)[:, None] + np.arange(length + 1)
    return gd.tensor(text[windows[:, :-1]]), gd.tensor(text[windows[:, 1:]])


def loss_of(model: GPT, x: gd.Tensor, y: gd.Tensor) -> gd.Tensor:
    """Mean cross entropy, in nats per character."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@gd.no_grad()
def judge(model: GPT, text: np.ndarray, rows: int, rounds: int = 20) -> float:
    """Mean loss on text that the model has not seen, with dropout off; the same windows each time."""
    rng, total = np.random.default_rng(1), 0.0
    model.eval()
    for _ in range(rounds):
        with gd.step_arena():
            total += loss_of(model, *batch(text, rows, model.length, rng)).item()
    model.train()
    return total / rounds


@gd.no_grad()
def write(model: GPT, alphabet: str, characters: int, temperature: float) -> str:
    """Text, drawn one character at a time from what the model expects next."""
    model.eval()
    text = [0]
    for _ in range(characters):
        with gd.step_arena():
            logits = model(gd.tensor([text[-model.length :]]))[0, -1]
            text.append(int(sample(logits, temperature, top_k=min(50, len(alphabet))).item()))
    model.train()
    return "".join(alphabet[i] for i in text[1:])


def main(words: list[str] | None = None) -> None:
    """Train, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=Path, default=argparse.SUPPRESS, help="UTF-8 text (default: Shakespeare or the reference)")
    sizes = {
        "steps": (600, "training steps"),
        "batch": (12, "windows in one step"),
        "length": (64, "characters of a window"),
        "width": (128, "numbers per character"),
        "layers": (4, "blocks"),
        "heads": (4, "attention heads of a block"),
        "write": (400, "characters to write at the end"),
    }
    for name, (default, text) in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=text)
    parser.add_argument("--lr", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--dropout", type=float, default=0.0, help="share of numbers dropped in training")
    parser.add_argument("--temperature", type=float, default=0.8, help="how bold the writing is; 0: always the likeliest")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help="what products compute in")
    parser.add_argument("--seed", type=int, default=0, help="of weights, windows and writing")
    parser.add_argument("--device", default="cpu", help="cpu or cuda: where tensors are and work is done")
    given = parser.parse_args(words)
    for name in sizes:
        if getattr(given, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if given.width % given.heads:
        parser.error(f"--width must be a multiple of --heads, {given.heads}")
    if not (given.lr > 0 and 0 <= given.dropout < 1 and 0 <= given.temperature < math.inf and given.seed >= 0):
        parser.error("--lr must be above 0, --dropout in [0, 1), --temperature and --seed at least 0")

    gd.manual_seed(given.seed)
    gd.set_default_device(given.device)
    rng = np.random.default_rng(given.seed)
    text = read(getattr(given, "data", None))
    alphabet = "".join(sorted(set(text)))
    numbers = np.searchsorted(np.array(list(alphabet)), np.array(list(text)))
    training, unseen = np.split(numbers, [int(0.9 * len(numbers))])
    if len(unseen) <= given.length:
        parser.error(f"--data has {len(text)} characters: a tenth of it must be longer than --length, {given.length}")

    model = GPT(len(alphabet), given.length, given.width, given.layers, given.heads, given.dropout)
    matrices, vectors = [p for p in model.parameters() if p.ndim >= 2], [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=given.lr, betas=(0.9, 0.95))
    warm = max(1, given.steps // 20)
    schedule = optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, 0.55 + 0.45 * math.cos(math.pi * min(1, step / given.steps)))
    )

    print(f"{len(text):,} characters, {len(alphabet)} different; {sum(p.numel() for p in model.parameters()):,} weights")
    print(f"before: {judge(model, unseen, given.batch):.3f} nats per unseen character (guessing: {math.log(len(alphabet)):.3f})")
    began = time.perf_counter()
    for step in range(1, given.steps + 1):
        with gd.step_arena():  # everything made inside dies at the end of the block
            with gd.autocast(given.device, dtype=gd.bfloat16, enabled=given.precision == "bfloat16"):
                loss = loss_of(model, *batch(training, given.batch, given.length, rng))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if step % max(1, given.steps // 6) == 0 or step == given.steps:
                rate = step * given.batch * given.length / (time.perf_counter() - began)
                print(f"step {step:4}: loss {loss.item():.3f}, {rate:,.0f} characters/s")
    print(f"after: {judge(model, unseen, given.batch):.3f} nats per unseen character\n")
    print(write(model, alphabet, given.write, given.temperature))


if __name__ == "__main__":
    main()
