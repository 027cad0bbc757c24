"""The calls of the specs, on gradino and on PyTorch where it is installed: same values, same gradients, same dtypes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from checks import describe, differentiable, is_drawn, reference, run
from composed import COMPOSED
from helpers import assert_close, values
from spec_kinds import FLOATS, Case, Spec, draw, generator
from specs import LIST

import gradino as gd

torch = pytest.importorskip("torch", reason="PyTorch is not installed: names and values are compared with golden files only")

SHARED = [spec for spec in (*LIST, *COMPOSED) if spec.torch]
WITH_GRADIENT = [spec for spec in SHARED if spec.order and spec.name not in ("floor_divide", "heaviside", "digamma")]
# PyTorch has no gradient for the first two, gradino's is zero; that of digamma is good for nine digits there


def outcome(y: Any) -> list[Any]:
    return list(y) if isinstance(y, (tuple, list)) else [y]


def arrays_of(t: Any) -> np.ndarray:
    return t.detach().numpy() if isinstance(t, torch.Tensor) else values(t)


def both(spec: Spec, case: Case, dtype: str, smooth: bool = False) -> tuple[list[Any], list[Any]]:
    arrays = draw(spec, case.inputs, dtype, generator(spec.name, str(case), dtype), smooth)
    return [None if a is None else gd.tensor(a) for a in arrays], [None if a is None else torch.tensor(a) for a in arrays]


@pytest.mark.parametrize(("spec", "dtype"), [pytest.param(s, d, id=f"{s.name}-{d}") for s in SHARED for d in s.dtypes])
def test_values(spec, dtype):
    for case in spec.cases:
        ours, theirs = both(spec, case, dtype)
        what = f"{describe(spec, case, dtype)} against PyTorch"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = outcome(run(spec, case, theirs, dtype, torch))
        got = outcome(run(spec, case, ours, dtype))
        assert len(got) == len(want), what
        for y, w in zip(got, want):
            w = arrays_of(w)
            k = 0 if w.dtype == np.float32 else 1
            tolerance = (2e-6, 1e-13)[k] if w.dtype.kind == "f" else 0.0
            if spec.scale is not None:
                tolerance = tolerance * (1 + reference(spec.scale, spec, case, [arrays_of(t) for t in theirs], dtype)[0])
            assert_close(y, w, atol=tolerance * (1 + np.abs(w)), what=what, dtype=str(w.dtype))


@pytest.mark.parametrize(("spec", "dtype"), [pytest.param(s, d, id=f"{s.name}-{d}") for s in WITH_GRADIENT for d in FLOATS])
def test_gradients(spec, dtype):
    for case in spec.cases:
        if not differentiable(spec, case) or (case.attributes.get("to", dtype) != dtype):
            continue
        ours, theirs = both(spec, case, dtype, smooth=True)
        what = f"gradient of {describe(spec, case, dtype)} against PyTorch"
        wanted = [k for k, x in enumerate(case.inputs) if is_drawn(x)]
        for k in wanted:
            ours[k].requires_grad_()
            theirs[k].requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs = list(zip(outcome(run(spec, case, ours, dtype)), outcome(run(spec, case, theirs, dtype, torch))))
        y, w = zip(*((y, w) for y, w in pairs if w.requires_grad))
        rng = generator(spec.name, "seed")
        seeds = [rng.uniform(-1, 1, tuple(t.shape)).astype(str(t.dtype).rpartition(".")[2]) for t in w]
        got = gd.autograd.grad(y, [ours[k] for k in wanted], [gd.tensor(s) for s in seeds], allow_unused=True)
        want = torch.autograd.grad(w, [theirs[k] for k in wanted], [torch.tensor(s) for s in seeds], allow_unused=True)
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        for k, g, w in zip(wanted, got, want):  # no gradient means that it is zero
            zero = np.zeros(ours[k].shape, dtype)
            assert_close(
                zero if g is None else g, zero if w is None else arrays_of(w), rtol=tolerance, atol=tolerance, what=what, dtype=dtype
            )
