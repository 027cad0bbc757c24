"""What all optimizers share: parameter groups over the engine's optimizer, and state that can be saved."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from gradino._construction import foreign_array
from gradino._core import wrap
from gradino._lib import check, ffi, lib, raise_error
from gradino.arena import step_arena
from gradino.errors import DTypeError, GradinoError, InvalidValueError
from gradino.grad_mode import enable_grad
from gradino.nn.parameter import Buffer
from gradino.tensor import Tensor

__all__ = ["Optimizer", "refuse_variants"]

_FIELDS = (
    "lr", "beta1", "beta2", "eps", "weight_decay", "momentum", "dampening", "decay", "initial", "nesterov", "maximize", "amsgrad",
    "centered", "decoupled",
)  # fmt: skip
_NOT_NEGATIVE = ("lr", "weight_decay", "momentum", "eps", "alpha", "lr_decay", "momentum_decay", "initial_accumulator_value")
_BESIDES = frozenset(("params", "param_names", "initial_lr"))  # keys of a group that are not settings


def refuse_variants(title: str, **wanted: bool | None) -> None:
    """Raise for switches of PyTorch's that change what an update means and that gradino does not have."""
    if wanted.pop("fused", False) and wanted.pop("foreach", False):
        raise InvalidValueError(f"{title}: fused and foreach cannot be True together")
    wanted.pop("foreach", None)  # one pass over the slabs is both
    for name, on in wanted.items():
        if on:
            raise InvalidValueError(f"{title}: {name}=True is not supported")


class Optimizer:
    """Base of the optimizers. ``params``: tensors, ``(name, tensor)`` pairs, or dicts with ``"params"`` (groups).

    ``param_groups`` holds each group's settings; they are read afresh at every step. Moments live beside the
    parameters, so a parameter can have one optimizer with moments at a time.

    A subclass of one's own defines ``step()`` as for PyTorch: it reads ``p.grad``, changes ``p`` under ``no_grad`` and keeps
    what it likes in ``self.state[p]``. Tensors there must be made outside of step arenas, or carried out with ``.keep()``.
    """

    _KIND: int | None = None  # None: a class of the user's, whose state is in _own_state
    _STATES: tuple[tuple[str, int], ...] = ()  # name in the state dict, number of the region

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, (Tensor, dict)) or not isinstance(params, Iterable):
            raise DTypeError(f"{self._title}: params must be an iterable of tensors or of dicts, not a {type(params).__name__}")
        groups = list(params)
        if not groups:
            raise InvalidValueError(f"{self._title}: got an empty parameter list")
        self._open(defaults)
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _open(self, defaults: dict[str, Any]) -> None:
        native = lib.gd_optimizer_open(lib.GD_SGD if self._KIND is None else self._KIND)
        if native == ffi.NULL:
            raise_error()
        self._native = ffi.gc(native, lib.gd_optimizer_close)
        self._hyper = ffi.new("gd_hyper *")
        self.defaults = defaults
        self._own_state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._seen: list[Any] = []  # each group as the engine knows it
        self._given: list[list[Tensor]] = []  # its parameters

    @property
    def _title(self) -> str:
        return type(self).__name__

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own; what is not given is taken from the defaults."""
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise TypeError(f"{self._title}: a parameter group must be a dict with 'params', got {type(param_group).__name__}")
        given = param_group["params"]
        if isinstance(given, (set, frozenset)):
            raise TypeError(f"{self._title}: the order of a set is not defined: give the parameters in a list")
        items = [given] if isinstance(given, Tensor) else list(given)
        named = [x for x in items if isinstance(x, tuple)]
        if named and len(named) < len(items):
            raise TypeError(f"{self._title}: either all parameters of a group are (name, tensor) pairs or none is")
        tensors = [x[1] if isinstance(x, tuple) else x for x in items]
        for t in tensors:
            if not isinstance(t, Tensor):
                raise TypeError(f"{self._title}: can only optimize tensors, got {type(t).__name__}")
        group = {**self.defaults, **param_group, "params": tensors}
        unknown = set(group) - set(self.defaults) - _BESIDES
        if unknown:
            raise InvalidValueError(f"{self._title}: unknown settings {sorted(unknown)}; there are {sorted(self.defaults)}")
        if named:
            group["param_names"] = [x[0] for x in named]
        self._check(group)
        handles = [t._h for t in tensors]
        check(lib.gd_optimizer_add_group(self._native, handles, len(handles)))
        self.param_groups.append(group)
        self._seen.append(None)
        self._given.append(list(tensors))

    def _check(self, group: dict[str, Any]) -> None:
        """Raise InvalidValueError for a setting outside its range."""
        for name in _NOT_NEGATIVE:
            if name in group and not group[name] >= 0:
                raise InvalidValueError(f"{self._title}: {name} is {group[name]}, must be at least 0")
        if len(group.get("betas", (0, 0))) != 2:
            raise InvalidValueError(f"{self._title}: betas must be two numbers, got {group['betas']}")
        for i, beta in enumerate(group.get("betas", ())):
            if not 0 <= beta < 1:
                raise InvalidValueError(f"{self._title}: betas[{i}] is {beta}, must be in [0, 1)")

    def _settings(self, group: dict[str, Any]) -> dict[str, Any]:
        """The group's settings by their names in ``gd_hyper``; what is left out is 0."""
        settings = {k: v for k, v in group.items() if k in _FIELDS}
        if "betas" in group:
            settings["beta1"], settings["beta2"] = group["betas"]
        return settings

    def _prepare(self) -> Any:
        """Pass changed settings on; returns the engine's optimizer."""
        if self._KIND is None:
            raise NotImplementedError(f"{self._title}: the update is not the engine's: define step(), and call it after backward()")
        for i, group in enumerate(self.param_groups):
            try:
                if group == self._seen[i]:
                    continue
            except (GradinoError, IndexError):
                pass  # other tensors cannot be compared, or a group was put in by hand: _pass_on says so
            self._pass_on(i, group)
        return self._native

    def _pass_on(self, i: int, group: dict[str, Any]) -> None:
        given, now = self._given[i : i + 1], list(group["params"])
        if not given or len(given[0]) != len(now) or any(a is not b for a, b in zip(given[0], now)):
            raise GradinoError(f"{self._title}: the parameters in param_groups[{i}] were changed: use add_param_group() or a new optimizer")
        self._check(group)
        h = self._hyper
        settings = self._settings(group)
        for name in _FIELDS:
            setattr(h, name, settings.get(name, 0))
        check(lib.gd_optimizer_set_hyper(self._native, i, h))
        self._seen[i] = {k: tuple(v) if k == "betas" else v for k, v in group.items()}  # a list may change: it never equals a tuple
        self._seen[i]["params"] = now

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in one pass over the slabs.

        ``closure`` computes loss and gradients first; its result is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        status = lib.gd_optimizer_step(self._prepare())
        if status:
            check(status)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; with ``set_to_none=False`` they become zeros."""
        if set_to_none:
            check(lib.gd_optimizer_zero_grad(self._native))
            return
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.detach().zero_()

    # ---- state ----------------------------------------------------------------------------------------------

    def _entry(self, p: Tensor) -> dict[str, Any]:
        """Step and moments (the memory itself) of one parameter; empty before its first update."""
        if self._KIND is None:
            return self._own_state.get(p, {})
        step = check(lib.gd_optimizer_get_step(self._native, p._h))
        if not step:
            return {}
        entry: dict[str, Any] = {"step": step}
        for name, region in self._STATES:
            handle = lib.gd_parameter_state(p._h, region)
            if handle:
                entry[name] = wrap(handle)
        return entry

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """Step and moments by parameter, for reading; of a class of one's own what it keeps there."""
        if self._KIND is None:
            return self._own_state
        entries = ((p, self._entry(p)) for group in self.param_groups for p in group["params"])
        return defaultdict(dict, {p: entry for p, entry in entries if entry})

    def state_dict(self, *, convert: Callable[[Tensor], Any] | None = None) -> dict[str, Any]:
        """Steps and moments (copies) by number, and the groups, in PyTorch's layout.

        ``convert`` is applied to each moment; PyTorch's optimizers load a ``state_dict(convert=torch.as_tensor)``.
        """
        state: dict[int, dict[str, Any]] = {}
        groups: list[dict[str, Any]] = []
        number = 0
        for group in self.param_groups:
            first = number
            for p in group["params"]:
                entry = self._entry(p)
                if entry:
                    copies = {k: Tensor(v) if isinstance(v, Tensor) else v for k, v in entry.items()}
                    state[number] = {k: convert(v) if convert and isinstance(v, Tensor) else v for k, v in copies.items()}
                number += 1
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": list(range(first, number))})
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state, also PyTorch's. Parameters match by name where both sides know names, else by position.

        A parameter without an entry starts afresh.

        Raises:
            GradinoError: if groups, names or shapes differ, naming the parameter; nothing is changed then.
        """
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= state_dict.keys():
            what = f"a dict with {sorted(map(str, state_dict))}" if isinstance(state_dict, dict) else f"a {type(state_dict).__name__}"
            raise DTypeError(f"load_state_dict: a state is a dict with 'state' and 'param_groups', got {what}")
        saved, own = state_dict["param_groups"], self.param_groups
        sizes = [len(g["params"]) for g in saved], [len(g["params"]) for g in own]
        if sizes[0] != sizes[1]:
            raise GradinoError(f"load_state_dict: the state has groups of {sizes[0]} parameters, this optimizer of {sizes[1]}")
        plan = [(p, entry) for old, group in zip(saved, own, strict=True) for p, entry in self._match(state_dict["state"], old, group)]
        for old, group in zip(saved, own, strict=True):
            group.update({k: v for k, v in old.items() if k in self.defaults or k == "initial_lr"})
        with step_arena():
            for p, entry in plan:
                self._restore(p, entry)

    def _match(self, state: dict[int, Any], old: dict[str, Any], group: dict[str, Any]) -> list[tuple[Tensor, dict[str, Any]]]:
        """The group's parameters, each with its entry of a saved state."""
        theirs, ours = old.get("param_names"), group.get("param_names")
        if (theirs is None) != (ours is None):
            who = "the state" if theirs is None else "this optimizer"
            warnings.warn(f"load_state_dict: {who} knows no names of parameters, so they are matched by position", stacklevel=3)
        keys = dict(zip(theirs, old["params"], strict=True)) if theirs and ours else None
        found = []
        for i, p in enumerate(group["params"]):
            number, label = old["params"][i], repr(ours[i]) if ours else f"number {old['params'][i]}"
            if keys is not None and ours:
                if ours[i] not in keys:
                    raise GradinoError(f"load_state_dict: the state has no parameter {label}; it has {sorted(keys)}")
                number = keys[ours[i]]
            entry = state.get(number, {})
            for name, _ in self._STATES:
                shape = None if entry.get(name) is None else tuple(entry[name].shape)
                if shape is not None and shape != p.shape:
                    raise GradinoError(f"load_state_dict: {name} of parameter {label} has shape {shape}, the parameter {p.shape}")
            found.append((p, entry))
        return found

    def _restore(self, p: Tensor, entry: dict[str, Any]) -> None:
        if self._KIND is None:
            self._own_state[p] = {k: _beside(p, foreign_array(v)) if hasattr(v, "shape") else v for k, v in entry.items()}
            return
        moments = {region: entry[name] for name, region in self._STATES if entry.get(name) is not None}
        step = int(entry.get("step", 1 if moments else 0))  # PyTorch's SGD does not count
        check(lib.gd_optimizer_set_step(self._native, p._h, 0))  # forgets what there was
        for region, value in moments.items():
            moment = foreign_array(value)
            if not isinstance(moment, Tensor):
                moment = Tensor(moment)
            check(lib.gd_optimizer_set_state(self._native, p._h, region, moment._h))
        check(lib.gd_optimizer_set_step(self._native, p._h, step))

    # ---- copies ---------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        others = {k: v for k, v in self.__dict__.items() if k not in ("_native", "_hyper", "_seen", "_given", "_own_state")}
        return {**others, "_moments": self.state_dict()["state"]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        moments, groups = state.pop("_moments"), state.pop("param_groups")
        self._open(state.pop("defaults"))
        self.__dict__.update(state)
        for group in groups:
            self.add_param_group(group)
        with step_arena():
            for number, p in enumerate(p for group in self.param_groups for p in group["params"]):
                self._restore(p, moments.get(number, {}))

    def __repr__(self) -> str:
        lines = [f"{self._title} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {v}" for k, v in sorted(group.items()) if k not in ("params", "param_names")]
        return "\n".join([*lines, ")"])


def _beside(p: Tensor, value: Any) -> Tensor:
    """State of a parameter, on its device."""
    with step_arena():
        return Buffer(Tensor(value).to(p.device))
