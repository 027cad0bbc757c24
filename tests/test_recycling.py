"""Memory of gradients that a backward is done with is used again by the same backward: the same bits, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from checks import describe, is_drawn, leaves, results, run
from helpers import assert_same_bits
from lstm_reference import inputs
from specs import LIST

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim
from gradino._lib import lib

SLACK = 32 << 10  # bytes for the lists of a backward and for scalars
BUFFER = 4 << 15  # bytes of a gradient in a deep model
NEVER = 1 << 62
WITH_GRADIENT = [pytest.param(spec, id=spec.name) for spec in LIST if spec.order >= 1]


@pytest.fixture(autouse=True)
def recycling() -> Iterator[None]:
    """Of the smallest gradients, too."""
    before = lib.gd_test_recycling(1)
    assert 1 < before < BUFFER, f"somebody left recycling from {before} bytes on"
    yield
    lib.gd_test_recycling(before)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = gd.get_num_threads()
    gd.set_num_threads(request.param)
    yield request.param
    gd.set_num_threads(before)


def with_and_without(make: Callable[[], list[gd.Tensor | None]], what: str) -> None:
    """The gradients that `make` returns have the same bits with and without recycling."""
    got = make()
    lib.gd_test_recycling(NEVER)
    want = make()
    lib.gd_test_recycling(1)
    assert len(got) == len(want) and any(w is not None for w in want), f"{what}: no gradients"
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        assert (g is None) == (w is None), f"{what}: gradient {k} is there only once"
        if g is not None and w is not None:
            assert_same_bits(g, w, what=f"{what}: gradient {k}")


def deep(t: gd.Tensor) -> gd.Tensor:
    """t through ops whose gradients need memory, views and sums of several gradients."""
    y = (t * 0.75 + t * 0.25).neg()
    y = gd.cat([y.reshape(-1)[:1], y.reshape(-1)[1:]]).reshape(y.shape) if y.numel() > 1 else y
    return (y.T.neg() if y.ndim == 2 else y).T if y.ndim == 2 else y.neg()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("spec", WITH_GRADIENT)
def test_every_op(spec, dtype, threads):
    for case in spec.cases:
        if not any(map(is_drawn, case.inputs)):
            continue
        if dtype not in spec.dtypes:
            continue

        def make(case=case) -> list[gd.Tensor | None]:
            tensors = leaves(spec, case, dtype)
            wanted = [t for x, t in zip(case.inputs, tensors) if is_drawn(x) and t is not None]
            moved = [t if t is None or not is_drawn(x) else deep(t) for x, t in zip(case.inputs, tensors)]
            loss = gd.tensor(0.0)
            for y in results(run(spec, case, moved, dtype)):
                if y.requires_grad:
                    z = deep(y)
                    loss = loss + (z.float() * gd.arange(z.numel()).reshape(z.shape).cos()).sum()
            if not loss.requires_grad:
                return [gd.tensor(0.0)]
            known = gd.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True)
            loss.backward()
            return [*known, *(None if t.grad is None else t.grad.clone() for t in wanted)]

        with_and_without(make, f"{describe(spec, case, dtype)}, {threads} threads")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 3, "bidirectional": True, "batch_first": True}], ids=["one", "three both ways"])
def test_lstm(options, dtype, threads, rng):
    model = nn.LSTM(5, 12, dtype=dtype, **options)
    x, state = inputs(model, 7, 6, rng, dtype)
    tensors = [x, *state, *model.parameters()]

    def make() -> list[gd.Tensor | None]:
        y, (h, c) = model(deep(x), tuple(deep(s) for s in state))
        loss = (deep(y).cos()).sum() + (h * c).sin().sum()
        known = gd.autograd.grad(loss, tensors, retain_graph=True)
        loss.backward()
        found = [*known, *(t.grad.clone() for t in tensors)]
        for t in tensors:
            t.grad = None
        return found

    with_and_without(make, f"lstm {options} {dtype}, {threads} threads")


def test_gradients_that_stay(threads):
    """Retained ones, those of grad() for what lies on the way, and arrays of both, survive all later layers."""
    x = gd.randn(8, 8).requires_grad_()

    def make() -> list[gd.Tensor | None]:
        x.grad = None
        on_the_way = [x]
        for k in range(12):
            y = on_the_way[-1]
            ways = [y.tanh(), y.T, y + y.T, y[1:] @ y[:, :7], y.reshape(-1, 4).reshape(*y.shape), gd.cat([y[:4], y[4:].neg()])]
            on_the_way.append(ways[k % 6])
            if k % 6 == 3:
                on_the_way.append(on_the_way[-1].sum(1, keepdim=True).expand(7, 8).T @ on_the_way[-1].expand(7, 7))
                on_the_way.append(gd.cat([on_the_way[-1], on_the_way[-1][:, :1]], 1))
        for y in on_the_way[1:]:
            y.retain_grad()
        loss = on_the_way[-1].square().sum() * 1e-3
        known = gd.autograd.grad(loss, on_the_way, retain_graph=True)
        arrays = [g.numpy() for g in known]
        loss.backward(retain_graph=True)
        retained = [y.grad for y in on_the_way]
        before = [g.numpy().copy() for g in retained]
        gd.autograd.grad(loss, [x])
        for a, g, r, b in zip(arrays, known, retained, before, strict=True):
            assert_same_bits(a, g.clone(), what="an array of a gradient")
            assert_same_bits(r.clone(), b, what="a retained gradient after another backward")
            assert_same_bits(a, b, what="grad() against retain_grad()")
        return [*known, *(g.clone() for g in retained)]

    with_and_without(make, f"{threads} threads")


def test_roots_and_seeds_that_share(threads):
    """Two roots, one of them an input of the other; a seed that is a graph's own tensor; one gradient for two inputs."""
    x = gd.randn(6, 6).requires_grad_()

    def make() -> list[gd.Tensor | None]:
        y = x.exp()
        z = (y + y) * y - (y - x)
        seed = y.detach()
        found = [*gd.autograd.grad([z, y, y], [x, y], [seed, z.detach().T, seed]), *gd.autograd.grad(F.mse_loss(x.sin(), x.cos()), [x])]
        w = x.neg()
        w.neg().backward(w)
        found.append(x.grad.clone())
        x.grad = None
        return found

    with_and_without(make, f"{threads} threads")


@pytest.mark.parametrize("fused", [False, True])
def test_training(fused, threads):
    def make() -> list[gd.Tensor | None]:
        gd.manual_seed(3)
        model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(12, 12), nn.LayerNorm(12), nn.GELU())])
        opt = optim.AdamW(model.parameters(), lr=1e-2)
        x, y = gd.randn(9, 12), gd.randint(0, 12, (9,))
        for _ in range(4):
            with gd.step_arena():
                loss = F.cross_entropy(model(x), y)
                if fused:
                    loss.backward(optimizer=opt)
                else:
                    loss.backward()
                    opt.step()
                    opt.zero_grad()
        return [p.detach() for p in model.parameters()]

    with_and_without(make, f"fused {fused}, {threads} threads")


def peak_of(build: Callable[[], gd.Tensor]) -> int:
    """Bytes that the backward of what `build` makes adds to the most an arena ever held."""
    arena = gd.Arena(name="peak")
    with arena:
        loss = build()
        before = arena.stats().used
        loss.backward()
        peak = arena.stats().high_water - before
    arena.close()
    return peak


def chain(layers: int) -> Callable[[], gd.Tensor]:
    x = gd.randn(1 << 15).requires_grad_()

    def build() -> gd.Tensor:
        y = x
        for _ in range(layers):
            y = y.tanh()
        return y.sum()

    return build


def mlp(layers: int) -> Callable[[], gd.Tensor]:
    model = nn.Sequential(*[layer for _ in range(layers) for layer in (nn.Linear(64, 64), nn.Tanh())])
    x = gd.randn(512, 64)
    return lambda: model(x).sum()


def sliced(layers: int) -> Callable[[], gd.Tensor]:
    x = gd.randn(1 << 15).requires_grad_()

    def build() -> gd.Tensor:
        y = x
        for _ in range(layers):
            y = gd.cat([y[: 1 << 14], y[1 << 14 :].exp()])
        return y.sum()

    return build


@pytest.mark.parametrize("of", [chain, mlp, sliced])
def test_depth_costs_no_memory(of):
    """Without recycling a layer takes a buffer at least; with it all of them share a few, and step after step the same."""
    few, many = peak_of(of(5)), peak_of(of(50))
    assert many <= few + SLACK, f"{of.__name__}: 50 layers take {many} bytes, 5 take {few}"
    assert few <= 4 * BUFFER + SLACK, f"{of.__name__}: 5 layers take {few} bytes, buffers of {BUFFER}"
    lib.gd_test_recycling(NEVER)
    assert peak_of(of(50)) >= 50 * BUFFER, f"{of.__name__}: the switch does nothing"


def test_many_sizes():
    """Gradients of ever other sizes share memory, too."""

    def build() -> gd.Tensor:
        y = x
        for k in range(1, 120):
            y = y[k % 3 :].exp().neg()
        return y.sum()

    x = gd.randn(5000).requires_grad_()
    peak = peak_of(build)
    lib.gd_test_recycling(NEVER)
    assert peak < 0.1 * peak_of(build)


def test_create_graph_recycles_nothing():
    x = gd.tensor([0.3, -0.8]).requires_grad_()
    y = x.tanh().exp().sum()
    (g,) = gd.autograd.grad(y, [x], create_graph=True)
    (g2,) = gd.autograd.grad(g.square().sum(), [x])
    e, t = np.exp(np.tanh(x.detach().numpy())), np.tanh(x.detach().numpy())
    first = e * (1 - t**2)
    np.testing.assert_allclose(g2.numpy(), 2 * first * (first * (1 - t**2) - 2 * t * first), rtol=1e-5)
