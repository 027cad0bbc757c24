"""Gradients on demand, and their check against finite differences."""

from gradino.autograd.check import GradcheckError, gradcheck, gradgradcheck
from gradino.autograd.functional import backward, grad
from gradino.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "GradcheckError", "backward", "enable_grad", "grad", "gradcheck", "gradgradcheck", "inference_mode", "no_grad", "set_grad_enabled",
]  # fmt: skip
