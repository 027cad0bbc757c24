"""The DataLoader's worker processes: the same batches, own random numbers, errors that arrive, and nothing left behind."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import gradino as gd
from gradino import nn
from gradino.utils import data as d

METHODS = ["fork", "spawn", "forkserver"]


class Noisy(d.Dataset):
    """Each sample has its number and one draw of each source of random numbers."""

    def __init__(self, n: int = 32) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[object, ...]:
        return i, np.random.randint(2**31), random.random(), gd.rand(1)


class Rows(d.Dataset):
    """Samples that need gradino's operations, and of every kind that can be sent."""

    def __init__(self, n: int = 20) -> None:
        self.n, self.weight = n, gd.ones(64, 64)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict[str, object]:
        product = gd.full((64, 64), float(i)) @ self.weight
        return {"product": product, "array": np.full((2, i % 3), i), "name": f"row {i}", "worker": d.get_worker_info().id}  # type: ignore[union-attr]


class Faulty(d.Dataset):
    def __init__(self, what: str) -> None:
        self.what = what

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> int:
        if i == 5:
            if self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self.what == "exit":
                os._exit(7)
            elif self.what == "sleep":
                time.sleep(60)
            elif self.what == "unicode":
                "ü".encode("ascii")
            elif self.what == "local":

                class LocalError(Exception):
                    pass

                raise LocalError("defined here")
            raise {"key": KeyError, "value": ValueError, "stop": StopIteration, "shape": gd.ShapeError}[self.what]("number five")
        return i


class Shared(d.IterableDataset):
    """Each worker gives its share."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self):
        info = d.get_worker_info()
        return iter(range(info.id, self.n, info.num_workers) if info else range(self.n))


def as_lists(batch: list[gd.Tensor]) -> list[list[object]]:
    return [part.reshape(-1).tolist() for part in batch]


def one_pass(loader: d.DataLoader) -> list[list[list[object]]]:
    with gd.step_arena():
        return [as_lists(batch) for batch in loader]


@pytest.mark.parametrize("method", METHODS)
def test_d01_random_numbers_of_workers(method):
    """All draws of an epoch differ, epochs differ, and a seed decides everything, whatever the number of workers."""

    def two_passes(workers: int, persistent: bool) -> list[list[list[list[object]]]]:
        gd.manual_seed(0)
        loader = d.DataLoader(
            Noisy(), 4, shuffle=True, num_workers=workers, multiprocessing_context=method, persistent_workers=persistent
        )  # fmt: skip
        return [one_pass(loader), one_pass(loader)]

    before = np.random.get_state()[1].tolist(), random.getstate()
    first = two_passes(4, False)
    for passed in first:
        for source in (1, 2, 3):
            draws = [x for batch in passed for x in batch[source]]
            assert len(set(draws)) == 32, "every draw is another"
    assert first[0] != first[1] and sorted(i for b in first[0] for i in b[0]) == list(range(32))
    assert two_passes(1 if method != "fork" else 3, True) == first
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before


@pytest.mark.parametrize("method", METHODS)
def test_m05_datasets_use_the_engine(method):
    a = gd.randn(600, 600)
    with gd.step_arena():
        (a @ a).sum().item()  # the pool has threads now
        loader = d.DataLoader(Rows(), 4, num_workers=2, multiprocessing_context=method, collate_fn=list)
        samples = [s for batch in loader for s in batch]
        (a @ a).sum().item()
        assert [s["product"][0, 0].item() for s in samples] == [64.0 * i for i in range(20)]
    assert [s["array"].tolist() for s in samples] == [np.full((2, i % 3), i).tolist() for i in range(20)]
    assert [s["name"] for s in samples] == [f"row {i}" for i in range(20)]
    assert [s["worker"] for s in samples] == [i // 4 % 2 for i in range(20)]
    assert d.get_worker_info() is None


def test_arrays_and_tensors_own_their_memory():
    loader = d.DataLoader(Rows(40), 2, num_workers=2, collate_fn=list, prefetch_factor=1)
    with gd.step_arena():
        samples = [s for batch in loader for s in batch]
        assert [s["product"].sum().item() for s in samples] == [64.0 * i * 64 * 64 for i in range(40)]
        assert all((s["array"] == i).all() and s["array"].flags.writeable for i, s in enumerate(samples))


def test_large_batches_grow_the_memory():
    class Sizes(Rows):
        def __getitem__(self, i: int) -> gd.Tensor:
            return gd.full((1 + (i * 7919) % 200_000,), float(i))

    loader = d.DataLoader(Sizes(30), batch_size=None, num_workers=2, multiprocessing_context="fork")
    with gd.step_arena():
        for i, t in enumerate(loader):
            assert t.shape == (1 + (i * 7919) % 200_000,) and (t == i).all()
        assert i == 29


@pytest.mark.parametrize("in_order", [True, False])
def test_iterable_datasets(in_order):
    loader = d.DataLoader(Shared(23), 3, num_workers=3, in_order=in_order)
    with gd.step_arena():
        got = [b.tolist() for b in loader]
    assert sorted(x for b in got for x in b) == list(range(23))
    if in_order:
        assert got[:3] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_out_of_order_gives_everything():
    loader = d.DataLoader(Noisy(50), 4, num_workers=3, in_order=False)
    assert sorted(i for b in one_pass(loader) for i in b[0]) == list(range(50))


@pytest.mark.parametrize("taken", [1, 6])
def test_i07_resuming_is_exact(taken):
    def loader(persistent: bool = False) -> d.DataLoader:
        return d.DataLoader(Noisy(), 4, shuffle=True, num_workers=2, persistent_workers=persistent)

    gd.manual_seed(0)
    first = loader()
    whole = one_pass(first)
    gd.manual_seed(0)
    first = loader()
    with gd.step_arena():
        running = iter(first)
        for _ in range(taken):
            next(running)
        state = first.state_dict()
        del running
    second = loader(persistent=True)
    second.load_state_dict(state)
    assert one_pass(second) == whole[taken:]
    assert sorted(i for b in one_pass(second) for i in b[0]) == list(range(32))


# ---- Errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "error"), [
    ("key", KeyError), ("value", ValueError), ("shape", gd.ShapeError), ("stop", StopIteration),
    ("unicode", RuntimeError), ("local", RuntimeError),
])  # fmt: skip
def test_exceptions_arrive(what, error):
    loader = d.DataLoader(Faulty(what), 2, num_workers=2)
    seen = []
    with gd.step_arena():
        running = iter(loader)
        seen += next(running).tolist() + next(running).tolist()
        with pytest.raises(RuntimeError if what == "stop" else error) as e:
            next(running)
    assert seen == [0, 1, 2, 3]
    text = str(e.value) if what != "stop" else str(e.value.__cause__)
    assert "in DataLoader worker process 0" in text and "in __getitem__" in text and "Traceback" in text


def test_a_killed_worker_is_named():
    for what, words in (("kill", "killed by signal SIGKILL"), ("exit", "ended unexpectedly with exit code 7")):
        loader = d.DataLoader(Faulty(what), 2, num_workers=2)
        with pytest.raises(RuntimeError, match=rf"worker 0 \(pid \d+\).*{words}"):
            one_pass(loader)


def test_timeout():
    loader = d.DataLoader(Faulty("sleep"), 2, num_workers=1, timeout=1.0)
    with pytest.raises(RuntimeError, match=r"no batch from worker 0 \(pid \d+\) in 1.0 seconds"):
        one_pass(loader)


def init_fails(worker: int) -> None:
    raise OSError(f"no disk for {worker}")


def init_sets(worker: int) -> None:
    d.get_worker_info().dataset.n = 100 + worker  # type: ignore[union-attr]


class Size(Noisy):
    def __getitem__(self, i: int) -> int:  # type: ignore[override]
        return self.n


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_init_fn(method):
    loader = d.DataLoader(Size(4), num_workers=2, worker_init_fn=init_sets, multiprocessing_context=method)
    assert [b.item() for b in loader] == [100, 101, 100, 101]
    with pytest.raises(OSError, match=r"(?s)worker process 0.*no disk for 0"):
        next(iter(d.DataLoader(Size(4), num_workers=2, worker_init_fn=init_fails, multiprocessing_context=method)))


def test_what_cannot_be_sent_arrives_as_an_error():
    loader = d.DataLoader(Size(4), num_workers=1, collate_fn=lambda s: lambda: s, multiprocessing_context="fork")
    with pytest.raises((TypeError, AttributeError, RuntimeError), match="worker process 0"):
        next(iter(loader))


# ---- Nothing left behind ----------------------------------------------------------------------------------------


def children() -> list[int]:
    return [int(p) for p in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.skipif(not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="counts processes and descriptors by /proc")
def test_processes_and_descriptors_end_with_the_pass():
    one_pass(d.DataLoader(Noisy(), 4, num_workers=2))
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), set(children())
    for _ in range(3):
        loader = d.DataLoader(Noisy(), 4, num_workers=3, persistent_workers=True)
        one_pass(loader)
        one_pass(loader)
        del loader
        for batch in d.DataLoader(Noisy(), 4, num_workers=3):
            del batch
            break
        with pytest.raises(ValueError, match="number five"):
            one_pass(d.DataLoader(Faulty("value"), 2, num_workers=2))
    assert (len(os.listdir("/proc/self/fd")), set(children())) == before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM], ids=str)
def test_workers_end_with_the_training_process(way, method):
    """Ctrl-C, or the process killed: no worker stays."""
    script = f"""
        import signal, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_data_workers import Noisy
        from gradino.utils import data as d

        def main():
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with it ignored
            loaders = [d.DataLoader(Noisy(10**6), 4, num_workers=2, multiprocessing_context={method!r}) for _ in range(2)]
            a, b = map(iter, loaders)
            next(a), next(b)
            import multiprocessing
            print(*[p.pid for p in multiprocessing.active_children()], flush=True)
            for _ in a:
                next(b)

        if __name__ == "__main__":
            main()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    workers = [int(p) for p in process.stdout.readline().split()]
    assert len(workers) == 4, process.communicate()[1]
    time.sleep(0.2)
    os.killpg(process.pid, way) if way == signal.SIGINT else process.send_signal(way)
    _, errors = process.communicate(timeout=60)
    if way == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
    until = time.monotonic() + 20
    while any(runs(p) for p in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [p for p in workers if runs(p)]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_model_trains_on_what_workers_make():
    gd.manual_seed(0)
    x = gd.randn(256, 4)
    data = d.TensorDataset(x, x.sum(1, keepdim=True))
    model = nn.Linear(4, 1)
    optimizer = gd.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(8):
        with gd.step_arena():
            for a, b in d.DataLoader(data, 32, shuffle=True, num_workers=2):
                with gd.step_arena():
                    loss = (model(a) - b).square().mean()
                    loss.backward(optimizer=optimizer)
                    last = loss.item()
    assert last < 0.01


@pytest.mark.own_arenas
def test_batches_outside_of_arenas_do_not_gather():
    data = d.TensorDataset(gd.randn(64, 256), gd.arange(64))
    w = gd.nn.Parameter(gd.zeros(256))
    used = []
    for _ in range(30):
        for x, y in d.DataLoader(data, 16, shuffle=True, num_workers=2):
            with gd.step_arena():
                ((x @ w - y) ** 2).mean().backward()
        used.append(gd.permanent_arena().stats().used)
    assert used[-1] == used[3], "passes after the first few take no memory"
    assert (x.shape, y.shape) == ((16, 256), (16,)) and x.abs().sum().item() > 0


class Made(d.Dataset):
    """Samples that a function makes."""

    def __init__(self, make, n: int = 6) -> None:  # type: ignore[no-untyped-def]
        self.make, self.n = make, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> object:
        return self.make(i)


def test_samples_without_elements():
    shapes = [[t.shape for t in b] for b in d.DataLoader(Made(lambda i: (gd.zeros(0, 3), np.zeros((2, 0)))), batch_size=4, num_workers=2)]
    assert shapes == [[(4, 0, 3), (4, 2, 0)], [(2, 0, 3), (2, 2, 0)]]


def test_workers_say_nothing_when_a_pass_ends_early(capfd):
    def fails(i: int) -> object:
        time.sleep(0.02 * (i % 4))
        raise ValueError(f"sample {i}")

    for _ in range(3):
        with pytest.raises(ValueError, match="sample"):
            list(d.DataLoader(Made(fails, 40), batch_size=1, num_workers=3))
    assert capfd.readouterr().err == ""


def test_an_error_of_a_pipe_in_a_dataset_arrives():
    def broken(i: int) -> object:
        raise BrokenPipeError("of the dataset")

    with pytest.raises(BrokenPipeError, match="of the dataset"):
        list(d.DataLoader(Made(broken), num_workers=1))


class Yields(d.IterableDataset):
    """Holds a scope open between its samples."""

    def __iter__(self):  # type: ignore[no-untyped-def]
        with gd.step_arena():
            for i in range(9):
                yield gd.ones(2) * i


def test_an_iterable_dataset_that_holds_a_scope_open_is_told():
    with pytest.raises(gd.ArenaError, match="inner scope"):
        list(d.DataLoader(Yields(), batch_size=2, num_workers=1))
