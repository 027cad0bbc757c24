"""Making a batch of samples: tensors are stacked, containers are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradino import dtypes, functions
from gradino.errors import DTypeError, ShapeError
from gradino.tensor import Tensor

__all__ = ["default_collate", "default_convert", "like_mapping"]


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch of a list of samples.

    Tensors and arrays get a new first dimension; numbers become a tensor (floats float64, as in PyTorch); strings
    stay a list; dicts, named tuples and lists of these are collated part by part, tuples into a list.

    Raises:
        DTypeError: for anything else.
        ShapeError: if samples differ in shape or in their number of parts.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return functions.stack(list(batch))
    if isinstance(first, np.ndarray) and first.dtype.kind in "fiub":
        if len({x.shape for x in batch}) > 1:
            raise ShapeError(f"default_collate: samples have shapes {sorted({x.shape for x in batch})}: they must be equal")
        return Tensor(np.stack(batch))
    if isinstance(first, np.generic) and first.dtype.kind in "fiub":
        return Tensor(np.asarray(batch))
    if isinstance(first, float):
        return Tensor(np.asarray(batch, np.float64))
    if isinstance(first, (bool, int)):
        return Tensor(list(batch), dtype=dtypes.bool_ if isinstance(first, bool) else dtypes.int64)
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        return like_mapping(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        if len({len(sample) for sample in batch}) > 1:
            raise ShapeError("default_collate: samples have different numbers of parts")
        parts = [default_collate(samples) for samples in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    raise DTypeError(f"default_collate: cannot make a batch of {type(first).__name__} samples: give the DataLoader a collate_fn")


def default_convert(data: Any) -> Any:
    """Arrays become tensors, at any depth of dicts, lists and tuples; everything else stays."""
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind in "fiub":
        return Tensor(data)
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple):
        parts = [default_convert(value) for value in data]
        return type(data)(*parts) if hasattr(data, "_fields") else parts
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [default_convert(value) for value in data]
    return data


def like_mapping(original: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """The parts in a mapping of the original's type, if that can be made of a dict."""
    try:
        return type(original)(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts
