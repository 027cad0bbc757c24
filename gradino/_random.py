"""Random numbers in place as methods of Tensor, and the numbers that all random functions draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradino import devices, dtypes
from gradino._arguments import as_float, probability, shown
from gradino._call import run
from gradino._core import call
from gradino._lib import lib, op_id
from gradino.errors import DTypeError, InvalidValueError

if TYPE_CHECKING:
    from gradino.generator import Generator
    from gradino.tensor import Tensor

__all__ = ["Random", "integers", "normals", "uniforms"]

_UNIFORM, _NORMAL, _RANDINT = op_id("uniform"), op_id("normal"), op_id("randint")
_EXACT = 2**53  # bounds of integers travel as float64


def _from_seed(op: int, shape: Sequence[int], d: dtypes.dtype, generator: Generator, a: float, b: float) -> Tensor:
    """An op that fills a tensor, with the next seed of a generator."""
    from gradino.generator import draw

    seed, rank = draw(generator), len(shape)
    return run(op, (), (*shape, *[1] * (4 - rank), rank, d.code, seed - 2**64 if seed >= 2**63 else seed, 0), (a, b))


def uniforms(name: str, shape: Sequence[int], d: dtypes.dtype, generator: Generator | None, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Uniform random numbers in [low, high)."""
    if generator is None:
        return call(name, lib.gd_uniform, len(shape), shape, d.code, low, high)
    return _from_seed(_UNIFORM, shape, d, generator, as_float(name, low), as_float(name, high))


def normals(name: str, shape: Sequence[int], d: dtypes.dtype, generator: Generator | None, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal random numbers."""
    if generator is None:
        return call(name, lib.gd_normal, len(shape), shape, d.code, mean, std)
    if not std >= 0:
        raise InvalidValueError(f"{name}: std is {shown(std)}, must be at least 0")
    return _from_seed(_NORMAL, shape, d, generator, as_float(name, mean), as_float(name, std))


def integers(name: str, shape: Sequence[int], generator: Generator | None, low: int, high: int) -> Tensor:
    """Random integers in [low, high), int64."""
    if generator is None:
        return call(name, lib.gd_randint, len(shape), shape, low, high)
    if not -_EXACT <= low < high <= _EXACT:
        raise InvalidValueError(f"{name}: low {shown(low)} must be less than high {shown(high)}, both within 2^53")
    return _from_seed(_RANDINT, shape, dtypes.int64, generator, float(low), float(high))


def exponentials(name: str, shape: Sequence[int], d: dtypes.dtype, generator: Generator | None) -> Tensor:
    """Exponential random numbers of rate 1."""
    return -(1 - uniforms(name, shape, d, generator)).log()


class Random:
    """Each takes its numbers from ``generator``, or from those of the process."""

    __slots__ = ()
    _h: int

    def _float(self: Tensor, name: str) -> dtypes.dtype:
        if not self.dtype.is_floating_point:
            raise DTypeError(f"{name}: must be floating point, is {self.dtype}")
        return self.dtype

    def uniform_(self: Tensor, from_: float = 0, to: float = 1, *, generator: Generator | None = None) -> Tensor:
        """Overwrite with uniform random numbers in [from_, to)."""
        d = self._float("uniform_")
        if as_float("uniform_", from_) > as_float("uniform_", to):
            raise InvalidValueError(f"uniform_: from {from_} must be at most to {to}")
        return self._written("uniform_", lambda a: uniforms("uniform_", a.shape, d, generator, from_, to))

    def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Tensor:
        """Overwrite with normal random numbers."""
        d = self._float("normal_")
        return self._written("normal_", lambda a: normals("normal_", a.shape, d, generator, mean, std))

    def random_(self: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
        """Overwrite with random integers in [from_, to); ``random_(to)`` starts at 0. Without limits, all that the dtype holds exactly."""
        d = self.dtype
        if to is None:
            if from_:
                from_, to = 0, from_
            else:
                to = 2 if d is dtypes.bool_ else 2**31 - 1 if d is dtypes.int32 else _EXACT
                if d.is_floating_point:
                    to = {dtypes.float64: _EXACT, dtypes.float32: 2**24, dtypes.float16: 2**11}.get(d, 2**8) + 1
                to = min(to, _EXACT)
        first, end = from_, to
        return self._written("random_", lambda a: integers("random_", a.shape, generator, first, end).to(d))

    def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Overwrite with 1 with probability ``p``, a number or a tensor that is broadcast, and 0 else."""
        chance = p if hasattr(p, "_h") else probability("bernoulli_", "p", p)
        return self._written("bernoulli_", lambda a: _chosen("bernoulli_", a.shape, chance, generator).to(a.dtype))

    def bernoulli(self: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
        """1 with the probability that each element says (or with ``p``), and 0 else."""
        if p is not None:
            with devices.beside(self):
                return _chosen("bernoulli", self.shape, probability("bernoulli", "p", p), generator).to(self.dtype)
        d = self._float("bernoulli")
        return _chosen("bernoulli", self.shape, self, generator).to(d)

    def multinomial(self: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Tensor:
        """Places drawn with the probabilities that a vector, or each row of a matrix, is proportional to; int64."""
        from gradino.functions.random import multinomial

        return multinomial(self, num_samples, replacement, generator=generator)

    def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
        """Overwrite with exponential random numbers of rate ``lambd``."""
        d, rate = self._float("exponential_"), as_float("exponential_", lambd)
        if not rate > 0:
            raise InvalidValueError(f"exponential_: lambd is {lambd}, must be above 0")
        return self._written("exponential_", lambda a: exponentials("exponential_", a.shape, d, generator) / rate)

    def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
        """Overwrite with how many trials, each of which succeeds with probability ``p``, the first success took."""
        chance, d = as_float("geometric_", p), self.dtype
        if not 0 < chance < 1:
            raise InvalidValueError(f"geometric_: p is {p}, must be in (0, 1)")
        rate = -math.log1p(-chance)
        return self._written(
            "geometric_", lambda a: ((exponentials("geometric_", a.shape, dtypes.float64, generator) / rate).floor() + 1).to(d)
        )

    def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
        """Overwrite with numbers whose logarithms are normal."""
        d = self._float("log_normal_")
        if not as_float("log_normal_", std) > 0:
            raise InvalidValueError(f"log_normal_: std is {std}, must be above 0")
        return self._written("log_normal_", lambda a: normals("log_normal_", a.shape, d, generator, mean, std).exp())

    def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
        """Overwrite with numbers of the Cauchy distribution."""
        d, half = self._float("cauchy_"), as_float("cauchy_", sigma)
        if not half > 0:
            raise InvalidValueError(f"cauchy_: sigma is {sigma}, must be above 0")

        def made(a: Tensor) -> Tensor:
            angle = (uniforms("cauchy_", a.shape, dtypes.float64, generator) - 0.5) * math.pi
            return (angle.sin() / angle.cos() * half + as_float("cauchy_", median)).to(d)

        return self._written("cauchy_", made)


def _chosen(name: str, shape: tuple[int, ...], p: Any, generator: Generator | None) -> Tensor:
    """True with probability p."""
    if hasattr(p, "_h"):
        if p.numel() and not (p.amin().item() >= 0 and p.amax().item() <= 1):
            raise InvalidValueError(f"{name}: probabilities must be in [0, 1]")
        d = p.dtype if p.dtype is dtypes.float64 else dtypes.float32
        with devices.beside(p):
            chosen: Tensor = uniforms(name, shape, d, generator) < p.detach().to(d)
        return chosen
    below: Tensor = uniforms(name, shape, dtypes.float64 if p * 2**24 % 1 else dtypes.float32, generator) < p
    return below
