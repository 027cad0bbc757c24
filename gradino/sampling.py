"""Choosing the next token from logits: greedy, temperature, top-k, top-p, min-p, repetition penalty.

>>> import gradino as gd
>>> from gradino.sampling import sample
>>> logits = gd.tensor([[1.0, 3.0, 3.0, -1.0]])
>>> sample(logits, temperature=0)
tensor([1])
"""

from __future__ import annotations

import math
from typing import Any

from gradino.dtypes import float32, float64
from gradino.errors import DTypeError, InvalidValueError, OutOfRangeError, ShapeError
from gradino.factories import arange, full_like
from gradino.functions import isnan, where
from gradino.grad_mode import no_grad
from gradino.tensor import Tensor

__all__ = ["greedy", "process", "sample"]


def greedy(logits: Tensor) -> Tensor:
    """The likeliest token of each row, the lowest of several: (..., V) -> int64 (...)."""
    return logits.argmax(-1)


def process(
    logits: Tensor,
    temperature: float | Tensor = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    *,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    previous: Tensor | None = None,
    vocab_size: int | None = None,
) -> Tensor:
    """Log weights (B, V) of the tokens that may be drawn, -inf for the others; at least one of each row may.

    In this order: the vocabulary's padding goes, tokens that occurred are made less likely, the temperature divides,
    top_k, top_p and min_p each cut. Of tokens as likely as each other the lowest stay.

    Args:
        logits: float (B, V).
        temperature: above 0; inf makes all allowed tokens equally likely. Or a tensor (B,), 0 in it: only the likeliest.
        top_k: how many of the likeliest stay, at least 1.
        top_p: the likeliest stay whose probabilities add up to it, in (0, 1].
        min_p: tokens stay whose probability is at least this share of the highest, in [0, 1].
        repetition_penalty: positive logits of tokens in ``previous`` are divided by it, negative ones multiplied; above 0.
        previous: int64 (B, T).
        vocab_size: tokens from here on are never drawn.
    """
    _check(logits, top_k, top_p, min_p, repetition_penalty, vocab_size)
    heat = _temperatures(temperature, logits)
    if logits.dtype not in (float32, float64):
        logits = logits.float()
    if vocab_size is not None and vocab_size < logits.shape[1]:
        logits = where(arange(logits.shape[1]) < vocab_size, logits, -math.inf)
    if repetition_penalty != 1.0 and previous is not None and previous.shape[1]:
        seen = logits.gather(1, previous)
        logits = logits.scatter(1, previous, where(seen > 0, seen / repetition_penalty, seen * repetition_penalty))
    highest = logits.amax(1, keepdim=True)
    _check_rows(highest)
    hidden = logits == -math.inf
    shifted = logits - highest  # at most 0, so that no division overflows to +inf
    cold = heat == 0
    logits = where(hidden, -math.inf, where(cold, shifted, shifted / where(cold, 1.0, heat)))
    likeliest = arange(logits.shape[1]) == greedy(shifted).unsqueeze(1)
    logits = where(cold & ~likeliest, -math.inf, logits)
    if top_k is not None and top_k < logits.shape[1]:
        kept = logits.topk(top_k, 1)[1]
        logits = full_like(logits, -math.inf).scatter(1, kept, logits.gather(1, kept))
    if top_p is not None and top_p < 1:
        ordered, order = logits.sort(1, descending=True, stable=True)
        share = ordered.softmax(1)
        before = share.cumsum(1) - share
        logits = full_like(logits, -math.inf).scatter(1, order, where(before < top_p, ordered, -math.inf))
    if min_p:
        logits = where(logits < logits.amax(1, keepdim=True) + math.log(min_p), -math.inf, logits)
    return logits


@no_grad()
def sample(
    logits: Tensor,
    temperature: float | Tensor = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    *,
    generator: Any = None,
    **more: Any,
) -> Tensor:
    """One token for each row: int64 (B,), or () for logits (V,). See ``process`` for the arguments.

    At temperature 0 the likeliest token, the lowest of several, and no random number is used if all rows are so.

    Raises:
        InvalidValueError: for a temperature, top_k, top_p, ... out of range, and for rows that are NaN or all -inf.
    """
    if logits.ndim == 1:
        return sample(logits.unsqueeze(0), temperature, top_k, top_p, generator=generator, **more)[0]
    weights = process(logits, temperature, top_k, top_p, **more)
    if not isinstance(temperature, Tensor) and temperature == 0:
        return greedy(weights)
    return weights.softmax(1).multinomial(1, generator=generator).squeeze(1)


def _check(
    logits: Tensor, top_k: int | None, top_p: float | None, min_p: float | None, repetition_penalty: float, vocab_size: int | None
) -> None:
    if not isinstance(logits, Tensor) or not logits.dtype.is_floating_point:
        raise DTypeError(f"sample: logits are {getattr(logits, 'dtype', type(logits).__name__)}, must be a tensor of floats")
    if logits.ndim != 2 or logits.shape[1] == 0:
        raise ShapeError(f"sample: logits have shape {logits.shape}, must be (B, V) with at least one token")
    rules = (
        ("top_k", top_k, lambda k: isinstance(k, int) and k >= 1, "an int, at least 1"),
        ("top_p", top_p, lambda p: 0 < p <= 1, "in (0, 1]"),
        ("min_p", min_p, lambda p: 0 <= p <= 1, "in [0, 1]"),
        ("repetition_penalty", repetition_penalty, lambda r: 0 < r < math.inf, "above 0 and finite"),
        ("vocab_size", vocab_size, lambda v: isinstance(v, int) and v >= 1, "an int, at least 1"),
    )
    for name, value, rule, text in rules:
        if value is not None and not rule(value):
            raise InvalidValueError(f"sample: {name} is {value!r}, must be {text}")


def _temperatures(temperature: float | Tensor, logits: Tensor) -> Tensor:
    """(B, 1) or (1, 1), in the logits' dtype but no narrower than float32, checked."""
    dtype = logits.dtype if logits.dtype is float64 else float32
    if isinstance(temperature, Tensor):
        if temperature.shape != logits.shape[:1]:
            raise ShapeError(f"sample: temperature has shape {temperature.shape}, logits {logits.shape}: there must be one for each row")
        lowest = temperature.amin().item() if temperature.numel() else 0.0  # NaN wins
        if not lowest >= 0:
            raise InvalidValueError(f"sample: a temperature is {lowest}, must be at least 0")
        return temperature.to(dtype).unsqueeze(1)
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float)) or not temperature >= 0:
        raise InvalidValueError(f"sample: temperature is {temperature!r}, must be a number, at least 0")
    tiny = 2.0**-126 if dtype is float32 else 2.0**-1022  # below, a division has nothing to divide by
    return full_like(logits[:1, :1].to(dtype), max(temperature, tiny) if temperature else 0.0)


def _check_rows(highest: Tensor) -> None:
    bad = isnan(highest) | (highest == -math.inf)
    if bad.any().item():
        row = int(bad.squeeze(1).long().argmax().item())
        what = "NaN in them" if math.isnan(highest[row].item()) else "no finite logit: nothing may be drawn"
        raise InvalidValueError(f"sample: the logits of row {row} have {what}")
    if (highest == math.inf).any().item():
        raise OutOfRangeError("sample: a logit is inf")
