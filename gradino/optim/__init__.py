"""Optimizers: one pass over the parameter slabs per step."""

import typing

from gradino.optim.adam import Adam, AdamW
from gradino.optim.optimizer import Optimizer
from gradino.optim.sgd import SGD

if typing.TYPE_CHECKING:
    from gradino.optim import lr_scheduler as lr_scheduler

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]


def __getattr__(name: str) -> typing.Any:
    """Schedules are imported at their first use."""
    if name == "lr_scheduler":
        import importlib

        return importlib.import_module("gradino.optim.lr_scheduler")
    raise AttributeError(f"module 'gradino.optim' has no attribute {name!r}")
