"""One step of a GRU. See the package's own text for how entries read."""

from __future__ import annotations

from typing import Any

import numpy as np
from spec_kinds import Domain, Spec, case, ones, raw

import gradino as gd


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gates(gi: Any, gh: Any) -> tuple[Any, ...]:
    (ir, iz, i_n), (hr, hz, hn) = np.split(gi, 3, -1), np.split(gh, 3, -1)
    r, z = _sigmoid(ir + hr), _sigmoid(iz + hz)
    return r, z, np.tanh(i_n + r * hn), hn


def _step(gi: Any, gh: Any, h: Any) -> Any:
    _, z, n, _ = _gates(gi, gh)
    return (1 - z) * n + z * h


def _step_bwd(g: Any, gi: Any, gh: Any, h: Any) -> tuple[Any, ...]:
    r, z, n, hn = _gates(gi, gh)
    dz, dn = g * (h - n) * z * (1 - z), g * (1 - z) * (1 - n * n)
    dr = dn * hn * r * (1 - r)
    return np.concatenate([dr, dz, dn], -1), np.concatenate([dr, dz, dn * r], -1), g * z


def _call_bwd(m: Any, g: gd.Tensor, gi: gd.Tensor, gh: gd.Tensor, h: gd.Tensor) -> Any:
    _, gates = raw("gru_cell", 2)(m, gi, gh, h)
    return raw("gru_cell_bwd", 3)(m, g, gates, gh, h)


def _sized(b: int, h: int) -> tuple[tuple[int, int], ...]:
    return (b, 3 * h), (b, 3 * h), (b, h)


# fmt: off
GRUS = (
    Spec(name="gru_cell", python="nn.GRUCell", call=raw("gru_cell"), ref=_step, torch=False, order=1, domain=Domain(-2, 2),
         rtol=(1e-6, 1e-14), atol=(1e-6, 1e-14),
         cases=(case(*_sized(2, 3)), case(*_sized(1, 1)), case(*_sized(0, 3)), case(*_sized(5, 17))),
         rows=lambda n: (case(*_sized(2, n)),), large=(case(*_sized(70, 100)),),
         errors=((gd.ShapeError, "must be", lambda: gd.nn.GRUCell(2, 3)(ones(2, 3))),)),
    Spec(name="gru_cell_bwd", call=_call_bwd, ref=_step_bwd, torch=False, order=0, canaries=False, out=("same",) * 3, domain=Domain(-2, 2),
         rtol=(3e-6, 1e-13), atol=(1e-6, 1e-14), cases=tuple(case((b, h), *_sized(b, h)) for b, h in ((2, 3), (1, 1), (0, 3), (5, 17))),
         rows=lambda n: (case((2, n), *_sized(2, n)),), large=(case((70, 100), *_sized(70, 100)),)),
)
# fmt: on
