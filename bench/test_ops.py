"""Ops one by one: every elementwise op of the op table, reductions, softmax, losses, matrix products.

The reference is the same op in float64 with the portable kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from validate import agrees, in_arena

import gradino as gd
import gradino.nn.functional as F
from gradino._lib import ffi, lib, text

SMALL, LARGE = 1_000, 1_000_000
REDUCTIONS = ("sum", "mean", "prod", "var", "amax", "amin", "argmax", "logsumexp")
DIMS = (None, 0, 1)
OTHERS = {  # that take more than tensors, or no floats
    "clamp", "polygamma", "gcd", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
}  # fmt: skip
BELOW_ONE = {"asin", "acos", "atanh", "erfinv"}  # defined there
PRODUCTS = (  # m, n, k of (m, k) x (k, n)
    (16, 16, 4), (16, 3, 16), (512, 32, 2), (64, 64, 64), (1, 512, 512), (128, 512, 784), (512, 512, 512), (1024, 1024, 1024),
)  # fmt: skip
TRANSPOSED = ("ab", "aB", "Ab", "AB")  # capital: stored the other way round
BATCHED = (8, 64, 64, 32)
CLASSES = ((16, 3), (512, 3), (128, 10), (128, 1000), (32, 50_000))


def elementwise(nin: int) -> list[str]:
    """Names of the public elementwise ops that take nin tensors and nothing else."""
    info, names = ffi.new("gd_op_info *"), []
    for op in range(lib.gd_op_count()):
        assert lib.gd_op_describe(op, info) >= 0
        name = text(info.name)
        if info.is_elementwise and not info.is_internal and info.nin == nin and hasattr(gd, name) and name not in OTHERS:
            names.append(name)
    return names


def inputs(seed: int, *shapes: tuple[int, ...]) -> list[gd.Tensor]:
    """Numbers in [0.5, 1.5), where every function is defined."""
    gd.manual_seed(seed)
    return [gd.rand(*shape) + 0.5 for shape in shapes]


def validated(function: Callable[..., Any], *tensors: gd.Tensor, rtol: float = 1e-4) -> Callable[[], None]:
    """The call in a step arena, once its result has been compared with float64."""
    agrees(lambda: function(*tensors).double(), lambda: function(*(t.double() for t in tensors)).double(), rtol)
    return in_arena(lambda: function(*tensors))


@pytest.fixture(autouse=True)
def arena() -> Iterator[None]:
    """Inputs live in an arena that the test leaves."""
    with gd.Arena(name="inputs") as own:
        yield
    own.close()


@pytest.mark.parametrize("n", [SMALL, LARGE])
@pytest.mark.parametrize("name", elementwise(1))
def test_unary(benchmark: Any, name: str, n: int) -> None:
    (x,) = inputs(1, (n,))
    x = x / 2 if name in BELOW_ONE else x + 1 if name == "acosh" else x
    benchmark(validated(getattr(gd, name), x))


@pytest.mark.parametrize("n", [SMALL, LARGE])
@pytest.mark.parametrize("name", elementwise(2))
def test_binary(benchmark: Any, name: str, n: int) -> None:
    benchmark(validated(getattr(gd, name), *inputs(2, (n,), (n,))))


@pytest.mark.parametrize("name", ["add", "mul"])
def test_broadcast(benchmark: Any, name: str) -> None:
    benchmark(validated(getattr(gd, name), *inputs(3, (1000, 1000), (1000,))))


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(benchmark: Any, name: str, dim: int | None) -> None:
    (x,) = inputs(4, (1000, 1000))
    if name == "prod":
        x = x / x  # 1e6 factors must not overflow
    function = getattr(gd.Tensor, name)
    wanted = (0, 1) if name == "logsumexp" and dim is None else dim
    benchmark(validated(lambda t: function(t) if wanted is None else function(t, wanted), x))


@pytest.mark.parametrize("shape", CLASSES, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(benchmark: Any, name: str, shape: tuple[int, int]) -> None:
    benchmark(validated(lambda t: getattr(F, name)(t, -1), *inputs(5, shape)))


@pytest.mark.parametrize("shape", CLASSES, ids=str)
def test_cross_entropy(benchmark: Any, shape: tuple[int, int]) -> None:
    """Forward and backward."""
    (x,) = inputs(6, shape)
    y = gd.randint(0, shape[1], (shape[0],))

    def gradient(t: gd.Tensor) -> gd.Tensor:
        leaf = t.detach().clone().requires_grad_()
        F.cross_entropy(leaf, y).backward()
        assert leaf.grad is not None
        return leaf.grad

    agrees(lambda: gradient(x), lambda: gradient(x.double()))
    parameter = gd.nn.Parameter(x)

    def step() -> None:
        F.cross_entropy(parameter, y).backward()
        parameter.grad = None

    benchmark(in_arena(step))


def rate(benchmark: Any, flops: float) -> None:
    """Notes GFLOP/s beside the times."""
    if benchmark.stats:
        benchmark.extra_info["GFLOP/s"] = round(flops / benchmark.stats.stats.median / 1e9, 1)


@pytest.mark.parametrize("shape", PRODUCTS, ids=str)
def test_matmul(benchmark: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    benchmark(validated(gd.matmul, *inputs(7, (m, k), (k, n))))
    rate(benchmark, 2.0 * m * n * k)


@pytest.mark.parametrize("how", TRANSPOSED)
def test_matmul_transposed(benchmark: Any, how: str) -> None:
    a, b = inputs(8, (256, 256), (256, 256))
    a, b = a.transpose(0, 1) if "A" in how else a, b.transpose(0, 1) if "B" in how else b
    benchmark(validated(gd.matmul, a, b))
    rate(benchmark, 2.0 * 256**3)


def test_matmul_batched(benchmark: Any) -> None:
    batch, m, n, k = BATCHED
    benchmark(validated(gd.matmul, *inputs(9, (batch, m, k), (batch, k, n))))
    rate(benchmark, 2.0 * batch * m * n * k)
