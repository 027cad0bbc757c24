"""Worker processes of the DataLoader: their life, their random numbers, and what they say when something goes wrong."""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import random
import signal
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from gradino import config, factories
from gradino.arena import step_arena
from gradino.generator import mixed
from gradino.utils.data.fetch import END, Fetcher
from gradino.utils.data.shared import Inbox, Outbox

__all__ = ["Failure", "Worker", "WorkerInfo", "close", "get_worker_info"]

_GRACE = 1.0  # seconds that workers may take to end
_parent_ends: weakref.WeakSet[Connection] = weakref.WeakSet()  # a forked worker inherits these, and closes them


@dataclass
class WorkerInfo:
    """What a worker is: its number, how many there are, the seed of its present batch, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process its WorkerInfo, elsewhere None."""
    return _info


class Failure:
    """An exception that a worker caught, with its traceback as text."""

    def __init__(self, worker: int, error: BaseException) -> None:
        self.type: type[BaseException] = type(error)
        try:
            pickle.dumps(self.type)
        except Exception:
            self.type = RuntimeError  # defined where the training process cannot find it
        self.message = f"{type(error).__name__} in DataLoader worker process {worker}.\n{traceback.format_exc().rstrip()}"

    def raise_again(self) -> None:
        """Raise an exception of the same type, whose message is the worker's number and traceback."""
        try:
            error = self.type(_Text(self.message) if issubclass(self.type, KeyError) else self.message)
        except Exception:
            error = RuntimeError(self.message)  # its type asks for other arguments
        raise error from None


class _Text(str):
    """Shown as it is also by KeyError, which shows its argument's repr."""

    def __repr__(self) -> str:
        return str(self)


class Worker:
    """One worker process, as the training process sees it."""

    def __init__(self, context: Any, number: int, count: int, fetcher: Fetcher, init: Callable[[int], Any] | None, slots: int) -> None:
        self.number = number
        ours, theirs = context.Pipe(duplex=True)
        _parent_ends.add(ours)
        self.inbox = Inbox(ours, slots)
        self.process = context.Process(target=_work, args=(theirs, number, count, fetcher, init, slots), daemon=True)
        try:
            self.process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    def ask(self, message: tuple[Any, ...]) -> None:
        """Send a message; a worker that is gone is noticed when its answer is awaited."""
        try:
            self.inbox.connection.send(message)
        except OSError:
            pass

    def receive(self) -> tuple[int, Any]:
        """The next answer. Blocks.

        Raises:
            RuntimeError: if the process has died.
        """
        try:
            return self.inbox.receive()
        except (EOFError, OSError):
            self.process.join(_GRACE)
            raise RuntimeError(self.end()) from None

    def end(self) -> str:
        """What became of a process that ended without being asked to."""
        code, who = self.process.exitcode, f"DataLoader worker {self.number} (pid {self.process.pid})"
        if code is not None and code < 0:
            try:
                return f"{who} was killed by signal {signal.Signals(-code).name}"
            except ValueError:
                return f"{who} was killed by signal {-code}"
        return f"{who} ended unexpectedly with exit code {code}"


def close(workers: list[Worker]) -> None:
    """End the processes: a worker ends by itself when its connection does, or is made to if it takes too long."""
    for w in workers:
        w.inbox.close()
    for insist in (multiprocessing.Process.terminate, multiprocessing.Process.kill):
        until = time.monotonic() + _GRACE
        for w in workers:
            w.process.join(max(0.0, until - time.monotonic()))
        for w in workers:
            if w.process.exitcode is None:
                insist(w.process)
    for w in workers:
        w.process.join()
        w.process.close()
    workers.clear()


# ---- In the worker ----------------------------------------------------------------------------------------------


def _work(connection: Connection, number: int, count: int, fetcher: Fetcher, init: Callable[[int], Any] | None, slots: int) -> None:
    global _info
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the training process's to handle
    for inherited in list(_parent_ends):
        inherited.close()
    config.set_num_threads(1)
    tasks: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, tasks), daemon=True).start()
    outbox = Outbox(connection, slots)
    _info = WorkerInfo(number, count, 0, fetcher.dataset)
    broken: Failure | None = None
    try:
        if init is not None:
            init(number)
    except Exception as e:
        broken = Failure(number, e)
    seed = 0
    while (task := tasks.get()) is not None:
        if task[0] == "pass":
            seed = task[1]
            fetcher.restart()
            continue
        _, batch, wanted = task
        _info.seed = _plant(seed, batch)
        answered = False
        try:
            with step_arena():
                _answer(outbox, number, batch, broken, fetcher, wanted)
                answered = True
        except (BrokenPipeError, ConnectionResetError):  # the pass is over
            return
        except Exception as e:
            if not answered:
                raise
            broken = Failure(number, e)  # the scope could not be left, as around an open one of the dataset: the next answer says so


def _answer(outbox: Outbox, number: int, batch: int, broken: Failure | None, fetcher: Fetcher, wanted: Any) -> None:
    try:
        content = broken or fetcher.fetch(wanted)
    except Exception as e:
        content = Failure(number, e)
    try:
        outbox.send(batch, ("failed", content) if isinstance(content, Failure) else ("end", None) if content is END else ("made", content))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as e:  # what cannot be sent
        outbox.send(batch, ("failed", Failure(number, e)))


def _plant(seed: int, batch: int) -> int:
    """Start the random numbers of a batch: gradino's, NumPy's and Python's, each differently; whichever worker makes it."""
    own = mixed(seed + mixed(batch))
    factories.manual_seed(own)
    np.random.seed([own & 0xFFFFFFFF, own >> 32, 1])
    random.seed(own ^ 2)
    return own


def _listen(connection: Connection, tasks: queue.SimpleQueue[tuple[Any, ...] | None]) -> None:
    """Take tasks off the connection at once, so that the training process never waits to give one."""
    parent = multiprocessing.parent_process()
    ends: list[Any] = [connection] if parent is None else [connection, parent.sentinel]
    try:
        while connection in wait(ends):
            tasks.put(connection.recv())
    except (EOFError, OSError):
        pass
    tasks.put(None)
