"""The suite's own checks, on ops with a planted fault: each fault is caught by the check that is there for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from building import SANITIZED
from checks import (
    check_float32_gradient,
    check_gradient,
    check_lengths,
    check_refused,
    check_second_gradient,
    check_values,
)
from helpers import Guarded, assert_close, assert_same_bits, call_with_canaries, raw_bytes, values
from spec_kinds import Spec, case
from specs import SPECS

import gradino as gd


def broken(name: str, fault: Any, **changes: Any) -> Spec:
    """The spec of an op with `fault` applied to what it returns."""
    spec = SPECS[name]
    return replace(spec, call=lambda m, *tensors, **attributes: fault(spec.call(m, *tensors, **attributes), *tensors), **changes)


def caught(words: str) -> Any:
    return pytest.raises(AssertionError, match=words)


# ---- Values -------------------------------------------------------------------------------------------------


def test_a_correct_op_passes():
    for layout in ("contiguous", "strided", "guarded"):
        check_values(SPECS["exp"], case((7,)), "float32", layout)
    check_lengths(SPECS["exp"], "float32")
    check_gradient(SPECS["exp"], case((3,)))
    check_second_gradient(SPECS["exp"], case((3,)))
    check_float32_gradient(SPECS["exp"], case((3,)))


@pytest.mark.parametrize("dtype, units", [("float32", 3), ("float64", 5)])
def test_a_result_three_units_off_is_caught(dtype, units):
    step = units * float(np.finfo(dtype).eps)
    with caught(rf"exp \[.*{dtype}, contiguous\] \(7,\): .* differ; at"):
        check_values(broken("exp", lambda y, x: y * (1 + step)), case((7,)), dtype)


def test_a_wrong_dtype_is_caught():
    with caught("the dtype is float64, must be float32"):
        check_values(broken("exp", lambda y, x: y.double()), case((7,)), "float32")


def test_a_wrong_shape_is_caught():
    with caught(r"the shape is \(1, 7\), must be \(7,\)"):
        check_values(broken("exp", lambda y, x: y.unsqueeze(0)), case((7,)), "float32")


def test_a_dropped_nan_is_caught():
    """A maximum that, like the machine's instruction, takes the second operand where one is NaN."""
    x = np.array([np.nan, 1.0, 2.0], np.float32)

    def instruction(a: gd.Tensor, b: gd.Tensor) -> gd.Tensor:
        return gd.where(a > b, a, b)

    want = np.maximum(x, 0)
    with caught("1 of 3 elements .* at \\(0,\\) it is np.float64\\(0.0\\), must be np.float64\\(nan\\)"):
        assert_close(instruction(gd.tensor(x), gd.zeros(3)), want, what="maximum")
    assert_close(gd.maximum(gd.tensor(x), gd.zeros(3)), want, what="maximum")


def test_a_nan_too_many_is_caught():
    with caught("must be"):
        assert_close(gd.tensor([float("nan")]), np.array([1.0]), rtol=1e300, atol=1e300)
    with caught("must be"):
        assert_close(gd.tensor([float("inf")]), np.array([-np.inf]))
    with caught("must be"):
        assert_close(gd.tensor([float("inf")]), np.array([1.0]), rtol=1e300)


def test_another_sign_of_zero_has_other_bits():
    with caught("bits differ in 1 of 2 elements .* flat index 1"):
        assert_same_bits(gd.tensor([1.0, 0.0]), gd.tensor([1.0, -0.0]))
    assert_same_bits(gd.tensor([float("nan"), 2.0]), gd.tensor([-float("nan"), 2.0]))


# ---- Lengths and memory ----------------------------------------------------------------------------------------


def without_tail(y: gd.Tensor, x: gd.Tensor) -> gd.Tensor:
    """The last elements, which do not fill a vector of 16, stay what they were."""
    whole = y.numel() // 16 * 16
    return gd.cat([y[:whole], x[whole:]]) if y.ndim == 1 else y


def one_short(y: gd.Tensor, x: gd.Tensor) -> gd.Tensor:
    """A tail with one element too few."""
    return gd.cat([y[:-1], x[-1:]]) if y.ndim == 1 and y.numel() % 16 else y


def rough_tail(y: gd.Tensor, x: gd.Tensor) -> gd.Tensor:
    """A tail by another formula, as accurate, but with other bits."""
    whole = y.numel() // 16 * 16
    return gd.cat([y[:whole], y[whole:] * (1 + 2**-23)]) if y.ndim == 1 else y


@pytest.mark.parametrize("fault", [without_tail, one_short, rough_tail])
def test_a_faulty_tail_is_caught(fault):
    with caught("bits differ|elements of shape"):
        check_lengths(broken("exp", fault), "float32")


def spill(bytes_after: int, dtype: str) -> Any:
    """Writes behind the end of the result, as a store of a whole vector would."""

    def fault(y: gd.Tensor, *inputs: gd.Tensor) -> gd.Tensor:
        end = y.numel() * y.dtype.itemsize
        raw_bytes(y, end, bytes_after)[:] = 0
        return y

    return fault


@pytest.mark.skipif(SANITIZED, reason="the planted spill is real: the sanitizer stops the process before the canary is read")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_one_element_spilled_is_caught(dtype):
    one = np.dtype(dtype).itemsize
    with caught(r"bytes after result 0 were written: \+\[0, 1, 2, 3"):
        check_values(broken("neg", spill(one, dtype)), case((5,)), dtype)
    with caught("bytes after result 0 were written"):  # also where the result ends with a whole vector
        check_lengths(broken("neg", spill(one, dtype)), dtype, lengths=range(64, 65))


def test_a_byte_before_the_result_is_caught():
    def fault() -> gd.Tensor:
        y = gd.ones(5)
        raw_bytes(y, -1, 1)[:] = 0
        return y

    with caught(r"bytes before the result were written: \[-1\]"):
        call_with_canaries(fault)


def test_a_written_input_or_guard_is_caught():
    for at in (-1, 3 * 4):
        guarded = Guarded(np.ones(3, np.float32))
        guarded.assert_untouched()
        raw_bytes(guarded.tensor, at, 1)[:] = 0
        with caught("an input or its guard bytes were written"):
            guarded.assert_untouched()

    def overwrite(y: gd.Tensor, x: gd.Tensor) -> gd.Tensor:
        if x.numel():
            raw_bytes(x, 0, 4)[:] = 0
        return y

    for layout in ("contiguous", "strided", "guarded"):
        with caught("an input or its guard bytes were written"):
            check_values(broken("neg", overwrite), case((5,)), "float32", layout)


# ---- Gradients --------------------------------------------------------------------------------------------------


def test_a_wrong_gradient_is_caught():
    """The value of exp with a gradient that is a thousandth too large."""

    def fault(y: gd.Tensor, x: gd.Tensor) -> gd.Tensor:
        return y * 1.001 - y.detach() * 0.001

    check_values(broken("exp", fault, rtol=(1e-6, 1e-14)), case((3,)), "float64")
    with caught(r"exp \[.*\] \(3,\): gradcheck: d output\[0\]\[0\] / d input\[0\]\[0\] is .*, differences say"):
        check_gradient(broken("exp", fault), case((3,)))


def test_a_missing_gradient_is_caught():
    with caught("gradcheck: .* is 0, differences say"):
        check_gradient(broken("exp", lambda y, x: y.detach() + x * 0), case((3,)))


def test_a_gradient_of_one_input_only_is_caught():
    with caught(r"d input\[1\]"):
        check_gradient(broken("mul", lambda y, a, b: a * b.detach()), case((3,), (3,)))


def test_a_wrong_second_gradient_is_caught():
    """First derivative right, second lost: x * x, one factor of its slope detached."""

    def fault(y: gd.Tensor, x: gd.Tensor) -> gd.Tensor:
        return (x.detach() * x) * 2 - (x * x).detach()

    square = broken("square", fault)
    check_gradient(square, case((3,)))
    with caught("square .*gradcheck"):
        check_second_gradient(square, case((3,)))


def test_a_float32_gradient_that_differs_is_caught():
    def fault(y: gd.Tensor, x: gd.Tensor) -> gd.Tensor:
        return y * 1.001 if y.dtype is gd.float32 else y

    with caught("exp .*float32, gradient"):
        check_float32_gradient(broken("exp", fault), case((3,)))


# ---- Errors -------------------------------------------------------------------------------------------------------


def test_a_missing_or_other_error_is_caught():
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_refused(gd.ShapeError, "broadcast", lambda: gd.ones(2) + gd.ones(2), "add")
    with caught("must be GradinoError"):
        check_refused(gd.GradinoError, "broadcast", lambda: gd.ones(2) + gd.ones(3), "add")
    with caught("the message must have 'dimension 7'"):
        check_refused(gd.ShapeError, "dimension 7", lambda: gd.ones(2) + gd.ones(3), "add")


def test_values_are_copies():
    t = gd.ones(2)
    taken = values(t)
    t.zero_()
    assert taken.tolist() == [1.0, 1.0]
