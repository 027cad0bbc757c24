"""What memory costs: scopes, tensors, marks, views that outlive their arena."""

from __future__ import annotations

from typing import Any

from validate import in_arena

import gradino as gd

TENSORS = 1000


def test_enter_and_exit(benchmark: Any) -> None:
    def scope() -> gd.Arena:
        with gd.step_arena() as arena:
            return arena

    before = scope().stats()
    assert scope().stats().resets == before.resets + 1 and scope().stats().used == 0
    benchmark(scope)


def test_allocate_1000_tensors(benchmark: Any) -> None:
    def allocate() -> None:
        for _ in range(TENSORS):
            gd.empty(16)

    with gd.step_arena() as arena:
        before = arena.stats()
        allocate()
        after = arena.stats()
    assert after.allocations - before.allocations == TENSORS and after.used - before.used == TENSORS * 64
    benchmark(in_arena(allocate))


def test_mark_and_rewind(benchmark: Any) -> None:
    with gd.Arena(name="bench") as arena:

        def there_and_back() -> None:
            mark = arena.mark()
            gd.empty(1024)
            arena.rewind(mark)

        used = arena.stats().used
        there_and_back()
        assert arena.stats().used == used
        # The mark itself stays, a node without bytes: a run would fill the arena with them.
        benchmark.pedantic(there_and_back, rounds=1000, iterations=10)


def test_array_that_outlives_its_step(benchmark: Any) -> None:
    def export() -> Any:
        with gd.step_arena():
            return gd.full((16, 16), 3.0).numpy()

    kept = export()
    export()
    assert (kept == 3).all()
    benchmark(export)


def test_keep(benchmark: Any) -> None:
    with gd.step_arena(), gd.step_arena():
        assert gd.full((4,), 2.0).keep().tolist() == [2.0] * 4

    def keep() -> None:
        with gd.step_arena(), gd.step_arena():
            gd.empty(16).keep()

    benchmark(keep)


def test_tensor_from_array(benchmark: Any) -> None:
    import numpy as np

    array = np.arange(64.0, dtype=np.float32).reshape(16, 4)
    assert gd.tensor(array).tolist() == array.tolist()
    benchmark(in_arena(lambda: gd.tensor(array)))
