"""Exceptions. Each message names the op, what it received and the rule that broke."""


class GradinoError(RuntimeError):
    """Base of every error the engine reports."""


class ShapeError(GradinoError, ValueError):
    """Shapes that an op cannot combine."""


class DTypeError(GradinoError, TypeError):
    """A dtype that an op does not take."""


class ArenaError(GradinoError):
    """Misuse of an arena or of its scopes."""


class StaleTensorError(ArenaError):
    """A tensor whose arena was reset; take ``.item()`` before, or carry it out with ``.keep()``."""


class OutOfMemoryError(GradinoError, MemoryError):
    """An arena's reserve, or the system's memory, is used up."""


class DeviceError(GradinoError):
    """A device that is missing, or tensors on different devices."""


class FileFormatError(GradinoError, ValueError):
    """A file that does not hold what it should."""


class InvalidValueError(GradinoError, ValueError):
    """An argument outside its range."""


class NumberRangeError(InvalidValueError, OverflowError):
    """A Python number too large for where it has to go: a ValueError, and an OverflowError as in Python."""


class OutOfRangeError(GradinoError, IndexError):
    """An index or label outside its range."""


class DivisionByZeroError(GradinoError, ZeroDivisionError):
    """An integer divided by zero."""


class IndexStepError(OutOfRangeError, InvalidValueError):
    """A slice with a step that is not positive: a ValueError as in PyTorch."""


class IndexTypeError(OutOfRangeError, DTypeError):
    """An index of a type that is none: an IndexError as in PyTorch and NumPy, and a TypeError."""
