"""Elementwise functions and reductions beyond what their specs say: other names, out=, signs and NaN, dtypes and attributes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits

import gradino as gd

NAN, INF = math.nan, math.inf
SAME = {
    "absolute": "abs", "negative": "neg", "sgn": "sign", "multiply": "mul", "divide": "div", "true_divide": "div", "subtract": "sub",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne", "fix": "trunc", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2",
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_other_names(name: str) -> None:
    assert getattr(gd, name) is getattr(gd, SAME[name])
    assert getattr(gd.Tensor, name) is getattr(gd.Tensor, SAME[name])


def test_out_takes_the_result() -> None:
    x = gd.tensor([1.0, 4.0])
    room, empty = gd.zeros(2), gd.empty(0)
    assert gd.sqrt(x, out=room) is room and room.tolist() == [1.0, 2.0]
    assert gd.add(x, 1, out=empty) is empty and empty.tolist() == [2.0, 5.0]
    whole = gd.zeros(2, dtype=gd.int64)
    assert gd.sum(gd.ones(2, 3, dtype=gd.int64), 1, out=whole).tolist() == [3, 3]
    values, indices = gd.max(gd.tensor([[1.0, 3.0]]), 1, out=(gd.empty(1), gd.empty(1, dtype=gd.int64)))
    assert values.tolist() == [3.0] and indices.tolist() == [1]
    with pytest.raises(gd.ShapeError, match="out has"):
        gd.exp(x, out=gd.zeros(3))
    with pytest.raises(gd.DTypeError, match="cannot hold"):
        gd.exp(x, out=whole)
    with pytest.raises(gd.GradinoError, match="records no gradient"):
        gd.exp(gd.ones(2, requires_grad=True), out=room)


def test_rounding_modes() -> None:
    a, b = gd.tensor([-7, 7, -6, 6]), gd.tensor([2, -2, 2, 4])
    assert gd.div(a, b, rounding_mode="trunc").tolist() == [-3, -3, -3, 1]
    assert gd.div(a, b, rounding_mode="floor").tolist() == [-4, -4, -3, 1]
    assert gd.div(a.float(), b, rounding_mode="trunc").tolist() == [-3, -3, -3, 1]
    with pytest.raises(gd.InvalidValueError, match="rounding_mode"):
        gd.div(a, b, rounding_mode="up")
    assert gd.tensor([2.345, 2.355]).round(decimals=1).tolist() == pytest.approx([2.3, 2.4])
    assert gd.tensor([1250.0]).round(decimals=-2).tolist() == [1200.0]


def test_pow_of_special_numbers(isa: str) -> None:
    """All pairs of zeros, infinities, NaN, odd and even integers: C's pow, signs of zeros included."""
    some = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, INF, -INF, NAN, 1e-45, -3e38, 16777215.0, 16777216.0]
    a, b = (np.ascontiguousarray(x.reshape(-1), dtype=np.float32) for x in np.meshgrid(some, some))
    with np.errstate(all="ignore"):
        want = np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    got = gd.pow(gd.tensor(a), gd.tensor(b))
    assert_same_bits(got, want, what=f"pow {isa}")


def test_pow_of_float32_is_nearly_exact(isa: str) -> None:
    rng = np.random.default_rng(3)
    a, b = np.exp(rng.uniform(-9, 9, 4000)).astype(np.float32), rng.uniform(-9, 9, 4000).astype(np.float32)
    exact = np.power(a.astype(np.float64), b.astype(np.float64))
    got = gd.pow(gd.tensor(a), gd.tensor(b)).numpy().astype(np.float64)
    assert (np.abs(got - exact) <= 0.51 * np.spacing(exact.astype(np.float32))).all()
    whole = np.arange(1.0, 30.0, dtype=np.float32)
    assert_same_bits(gd.tensor(whole) ** 4, whole**4, what="whole powers")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_of_any_size(isa: str, dtype: str) -> None:
    """Huge quotients, infinities, zeros and halves beside ordinary numbers, in one block and alone."""
    rng = np.random.default_rng(4)
    a = (rng.standard_normal(900) * np.exp(rng.uniform(-30, 30, 900))).astype(dtype)
    b = (rng.standard_normal(900) * np.exp(rng.uniform(-30, 30, 900))).astype(dtype)
    a[::50], b[::70], a[7::90], b[3::80] = 0, 0, INF, -INF
    with np.errstate(all="ignore"):
        for f, reference in ((gd.fmod, np.fmod), (gd.remainder, np.remainder), (gd.floor_divide, np.floor_divide)):
            want = reference(a, b)
            assert_close(f(gd.tensor(a), gd.tensor(b)), want, what=f"{f.__name__} {isa}")
            assert_close(f(gd.tensor(a[11:12]), gd.tensor(b[11:12])), want[11:12], what=f"{f.__name__} {isa} alone")


def test_gradients_at_nan_are_pytorchs() -> None:
    x = gd.tensor([1.0, NAN, 2.0], requires_grad=True)
    assert gd.sign(x).tolist() == [1.0, 0.0, 1.0]
    for y, want in ((x.max(), [0, 1, 0]), (x.abs().sum(), [1, 0, 1]), (gd.maximum(x, gd.zeros(3)).sum(), [1, 1, 1]),
                    (x.clamp(0, 1).sum(), [1, 0, 0])):  # fmt: skip
        assert gd.autograd.grad(y, x)[0].tolist() == want


def test_std_of_large_and_of_equal_numbers() -> None:
    x = gd.tensor([1e20, -1e20, 3e20], requires_grad=True)
    assert x.std().item() == pytest.approx(2e20)
    assert np.isfinite(gd.autograd.grad(x.std(), x)[0].numpy()).all()
    same = gd.ones(4, requires_grad=True)
    assert gd.autograd.grad(same.std(), same)[0].tolist() == [0, 0, 0, 0]


def test_nan_is_left_out() -> None:
    x = gd.tensor([[1.0, NAN], [NAN, NAN]])
    assert x.nansum(1).tolist() == [1.0, 0.0]
    assert x.nanmean(0).tolist()[0] == 1.0 and math.isnan(x.nanmean(1).tolist()[1])
    assert gd.aminmax(gd.tensor([3, 1, 2])) == (gd.tensor(1), gd.tensor(3))


def test_shifts() -> None:
    x = gd.tensor([1, -8])
    assert (x << 2).tolist() == [4, -32] and (x >> 1).tolist() == [0, -4]
    assert (1 << gd.tensor([3])).tolist() == [8] and (x << 64).tolist() == [0, 0] and (x >> 64).tolist() == [0, -1]


def test_dtypes_of_results() -> None:
    assert gd.result_type(gd.tensor([1, 2]), 1.0) is gd.float32
    assert gd.result_type(gd.ones(2, dtype=gd.int32), gd.tensor(1)) is gd.int32
    assert gd.result_type(gd.ones(2, dtype=gd.bfloat16), gd.tensor(1.0, dtype=gd.float64)) is gd.bfloat16
    assert gd.finfo(gd.float64).eps == np.finfo(np.float64).eps and gd.finfo(gd.bfloat16).bits == 16
    assert gd.iinfo(gd.int64).min == -(2**63)
    assert gd.can_cast(gd.bool, gd.int32) and not gd.can_cast(gd.float32, gd.int64) and not gd.can_cast(gd.int32, gd.bool)


def test_default_dtype() -> None:
    try:
        gd.set_default_dtype(gd.float64)
        assert gd.tensor(1.0).dtype is gd.zeros(2).dtype is (gd.tensor([1]) / 2).dtype is gd.tensor([1]).exp().dtype is gd.float64
        assert (gd.ones(2, dtype=gd.float32) * 2.5).dtype is gd.float32
    finally:
        gd.set_default_dtype(gd.float32)
    with pytest.raises(gd.DTypeError, match="floating point"):
        gd.set_default_dtype(gd.int64)


def test_attributes() -> None:
    x = gd.arange(6.0).reshape(2, 3)
    assert x.shape.numel() == 6 and x[1].storage_offset() == 3 and x.storage_offset() == 0
    assert x.new_zeros(2).tolist() == [0, 0] and x.new_full((2,), 3).dtype is gd.float32 and x.new_tensor([1]).dtype is gd.float32
    assert x.type() == "gradino.FloatTensor" and x.type("gradino.LongTensor").dtype is gd.int64 and gd.typename(x) == x.type()
    assert gd.is_floating_point(x) and not gd.is_complex(x) and gd.is_signed(x) and gd.is_nonzero(gd.tensor(2)) and gd.is_same_size(x, x)
    assert not (gd.is_conj(x) or gd.is_neg(x) or x.is_sparse or x.is_quantized or x.is_meta) and x.layout is gd.strided
    assert gd.real(x) is gd.conj(x) is gd.conj_physical(x) is gd.resolve_conj(x) is gd.resolve_neg(x) is x
    assert gd.clone(x) is not x and gd.scalar_tensor(2).dtype is gd.float32 and gd.asarray([1, 2]).dtype is gd.int64
    with pytest.raises(gd.DeviceError):
        x.cuda()
    assert x.contiguous(memory_format=gd.contiguous_format) is x
    with pytest.raises(gd.InvalidValueError, match="not supported"):
        x.contiguous(memory_format=gd.channels_last)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.to("cpu", gd.float64), lambda x: x.to(gd.float64, False, True), lambda x: x.to(device="cpu", dtype=gd.float64),
        lambda x: x.to(gd.zeros(1, dtype=gd.float64)), lambda x: x.to("cpu", gd.float64, non_blocking=True, copy=True),
    ],
)  # fmt: skip
def test_to(call) -> None:
    assert call(gd.ones(2)).dtype is gd.float64


def test_print_options() -> None:
    try:
        gd.set_printoptions(precision=2, sci_mode=True)
        assert repr(gd.tensor([1234.5])) == "tensor([1.23e+03])"
        gd.set_printoptions(threshold=3, edgeitems=1)
        assert "..." in repr(gd.arange(9))
    finally:
        gd.set_printoptions(profile="default")
    assert repr(gd.tensor([0.5])) == "tensor([0.5])"
    with pytest.raises(gd.InvalidValueError, match="profile"):
        gd.set_printoptions(profile="loud")
