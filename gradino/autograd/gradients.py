"""``grad`` and ``backward``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradino import _calls
from gradino._arguments import shown
from gradino._core import wrap
from gradino._lib import check, ffi, lib
from gradino.errors import DTypeError, GradinoError, InvalidValueError
from gradino.factories import zeros_like
from gradino.tensor import Tensor, _wanted

__all__ = ["backward", "grad"]


def _tensors(name: str, argument: str, given: Any, optional: bool = False) -> list[Any]:
    """One tensor or several as a list; ``optional``: None may stand for one."""
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    for item in items:
        if not isinstance(item, Tensor) and not (optional and item is None):
            raise DTypeError(f"{name}: {argument} must be a Tensor or several, got {shown(item)}")
    return items


def _seeds(name: str, argument: str, given: Any, roots: list[Tensor]) -> list[Any]:
    seeds = [None] * len(roots) if given is None else _tensors(name, argument, given, optional=True)
    if len(seeds) != len(roots):
        raise GradinoError(f"{name}: {len(seeds)} gradients for {len(roots)} tensors")
    return seeds


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of the sum of ``outputs`` with respect to ``inputs``; no ``.grad`` is touched.

    Args:
        grad_outputs: gradient of each output, of its shape; None for an output with one element.
        retain_graph: keep the graph (default: ``create_graph``).
        create_graph: make the result differentiable.
        only_inputs, is_grads_batched: as they are; PyTorch's other ways are not supported.
        allow_unused: None for an input that the outputs do not depend on, instead of an error.
        materialize_grads: zeros for such an input.

    Returns:
        One tensor of the input's shape per input, in the active arena.

    >>> import gradino as gd
    >>> x = gd.tensor([1.0, 2.0], requires_grad=True)
    >>> gd.autograd.grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    outs, ins = _tensors("grad", "outputs", outputs), _tensors("grad", "inputs", inputs)
    if not only_inputs or is_grads_batched:
        raise InvalidValueError("grad: only_inputs=False and is_grads_batched=True are not supported")
    if materialize_grads and allow_unused is False:
        raise GradinoError("grad: materialize_grads=True means that unused inputs are allowed; leave allow_unused out")
    seeds = _seeds("grad", "grad_outputs", grad_outputs, outs)
    result = ffi.new("gd_tensor[]", len(ins))
    keep, create_graph = bool(create_graph if retain_graph is None else retain_graph), bool(create_graph)
    handles = [t._h for t in outs], [lib.GD_ABSENT if s is None else s._h for s in seeds], [t._h for t in ins]
    numbers = _calls.ran.numbers
    before = len(numbers)
    status = lib.gd_grad_of(handles[0], handles[1], len(outs), handles[2], len(ins), keep, create_graph, result)
    if status < 0:
        _calls.backward_failed()
    if len(numbers) > before:
        _calls.backward_is_done(before, keep)
    check(status)
    grads = [wrap(h) if h else None for h in result]
    for i, g in enumerate(grads):
        if g is None and materialize_grads:
            grads[i] = zeros_like(ins[i])
        elif g is None and not allow_unused:
            raise GradinoError(f"grad: the outputs do not depend on input {i}; pass allow_unused=True to get None for it")
    return tuple(grads)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """One backward of several tensors: adds to ``.grad`` of the leaves, or of ``inputs``. ``grad_tensors``: as in :func:`grad`."""
    if grad_variables is not None:
        raise InvalidValueError("backward: grad_variables is not supported; it is PyTorch's old name of grad_tensors")
    roots = _tensors("backward", "tensors", tensors)
    seeds = [lib.GD_ABSENT if s is None else s._h for s in _seeds("backward", "grad_tensors", grad_tensors, roots)]
    wanted = None if inputs is None else _wanted(inputs)
    keep, create_graph = bool(create_graph if retain_graph is None else retain_graph), bool(create_graph)
    numbers = _calls.ran.numbers
    before = len(numbers)
    count = -1 if wanted is None else len(wanted)
    status = lib.gd_backward_into([t._h for t in roots], seeds, len(roots), wanted or [], count, keep, create_graph, ffi.NULL)
    if status < 0:
        _calls.backward_failed()
    if len(numbers) > before:
        _calls.backward_is_done(before, keep)
    check(status)
