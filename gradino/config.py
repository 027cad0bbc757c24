"""What the engine found on this machine and what it uses: threads, instruction set, kernels."""

from __future__ import annotations

from gradino._arguments import whole
from gradino._lib import check, ffi, lib, text

__all__ = ["get_isa", "get_num_threads", "set_isa", "set_num_threads", "show_config", "supported_isas"]


def set_num_threads(n: int) -> None:
    """Use ``n`` threads, the calling one included. Results do not depend on it."""
    check(lib.gd_set_num_threads(whole("set_num_threads", "n", n)))


def get_num_threads() -> int:
    """Number of threads in use."""
    return int(lib.gd_get_num_threads())


def supported_isas() -> list[str]:
    """Kernel sets this CPU and operating system can run, weakest first."""
    return text(lib.gd_supported_isas()).split()


def get_isa() -> str:
    """The kernel set in use."""
    return text(lib.gd_get_isa())


def set_isa(name: str | None) -> None:
    """Use a kernel set (for tests and comparisons); None chooses the best.

    Raises:
        InvalidValueError: listing those that can be used.
    """
    check(lib.gd_set_isa(ffi.NULL if name is None else name.encode()))


def show_config() -> str:
    """CPU features, caches, threads, devices, and the kernels used for each op, as text: what `python -m gradino info` prints."""
    from gradino.tools import info

    return info.as_text()
