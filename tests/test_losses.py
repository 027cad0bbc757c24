"""Cross entropy and mean squared error: hand-checked numbers, finite differences, edges, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits

import gradino as gd
from gradino import nn
from gradino.nn import functional as F

REDUCTIONS = ("none", "mean", "sum")


def logits_of(values: Any) -> gd.Tensor:
    return gd.tensor(values, dtype=gd.float64, requires_grad=True)


# ---- Cases --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_n02_every_target_ignored(smoothing: float, isa: str) -> None:
    """Case N02 a: the mean over nothing is NaN, and the gradient is exactly 0 in all reductions."""
    for reduction, want in (("none", np.zeros(1)), ("sum", np.zeros(())), ("mean", np.full((), np.nan))):
        x = logits_of([[1, 2, 3]])
        loss = F.cross_entropy(x, gd.tensor([-100]), reduction=reduction, label_smoothing=smoothing)
        assert_close(loss, want, what=f"{reduction}, {isa}")
        loss.sum().backward()
        assert_same_bits(x.grad, np.zeros((1, 3)), what=f"gradient, {reduction}, smoothing {smoothing}, {isa}")


def test_n02_smoothing_leaves_ignored_rows_out(isa: str) -> None:
    """Case N02 b: the uniform part of the target is not averaged over ignored rows."""
    values, target = [[1, 2, 3], [0, 0, 0], [2, -1, 0.5]], gd.tensor([2, -100, 0])
    wanted = {(0.0, "sum"): 0.64891726, (0.0, "mean"): 0.32445863, (0.2, "sum"): 1.14891726, (0.2, "mean"): 0.57445863}
    for (smoothing, reduction), want in wanted.items():
        x = logits_of(values)
        loss = F.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing)
        assert loss.item() == pytest.approx(want, abs=1e-8), (smoothing, reduction, isa)
    x = logits_of(values)
    F.cross_entropy(x, target, label_smoothing=0.2).backward()
    rows = [[0.01168195, 0.08903090, -0.10071286], [0, 0, 0], [-0.04053482, -0.01377705, 0.05431186]]
    assert_close(x.grad, np.array(rows), atol=1e-8, what=f"gradient, {isa}")
    assert not x.grad[1].ne(0).any()


def test_n02_class_weights_with_an_ignored_row(isa: str) -> None:
    """Case N02 c: the weight table is not indexed with -100."""
    loss = F.cross_entropy(
        logits_of([[1, 2], [3, 0.4]]), gd.tensor([-100, 1]), gd.tensor([0.2, 0.3], dtype=gd.float64), label_smoothing=0.1
    )
    assert loss.item() == pytest.approx(2.5404506, abs=1e-7), isa


@pytest.mark.parametrize("label", [3, -1, -4, -(2**63), 2**63 - 1])
def test_n04_label_out_of_range(label: int, isa: str) -> None:
    """Case N04: an IndexError that names label and limit, before memory is touched; the process stays usable."""
    for target in ([label], [0, label, 1]):
        x = gd.zeros(len(target), 3, requires_grad=True)
        with pytest.raises(IndexError, match=rf"{label} .*\[0, 3\)"):
            F.cross_entropy(x, gd.tensor(target))
    with pytest.raises(gd.OutOfRangeError):
        F.cross_entropy(gd.zeros(2, 3, 2), gd.tensor([[0, 1], [2, label]]))
    assert F.cross_entropy(gd.zeros(1, 3), gd.tensor([2])).item() == pytest.approx(np.log(3))


@pytest.mark.parametrize("ignored", [-1, -4, 3, 1, 7])
def test_n04_the_ignored_label_may_be_anything(ignored: int) -> None:
    x = logits_of([[1, 2, 3], [3, 1, 0]])
    loss = F.cross_entropy(x, gd.tensor([ignored, 0]), ignore_index=ignored)
    want = F.cross_entropy(logits_of([[3, 1, 0]]), gd.tensor([0]))
    assert_close(loss, want, rtol=1e-15, what=f"ignore_index {ignored}")
    loss.backward()
    assert not x.grad[0].ne(0).any()


@pytest.mark.parametrize("index", [5, -1, -6, 2**40])
def test_n04_embedding_index_out_of_range(index: int) -> None:
    table = nn.Embedding(5, 2)
    with pytest.raises(IndexError, match=rf"{index} .*5"):
        table(gd.tensor([[0, index]]))
    assert table(gd.tensor([[0, 4]])).shape == (1, 2, 2)


# ---- Gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck_classes(reduction: str, smoothing: float, weighted: bool, isa: str, rng: Any) -> None:
    weight = gd.tensor([0.5, 2.0, 0.0, 1.0], dtype=gd.float64) if weighted else None
    target = gd.tensor([3, -100, 0, 1, 3])

    def loss(x: gd.Tensor) -> gd.Tensor:
        return F.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=smoothing)

    x = logits_of(rng.standard_normal((5, 4)))
    assert gd.autograd.gradcheck(loss, x)
    assert gd.autograd.gradgradcheck(loss, x)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck_probabilities(reduction: str, smoothing: float, weighted: bool, rng: Any) -> None:
    """Also with respect to the targets."""
    weight = gd.tensor([0.5, 2.0, 0.0, 1.0], dtype=gd.float64) if weighted else None

    def loss(x: gd.Tensor, q: gd.Tensor) -> gd.Tensor:
        return F.cross_entropy(x, q, weight, reduction=reduction, label_smoothing=smoothing)

    leaves = [logits_of(rng.standard_normal((3, 4))), logits_of(rng.dirichlet(np.ones(4), 3))]
    assert gd.autograd.gradcheck(loss, leaves)
    assert gd.autograd.gradgradcheck(loss, leaves)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradcheck_mse(reduction: str, isa: str, rng: Any) -> None:
    leaves = [logits_of(rng.standard_normal((3, 4))) for _ in range(2)]
    assert gd.autograd.gradcheck(lambda x, y: F.mse_loss(x, y, reduction=reduction), leaves)
    assert gd.autograd.gradgradcheck(lambda x, y: F.mse_loss(x, y, reduction=reduction), leaves)


# ---- Numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("classes", [1, 2, 3, 15, 16, 17, 33, 1000])
def test_against_float64(classes: int, dtype: str, tolerance: float, isa: str, rng: Any) -> None:
    """Rows of every width, logits of every size: no overflow, small losses keep their digits."""
    values = (rng.standard_normal((40, classes)) * rng.choice([0.1, 3, 100], (40, 1))).astype(dtype)
    labels = rng.integers(0, classes, 40)
    exact = values.astype(np.float64)
    shifted = exact - exact.max(1, keepdims=True)
    want = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(40), labels]
    loss = F.cross_entropy(gd.tensor(values), gd.tensor(labels), reduction="none")
    assert_close(loss, want, rtol=tolerance, atol=tolerance * 100, what=f"{classes} classes, {dtype}, {isa}", dtype=dtype)


def test_extreme_logits(isa: str) -> None:
    x = logits_of([[1e4, 0, -1e4], [-np.inf, 0, 0], [1e308, 1e308, -1e308]])
    loss = F.cross_entropy(x, gd.tensor([0, 1, 0]), reduction="none")
    assert_close(loss, np.array([0, np.log(2), np.log(2)]), atol=1e-12, what=isa)
    loss.sum().backward()
    assert_close(x.grad, np.array([[0, 0, 0], [0, -0.5, 0.5], [-0.5, 0.5, 0]]), atol=1e-12, what=f"gradient, {isa}")
    nan = F.cross_entropy(logits_of([[np.nan, 0], [0, 0]]), gd.tensor([1, 1]), reduction="none")
    assert_close(nan, np.array([np.nan, np.log(2)]), atol=1e-12, what=f"NaN stays in its row, {isa}")


def test_shapes_of_results() -> None:
    """Class dimension second; one sample without a batch; no sample at all."""
    for logits, classes in (((5,), ()), ((3, 5), (3,)), ((3, 5, 2), (3, 2)), ((3, 5, 2, 4), (3, 2, 4)), ((0, 5), (0,))):
        x, target = gd.randn(*logits), gd.randint(0, 5, classes)
        assert F.cross_entropy(x, target, reduction="none").shape == classes
        assert F.cross_entropy(x, x.softmax(0 if len(logits) == 1 else 1), reduction="none").shape == classes
        assert F.cross_entropy(x, target).shape == F.cross_entropy(x, target, reduction="sum").shape == ()
    assert F.cross_entropy(gd.zeros(0, 5), gd.zeros(0, dtype=gd.int64), reduction="sum").item() == 0
    assert np.isnan(F.cross_entropy(gd.zeros(0, 5), gd.zeros(0, dtype=gd.int64)).item())
    x = gd.randn(3, 5, 2, 4)
    target = gd.randint(0, 5, (3, 2, 4))
    flat = F.cross_entropy(x.permute(0, 2, 3, 1).reshape(24, 5), target.flatten(), reduction="none")
    assert_same_bits(F.cross_entropy(x, target, reduction="none").flatten(), flat, what="class dimension second")


def test_int32_labels_and_strided_inputs(rng: Any) -> None:
    a = rng.standard_normal((5, 12))
    x, target = gd.tensor(a).t()[::2], gd.tensor([0, 9, 4, 9, 2, 9, 1, 9, 3, 9, 0, 9])[::2]
    want = F.cross_entropy(gd.tensor(np.ascontiguousarray(a.T[::2])), gd.tensor([0, 4, 2, 1, 3, 0]))
    assert_same_bits(F.cross_entropy(x, target), want, what="strided logits and labels")
    assert_same_bits(F.cross_entropy(x, target.int()), want, what="int32 labels")


def test_a_row_alone_has_the_same_bits(isa: str, rng: Any) -> None:
    x = gd.tensor(rng.standard_normal((8, 37)), dtype="float32")
    target = gd.tensor(rng.integers(0, 37, 8))
    whole = F.cross_entropy(x, target, reduction="none")
    for b in range(8):
        alone = F.cross_entropy(x[b : b + 1], target[b : b + 1], reduction="none")
        assert_same_bits(alone, whole[b : b + 1], what=f"row {b}, {isa}")


def test_mse_values(isa: str) -> None:
    x, y = logits_of([[1, 2], [3, 5]]), logits_of([[0, 2], [5, 1]])
    assert F.mse_loss(x, y, reduction="none").tolist() == [[1, 0], [4, 16]]
    assert F.mse_loss(x, y, reduction="sum").item() == 21 and F.mse_loss(x, y).item() == 5.25
    F.mse_loss(x, y).backward()
    assert x.grad.tolist() == [[0.5, 0], [-1, 2]] and y.grad.tolist() == [[-0.5, 0], [1, -2]]
    assert np.isnan(F.mse_loss(gd.zeros(0), gd.zeros(0)).item()) and F.mse_loss(gd.zeros(0), gd.zeros(0), reduction="sum").item() == 0


def test_modules_equal_functions(rng: Any) -> None:
    x, target = gd.tensor(rng.standard_normal((4, 3))), gd.tensor([0, 2, 1, 2])
    weight = gd.tensor([1.0, 2.0, 0.5], dtype=gd.float64)
    module = nn.CrossEntropyLoss(weight, ignore_index=1, reduction="sum", label_smoothing=0.1)
    assert_same_bits(
        module(x, target), F.cross_entropy(x, target, weight, ignore_index=1, reduction="sum", label_smoothing=0.1), what="module"
    )
    assert list(module.state_dict()) == ["weight"] and list(nn.CrossEntropyLoss().state_dict()) == []
    assert_same_bits(nn.MSELoss(reduction="sum")(x, x * 2), F.mse_loss(x, x * 2, reduction="sum"), what="MSELoss")


# ---- Errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x, t: F.cross_entropy(x, t, reduction="max"), ValueError, "'max'"),
        (lambda x, t: F.cross_entropy(x, t, label_smoothing=1.5), ValueError, "1.5"),
        (lambda x, t: F.cross_entropy(x, t, label_smoothing=float("nan")), ValueError, "label_smoothing"),
        (lambda x, t: F.cross_entropy(x, t, gd.ones(2)), gd.ShapeError, "(3,)"),
        (lambda x, t: F.cross_entropy(x, t, gd.ones(3, dtype=gd.float64)), gd.DTypeError, "float64"),
        (lambda x, t: F.cross_entropy(x, gd.tensor([0, 1, 2])), gd.ShapeError, "(2, 3)"),
        (lambda x, t: F.cross_entropy(x, gd.ones(2, 4)), gd.ShapeError, "(2, 4)"),
        (lambda x, t: F.cross_entropy(x, gd.tensor([True, False])), gd.DTypeError, "bool"),
        (lambda x, t: F.cross_entropy(x.long(), t), gd.DTypeError, "int64"),
        (lambda x, t: F.cross_entropy(x, [0, 1]), gd.DTypeError, "list"),
        (lambda x, t: F.cross_entropy(x._array(), t), gd.DTypeError, "ndarray"),
        (lambda x, t: F.cross_entropy(gd.zeros(()), t), gd.ShapeError, "()"),
        (lambda x, t: F.mse_loss(x, x, reduction="average"), ValueError, "'average'"),
    ],
)
def test_errors_name_what_is_wrong(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call(gd.zeros(2, 3), gd.tensor([0, 1]))
    assert text in str(caught.value)
