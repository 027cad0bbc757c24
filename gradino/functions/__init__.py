"""Tensor functions under their PyTorch names, for those who write ``gd.exp(x)`` rather than ``x.exp()``."""

from gradino.functions import (
    arranging,
    contractions,
    convolution,
    curves,
    linear_algebra,
    pointwise,
    queries,
    random,
    reductions,
    scans,
    scattering,
    shaping,
    sorting,
)
from gradino.functions.arranging import *  # noqa: F403
from gradino.functions.contractions import *  # noqa: F403
from gradino.functions.convolution import *  # noqa: F403
from gradino.functions.curves import *  # noqa: F403
from gradino.functions.linear_algebra import *  # noqa: F403
from gradino.functions.pointwise import *  # noqa: F403
from gradino.functions.queries import *  # noqa: F403
from gradino.functions.random import *  # noqa: F403
from gradino.functions.reductions import *  # noqa: F403
from gradino.functions.scans import *  # noqa: F403
from gradino.functions.scattering import *  # noqa: F403
from gradino.functions.shaping import *  # noqa: F403
from gradino.functions.sorting import *  # noqa: F403

__all__ = [
    *arranging.__all__,
    *contractions.__all__,
    *convolution.__all__,
    *curves.__all__,
    *linear_algebra.__all__,
    *pointwise.__all__,
    *queries.__all__,
    *random.__all__,
    *reductions.__all__,
    *scans.__all__,
    *scattering.__all__,
    *shaping.__all__,
    *sorting.__all__,
]
