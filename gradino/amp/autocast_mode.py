"""``autocast``: products in half precision, losses in float32, weights as they are."""

from __future__ import annotations

import warnings

from gradino._lib import lib
from gradino.dtypes import BY_CODE, bfloat16, dtype, float16, resolve
from gradino.errors import DeviceError
from gradino.grad_mode import Mode

__all__ = ["autocast", "get_autocast_dtype", "is_autocast_available", "is_autocast_enabled"]

_CODE = 3  # what the scope adds to a code of the library
_OFF, _AS_IT_IS = -1, -2  # such codes, beside those of dtypes
_DEFAULT = {"cpu": bfloat16, "cuda": float16}


def _check(device_type: str) -> None:
    if device_type not in _DEFAULT:
        raise DeviceError(f"autocast: device_type is {device_type!r}, must be one of {sorted(_DEFAULT)}")


def _has(device_type: str) -> bool:
    return device_type == "cpu" or (device_type == "cuda" and bool(lib.gd_cuda_device_count() > 0))


class autocast(Mode):  # noqa: N801
    """Mixed precision within a ``with`` block or a decorated function.

    Matrix products, linear and recurrent layers, convolutions and attention take their float32 inputs as ``dtype`` and give
    ``dtype``; losses and products over elements take halves as float32; all other ops compute in what they are given.
    Weights stay float32, and so do their gradients. float64 is left alone. Run backward() outside of it or inside: it keeps to
    what the forward did.

    Args:
        device_type: "cpu" or "cuda"; where there is such a device both mean ops on any. "cuda" without one warns and changes
            nothing, as in PyTorch.
        dtype: bfloat16 (the default on CPUs) or float16.
        enabled: False switches an outer autocast off within.
        cache_enabled: whether the cast of a leaf that requires grad is kept until the outermost autocast ends.

    >>> import gradino as gd
    >>> layer = gd.nn.Linear(4, 2)
    >>> with gd.autocast("cpu"):
    ...     layer(gd.ones(1, 4)).dtype
    gradino.bfloat16
    """

    __slots__ = ("device", "dtype", "enabled")

    def __init__(self, device_type: str, dtype: dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        super().__init__()
        _check(device_type)
        wanted = _DEFAULT[device_type] if dtype is None else resolve(dtype)
        if enabled and device_type == "cuda" and not _has(device_type):
            warnings.warn("autocast: there is no CUDA device; autocast('cuda') changes nothing", RuntimeWarning, stacklevel=2)
            enabled = False
        if enabled and wanted not in (bfloat16, float16):
            warnings.warn(f"autocast: dtype is {wanted}, must be bfloat16 or float16; it changes nothing", RuntimeWarning, stacklevel=2)
            enabled = False
        self.device, self.dtype, self.enabled = device_type, wanted, bool(enabled)
        # what is off for a device that there is not leaves the autocast of the one that there is alone
        self._autocast = _CODE + (wanted.code if self.enabled else _OFF if _has(device_type) else _AS_IT_IS)
        self._cache = cache_enabled is None or bool(cache_enabled)


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Whether ops compute in mixed precision now."""
    _check(device_type)
    return _has(device_type) and lib.gd_autocast_dtype() >= 0


def get_autocast_dtype(device_type: str = "cpu") -> dtype:
    """What products compute in under autocast: of the one that is on, or the default."""
    _check(device_type)
    now = lib.gd_autocast_dtype() if _has(device_type) else -1
    return BY_CODE[now] if now >= 0 else _DEFAULT[device_type]


def is_autocast_available(device_type: str) -> bool:
    """Whether there is a device of the kind for autocast to work on."""
    return _has(device_type)
