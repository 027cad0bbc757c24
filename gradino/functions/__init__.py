"""Tensor functions under their PyTorch names, for those who write ``gd.exp(x)`` rather than ``x.exp()``."""

from gradino.functions import pointwise, reductions, shaping
from gradino.functions.pointwise import *  # noqa: F403
from gradino.functions.reductions import *  # noqa: F403
from gradino.functions.shaping import *  # noqa: F403

__all__ = pointwise.__all__ + reductions.__all__ + shaping.__all__
