"""Sums of products over named dimensions: einsum and tensordot."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from gradino._arranging import need_tensors
from gradino._call import dimensions
from gradino._linear_algebra import _multiplied
from gradino.errors import InvalidValueError, ShapeError
from gradino.functions._arguments import _tensor
from gradino.tensor import Tensor

__all__ = ["einsum", "tensordot"]

_MOST = 4  # dimensions of a tensor


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over dimensions of both: the last of ``a`` and first of ``b``, as many as ``dims`` says, or two lists of them."""
    _tensor("tensordot", a), _tensor("tensordot", b)
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise InvalidValueError(f"tensordot: dims is {dims}, must be in [0, {min(a.ndim, b.ndim)}]")
        of_a, of_b = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        of_a, of_b = (list(d) if isinstance(d, (tuple, list)) else d.tolist() if isinstance(d, Tensor) else [d] for d in dims)
        of_a, of_b = dimensions("tensordot", a.ndim, of_a), dimensions("tensordot", b.ndim, of_b)
    if len(of_a) != len(of_b):
        raise InvalidValueError(f"tensordot: {len(of_a)} dimensions of a and {len(of_b)} of b: they must be as many")
    for k, (i, j) in enumerate(zip(of_a, of_b)):
        if a.shape[i] != b.shape[j]:
            if 1 not in (a.shape[i], b.shape[j]):
                raise ShapeError(f"tensordot: pair {k} of dimensions has {a.shape[i]} and {b.shape[j]} entries, must have as many")
            a, b = (a.sum(i, keepdim=True), b) if b.shape[j] == 1 else (a, b.sum(j, keepdim=True))
    rest_a, rest_b = [d for d in range(a.ndim) if d not in of_a], [d for d in range(b.ndim) if d not in of_b]
    shape = [a.shape[d] for d in rest_a] + [b.shape[d] for d in rest_b]
    if len(shape) > _MOST:
        raise ShapeError(f"tensordot: the result would have {len(shape)} dimensions: tensors have at most four")
    inner = 1
    for d in of_a:
        inner *= a.shape[d]
    rows, columns = 1, 1
    for d in rest_a:
        rows *= a.shape[d]
    for d in rest_b:
        columns *= b.shape[d]
    left = a.permute(rest_a + of_a).reshape(rows, inner)
    return _multiplied(left, b.permute(of_b + rest_b).reshape(inner, columns)).reshape(shape)


# ---- einsum: an operand is a tensor with a label for each dimension ------------------------------------------------


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products after Einstein's convention, as ``"bij,bjk->bik"``; ``...`` stands for dimensions that are broadcast.

    Operands, results and what comes on the way have at most four dimensions.

    >>> import gradino as gd
    >>> gd.einsum("i,j->ij", gd.tensor([1.0, 2.0]), gd.tensor([3.0, 4.0])).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    if not isinstance(equation, str):
        equation, operands = _as_text(equation, operands)
    tensors = need_tensors("einsum", operands)
    inputs, output = _parsed(equation, tensors)
    parts = [_one_each(equation, t, labels) for t, labels in zip(tensors, inputs)]
    sizes = _sizes(equation, parts)
    if len(output) > _MOST:
        raise ShapeError(f"einsum: the result of {equation!r} would have {len(output)} dimensions: tensors have at most four")
    parts = [_without_ones(t, labels, sizes) for t, labels in parts]
    t, labels = _summed(*parts[0], _needed(parts[1:], output))
    for k, (other, more) in enumerate(parts[1:], 1):
        needed = _needed(parts[k + 1 :], output)
        t, labels = _product(equation, t, labels, *_summed(other, more, needed | set(labels)), needed)
    t, labels = _summed(t, labels, set(output))
    t = t.permute([labels.index(c) for c in output if c in labels])
    return t.reshape([sizes[c] if c in labels else 1 for c in output])


def _as_text(first: Any, rest: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The other way to call it: tensor, list of numbers, tensor, list, .., list of the result."""
    arguments = [first, *rest]

    def text(numbers: Sequence[Any]) -> str:
        if not all(n is Ellipsis or (isinstance(n, int) and 0 <= n < 52) for n in numbers):
            raise InvalidValueError("einsum: labels in lists must be numbers from 0 to 51, or ...")
        return "".join("..." if n is Ellipsis else string.ascii_letters[26 + n if n < 26 else n - 26] for n in numbers)

    pairs = len(arguments) // 2
    equation = ",".join(text(arguments[2 * k + 1]) for k in range(pairs))
    if len(arguments) % 2:
        equation += "->" + text(arguments[-1])
    return equation, tuple(arguments[2 * k] for k in range(pairs))


def _parsed(equation: str, tensors: list[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Labels of the operands and of the result; dimensions of ``...`` are numbered from the last one."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise InvalidValueError(f"einsum: {equation!r} names {len(terms)} operands, got {len(tensors)}")
    inputs, most = [], 0
    for term, t in zip(terms, tensors):
        labels = _labels(equation, term)
        extra = t.ndim - len(labels) + labels.count("...")
        if extra < 0 or (extra and "..." not in labels):
            raise ShapeError(f"einsum: {term!r} of {equation!r} does not fit shape {t.shape}")
        if "..." in labels:
            at, most = labels.index("..."), max(most, extra)
            labels[at : at + 1] = [str(n) for n in range(extra, 0, -1)]
        inputs.append(labels)
    dots = [str(n) for n in range(most, 0, -1)]
    if arrow:
        output = _labels(equation, right)
        if "..." in output:
            at = output.index("...")
            output[at : at + 1] = dots
    else:
        every = [c for labels in inputs for c in labels]
        output = dots + sorted(c for c in set(every) if every.count(c) == 1 and c.isalpha())
    for c in output:
        if output.count(c) > 1 or not any(c in labels for labels in inputs):
            raise InvalidValueError(
                f"einsum: {c!r} stands {output.count(c)} times in the result of {equation!r}, and must be in an operand"
            )
    return inputs, output


def _labels(equation: str, term: str) -> list[str]:
    dots, rest = term.count("..."), term.replace("...", "")
    if dots > 1 or (rest and not (rest.isascii() and rest.isalpha())):
        raise InvalidValueError(f"einsum: {term!r} of {equation!r}: expected letters, and '...' at most once")
    before, found, after = term.partition("...")
    return list(before) + (["..."] if found else []) + list(after)


def _one_each(equation: str, t: Tensor, labels: list[str]) -> tuple[Tensor, list[str]]:
    """Dimensions of one label become their diagonal."""
    labels = list(labels)
    for c in sorted(set(labels)):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            if t.shape[i] != t.shape[j]:
                if 1 not in (t.shape[i], t.shape[j]):
                    raise ShapeError(f"einsum: {c!r} of {equation!r} stands for {t.shape[i]} and {t.shape[j]} entries")
                t = t.expand([max(t.shape[i], t.shape[j]) if d in (i, j) else n for d, n in enumerate(t.shape)])
            t = t.diagonal(0, i, j)
            labels = [x for d, x in enumerate(labels) if d not in (i, j)] + [c]
    return t, labels


def _sizes(equation: str, parts: list[tuple[Tensor, list[str]]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for t, labels in parts:
        for c, n in zip(labels, t.shape):
            if sizes.setdefault(c, n) == 1:
                sizes[c] = n
            elif n not in (1, sizes[c]):
                raise ShapeError(f"einsum: {c!r} of {equation!r} stands for {sizes[c]} and {n} entries")
    return sizes


def _without_ones(t: Tensor, labels: list[str], sizes: dict[str, int]) -> tuple[Tensor, list[str]]:
    """Dimensions that are broadcast are left out."""
    keep = [d for d, c in enumerate(labels) if t.shape[d] == sizes[c]]
    return t.reshape([t.shape[d] for d in keep]), [labels[d] for d in keep]


def _needed(parts: Sequence[tuple[Tensor, list[str]]], output: list[str]) -> set[str]:
    return set(output).union(*(labels for _, labels in parts))


def _summed(t: Tensor, labels: list[str], needed: set[str]) -> tuple[Tensor, list[str]]:
    gone = [d for d, c in enumerate(labels) if c not in needed]
    if not gone:
        return t, labels
    own = t.dtype
    summed = t.sum(gone)
    return summed if summed.dtype is own else summed.to(own), [c for c in labels if c in needed]


def _product(equation: str, a: Tensor, of_a: list[str], b: Tensor, of_b: list[str], needed: set[str]) -> tuple[Tensor, list[str]]:
    """Two operands as one: shared labels that are needed no more are summed over, by a product of matrices."""
    if a.dtype is not b.dtype:
        raise InvalidValueError(f"einsum: operands are {a.dtype} and {b.dtype}: they must have one dtype")
    both = [c for c in of_a if c in of_b]
    batch, inner = [c for c in both if c in needed], [c for c in both if c not in needed]
    rows, columns = [c for c in of_a if c not in both], [c for c in of_b if c not in both]
    labels = batch + rows + columns
    if len(labels) > _MOST:
        raise ShapeError(
            f"einsum: {equation!r} needs {len(labels)} dimensions on the way: tensors have at most four; give fewer operands at once"
        )
    size = dict(zip(of_a, a.shape)) | dict(zip(of_b, b.shape))

    def count(some: list[str]) -> int:
        n = 1
        for c in some:
            n *= size[c]
        return n

    a, b = a.permute([of_a.index(c) for c in batch + rows + inner]), b.permute([of_b.index(c) for c in batch + inner + columns])
    if inner:
        left, right = a.reshape(count(batch), count(rows), count(inner)), b.reshape(count(batch), count(inner), count(columns))
        product = _multiplied(left[0], right[0]) if not batch else _multiplied(left, right)
    else:
        product = a.reshape(count(batch), count(rows), 1) * b.reshape(count(batch), 1, count(columns))
    return product.reshape([size[c] for c in labels]), labels
