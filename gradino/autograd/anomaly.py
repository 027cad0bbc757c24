"""Looking for NaN in gradients, and where the op was called that made them."""

from __future__ import annotations

from typing import Any

from gradino._lib import lib

__all__ = ["detect_anomaly", "set_detect_anomaly"]

_TRACE, _NAN = 1, 2


class set_detect_anomaly:  # noqa: N801
    """Look for NaN in every gradient from here on, or within a ``with`` block only; for all threads.

    With ``mode=True`` each recorded op notes where it is called, and a backward whose gradients become NaN
    (``check_nan``) raises an error that names the op and that place. Slow: for finding faults.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = lib.gd_set_anomaly((_TRACE | (_NAN if check_nan else 0)) if mode else 0)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        lib.gd_set_anomaly(self._before)


class detect_anomaly:  # noqa: N801
    """A block in which anomalies are looked for, see :class:`set_detect_anomaly`.

    >>> import gradino as gd
    >>> x = gd.tensor([0.0], requires_grad=True)
    >>> with gd.autograd.detect_anomaly():
    ...     y = gd.tensor([gd.nan]) * x
    ...     y.sum().backward()
    Traceback (most recent call last):
        ...
    gradino.errors.GradinoError: backward: `mul` gave a gradient with NaN to its input 1
    The op was called here:
    ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        self._before = 0

    def __enter__(self) -> None:
        self._before = lib.gd_set_anomaly(_TRACE | (_NAN if self._check_nan else 0))

    def __exit__(self, *error: Any) -> None:
        lib.gd_set_anomaly(self._before)
