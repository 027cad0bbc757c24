"""Gradients checked against central differences, to first and second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradino._arguments import shown
from gradino.arena import step_arena
from gradino.autograd.gradients import grad
from gradino.errors import DTypeError, GradinoError
from gradino.grad_mode import enable_grad, no_grad
from gradino.tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(GradinoError):
    """The gradient of a function is not what finite differences say."""


def _inputs(name: str, inputs: Any) -> list[Any]:
    if not isinstance(inputs, (Tensor, list, tuple)):
        raise DTypeError(f"{name}: inputs must be a Tensor or several, got {shown(inputs)}")
    return [inputs] if isinstance(inputs, Tensor) else list(inputs)


def _outputs(result: Any) -> list[Tensor]:
    outs = [result] if isinstance(result, Tensor) else list(result)
    return [t for t in outs if isinstance(t, Tensor) and t.dtype.is_floating_point]


def _numeric(fn: Callable[..., Any], inputs: Sequence[Any], k: int, eps: float) -> list[np.ndarray[Any, Any]]:
    """For each output the Jacobian (elements of input k, elements of the output)."""
    base = inputs[k].detach()._array()
    columns: list[list[np.ndarray[Any, Any]]] = []
    for i in range(base.size):
        sides = []
        for sign in (1, -1):
            moved = base.copy().reshape(-1)
            moved[i] += sign * eps
            with step_arena(), no_grad():
                args = [Tensor(moved.reshape(base.shape)).to(inputs[k].device) if j == k else x for j, x in enumerate(inputs)]
                sides.append([t._array().reshape(-1) for t in _outputs(fn(*args))])
        columns.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
    if not columns:
        with step_arena(), no_grad():
            return [np.zeros((0, t.numel())) for t in _outputs(fn(*inputs))]
    return [np.stack([c[o] for c in columns]) for o in range(len(columns[0]))]


def gradcheck(
    fn: Callable[..., Any], inputs: Any, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True
) -> bool:
    """Whether the gradients of ``fn`` at ``inputs`` equal central differences.

    Args:
        fn: takes the inputs, returns a tensor or several.
        inputs: tensors; those that require grad are checked and must be float64.
        eps: step of the differences; atol, rtol: what may differ.

    Raises:
        GradcheckError: if they differ (or return False with ``raise_exception=False``).
    """
    args = _inputs("gradcheck", inputs)
    checked = [k for k, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise GradinoError("gradcheck: no input requires grad")
    for k in checked:
        if args[k].dtype.name != "float64":
            raise DTypeError(f"gradcheck: input {k} is {args[k].dtype}; differences need float64")
    numeric = {k: _numeric(fn, args, k, eps) for k in checked}
    with step_arena():
        outs = _outputs(fn(*args))
        for o, out in enumerate(outs):
            size = out.numel()
            for row in range(size):
                seed = np.zeros(size)
                seed[row] = 1
                grads: Sequence[Tensor | None] = [None] * len(checked)
                if out.requires_grad:  # else it is claimed to be constant, which differences may confirm
                    grads = grad(
                        out,
                        [args[k] for k in checked],
                        Tensor(seed.reshape(out.shape)).to(out.device),
                        retain_graph=True,
                        allow_unused=True,
                    )
                for k, g in zip(checked, grads, strict=True):
                    analytic = np.zeros(args[k].numel()) if g is None else g._array().reshape(-1)
                    expected = numeric[k][o][:, row]
                    if not np.allclose(analytic, expected, rtol, atol, equal_nan=True):
                        if not raise_exception:
                            return False
                        worst = int(np.nanargmax(np.abs(analytic - expected)))
                        what = f"d output[{o}][{row}] / d input[{k}][{worst}]"
                        raise GradcheckError(f"gradcheck: {what} is {analytic[worst]:.8g}, differences say {expected[worst]:.8g}")
    return True


def gradgradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    *,
    raise_exception: bool = True,
) -> bool:
    """Whether the second derivatives of ``fn`` equal differences of its first; arguments as in :func:`gradcheck`.

    ``grad_outputs``: what the first derivative is taken with, of the outputs' shapes (default random numbers);
    the derivative with respect to it is checked too.
    """
    args = _inputs("gradgradcheck", inputs)
    checked = [k for k, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise GradinoError("gradgradcheck: no input requires grad")

    def first(*values: Any) -> list[Tensor]:
        with enable_grad():
            leaves = [v.detach().requires_grad_() if k in moved and not v.requires_grad else v for k, v in enumerate(values)]
            outs = _outputs(fn(*leaves[: len(args)]))
            grads = grad(outs, [leaves[k] for k in checked], leaves[len(args) :], create_graph=True, allow_unused=True)
        return [leaves[k] * 0 if g is None else g for k, g in zip(checked, grads, strict=True)]

    with step_arena():
        if grad_outputs is None:  # uneven, so that what sums to nothing does not hide
            rng = np.random.default_rng(0)
            with no_grad():
                grad_outputs = [Tensor(rng.standard_normal(t.shape), dtype=t.dtype).to(t.device) for t in _outputs(fn(*args))]
        seeds = [g.detach().requires_grad_() for g in ([grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs)]
        moved = {*checked, *range(len(args), len(args) + len(seeds))}
        return gradcheck(first, [*args, *seeds], eps, atol, rtol, raise_exception)
