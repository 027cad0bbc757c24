"""Every op that takes floats, on bfloat16 and float16: float32 inside, one rounding at the end; gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import describe, differentiable, is_drawn, leaves, reference, results, run
from halves import EPS, LARGEST, TINY, bits_of, over_bits, rounded, wide
from helpers import GUARD_BYTES, PATTERN, assert_close
from spec_kinds import HALVES, LAYOUTS, Case, Spec, draw, generator, laid_out
from specs import LIST

import gradino as gd
from gradino.autograd import grad

TAKING = [spec for spec in LIST if spec.halves]
SPECS = [pytest.param(spec, dtype, id=f"{spec.name}-{dtype}") for spec in TAKING for dtype in HALVES]
ROWS = [pytest.param(spec, dtype, id=f"{spec.name}-{dtype}") for spec in TAKING if spec.rows or spec.elementwise for dtype in HALVES]
LARGE = [pytest.param(spec, dtype, id=f"{spec.name}-{dtype}") for spec in TAKING if spec.large or spec.elementwise for dtype in HALVES]
SMOOTH = [pytest.param(spec, dtype, id=f"{spec.name}-{dtype}") for spec in TAKING if spec.order for dtype in HALVES]


def result_dtype(out: Any, dtype: str, attributes: dict[str, Any]) -> str:
    return out(dtype, **attributes) if callable(out) else dtype if out in ("same", "float", "wide") else out


def inputs_of(spec: Spec, case: Case, dtype: str, layout: str) -> tuple[list[Any], list[Any], list[np.ndarray]]:
    """Tensors in a layout, the numbers they hold as references take them, and the memory of the halves."""
    tensors: list[Any] = []
    arrays: list[Any] = []
    memory = []
    for a in draw(spec, case.inputs, "float32", generator(spec.name, str(case), dtype)):
        if a is None or a.dtype.kind != "f":
            a = laid_out(a, layout)
            tensors.append(None if a is None else gd.from_numpy(a))
            arrays.append(a)
            continue
        bits = bits_of(gd.from_numpy(np.ascontiguousarray(a).reshape(a.shape)).to(dtype))
        if layout == "guarded":
            space = np.full(2 * bits.size + 2 * GUARD_BYTES + 2, PATTERN, np.uint8)
            inner = space[GUARD_BYTES + 2 : GUARD_BYTES + 2 + 2 * bits.size].view(np.uint16).reshape(bits.shape)
            inner[...] = bits
            memory.append(space)
        else:
            inner = np.asarray(laid_out(bits, layout))
            memory.append(inner)
        tensors.append(over_bits(inner, dtype))
        arrays.append(tensors[-1].double()._array())
    return tensors, arrays, memory


def assert_rounded(spec: Spec, case: Case, got: Any, arrays: list[Any], dtype: str, what: str) -> None:
    """The results are the float64 reference's within the error of float32 and one rounding."""
    want = reference(spec.ref, spec, case, arrays, "float32")
    outs = spec.out if isinstance(spec.out, tuple) else (spec.out,)
    assert len(results(got)) == len(want) == len(outs), f"{what}: {len(results(got))} results"
    scales = reference(spec.scale, spec, case, arrays, "float32") if spec.scale is not None else want
    for y, w, out, scale in zip(results(got), want, outs, scales, strict=True):
        kind = result_dtype(out, dtype, case.attributes)
        assert y.dtype.name == kind, f"{what}: the dtype is {y.dtype}, must be {kind}"
        if kind not in HALVES:
            with np.errstate(all="ignore"):
                w = w if kind.startswith("float") else w.astype(kind)
            assert_close(y, w, rtol=1e-6, what=what)
            continue
        w = np.asarray(w, np.float64)
        error = spec.atol[0] + spec.rtol[0] * np.abs(scale)
        if spec.reads_rounded:
            error = error + EPS[dtype] * np.abs(w).max(initial=1.0)
        with np.errstate(all="ignore"):
            overflows = np.abs(w) > LARGEST[dtype] * (1 - 1e-5)
            w = np.where(overflows, rounded(w, dtype), w)
            error = np.where(
                overflows, np.inf, error + np.abs(w) * EPS[dtype] / (1 if spec.name == "uniform" else 2) + TINY[dtype]
            )  # uniform rounds down
        y = wide(y)
        within = (np.abs(y) <= LARGEST[dtype]) | np.isinf(y)
        assert within[~np.isnan(y)].all(), what
        assert_close(
            np.where(overflows & np.isinf(y), w, y), w, atol=np.where(np.isinf(error), 2 * LARGEST[dtype] * EPS[dtype], error), what=what
        )


def check(spec: Spec, case: Case, dtype: str, layout: str) -> None:
    what = describe(spec, case, dtype, layout)
    tensors, arrays, memory = inputs_of(spec, case, dtype, layout)
    before = [m.copy() for m in memory]
    assert_rounded(spec, case, run(spec, case, tensors, dtype), arrays, dtype, what)
    assert all((m == b).all() for m, b in zip(memory, before)), f"{what}: an input or what lies beside it was written"


@pytest.mark.parametrize(("spec", "dtype"), SPECS)
def test_values(spec, dtype):
    for case in spec.cases:
        for layout in LAYOUTS[:1] if spec.factory else ("contiguous", "transposed", "strided", "expanded"):
            check(spec, case, dtype, layout)


@pytest.mark.parametrize(("spec", "dtype"), ROWS)
def test_lengths(isa, spec, dtype):
    for n in (1, 15, 17, 67):
        for case in spec.rows(n) if spec.rows else (spec.cases[0].of_length(n),):
            check(spec, case, dtype, "guarded")


@pytest.mark.parametrize(("spec", "dtype"), LARGE)
def test_large_and_threads(spec, dtype):
    """More than one tile and several threads: the same bits as with one thread."""
    before = gd.get_num_threads()
    for case in spec.large or (spec.cases[0].of_length(100_003),):
        tensors, arrays, _ = inputs_of(spec, case, dtype, "contiguous")
        found = []
        try:
            for threads in (1, 3):
                gd.set_num_threads(threads)
                found.append(results(run(spec, case, tensors, dtype)))
        finally:
            gd.set_num_threads(before)
        what = describe(spec, case, dtype, "large")
        assert_rounded(spec, case, found[0] if isinstance(spec.out, tuple) else found[0][0], arrays, dtype, what)
        for a, b in zip(*found):
            assert a.dtype is b.dtype and np.array_equal(wide(a.double()), wide(b.double()), equal_nan=True), f"{what}: threads change bits"


@pytest.mark.parametrize("dtype", HALVES)
def test_elementwise_over_tiles(isa, dtype):
    """Broadcast, transposed and strided operands larger than a tile, and results in place."""
    rng = generator("tiles", dtype)
    for shape, other in (
        ((3, 5000), (5000,)),
        ((70, 90), (70, 1)),
        ((2, 3, 40, 50), (3, 1, 50)),
        ((4099,), ()),
        ((5000, 3), (1, 3)),
        ((1, 1), (90, 80)),
    ):
        a = gd.from_numpy(rng.uniform(-2, 2, shape).astype(np.float32)).to(dtype)
        b = gd.from_numpy(np.asarray(rng.uniform(-2, 2, other), np.float32)).to(dtype)
        want = rounded(wide(a) * wide(b), dtype)
        assert_close(wide(a * b), want, what=f"{shape} * {other}")
        if len(shape) == 2 and shape != (1, 1):
            assert_close(wide(a.T.clone().T * b), want, what=f"{shape} * {other}, transposed")
            assert_close(wide(a.T * b.T if b.ndim == 2 else (a * b).T), want.T, what=f"{shape} * {other}, both transposed")
            whole = gd.zeros(shape[0], 2 * shape[1], dtype=dtype)
            whole[:, ::2] = a
            part = whole[:, ::2]
            assert_close(wide(part * b), want, what=f"{shape} * {other}, strided")
            part *= b
            assert_close(wide(whole[:, ::2]), want, what=f"{shape} * {other}, in place")
            assert not wide(whole[:, 1::2]).any()


# ---- Gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "dtype"), SMOOTH)
def test_gradients(spec, dtype):
    """Against float64 at the rounded inputs; each op of the backward rounds once."""
    for case in spec.cases:
        if not differentiable(spec, case):
            continue
        what = describe(spec, case, dtype, "gradient")
        eps = (64 if spec.name == "gelu_tanh_bwd" else 8 if spec.name.endswith("_bwd") else 4) * EPS[dtype]  # second derivatives: more ops
        exact = [
            t if t is None or not t.is_floating_point() else t.detach().to(dtype).double().requires_grad_(t.requires_grad)
            for t in leaves(spec, case, "float64")
        ]
        halves = [t if t is None or not t.is_floating_point() else t.detach().to(dtype).requires_grad_(t.requires_grad) for t in exact]
        found = []
        for tensors, kind in ((exact, "float64"), (halves, dtype)):
            outs = [y for y in results(run(spec, case, tensors, kind)) if y.requires_grad]
            rng = generator(spec.name, str(case), "seed")
            seeds = [gd.tensor(rng.uniform(-1, 1, y.shape), dtype=dtype).to(y.dtype) for y in outs]
            finite = all(np.isfinite(y.detach().double()._array()).all() for y in outs)
            found.append(grad(outs, [t for x, t in zip(case.inputs, tensors) if is_drawn(x)], seeds, allow_unused=True))
        if not finite:
            continue  # float16 overflowed on the way, so there is nothing to compare
        for want, got in zip(*found):
            assert (got is None) == (want is None), what
            if got is not None:
                assert got.dtype.name == dtype, f"{what}: the gradient is {got.dtype}"
                w, y = want._array(), wide(got)
                w = np.where(np.isinf(y) & (np.abs(w) > LARGEST[dtype] / 8), y, w)  # float16 overflowed on the way
                assert_close(y, w, rtol=eps, atol=eps * min(float(np.abs(w).max(initial=0.1)), LARGEST[dtype]), what=what)


@pytest.mark.parametrize("scale", [300.0, 1e-4])
def test_the_variance_in_a_standard_deviation_has_room(scale: float) -> None:
    x = (gd.tensor([1.0, -1.0, 0.5, 0.0]) * scale).half().requires_grad_()
    wide = x.detach().float().requires_grad_()
    y, z = x.std(), wide.std()
    y.backward()
    z.backward()
    assert y.dtype is gd.float16 and y.item() == pytest.approx(z.item(), rel=2e-3)
    assert x.grad is not None and wide.grad is not None
    assert x.grad.float().tolist() == pytest.approx(wide.grad.tolist(), rel=2e-3, abs=1e-3)
    assert x.std(0, keepdim=True).shape == (1,)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [(3, 5), (300, 200), (7, 40, 90)])
def test_nonzero_finds_the_places_whatever_the_strides(dtype: str, shape: tuple[int, ...]) -> None:
    a = (np.random.default_rng(11).random(shape) < 0.1).astype(np.float32)
    x = gd.from_numpy(a).to(dtype)
    views = {"as it is": (x, a), "turned": (x.movedim(0, -1), np.moveaxis(a, 0, -1)), "every second": (x[..., ::2], a[..., ::2])}
    views["repeated"] = (x[..., :1].expand(*shape), np.broadcast_to(a[..., :1], shape))
    for layout, (view, want) in views.items():
        np.testing.assert_array_equal(gd.nonzero(view).numpy(), np.argwhere(want), err_msg=f"nonzero, {dtype}, {shape}, {layout}")
