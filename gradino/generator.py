"""A source of random numbers of one's own, for what takes ``generator=``."""

from __future__ import annotations

import operator
from typing import Any

from gradino import devices, factories
from gradino.arena import step_arena
from gradino.errors import DTypeError

__all__ = ["Generator", "draw"]

_ALL = 2**64 - 1


class Generator:
    """Numbers that do not depend on ``gd.manual_seed`` nor on what else draws. For data loading; starts with seed 0."""

    def __init__(self, device: Any = "cpu") -> None:
        self.device = devices.named(devices.number_of("Generator", device))
        self._seed = self._drawn = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start anew; returns the generator."""
        try:
            self._seed, self._drawn = operator.index(seed) & _ALL, 0
        except TypeError:
            raise DTypeError(f"manual_seed: the seed must be an int, got {type(seed).__name__}") from None
        return self

    def initial_seed(self) -> int:
        """The seed it was started with."""
        return self._seed

    def get_state(self) -> tuple[int, int]:
        """Seed and position."""
        return self._seed, self._drawn

    def set_state(self, state: tuple[int, int]) -> None:
        """Go back to a state from ``get_state``."""
        self._seed, self._drawn = int(state[0]), int(state[1])

    def _draw(self) -> int:
        self._drawn += 1
        return mixed(self._seed + self._drawn * 0x9E3779B97F4A7C15)


def mixed(number: int) -> int:
    """64 bits that look random, the same for the same number. Source: splitmix64, Steele et al., 2014."""
    x = number & _ALL
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _ALL
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _ALL
    return x ^ (x >> 31)


def draw(generator: Generator | None) -> int:
    """One seed of 64 bits from a generator, or one draw from the random numbers of the process."""
    if generator is None:
        with step_arena():
            return mixed(int(factories.randint(0, 2**53, (1,)).item()))
    if not isinstance(generator, Generator):
        raise DTypeError(f"generator must be a gradino.Generator, got {type(generator).__name__}")
    return generator._draw()
