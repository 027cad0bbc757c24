"""gradino: neural networks from Python on a pure C engine, with arena-allocated tensors.

>>> import gradino as gd
>>> x = gd.tensor([1.0, 2.0], requires_grad=True)
>>> with gd.step_arena():
...     (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

import math
import typing

from gradino import _environment, factories, functions
from gradino import autograd as autograd
from gradino import cuda as cuda
from gradino import linalg as linalg
from gradino import nn as nn
from gradino import optim as optim
from gradino import special as special
from gradino._core import Size
from gradino._display import set_printoptions
from gradino._environment import *  # noqa: F403
from gradino._interop import from_cupy
from gradino._version import __version__ as __version__
from gradino.arena import Arena, ArenaStats, active_arena, memory_stats, permanent_arena, step_arena
from gradino.config import get_num_threads, set_num_threads, show_config
from gradino.devices import device, get_default_device, set_default_device
from gradino.dtypes import (
    bfloat16,
    bool_,
    can_cast,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int32,
    int64,
    promote_types,
    set_default_dtype,
)
from gradino.errors import (
    ArenaError,
    DeviceError,
    DivisionByZeroError,
    DTypeError,
    FileFormatError,
    GradinoError,
    InvalidValueError,
    OutOfMemoryError,
    OutOfRangeError,
    ShapeError,
    StaleTensorError,
)
from gradino.factories import *  # noqa: F403
from gradino.functions import *  # noqa: F403
from gradino.generator import Generator
from gradino.grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from gradino.layouts import channels_last, channels_last_3d, contiguous_format, layout, memory_format, preserve_format, strided
from gradino.tensor import Tensor

if typing.TYPE_CHECKING:
    from gradino import amp as amp
    from gradino import backends as backends
    from gradino import distributed as distributed
    from gradino import profiler as profiler
    from gradino import random as random
    from gradino import safetensors as safetensors
    from gradino import utils as utils
    from gradino.amp import autocast, get_autocast_dtype, is_autocast_available, is_autocast_enabled
    from gradino.serialization import load, load_checkpoint, save, save_checkpoint

_FILES = frozenset(("load", "load_checkpoint", "save", "save_checkpoint"))
_MIXED_PRECISION = frozenset(("autocast", "get_autocast_dtype", "is_autocast_available", "is_autocast_enabled"))


def __getattr__(name: str) -> typing.Any:
    """What a script may do without is imported at its first use: files, data loading, mixed precision."""
    import importlib

    if name in _FILES:
        return getattr(importlib.import_module("gradino.serialization"), name)
    if name in _MIXED_PRECISION:
        return getattr(importlib.import_module("gradino.amp"), name)
    if name in ("amp", "backends", "distributed", "profiler", "random", "safetensors", "utils"):
        return importlib.import_module(f"gradino.{name}")
    raise AttributeError(f"module 'gradino' has no attribute {name!r}")


e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
bool = bool_  # noqa: A001
float = float32  # noqa: A001
double = float64
half = float16
long = int64
int = int32  # noqa: A001

__all__ = [
    "Arena", "ArenaError", "ArenaStats", "DTypeError", "DeviceError", "DivisionByZeroError", "FileFormatError", "Generator",
    "GradinoError", "InvalidValueError", "OutOfMemoryError", "OutOfRangeError", "ShapeError", "StaleTensorError", "Tensor",
    "active_arena", "amp", "autocast", "autograd", "bfloat16", "bool", "device", "double", "dtype", "e", "enable_grad", "float",
    "float16", "float32", "float64", "get_autocast_dtype", "get_num_threads", "half", "inf", "inference_mode", "int", "int32",
    "int64", "is_autocast_available", "is_autocast_enabled", "is_grad_enabled", "linalg", "load", "load_checkpoint", "long", "memory_stats",
    "nan", "nn", "no_grad", "optim", "permanent_arena", "pi", "promote_types", "save", "save_checkpoint", "set_grad_enabled",
    "set_num_threads", "show_config", "step_arena",
]  # fmt: skip
__all__ += [
    "Size", "can_cast", "channels_last", "channels_last_3d", "contiguous_format", "from_cupy", "get_default_device",
    "get_default_dtype", "layout", "memory_format",
    "preserve_format",
    "set_default_device", "set_default_dtype", "set_printoptions", "special", "strided",
]  # fmt: skip
__all__ += _environment.__all__ + factories.__all__ + functions.__all__
