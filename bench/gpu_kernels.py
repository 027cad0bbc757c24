"""What gpu_check.py times on a device: limits, fused kernels with the bytes or operations they need, and training steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpt_library import model_file


@dataclass(frozen=True)
class Sizes:
    """How large things are: those of a check on a card, and small ones for the emulator."""

    elements: int = 1 << 26  # of elementwise ops, float32: 256 MiB
    rows: int = 1 << 14
    columns: int = 4096
    vocabulary: int = 50304
    product: int = 8192
    attention: tuple[int, int, int, int] = (8, 16, 2048, 64)  # batch, heads, length, width of a head
    gpt: tuple[int, int, int, int, int] = (12, 768, 12, 1024, 8)  # layers, width, heads, length, batch
    lstm: tuple[int, int, int] = (128, 512, 64)  # length, width, batch
    seconds: float = 0.3  # of each measurement
    steps: int = 12


SMALL = Sizes(1 << 12, 16, 96, 130, 64, (1, 2, 33, 16), (2, 32, 2, 16, 2), (5, 16, 3), 0.0, 2)


@dataclass(frozen=True)
class Case:
    """A function to be timed, and what it must read and write at least, or compute."""

    name: str
    run: Callable[[], Any]
    bytes: float = 0
    operations: float = 0
    kind: str = "float32"  # of operations: which matrix peak they are compared with


def wait(lib: Any) -> None:
    lib.cuda.synchronize()


def scope(lib: Any) -> Any:
    """What a step runs in: an arena, where the library has them."""
    return lib.step_arena() if hasattr(lib, "step_arena") else contextlib.nullcontext()


def seconds_of(lib: Any, run: Callable[[], Any], least: float) -> float:
    """Of one run, on the device: by events around as many as take `least` seconds; the best of three."""

    def several(n: int) -> float:
        first, last = lib.cuda.Event(enable_timing=True), lib.cuda.Event(enable_timing=True)
        wait(lib)
        first.record()
        for _ in range(n):
            with scope(lib):
                run()
        last.record()
        last.synchronize()
        return max(float(first.elapsed_time(last)) * 1e-3, 1e-9)

    several(2)  # memory is taken, kernels are loaded
    once = several(1)
    n = max(1, min(200, int(least / 3 / once)))
    return min(several(n) for _ in range(3 if least else 1)) / n


def limits(gd: Any, sizes: Sizes) -> Iterator[Case]:
    """What the card can do at most with our own kernels: copying and multiplying."""
    x, n = gd.empty(sizes.elements, device="cuda"), sizes.product
    yield Case("copy", lambda: x.clone(), 8 * sizes.elements)
    yield Case("read (sum)", lambda: x.sum(), 4 * sizes.elements)
    for dtype in ("float32", "bfloat16", "float16"):
        a = gd.randn(n, n, device="cuda").to(getattr(gd, dtype))
        yield Case(f"matmul {n} {dtype}", lambda a=a: a @ a, 0, 2 * n**3, dtype)


def kernels(gd: Any, sizes: Sizes) -> Iterator[Case]:
    """Every fused kernel. Bytes: inputs read once and results written once."""
    F, n, rows, cols = gd.nn.functional, sizes.elements, sizes.rows, sizes.columns

    def rand(*shape: int, dtype: str = "float32") -> Any:
        return gd.randn(*shape, device="cuda").to(getattr(gd, dtype))

    x, y = rand(n), rand(n)
    yield Case("add", lambda: x + y, 12 * n)
    for name in ("exp", "tanh", "sigmoid"):
        yield Case(name, lambda name=name: getattr(gd, name)(x), 8 * n)
    for name in ("gelu", "silu", "relu"):
        yield Case(name, lambda name=name: getattr(F, name)(x), 8 * n)
    half = rand(n, dtype="bfloat16")
    yield Case("add bfloat16", lambda: half + half, 6 * n)
    yield Case("gelu bfloat16", lambda: F.gelu(half), 4 * n)
    yield Case("cast to bfloat16", lambda: x.to(gd.bfloat16), 6 * n)
    yield Case("dropout", lambda: F.dropout(x, 0.1), 8 * n)
    yield Case("uniform", lambda: gd.rand(n, device="cuda"), 4 * n)
    yield Case("mse_loss", lambda: F.mse_loss(x, y), 8 * n)
    m, weight = x[: rows * cols].view(rows, cols) if n >= rows * cols else rand(rows, cols), rand(cols)
    size = rows * cols
    yield Case("transposed copy", lambda: m.t().contiguous(), 8 * size)
    yield Case("add a row", lambda: m + weight, 8 * size)
    yield Case("sum of rows", lambda: m.sum(1), 4 * size)
    yield Case("sum of columns", lambda: m.sum(0), 4 * size)
    yield Case("variance of rows", lambda: m.var(1), 4 * size)
    yield Case("softmax", lambda: F.softmax(m, dim=1), 8 * size)
    yield Case("log_softmax", lambda: F.log_softmax(m, dim=1), 8 * size)
    yield Case("layer_norm", lambda: F.layer_norm(m, (cols,), weight, weight), 8 * size)
    yield Case("rms_norm", lambda: F.rms_norm(m, (cols,), weight), 8 * size)

    def both_ways(forward: Callable[[Any], Any], parameter: Any) -> Callable[[], Any]:
        def run() -> None:
            parameter.grad = None
            forward(parameter).backward()

        return run

    logits_rows = max(2, size // sizes.vocabulary)
    logits = rand(logits_rows, sizes.vocabulary).requires_grad_()
    target = gd.arange(logits_rows, device="cuda") % sizes.vocabulary
    many = logits_rows * sizes.vocabulary
    yield Case("cross_entropy", lambda: F.cross_entropy(logits.detach(), target), 4 * many)
    yield Case("cross_entropy and backward", both_ways(lambda p: F.cross_entropy(p, target), logits), 12 * many)
    leaf = rand(rows, cols).requires_grad_()
    ones = gd.ones(rows, cols, device="cuda")
    yield Case("layer_norm and backward", both_ways(lambda p: (F.layer_norm(p, (cols,), weight, weight) * ones).sum(), leaf), 36 * size)
    table = rand(sizes.vocabulary, min(cols, 1024))
    index = (gd.arange(rows * 4, device="cuda") * 7919) % sizes.vocabulary
    yield Case("embedding", lambda: F.embedding(index, table), 8 * rows * 4 * table.shape[1])
    yield Case("cat", lambda: gd.cat([m, m], 1), 16 * size)
    yield Case("sort rows", lambda: m.sort(1), 16 * size)
    yield Case("cumsum", lambda: m.cumsum(1), 8 * size)
    parameter = gd.nn.Parameter(rand(n))
    parameter.grad = rand(n)
    adam = gd.optim.AdamW([parameter], lr=1e-3)
    yield Case("AdamW", adam.step, 28 * n)
    b, h, t, d = sizes.attention
    for dtype in ("float32", "bfloat16"):
        q, k, v = (rand(b, h, t, d, dtype=dtype) for _ in range(3))
        ops = 2 * b * h * t * t * d  # causal: half of two products
        yield Case(f"attention {dtype}", lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=True), 0, ops, dtype)
    image, kernel = rand(16, 64, 56, 56), rand(64, 64, 3, 3)
    if sizes is SMALL:
        image, kernel = rand(2, 3, 9, 9), rand(4, 3, 3, 3)
    N, C, H, W = image.shape
    yield Case("conv 3 x 3", lambda: F.conv2d(image, kernel, padding=1), 0, 2 * N * C * H * W * kernel.shape[0] * 9)
    yield Case("max_pool 2 x 2", lambda: F.max_pool2d(image, 2), 4 * image.numel() * 1.25)


# ---- Training steps, on gradino and on PyTorch ---------------------------------------------------------------------------------


def gpt_step(lib: Any, library: str, sizes: Sizes, bfloat16: bool) -> Callable[[], Any]:
    layers, width, heads, length, batch = sizes.gpt
    lib.manual_seed(0)
    model = model_file(library).GPT(sizes.vocabulary, length, layers, width, heads).to("cuda")
    idx = (lib.arange(batch * length, device="cuda") * 31 % sizes.vocabulary).view(batch, length)
    opt = lib.optim.AdamW(model.parameters(), lr=3e-4, **({"fused": True} if library == "torch" else {}))

    def step() -> Any:
        with lib.autocast("cuda", dtype=lib.bfloat16, enabled=bfloat16):
            loss = model(idx, idx)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return step


def lstm_step(lib: Any, library: str, sizes: Sizes, bfloat16: bool) -> Callable[[], Any]:
    length, width, batch = sizes.lstm
    lib.manual_seed(0)
    nn = lib.nn
    lstm, head = nn.LSTM(width, width).to("cuda"), nn.Linear(width, 65).to("cuda")
    x = lib.randn(length, batch, width, device="cuda")
    y = lib.arange(length * batch, device="cuda") % 65
    parameters = [*lstm.parameters(), *head.parameters()]
    opt = lib.optim.AdamW(parameters, lr=1e-3, **({"fused": True} if library == "torch" else {}))

    def step() -> Any:
        with lib.autocast("cuda", dtype=lib.bfloat16, enabled=bfloat16):
            logits = head(lstm(x)[0]).view(length * batch, 65)
            loss = nn.functional.cross_entropy(logits.float(), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    return step


STEPS = {"GPT": gpt_step, "LSTM": lstm_step}


def time_steps(lib: Any, step: Callable[[], Any], n: int) -> tuple[float, float, float]:
    """Seconds of a step, the first loss and the last."""
    losses = []

    def once() -> None:
        with scope(lib):
            losses.append(float(step().item()))

    once()
    once()
    wait(lib)
    began = time.perf_counter()
    for _ in range(n):
        once()
    wait(lib)
    return (time.perf_counter() - began) / n, losses[0], losses[-1]
