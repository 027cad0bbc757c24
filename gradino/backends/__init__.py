"""Switches of PyTorch's backends that scripts set. There is only the CPU here, so they are remembered and change nothing."""

from __future__ import annotations

from types import SimpleNamespace

__all__ = ["cpu", "cuda", "cudnn", "mkldnn", "mps", "openmp"]


class _Backend(SimpleNamespace):
    """A backend that is not there."""

    def is_available(self) -> bool:
        """False: this build has only the CPU."""
        return False

    def is_built(self) -> bool:
        """False: this build has only the CPU."""
        return False


cuda = _Backend(
    matmul=SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True)
)
cudnn = _Backend(allow_tf32=True, benchmark=False, deterministic=True, enabled=False)
mps = _Backend()
mkldnn = _Backend(enabled=False)
openmp = _Backend()
cpu = SimpleNamespace(get_cpu_capability=lambda: _capability())


def _capability() -> str:
    """The instruction set in use, in PyTorch's words."""
    from gradino._lib import lib, text

    return {"avx512": "AVX512", "avx2": "AVX2"}.get(text(lib.gd_get_isa()), "DEFAULT")
