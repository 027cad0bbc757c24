"""`+=` and its kin: in place, with a history where there is one, refused on leaves that require grad."""

import operator
from typing import Any

import numpy as np
import pytest

import gradino as gd
from gradino import nn


def test_manual_sgd_under_no_grad_changes_the_parameter() -> None:
    w = nn.Parameter(gd.ones(3))
    (w * gd.tensor([1.0, 2.0, 3.0])).sum().backward()
    same = w
    with gd.no_grad():
        w -= 0.5 * w.grad
    assert w is same and w.requires_grad
    assert w.tolist() == [0.5, 0.0, -0.5]


def test_every_operator_writes_where_its_views_see_it() -> None:
    t = gd.tensor([1.0, 2.0])
    view = t[:1]
    t += 1
    t *= 3
    t -= gd.tensor([1.0, 1.0])
    t /= 2
    assert t.tolist() == [2.5, 4.0] and view.tolist() == [2.5]
    t //= 2
    t **= 3
    assert t.tolist() == [1.0, 8.0] and view.tolist() == [1.0]
    t %= 5
    assert t.tolist() == [1.0, 3.0] and view.tolist() == [1.0]
    mask = t > 2
    first = mask[:1]
    mask |= t < 2
    assert first.tolist() == [True]
    mask &= gd.tensor([False, True])
    mask ^= True
    assert mask.tolist() == [True, False] and first.tolist() == [True]


def test_a_recorded_tensor_has_the_right_gradient() -> None:
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    t = x * 1
    t += np.float32(2)
    t *= x
    assert t.requires_grad
    t.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [4.0, 6.0]
    total = gd.tensor(0.0)
    for _ in range(2):
        total += (x * x).sum()
    assert total.requires_grad


def test_a_parameter_is_refused_while_recording() -> None:
    w = nn.Parameter(gd.ones(2))
    with pytest.raises(gd.GradinoError, match="no_grad"):
        w -= 1
    assert w.tolist() == [1.0, 1.0]


def test_overlap_and_expansion() -> None:
    m = gd.arange(9).reshape(3, 3)
    m += m.T
    assert m.tolist() == [[0, 4, 8], [4, 8, 12], [8, 12, 16]]
    wide = gd.zeros(1).expand(3)
    with pytest.raises(gd.GradinoError, match="expanded"):
        wide += 1
    with pytest.raises(gd.DTypeError, match="hold"):
        m += 0.5


DTYPES = ("bool", "int32", "int64", "float32", "float64")
NUMBERS = (True, 2, 1.5, -1)
TENSORS = tuple(f"{d} tensor" for d in DTYPES)
IN_PLACE = {name: getattr(operator, name) for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow")}
IN_PLACE |= {name: lambda x, y, name=name: getattr(x, name)(y) for name in ("add_", "sub_", "mul_", "div_")}
IN_PLACE |= {
    "copy_": lambda x, y: x.copy_(y),
    "at": lambda x, y: operator.setitem(x, slice(0, 2), y[:2] if hasattr(y, "shape") else y) or x,
}
IN_PLACE |= {"low": lambda x, y: x.clamp_(min=y), "high": lambda x, y: x.clamp_(max=y)}
ONLY_NUMBERS = {"fill_": lambda x, y: x.fill_(y), "masked_fill_": lambda x, y: x.masked_fill_(x > 0, y)}
ONLY_BOOLS = {name: getattr(operator, name) for name in ("iand", "ior", "ixor")}


def outcome(library: Any, call: Any, own: str, other: Any) -> Any:
    """Dtype and values of `x` after `call(x, other)`; "refused" where that raises, and then `x` must be what it was."""
    x = library.tensor([0, 1, 1], dtype=getattr(library, own))
    y = library.tensor([2, 2, 1], dtype=getattr(library, other.split()[0])) if isinstance(other, str) else other
    try:
        result = call(x, y)
    except (RuntimeError, TypeError):
        assert x.tolist() == [0, 1, 1]
        return "refused"
    assert result is x
    return str(result.dtype).split(".")[-1], result.tolist()


@pytest.mark.parametrize("own", DTYPES)
def test_what_a_dtype_can_hold_is_what_pytorch_says(own: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: what it refuses is asked of it")
    cases = [(name, call, y) for name, call in IN_PLACE.items() for y in (*NUMBERS, *TENSORS) if name != "copy_" or isinstance(y, str)]
    cases += [(name, call, y) for name, call in ONLY_NUMBERS.items() for y in NUMBERS]
    if own == "bool":
        cases += [(name, call, y) for name, call in ONLY_BOOLS.items() for y in (*NUMBERS, *TENSORS)]
    for name, call, y in cases:
        ours, theirs = outcome(gd, call, own, y), outcome(torch, call, own, y)
        subtracts = name in ("isub", "sub_") and (y is True or y == "bool tensor")  # PyTorch never subtracts a bool
        if own == "bool" and name == "ipow" and y is True:  # PyTorch's power of bools is bool
            assert ours == "refused"
        elif ours != theirs:
            assert subtracts and theirs == "refused", f"{name} of a {own} tensor and {y}: {ours}, PyTorch says {theirs}"


@pytest.mark.parametrize("symbol", ["iand", "ior", "ixor", "and_", "or_", "xor"])
def test_operators_on_bits(symbol: str) -> None:
    call = getattr(operator, symbol)
    for a, b in ((gd.tensor([1.0]), True), (gd.tensor([2]), 1.5), (gd.tensor([True]), gd.tensor([1.0]))):
        with pytest.raises(gd.DTypeError, match="but must be an integer or bool"):
            call(a, b)
    if symbol[0] == "i":
        with pytest.raises(gd.DTypeError, match="cannot hold"):
            call(gd.tensor([True]), 2)
    assert call(gd.tensor([True, False]), np.array([True, True])).dtype is gd.bool
    assert call(gd.tensor([6, -3]), 5).tolist() == [call(6, 5), call(-3, 5)]
    assert call(gd.tensor([6]), gd.tensor([True])).tolist() == [call(6, True)]


def test_writes_outside_of_arenas_do_not_gather_memory() -> None:
    b, x, w = gd.zeros(100, 100), gd.ones(100, 100), nn.Parameter(gd.ones(100, 100))
    array = np.ones((100, 100), np.float32)

    def writes() -> None:
        t = b
        t += x
        t *= 0.5
        b.add_(x, alpha=0.1).mul_(0.9).sub_(x).div_(2.0).clamp_(-1, 1)
        b.copy_(array)  # type: ignore[arg-type]
        b.normal_().uniform_()
        b[:] = array
        b[[1, 2]] = 3.0
        with gd.no_grad():
            nonlocal w
            w -= 0.1 * 2
            w.add_(x, alpha=0.5)

    writes()
    before = gd.permanent_arena().stats().used
    for _ in range(20):
        writes()
    assert gd.permanent_arena().stats().used - before < 20 * 1000  # names of memory, not memory
    assert b.tolist()[1] == [3.0] * 100 and b.tolist()[0] == [1.0] * 100
