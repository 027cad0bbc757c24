"""THE list of op specs: one entry for each row of native/ops.def. Adding an op means adding its entry in the file of its family.

How entries read: `m` is gradino or torch, `ref` gets float64 and int64 arrays. Families are in spec_kinds.py.
"""

from __future__ import annotations

from spec_kinds import Spec

from .activations import ACTIVATIONS
from .arranging import ARRANGING
from .attention import ATTENTION
from .convolution import CONVOLUTIONS
from .elementwise import BINARY, UNARY
from .filling import FILLING
from .gru import GRUS
from .layers import LOSSES, PRODUCTS
from .losses import PAIR_LOSSES
from .moves import MOVES, VIEWS
from .ordering import ORDERING
from .planes import PLANES
from .pointwise import POINTWISE
from .reductions import NORMS, REDUCTIONS

LIST = (
    *UNARY,
    *ACTIVATIONS,
    *BINARY,
    *POINTWISE,
    *REDUCTIONS,
    *NORMS,
    *LOSSES,
    *PAIR_LOSSES,
    *PRODUCTS,
    *GRUS,
    *CONVOLUTIONS,
    *ATTENTION,
    *PLANES,
    *VIEWS,
    *MOVES,
    *ARRANGING,
    *ORDERING,
    *FILLING,
)
SPECS: dict[str, Spec] = {spec.name: spec for spec in LIST}
