"""Special functions under the names of ``torch.special``; those that are not here gradino does not have."""

from __future__ import annotations

from typing import Any

from gradino._core import combine
from gradino._lib import op_id
from gradino.functions import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    lgamma,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    mvlgamma,
    polygamma,
    round,  # noqa: A004
    sigmoid,
    sinc,
    softmax,
    where,
    xlogy,
)
from gradino.functions._arguments import _binary_operand, _tensor, into
from gradino.tensor import Tensor

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammaln", "log1p", "log_softmax", "logit", "logsumexp",
    "multigammaln", "ndtr", "polygamma", "psi", "round", "sinc", "softmax", "xlog1py", "xlogy",
]  # fmt: skip

_XLOG1PY = op_id("xlog1py")
expit, gammaln, multigammaln, psi = sigmoid, lgamma, mvlgamma, digamma


def xlog1py(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input * log1p(other)``, and 0 where ``input`` is 0, unless ``other`` is NaN."""
    result = combine("xlog1py", _XLOG1PY, _binary_operand("xlog1py", input, other), other)
    return result if out is None else into("xlog1py", out, result)


def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``-x log(x)``: 0 at 0, -inf below."""
    x = _tensor("entr", input)
    result = where(x < 0, -float("inf"), -xlogy(x, x))
    return result if out is None else into("entr", out, result)


def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The share of the normal distribution below x."""
    result = erfc(_tensor("ndtr", input) * -0.70710678118654752440) * 0.5
    return result if out is None else into("ndtr", out, result)
