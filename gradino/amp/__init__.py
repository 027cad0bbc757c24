"""Mixed precision: ``autocast`` for what ops compute in, ``GradScaler`` for gradients that float16 would lose."""

from gradino.amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_available, is_autocast_enabled
from gradino.amp.grad_scaler import GradScaler, OptState

__all__ = ["GradScaler", "OptState", "autocast", "get_autocast_dtype", "is_autocast_available", "is_autocast_enabled"]
