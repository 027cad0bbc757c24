"""Saving what Python holds around tensors: nested dicts and lists, and the whole state of a training run.

The file is a safetensors file. Its tensors are named by where they stand; how they nest, and everything that is no
tensor, is JSON in its metadata. Nothing in a file is ever executed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from gradino import devices, factories, safetensors
from gradino._files import the_path
from gradino.arena import step_arena
from gradino.errors import FileFormatError, GradinoError
from gradino.tensor import Tensor

__all__ = ["load", "load_checkpoint", "save", "save_checkpoint"]

_STRUCTURE = "gradino.structure"
_VERSION = "gradino.version"
_CURRENT = 1
_TENSOR, _ARRAY, _TUPLE, _PAIRS = "$tensor", "$array", "$tuple", "$dict"  # what a JSON object with this only key stands for


def save(obj: Any, f: str | os.PathLike[str]) -> None:
    """Save tensors, arrays, numbers, strings, None, and dicts, lists and tuples of them, at any depth.

    The file is replaced in one go. A state dict becomes a safetensors file with the names of its tensors.

    Raises:
        TypeError: if there is anything else in ``obj``; the message says where.
        OSError: if the file cannot be written; what stood there before stays.
    """
    f = the_path("save", f)
    tensors: dict[str, Any] = {}
    structure = _flat(obj, "", tensors)
    notes = {_STRUCTURE: json.dumps(structure), _VERSION: str(_CURRENT)}
    safetensors.save_file(tensors, f, notes)


def load(f: str | os.PathLike[str], map_location: Any = None, *, weights_only: bool = True) -> Any:
    """What ``save`` saved; tensors are new ones in the active arena. Of any other safetensors file: its tensors by name.

    Raises:
        FileFormatError: if the file is damaged, or was written by a later version.
    """
    f = the_path("load", f)
    tensors, notes = safetensors.read(f)
    if map_location is not None:
        tensors = {name: devices.moved("load", t, map_location) for name, t in tensors.items()}
    if _STRUCTURE not in notes:
        return tensors
    version = notes.get(_VERSION, "")
    if not version.isdecimal() or int(version) > _CURRENT:
        raise FileFormatError(f"{os.fspath(f)}: format version {version or 'unknown'}; this version of gradino reads up to {_CURRENT}")
    try:
        return _nested(json.loads(notes[_STRUCTURE]), tensors)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileFormatError(f"{os.fspath(f)}: its metadata does not fit its tensors") from None


def _flat(obj: Any, where: str, tensors: dict[str, Any]) -> Any:
    """``obj`` as JSON; its tensors go into ``tensors`` under dotted names."""
    if obj is None or isinstance(obj, (bool, int, float, str)):
        return obj
    if isinstance(obj, np.generic):
        return _flat(obj.item(), where, tensors)
    if isinstance(obj, (Tensor, np.ndarray)):
        name = where or "value"
        while name in tensors:
            name += "'"
        tensors[name] = obj
        return {_TENSOR if isinstance(obj, Tensor) else _ARRAY: name}
    if isinstance(obj, Mapping):
        inner = {key: _flat(value, _below(where, key), tensors) for key, value in obj.items()}
        if all(isinstance(key, str) and key[:1] != "$" for key in obj):
            return inner
        return {_PAIRS: [[_flat(key, f"a key of {where or 'the whole'}", tensors), value] for key, value in inner.items()]}
    if isinstance(obj, (list, tuple)):
        items = [_flat(value, _below(where, i), tensors) for i, value in enumerate(obj)]
        return items if isinstance(obj, list) else {_TUPLE: items}
    raise TypeError(
        f"save: {where or 'the object'} is a {type(obj).__name__}: only tensors, arrays, numbers, strings, None, dicts and lists"
    )


def _below(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)


def _nested(part: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(part, list):
        return [_nested(p, tensors) for p in part]
    if not isinstance(part, dict):
        return part
    if len(part) == 1:
        ((kind, content),) = part.items()
        if kind == _TENSOR:
            return tensors[content]
        if kind == _ARRAY:
            return tensors[content].cpu().numpy()
        if kind == _TUPLE:
            return tuple(_nested(p, tensors) for p in content)
        if kind == _PAIRS:
            return {_nested(key, tensors): _nested(value, tensors) for key, value in content}
    return {key: _nested(value, tensors) for key, value in part.items()}


# ---- Training runs ---------------------------------------------------------------------------------------------


def save_checkpoint(path: str | os.PathLike[str], *, extra: Any = None, **parts: Any) -> None:
    """Save the state of a training run: of each part its ``state_dict()``, of the random numbers where they stand.

    ``parts`` are the model, the optimizer, the scheduler, and whatever else has ``state_dict`` and
    ``load_state_dict``, under names of your choice; ``extra`` is anything ``save`` takes (a step, a loss curve).
    A run that is killed, loaded and continued gives the same bits as one that was not.

    >>> gd.save_checkpoint("run.ckpt", model=model, optimizer=optimizer, extra={"step": step})    # doctest: +SKIP
    >>> step = gd.load_checkpoint("run.ckpt", model=model, optimizer=optimizer)["step"]           # doctest: +SKIP

    Raises:
        TypeError: if a part has no state.
        OSError: if the file cannot be written; what stood there before stays.
    """
    _need_state("save_checkpoint", parts)
    path = the_path("save_checkpoint", path)
    with step_arena():
        states = {name: part.state_dict() for name, part in parts.items()}
        save({"checkpoint": states, "random": factories.get_rng_state(), "extra": extra}, path)


def load_checkpoint(path: str | os.PathLike[str], **parts: Any) -> Any:
    """Put the parts, and the random numbers, where they stood at ``save_checkpoint``; returns what was ``extra``.

    Raises:
        FileFormatError: if the file is damaged or no checkpoint.
        GradinoError: if the file holds other parts than those given, or a state does not fit its part. Whatever goes
            wrong, every part is left as it was.
    """
    _need_state("load_checkpoint", parts)
    path = the_path("load_checkpoint", path)
    saved = load(path)
    if not isinstance(saved, dict) or set(saved) != {"checkpoint", "random", "extra"}:
        raise FileFormatError(f"{os.fspath(path)}: no checkpoint; gd.load reads it")
    states = saved["checkpoint"]
    if set(states) != set(parts):
        raise GradinoError(f"load_checkpoint: {os.fspath(path)} holds {sorted(states)}, asked for were {sorted(parts)}")
    with step_arena():
        before = {name: _copied(part.state_dict()) for name, part in parts.items()}
        done = []
        try:
            for name, part in parts.items():
                done.append(name)
                part.load_state_dict(states[name])
            factories.set_rng_state(saved["random"])
        except BaseException:
            for name in done:
                parts[name].load_state_dict(before[name])
            raise
    return saved["extra"]


def _need_state(function: str, parts: dict[str, Any]) -> None:
    for name, part in parts.items():
        if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
            raise TypeError(f"{function}: {name} is a {type(part).__name__}, which has no state_dict and load_state_dict")


def _copied(state: Any) -> Any:
    """The state with tensors of its own: a module's shares the module's memory."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, Mapping):
        return {key: _copied(value) for key, value in state.items()}
    return [_copied(value) for value in state] if isinstance(state, list) else state
