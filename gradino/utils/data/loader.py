"""The DataLoader: batches of a dataset, made in this process or by workers, in an order that can be resumed exactly."""

from __future__ import annotations

import multiprocessing
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from multiprocessing.connection import wait
from typing import Any

from gradino.arena import active_arena, permanent_arena, step_arena
from gradino.errors import InvalidValueError
from gradino.generator import Generator, draw
from gradino.tensor import Tensor
from gradino.utils.data import worker
from gradino.utils.data.collate import default_collate, default_convert, like_mapping
from gradino.utils.data.dataset import IterableDataset
from gradino.utils.data.fetch import END, Fetcher
from gradino.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, _Seeded

__all__ = ["DataLoader"]


class DataLoader:
    """Iterates over batches of a dataset. Arguments are PyTorch's.

    Each pass draws one seed, from ``generator`` if given. It decides the order, and the random numbers (gradino's,
    NumPy's and Python's) that each batch finds in the worker that makes it; so with any number of workers above 0
    batches are the same. ``state_dict()`` holds the place in the running pass, at any time; after
    ``load_state_dict()`` the next pass goes on from there.

    Batches are made in the arena that is active where the loop takes them. In the permanent arena those of the default
    collate functions give their memory back when the loop lets go of them. Workers run with one thread each.

    Raises:
        InvalidValueError: for arguments that exclude each other.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if pin_memory or pin_memory_device:
            warnings.warn("DataLoader: there is no GPU to pin memory for, so it is not pinned", stacklevel=2)
        self.dataset, self.batch_size, self.drop_last, self.generator = dataset, batch_size, drop_last, generator
        self.num_workers, self.timeout, self.worker_init_fn, self.in_order = num_workers, timeout, worker_init_fn, in_order
        self.prefetch_factor, self.persistent_workers = prefetch_factor, persistent_workers
        self._check_workers(multiprocessing_context)
        self.sampler, self.batch_sampler = self._samplers(shuffle, sampler, batch_sampler)
        self._batched = self.batch_sampler is not None or (isinstance(dataset, IterableDataset) and batch_size is not None)
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)
        self._seed: int | None = None  # of the running pass
        self._yielded = 0
        self._resume: tuple[int, int] | None = None
        self._kept: list[worker.Worker] | None = None

    def _check_workers(self, context: Any) -> None:
        if not isinstance(self.num_workers, int) or self.num_workers < 0:
            raise InvalidValueError(f"DataLoader: num_workers is {self.num_workers!r}, must be a whole number of at least 0")
        if self.timeout < 0:
            raise InvalidValueError(f"DataLoader: timeout is {self.timeout}, must be at least 0 seconds")
        only = {"prefetch_factor": self.prefetch_factor, "persistent_workers": self.persistent_workers, "timeout": self.timeout}
        for name, value in only.items():
            if value and not self.num_workers:
                raise InvalidValueError(f"DataLoader: {name} is for workers, and num_workers is 0")
        if self.prefetch_factor is not None and self.prefetch_factor < 1:
            raise InvalidValueError(f"DataLoader: prefetch_factor is {self.prefetch_factor}, must be at least 1")
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.multiprocessing_context = context

    def _samplers(self, shuffle: Any, sampler: Any, batch_sampler: Any) -> tuple[Any, Any]:
        if isinstance(self.dataset, IterableDataset):
            if shuffle or sampler is not None or batch_sampler is not None:
                raise InvalidValueError("DataLoader: an IterableDataset has its own order: neither shuffle nor a sampler can change it")
            if self.batch_size is not None:
                BatchSampler((), self.batch_size, self.drop_last)  # checks the batch size
            return None, None
        if sampler is not None and shuffle:
            raise InvalidValueError("DataLoader: sampler and shuffle exclude each other")
        if batch_sampler is not None:
            if self.batch_size != 1 or shuffle or sampler is not None or self.drop_last:
                raise InvalidValueError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last")
            self.batch_size = None
            return None, batch_sampler
        if sampler is None:
            sampler = RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)
        if self.batch_size is None:
            if self.drop_last:
                raise InvalidValueError("DataLoader: batch_size=None gives samples one by one, so there is no last batch to drop")
            return sampler, None
        return sampler, BatchSampler(sampler, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        if self.sampler is None and self.batch_sampler is None:
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    # ---- one pass -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        seed, done = self._resume or (draw(self._source()), 0)
        self._resume = None
        self._seed, self._yielded = seed, done
        tasks = self._tasks(seed)
        fetcher = Fetcher(self.dataset, self.collate_fn, self._batched, self.drop_last)
        iterable = isinstance(self.dataset, IterableDataset)
        if not iterable:
            for _ in range(done):
                next(tasks, None)
        source = self._parallel(tasks, seed, 0 if iterable else done, fetcher) if self.num_workers else self._serial(tasks, fetcher)
        return _Pass(self, source, done if iterable else 0)

    def _source(self) -> Generator | None:
        """Where the seed of a pass comes from."""
        sampler = self.batch_sampler.sampler if type(self.batch_sampler) is BatchSampler else self.sampler
        own = getattr(sampler, "generator", None) if isinstance(sampler, _Seeded) else None
        return self.generator if own is None else own

    def _tasks(self, seed: int) -> Iterator[Any]:
        """What to fetch, batch by batch."""
        if isinstance(self.dataset, IterableDataset):
            return iter(lambda: self.batch_size, END)  # without end: the dataset has one
        batches = self.batch_sampler
        if batches is None:
            return iter(_ordered(self.sampler, seed))
        if type(batches) is BatchSampler:
            batches = BatchSampler(_ordered(batches.sampler, seed), batches.batch_size, batches.drop_last)
        return iter(batches)

    def _serial(self, tasks: Iterator[Any], fetcher: Fetcher) -> Iterator[Any]:
        for task in tasks:
            batch = fetcher.fetch(task)
            if batch is END:
                return
            yield batch

    def _parallel(self, tasks: Iterator[Any], seed: int, first: int, fetcher: Fetcher) -> Iterator[Any]:
        ahead = self.prefetch_factor or 2
        workers = self._kept or self._start(fetcher, ahead)
        self._kept = None
        keep = False
        try:
            for w in workers:
                w.ask(("pass", seed))
            yield from self._collect(workers, tasks, first, ahead)
            keep = self.persistent_workers
        finally:
            if keep:
                self._kept = workers
            else:
                worker.close(workers)

    def _start(self, fetcher: Fetcher, ahead: int) -> list[worker.Worker]:
        workers: list[worker.Worker] = []
        try:
            for i in range(self.num_workers):
                workers.append(worker.Worker(self.multiprocessing_context, i, self.num_workers, fetcher, self.worker_init_fn, ahead))
        except BaseException:
            worker.close(workers)
            raise
        if self.persistent_workers:
            weakref.finalize(self, worker.close, workers)
        return workers

    def _collect(self, workers: list[worker.Worker], tasks: Iterator[Any], first: int, ahead: int) -> Iterator[Any]:
        """Batches as the workers make them; each worker has at most ``ahead`` on its way."""
        coming: deque[tuple[int, worker.Worker]] = deque()  # in the order in which they were asked for
        ended: set[int] = set()  # workers whose share of an iterable dataset is used up
        numbers = count(first)

        def deal(w: worker.Worker) -> None:
            task = next(tasks, END)
            if task is not END:
                number = next(numbers)
                w.ask(("batch", number, task))
                coming.append((number, w))

        for _ in range(ahead):
            for w in workers:
                deal(w)
        while coming:
            w = self._ready([coming[0][1]] if self.in_order else [w for _, w in coming])
            number, (kind, content) = w.receive()
            coming.remove((number, w))
            if kind == "failed":
                content.raise_again()
            if kind == "end":
                ended.add(w.number)
                continue
            if w.number not in ended:
                deal(w)
            yield content

    def _ready(self, workers: list[worker.Worker]) -> worker.Worker:
        """One of the workers that has an answer, or has died."""
        ends: dict[Any, worker.Worker] = {}
        for w in workers:
            ends[w.inbox.connection] = ends[w.process.sentinel] = w
        found = wait(list(ends), self.timeout or None)
        if not found:
            who = ", ".join(f"{w.number} (pid {w.process.pid})" for w in workers[:1])
            raise RuntimeError(f"DataLoader: no batch from worker {who} in {self.timeout} seconds")
        return ends[found[0]]

    # ---- resuming -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The place in the running pass: its seed, and how many batches were taken. Between passes the seed is None."""
        if self._resume is not None:
            return {"seed": self._resume[0], "yielded": self._resume[1]}
        return {"seed": self._seed, "yielded": self._yielded if self._seed is not None else 0}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Have the next pass go on from a saved place: same order, same random numbers, without the batches already taken.

        A sampler of your own is iterated anew and its first batches are skipped; it must give the same order then.
        """
        seed, yielded = state_dict["seed"], int(state_dict["yielded"])
        if yielded < 0:
            raise InvalidValueError(f"DataLoader: the state says that {yielded} batches were taken")
        self._seed, self._yielded = None, 0
        self._resume = None if seed is None else (int(seed), yielded)


class _Pass:
    """The iterator of one pass: counts what was taken, and ends the workers with it."""

    def __init__(self, loader: DataLoader, source: Iterator[Any], skip: int) -> None:
        self._loader, self._source, self._skip = loader, source, skip

    def __iter__(self) -> _Pass:
        return self

    def __next__(self) -> Any:
        while self._skip:
            self._skip -= 1
            next(self._source, None)
        try:
            batch = self._next()
        except StopIteration:
            if self._loader._seed is not None:
                self._loader._seed, self._loader._yielded = None, 0
            raise
        self._loader._yielded += 1
        return batch

    def _next(self) -> Any:
        """The next batch. In the permanent arena nothing dies but what is kept there, so its tensors are: they go with their objects."""
        if self._loader.collate_fn not in (default_collate, default_convert) or active_arena() != permanent_arena():
            return next(self._source)
        with step_arena():
            return _kept(next(self._source))

    def __len__(self) -> int:
        return len(self._loader)


def _kept(batch: Any) -> Any:
    """A batch as the default collate functions make it, with every tensor kept."""
    if isinstance(batch, Tensor):
        return batch.keep()
    if isinstance(batch, Mapping):
        return like_mapping(batch, {key: _kept(value) for key, value in batch.items()})
    if isinstance(batch, (list, tuple)):
        parts = [_kept(value) for value in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else parts
    return batch


def _ordered(sampler: Any, seed: int) -> Iterable[Any]:
    return sampler.order(seed) if isinstance(sampler, _Seeded) else sampler
