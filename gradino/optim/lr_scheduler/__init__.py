"""Learning rate schedules, under PyTorch's names: ``scheduler.step()`` after ``optimizer.step()``."""

from gradino.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from gradino.optim.lr_scheduler.cycles import CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR, WarmupCosineLR
from gradino.optim.lr_scheduler.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from gradino.optim.lr_scheduler.plateau import ReduceLROnPlateau
from gradino.optim.lr_scheduler.scheduler import LRScheduler

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
    "WarmupCosineLR",
]  # fmt: skip
