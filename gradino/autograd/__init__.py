"""Gradients on demand, and their check against finite differences."""

from gradino.autograd import functional as functional
from gradino.autograd import graph as graph
from gradino.autograd.anomaly import detect_anomaly, set_detect_anomaly
from gradino.autograd.check import GradcheckError, gradcheck, gradgradcheck
from gradino.autograd.function import Function
from gradino.autograd.gradients import backward, grad
from gradino.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function", "GradcheckError", "backward", "detect_anomaly", "enable_grad", "functional", "grad", "gradcheck", "gradgradcheck",
    "graph", "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
