"""PyTorch as the outside reference: tensors and modules of both libraries side by side.

Imported by tests that compare live; they skip where PyTorch is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_close

import gradino as gd

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with live")

torch.set_num_threads(1)  # the inputs are small, and the machine may be shared
TOLERANCE = {"float32": 2e-5, "float64": 1e-11}


def pair(array: np.ndarray, requires_grad: bool = True, dtype: str | None = None) -> tuple[gd.Tensor, Any]:
    """The same leaf in gradino and in PyTorch; only floats require grad."""
    if dtype is not None and array.dtype.kind == "f":
        array = array.astype(dtype)
    on = requires_grad and array.dtype.kind == "f"
    return gd.tensor(array, requires_grad=on), torch.tensor(array, requires_grad=on)


def array(t: Any) -> np.ndarray:
    """Values of a tensor of either library."""
    return t._array() if isinstance(t, gd.Tensor) else t.detach().cpu().numpy()


def same_weights(ours: Any, theirs: Any) -> None:
    """Load our state dict into PyTorch's module, strictly."""
    theirs.load_state_dict({k: torch.tensor(array(v)) for k, v in ours.state_dict().items()}, strict=True)


def assert_equal_grads(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    """All parameters' gradients, by name."""
    named = dict(theirs.named_parameters())
    assert list(named) == [k for k, _ in ours.named_parameters()], what
    for key, p in ours.named_parameters():
        assert (p.grad is None) == (named[key].grad is None), f"{what}: gradient of {key}"
        if p.grad is not None:
            assert_close(p.grad, array(named[key].grad), rtol=tolerance, atol=tolerance, what=f"{what}: gradient of {key}")
