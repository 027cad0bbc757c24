"""Losses, distances and margins against PyTorch, live: values, gradients of all inputs, reductions, and their modules."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from peer import TOLERANCE, array, pair, torch

import gradino as gd
from gradino import nn
from gradino.nn import functional as F


def normal(*shape: int) -> Any:
    return lambda rng: rng.standard_normal(shape)


def inside(*shape: int) -> Any:
    return lambda rng: rng.uniform(0.02, 0.98, shape)


def positive(*shape: int) -> Any:
    return lambda rng: rng.uniform(0.2, 3, shape)


def signs(*shape: int) -> Any:
    return lambda rng: np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def classes(n: int, *shape: int) -> Any:
    return lambda rng: rng.integers(0, n, shape)


def distribution(*shape: int) -> Any:
    def make(rng: np.random.Generator) -> np.ndarray:
        p = rng.random(shape) + 0.01
        return p / p.sum(-1, keepdims=True)

    return make


def given(*values: Any) -> Any:
    return lambda rng: np.array(values)


# function, inputs, further arguments; a string names a keyword for the input that follows it
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("l1_loss", (normal(3, 5), normal(3, 5)), {}),
    ("l1_loss", (normal(3, 5), normal(3, 5), "weight", positive(3, 5)), {}),
    ("mse_loss", (normal(3, 5), normal(3, 5), "weight", positive(3, 5)), {}),
    ("smooth_l1_loss", (normal(70), normal(70)), {}),
    ("smooth_l1_loss", (normal(2, 3, 4, 5), normal(2, 3, 4, 5)), {"beta": 0.3}),
    ("smooth_l1_loss", (normal(7), normal(7)), {"beta": 0.0}),
    ("huber_loss", (normal(70), normal(70)), {"delta": 0.4}),
    ("huber_loss", (normal(3, 3), normal(3, 3), "weight", positive(3, 3)), {"delta": 2.0}),
    ("huber_loss", (normal(3, 3), normal(3, 3)), {"delta": float("inf")}),
    ("binary_cross_entropy", (inside(4, 9), inside(4, 9)), {}),
    ("binary_cross_entropy", (inside(4, 9), inside(4, 9), "weight", positive(9)), {}),
    ("binary_cross_entropy_with_logits", (normal(4, 9), inside(4, 9)), {}),
    ("binary_cross_entropy_with_logits", (normal(4, 9), inside(4, 9), "weight", positive(4, 1), "pos_weight", positive(9)), {}),
    ("binary_cross_entropy_with_logits", (given(-90.0, 90.0, -90.0, 90.0), given(0.0, 1.0, 1.0, 0.0)), {}),
    ("nll_loss", (normal(5, 4), classes(4, 5)), {}),
    ("nll_loss", (normal(5, 4), given(1, -100, 3, 0, -100), "weight", positive(4)), {}),
    ("nll_loss", (normal(5, 4), given(1, 2, 3, 0, 2)), {"ignore_index": 2}),
    ("nll_loss", (normal(4), lambda rng: np.array(3)), {}),
    ("nll_loss", (normal(2, 4, 3), classes(4, 2, 3), "weight", positive(4)), {}),
    ("nll_loss", (normal(2, 4, 3, 5), classes(4, 2, 3, 5)), {}),
    ("cross_entropy", (normal(2, 4, 3), classes(4, 2, 3), "weight", positive(4)), {"label_smoothing": 0.1}),
    ("cross_entropy", (normal(2, 4, 3, 5), classes(4, 2, 3, 5)), {}),
    ("kl_div", (normal(3, 6), distribution(3, 6)), {}),
    ("kl_div", (normal(3, 6), normal(3, 6)), {"log_target": True}),
    ("cosine_embedding_loss", (normal(5, 3), normal(5, 3), signs(5)), {"margin": 0.2}),
    ("cosine_embedding_loss", (normal(3), normal(3), lambda rng: np.array(-1.0)), {}),
    ("margin_ranking_loss", (normal(6), normal(6), signs(6)), {"margin": 0.3}),
    ("hinge_embedding_loss", (normal(4, 6), signs(4, 6)), {"margin": 0.7}),
    ("triplet_margin_loss", (normal(4, 6), normal(4, 6), normal(4, 6)), {}),
    ("triplet_margin_loss", (normal(4, 6), normal(4, 6), normal(4, 6)), {"margin": 2.5, "p": 1, "swap": True}),
    ("triplet_margin_loss", (normal(4, 6), normal(4, 6), normal(4, 6)), {"p": 3.5, "eps": 1e-3}),
    ("triplet_margin_with_distance_loss", (normal(4, 6), normal(4, 6), normal(4, 6)), {"swap": True}),
    ("soft_margin_loss", (normal(4, 6), signs(4, 6)), {}),
    ("multi_margin_loss", (normal(5, 4), classes(4, 5)), {}),
    ("multi_margin_loss", (normal(5, 4), classes(4, 5), "weight", positive(4)), {"p": 2, "margin": 0.7}),
    ("multi_margin_loss", (normal(4), lambda rng: np.array(2)), {}),
    ("multilabel_margin_loss", (normal(2, 4), given([3, 0, -1, 1], [-1, 1, 1, 1])), {}),
    ("multilabel_margin_loss", (normal(4), given(3, 0, 1, 2)), {}),
    ("multilabel_soft_margin_loss", (normal(5, 4), lambda rng: (rng.random((5, 4)) < 0.5) * 1.0), {}),
    ("multilabel_soft_margin_loss", (normal(5, 4), inside(5, 4), "weight", positive(4)), {}),
    ("gaussian_nll_loss", (normal(5, 4), normal(5, 4), positive(5, 4)), {"full": True}),
    ("gaussian_nll_loss", (normal(5, 4), normal(5, 4), positive(5, 1)), {}),
    ("gaussian_nll_loss", (normal(5, 4), normal(5, 4), positive(5)), {"eps": 0.5}),
    ("poisson_nll_loss", (normal(5, 4), positive(5, 4)), {"full": True}),
    ("poisson_nll_loss", (positive(5, 4), positive(5, 4)), {"log_input": False}),
    ("pairwise_distance", (normal(5, 4), normal(5, 4)), {}),
    ("pairwise_distance", (normal(2, 5, 4), normal(4)), {"p": 1.0, "keepdim": True}),
    ("pairwise_distance", (normal(5, 4), normal(1, 4)), {"p": float("inf")}),
    ("pairwise_distance", (normal(5, 4), normal(5, 4)), {"p": 3.0, "eps": 1e-2}),
    ("cosine_similarity", (normal(5, 4), normal(5, 4)), {}),
    ("cosine_similarity", (normal(5, 4, 3), normal(4, 3)), {"dim": -1, "eps": 1.5}),
]  # fmt: skip
UNREDUCED = {"pairwise_distance", "cosine_similarity"}
NO_TARGET_GRADIENT = {  # where PyTorch has none, or where gradino says that it has none
    "nll_loss", "cross_entropy", "multi_margin_loss", "multilabel_margin_loss", "cosine_embedding_loss", "margin_ranking_loss",
    "hinge_embedding_loss", "soft_margin_loss",
}  # fmt: skip
PLAIN = {"multilabel_margin_loss", "multi_margin_loss"}


def prepared(name: str, inputs: tuple[Any, ...], dtype: str) -> tuple[list[Any], list[Any], dict[str, Any], dict[str, Any]]:
    rng, ours, theirs, keys, tkeys = np.random.default_rng(7), [], [], {}, {}
    keyword = ""
    for k, make in enumerate(inputs):
        if isinstance(make, str):
            keyword = make
            continue
        wants = keyword == "" and (k == 0 or name not in NO_TARGET_GRADIENT or (k == 1 and "cosine_emb" in name))
        x, y = pair(np.asarray(make(rng)), wants, dtype)
        if keyword:
            keys[keyword], tkeys[keyword] = x, y
        else:
            ours.append(x)
            theirs.append(y)
        keyword = ""
    return ours, theirs, keys, tkeys


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name, inputs, options", CASES)
def test_a_loss(name: str, inputs: tuple[Any, ...], options: dict[str, Any], reduction: str, dtype: str) -> None:
    ours, theirs, keys, tkeys = prepared(name, inputs, dtype)
    how = {} if name in UNREDUCED else {"reduction": reduction}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a = getattr(F, name)(*ours, **keys, **options, **how)
        b = getattr(torch.nn.functional, name)(*theirs, **tkeys, **options, **how)
    what, tolerance = f"{name} {options} {reduction} {dtype}", TOLERANCE[dtype]
    assert_close(a, array(b), rtol=tolerance, atol=tolerance, what=what)
    weights = np.random.default_rng(1).standard_normal(a.shape).astype(dtype)
    (a * gd.tensor(weights)).sum().backward()
    (b * torch.tensor(weights)).sum().backward()
    for k, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        assert (x.grad is None) == (y.grad is None), f"{what}: gradient {k}"
        if x.grad is not None:
            assert_close(x.grad, array(y.grad), rtol=tolerance, atol=tolerance, what=f"{what}: gradient {k}")


@pytest.mark.parametrize("name, inputs, options", [c for c in CASES if c[0] != "cross_entropy" and c[2].get("eps") != 1.5])
def test_second_derivatives(name: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
    if "with_logits" in name and inputs[0](np.random.default_rng(0)).ndim == 1:
        pytest.skip("differences of numbers as large as these are rounding")
    ours, _, keys, _ = prepared(name, inputs, "float64")
    wanted = [x for x in ours if x.requires_grad]

    def loss(*tensors: gd.Tensor) -> gd.Tensor:
        left = iter(tensors)
        return getattr(F, name)(*(next(left) if x.requires_grad else x for x in ours), **keys, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert gd.autograd.gradgradcheck(loss, wanted, atol=1e-4)


def test_arguments_that_pytorch_had_before() -> None:
    x, y = gd.ones(3), gd.zeros(3)
    with pytest.warns(UserWarning, match="deprecated"):
        assert F.l1_loss(x, y, reduce=False).shape == (3,)
    with pytest.warns(UserWarning, match="deprecated"):
        assert nn.MSELoss(size_average=False)(x, y).item() == 3
    with pytest.warns(UserWarning, match="deprecated"):
        assert F.cross_entropy(gd.zeros(2, 3), gd.tensor([0, 1]), size_average=True).ndim == 0


def test_other_shapes_are_broadcast_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="broadcast"):
        assert F.mse_loss(gd.zeros(3, 1), gd.ones(4)).item() == 1
    with pytest.raises(ValueError, match="equal"):
        F.l1_loss(gd.zeros(3), gd.zeros(4))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4)])
def test_nothing(shape: tuple[int, ...]) -> None:
    for name in ("l1_loss", "mse_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss"):
        x = gd.zeros(shape, requires_grad=True)
        assert getattr(F, name)(x, gd.zeros(shape), reduction="sum").item() == 0
        mean = getattr(F, name)(x, gd.zeros(shape))
        assert np.isnan(mean.item())
        mean.backward()
        assert tuple(x.grad.shape) == shape


def test_classes_without_probability_count_nothing() -> None:
    x, t = gd.tensor([-1.0, -2.0], requires_grad=True), gd.tensor([0.0, 1.0], requires_grad=True)
    loss = F.kl_div(x, t, reduction="sum")
    assert loss.item() == torch.nn.functional.kl_div(torch.tensor([-1.0, -2.0]), torch.tensor([0.0, 1.0]), reduction="sum").item()
    loss.backward()
    assert np.isfinite(t.grad.tolist()).all() and x.grad.tolist() == [0.0, -1.0]


def test_certain_probabilities() -> None:
    """Logarithms are cut off at -100, and so is the slope."""
    x, y = [0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]
    ours, theirs = gd.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    a = F.binary_cross_entropy(ours, gd.tensor(y), reduction="none")
    b = torch.nn.functional.binary_cross_entropy(theirs, torch.tensor(y), reduction="none")
    assert a.tolist() == b.tolist() == [0, 0, 100, 100]
    a.sum().backward()
    b.sum().backward()
    assert ours.grad.tolist() == theirs.grad.tolist()


def test_a_mean_over_ignored_targets() -> None:
    x = gd.zeros(2, 3, requires_grad=True)
    loss = F.nll_loss(x, gd.tensor([-100, -100]))
    loss.backward()
    assert np.isnan(loss.item()) and x.grad.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: F.binary_cross_entropy(gd.tensor([1.5]), gd.ones(1)), ValueError, "probabilities"),
        (lambda: F.binary_cross_entropy(gd.ones(2), gd.ones(1)), ValueError, "equal"),
        (lambda: F.binary_cross_entropy_with_logits(gd.ones(2), gd.ones(1)), ValueError, "equal"),
        (lambda: F.nll_loss(gd.ones(2, 3), gd.tensor([0, 3])), IndexError, "3 is out of range"),
        (lambda: F.nll_loss(gd.ones(2, 3), gd.ones(2, 3)), ValueError, "classes"),
        (lambda: F.smooth_l1_loss(gd.ones(2), gd.ones(2), beta=-1), ValueError, "beta"),
        (lambda: F.huber_loss(gd.ones(2), gd.ones(2), delta=0), ValueError, "delta"),
        (lambda: F.l1_loss(gd.ones(2), gd.ones(2), reduction="avg"), ValueError, "reduction"),
        (lambda: F.gaussian_nll_loss(gd.ones(2), gd.ones(2), gd.tensor([-1.0, 1.0])), ValueError, "negative"),
        (lambda: F.multi_margin_loss(gd.ones(2, 3), gd.tensor([0, 1]), p=3), ValueError, "p is 3"),
        (lambda: F.triplet_margin_loss(gd.ones(2, 3), gd.ones(2, 3), gd.ones(3)), ValueError, "dimensions"),
        (lambda: F.l1_loss(gd.ones(2), 3), TypeError, "expected a Tensor"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


MODULES: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("L1Loss", {}, (normal(3, 4), normal(3, 4))),
    ("SmoothL1Loss", {"beta": 0.5}, (normal(3, 4), normal(3, 4))),
    ("HuberLoss", {"delta": 0.5, "reduction": "sum"}, (normal(3, 4), normal(3, 4))),
    ("NLLLoss", {"ignore_index": 1}, (normal(3, 4), classes(4, 3))),
    ("BCELoss", {}, (inside(3, 4), inside(3, 4))),
    ("BCEWithLogitsLoss", {}, (normal(3, 4), inside(3, 4))),
    ("KLDivLoss", {"reduction": "batchmean"}, (normal(3, 4), distribution(3, 4))),
    ("CosineEmbeddingLoss", {"margin": 0.1}, (normal(3, 4), normal(3, 4), signs(3))),
    ("MarginRankingLoss", {"margin": 0.1}, (normal(3), normal(3), signs(3))),
    ("HingeEmbeddingLoss", {"margin": 0.4}, (normal(3), signs(3))),
    ("TripletMarginLoss", {"margin": 0.4, "swap": True}, (normal(3, 4), normal(3, 4), normal(3, 4))),
    ("TripletMarginWithDistanceLoss", {"margin": 0.4}, (normal(3, 4), normal(3, 4), normal(3, 4))),
    ("SoftMarginLoss", {}, (normal(3), signs(3))),
    ("MultiMarginLoss", {"p": 2}, (normal(3, 4), classes(4, 3))),
    ("MultiLabelMarginLoss", {}, (normal(2, 4), given([3, 0, -1, 1], [-1, 1, 1, 1]))),
    ("MultiLabelSoftMarginLoss", {}, (normal(3, 4), inside(3, 4))),
    ("GaussianNLLLoss", {"full": True}, (normal(3, 4), normal(3, 4), positive(3, 4))),
    ("PoissonNLLLoss", {"full": True}, (normal(3, 4), positive(3, 4))),
    ("CosineSimilarity", {"dim": 0}, (normal(3, 4), normal(3, 4))),
    ("PairwiseDistance", {"p": 1.0}, (normal(3, 4), normal(3, 4))),
]


@pytest.mark.parametrize("name, options, inputs", MODULES)
def test_a_module(name: str, options: dict[str, Any], inputs: tuple[Any, ...]) -> None:
    rng = np.random.default_rng(3)
    ours, theirs = zip(*(pair(np.asarray(make(rng)), False, "float64") for make in inputs))
    mine, yours = getattr(nn, name)(**options), getattr(torch.nn, name)(**options)
    assert_close(mine(*ours), array(yours(*theirs)), rtol=1e-11, atol=1e-12, what=f"{name} {options}")
    assert repr(mine) == repr(yours)
