"""The checks that suites run over specs. Each asserts, and a failure names op, kernel set, dtype, case and layout.

tests/test_harness.py plants faults and shows that these very functions catch them.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from helpers import Guarded, assert_close, assert_same_bits, call_with_canaries, values
from spec_kinds import Case, Spec, draw, generator, laid_out, wide

import gradino as gd
from gradino import config
from gradino.autograd import grad, gradcheck, gradgradcheck

MOST_DIFFERENCES = 200  # elements that gradients are checked of
LENGTHS = range(1, 68)  # around every vector width, and several of them


def describe(spec: Spec, case: Case, dtype: str, layout: str = "contiguous") -> str:
    return f"{spec.name} [{config.get_isa()}, {dtype}, {layout}] {case}"


def results(outcome: Any) -> tuple[gd.Tensor, ...]:
    return tuple(outcome) if isinstance(outcome, tuple) else (outcome,)


def run(spec: Spec, case: Case, tensors: list[gd.Tensor | None], dtype: str, m: Any = gd) -> Any:
    return spec.call(m, *tensors, **case.attributes, **({"dtype": dtype} if spec.factory else {}))


def result_dtype(out: Any, dtype: str, attributes: dict[str, Any]) -> str:
    if callable(out):
        return out(dtype, **attributes)
    is_float = dtype.startswith("float")
    return {"same": dtype, "float": dtype if is_float else "float32", "wide": dtype if is_float else "int64"}.get(out, out)


def reference(function: Any, spec: Spec, case: Case, arrays: list[np.ndarray | None], dtype: str) -> tuple[np.ndarray, ...]:
    """Results of `spec.ref`, or of `spec.scale`, as a tuple of arrays."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = [None if a is None else a.astype(np.float64) if spec.out == "float" else wide(a) for a in arrays]
        outcome = function(*inputs, **case.attributes, **({"dtype": dtype} if spec.factory else {}))
    return tuple(map(np.asarray, outcome)) if isinstance(outcome, tuple) else (np.asarray(outcome),)


def assert_results(spec: Spec, case: Case, got: Any, arrays: list[np.ndarray | None], dtype: str, what: str) -> None:
    """The results are what the reference says, in dtype, shape and value."""
    want = reference(spec.ref, spec, case, arrays, dtype)
    outs = spec.out if isinstance(spec.out, tuple) else (spec.out,)
    assert len(results(got)) == len(want) == len(outs), f"{what}: {len(results(got))} results"
    scales = reference(spec.scale, spec, case, arrays, dtype) if spec.scale is not None else (None,) * len(want)
    for y, w, out, scale in zip(results(got), want, outs, scales, strict=True):
        kind = result_dtype(out, dtype, case.attributes)
        k = 0 if kind == "float32" else 1
        rtol, atol = spec.rtol[k], spec.atol[k]
        if scale is not None and kind.startswith("float"):
            rtol, atol = 0.0, atol + rtol * scale
        with np.errstate(all="ignore"):
            w = w if kind.startswith("float") else w.astype(kind)
        assert_close(y, w, rtol=rtol, atol=atol, what=what, dtype=kind)


def check_values(spec: Spec, case: Case, dtype: str, layout: str = "contiguous") -> None:
    """Values against the reference; nothing but the results is written."""
    what = describe(spec, case, dtype, layout)
    arrays = [laid_out(a, layout) for a in draw(spec, case.inputs, dtype, generator(spec.name, str(case), dtype))]
    guards = [None if a is None else Guarded(a, in_place=layout != "guarded") for a in arrays]
    tensors = [None if g is None else g.tensor for g in guards]
    watched = call_with_canaries if spec.canaries else lambda call, *_, **__: call()
    got = watched(lambda: run(spec, case, tensors, dtype), what, beyond=spec.elementwise)
    for g in guards:
        if g is not None:
            g.assert_untouched(what)
    assert_results(spec, case, got, arrays, dtype, what)


def check_lengths(spec: Spec, dtype: str, lengths: Any = LENGTHS) -> None:
    """An elementwise op on vectors of all lengths, between guard bytes and one element off alignment.

    The same elements give the same bits, whatever the length and the place.
    """
    longest = draw(spec, spec.cases[0].of_length(max(lengths)).inputs, dtype, generator(spec.name, dtype))
    whole = None
    for n in reversed(lengths):
        case = spec.cases[0].of_length(n)
        what = describe(spec, case, dtype, "guarded")
        guarded = [Guarded(a[-n:]) for a in longest]
        call = functools.partial(run, spec, case, [g.tensor for g in guarded], dtype)
        got = call_with_canaries(call, what, beyond=True)
        for g in guarded:
            g.assert_untouched(what)
        if whole is None:
            assert_results(spec, case, got, [a[-n:] for a in longest], dtype, what)
            whole = values(got)
        assert_same_bits(got, whole[-n:], what=what)


# ---- Gradients -------------------------------------------------------------------------------------------------


def is_drawn(x: Any) -> bool:
    """Whether an input of a case is of the dtype under test and differentiable."""
    return isinstance(x, tuple)


def leaves(spec: Spec, case: Case, dtype: str) -> list[gd.Tensor | None]:
    """Inputs for gradient checks: drawn away from kinks, the same numbers in each dtype."""
    arrays = draw(spec, case.inputs, "float32", generator(spec.name, str(case), "gradient"), smooth=True)
    made = []
    for x, a in zip(case.inputs, arrays):
        t = None if a is None else gd.tensor(a.astype(dtype) if a.dtype.kind == "f" else a)
        made.append(t.requires_grad_() if is_drawn(x) and t is not None else t)
    return made


def rearranged(t: gd.Tensor, layout: str) -> gd.Tensor:
    """The same values in another layout, by ops that gradients flow through."""
    if layout == "contiguous" or not t.ndim:
        return t
    if layout == "transposed" or t.ndim == 4:
        return t.T.clone().T
    return gd.stack([t, t.detach()], -1).select(-1, 0)


def function_of(spec: Spec, case: Case, layout: str) -> Any:
    def function(*tensors: gd.Tensor | None) -> tuple[gd.Tensor, ...]:
        moved = [rearranged(t, layout) if is_drawn(x) and t is not None else t for x, t in zip(case.inputs, tensors)]
        return results(run(spec, case, moved, "float64"))

    return function


def differentiable(spec: Spec, case: Case) -> bool:
    """Whether float64 differences can say something about this case, in reasonable time."""
    if sum(math.prod(x) for x in case.inputs if is_drawn(x)) > MOST_DIFFERENCES:
        return False
    out = spec.out[0] if isinstance(spec.out, tuple) else spec.out
    return any(is_drawn(x) for x in case.inputs) and result_dtype(out, "float64", case.attributes) == "float64"


def check_gradient(spec: Spec, case: Case, layout: str = "contiguous") -> None:
    """First derivatives against differences."""
    what = describe(spec, case, "float64", layout)
    try:
        gradcheck(function_of(spec, case, layout), leaves(spec, case, "float64"), atol=1e-6, rtol=1e-5)
    except gd.GradinoError as error:
        raise AssertionError(f"{what}: {error}") from error


def check_second_gradient(spec: Spec, case: Case, layout: str = "contiguous") -> None:
    """Second derivatives against differences of the first."""
    what = describe(spec, case, "float64", layout)
    try:
        gradgradcheck(function_of(spec, case, layout), leaves(spec, case, "float64"), atol=1e-5, rtol=1e-5)
    except gd.GradinoError as error:
        raise AssertionError(f"{what}: {error}") from error


def gradients(spec: Spec, case: Case, dtype: str) -> list[gd.Tensor]:
    """Gradients of the results, weighted with fixed numbers, with respect to all drawn inputs."""
    tensors = leaves(spec, case, dtype)
    outs = [y for y in results(run(spec, case, tensors, dtype)) if y.requires_grad]
    rng = generator(spec.name, str(case), "seed")
    seeds = [gd.tensor(np.asarray(rng.uniform(-1, 1, y.shape)).astype(np.float32), dtype=y.dtype) for y in outs]
    return list(grad(outs, [t for x, t in zip(case.inputs, tensors) if is_drawn(x)], seeds, allow_unused=True))


def check_float32_gradient(spec: Spec, case: Case) -> None:
    """The gradient in float32 against the one in float64."""
    what = describe(spec, case, "float32", "gradient")
    for got, want in zip(gradients(spec, case, "float32"), gradients(spec, case, "float64")):
        assert (got is None) == (want is None), f"{what}: only one dtype has a gradient"
        if got is not None:
            largest = float(np.abs(values(want)).max(initial=1))
            assert_close(got, want, rtol=2e-5, atol=2e-5 * largest, what=what, dtype="float32")


def check_refused(kind: type[Exception], words: str, call: Any, what: str) -> None:
    """The call raises exactly this kind of error, and its message has the words."""
    with pytest.raises(kind) as caught:
        call()
        if gd.get_default_device() != "cpu":
            gd.cuda.synchronize()  # which reports indices that a kernel met
    assert caught.type is kind, f"{what}: raised {caught.type.__name__}, must be {kind.__name__}: {caught.value}"
    assert words in str(caught.value), f"{what}: the message must have {words!r}: {caught.value}"
