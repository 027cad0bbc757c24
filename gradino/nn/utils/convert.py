"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from gradino import functions
from gradino.errors import ShapeError
from gradino.grad_mode import no_grad
from gradino.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters side by side, in one dimension; gradients flow through it."""
    return functions.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Overwrite the parameters with the elements of a vector, in the same order.

    Raises:
        ShapeError: unless the vector has exactly as many elements; nothing is changed then.
    """
    targets = list(parameters)
    total = sum(p.numel() for p in targets)
    if vec.shape != (total,):
        raise ShapeError(f"vector_to_parameters: the vector has shape {tuple(vec.shape)}, the parameters {total} elements")
    first = 0
    with no_grad():
        for p in targets:
            p.copy_(vec.detach()[first : first + p.numel()].reshape(p.shape))
            first += p.numel()
