"""How tensors print: like PyTorch's, summarised when large, without touching graph or random state."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from gradino._lib import lib
from gradino.errors import InvalidValueError, StaleTensorError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

_MOST = 1 << 16  # digits, entries at an end, characters in a line
_USUAL = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}  # threshold: more elements are summarised
_PROFILES: dict[str, dict[str, Any]] = {
    "default": _USUAL, "short": {**_USUAL, "precision": 2, "edgeitems": 2}, "full": {**_USUAL, "threshold": float("inf")},
}  # fmt: skip
_options: dict[str, Any] = dict(_USUAL)


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors print: digits, elements above which the middle is left out, elements at each end then, characters in a line,
    whether numbers are written with an exponent (None: where that is shorter); ``profile`` is "default", "short" or "full".
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise InvalidValueError(f"set_printoptions: profile is {profile!r}, must be one of {', '.join(_PROFILES)}")
        _options.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            if (
                not isinstance(value, (int, float))
                or not value >= 0
                or (name != "threshold" and value > _MOST)
                or sys.maxsize < value < math.inf
            ):
                raise InvalidValueError(f"set_printoptions: {name} is {value!r}, must be a number of at least 0, and no huge one")
            _options[name] = value
    _options["sci_mode"] = sci_mode


def tensor_repr(t: Tensor) -> str:
    """``tensor([...])`` with dtype and grad_fn where they are not the usual ones."""
    try:
        info = t._info()
    except StaleTensorError as error:
        return f"<{error}>"
    shape, dtype = tuple(info.shape[0 : info.rank]), t.dtype
    array = _edges(t.detach(), shape)
    threshold = sys.maxsize if _options["threshold"] == float("inf") else int(_options["threshold"])
    digits, science = _options["precision"], _options["sci_mode"]
    how: dict[str, Any] = {"formatter": {"float_kind": lambda x: np.format_float_scientific(x, digits, False)}} if science else {}
    text = np.array2string(
        array, separator=", ", prefix="tensor(", precision=digits, threshold=threshold, edgeitems=_options["edgeitems"],
        max_line_width=_options["linewidth"], suppress_small=science is False, **how,
    )  # fmt: skip
    notes = []
    if info.numel == 0 and len(shape) > 1:
        notes.append(f"size={shape}")
    if dtype.name not in ("float32", "int64", "bool") or (info.numel == 0 and dtype.name != "float32"):
        notes.append(f"dtype={dtype!r}")
    if info.device:
        notes.append(f"device='{t.device}'")
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
    return t._array() if t.dtype.numpy is None or t.is_cuda or np.prod(shape, dtype=float) <= _options["threshold"] else t.numpy()
