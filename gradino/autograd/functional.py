"""Derivatives of functions: products with the Jacobian and the Hessian, and these themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradino._arguments import shown
from gradino.autograd.gradients import grad
from gradino.errors import GradinoError, InvalidValueError
from gradino.factories import ones_like, zeros, zeros_like
from gradino.functions import stack
from gradino.grad_mode import enable_grad
from gradino.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


def _several(given: Any, what: str, name: str) -> tuple[bool, Tensors]:
    """(whether several were given, all of them)"""
    items = given if isinstance(given, tuple) else tuple(given) if isinstance(given, list) else (given,)
    for t in items:
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}: the {what} must be a Tensor or a tuple of Tensors, got {shown(t)}")
    return isinstance(given, (tuple, list)), items


def _leaves(inputs: Tensors, create_graph: bool) -> Tensors:
    """Inputs for the function, of a graph of their own or of the caller's."""
    return tuple(t.view(t.shape) if create_graph and t.requires_grad else t.detach().requires_grad_() for t in inputs)


def _values(tensors: Tensors, create_graph: bool) -> Tensors:
    return tensors if create_graph else tuple(t.detach() for t in tensors)


def _one(several: bool, tensors: Tensors) -> Any:
    return tensors if several else tensors[0]


def _run(func: Callable[..., Any], leaves: Tensors, name: str) -> tuple[bool, Tensors]:
    return _several(func(*leaves), "outputs of the user-provided function", name)


def _vectors(v: Any, like: Tensors, name: str, what: str) -> Tensors:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise GradinoError(f"{name}: the vector v can only be None if the {what} is one tensor with a single element")
        return (ones_like(like[0].detach()),)
    _, vectors = _several(v, "vector v", name)
    if len(vectors) != len(like):
        raise GradinoError(f"{name}: v has {len(vectors)} tensors, must be like the {what}: {len(like)}")
    for k, (a, b) in enumerate(zip(vectors, like, strict=True)):
        if a.shape != b.shape:
            raise GradinoError(f"{name}: entry {k} of v has shape {a.shape}, must be {b.shape}")
    return vectors


def _gradients(outputs: Tensors, inputs: Tensors, vectors: Any, create_graph: bool, strict: bool, name: str, keep: bool = False) -> Tensors:
    """Gradients, zeros where an input has none; under ``strict`` that is an error."""
    tracked = [k for k, t in enumerate(outputs) if t.requires_grad]
    if strict and len(tracked) < len(outputs):
        missing = next(k for k, t in enumerate(outputs) if not t.requires_grad)
        raise GradinoError(f"{name}: output {missing} of the user-provided function does not require gradients; not allowed in strict mode")
    found: Any = [None] * len(inputs)
    if tracked:
        seeds = None if vectors is None else [vectors[k] for k in tracked]
        found = grad([outputs[k] for k in tracked], inputs, seeds, keep or create_graph, create_graph, allow_unused=True)
    for k, g in enumerate(found):
        if g is None and strict:
            raise GradinoError(f"{name}: the output is independent of input {k}; not allowed in strict mode")
    return tuple(zeros_like(t.detach()) if g is None else g for g, t in zip(found, inputs, strict=True))


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``(func(*inputs), v @ J)``: the product of ``v``, of the outputs' shapes, with the Jacobian."""
    with enable_grad():
        several, ins = _several(inputs, "inputs", "vjp")
        leaves = _leaves(ins, create_graph)
        outs_several, outs = _run(func, leaves, "vjp")
        products = _gradients(outs, leaves, _vectors(v, outs, "vjp", "output"), create_graph, strict, "vjp")
    return _one(outs_several, _values(outs, create_graph)), _one(several, _values(products, create_graph))


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``(func(*inputs), J @ v)``: the product of the Jacobian with ``v``, of the inputs' shapes.

    Two backwards: the gradient of ``u @ J`` with respect to ``u``.
    """
    with enable_grad():
        _, ins = _several(inputs, "inputs", "jvp")
        vectors = _vectors(v, ins, "jvp", "input")
        leaves = _leaves(ins, create_graph)
        outs_several, outs = _run(func, leaves, "jvp")
        seeds = tuple(zeros_like(t.detach()).requires_grad_() for t in outs)
        first = _gradients(outs, leaves, seeds, True, strict, "jvp")
        products = _gradients(first, seeds, vectors, create_graph, False, "jvp", keep=True)
    return _one(outs_several, _values(outs, create_graph)), _one(outs_several, _values(products, create_graph))


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: for each output and input a tensor of shape ``output.shape + input.shape``, which has at most four dimensions.

    One backward for each element of the outputs. ``vectorize=True`` gives the same in the same time; forward mode is not supported.
    """
    if strategy != "reverse-mode":
        raise InvalidValueError(f"jacobian: strategy is {strategy!r}; only 'reverse-mode' is supported")
    if vectorize and strict:
        raise GradinoError("jacobian: strict=True and vectorize=True are not supported together")
    with enable_grad():
        several, ins = _several(inputs, "inputs", "jacobian")
        leaves = _leaves(ins, create_graph)
        outs_several, outs = _run(func, leaves, "jacobian")
        rows = []
        for out in outs:
            columns: list[list[Tensor]] = [[] for _ in leaves]
            for element in out.flatten():
                for column, g in zip(
                    columns, _gradients((element,), leaves, None, create_graph, strict, "jacobian", keep=True), strict=True
                ):
                    column.append(g if create_graph else g.detach())
            rows.append(
                tuple(
                    stack(c).reshape(out.shape + t.shape) if c else zeros(out.shape + t.shape, dtype=t.dtype)
                    for c, t in zip(columns, leaves, strict=True)
                )
            )
    if outs_several:
        return tuple(_one(several, row) for row in rows)
    return _one(several, rows[0])


def _scalar(func: Callable[..., Any], name: str) -> Callable[..., Tensor]:
    def checked(*args: Any) -> Tensor:
        out = func(*args)
        if not isinstance(out, Tensor) or out.numel() != 1:
            raise GradinoError(f"{name}: the function must return one Tensor with a single element")
        return out.reshape(())

    return checked


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one element: for each pair of inputs a tensor of their two shapes together."""
    several, ins = _several(inputs, "inputs", "hessian")
    scalar = _scalar(func, "hessian")

    def gradient(*args: Tensor) -> Tensors:
        return _gradients((scalar(*args),), args, None, True, strict, "hessian")

    result = jacobian(gradient, ins, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if several else result[0][0]


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``(func(*inputs), v @ H)`` of a function with one element; ``v`` has the inputs' shapes."""
    with enable_grad():
        several, ins = _several(inputs, "inputs", "vhp")
        vectors = _vectors(v, ins, "vhp", "input")
        leaves = _leaves(ins, create_graph)
        out = _scalar(func, "vhp")(*leaves)
        first = _gradients((out,), leaves, None, True, strict, "vhp")
        products = _gradients(first, leaves, vectors, create_graph, strict, "vhp")
    return _values((out,), create_graph)[0], _one(several, _values(products, create_graph))


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``(func(*inputs), H @ v)`` of a function with one element: the Hessian is symmetric, so it is :func:`vhp`."""
    return vhp(func, inputs, v, create_graph, strict)
