"""Distances and similarities of vectors, and losses made of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from gradino._arguments import as_float
from gradino.errors import InvalidValueError, ShapeError
from gradino.factories import zeros_like
from gradino.functions import minimum, where
from gradino.nn._checks import reduced, reduction_of, refuse_input
from gradino.tensor import Tensor

__all__ = [
    "cosine_embedding_loss", "cosine_similarity", "hinge_embedding_loss", "margin_ranking_loss", "pairwise_distance", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


def _root(square: Tensor) -> Tensor:
    """The square root, with gradient 0 at 0."""
    root: Tensor = where(square == 0, square, square.sqrt())
    return root


def norm(x: Tensor, p: float, dim: int, keepdim: bool) -> Tensor:
    """The p-norm along a dimension, with gradient 0 at 0."""
    if p == 2:
        return _root(x.square().sum(dim, keepdim))
    size = x.abs()
    if p == 1:
        return size.sum(dim, keepdim)
    if p == math.inf:
        return size.amax(dim, keepdim)
    if p == 0:
        return (x != 0).to(x.dtype).sum(dim, keepdim)
    if not p > 0:
        raise InvalidValueError(f"pairwise_distance: p is {p}, must be at least 0")
    total = (where(size == 0, size, size**p)).sum(dim, keepdim)
    root: Tensor = where(total == 0, total, total ** (1 / p))
    return root


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` over the last dimension: (N, D), (N, D) -> (N); shapes broadcast."""
    refuse_input("pairwise_distance", x1, x2)
    return norm(x1 - x2 + eps, as_float("pairwise_distance: p", p), -1, keepdim)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``x1 . x2 / (max(|x1|, eps) max(|x2|, eps))`` along ``dim``, which vanishes; shapes broadcast.

    As in PyTorch the gradient takes no notice of eps.
    """
    refuse_input("cosine_similarity", x1, x2)
    lengths = [norm(x, 2, dim, True) for x in (x1, x2)]
    lengths = [n.detach().clamp(min=eps) + (n - n.detach()) for n in lengths]
    return (x1 / lengths[0] * (x2 / lengths[1])).sum(dim)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` where target is 1, ``max(0, cos - margin)`` where it is -1, 0 elsewhere.

    Shapes: inputs (N, D) and target (N), or inputs (D) and target ().
    """
    how = reduction_of("cosine_embedding_loss", size_average, reduce, reduction)
    refuse_input("cosine_embedding_loss", input1, input2, target)
    if not (target.ndim in (0, 1) and input1.ndim == input2.ndim == target.ndim + 1):
        shapes = ", ".join(str(tuple(t.shape)) for t in (input1, input2, target))
        raise ShapeError(f"cosine_embedding_loss: shapes {shapes}: inputs must be (N, D) and the target (N), or (D) and ()")
    eps = 1e-12  # PyTorch's, below the root
    product = (input1 * input2).sum(-1)
    lengths = (input1.square().sum(-1) + eps) * (input2.square().sum(-1) + eps)
    cosine = product / lengths.sqrt()
    zero = zeros_like(cosine)
    loss = where(target == 1, 1 - cosine, zero) + where(target == -1, (cosine - margin).clamp(min=0), zero)
    return reduced(loss, how)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -target (input1 - input2) + margin)``: target is 1 where the first shall rank higher, else -1."""
    how = reduction_of("margin_ranking_loss", size_average, reduce, reduction)
    refuse_input("margin_ranking_loss", input1, input2, target)
    if not input1.ndim == input2.ndim == target.ndim:
        shapes = ", ".join(str(tuple(t.shape)) for t in (input1, input2, target))
        raise ShapeError(f"margin_ranking_loss: shapes {shapes} must have the same number of dimensions")
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), how)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where target is 1, ``max(0, margin - input)`` where it is -1."""
    how = reduction_of("hinge_embedding_loss", size_average, reduce, reduction)
    refuse_input("hinge_embedding_loss", input, target)
    zero = zeros_like(input)
    loss = where(target == 1, zero, (margin - input).clamp(min=0)) + where(target == -1, zero, input)
    return reduced(loss, how)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with d the p-norm distance over the last dimension.

    With ``swap`` the distance from positive to negative counts where it is smaller.

    Source: Balntas et al., 2016.
    """
    how = reduction_of("triplet_margin_loss", size_average, reduce, reduction)
    return _triplet("triplet_margin_loss", anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps), margin, swap, how)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``triplet_margin_loss`` with any distance; the Euclidean one if none is given."""
    name = "triplet_margin_with_distance_loss"
    how = reduction_of(name, None, None, reduction)
    return _triplet(name, anchor, positive, negative, distance_function or pairwise_distance, margin, swap, how)


def _triplet(
    name: str,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    refuse_input(name, anchor, positive, negative)
    if not anchor.ndim == positive.ndim == negative.ndim:
        shapes = ", ".join(str(tuple(t.shape)) for t in (anchor, positive, negative))
        raise ShapeError(f"{name}: shapes {shapes} must have the same number of dimensions")
    if not margin > 0:
        raise InvalidValueError(f"{name}: margin is {margin}, must be above 0")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp(min=0), reduction)
