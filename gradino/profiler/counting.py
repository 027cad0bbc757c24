"""How many operations an op does, and what the machine can do at most."""

from __future__ import annotations

import functools
import math
from typing import Any

from gradino import config

__all__ = ["flops_of", "machine_limits"]

_UPDATES = {"sgd": 4, "adam": 14}  # operations per element; others are near Adam
_PER_RECURRENT_UNIT = 100  # what an LSTM cell does beside its products


@functools.cache
def _per_element() -> dict[str, float]:
    """Operations per element of the largest tensor, from the table that the roofline picture has."""
    from gradino.tools.roofline import recipes

    return {name: recipe.flops for name, recipe in recipes(0.01).items() if not recipe.total}


def _product(inputs: list[tuple[int, ...]], result: tuple[int, ...]) -> float:
    """Multiplications and additions of a matrix product."""
    return 2.0 * math.prod(result) * (inputs[0][-1] if inputs[0] else 1)


def _convolution(name: str, inputs: list[tuple[int, ...]], result: tuple[int, ...]) -> float:
    """Each output (in a backward: its gradient) takes a multiplication and an addition for each weight of its channel."""
    outputs = inputs[0] if "bwd" in name else result
    weight = result if name.endswith("bwd_weight") else inputs[1]  # (out, in / groups, *kernel)
    return 2.0 * math.prod(outputs) * math.prod(weight[1:])


def _attention(inputs: list[tuple[int, ...]], backward: bool) -> float:
    """All pairs of queries and keys, masked or not: two products, five in a backward."""
    query, key = inputs[1:3] if backward else inputs[:2]
    return (10.0 if backward else 4.0) * math.prod(query) * key[-2]


def flops_of(name: str, inputs: list[tuple[int, ...]], result: tuple[int, ...], elements: int, is_update: bool) -> float:
    """Operations of one call: multiplications, additions, comparisons; an elementary function counts 20."""
    if is_update:
        return float(_UPDATES.get(name, 14) * elements)
    if name in ("matmul", "linear"):
        return _product(inputs, result)
    if name in ("conv", "conv_bwd_input", "conv_bwd_weight"):
        return _convolution(name, inputs, result)
    if name in ("lstm", "lstm_bwd") and len(result) == 3:
        steps, batch, hidden = result[0], result[1], result[2] // (4 if name == "lstm_bwd" else 1)
        depth = hidden if name == "lstm_bwd" else inputs[0][-1] + hidden
        return 8.0 * steps * batch * hidden * depth + _PER_RECURRENT_UNIT * steps * batch * hidden
    if name in ("attention", "attention_bwd"):
        return _attention(inputs, name.endswith("bwd"))
    return _per_element().get(name, 1.0) * elements


@functools.lru_cache(maxsize=8)
def _limits(threads: int) -> tuple[float, float]:
    from gradino.tools import probe

    rates = probe.memory(probe.ELEMENTS // 4, 0.03)
    return probe.arithmetic("float32", seconds=0.03), max(rates.values())


def machine_limits() -> tuple[float, float]:
    """Operations and bytes per second that this machine reaches with the threads in use: measured once, in a fifth of a second."""
    flops, memory = _limits(config.get_num_threads())
    return flops, memory


def share_of_limit(seconds: float, flops: float, size: float, limits: tuple[float, float]) -> Any:
    """How near to the machine's limit work was: the larger of its shares of arithmetic and of memory bandwidth."""
    if seconds <= 0 or min(limits) <= 0:
        return None
    return max(flops / seconds / limits[0], size / seconds / limits[1])
