"""Memory that is refused: each allocation of a call or of a training step fails in turn.

Always OutOfMemoryError; what fails leaves arenas, gradients, parameters and the graph as they were,
and the next attempt gives the same numbers as if nothing had happened.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers import values

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim
from gradino._lib import lib

pytestmark = pytest.mark.own_arenas

MOST = 2000  # allocations of one case; more means that the failures do not end


@pytest.fixture(autouse=True)
def disarm() -> Iterator[None]:
    yield
    lib.gd_test_fail_allocation(0)


def failing(n: int, action: Callable[[], Any]) -> bool:
    """Runs `action` with its nth allocation failing; False if it has fewer and went well."""
    lib.gd_test_fail_allocation(n)
    try:
        action()
        return False
    except gd.OutOfMemoryError as error:
        assert "test" in str(error) or "refused" in str(error) or "memory" in str(error)
        return True
    finally:
        lib.gd_test_fail_allocation(0)


def rounds() -> Iterator[int]:
    yield from range(1, MOST)
    raise AssertionError(f"the {MOST}th allocation still fails")


# ---- Single calls -----------------------------------------------------------------------------------------------


def inputs() -> dict[str, gd.Tensor]:
    gd.manual_seed(3)
    return {
        "a": gd.randn(3, 4),
        "b": gd.randn(4, 5),
        "v": gd.randn(4),
        "i": gd.arange(12).reshape(3, 4),
        "n": gd.tensor([1, 0, 2], dtype=gd.int32),
        "x": gd.randn(5, 2, 3),
        "y": gd.tensor([0, 3, 1]),
    }


CALLS: dict[str, Callable[[dict[str, gd.Tensor]], Any]] = {
    "empty": lambda t: gd.zeros(3),
    "tensor": lambda t: gd.tensor([[1.0, 2.0]]),
    "from_numpy": lambda t: gd.from_numpy(np.ones(3)),
    "arange": lambda t: gd.arange(5),
    "randn": lambda t: gd.randn(5),
    "unary": lambda t: t["a"].exp(),
    "unary of integers": lambda t: t["i"].exp(),
    "binary": lambda t: t["a"] * t["v"],
    "binary, promoted": lambda t: t["a"] + t["i"],
    "number": lambda t: t["i"] * 2.5,
    "where": lambda t: gd.where(t["a"] > 0, t["a"], t["i"]),
    "clamp": lambda t: t["a"].clamp(0, 1),
    "sum": lambda t: t["a"].sum(1),
    "max": lambda t: t["a"].max(1),
    "softmax": lambda t: t["a"].softmax(1),
    "matmul": lambda t: t["a"] @ t["b"],
    "matmul, vector": lambda t: t["v"] @ t["b"],
    "linear": lambda t: F.linear(t["a"], t["b"].T, None),
    "reshape": lambda t: t["a"].T.reshape(12),
    "cat": lambda t: gd.cat([t["a"], t["a"]]),
    "cat of many": lambda t: gd.cat([t["a"]] * 40),
    "stack": lambda t: gd.stack([t["v"], t["v"]]),
    "stack of many": lambda t: gd.stack([t["v"]] * 40),
    "row": lambda t: t["a"][1],
    "index": lambda t: t["a"][t["n"]],
    "mask": lambda t: t["a"][t["a"] > 0],
    "gather": lambda t: t["a"].gather(1, t["i"] % 4),
    "nonzero": lambda t: t["i"].nonzero(),
    "one_hot": lambda t: F.one_hot(t["y"]),
    "cross_entropy": lambda t: F.cross_entropy(t["a"], t["y"]),
    "cross_entropy, 3-D": lambda t: F.cross_entropy(t["x"], t["y"][:1].expand(5, 3)[:, :3] * 0),
    "cross_entropy, int32": lambda t: F.cross_entropy(t["a"], t["n"]),
    "mse_loss": lambda t: F.mse_loss(t["a"], t["a"] * 2),
    "dropout": lambda t: F.dropout(t["a"], 0.5),
    "clone": lambda t: t["a"].clone(),
    "to": lambda t: t["a"].to(gd.float64),
    "keep": lambda t: t["a"].keep(),
    "tolist": lambda t: t["a"].T.tolist(),
    "numpy": lambda t: t["b"].detach().T.numpy().tolist(),
    "repr": lambda t: repr(t["a"]),
    "parameter": lambda t: nn.Parameter(t["a"]),
    "var": lambda t: t["a"].var(1),
    "prod": lambda t: t["a"].prod(),
}


def flat(result: Any) -> list[np.ndarray]:
    if isinstance(result, (tuple, list)):
        return [a for r in result for a in flat(r)]
    return [np.asarray(values(result))] if not isinstance(result, str) else [np.array(result)]


@pytest.mark.parametrize("requires_grad", [False, True], ids=["", "recorded"])
@pytest.mark.parametrize("name", CALLS)
def test_each_allocation_of_a_call(name: str, requires_grad: bool) -> None:
    with gd.Arena(name="outer") as outer, gd.Arena() as arena:
        t = inputs()
        if requires_grad:
            for key in "abvx":
                t[key].requires_grad_()
        gd.manual_seed(7)
        expect = flat(CALLS[name](t))
        for n in rounds():
            gd.manual_seed(7)
            before, permanent, around = arena.stats().used, gd.permanent_arena().stats().used, outer.stats().used
            mark = arena.mark()
            fails = failing(n, lambda: CALLS[name](t))
            if not fails:
                break
            single = name not in ("from_numpy", "mask", "mse_loss", "where", "gather", "index", "cross_entropy, 3-D", "repr")
            assert arena.stats().used == before or not single, f"{name}: failure {n} left {arena.stats().used - before} bytes"
            assert (gd.permanent_arena().stats().used, outer.stats().used) == (permanent, around), f"{name}: failure {n}"
            arena.rewind(mark)
            again = flat(CALLS[name](t))
            for got, want in zip(again, expect):
                np.testing.assert_array_equal(got, want, err_msg=f"{name}, after failure {n}")
            arena.rewind(mark)
        assert n > 1, f"{name} allocates nothing"


# ---- Backward ---------------------------------------------------------------------------------------------------


def graph(t: dict[str, gd.Tensor], w: nn.Parameter, leaf: gd.Tensor) -> tuple[gd.Tensor, gd.Tensor]:
    """Everything that backward treats in its own way: slabs, plain leaves, slices, sharing, retained nodes."""
    h = (t["a"] * leaf) @ w
    h.retain_grad()
    parts = gd.cat([h[:, :2].tanh(), h[:, 1:4].sigmoid(), (h * h)[:, ::2]], 1)
    out = (parts.softmax(1) * leaf[0]).sum() + gd.stack([h[0], h[1], h[2]]).square().mean() + (w[1:, 2:] * w[:-1, :3]).sum()
    return h, out


@pytest.mark.parametrize("where", ["step arena", "permanent arena"])
@pytest.mark.parametrize("earlier", [False, True], ids=["no gradient before", "adds to a gradient"])
@pytest.mark.parametrize("how", ["plain", "retain_graph", "create_graph"])
def test_each_allocation_of_backward(how: str, earlier: bool, where: str) -> None:
    options: dict[str, bool] = {} if how == "plain" else {how: True}
    long = gd.Arena(name="long")
    with long:
        t = inputs()
        w, leaf = nn.Parameter(gd.randn(4, 5)), gd.randn(4, requires_grad=True)

    def gradients() -> list[np.ndarray | None]:
        return [None if x.grad is None else values(x.grad) for x in (w, leaf)]

    def begin() -> None:
        w.grad = leaf.grad = None
        if earlier:
            w.grad, leaf.grad = gd.ones(4, 5), gd.ones(4)

    with gd.step_arena() if where == "step arena" else gd.permanent_arena() as arena:
        begin()
        h, loss = graph(t, w, leaf)
        loss.backward(**options)
        expect = gradients()
        for n in rounds():
            begin()
            h, loss = graph(t, w, leaf)
            used, permanent = arena.stats().used, gd.permanent_arena().stats().used
            before = gradients()
            if not failing(n, lambda: loss.backward(**options)):
                break
            assert arena.stats().used == used, f"failure {n} left {arena.stats().used - used} bytes in the active arena"
            assert gd.permanent_arena().stats().used == permanent, f"failure {n} left bytes in the permanent arena"
            assert h.grad is None, f"failure {n} left a retained gradient"
            if not earlier:
                assert gradients() == before == [None, None], f"failure {n} left a gradient"
            begin()  # gradients that were there may have grown
            loss.backward(**options)
            for got, want in zip(gradients(), expect):
                np.testing.assert_array_equal(got, want, err_msg=f"after failure {n}")
        assert n > 8
        for got, want in zip(gradients(), expect):
            np.testing.assert_array_equal(got, want)


def test_each_allocation_of_autograd_grad() -> None:
    with gd.Arena() as arena:
        t = inputs()
        a, b = t["a"].requires_grad_(), t["b"].requires_grad_()
        loss = ((a @ b).tanh() * 2).sum()
        expect = flat(gd.autograd.grad(loss, [a, b, a], retain_graph=True))
        for n in rounds():
            mark, used = arena.mark(), arena.stats().used
            results: list[Any] = []
            fails = failing(n, lambda: results.append(gd.autograd.grad(loss, [a, b, a], create_graph=True)))
            if not fails:
                break
            assert arena.stats().used == used, f"failure {n} left {arena.stats().used - used} bytes"
            arena.rewind(mark)
        for got, want in zip(flat(results[0]), expect):
            np.testing.assert_array_equal(got, want)
        assert n > 5 and a.grad is None


# ---- Training steps ---------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, dropout=0.2)
        self.head = nn.Linear(8, 3)

    def forward(self, x: gd.Tensor) -> gd.Tensor:
        y, _ = self.lstm(x, lengths=gd.tensor([5, 3]))
        return self.head(y[-1])


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)), (2, 3)),
    "lstm": (Recurrent, (5, 2, 3)),
}
OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True),
}


class Training:
    """A model, its optimizer and a step; the same from every start."""

    def __init__(self, model: str, optimizer: str) -> None:
        gd.manual_seed(11)
        make, shape = MODELS[model]
        self.model = make()
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.x, self.y = gd.randn(*shape), gd.tensor([0, 2])

    def step(self, fused: bool = False) -> float:
        with gd.step_arena():
            loss = F.cross_entropy(self.model(self.x), self.y)
            if fused:
                loss.backward(optimizer=self.optimizer)
            else:
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
            return float(loss.item())

    def state(self) -> list[np.ndarray]:
        moments = [m for p in self.model.parameters() for m in (p.prev_grad, p.exp_avg, p.exp_avg_sq) if m is not None]
        return [values(p) for p in self.model.parameters()] + [values(m) for m in moments]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_each_allocation_of_a_training_step(model: str, optimizer: str) -> None:
    undisturbed = Training(model, optimizer)
    losses = [undisturbed.step() for _ in range(3)]
    expect = undisturbed.state()
    disturbed = Training(model, optimizer)
    disturbed.step()
    permanent = gd.permanent_arena().stats().used
    state, rng = disturbed.state(), gd.get_rng_state()
    for n in rounds():
        gd.set_rng_state(rng)
        result: list[float] = []
        if not failing(n, lambda: result.append(disturbed.step())):
            break
        assert gd.active_arena() == gd.permanent_arena() and gd.is_grad_enabled()
        assert gd.permanent_arena().stats().used == permanent, f"failure {n}"
        for p in disturbed.model.parameters():
            assert p.grad is None, f"failure {n} left a gradient"
        for got, want in zip(disturbed.state(), state):
            np.testing.assert_array_equal(got, want, err_msg=f"failure {n} changed a parameter or a moment")
    assert n > 20
    assert [losses[0], *result, disturbed.step()] == losses
    for got, want in zip(disturbed.state(), expect):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_each_allocation_of_a_backward_that_optimizes(optimizer: str) -> None:
    """Parameters whose turn had come are updated, as the message says; each as a whole, and none twice."""
    reference = Training("mlp", optimizer)
    old = [values(p) for p in reference.model.parameters()]
    rng = gd.get_rng_state()
    reference.step(fused=True)
    new = [values(p) for p in reference.model.parameters()]
    for n in rounds():
        training = Training("mlp", optimizer)
        gd.set_rng_state(rng)
        lib.gd_test_fail_allocation(n)
        try:
            training.step(fused=True)
            break
        except gd.OutOfMemoryError as error:
            message = str(error)
        finally:
            lib.gd_test_fail_allocation(0)
        updated = 0
        for p, before, after in zip(training.model.parameters(), old, new):
            assert p.grad is None
            is_new = bool((values(p) != before).any())
            np.testing.assert_array_equal(values(p), after if is_new else before, err_msg=f"failure {n} left half an update")
            updated += is_new
        assert (f"already updated {updated} parameters" in message) == (updated > 0), f"{updated} were updated: {message}"
        assert np.isfinite(training.step(fused=True))
    assert n > 20


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_each_allocation_of_making_a_model(optimizer: str) -> None:
    expect = Training("lstm", optimizer)
    losses = [expect.step(), expect.step()]
    made: list[Training] = []
    used = itertools.count()
    baseline = 0
    for n in rounds():
        if not failing(n, lambda: made.append(Training("lstm", optimizer))):
            break
        if next(used) == 0:
            baseline = gd.permanent_arena().stats().used
        assert gd.permanent_arena().stats().used < baseline + 100_000, "failed models pile up"
    assert n > 20
    assert [made[0].step(), made[0].step()] == losses


def test_a_failed_step_says_so_in_each_thread_alone() -> None:
    lib.gd_test_fail_allocation(1)
    with pytest.raises(gd.OutOfMemoryError):
        gd.ones(3)
    assert lib.gd_last_status() == 0
    assert gd.ones(3).sum().item() == 3
