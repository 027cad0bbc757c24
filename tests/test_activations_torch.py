"""Activations and dropout against PyTorch, live: values, first and second derivatives, special numbers, modules, in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from peer import TOLERANCE, array, pair, torch

import gradino as gd
from gradino import nn
from gradino.nn import functional as F

CASES: list[tuple[str, dict[str, Any]]] = [
    ("leaky_relu", {}), ("leaky_relu", {"negative_slope": -0.3}), ("elu", {}), ("elu", {"alpha": 0.3}), ("selu", {}), ("celu", {}),
    ("celu", {"alpha": 2.5}), ("relu6", {}), ("hardtanh", {}), ("hardtanh", {"min_val": -0.3, "max_val": 2.0}), ("hardswish", {}),
    ("hardsigmoid", {}), ("mish", {}), ("logsigmoid", {}), ("softsign", {}), ("tanhshrink", {}), ("softshrink", {}),
    ("softshrink", {"lambd": 0.0}), ("hardshrink", {"lambd": 1.0}), ("threshold", {"threshold": 0.2, "value": 3.0}),
    ("softmin", {"dim": 0}),
    ("glu", {}), ("glu", {"dim": 0}), ("rrelu", {"lower": 0.1, "upper": 0.4}), ("silu", {}), ("relu", {}),
]  # fmt: skip
SHAPES = [(6, 4), (2, 3, 4, 2), (70,), (0,)]
IN_PLACE = [c for c in CASES if c[0] not in (
    "logsigmoid", "softsign", "tanhshrink", "softshrink", "hardshrink", "softmin", "glu")]  # fmt: skip


def away_from_kinks(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    x = rng.uniform(-5, 5, shape)
    for kink in (-3, -1, -0.5, -0.3, 0, 0.2, 0.5, 1, 2, 3):
        x = np.where(np.abs(x - kink) < 0.05, kink + 0.06, x)
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, options", CASES)
def test_values_and_gradients(isa: str, name: str, options: dict[str, Any], dtype: str) -> None:
    for shape in SHAPES:
        if name == "glu" and shape[options.get("dim", -1)] % 2:
            continue
        x, y = pair(away_from_kinks(np.random.default_rng(5), shape), True, dtype)
        rough = name == "hardsigmoid"  # PyTorch's sixth is a float32
        a, b = getattr(F, name)(x, **options), getattr(torch.nn.functional, name)(y, **options)
        what, tolerance = f"{name} {options} {shape} {dtype} {isa}", 1e-7 if rough else TOLERANCE[dtype] / 10
        assert_close(a, array(b), rtol=tolerance, atol=tolerance, what=what)
        weights = np.random.default_rng(1).standard_normal(a.shape).astype(dtype)
        (a * gd.tensor(weights)).sum().backward()
        (b * torch.tensor(weights)).sum().backward()
        assert_close(x.grad, array(y.grad), rtol=tolerance, atol=tolerance, what=f"{what}: gradient")


@pytest.mark.parametrize("name, options", CASES)
def test_second_derivatives(name: str, options: dict[str, Any]) -> None:
    x = gd.tensor(away_from_kinks(np.random.default_rng(6), (4, 6)), requires_grad=True)
    assert gd.autograd.gradgradcheck(lambda t: getattr(F, name)(t, **options), [x])


SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-30, -1e-30, 88.0, -88.0, 3e38, -3e38, 20.0, -20.0, 3.0, -3.0, 6.0]
OURS_FINITE = {"mish", "hardswish", "silu"}  # where PyTorch has NaN at -inf


@pytest.mark.parametrize("name, options", [c for c in CASES if c[0] not in ("softmin", "glu")])
def test_special_numbers(isa: str, name: str, options: dict[str, Any]) -> None:
    x, y = pair(np.array(SPECIAL, np.float32), False)
    a, b = array(getattr(F, name)(x, **options)), array(getattr(torch.nn.functional, name)(y, **options))
    for value, ours, theirs in zip(SPECIAL, a, b, strict=True):
        if name in OURS_FINITE and value == -float("inf"):
            continue
        same = ours == theirs or (np.isnan(ours) and np.isnan(theirs)) or abs(ours - theirs) <= 2e-6 * abs(theirs) + 1e-37
        assert same, f"{name} {options} {isa}: at {value} it is {ours}, must be {theirs}"


@pytest.mark.parametrize("name", ["relu6", "hardtanh", "leaky_relu", "elu", "hardswish", "threshold"])
def test_slopes_at_the_kinks(name: str) -> None:
    options = {"threshold": 1.0, "value": 5.0} if name == "threshold" else {}
    x, y = pair(np.array([-3, -1, -0.0, 0, 1, 3, 6], np.float32))
    getattr(F, name)(x, **options).sum().backward()
    getattr(torch.nn.functional, name)(y, **options).sum().backward()
    assert x.grad.tolist() == y.grad.tolist()


@pytest.mark.parametrize("name, options", IN_PLACE)
def test_in_place(name: str, options: dict[str, Any]) -> None:
    x = gd.tensor(away_from_kinks(np.random.default_rng(6), (4, 6)))
    expected = getattr(F, name)(x, **options).tolist()
    result = getattr(F, name)(x, **options, inplace=True)
    assert result is x and x.tolist() == expected


@pytest.mark.parametrize("name, options", [c for c in IN_PLACE if c[0] != "rrelu" and "negative_slope" not in c[1]])
def test_in_place_within_a_graph(name: str, options: dict[str, Any]) -> None:
    x, y = pair(away_from_kinks(np.random.default_rng(6), (4, 6)))
    ours, theirs = x * 1.5, y * 1.5
    before = ours * 2  # needs nothing of the old values
    result = getattr(F, name)(ours, **options, inplace=True)
    before_t = theirs * 2
    getattr(torch.nn.functional, name)(theirs, **options, inplace=True)
    assert result is ours
    assert_close(ours, array(theirs), rtol=1e-7, atol=1e-12, what=name)
    (ours.square() + before).sum().backward()
    (theirs.square() + before_t).sum().backward()
    assert_close(x.grad, array(y.grad), rtol=1e-7, atol=1e-12, what=f"{name}: gradient")
    with pytest.raises(gd.GradinoError, match="leaf"):
        getattr(F, name)(x, **options, inplace=True)


@pytest.mark.parametrize("shape, weights", [((4, 3, 2), 3), ((4, 3), 1), ((7,), 1), ((2, 3, 4, 2), 3)])
def test_prelu(shape: tuple[int, ...], weights: int) -> None:
    rng = np.random.default_rng(2)
    (x, y), (w, v) = (pair(rng.standard_normal(s)) for s in (shape, (weights,)))
    a, b = F.prelu(x, w), torch.nn.functional.prelu(y, v)
    assert_close(a, array(b), rtol=1e-12, what="prelu")
    a.square().sum().backward()
    b.square().sum().backward()
    for t, u in ((x, y), (w, v)):
        assert_close(t.grad, array(u.grad), rtol=1e-12, atol=1e-12, what="prelu's gradient")


def test_functions_that_end_in_an_underscore() -> None:
    for name, arguments in (("relu", ()), ("leaky_relu", (0.2,)), ("elu", (0.5,)), ("selu", ()), ("celu", (2.0,)), ("hardtanh", (-1, 2)),
                            ("rrelu", (0.1, 0.3)), ("threshold", (0.5, 9.0))):  # fmt: skip
        x = gd.tensor([-2.0, 0.25, 3.0])
        want = getattr(F, name)(x, *arguments).tolist()
        assert getattr(F, f"{name}_")(x, *arguments) is x and x.tolist() == want, name


def test_integers() -> None:
    x, y = gd.tensor([-9, 3, 9]), torch.tensor([-9, 3, 9])
    for name in ("hardtanh", "relu6", "relu", "softsign", "tanhshrink"):
        a, b = getattr(F, name)(x), getattr(torch.nn.functional, name)(y)
        assert_close(a, array(b), rtol=1e-6, what=name)
        assert a.dtype.name == str(b.dtype).removeprefix("torch."), name
    for name in ("leaky_relu", "elu", "hardswish", "mish", "logsigmoid"):
        with pytest.raises(TypeError, match="floating point"):
            getattr(F, name)(x)


def test_ours() -> None:
    x = gd.tensor(np.random.default_rng(4).standard_normal((3, 4)), requires_grad=True)
    t = torch.tensor(array(x))
    assert_close(F.relu_squared(x), array(t.relu() ** 2), rtol=1e-12, what="relu squared")
    a, b = t.chunk(2, -1)
    assert_close(F.swiglu(x), array(torch.nn.functional.silu(a) * b), rtol=1e-12, what="swiglu")
    assert_close(F.softcap(x, 2.0), array(2 * torch.tanh(t / 2)), rtol=1e-12, what="softcap")
    for f in (F.relu_squared, F.swiglu, lambda v: F.softcap(v, 2.0)):
        assert gd.autograd.gradcheck(f, [x])
    with pytest.raises(ValueError, match="cap"):
        F.softcap(x, 0)


def test_gumbel_softmax() -> None:
    gd.manual_seed(0)
    logits = gd.tensor([[2.0, 0.0, -1.0]], requires_grad=True)
    drawn = F.gumbel_softmax(logits.expand(4000, 3), hard=True)
    assert_close(drawn.sum(-1), np.ones(4000), rtol=1e-6, what="one of each")
    assert_close(drawn.mean(0), array(torch.tensor(logits.tolist()).softmax(-1)[0]), rtol=0, atol=0.03, what="frequencies")
    (drawn * gd.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert np.abs(array(logits.grad)).max() > 0


MODULES = [
    lambda m: m.LeakyReLU(0.2), lambda m: m.PReLU(), lambda m: m.PReLU(4), lambda m: m.RReLU(), lambda m: m.ELU(0.4), lambda m: m.SELU(),
    lambda m: m.CELU(1.5), lambda m: m.ReLU6(), lambda m: m.Threshold(0.1, 20), lambda m: m.Hardtanh(-2, 2), lambda m: m.Hardswish(),
    lambda m: m.Hardsigmoid(), lambda m: m.Hardshrink(), lambda m: m.Softshrink(0.4), lambda m: m.Tanhshrink(), lambda m: m.Softsign(),
    lambda m: m.LogSigmoid(), lambda m: m.Mish(), lambda m: m.Softmin(1), lambda m: m.GLU(1), lambda m: m.ReLU(inplace=True),
    lambda m: m.LeakyReLU(inplace=True), lambda m: m.SiLU(inplace=True), lambda m: m.Softmax2d(), lambda m: m.ReLU6(inplace=True),
    lambda m: m.Dropout1d(0.3), lambda m: m.Dropout2d(0.3), lambda m: m.AlphaDropout(), lambda m: m.FeatureAlphaDropout(0.2),
    lambda m: m.Flatten(), lambda m: m.Flatten(0, 1), lambda m: m.Unflatten(1, (2, 2)), lambda m: m.Hardswish(inplace=True),
]  # fmt: skip


@pytest.mark.parametrize("make", MODULES)
def test_a_module_in_evaluation(make: Any) -> None:
    mine, yours = make(nn).eval(), make(torch.nn).eval()
    assert repr(mine) == repr(yours)
    shape = (3, 4, 2, 2) if "Softmax2d" in repr(mine) or "Dropout2d" in repr(mine) else (3, 4)
    x = np.random.default_rng(8).standard_normal(shape).astype(np.float32)
    assert_close(mine(gd.tensor(x)), array(yours(torch.tensor(x))), rtol=3e-6, atol=1e-7, what=repr(mine))


@pytest.mark.parametrize("name, shape", [("dropout1d", (50, 40, 3)), ("dropout2d", (50, 40, 3, 2)), ("feature_alpha_dropout", (50, 40, 3))])
def test_whole_channels_are_dropped(name: str, shape: tuple[int, ...]) -> None:
    gd.manual_seed(1)
    x = gd.randn(*shape, requires_grad=True)
    y = getattr(F, name)(x, 0.25, True)
    rows = array(y).reshape(shape[0] * shape[1], -1)
    if name == "feature_alpha_dropout":
        dropped = np.abs(rows - rows[:, :1]).max(1) < 1e-6
    else:
        dropped = np.abs(rows).max(1) == 0
        kept = array(x).reshape(rows.shape)[~dropped]
        assert_close(rows[~dropped], kept / 0.75, rtol=1e-6, what="what is kept")
    assert abs(dropped.mean() - 0.25) < 0.04
    y.sum().backward()
    gradients = array(x.grad).reshape(rows.shape)
    assert (gradients[dropped] == 0).all() and (gradients[~dropped] > 0).all()


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    gd.manual_seed(2)
    y = array(F.alpha_dropout(gd.randn(200000), 0.3, True))
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
    assert (array(F.alpha_dropout(gd.randn(5), 1.0, True)) == 0).all()
    x = gd.randn(4)
    assert F.alpha_dropout(x, 0.5, False) is x


def test_rrelu_draws_slopes() -> None:
    gd.manual_seed(3)
    x = gd.full((1000,), -2.0, requires_grad=True)
    y = F.rrelu(x, 0.1, 0.3, training=True)
    slopes = array(y) / -2
    assert slopes.min() >= 0.1 and slopes.max() <= 0.3 and slopes.std() > 0.04
    y.sum().backward()
    assert_close(x.grad, slopes, rtol=1e-6, what="slopes")


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: F.glu(gd.ones(3)), ValueError, "halved"),
        (lambda: F.hardtanh(gd.ones(3), 2, 1), ValueError, "min_val"),
        (lambda: F.softshrink(gd.ones(3), -1), ValueError, "lambd"),
        (lambda: F.celu(gd.ones(3), 0), ZeroDivisionError, "alpha"),
        (lambda: F.prelu(gd.ones(3, 4), gd.ones(3)), ValueError, "channels"),
        (lambda: F.dropout2d(gd.ones(3, 4)), ValueError, "N, C, H, W"),
        (lambda: F.relu(gd.ones(3), inplace=1), TypeError, "bool"),
        (lambda: F.rrelu(gd.ones(3), 2, 1), ValueError, "lower"),
        (lambda: nn.Softmin(), ValueError, "dim"),
        (lambda: F.mish("no"), TypeError, "Tensor"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
