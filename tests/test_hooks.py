"""Hooks of tensors and modules, walking the graph, anomalies, backward of several tensors: as PyTorch has them."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest
from test_function import both, flat

import gradino as gd
from gradino import _calls, nn

# ---- Tensors -----------------------------------------------------------------------------------------------------------


def test_tensor_hooks_see_and_replace_gradients() -> None:
    def case(t: Any) -> Any:
        log: list[Any] = []
        x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * 2
        z = y * y
        x.register_hook(lambda g: log.append(("x", flat(g))))
        y.register_hook(lambda g: g + 1)
        y.register_hook(lambda g: (log.append(("y", flat(g))), g * 10)[1])
        second = z.register_hook(lambda g: log.append(("z", flat(g))))
        y.retain_grad()
        (z + y).sum().backward(retain_graph=True)
        second.remove()
        second.remove()
        (z + y).sum().backward(retain_graph=True)
        kept = y.grad.clone()
        (gx,) = t.autograd.grad(z.sum(), x, retain_graph=True)
        (gy,) = t.autograd.grad(z.sum(), y)
        return [[entry[0] == "y" for entry in log], [entry[1] for entry in log], x.grad, kept, gx, gy]

    both(case)


def test_hooks_of_leaves_and_parameters_over_several_backwards() -> None:
    def case(t: Any) -> Any:
        log: list[Any] = []
        w = t.nn.Parameter(t.ones(2, 3))
        w.register_hook(lambda g: log.append(flat(g)))
        w.register_hook(lambda g: g * 2)
        w.register_post_accumulate_grad_hook(lambda p: log.append([float(p is w), *flat(p.grad)]))
        for _ in range(2):
            x = t.tensor([[1.0, 2.0, 3.0], [0.5, 0.25, 0.125]])
            (t.nn.functional.linear(x, w).sum() + w.sum()).backward()
        return [log, w.grad]

    both(case)


def test_a_hook_under_create_graph_is_recorded() -> None:
    def case(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)
        y = x * 3
        y.register_hook(lambda g: g * x)
        (g,) = t.autograd.grad((y * y).sum(), x, create_graph=True)
        g.sum().backward()
        return [g, x.grad]

    both(case)


def test_the_optimizer_in_a_hook() -> None:
    w = nn.Parameter(gd.ones(3))
    opt = gd.optim.SGD([w], lr=0.5)

    def update(p: gd.Tensor) -> None:
        opt.step()
        opt.zero_grad()

    w.register_post_accumulate_grad_hook(update)
    (w * 2).sum().backward()
    assert w.tolist() == [0.0] * 3 and w.grad is None


def test_gradients_in_hooks_may_be_kept() -> None:
    kept: list[gd.Tensor] = []
    x = gd.randn(1000, requires_grad=True)
    y = x
    for _ in range(5):
        y = y * 1.5
        y.register_hook(kept.append)
    y.sum().backward()
    assert [g.tolist()[0] for g in kept] == [1.5**k for k in range(5)]
    assert all(len(set(g.tolist())) == 1 for g in kept)


def test_refused_hooks() -> None:
    x = gd.ones(2, requires_grad=True)
    with pytest.raises(gd.GradinoError, match="doesn't require gradient"):
        gd.ones(2).register_hook(print)
    with pytest.raises(gd.GradinoError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)
    y = x * 2
    handle = y.register_hook(lambda g: g.sum())
    with pytest.raises(gd.GradinoError, match="shape"):
        y.sum().backward()
    handle.remove()
    y.register_hook(lambda g: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="must return a Tensor or None"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.own_arenas
def test_hooks_end_with_their_tensors() -> None:
    before = len(_calls._hooks), len(_calls._objects)
    w = nn.Parameter(gd.ones(2))
    w.register_hook(lambda g: None)
    with gd.step_arena():
        for _ in range(100):
            (w * 2).register_hook(lambda g: None)
        assert len(_calls._hooks) == before[0] + 101
    assert len(_calls._hooks) == before[0] + 1
    w2 = nn.Linear(2, 2)
    seen: list[int] = []
    w2.weight.register_hook(lambda g: seen.append(1))
    w2.double()
    with gd.step_arena():
        w2(gd.ones(1, 2, dtype=gd.float64)).sum().backward()
    assert seen == [1], "a converted parameter keeps its hooks"
    del w, w2
    gc.collect()
    assert len(_calls._hooks) == before[0]


# ---- Modules --------------------------------------------------------------------------------------------------------------


def net(t: Any) -> Any:
    class Inner(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w = t.nn.Parameter(t.tensor([[1.0, 2.0], [3.0, 4.0]]))

        def forward(self, x: Any, scale: float = 1.0) -> Any:
            return t.nn.functional.linear(x, self.w) * scale

    class Outer(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            return self.inner(x, scale=2.0) + 1, x * 3

    return Outer()


def test_module_hooks_in_order() -> None:
    def case(t: Any) -> Any:
        log: list[list[float]] = []

        def note(number: float, *values: Any) -> None:
            log.append([number, *flat(values)])

        m = net(t)
        m.register_forward_pre_hook(lambda mod, args: note(1, args))
        m.register_forward_pre_hook(lambda mod, args: (note(2, args), args[0] * 2)[1], prepend=True)
        m.inner.register_forward_pre_hook(
            lambda mod, args, kwargs: (note(3, args, kwargs["scale"]), (args, {"scale": 0.5}))[1], with_kwargs=True
        )
        m.inner.register_forward_hook(lambda mod, args, out: (note(4, args, out), out * 10)[1])
        m.inner.register_forward_hook(lambda mod, args, kwargs, out: note(5, args, kwargs["scale"], out), with_kwargs=True, prepend=True)
        m.register_forward_hook(lambda mod, args, out: note(6, args, out))
        m.inner.register_full_backward_pre_hook(lambda mod, go: (note(7, go), (go[0] * 2,))[1])
        m.inner.register_full_backward_hook(lambda mod, gi, go: (note(8, gi, go), (gi[0] + 1,))[1])
        m.register_full_backward_hook(lambda mod, gi, go: note(9, gi, go))
        gone = m.register_full_backward_hook(lambda mod, gi, go: note(10, gi, go))
        gone.remove()
        x = t.tensor([[1.0, -1.0]], requires_grad=True)
        a, b = m(x)
        ((a * a).sum() + b.sum()).backward(retain_graph=True)
        (a + b[:, :1]).sum().backward()
        return [log, x.grad, m.inner.w.grad]

    both(case)


def test_backward_hooks_without_input_gradients() -> None:
    log: list[Any] = []
    m = nn.Linear(2, 3)
    m.register_full_backward_hook(lambda mod, gi, go: log.append((gi, flat(go))))
    m(gd.ones(1, 2)).sum().backward()
    assert log == [((None,), [1.0, 1.0, 1.0])] and m.weight.grad is not None
    with gd.no_grad():
        m(gd.ones(1, 2))


def test_always_call_and_hooks_that_return_nonsense() -> None:
    m = net(gd)
    log: list[Any] = []
    m.inner.register_forward_hook(lambda mod, args, out: log.append(out), always_call=True)
    m.inner.register_forward_hook(lambda mod, args, out: log.append("never"))
    with pytest.raises(gd.ShapeError):
        m(gd.ones(1, 3))
    assert log == [None]
    m.register_forward_pre_hook(lambda mod, args, kwargs: args, with_kwargs=True)
    with pytest.raises(gd.GradinoError, match="tuple of \\(new_args, new_kwargs\\)"):
        m(gd.ones(1, 2))
    n = nn.Linear(2, 2)
    n.register_full_backward_hook(lambda mod, gi, go: (None, None))
    with pytest.raises(gd.GradinoError, match="invalid number of grad_input, got 2, but expected 1"):
        n(gd.ones(2, requires_grad=True)).sum().backward()
    with pytest.raises(gd.GradinoError, match="register_full_backward_hook"):
        n.register_backward_hook(print)


def test_state_dict_hooks() -> None:
    def case(t: Any) -> Any:
        log: list[float] = []
        m = net(t)
        m.register_state_dict_pre_hook(lambda mod, prefix, keep: log.append(len(prefix)))
        m.inner.register_state_dict_post_hook(lambda mod, state, prefix, meta: state.update({prefix + "extra": t.ones(1)}))
        m.register_state_dict_post_hook(lambda mod, state, prefix, meta: log.append(len(state)))
        state = m.state_dict(prefix="net.")
        assert list(state) == ["net.inner.w", "net.inner.extra"]

        def rename(mod: Any, state: Any, prefix: str, meta: Any, strict: bool, missing: Any, unexpected: Any, errors: Any) -> None:
            log.extend([len(prefix), float(strict)])
            state[prefix + "w"] = state.pop(prefix + "old") * 2

        m.inner.register_load_state_dict_pre_hook(rename)
        m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
        given = {"inner.old": t.ones(2, 2)}
        m.load_state_dict(given)
        assert list(given) == ["inner.old"]
        return [log, m.inner.w]

    both(case)


def test_a_module_with_hooks_is_copied_with_them() -> None:
    m = nn.Linear(2, 2)
    m.register_forward_hook(lambda mod, args, out: out * 0)
    assert copy.deepcopy(m)(gd.ones(2)).tolist() == [0.0, 0.0] and len(m._forward_hooks) == 1


# ---- The graph, anomalies, several roots -----------------------------------------------------------------------------------


def test_walking_the_graph() -> None:
    x, w = gd.ones(2, requires_grad=True), nn.Parameter(gd.ones(2))
    y = (x * w + 1).sum()
    assert x.grad_fn is None and y.grad_fn.name() == "SumBackward0"
    names, stack, seen = [], [y.grad_fn], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        names.append(node.name())
        stack += [n for n, _ in node.next_functions if n is not None]
    assert sorted(names) == ["AccumulateGrad", "AccumulateGrad", "AddBackward0", "MulBackward0", "SumBackward0"]
    ends = [n for n, k in y.grad_fn.next_functions[0][0].next_functions[0][0].next_functions]
    assert ends[0].variable.tolist() == [1.0, 1.0] and ends[1].variable.requires_grad
    values, places = gd.ones(2, 2, requires_grad=True).max(1)
    assert values.grad_fn == (values * 2).grad_fn.next_functions[0][0] and values.output_nr == 0 and not places.requires_grad


def test_anomalies_name_op_and_place() -> None:
    x = gd.tensor([0.0, 1.0], requires_grad=True)
    with gd.autograd.detect_anomaly():
        y = x * gd.tensor([gd.nan, 1.0])  # the culprit
        with pytest.raises(gd.GradinoError, match=r"`mul` gave a gradient with NaN to its input 0(.|\n)*test_hooks.py(.|\n)*the culprit"):
            y.sum().backward()
    assert x.grad is None
    y.sum().backward()
    with gd.autograd.detect_anomaly(check_nan=False):
        (x * gd.nan).sum().backward()
    with gd.autograd.set_detect_anomaly(True), pytest.raises(gd.GradinoError, match="NaN"):
        (x * gd.nan).sum().backward()
    (x * gd.nan).sum().backward()


def test_backward_of_several_tensors_and_into_some() -> None:
    def case(t: Any) -> Any:
        log: list[float] = []
        x = t.tensor([1.0, 2.0], requires_grad=True)
        w = t.tensor([3.0, 4.0], requires_grad=True)
        y = x * w
        y.register_hook(lambda g: log.append(float(g.sum())))
        t.autograd.backward([y.sum(), y * 2], [None, t.ones(2)], retain_graph=True)
        first = [x.grad.clone(), w.grad.clone()]
        y.sum().backward(inputs=[x], retain_graph=True)
        t.autograd.backward(y.sum(), inputs=w)
        with pytest.raises(RuntimeError, match="cannot be empty"):
            y.sum().backward(inputs=[])
        return [log, *first, x.grad, w.grad]

    both(case)


# ---- autograd.functional -----------------------------------------------------------------------------------------------------


def test_functional() -> None:
    def case(t: Any) -> Any:
        f = t.autograd.functional
        x = t.tensor([0.5, 1.5], dtype=t.float64)
        y = t.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=t.float64)

        def several(a: Any, b: Any) -> Any:
            return (a.exp() * b).sum(0), a.sin()

        def scalar(a: Any, b: Any) -> Any:
            return ((a**3) * b).sum()

        v = (t.tensor([1.0, -2.0], dtype=t.float64), t.tensor([0.5, 0.25], dtype=t.float64))
        u = (x * 2, y + 1)
        return [
            f.vjp(several, (x, y), v),
            f.jvp(several, (x, y), u),
            f.jacobian(several, (x, y)),
            f.jacobian(lambda a: a * 2, x),
            f.hessian(scalar, (x, y)),
            f.hessian(lambda a: (a**3).sum(), x),
            f.vhp(scalar, (x, y), u),
            f.hvp(scalar, (x, y), u),
        ]

    both(case)


def test_functional_with_a_graph_and_strict() -> None:
    def case(t: Any) -> Any:
        f = t.autograd.functional
        x = t.tensor([0.5, 1.5], dtype=t.float64, requires_grad=True)
        jac = f.jacobian(lambda a: a**3, x, create_graph=True)
        (gx,) = t.autograd.grad(jac.sum(), x)
        for function in (f.jacobian, f.hessian):
            with pytest.raises(RuntimeError, match="strict mode"):
                function(lambda a: t.ones(()), x, strict=True)
        with pytest.raises(RuntimeError, match="can only be None"):
            f.vjp(lambda a: a, x)
        return [jac, gx, f.vjp(lambda a: t.ones(()), x)]

    both(case)
