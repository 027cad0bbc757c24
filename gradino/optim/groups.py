"""Parameter groups as training scripts want them."""

from __future__ import annotations

from typing import Any

from gradino.nn.module import Module

__all__ = ["no_decay_groups"]


def no_decay_groups(model: Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups for an optimizer: matrices and larger with this weight decay; biases, norms and other vectors without.

    Frozen parameters are left out, a shared one stands once. Groups carry names, so a saved state matches by name.

    >>> from gradino import nn, optim
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))
    >>> opt = optim.AdamW(optim.no_decay_groups(model, 0.1), lr=1e-3)
    >>> [(g["weight_decay"], g["param_names"]) for g in opt.param_groups]
    [(0.1, ['0.weight']), (0.0, ['0.bias', '1.weight', '1.bias'])]
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return [
        {"params": [pair for pair in named if pair[1].ndim >= 2], "weight_decay": weight_decay},
        {"params": [pair for pair in named if pair[1].ndim < 2], "weight_decay": 0.0},
    ]
