"""The random number generator, under the names of ``torch.random``."""

from __future__ import annotations

from gradino.factories import get_rng_state, manual_seed, set_rng_state

__all__ = ["get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def initial_seed() -> int:
    """The seed of the stream in use."""
    return int(get_rng_state()[0])


def seed() -> int:
    """Start a stream at a seed of the system's choice, which is returned."""
    import secrets

    number = secrets.randbits(63)
    manual_seed(number)
    return number
