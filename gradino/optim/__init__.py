"""Optimizers: one pass over the parameter slabs per step."""

from gradino.optim import lr_scheduler
from gradino.optim.adam import Adam, AdamW
from gradino.optim.optimizer import Optimizer
from gradino.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
