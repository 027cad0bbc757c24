"""Datasets: what can be indexed, or iterated, for samples."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from gradino.errors import InvalidValueError, OutOfRangeError, ShapeError
from gradino.generator import Generator, draw
from gradino.tensor import Tensor

__all__ = ["ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "Subset", "TensorDataset", "TokenDataset", "random_split"]


class Dataset:
    """Samples by number: define ``__getitem__(index)`` and ``__len__()``."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what its samples are: define __getitem__")

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])

    __class_getitem__ = classmethod(lambda cls, _: cls)  # Dataset[int] in annotations


class IterableDataset(Dataset):
    """Samples one after the other: define ``__iter__()``. In a worker, ``get_worker_info()`` says which share is its own."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not say what its samples are: define __iter__")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Sample ``i`` is the tuple of the ``i``-th parts of all tensors.

    Raises:
        ShapeError: if their first dimensions differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors or len({t.shape[:1] for t in tensors}) != 1 or not tensors[0].ndim:
            raise ShapeError(f"TensorDataset: first dimensions must be equal, got shapes {[tuple(t.shape) for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class Subset(Dataset):
    """The samples of another dataset at ``indices``."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Datasets one after the other, as one."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise InvalidValueError("ConcatDataset: expected at least one dataset")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise InvalidValueError("ConcatDataset: an IterableDataset cannot be indexed; use ChainDataset")
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        size = len(self)
        if not -size <= index < size:
            raise OutOfRangeError(f"ConcatDataset: index {index} of {size} samples")
        index %= size
        which = bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset):
    """Iterable datasets one after the other, as one."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for d in self.datasets:
            yield from d


class TokenDataset(Dataset):
    """Windows of a long text of token numbers: sample ``i`` is ``(x, y)``, ``block_size`` tokens from ``i * stride`` on and those
    one further, as int64. ``tokens`` is an array, a tensor, or the path of a file of plain numbers of ``dtype``, which is mapped,
    not read.

    ``stride`` is ``block_size`` if not given: windows beside each other.

    Raises:
        InvalidValueError: if there are too few tokens for one window, or the file is no whole number of them.
    """

    def __init__(self, tokens: Any, block_size: int, stride: int | None = None, dtype: Any = np.uint16) -> None:
        if isinstance(tokens, (str, os.PathLike)):
            size, item = os.path.getsize(tokens), np.dtype(dtype).itemsize
            if size % item or not size:
                raise InvalidValueError(f"TokenDataset: {os.fspath(tokens)} has {size} bytes, no whole number of {np.dtype(dtype)} tokens")
            tokens = np.memmap(tokens, dtype, "r")
        self.tokens = tokens.numpy() if isinstance(tokens, Tensor) else np.asanyarray(tokens)
        self.block_size, self.stride = block_size, block_size if stride is None else stride
        if self.tokens.ndim != 1 or self.tokens.dtype.kind not in "iu":
            raise ShapeError(
                f"TokenDataset: tokens must be integers in one dimension, got {self.tokens.dtype} of shape {self.tokens.shape}"
            )
        if block_size < 1 or self.stride < 1 or len(self.tokens) <= block_size:
            raise InvalidValueError(
                f"TokenDataset: no window of block_size {block_size} and one token more in {len(self.tokens)} tokens (stride {self.stride})"
            )

    def __len__(self) -> int:
        return (len(self.tokens) - self.block_size - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        if not -len(self) <= index < len(self):
            raise OutOfRangeError(f"TokenDataset: index {index} of {len(self)} windows")
        first = index % len(self) * self.stride
        window = np.asarray(self.tokens[first : first + self.block_size + 1], dtype=np.int64)
        return window[:-1], window[1:]


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """The samples in random order, dealt to subsets of the given lengths, or shares that add up to 1.

    Raises:
        InvalidValueError: if lengths do not add up to the dataset's.
    """
    size, shares = len(dataset), list(lengths)
    sizes = [int(n) for n in shares]
    if abs(sum(shares) - 1) < 1e-9 and all(0 <= n <= 1 for n in shares):
        sizes = [int(size * n) for n in shares]
        for i in range(size - sum(sizes)):  # what rounding down left over goes around
            sizes[i % len(sizes)] += 1
    if sum(sizes) != size:
        raise InvalidValueError(f"random_split: lengths {shares} do not add up to the dataset's length {size}")
    order = permutation(draw(generator), size)
    return [Subset(dataset, order[end - n : end]) for n, end in zip(sizes, accumulate(sizes), strict=True)]


def permutation(seed: int, n: int) -> list[int]:
    """0 to n - 1 in an order that the seed decides, in every version of NumPy the same."""
    order: list[int] = stream(seed).permutation(n).tolist()
    return order


def stream(seed: int) -> np.random.RandomState:
    """Random numbers whose values NumPy promises never to change."""
    return np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF])
