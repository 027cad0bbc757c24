"""How tensors print: like PyTorch's, summarised when large, without touching graph or random state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradino._lib import lib
from gradino.errors import StaleTensorError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

_THRESHOLD = 1000  # more elements than this are summarised


def tensor_repr(t: Tensor) -> str:
    """``tensor([...])`` with dtype and grad_fn where they are not the usual ones."""
    try:
        info = t._info()
    except StaleTensorError as error:
        return f"<{error}>"
    shape, dtype = tuple(info.shape[0 : info.rank]), t.dtype
    array = _edges(t.detach(), shape)
    text = np.array2string(array, separator=", ", prefix="tensor(", precision=4, threshold=_THRESHOLD, edgeitems=3, suppress_small=False)
    notes = []
    if info.numel == 0 and len(shape) > 1:
        notes.append(f"size={shape}")
    if dtype.name not in ("float32", "int64", "bool") or (info.numel == 0 and dtype.name != "float32"):
        notes.append(f"dtype={dtype!r}")
    if info.has_node:
        notes.append(f"grad_fn=<{_op_name(t, info.op)}>")
    elif info.requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([text, *notes])})"


def _op_name(t: Tensor, op: int) -> str:
    from gradino import _calls
    from gradino._lib import text

    number = lib.gd_object_of(t._h)
    if number:
        return type(_calls.value_of(number)).__name__
    return text(lib.gd_op_name(op)) if op >= 0 else "none"


def _edges(t: Tensor, shape: tuple[int, ...]) -> np.ndarray:
    return t._array() if t.dtype.numpy is None or np.prod(shape, dtype=float) <= _THRESHOLD else t.numpy()
