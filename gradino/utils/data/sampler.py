"""Samplers: in which order the samples come, and how they make batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gradino.errors import InvalidValueError
from gradino.generator import Generator, draw
from gradino.utils.data.dataset import permutation, stream

__all__ = ["BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler"]


class Sampler:
    """Gives the numbers of samples: define ``__iter__()``, and ``__len__()`` if it is known."""

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not say in which order the samples come: define __iter__")

    __class_getitem__ = classmethod(lambda cls, _: cls)


class SequentialSampler(Sampler):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class _Seeded(Sampler, ABC):
    """A sampler whose order a seed decides; iterated on its own, it draws one."""

    generator: Generator | None

    @abstractmethod
    def order(self, seed: int) -> list[int]:
        """The numbers, as the seed decides."""

    def __iter__(self) -> Iterator[int]:
        return iter(self.order(draw(self.generator)))


class RandomSampler(_Seeded):
    """Every sample once in random order, or ``num_samples`` of them; with ``replacement`` each draw is from all.

    Each pass draws one number, from ``generator`` if given, and has another order.
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Generator | None = None
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples < 1):
            raise InvalidValueError(f"RandomSampler: num_samples is {num_samples!r}, must be a whole number of at least 1")

    @property
    def num_samples(self) -> int:
        """How many numbers one pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __len__(self) -> int:
        return self.num_samples

    def order(self, seed: int) -> list[int]:
        """The numbers, as the seed decides."""
        n, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            drawn: list[int] = stream(seed).randint(0, n, wanted).tolist()
            return drawn
        order: list[int] = []
        while len(order) < wanted:
            order += permutation(seed + len(order), n)
        return order[:wanted]


class SubsetRandomSampler(_Seeded):
    """The given numbers in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def order(self, seed: int) -> list[int]:
        """The numbers, as the seed decides."""
        return [self.indices[i] for i in permutation(seed, len(self.indices))]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(_Seeded):
    """``num_samples`` numbers, each with a probability in proportion to its weight."""

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None) -> None:
        self.weights = np.asarray(weights, np.float64)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        if not isinstance(num_samples, int) or num_samples < 1:
            raise InvalidValueError(f"WeightedRandomSampler: num_samples is {num_samples!r}, must be a whole number of at least 1")
        if self.weights.ndim != 1 or not (np.isfinite(self.weights) & (self.weights >= 0)).all() or not self.weights.sum() > 0:
            raise InvalidValueError("WeightedRandomSampler: weights must be finite numbers of at least 0 in one dimension, not all 0")
        if not replacement and num_samples > np.count_nonzero(self.weights):
            raise InvalidValueError(
                f"WeightedRandomSampler: {num_samples} samples without replacement from {np.count_nonzero(self.weights)} that have a weight"
            )

    def order(self, seed: int) -> list[int]:
        """The numbers, as the seed decides."""
        chance = self.weights / self.weights.sum()
        drawn: list[int] = stream(seed).choice(len(chance), self.num_samples, self.replacement, chance).tolist()
        return drawn

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of ``batch_size`` numbers of another sampler; with ``drop_last`` a last, shorter one is left out."""

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise InvalidValueError(f"batch_size is {batch_size!r}, must be a whole number of at least 1")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batch = []
        for i in self.sampler:
            batch.append(i)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
