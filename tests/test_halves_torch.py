"""bfloat16 and float16 against PyTorch, live: promotion, casts, values and gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from halves import ALL_BITS, EPS, HALVES, bits_of, over_bits, wide
from helpers import assert_close
from spec_kinds import generator

import gradino as gd

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: halves are compared with exact arithmetic only")

NAMES = ("bool", "int32", "int64", "bfloat16", "float16", "float32", "float64")
BOTH = pytest.mark.parametrize("name", [d.name for d in HALVES])


def pair(x: np.ndarray, name: str, requires_grad: bool = False) -> tuple[gd.Tensor, Any]:
    """The same half tensor in both libraries."""
    x = np.asarray(x, np.float32)  # PyTorch rounds float64 twice
    ours, theirs = gd.tensor(x).to(name), torch.tensor(x).to(getattr(torch, name))
    return ours.requires_grad_(requires_grad), theirs.requires_grad_(requires_grad)


def numbers(t: Any) -> np.ndarray:
    return np.asarray(wide(t.detach().double())._array() if isinstance(t, gd.Tensor) else t.detach().double().numpy())


def assert_same(ours: Any, theirs: Any, what: str, eps: float = 0) -> None:
    """Same dtype, shape and numbers, up to `eps` of the largest."""
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch."), f"{what}: {ours.dtype} is not {theirs.dtype}"
    want = numbers(theirs)
    finite = np.abs(want[np.isfinite(want)])
    assert_close(numbers(ours), want, rtol=eps, atol=eps * float(finite.max(initial=0)), what=what)


@pytest.mark.parametrize("a", NAMES)
@pytest.mark.parametrize("b", NAMES)
def test_promotion(a, b):
    assert gd.promote_types(a, b).name == str(torch.promote_types(getattr(torch, a), getattr(torch, b))).removeprefix("torch.")
    for left, right in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
        ours = gd.ones(left, dtype=a) * gd.ones(right, dtype=b)
        theirs = torch.ones(left, dtype=getattr(torch, a)) * torch.ones(right, dtype=getattr(torch, b))
        assert_same(ours, theirs, f"{a}{left} * {b}{right}")


@pytest.mark.parametrize("name", NAMES)
def test_promotion_with_numbers(name):
    for number in (True, 2, 0.3):
        for op in ("__add__", "__mul__", "__rsub__", "__truediv__", "__pow__", "__lt__", "__eq__"):
            x = np.array([1, 0, 2.5])
            if (op == "__rsub__" and True in (number, name == "bool")) or (op == "__pow__" and name == "bool"):
                continue
            ours, theirs = pair(x, name)
            what = f"{name} {op} {number!r}"
            y = getattr(ours, op)(number)
            w = getattr(theirs, op)(number)
            if name != "bool" or y.dtype is not gd.bool:
                assert_same(y, w, what, EPS.get(name, 1e-6))


@BOTH
def test_casts_from_every_pattern(name):
    t = over_bits(ALL_BITS.copy(), name)
    theirs = torch.from_numpy(ALL_BITS.view(np.int16).copy()).view(getattr(torch, name))
    nan = np.isnan(numbers(theirs))
    assert (bits_of(t.float().to(name))[~nan] == theirs.view(torch.int16).numpy().view(np.uint16)[~nan]).all()
    for to in ("float32", "float64", "bool", "bfloat16", "float16"):
        assert_same(t.to(to), theirs.to(getattr(torch, to)), f"{name} to {to}")
    small = np.abs(numbers(theirs)) < 2**31
    for to in ("int64", "int32"):
        assert (t.to(to)._array()[small] == theirs.to(getattr(torch, to)).numpy()[small]).all(), to


@BOTH
def test_casts_from_float32(name):
    x = generator("torch").integers(0, 1 << 32, 1 << 18, np.uint64).astype(np.uint32).view(np.float32)
    assert_same(gd.tensor(x).to(name), torch.tensor(x).to(getattr(torch, name)), f"float32 to {name}")


UNARY = (
    "neg abs sign square relu floor ceil round sqrt rsqrt reciprocal exp expm1 log log1p log2 sin cos tanh sigmoid isnan isfinite".split()
)
EXACT = "neg abs sign square relu floor ceil round sqrt reciprocal isnan isfinite add sub mul div maximum minimum eq lt where".split()


@BOTH
@pytest.mark.parametrize("op", UNARY)
def test_unary(isa, name, op):
    x = np.abs(generator(op).uniform(-4, 4, 777)) if op.startswith(("log", "sqrt", "rsqrt")) else generator(op).uniform(-4, 4, 777)
    ours, theirs = pair(np.concatenate([x, [0, -0.0, np.inf], [] if op == "sign" else [np.nan]]), name)
    y, w = getattr(gd, op)(ours), getattr(torch, op)(theirs)
    assert_same(y, w, f"{op}, {name}, {isa}", 0 if op in EXACT else EPS[name])


@BOTH
@pytest.mark.parametrize("op", "add sub mul div maximum minimum eq lt pow remainder".split())
def test_binary(isa, name, op):
    rng = generator(op)
    for left, right in (((50, 60), (50, 60)), ((50, 60), (60,)), ((50, 1), (1, 60)), ((5000,), ())):
        a, b = pair(rng.uniform(0.3, 3, left), name), pair(rng.uniform(0.3, 3, right), name)
        y, w = getattr(gd, op)(a[0], b[0]), getattr(torch, op)(a[1], b[1])
        if op == "remainder":  # a quotient next to an integer goes either way where it is rounded first
            y, w = y.float(), w.float()
            off = np.abs(numbers(y) - numbers(w))
            assert np.median(off) < EPS[name], f"{op}, {name}"
            continue
        assert_same(y, w, f"{op}, {name}, {left}, {right}", 0 if op in EXACT else EPS[name])
    for number in (0.1, 3):
        a = pair(rng.uniform(0.3, 3, 500), name)
        if op in ("add", "sub", "mul", "div"):
            # PyTorch divides by multiplying with a reciprocal, and rounds a number to float16 before it adds it
            near = EPS[name] / 2 if op == "div" or (name == "float16" and op in ("add", "sub")) else 0
            assert_same(getattr(gd, op)(a[0], number), getattr(torch, op)(a[1], number), f"{op}, {name}, {number}", near)


@BOTH
def test_reductions_and_softmax(isa, name):
    rng = generator("reductions")
    for shape in ((7,), (40, 33), (3, 1000), (9, 4, 70)):
        a = pair(rng.uniform(-2, 2, shape), name)
        for op in ("sum", "mean", "var", "amax", "amin", "logsumexp", "prod"):
            for dim in (-1, 0):
                y, w = getattr(a[0], op)(dim), getattr(a[1], op)(dim)
                what = f"{op} of {shape} over {dim}, {name}"
                # PyTorch multiplies in the type itself, and takes the logarithm of a rounded sum
                assert_same(y, w, what, {"prod": 2 * shape[dim] ** 0.5, "logsumexp": 1}.get(op, 0.5) * EPS[name])
        for op in ("softmax", "log_softmax"):
            assert_same(getattr(gd, op)(a[0], -1), getattr(torch, op)(a[1], -1), f"{op} of {shape}, {name}", EPS[name])
        assert a[0].argmax().item() == int(numbers(a[1]).argmax())


def check_gradients(ours: Any, theirs: Any, inputs: list[tuple[Any, Any]], what: str, eps: float) -> None:
    """Results and gradients of the same computation with the same weights of its results."""
    assert_same(ours, theirs, what, eps)
    seed = generator("seed", what).uniform(-1, 1, tuple(theirs.shape))
    g, w = pair(seed, ours.dtype.name)
    ours.backward(g)
    theirs.backward(w)
    for k, (x, t) in enumerate(inputs):
        assert_same(x.grad, t.grad, f"{what}: gradient {k}", 2 * eps)


@BOTH
def test_gradients(isa, name):
    rng, eps = generator("gradients", name), EPS[name]

    def leaf(*shape: int) -> tuple[Any, Any]:
        return pair(rng.uniform(0.2, 1.5, shape), name, requires_grad=True)

    for what, run, shapes in (
        ("x * y + x", lambda m, x, y: x * y + x, ((30, 20), (20,))),
        ("exp(x) / y", lambda m, x, y: m.exp(x) / y, ((30, 20), (30, 1))),
        ("tanh(x @ y)", lambda m, x, y: m.tanh((x @ y) * 0.1), ((12, 40), (40, 9))),
        ("linear", lambda m, x, w, b: m.nn.functional.linear(x, w, b), ((5, 6, 32), (17, 32), (17,))),
        ("softmax", lambda m, x: m.softmax(x, -1), ((8, 50),)),
        ("log_softmax", lambda m, x: m.log_softmax(x, -1), ((8, 50),)),
        ("mean of squares", lambda m, x: (x * x).mean(), ((8, 50),)),
        ("sum over rows", lambda m, x: x.sum(0), ((300, 5),)),
        ("layer_norm", lambda m, x, w, b: m.nn.functional.layer_norm(x, (40,), w, b), ((9, 40), (40,), (40,))),
        ("cat", lambda m, x, y: m.cat([x, y], 0) * 2, ((3, 4), (2, 4))),
        ("index", lambda m, x: x[m.tensor([0, 2, 2])], ((4, 5),)),
        ("gelu", lambda m, x: m.nn.functional.gelu(x), ((9, 40),)),
        ("mse_loss", lambda m, x, y: m.nn.functional.mse_loss(x, y), ((9, 40), (9, 40))),
        ("cast there and back", lambda m, x: (x.float() * 1.5).to(x.dtype), ((50,),)),
    ):
        leaves = [leaf(*shape) for shape in shapes]
        check_gradients(run(gd, *(a for a, _ in leaves)), run(torch, *(t for _, t in leaves)), leaves, f"{what}, {name}, {isa}", 4 * eps)
    x = leaf(16, 10)
    target = generator("targets").integers(0, 10, 16)
    ours = gd.nn.functional.cross_entropy(x[0] * 4, gd.tensor(target), label_smoothing=0.1)
    theirs = torch.nn.functional.cross_entropy(x[1] * 4, torch.tensor(target), label_smoothing=0.1)
    check_gradients(ours, theirs, [x], f"cross_entropy, {name}, {isa}", 4 * eps)


@BOTH
def test_gradients_of_a_leaf_add_up_in_its_dtype(name):
    ours, theirs = pair(np.array([1.0, 2.0]), name, requires_grad=True)
    for _ in range(3):
        (ours * 1.1).sum().backward()
        (theirs * 1.1).sum().backward()
    assert_same(ours.grad, theirs.grad, "three times", EPS[name] / 2)


@BOTH
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_optimizers(isa, name, kind):
    """As PyTorch's fused Adam: float32 inside, parameter and moments rounded after each step. Its SGD rounds more often.

    (Its fused SGD is no reference: in PyTorch 2.13 it is wrong for half parameters of more than a few elements.)
    """
    rng = generator("optimizer")
    x, g = rng.uniform(-1, 1, 4000), rng.uniform(-1, 1, (5, 4000))
    options = {"lr": 0.05, "weight_decay": 0.01} | ({"momentum": 0.9} if kind == "SGD" else {"eps": 1e-6})
    ours, theirs = gd.nn.Parameter(gd.tensor(x).to(name)), torch.nn.Parameter(torch.tensor(x).to(getattr(torch, name)))
    ours_opt = getattr(gd.optim, kind)([ours], **options)
    theirs_opt = getattr(torch.optim, kind)([theirs], **options, fused=kind != "SGD")
    for row in g:
        ours.grad, theirs.grad = gd.tensor(row).to(name), torch.tensor(row).to(getattr(torch, name))
        ours_opt.step()
        theirs_opt.step()
    assert ours.dtype.name == name
    assert_same(ours.detach(), theirs, f"{kind}, {name}, {isa}", 2 * EPS[name])
    state = ours_opt.state_dict()["state"][0]
    for key, value in theirs_opt.state_dict()["state"][0].items():
        if key != "step":
            assert_same(state[key], value, f"{kind}, {name}: {key}", 2 * EPS[name])


@BOTH
def test_a_model_learns(name):
    """Loss curves of a small network stay near PyTorch's in the same dtype, and fall."""
    gd.manual_seed(0)
    net = gd.nn.Sequential(gd.nn.Linear(8, 32), gd.nn.Tanh(), gd.nn.Linear(32, 3)).to(name)
    other = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3)).to(getattr(torch, name))
    other.load_state_dict({k: torch.tensor(wide(v)).to(getattr(torch, name)) for k, v in net.state_dict().items()})
    opt, their_opt = gd.optim.SGD(net.parameters(), lr=0.2), torch.optim.SGD(other.parameters(), lr=0.2)
    rng = generator("learning")
    x, y = rng.standard_normal((64, 8)), rng.integers(0, 3, 64)
    a, t = pair(x, name)
    losses = []
    for _ in range(30):
        with gd.step_arena():
            loss = gd.nn.functional.cross_entropy(net(a), gd.tensor(y))
            loss.backward()
            opt.step()
            opt.zero_grad()
            their_loss = torch.nn.functional.cross_entropy(other(t), torch.tensor(y))
            their_opt.zero_grad()
            their_loss.backward()
            their_opt.step()
            losses.append((loss.item(), their_loss.item()))
    ours, theirs = np.array(losses).T
    assert ours[-1] < 0.9 * ours[0] and math.isfinite(ours[-1])
    assert np.abs(ours - theirs).max() < 8 * EPS[name] * ours[0]
