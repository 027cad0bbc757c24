"""What all optimizers share: parameter groups over the engine's optimizer, and state that can be saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gradino._core import wrap
from gradino._lib import check, ffi, lib, raise_error
from gradino.errors import GradinoError, InvalidValueError
from gradino.tensor import Tensor

__all__ = ["Optimizer"]


class Optimizer:
    """Base of the optimizers. ``params``: tensors, ``(name, tensor)`` pairs, or dicts with ``"params"`` (groups).

    ``param_groups`` holds each group's settings; they are read afresh at every step.
    """

    _KIND: int
    _STATES: tuple[tuple[str, int], ...] = ()  # name in the state dict, number of the region

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        native = lib.gd_optimizer_open(self._KIND)
        if native == ffi.NULL:
            raise_error()
        self._native = ffi.gc(native, lib.gd_optimizer_close)
        self._hyper = ffi.new("gd_hyper *")
        self._seen: list[Any] = []
        if isinstance(params, (Tensor, dict)):
            raise TypeError(f"optimizer: params must be an iterable of tensors or of dicts, not a {type(params).__name__}")
        groups = list(params)
        if not groups:
            raise InvalidValueError("optimizer: got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own; what is not given is taken from the defaults."""
        given = param_group["params"]
        items = [given] if isinstance(given, Tensor) else list(given)
        named = [x for x in items if isinstance(x, tuple)]
        tensors = [x[1] if isinstance(x, tuple) else x for x in items]
        for t in tensors:
            if not isinstance(t, Tensor):
                raise TypeError(f"optimizer: can only optimize tensors, got {type(t).__name__}")
        group = {**self.defaults, **param_group, "params": tensors}
        unknown = set(group) - set(self.defaults) - {"params", "param_names", "initial_lr"}
        if unknown:
            raise InvalidValueError(f"optimizer: unknown settings {sorted(unknown)}; {type(self).__name__} has {sorted(self.defaults)}")
        if named:
            group["param_names"] = [x[0] for x in named]
        self._check(group)
        handles = [t._h for t in tensors]
        check(lib.gd_optimizer_add_group(self._native, handles, len(handles)))
        self.param_groups.append(group)
        self._seen.append(None)

    def _check(self, group: dict[str, Any]) -> None:
        for name in ("lr", "weight_decay", "momentum", "eps"):
            if name in group and not group[name] >= 0:
                raise InvalidValueError(f"{type(self).__name__}: {name} is {group[name]}, must be at least 0")

    def _settings(self, group: dict[str, Any]) -> tuple[Any, ...]:
        """(lr, beta1, beta2, eps, weight_decay, momentum, dampening, nesterov, maximize, amsgrad)."""
        raise GradinoError(f"{type(self).__name__} does not say what its settings are")

    def _prepare(self) -> Any:
        """Pass changed settings on; returns the engine's optimizer."""
        for i, group in enumerate(self.param_groups):
            settings = self._settings(group)
            if settings != self._seen[i]:
                self._check(group)
                h = self._hyper
                h.lr, h.beta1, h.beta2, h.eps, h.weight_decay, h.momentum, h.dampening, h.nesterov, h.maximize, h.amsgrad = settings
                check(lib.gd_optimizer_set_hyper(self._native, i, h))
                self._seen[i] = settings
        return self._native

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in one pass over the slabs."""
        loss = closure() if closure is not None else None
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
                    p.grad.zero_()

    # ---- state ----------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        names = []
        for group in self.param_groups:
            own = group.get("param_names")
            names += own if own else [str(len(names) + i) for i in range(len(group["params"]))]
        return names

    def state_dict(self) -> dict[str, Any]:
        """Steps and moments (copies) by number, and the groups, in PyTorch's layout."""
        state: dict[int, dict[str, Any]] = {}
        groups, number = [], 0
        for group in self.param_groups:
            first = number
            for p in group["params"]:
                step = check(lib.gd_optimizer_get_step(self._native, p._h))
                if step:
                    entry: dict[str, Any] = {"step": step}
                    for name, region in self._STATES:
                        handle = lib.gd_parameter_state(p._h, region)
                        if handle:
                            entry[name] = Tensor(wrap(handle)._array())
                    state[number] = entry
                number += 1
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": list(range(first, number))})
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy a state from ``state_dict()``, matched by parameter name where names are known.

        Raises:
            GradinoError: if groups, names or shapes differ, naming the parameter; nothing is changed then.
        """
        saved, own = state_dict["param_groups"], self.param_groups
        if len(saved) != len(own) or any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, own)):
            sizes = [len(g["params"]) for g in saved], [len(g["params"]) for g in own]
            raise GradinoError(f"load_state_dict: the state has groups of {sizes[0]} parameters, this optimizer of {sizes[1]}")
        plan = []
        for old, group in zip(saved, own):
            keys = dict(zip(old.get("param_names") or [], old["params"]))
            names = group.get("param_names")
            for i, p in enumerate(group["params"]):
                label = names[i] if names else f"number {old['params'][i]}"
                if names and keys and names[i] not in keys:
                    raise GradinoError(f"load_state_dict: the state has no parameter {label}; it has {sorted(keys)}")
                entry = state_dict["state"].get(keys[names[i]] if names and keys else old["params"][i], {})
                for name, _ in self._STATES:
                    value = entry.get(name)
                    if value is not None and tuple(value.shape) != p.shape:
                        raise GradinoError(f"load_state_dict: {name} of parameter {label} has shape {tuple(value.shape)}, the parameter {p.shape}")
                plan.append((p, entry))
        for old, group in zip(saved, own):
            group.update({k: v for k, v in old.items() if k in self.defaults})
        for p, entry in plan:
            check(lib.gd_optimizer_set_step(self._native, p._h, int(entry.get("step", 0))))
            for name, region in self._STATES:
                value = entry.get(name)
                if value is not None:
                    value = value if isinstance(value, Tensor) else Tensor(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
                    check(lib.gd_optimizer_set_state(self._native, p._h, region, value._h))

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {v}" for k, v in sorted(group.items()) if k not in ("params", "param_names")]
        return "\n".join([*lines, ")"])
