"""Values of the operator sweep: PyTorch's samples as gradino has them, and two results compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gradino as gd

try:
    import torch
except ImportError:  # the tests skip
    torch = None  # type: ignore[assignment]

RTOL = {"float32": 1e-5, "float64": 1e-7, "bfloat16": 1.6e-2, "float16": 1e-3}
ATOL = {"float32": 1e-5, "float64": 1e-7, "bfloat16": 1e-2, "float16": 1e-3}


class OutOfScopeError(Exception):
    """A sample that gradino is not made for; its text is the reason."""


# ---- From PyTorch to gradino -------------------------------------------------------------------------------------------


def dtype_here(d: Any) -> gd.dtype:
    found = getattr(gd, str(d).removeprefix("torch."), None)
    if not isinstance(found, gd.dtype):
        raise OutOfScopeError(f"dtype {str(d).removeprefix('torch.')}")
    return found


def in_scope(x: Any) -> None:
    """Raises for a tensor of PyTorch that gradino has no equal of."""
    if x.is_complex():
        raise OutOfScopeError("complex numbers")
    if x.ndim > 4:
        raise OutOfScopeError("more than four dimensions")
    if x.layout is not torch.strided:
        raise OutOfScopeError("sparse, quantised and other layouts")
    dtype_here(x.dtype)


def converted(x: Any, leaves: list[Any] | None = None) -> Any:
    """A value of a sample as gradino has it. `leaves` collects pairs of tensors that take gradients."""
    if isinstance(x, torch.Tensor):
        return _tensor_here(x, leaves)
    if isinstance(x, torch.dtype):
        return dtype_here(x)
    if isinstance(x, torch.device):
        return "cpu"
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, complex):
        raise OutOfScopeError("complex numbers")
    if isinstance(x, torch.memory_format):
        kind = getattr(gd, str(x).removeprefix("torch."), None)
        if kind is None or "channels_last" in str(x):
            raise OutOfScopeError("memory formats")
        return kind
    if isinstance(x, torch.layout):
        if x is torch.strided and hasattr(gd, "strided"):
            return gd.strided
        raise OutOfScopeError("layouts")
    if isinstance(x, (torch.Generator, torch.nn.Module)):
        raise OutOfScopeError(f"a {type(x).__name__}")
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return tuple(converted(y, leaves) for y in x)
    if isinstance(x, (list, tuple)):
        return type(x)(converted(y, leaves) for y in x)
    if isinstance(x, dict):
        return {k: converted(v, leaves) for k, v in x.items()}
    if isinstance(x, slice):
        return slice(*(converted(y, leaves) for y in (x.start, x.stop, x.step)))
    return x


def _tensor_here(x: Any, leaves: list[Any] | None) -> Any:
    if x.is_quantized:
        raise OutOfScopeError("sparse, quantised and other layouts")
    if x.device.type != "cpu":
        raise OutOfScopeError(f"device {x.device.type}")
    in_scope(x)
    d = dtype_here(x.dtype)
    plain = x.detach().resolve_neg()
    if d is gd.bfloat16:
        here = gd.tensor(plain.float().numpy()).to(gd.bfloat16)
    else:
        array = plain.numpy()
        here = gd.from_numpy(array if array.flags.writeable else array.copy())
    if x.requires_grad and leaves is not None:
        here.requires_grad_()
        leaves.append((x, here))
    return here


def copied(x: Any) -> Any:
    """Tensors of a PyTorch sample with memory of their own, for calls that write."""
    if isinstance(x, torch.Tensor):
        return x.detach().clone()
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(copied(y) for y in x)
    if isinstance(x, dict):
        return {k: copied(v) for k, v in x.items()}
    return x


def flat(x: Any) -> Iterator[Any]:
    """The values of a result, one after another."""
    if isinstance(x, (list, tuple)) and not (isinstance(x, tuple) and all(isinstance(y, int) for y in x)):  # a shape is one value
        for y in x:
            yield from flat(y)
    else:
        yield x


# ---- Comparing ----------------------------------------------------------------------------------------------------------


def difference(theirs: Any, ours: Any, values: bool, loose: float = 1.0) -> str | None:
    """What is different in words, or None."""
    a, b = list(flat(theirs)), list(flat(ours))
    if len(a) != len(b):
        return f"results: {len(b)} instead of {len(a)}"
    for k, (x, y) in enumerate(zip(a, b)):
        found = _difference(x, y, values, loose)
        if found:
            return found if len(a) == 1 else f"result {k}: {found}"
    return None


def _difference(x: Any, y: Any, values: bool, loose: float) -> str | None:
    if isinstance(x, torch.Tensor):
        in_scope(x)
        if not isinstance(y, gd.Tensor):
            return f"type: a {type(y).__name__} instead of a tensor"
        wanted = dtype_here(x.dtype)
        if y.shape != tuple(x.shape):
            return f"shape: {tuple(y.shape)} instead of {tuple(x.shape)}"
        if y.dtype is not wanted:
            return f"dtype: {y.dtype.name} instead of {wanted.name}"
        if not values:
            return None
        a, b = x.detach().resolve_neg(), y.detach()
        numbers = (a.float().numpy(), b.float().numpy()) if wanted is gd.bfloat16 else (a.numpy(), b.numpy())
        return differing(*numbers, wanted.name, loose)
    if isinstance(x, torch.dtype):
        return None if dtype_here(x) is y else f"dtype: {y} instead of {x}"
    if isinstance(x, torch.Size):
        return None if x == y else f"value: {y} instead of {x}"
    if isinstance(x, float):
        return differing(np.asarray(x), np.asarray(y), "float32", loose)
    return None if x == y else f"value: {y!r} instead of {x!r}"


def differing(a: np.ndarray, b: np.ndarray, dtype: str, loose: float) -> str | None:
    if a.dtype.kind != "f":
        wrong = a != b
    else:
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= loose * (ATOL[dtype] + RTOL[dtype] * np.abs(a))
            wrong = ~(near & np.isfinite(a) | (a == b) | np.isnan(a) & np.isnan(b))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.unravel_index(np.argmax(wrong), wrong.shape)) if wrong.shape else ()
    return f"value: {b[at]!r} instead of {a[at]!r} at {at} of {a.shape}, {int(wrong.sum())} of {a.size} elements"


def refusal(error: BaseException) -> str:
    return f"raises {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
