"""What every op refuses: the kind of exception, words of its message, and that it works again afterwards."""

from __future__ import annotations

import pytest
from checks import check_refused, check_values, run
from spec_kinds import draw, generator
from specs import LIST, SPECS

import gradino as gd

ERRORS = [pytest.param(s.name, *e, id=f"{s.name}-{k}-{e[0].__name__}") for s in LIST for k, e in enumerate(s.errors)]


@pytest.mark.parametrize(("name", "kind", "words", "call"), ERRORS)
def test_refused(name, kind, words, call):
    spec = SPECS[name]
    used = gd.active_arena().stats().used
    check_refused(kind, words, call, name)
    assert gd.active_arena().stats().used - used < 1 << 16, f"{name}: a refused call kept memory"
    check_values(spec, spec.cases[0], spec.dtypes[0])


@pytest.mark.parametrize("spec", [spec for spec in LIST if not spec.factory], ids=lambda spec: spec.name)
def test_a_tensor_of_a_past_step_is_refused(spec):
    case = spec.cases[0]
    with gd.step_arena():
        arrays = draw(spec, case.inputs, spec.dtypes[0], generator(spec.name))
        tensors = [None if a is None else gd.tensor(a) for a in arrays]
    with pytest.raises(gd.StaleTensorError, match="was reset"):
        run(spec, case, tensors, spec.dtypes[0])
