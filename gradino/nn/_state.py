"""What loading a module's state needs: values of other libraries, and the names that did not match."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradino.tensor import Tensor

__all__ = ["IncompatibleKeys", "foreign_array"]


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict(strict=False)`` did not find, and what it found too much."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def foreign_array(value: Any) -> Any:
    """A tensor or NumPy array of a value that may come from another library."""
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        try:
            value = value.numpy()
        except TypeError:  # a dtype that NumPy lacks, bfloat16
            value = value.float().numpy()
    return np.asarray(value)
