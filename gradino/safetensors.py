"""Named tensors in safetensors files, which PyTorch, JAX and others read and write too. Needs the ``safetensors`` library.

Source: the format, https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradino import dtypes
from gradino._core import wrap
from gradino._files import replacing, the_path
from gradino._lib import ffi, lib
from gradino.arena import step_arena
from gradino.errors import FileFormatError
from gradino.tensor import Tensor

__all__ = ["load_file", "metadata_of", "save_file"]

_TIED = "gradino.tied"  # metadata: names that stand for a tensor saved under another name
_NAMES = {"float32": "F32", "float64": "F64", "bfloat16": "BF16", "float16": "F16", "int64": "I64", "int32": "I32", "bool": "BOOL"}
_OURS = {theirs: d for d in dtypes.BY_CODE for ours, theirs in _NAMES.items() if d.name == ours}
_WIDENED = {"U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4"}  # read as int64


def _library() -> Any:
    try:
        import safetensors
    except ImportError:
        raise ImportError("files need the safetensors library: pip install 'gradino[files]'") from None
    return safetensors


def save_file(tensors: Mapping[str, Any], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Save tensors (or arrays) by name. Strided ones are saved by value; one that stands under two names is saved once.

    The file is replaced in one go: it holds all of the old or all of the new tensors, whatever happens.

    Raises:
        TypeError: if a name is no string, a value no tensor, or metadata is not made of strings.
        OSError: if the file cannot be written; what stood there before stays.
    """
    library = _library()
    path = the_path("save_file", path)
    notes = dict(metadata or {})
    for key, value in notes.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"save_file: metadata must map strings to strings, got {key!r}: {value!r}")
    with step_arena():
        values, tied = _distinct(tensors)
        if tied:
            notes[_TIED] = json.dumps(tied)
        specs = {
            name: library.TensorSpec(dtype=t.dtype.name, shape=list(t.shape), data_ptr=t.data_ptr() if t.numel() else 0, data_len=t.nbytes)
            for name, t in values.items()
        }
        with replacing(path) as partial:
            try:
                library.serialize_file(specs, partial, notes or None)
            except library.SafetensorError as e:
                raise _as_os_error(e, path) from None


def _distinct(tensors: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors, contiguous, each once; and which names stand for which other name."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"save_file: expected a mapping of names to tensors, got {type(tensors).__name__}")
    values: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    first: dict[Any, str] = {}
    for name, value in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"save_file: names must be strings, got {name!r}")
        if not isinstance(value, (Tensor, np.ndarray)):
            raise TypeError(f"save_file: {name!r} is a {type(value).__name__}, not a tensor")
        t = value.detach() if isinstance(value, Tensor) else Tensor(value)
        place = (t.data_ptr(), t.shape, t.stride(), t.dtype.name) if t.numel() else name
        if place in first:
            tied[name] = first[place]
        else:
            first[place] = name
            values[name] = t.contiguous()
    return values, tied


def _as_os_error(error: Exception, path: Any) -> Exception:
    """The library reports what the system refused in words only."""
    found = re.search(r"os error (\d+)", str(error))
    number = int(found[1]) if found else 0
    return OSError(number, os.strerror(number), os.fspath(path)) if found else FileFormatError(f"{os.fspath(path)}: {error}")


def load_file(path: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """All tensors of a file, by name, in the active arena. uint8, int8, int16, uint16 and uint32 are read as int64.

    Raises:
        FileFormatError: if the file is no safetensors file, was cut, or holds a dtype that does not exist here.
    """
    from gradino import devices

    return {name: devices.moved("load_file", t, device) for name, t in read(the_path("load_file", path))[0].items()}


def metadata_of(path: str | os.PathLike[str]) -> dict[str, str]:
    """The notes that were saved with the tensors."""
    return _header(the_path("metadata_of", path))[1]


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a file and its metadata."""
    entries, notes, start = _header(path)
    data = np.memmap(path, np.uint8, "r") if entries else np.empty(0, np.uint8)
    tensors = {}
    for name, entry in entries.items():
        first, last = entry["data_offsets"]
        tensors[name] = _tensor(path, name, entry["dtype"], entry["shape"], data[start + first : start + last])
    for name, other in _json(path, notes.get(_TIED, "{}")).items():
        if other not in tensors:
            raise FileFormatError(f"{os.fspath(path)}: {name!r} stands for {other!r}, which is not in the file")
        tensors[name] = tensors[other]
    return tensors, notes


def _tensor(path: Any, name: str, kind: str, shape: list[int], data: np.ndarray[Any, Any]) -> Tensor:
    if kind in _WIDENED:
        return Tensor(data.view(_WIDENED[kind]).astype(np.int64).reshape(shape))
    if kind not in _OURS:
        raise FileFormatError(f"{os.fspath(path)}: tensor {name!r} is of dtype {kind}; there are {', '.join([*_OURS, *_WIDENED])}")
    if len(shape) > 4:
        raise FileFormatError(f"{os.fspath(path)}: tensor {name!r} has shape {tuple(shape)}; tensors have at most four dimensions")
    return wrap(lib.gd_from_data(len(shape), shape, _OURS[kind].code, ffi.from_buffer(np.ascontiguousarray(data))))


def _header(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, str], int]:
    """Entries by name in the file's order, metadata, and where the data begin; checked by the library before anything is believed."""
    library = _library()
    with open(path, "rb") as file:  # says what is wrong with the path
        try:
            library.safe_open(path, "np")
        except library.SafetensorError as e:
            raise FileFormatError(f"{os.fspath(path)}: no whole safetensors file: {e}") from None
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    notes = header.pop("__metadata__", None) or {}
    return dict(sorted(header.items(), key=lambda item: item[1]["data_offsets"])), notes, 8 + size


def _json(path: Any, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise FileFormatError(f"{os.fspath(path)}: its metadata is damaged") from None
