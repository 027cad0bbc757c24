"""Every public function, method and constructor takes what it is not made for: a Python error that says who refused what.

Never a crash, never an error of the foreign function interface that names nobody, never `NotImplemented` as a result.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradino as gd
import gradino.nn.functional as F
from gradino import nn, optim

EXPECTED = (
    gd.GradinoError,
    TypeError,
    ValueError,
    IndexError,
    KeyError,
    AttributeError,
    OverflowError,
    NotImplementedError,
    BufferError,
    MemoryError,
)
NAMELESS = (
    "an integer is required",
    "int too big to convert",
    "int too large",
    "must be real number",
    "initializer for ctype",
    "NotImplementedType",
)
FILES = {
    "load",
    "save",
    "load_checkpoint",
    "save_checkpoint",
    "set_num_threads",
}  # would read, write or change the machine's files and threads
DUNDERS = {"__getitem__", "__setitem__", "__add__", "__rsub__", "__matmul__", "__eq__", "__iadd__", "__iand__", "__contains__", "__pow__"}
OPERATORS = DUNDERS | {"__rmatmul__"}


class Stubborn:
    """Refuses to be anything."""

    def __index__(self) -> int:
        raise ValueError("stubborn")

    __float__ = __len__ = __iter__ = __index__


def stale() -> gd.Tensor:
    with gd.step_arena():
        return gd.ones(2, 3)


def junk() -> list[Any]:
    """Nothing here leads to more than a few MiB: sizes are either small or beyond any arena."""
    numbers = [None, True, -1, 7, 2**40, 2**63, 10**400, 0.5, float("nan"), 1j]
    plain = [*numbers, "", "mean", b"x", (), [[1], [2, 3]], {"a": 1}, object(), Stubborn(), int]
    arrays = [np.float32(1.5), np.zeros((2, 3)), np.zeros((1,) * 5), np.array(["a"]), np.array([None])]
    tensors = [gd.ones(2, 3), gd.tensor(2), gd.zeros(2, 0, 3), gd.tensor([5, -7]), gd.tensor([True]), gd.ones(1).expand(2, 3), stale()]
    return [*plain, *arrays, *tensors, nn.Parameter(gd.ones(2, 3)), gd.float32, nn.Linear(3, 2)]


def functions() -> dict[str, Callable[..., Any]]:
    spaces: list[Any] = [gd, F, nn, nn.utils.rnn, optim, gd.autograd]
    found = {f"{space.__name__}.{name}": getattr(space, name) for space in spaces for name in space.__all__ if name not in FILES}
    return {n: f for n, f in found.items() if callable(f) and not (inspect.isclass(f) and issubclass(f, BaseException))}


def methods() -> dict[str, Callable[[], Any]]:
    """What makes an object, by the name of the method that is then called on it."""
    makers: list[Callable[[], Any]] = [
        lambda: gd.ones(2, 3), lambda: nn.Parameter(gd.ones(2, 3)), lambda: gd.tensor([1, 2]), lambda: nn.Linear(3, 2),
        lambda: nn.LSTM(3, 2), lambda: nn.Sequential(nn.ReLU()), lambda: nn.ModuleList([nn.ReLU()]),
        lambda: nn.ModuleDict({"a": nn.ReLU()}),
        lambda: nn.Dropout(), lambda: nn.Softmax(0), lambda: nn.CrossEntropyLoss(), lambda: optim.Adam([nn.Parameter(gd.ones(2))]),
        lambda: gd.Arena(reserve=1 << 24),
    ]  # fmt: skip
    found: dict[str, Callable[[], Any]] = {}
    for k, make in enumerate(makers):
        kind = type(make())
        for name in dir(kind):
            if (not name.startswith("_") or name in DUNDERS) and callable(getattr(kind, name)):
                found[f"{k}.{kind.__name__}.{name}"] = make
    return found


def arguments(pool: list[Any]) -> Iterator[tuple[Any, ...]]:
    yield ()
    good = gd.ones(2, 3)
    for x in pool:
        yield from ((x,), (good, x), (x, good), (good, good, x), (0, x), (good, 0, x))


def attempt(name: str, call: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        with gd.step_arena():
            result = call(*given)
            if inspect.isgenerator(result):
                list(result)
    except EXPECTED as error:
        message = str(error)
        assert not message.startswith(NAMELESS) and "NotImplementedType" not in message, (
            f"{name}{given!r}: {type(error).__name__}: {message}"
        )
    except RuntimeError as error:
        raise AssertionError(f"{name}{given!r}: an untyped RuntimeError: {error}") from error
    else:
        assert result is not NotImplemented or name.split(".")[-1] in OPERATORS, f"{name}{given!r} returned NotImplemented"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    assert gd.is_grad_enabled()


@pytest.mark.parametrize("name", functions())
def test_functions(name: str) -> None:
    function = functions()[name]
    with gd.enable_grad():
        for given in arguments(junk()):
            attempt(name, function, given)
    gd.autograd.set_grad_enabled(True)


@pytest.mark.parametrize("name", methods())
def test_methods(name: str) -> None:
    make = methods()[name]
    for given in arguments(junk()):
        made = make()
        attempt(name, getattr(made, name.split(".")[-1]), given)
    assert gd.ones(2).sum().item() == 2
