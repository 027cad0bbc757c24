"""``grad`` and ``backward``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino._core import wrap
from gradino._lib import check, ffi, lib
from gradino.errors import GradinoError
from gradino.tensor import Tensor

__all__ = ["backward", "grad"]


def _sequence(x: Any) -> list[Any]:
    return [x] if isinstance(x, Tensor) or x is None else list(x)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of the sum of ``outputs`` with respect to ``inputs``; no ``.grad`` is touched.

    Args:
        grad_outputs: gradient of each output; None for an output with one element.
        retain_graph: keep the graph (default: ``create_graph``).
        create_graph: make the result differentiable.
        allow_unused: None for an input that the outputs do not depend on, instead of an error.
    """
    outs, ins = _sequence(outputs), _sequence(inputs)
    seeds = [None] * len(outs) if grad_outputs is None else _sequence(grad_outputs)
    if len(seeds) != len(outs):
        raise GradinoError(f"grad: {len(seeds)} grad_outputs for {len(outs)} outputs")
    result = ffi.new("gd_tensor[]", len(ins))
    check(
        lib.gd_grad_of(
            [t._h for t in outs],
            [0 if s is None else s._h for s in seeds],
            len(outs),
            [t._h for t in ins],
            len(ins),
            create_graph if retain_graph is None else retain_graph,
            create_graph,
            result,
        )
    )
    grads = tuple(wrap(h) if h else None for h in result)
    if not allow_unused and None in [None if g is None else 1 for g in grads]:
        which = [i for i, g in enumerate(grads) if g is None]
        raise GradinoError(f"grad: the outputs do not depend on input {which[0]}; pass allow_unused=True to get None for it")
    return grads


def backward(
    tensors: Tensor | Sequence[Tensor], grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """``backward`` of each tensor in turn."""
    roots = _sequence(tensors)
    seeds = [None] * len(roots) if grad_tensors is None else _sequence(grad_tensors)
    for i, (t, g) in enumerate(zip(roots, seeds)):
        keep = retain_graph if retain_graph is not None else create_graph
        t.backward(g, keep or i + 1 < len(roots), create_graph)
