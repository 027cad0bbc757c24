"""Getting one batch out of a dataset, in the training process or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from gradino.utils.data.collate import default_collate
from gradino.utils.data.dataset import IterableDataset, Subset, TensorDataset

__all__ = ["END", "Fetcher"]

END = object()  # instead of a batch: an iterable dataset has no more


class Fetcher:
    """``fetch(task)`` makes a batch. A task is a list of sample numbers, one number where there are no batches, or for an
    iterable dataset how many samples to take."""

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], batched: bool, drop_last: bool) -> None:
        self.dataset, self.collate, self.batched, self.drop_last = dataset, collate, batched, drop_last
        self.iterable = isinstance(dataset, IterableDataset)
        self._samples: Iterator[Any] | None = None

    def restart(self) -> None:
        """Begin a new pass."""
        self._samples = None

    def fetch(self, task: Any) -> Any:
        """The batch, or END."""
        if self.iterable:
            return self._next(task)
        if not self.batched:
            return self.collate(self.dataset[task])
        if self.collate is default_collate and type(self.dataset) in (TensorDataset, Subset):
            whole = _rows(self.dataset, task)
            if whole is not None:
                return whole
        if hasattr(self.dataset, "__getitems__"):
            return self.collate(self.dataset.__getitems__(task))
        return self.collate([self.dataset[i] for i in task])

    def _next(self, count: int) -> Any:
        if self._samples is None:
            self._samples = iter(self.dataset)
        if not self.batched:
            sample = next(self._samples, END)
            return END if sample is END else self.collate(sample)
        samples = list(islice(self._samples, count))
        if not samples or (self.drop_last and len(samples) < count):
            return END
        return self.collate(samples)


def _rows(dataset: Any, numbers: list[int]) -> list[Any] | None:
    """What collating the samples would give, without making the samples; None if the dataset is no tensors."""
    while type(dataset) is Subset:
        numbers, dataset = [dataset.indices[i] for i in numbers], dataset.dataset
    return [t[numbers] for t in dataset.tensors] if type(dataset) is TensorDataset else None
