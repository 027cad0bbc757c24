#!/usr/bin/env python3
"""Convolutions, and training steps of networks made of them, beside PyTorch.

Each row is first validated (results and gradients, or losses over several steps, agree), then the libraries take
turns. `--sets` chooses: forward, backward (gradients for input and weight), networks.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
from dataclasses import dataclass
from typing import Any

import compare
import limits
import machine
import numpy as np
import report

import gradino as gd
from gradino import config


@dataclass(frozen=True)
class Shape:
    """One convolution: batch, channels in and out, size, kernel; height 1 and kernel height 1 are one-dimensional."""

    name: str
    n: int
    cin: int
    cout: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> tuple[int, int]:
        return self.kernel[0] // 2, self.kernel[1] // 2

    @property
    def flops(self) -> float:
        """Of one product; backward has two."""
        points = [(s + 2 * p - k) // self.stride + 1 for s, p, k in zip(self.size, self.padding, self.kernel)]
        return 2.0 * self.n * self.cout * self.cin / self.groups * float(np.prod(points)) * float(np.prod(self.kernel))


SHAPES = [
    Shape("3x3, 3 to 16 channels, 32x32, batch 32", 32, 3, 16, (32, 32), (3, 3)),
    Shape("3x3, 16 channels, 32x32, batch 32", 32, 16, 16, (32, 32), (3, 3)),
    Shape("3x3, 32 channels, 32x32, batch 32", 32, 32, 32, (32, 32), (3, 3)),
    Shape("3x3, 64 channels, 32x32, batch 8", 8, 64, 64, (32, 32), (3, 3)),
    Shape("3x3, 128 channels, 32x32, batch 4", 4, 128, 128, (32, 32), (3, 3)),
    Shape("3x3, 32 channels, 16x16, batch 32", 32, 32, 32, (16, 16), (3, 3)),
    Shape("3x3, 64 channels, 8x8, batch 32", 32, 64, 64, (8, 8), (3, 3)),
    Shape("3x3, 1 to 16 channels, 8x8, batch 64", 64, 1, 16, (8, 8), (3, 3)),
    Shape("3x3, 16 to 32 channels, 8x8, batch 64", 64, 16, 32, (8, 8), (3, 3)),
    Shape("3x3 stride 2, 32 to 64, 16x16, batch 32", 32, 32, 64, (16, 16), (3, 3), 2),
    Shape("3x3, 256 channels, 14x14, batch 1", 1, 256, 256, (14, 14), (3, 3)),
    Shape("1x1, 64 to 256 channels, 32x32, batch 4", 4, 64, 256, (32, 32), (1, 1)),
    Shape("1x1, 256 to 64 channels, 14x14, batch 16", 16, 256, 64, (14, 14), (1, 1)),
    Shape("1x1 stride 2, 32 to 64, 16x16, batch 32", 32, 32, 64, (16, 16), (1, 1), 2),
    Shape("7x7 stride 2, 3 to 64, 96x96, batch 4", 4, 3, 64, (96, 96), (7, 7), 2),
    Shape("5x5, 6 to 16 channels, 28x28, batch 32", 32, 6, 16, (28, 28), (5, 5)),
    Shape("3x3 depthwise, 64 channels, 32x32, batch 8", 8, 64, 64, (32, 32), (3, 3), 1, 64),
    Shape("3x3 depthwise, 128 channels, 8x8, batch 16", 16, 128, 128, (8, 8), (3, 3), 1, 128),
    Shape("3x3, 64 channels in 8 groups, 32x32, batch 8", 8, 64, 64, (32, 32), (3, 3), 1, 8),
    Shape("1-D, 5, 32 to 64 channels, 256, batch 16", 16, 32, 64, (1, 256), (1, 5)),
    Shape("1-D, 9, 1 to 16 channels, 4096, batch 8", 8, 1, 16, (1, 4096), (1, 9)),
]
SETS = ("forward", "backward", "networks")
EFFORTS = {"normal": compare.Effort(4, 9, 0.012, 3), "long": compare.Effort(8, 15, 0.04, 3), "quick": compare.Effort(2, 1, 0.0, 1)}


def torch_module() -> Any:
    import torch

    return torch


def arrays_of(s: Shape) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((s.cout, s.cin // s.groups, *s.kernel)) / np.sqrt(s.cin / s.groups * np.prod(s.kernel))
    return {
        "x": rng.standard_normal((s.n, s.cin, *s.size)).astype(np.float32),
        "w": weight.astype(np.float32),
        "b": rng.standard_normal(s.cout).astype(np.float32),
    }


def forward(module: Any, s: Shape, a: dict[str, np.ndarray]) -> compare.Run:
    """The convolution alone."""
    x, w, b = (module.tensor(a[k]) for k in "xwb")
    conv = module.nn.functional.conv2d

    def step() -> Any:
        return conv(x, w, b, s.stride, s.padding, 1, s.groups)

    return compare.Run(step if module is not gd else in_arena(step), lambda _: numbers(module, step))


def backward(module: Any, s: Shape, a: dict[str, np.ndarray]) -> compare.Run:
    """Gradients for input and weight; the forward pass is not timed."""
    x, w = (module.tensor(a[k]) for k in "xw")
    y = module.nn.functional.conv2d(x, w, None, s.stride, s.padding, 1, s.groups)
    g = module.tensor(np.random.default_rng(1).standard_normal(tuple(y.shape)).astype(np.float32))
    if module is not gd:
        both, sizes = [s.stride] * 2, list(s.padding)

        def step() -> Any:
            return module.ops.aten.convolution_backward(g, x, w, None, both, sizes, [1, 1], False, [0, 0], s.groups, [True, True, False])[
                :2
            ]

        return compare.Run(step, lambda _: np.concatenate([t.numpy().ravel() for t in step()]))
    x, w = x.requires_grad_(), w.requires_grad_()
    y = module.nn.functional.conv2d(x, w, None, s.stride, s.padding, 1, s.groups)

    def ours() -> Any:
        return gd.autograd.grad(y, (x, w), g, retain_graph=True)

    def read(_: Any) -> np.ndarray:
        with gd.step_arena():
            return np.concatenate([t.numpy().ravel() for t in ours()])

    return compare.Run(in_arena(ours), read)


def in_arena(step: Any) -> Any:
    def timed() -> None:
        with gd.step_arena():
            step()

    return timed


def numbers(module: Any, step: Any) -> np.ndarray:
    if module is not gd:
        return step().numpy()
    with gd.step_arena():
        return step().numpy().copy()


# ---- Networks: one text for both libraries -----------------------------------------------------------------------------


def digits(m: Any) -> Any:
    """Two convolutions with pooling, for pictures of 8 x 8."""
    nn = m.nn
    body = (nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(128, 10))


def residual(m: Any) -> Any:
    """Three stages of 16, 32 and 64 channels with one block each, for pictures of 32 x 32."""
    nn = m.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, cin: int, cout: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
            self.conv2, self.norm2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
            self.short = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride > 1 else None

        def forward(self, x: Any) -> Any:
            y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
            return (y + (x if self.short is None else self.short(x))).relu()

    stem = (nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    return nn.Sequential(
        *stem, Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    )


NETWORKS = [
    ("digits, 8x8, batch 64", digits, (64, 1, 8, 8)),
    ("digits, 8x8, batch 512", digits, (512, 1, 8, 8)),
    ("residual, 32x32, batch 32", residual, (32, 3, 32, 32)),
]


def training(module: Any, make: Any, shape: tuple[int, ...], weights: dict[str, np.ndarray]) -> compare.Run:
    """A step: forward, cross-entropy, backward, AdamW, and the loss as a number."""
    rng = np.random.default_rng(0)
    model = make(module)
    if not weights:
        weights |= {k: np.array(v.numpy()) for k, v in model.state_dict().items()}
    given = weights if module is gd else {k: module.from_numpy(v.copy()) for k, v in weights.items()}
    model.load_state_dict(given)
    x, y = module.tensor(rng.standard_normal(shape).astype(np.float32)), module.tensor(rng.integers(0, 10, shape[0]))
    more = {} if module is gd else {"fused": True}
    optimizer = module.optim.AdamW(model.parameters(), lr=1e-3, **more)

    def step() -> float:
        loss = module.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.item())

    def timed() -> float:
        with gd.step_arena():
            return step()

    return compare.Run(timed if module is gd else step, float)


def measure(name: str, flops: float, runs: list[compare.Run], args: argparse.Namespace, peak: float) -> list[str]:
    """A row of the table."""
    effort = EFFORTS[args.effort]
    if args.rounds:
        effort = dataclasses.replace(effort, rounds=args.rounds)
    group = [compare.Contender(n, run, lambda: None) for n, run in zip(("gradino", "PyTorch"), runs)]
    if len(runs) == 2:
        for i in range(effort.validation if not flops else 1):
            ours, theirs = (np.asarray(run.read(run.step()), np.float64) for run in runs)
            scale, worst = np.abs(theirs).max(), np.abs(ours - theirs).max()
            assert worst <= compare.RTOL * scale, f"{name}, step {i}: results differ by {worst / scale:g}"
    compare.time_in_turn(group, effort)
    seconds = sorted(group[0].turns)[len(group[0].turns) // 2]
    row = [
        name,
        report.duration(seconds),
        *((f"{flops / seconds / 1e9:.0f}", f"{100 * flops / seconds / 1e9 / peak:.0f}%") if flops else ("", "")),
    ]
    if len(runs) == 2:
        ratios = sorted(theirs / ours for ours, theirs in zip(group[0].turns, group[1].turns))
        row += [f"{ratios[len(ratios) // 2]:.2f}x", f"{ratios[len(ratios) // 4]:.2f}"]
    return row


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=machine.usable_cpus(), help="(default: %(default)s)")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--only", help="rows whose name has this text")
    parser.add_argument("--effort", choices=EFFORTS, default="normal", help="quick: to see that it runs; no figures")
    parser.add_argument("--rounds", type=int, help="turns of each library, instead of those of the effort")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    modules = [gd]
    if not args.alone and importlib.util.find_spec("torch"):
        os.environ["OMP_NUM_THREADS"] = str(args.threads)
        modules.append(torch_module())
        modules[1].set_num_threads(args.threads)
    gd.set_num_threads(args.threads)
    peak = limits.fma_peak(args.threads, config.get_isa(), "float32")
    rows = []
    for kind, make in (("forward", forward), ("backward", backward)):
        for s in SHAPES if kind in args.sets else ():
            if args.only and args.only not in s.name:
                continue
            runs = [make(m, s, arrays_of(s)) for m in modules]
            rows.append(measure(f"{kind}: {s.name}", s.flops * (1 if kind == "forward" else 2), runs, args, peak))
    for name, network, shape in NETWORKS if "networks" in args.sets else ():
        if not args.only or args.only in name:
            weights: dict[str, np.ndarray] = {}
            rows.append(measure(f"training step: {name}", 0, [training(m, network, shape, weights) for m in modules], args, peak))
    head = ["", "time", "GFLOP/s", "of peak", *(["PyTorch takes", "lower quartile"] if len(modules) > 1 else [])]
    print(report.table(head, rows))
    versions = [f"gradino {gd.__version__}", *(f"PyTorch {m.__version__}" for m in modules[1:])]
    where = f"{machine.cpu()[0]}, {config.get_isa()}, peak {peak:.0f} GFLOP/s"
    print(f"\n{where}; {report.threads(args.threads)} each; float32; {', '.join(versions)}.")


if __name__ == "__main__":
    main()
