"""Functions made of several ops; methods and operators against functions; numbers and arrays as operands."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from checks import check_gradient, check_refused, check_second_gradient, check_values, differentiable, results, run
from composed import COMPOSED
from composed_moves import OTHER_ARGUMENTS as MOVED_OTHERWISE
from helpers import assert_close, assert_same_bits, values
from spec_kinds import LAYOUTS, draw, generator
from specs import LIST, SPECS

import gradino as gd

VALUES = [pytest.param(spec, dtype, id=f"{spec.name}-{dtype}") for spec in COMPOSED for dtype in spec.dtypes]
ERRORS = [pytest.param(s.name, *e, id=f"{s.name}-{k}") for s in COMPOSED for k, e in enumerate(s.errors)]
OTHER_ARGUMENTS = (
    "cat",
    "concat",
    "stack",
    "gather",
    "index_select",
    "where",
    "reshape",
    "permute",
    "split",
    "clip",
    "clamp_min",
    "clamp_max",
    "mvlgamma",
    "polygamma",
)  # than as a method, or in a spec
ELSE = (*OTHER_ARGUMENTS, *MOVED_OTHERWISE)
BOTH = [s for s in (*LIST, *COMPOSED) if hasattr(gd, s.name) and hasattr(gd.Tensor, s.name) and s.name not in ELSE]


@pytest.mark.parametrize(("spec", "dtype"), VALUES)
def test_values(spec, dtype):
    for case in spec.cases:
        for layout in LAYOUTS[:1] if spec.factory else LAYOUTS:
            check_values(spec, case, dtype, layout)


@pytest.mark.parametrize("spec", [spec for spec in COMPOSED if spec.order], ids=lambda spec: spec.name)
def test_gradients(spec):
    for case in spec.cases:
        if differentiable(spec, case):
            check_gradient(spec, case)
            check_gradient(spec, case, "transposed")
            check_second_gradient(spec, case)


@pytest.mark.parametrize(("name", "kind", "words", "call"), ERRORS)
def test_refused(name, kind, words, call):
    check_refused(kind, words, call, name)


@pytest.mark.parametrize("spec", BOTH, ids=lambda spec: spec.name)
def test_method_and_function_are_one(spec):
    dtype = spec.dtypes[0]
    for case in spec.cases:
        tensors = [gd.tensor(a) for a in draw(spec, case.inputs, dtype, generator(spec.name, str(case)))]
        by_function = getattr(gd, spec.name)(*tensors, **case.attributes)
        by_method = getattr(tensors[0], spec.name)(*tensors[1:], **case.attributes)
        for a, b in zip(results(by_function), results(by_method)):
            assert_same_bits(a, b, what=f"{spec.name} {case}")


OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "floor_divide": operator.floordiv,
    "remainder": operator.mod, "pow": operator.pow, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "matmul": operator.matmul,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    spec, apply = SPECS[name], OPERATORS[name]
    for dtype in spec.dtypes:
        case = spec.cases[1]
        a, b = draw(spec, case.inputs, dtype, generator(name, dtype))
        ta, tb = gd.tensor(a), gd.tensor(b)
        want = run(spec, case, [ta, tb], dtype)
        assert_same_bits(apply(ta, tb), want, what=f"{name} {dtype}")
        assert_same_bits(apply(ta, b), want, what=f"{name} {dtype}: array on the right")
        assert_same_bits(apply(a, tb), want, what=f"{name} {dtype}: array on the left")


def test_unary_operators():
    x, mask = gd.tensor([-1.5, 2.0]), gd.tensor([True, False])
    assert (-x).tolist() == [1.5, -2.0] and (+x).tolist() == [-1.5, 2.0] and abs(x).tolist() == [1.5, 2.0]
    assert (~mask).tolist() == [False, True]
    other = gd.tensor([True, True])
    assert (mask & other).tolist() == [True, False] and (mask | other).tolist() == [True, True] and (mask ^ other).tolist() == [False, True]
    for apply in (operator.and_, operator.or_, operator.xor):
        with pytest.raises(gd.DTypeError, match="bool"):
            apply(x, x)


# ---- P01: numbers and arrays on either side ---------------------------------------------------------------------------

NUMBERS = [np.float32(2), np.float64(2), np.int64(2), np.array(2.0), 2, 2.0, np.ones(2, np.float32), np.array([2.0, 3.0], np.float32)]


@pytest.mark.parametrize("s", NUMBERS, ids=lambda s: f"{type(s).__name__}-{np.asarray(s).dtype}-{np.asarray(s).ndim}")
def test_p01_operand_on_either_side(s):
    x = np.array([3.0, 5.0], np.float32)
    for name in ("add", "sub", "mul", "div", "pow", "lt", "eq", "maximum"):
        apply = OPERATORS.get(name)
        for swapped in (False, True):
            t = gd.tensor(x, requires_grad=True)
            if apply is None:
                y, f = gd.maximum(s, t) if swapped else gd.maximum(t, s), np.maximum
            else:
                y, f = apply(s, t) if swapped else apply(t, s), SPECS[name].ref
            what = f"{name}({'s, t' if swapped else 't, s'}) with {s!r}"
            assert type(y) is gd.Tensor, what
            plain = np.asarray(s, np.float64)
            assert_close(
                y, f(plain, x) if swapped else f(x, plain), rtol=1e-6, what=what, dtype="bool" if name in ("lt", "eq") else "float32"
            )
            assert y.requires_grad == (name not in ("lt", "eq")), what
            if name == "mul":
                y.sum().backward()
                assert_close(t.grad, np.broadcast_to(plain, 2), what=f"gradient of {what}")


def test_p01_in_place():
    t = gd.tensor([1.0, 2.0])
    t += np.float64(2)
    t *= 3
    t -= np.ones(2, np.float32)
    t /= 2
    assert t.tolist() == [4.0, 5.5] and t.dtype is gd.float32


def test_p01_matmul_with_an_array():
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), gd.arange(3, dtype="float32")
    assert (a @ b).tolist() == [5.0, 14.0] and (b @ a.T).tolist() == [5.0, 14.0]


def test_text_is_no_operand():
    with pytest.raises(TypeError):
        gd.tensor([1.0]) + "1"


# ---- P03: integers, bools and their dtypes ------------------------------------------------------------------------------


def test_p03_sums_do_not_wrap():
    for dtype in ("bool", "int32", "int64"):
        total = gd.ones(300, dtype=dtype).sum()
        assert total.item() == 300 and total.dtype is gd.int64
    assert gd.full((4,), 2**31 - 1, dtype="int32").sum().item() == 8589934588


def test_p03_division():
    t = gd.tensor([7, -7])
    assert (t / 2).tolist() == [3.5, -3.5] and (t // 2).tolist() == [3, -4] and (t % 3).tolist() == [1, 2]
    assert (gd.tensor([-7]) % -3).tolist() == [-1] and (7 // gd.tensor([-2])).tolist() == [-4] and (7 % gd.tensor([-2])).tolist() == [-1]
    ratio = (gd.tensor([1.0, -1.0, 0.0]) / 0).tolist()
    assert ratio[:2] == [float("inf"), -float("inf")] and ratio[2] != ratio[2]
    for divide in (operator.floordiv, operator.mod):
        with pytest.raises(ZeroDivisionError, match="zero"):
            divide(gd.tensor([1, 2]), 0)
    smallest = gd.tensor([-(2**63)])
    assert (smallest // -1).tolist() == [-(2**63)] and (smallest % -1).tolist() == [0]
    assert (gd.tensor([-(2**31)], dtype="int32") // -1).tolist() == [-(2**31)]


def test_p03_dtypes():
    f, i, b = gd.tensor([1.5]), gd.tensor([1]), gd.tensor([True])
    assert (f * 2.5).dtype is gd.float32 and (i + 2.5).dtype is gd.float32 and (b + 1).dtype is gd.int64
    assert (b + b).dtype is gd.bool and (b + b).tolist() == [True]
    assert (f * 1e300).tolist() == [float("inf")] and gd.tensor(2**24 + 1).float().item() == 16777216
    with pytest.raises(gd.DTypeError, match="mean"):
        i.mean()


def test_wrapping_integers():
    for dtype, top in (("int64", 2**63 - 1), ("int32", 2**31 - 1)):
        t = gd.tensor([top, -top - 1], dtype=dtype)
        assert (t + 1).tolist() == [-top - 1, -top] and (t - 2).tolist() == [top - 2, top - 1]
        assert (t * 2).tolist() == [-2, 0] and (-t).tolist() == [-top, -top - 1] and t.abs().tolist() == [top, -top - 1]
        assert (t.square() == t * t).all()


# ---- What is neither op nor composition ----------------------------------------------------------------------------------


def test_tensor_of_everything():
    for data in (
        1,
        2.5,
        True,
        [1, 2],
        [[1.0, 2.0], [3.0, 4.0]],
        (),
        [],
        np.float64(3),
        np.arange(4, dtype=np.int16),
        [np.float32(1), np.float32(2)],
    ):
        t = gd.tensor(data)
        assert_close(t, np.asarray(data), what=repr(data))
    assert gd.tensor([1.0]).dtype is gd.float32 and gd.tensor([1]).dtype is gd.int64 and gd.tensor([True]).dtype is gd.bool
    assert gd.tensor(np.zeros(1)).dtype is gd.float64 and gd.tensor(np.zeros(1), dtype="float32").dtype is gd.float32
    assert gd.tensor([gd.tensor(1.0), 2.0]).tolist() == [1.0, 2.0]
    for bad in ("text", [1, "a"], [[1], [2, 3]], object(), np.zeros(1, np.complex64)):
        with pytest.raises((gd.DTypeError, ValueError)):
            gd.tensor(bad)


def test_from_numpy_shares_memory():
    a = np.arange(12.0).reshape(3, 4)
    t = gd.from_numpy(a)
    a[1, 2] = -1
    assert t[1, 2].item() == -1 and t.dtype is gd.float64
    view = gd.from_numpy(a[::2, 1:])
    assert view.tolist() == a[::2, 1:].tolist() and not view.is_contiguous()
    backwards = gd.from_numpy(a[::-1])
    assert backwards.tolist() == a[::-1].tolist()
    with pytest.raises(TypeError, match="list"):
        gd.from_numpy([1.0])


def test_questions():
    a, b = gd.tensor([1.0, 2.0]), gd.tensor([1.0, 2.0 + 1e-7])
    assert gd.equal(a, a.clone()) and not gd.equal(a, a[:1]) and not gd.equal(a, gd.tensor([1.0, 3.0]))
    assert gd.allclose(a, b) and not gd.allclose(a, gd.tensor([1.0, 2.1]))
    assert gd.is_tensor(a) and not gd.is_tensor([1.0]) and gd.numel(gd.zeros(2, 3)) == 6


def test_likes():
    x = gd.zeros(2, 3, dtype="float64")
    for make in (gd.empty_like, gd.rand_like, gd.randn_like):
        assert make(x).shape == (2, 3) and make(x).dtype is gd.float64 and make(x, dtype="float32").dtype is gd.float32
    assert gd.empty(2, 3).shape == gd.empty((2, 3)).shape == (2, 3)
    assert gd.rand(2).requires_grad is False and gd.rand(2, requires_grad=True).requires_grad
    assert values(gd.full((2,), 7)).dtype == np.int64 and values(gd.full((2,), True)).dtype == bool
