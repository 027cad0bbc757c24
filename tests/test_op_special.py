"""Special numbers, zero gradients, kernel sets against each other, thread counts, all small matrix products."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from checks import assert_results, describe, is_drawn, leaves, results, run
from helpers import Guarded, assert_close, assert_same_bits, call_with_canaries, values
from spec_kinds import FLOATS, Case, Spec, case, draw, generator
from specs import LIST, SPECS

import gradino as gd
from gradino import config
from gradino.autograd import grad

NAN, INF = float("nan"), float("inf")
# The reference of nextafter knows no dtype.
ELEMENTWISE = [s for s in LIST if s.elementwise and not s.factory and "float32" in s.dtypes and s.name != "nextafter"]
# Ops of one rounding, so that all kernel sets agree to the bit.
ONE_ROUNDING = set(
    "neg abs sign square relu floor ceil round sqrt reciprocal add sub mul div maximum minimum where clamp copy chain relu_bwd clamp_bwd "
    "cast floor_divide remainder fmod trunc fmax fmin heaviside copysign".split()
)
SIGNED_ZEROS = set("neg abs sqrt floor ceil round sin tanh expm1 log1p reciprocal add sub mul div copy".split())


def special(dtype: str) -> np.ndarray:
    """NaN, infinities, zeros of both signs, subnormals, the ends of the range, and ordinary numbers."""
    info = np.finfo(dtype)
    some = [0.0, 1.0, 0.5, 2.0, 2.5, 3.0, 90.0, 1e4, INF, info.tiny, info.smallest_subnormal, info.tiny / 4, info.max, info.eps]
    return np.array([NAN, *some, *(-x for x in some)]).astype(dtype)


def combinations(spec: Spec, dtype: str) -> list[np.ndarray]:
    """For each input of the op an array, so that all combinations of special numbers occur."""
    kinds = spec.cases[0].inputs
    columns = [special(dtype) if is_drawn(x) else np.array([True, False]) for x in kinds]
    if spec.name in ("sigmoid_bwd", "tanh_bwd"):  # the second input is a result of the forward op
        columns[1] = columns[1][~(np.abs(columns[1]) > 1)]
    return [np.ascontiguousarray(a.reshape(-1)) for a in np.meshgrid(*columns, indexing="ij")]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("spec", ELEMENTWISE, ids=lambda spec: spec.name)
def test_special_numbers(isa, spec, dtype):
    arrays = combinations(spec, dtype)
    for c in {str(c.attributes): c for c in spec.cases}.values():
        if c.attributes.get("to") in ("int64", "int32"):
            continue  # C leaves open what a NaN or a too large number is as an integer
        what = describe(spec, c, dtype, "special")
        got = run(spec, c, [gd.tensor(a) for a in arrays], dtype)
        with np.errstate(all="ignore"):
            want = np.asarray(spec.ref(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays), **c.attributes))
            if want.dtype.kind == "f":  # what overflows or underflows in the op's own dtype
                want = want.astype(values(got).dtype)
        tiny = 4 * float(np.finfo(dtype).smallest_subnormal)
        k = FLOATS.index(dtype)
        assert_close(got, want, rtol=max(spec.rtol[k], 2.5e-7 if k == 0 else 1e-15), atol=tiny, what=what)
        if spec.name in SIGNED_ZEROS:
            zero = (values(got) == 0) & (want == 0)
            wrong = zero & (np.signbit(values(got)) != np.signbit(want))
            assert not wrong.any(), f"{what}: wrong sign of zero for {[a[wrong][:3].tolist() for a in arrays]}"


@pytest.mark.parametrize("n", range(1, 68))
def test_n08_nan_stays(isa, n):
    x = np.resize(np.array([NAN, -1, 2, -0.0]), n)
    nans = np.isnan(x)
    for dtype in FLOATS:
        t, one = gd.tensor(x.astype(dtype)), gd.ones(n, dtype=dtype)
        for name, y, want in (
            ("relu", t.relu(), np.maximum(x, 0)),
            ("clamp(min=0)", t.clamp(min=0), np.maximum(x, 0)),
            ("clamp(0, 1)", t.clamp(0, 1), np.clip(x, 0, 1)),
            ("maximum(x, 1)", gd.maximum(t, one), np.maximum(x, 1)),
            ("maximum(1, x)", gd.maximum(one, t), np.maximum(1, x)),
            ("minimum(x, 1)", gd.minimum(t, one), np.minimum(x, 1)),
            ("minimum(1, x)", gd.minimum(one, t), np.minimum(1, x)),
        ):
            assert np.array_equal(np.isnan(values(y)), nans), f"{name}, {isa}, {dtype}, n {n}"
            assert_close(y, want, what=f"{name}, {isa}, {dtype}, n {n}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_n08_a_nan_anywhere_reaches_the_result(isa, dtype):
    rng = generator("nan anywhere")
    for n in range(1, 68):
        for at in {0, n // 3, n // 2, n - 1}:
            x = rng.standard_normal((2, n)).astype(dtype)
            x[1, at] = NAN
            for layout, t, dim in (("rows", gd.tensor(x), 1), ("columns", gd.tensor(np.ascontiguousarray(x.T)), 0)):
                for name in ("sum", "mean", "prod", "amax", "amin", "logsumexp", "softmax", "log_softmax"):
                    y = np.isnan(values(getattr(t, name)(dim)))
                    y = y if y.ndim == 1 else y.all(axis=dim)
                    assert y.tolist() == [False, True], f"{name}, {layout}, {isa}, {dtype}, n {n}, NaN at {at}"
                for name in ("max", "min"):
                    found, index = getattr(t, name)(dim)
                    assert np.isnan(found[1].item()) and index[1].item() == at, f"{name}, {layout}, {isa}, {dtype}, n {n}, NaN at {at}"
                    assert getattr(t, f"arg{name}")(dim)[1].item() == at, f"arg{name}, {layout}, {isa}, {dtype}, n {n}, NaN at {at}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "x, largest, smallest",
    [
        ([3, NAN, 1, 5], 1, 1),
        ([NAN, 1, 2], 0, 0),
        ([1, 2, NAN], 2, 2),
        ([INF, NAN, -INF], 1, 1),
        ([-1, -2, NAN], 2, 2),
        ([NAN, NAN, NAN], 0, 0),
        ([2, 5, 5, 1], 1, 3),
    ],
)
def test_n08_argmax(isa, x, largest, smallest, dtype):
    """The first NaN wins, then the first of equal values; the index is always in range."""
    t = gd.tensor(x, dtype=dtype)
    assert (t.argmax().item(), t.argmin().item()) == (largest, smallest)
    assert (t.max(0).indices.item(), t.min(0).indices.item()) == (largest, smallest)
    for columns in (gd.stack([t, t], 1), t.unsqueeze(1).expand(len(x), 2)):
        assert columns.argmax(0).tolist() == [largest] * 2 and columns.argmin(0).tolist() == [smallest] * 2


ROWS = [
    [NAN, 1.0, 2.0], [INF, -INF, 1.0], [INF, INF, 1.0], [-INF, -INF, -INF], [-0.0, 0.0, -0.0], [1e-40, 2e-40, -3e-40], [3e38, 3e38, -3e38],
    [-INF, 0.0, 1.0], [0.0, 0.0, 0.0], [5e-324, 1e-310, 0.0], [1e4, 1e4 + 1, 1e4 + 2], [-1e4, -1e4, -1e4],
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", "sum mean prod var amax amin max_dim min_dim argmax argmin any all logsumexp softmax log_softmax".split())
def test_special_rows(isa, name, dtype):
    spec, rows = SPECS[name], np.array(ROWS).astype(dtype)
    with np.errstate(all="ignore"):
        for dim, x in ((1, rows), (0, np.ascontiguousarray(rows.T))):
            c = case(x.shape, dim=dim)
            want = spec.ref(x.astype(np.float64), dim=dim)
            for y, w in zip(results(run(spec, c, [gd.tensor(x)], dtype)), want if isinstance(want, tuple) else (want,)):
                w = np.asarray(w).astype(values(y).dtype)  # what overflows in the op's own dtype
                tolerance = 1e-6 if dtype == "float32" else 1e-14
                assert_close(y, w, rtol=tolerance, atol=tolerance, what=describe(spec, c, dtype, "special"))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("spec", [spec for spec in ELEMENTWISE if spec.order], ids=lambda spec: spec.name)
def test_a_zero_gradient_stays_zero(isa, spec, dtype):
    """Where the incoming gradient is 0, the outgoing one is exactly 0, also where the slope is infinite or NaN."""
    for c in {str(c.attributes): c for c in spec.cases}.values():
        tensors = [gd.tensor(a, requires_grad=is_drawn(x)) for x, a in zip(c.inputs, combinations(spec, dtype))]
        y = run(spec, c, tensors, dtype)
        if not y.requires_grad:
            continue
        for k, g in enumerate(grad(y, [t for t in tensors if t.requires_grad], gd.zeros_like(y), allow_unused=True)):
            assert g is None or not values(g).any(), f"{describe(spec, c, dtype, 'zero')}: input {k}: {values(g)[values(g) != 0][:5]}"


# ---- Kernel sets and threads ------------------------------------------------------------------------------------

EDGES = (1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 511, 512, 513, 1023, 1025, 4095, 4097, 20011)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("spec", ELEMENTWISE, ids=lambda spec: spec.name)
def test_kernel_sets_agree_at_every_edge(avx512, spec, dtype):
    """AVX-512 and AVX2 against portable: the same bits for ops of one rounding, else as close as both must be to the truth."""
    k = FLOATS.index(dtype)
    for n in EDGES:
        c = spec.cases[0].of_length(n)
        tensors = [gd.tensor(a) for a in draw(spec, c.inputs, dtype, generator(spec.name, dtype, n))]
        found = {}
        for isa in config.supported_isas():
            config.set_isa(isa)
            found[isa] = values(run(spec, c, tensors, dtype))
        for isa, y in found.items():
            what = f"{describe(spec, c, dtype)}: {isa} against portable"
            if spec.name in ONE_ROUNDING or spec.order == 0:
                assert_same_bits(y, found["portable"], what=what)
            else:
                assert_close(y, found["portable"], rtol=2 * spec.rtol[k], atol=2 * spec.atol[k] + 1e-6 * bool(spec.scale), what=what)


def large_cases(spec: Spec) -> tuple[Case, ...]:
    return spec.large or (spec.cases[0].of_length(100_003),) if spec.large or spec.elementwise else ()


@pytest.mark.parametrize(
    ("spec", "dtype"), [pytest.param(s, s.dtypes[0], id=f"{s.name}-{s.dtypes[0]}") for s in LIST if large_cases(s)]
)  # fmt: skip
def test_threads_do_not_change_bits(isa, spec, dtype):
    before = gd.get_num_threads()
    for c in large_cases(spec):
        arrays = draw(spec, c.inputs, dtype, generator(spec.name, str(c), dtype))
        tensors = [None if a is None else gd.tensor(a) for a in arrays]
        first: Any = None
        try:
            for threads in (1, 2, 3):
                gd.set_num_threads(threads)
                what = f"{describe(spec, c, dtype)}, {threads} threads"
                got = run(spec, c, tensors, dtype)
                if first is None:
                    assert_results(spec, c, got, arrays, dtype, what)
                    first = [values(y) for y in results(got)]
                for y, w in zip(results(got), first):
                    assert_same_bits(y, w, what=what)
        finally:
            gd.set_num_threads(before)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", ["nn", "nt", "tn", "tt"])
def test_n17_matmul_of_all_small_sizes(isa, form, dtype):
    """m, n from 1 to 35 and k through the same range, operands as they are and transposed, between guard bytes."""
    rng, tolerance = generator("matmul", form), 1e-6 if dtype == "float32" else 4e-15
    for m in range(1, 36):
        for n in range(1, 36):
            k = 1 + (7 * m + 11 * n) % 35
            a, b = rng.uniform(-1, 1, (m, k)).astype(dtype), rng.uniform(-1, 1, (k, n)).astype(dtype)
            ga = Guarded(a if form[0] == "n" else np.ascontiguousarray(a.T))
            gb = Guarded(b if form[1] == "n" else np.ascontiguousarray(b.T))
            what = f"matmul {form}, {isa}, {dtype}, m {m}, k {k}, n {n}"
            ta, tb = ga.tensor if form[0] == "n" else ga.tensor.T, gb.tensor if form[1] == "n" else gb.tensor.T
            got = call_with_canaries(functools.partial(gd.matmul, ta, tb), what)
            ga.assert_untouched(what)
            gb.assert_untouched(what)
            wide = a.astype(np.float64), b.astype(np.float64)
            assert_close(got, wide[0] @ wide[1], atol=tolerance * (np.abs(wide[0]) @ np.abs(wide[1])), what=what)


@pytest.mark.parametrize("dtype", FLOATS)
def test_matmul_around_blocks_of_k(isa, dtype):
    rng = generator("matmul k")
    for k in (0, 1, 255, 256, 257, 511, 512, 513, 1030):
        for m, n in ((1, 1), (1, 40), (40, 1), (5, 33), (50, 70)):
            a, b = rng.uniform(-1, 1, (m, k)).astype(dtype), rng.uniform(-1, 1, (k, n)).astype(dtype)
            wide = a.astype(np.float64), b.astype(np.float64)
            what = f"matmul, {isa}, {dtype}, m {m}, k {k}, n {n}"
            tolerance = (2e-6 if dtype == "float32" else 4e-15) * (np.abs(wide[0]) @ np.abs(wide[1]))
            whole = gd.tensor(a) @ gd.tensor(b)
            assert_close(whole, wide[0] @ wide[1], atol=tolerance, what=what)
            assert_same_bits(gd.tensor(a[-1:]) @ gd.tensor(b), values(whole)[-1:], what=f"{what}: the last row alone")


def test_leaves_are_not_written():
    """Backward leaves the numbers of the forward pass alone."""
    for spec in LIST:
        for c in spec.cases[:2]:
            tensors = leaves(spec, c, "float64") if any(map(is_drawn, c.inputs)) and "float64" in spec.dtypes else []
            if not spec.order or not tensors:
                continue
            before = [None if t is None else values(t) for t in tensors]
            outs = [y for y in results(run(spec, c, tensors, "float64")) if y.requires_grad]
            after = [values(y) for y in outs]
            grad(outs, [t for x, t in zip(c.inputs, tensors) if is_drawn(x)], [gd.ones_like(y) for y in outs], allow_unused=True)
            for t, b in zip([*tensors, *outs], [*before, *after]):
                if t is not None:
                    assert_same_bits(t, b, what=f"{spec.name} {c}")
