"""Gradients of every op: against differences to second order, and float32 against float64."""

from __future__ import annotations

import pytest
from checks import check_float32_gradient, check_gradient, check_second_gradient, differentiable, is_drawn, leaves, results, run
from specs import LIST

import gradino as gd

FIRST = [pytest.param(spec, id=spec.name) for spec in LIST if spec.order >= 1]
SECOND = [pytest.param(spec, id=spec.name) for spec in LIST if spec.order >= 2]
ONCE = [pytest.param(spec, id=spec.name) for spec in LIST if spec.order == 1]
NEVER = [pytest.param(spec, id=spec.name) for spec in LIST if spec.order == 0 and not spec.factory and "float64" in spec.dtypes]


@pytest.mark.parametrize("spec", FIRST)
def test_first_order(isa, spec):
    checked = [case for case in spec.cases if differentiable(spec, case)]
    assert checked, f"{spec.name}: no case can be differentiated"
    for case in checked:
        for layout in ("contiguous", "transposed", "strided"):
            check_gradient(spec, case, layout)


@pytest.mark.parametrize("spec", SECOND)
def test_second_order(spec):
    for case in spec.cases:
        if differentiable(spec, case):
            check_second_gradient(spec, case)
            check_second_gradient(spec, case, "transposed")


@pytest.mark.parametrize("spec", FIRST)
def test_float32_against_float64(isa, spec):
    for case in spec.cases:
        if any(map(is_drawn, case.inputs)):
            check_float32_gradient(spec, case)


@pytest.mark.parametrize("spec", ONCE)
def test_second_order_is_refused_by_name(spec):
    tensors = leaves(spec, spec.cases[0], "float64")
    y = results(run(spec, spec.cases[0], tensors, "float64"))[0].sum()
    with pytest.raises(gd.GradinoError, match=f"{spec.name}.*second derivative"):
        gd.autograd.grad(y, [t for t in tensors if t is not None and t.requires_grad], create_graph=True)


@pytest.mark.parametrize("spec", NEVER)
def test_without_gradient(spec):
    """The result of an op without gradient does not require one."""
    for y in results(run(spec, spec.cases[0], leaves(spec, spec.cases[0], "float64"), "float64")):
        assert not y.requires_grad, spec.name
