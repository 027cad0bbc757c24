"""Margin losses over classes and labels."""

from __future__ import annotations

from gradino.errors import InvalidValueError, ShapeError
from gradino.factories import arange, zeros_like
from gradino.functions import where
from gradino.nn._activations import logsigmoid
from gradino.nn._checks import reduced, reduction_of, refuse_input
from gradino.tensor import Tensor

__all__ = ["multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss"]


def _rows(name: str, input: Tensor, target: Tensor, labels: bool) -> tuple[Tensor, Tensor, bool]:
    """Input as (N, C), target as (N) or with labels (N, C), and whether there was no batch."""
    refuse_input(name, input, target)
    single = input.ndim < 2
    x = input.reshape(1, -1) if single else input
    t = target.reshape(1, -1) if single and labels else target.reshape(-1) if single else target
    if x.ndim != 2 or t.ndim != (2 if labels else 1) or t.shape[0] != x.shape[0] or (labels and t.shape != x.shape):
        raise ShapeError(f"{name}: input has shape {tuple(input.shape)} and target {tuple(target.shape)}, which do not fit")
    return x, t, single


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``sum over c != t of max(0, margin - x[t] + x[c])^p / C``, times ``weight[t]``, for scores (N, C) and classes (N), or (C) and ()."""
    how = reduction_of("multi_margin_loss", size_average, reduce, reduction)
    if p not in (1, 2):
        raise InvalidValueError(f"multi_margin_loss: p is {p}, must be 1 or 2")
    x, t, single = _rows("multi_margin_loss", input, target, labels=False)
    classes = x.shape[1]
    column = t.reshape(-1, 1)
    gap = (margin - x.gather(1, column) + x).clamp(min=0)
    gap = gap.square() if p == 2 else gap
    if weight is not None:
        if weight.ndim != 1 or weight.shape[0] != classes:
            raise ShapeError(f"multi_margin_loss: weight has shape {tuple(weight.shape)}, must be ({classes},)")
        gap = gap * weight[t].reshape(-1, 1)
    others = arange(classes, device=column.device).reshape(1, -1) != column
    loss = where(others, gap, zeros_like(gap)).sum(1) / classes
    return reduced(loss[0] if single else loss, how)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """``sum over labels y and other classes c of max(0, 1 - x[y] + x[c]) / C`` for scores (N, C) or (C).

    target: int64 of the input's shape, the labels of each row up to the first -1.
    """
    how = reduction_of("multilabel_margin_loss", size_average, reduce, reduction)
    x, t, single = _rows("multilabel_margin_loss", input, target, labels=True)
    rows, classes = x.shape
    place = arange(classes, device=x.device)
    until = place.reshape(1, -1) <= place.reshape(-1, 1)
    listed = ~((t < 0).reshape(rows, 1, classes) & until).any(2)  # before the first -1
    labels = where(listed, t, zeros_like(t))
    hits = (labels.reshape(rows, classes, 1) == arange(classes, device=labels.device)) & listed.reshape(rows, classes, 1)
    others = ~hits.any(1)  # (N, C): no label
    gap = (1 - x.gather(1, labels).reshape(rows, classes, 1) + x.reshape(rows, 1, classes)).clamp(min=0)
    counts = listed.reshape(rows, classes, 1) & others.reshape(rows, 1, classes)
    loss = where(counts, gap, zeros_like(gap)).sum((1, 2)) / max(classes, 1)
    return reduced(loss[0] if single else loss, how)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(t log sigmoid(x) + (1-t) log sigmoid(-x))``, times ``weight``, averaged over the classes (the last dimension)."""
    how = reduction_of("multilabel_soft_margin_loss", size_average, reduce, reduction)
    refuse_input("multilabel_soft_margin_loss", input, target)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    return reduced((loss if weight is None else loss * weight).sum(-1) / input.shape[-1], how)
