"""Optimizers: one pass over the parameter slabs per step."""

import typing

from gradino.optim.adagrad import Adadelta, Adagrad
from gradino.optim.adam import Adam, AdamW
from gradino.optim.adam_variants import Adamax, NAdam, RAdam
from gradino.optim.groups import no_decay_groups
from gradino.optim.lion import Lion
from gradino.optim.muon import Muon
from gradino.optim.optimizer import Optimizer
from gradino.optim.rmsprop import RMSprop
from gradino.optim.sgd import SGD

if typing.TYPE_CHECKING:
    from gradino.optim import lr_scheduler as lr_scheduler

__all__ = [
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop", "SGD", "lr_scheduler",
    "no_decay_groups",
]  # fmt: skip


def __getattr__(name: str) -> typing.Any:
    """Schedules are imported at their first use."""
    if name == "lr_scheduler":
        import importlib

        return importlib.import_module("gradino.optim.lr_scheduler")
    raise AttributeError(f"module 'gradino.optim' has no attribute {name!r}")
