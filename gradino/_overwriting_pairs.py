"""In-place variants of the elementwise methods that take arguments, and of those that only change the view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradino._overwriting import overwrite
from gradino.errors import GradinoError

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["OverwritingPairs"]


class OverwritingPairs:
    """Each method is the one without the underscore, in place."""

    __slots__ = ()
    _h: int

    def arctan2_(self: Tensor, other: Any) -> Tensor:
        """:meth:`arctan2` in place."""
        return overwrite(self, "arctan2_", type(self).arctan2, other)

    def atan2_(self: Tensor, other: Any) -> Tensor:
        """:meth:`atan2` in place."""
        return overwrite(self, "atan2_", type(self).atan2, other)

    def bitwise_and_(self: Tensor, other: Any) -> Tensor:
        """:meth:`bitwise_and` in place."""
        return overwrite(self, "bitwise_and_", type(self).bitwise_and, other)

    def bitwise_left_shift_(self: Tensor, other: Any) -> Tensor:
        """:meth:`bitwise_left_shift` in place."""
        return overwrite(self, "bitwise_left_shift_", type(self).bitwise_left_shift, other)

    def bitwise_or_(self: Tensor, other: Any) -> Tensor:
        """:meth:`bitwise_or` in place."""
        return overwrite(self, "bitwise_or_", type(self).bitwise_or, other)

    def bitwise_right_shift_(self: Tensor, other: Any) -> Tensor:
        """:meth:`bitwise_right_shift` in place."""
        return overwrite(self, "bitwise_right_shift_", type(self).bitwise_right_shift, other)

    def bitwise_xor_(self: Tensor, other: Any) -> Tensor:
        """:meth:`bitwise_xor` in place."""
        return overwrite(self, "bitwise_xor_", type(self).bitwise_xor, other)

    def clamp_max_(self: Tensor, max: Any) -> Tensor:
        """:meth:`clamp_max` in place."""
        return overwrite(self, "clamp_max_", type(self).clamp_max, max)

    def clamp_min_(self: Tensor, min: Any) -> Tensor:
        """:meth:`clamp_min` in place."""
        return overwrite(self, "clamp_min_", type(self).clamp_min, min)

    def clip_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
        """:meth:`clip` in place."""
        return overwrite(self, "clip_", type(self).clip, min, max)

    def copysign_(self: Tensor, other: Any) -> Tensor:
        """:meth:`copysign` in place."""
        return overwrite(self, "copysign_", type(self).copysign, other)

    def divide_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """:meth:`divide` in place."""
        return overwrite(self, "divide_", type(self).divide, other, rounding_mode=rounding_mode)

    def eq_(self: Tensor, other: Any) -> Tensor:
        """:meth:`eq` in place."""
        return overwrite(self, "eq_", type(self).eq, other)

    def float_power_(self: Tensor, exponent: Any) -> Tensor:
        """:meth:`float_power` in place."""
        return overwrite(self, "float_power_", type(self).float_power, exponent)

    def floor_divide_(self: Tensor, other: Any) -> Tensor:
        """:meth:`floor_divide` in place."""
        return overwrite(self, "floor_divide_", type(self).floor_divide, other)

    def fmod_(self: Tensor, other: Any) -> Tensor:
        """:meth:`fmod` in place."""
        return overwrite(self, "fmod_", type(self).fmod, other)

    def gcd_(self: Tensor, other: Any) -> Tensor:
        """:meth:`gcd` in place."""
        return overwrite(self, "gcd_", type(self).gcd, other)

    def ge_(self: Tensor, other: Any) -> Tensor:
        """:meth:`ge` in place."""
        return overwrite(self, "ge_", type(self).ge, other)

    def greater_(self: Tensor, other: Any) -> Tensor:
        """:meth:`greater` in place."""
        return overwrite(self, "greater_", type(self).greater, other)

    def greater_equal_(self: Tensor, other: Any) -> Tensor:
        """:meth:`greater_equal` in place."""
        return overwrite(self, "greater_equal_", type(self).greater_equal, other)

    def gt_(self: Tensor, other: Any) -> Tensor:
        """:meth:`gt` in place."""
        return overwrite(self, "gt_", type(self).gt, other)

    def heaviside_(self: Tensor, values: Any) -> Tensor:
        """:meth:`heaviside` in place."""
        return overwrite(self, "heaviside_", type(self).heaviside, values)

    def hypot_(self: Tensor, other: Any) -> Tensor:
        """:meth:`hypot` in place."""
        return overwrite(self, "hypot_", type(self).hypot, other)

    def lcm_(self: Tensor, other: Any) -> Tensor:
        """:meth:`lcm` in place."""
        return overwrite(self, "lcm_", type(self).lcm, other)

    def ldexp_(self: Tensor, other: Any) -> Tensor:
        """:meth:`ldexp` in place."""
        return overwrite(self, "ldexp_", type(self).ldexp, other)

    def le_(self: Tensor, other: Any) -> Tensor:
        """:meth:`le` in place."""
        return overwrite(self, "le_", type(self).le, other)

    def lerp_(self: Tensor, end: Tensor, weight: Any) -> Tensor:
        """:meth:`lerp` in place."""
        return overwrite(self, "lerp_", type(self).lerp, end, weight)

    def less_(self: Tensor, other: Any) -> Tensor:
        """:meth:`less` in place."""
        return overwrite(self, "less_", type(self).less, other)

    def less_equal_(self: Tensor, other: Any) -> Tensor:
        """:meth:`less_equal` in place."""
        return overwrite(self, "less_equal_", type(self).less_equal, other)

    def logical_and_(self: Tensor, other: Any) -> Tensor:
        """:meth:`logical_and` in place."""
        return overwrite(self, "logical_and_", type(self).logical_and, other)

    def logical_or_(self: Tensor, other: Any) -> Tensor:
        """:meth:`logical_or` in place."""
        return overwrite(self, "logical_or_", type(self).logical_or, other)

    def logical_xor_(self: Tensor, other: Any) -> Tensor:
        """:meth:`logical_xor` in place."""
        return overwrite(self, "logical_xor_", type(self).logical_xor, other)

    def logit_(self: Tensor, eps: float | None = None) -> Tensor:
        """:meth:`logit` in place."""
        return overwrite(self, "logit_", type(self).logit, eps)

    def lt_(self: Tensor, other: Any) -> Tensor:
        """:meth:`lt` in place."""
        return overwrite(self, "lt_", type(self).lt, other)

    def multiply_(self: Tensor, other: Any) -> Tensor:
        """:meth:`multiply` in place."""
        return overwrite(self, "multiply_", type(self).multiply, other)

    def mvlgamma_(self: Tensor, p: int) -> Tensor:
        """:meth:`mvlgamma` in place."""
        return overwrite(self, "mvlgamma_", type(self).mvlgamma, p)

    def nan_to_num_(self: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
        """:meth:`nan_to_num` in place."""
        return overwrite(self, "nan_to_num_", type(self).nan_to_num, nan, posinf, neginf)

    def ne_(self: Tensor, other: Any) -> Tensor:
        """:meth:`ne` in place."""
        return overwrite(self, "ne_", type(self).ne, other)

    def nextafter_(self: Tensor, other: Any) -> Tensor:
        """:meth:`nextafter` in place."""
        return overwrite(self, "nextafter_", type(self).nextafter, other)

    def not_equal_(self: Tensor, other: Any) -> Tensor:
        """:meth:`not_equal` in place."""
        return overwrite(self, "not_equal_", type(self).not_equal, other)

    def polygamma_(self: Tensor, n: int) -> Tensor:
        """:meth:`polygamma` in place."""
        return overwrite(self, "polygamma_", type(self).polygamma, n)

    def pow_(self: Tensor, exponent: Any) -> Tensor:
        """:meth:`pow` in place."""
        return overwrite(self, "pow_", type(self).pow, exponent)

    def remainder_(self: Tensor, other: Any) -> Tensor:
        """:meth:`remainder` in place."""
        return overwrite(self, "remainder_", type(self).remainder, other)

    def round_(self: Tensor, *, decimals: int = 0) -> Tensor:
        """:meth:`round` in place."""
        return overwrite(self, "round_", type(self).round, decimals=decimals)

    def subtract_(self: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
        """:meth:`subtract` in place."""
        return overwrite(self, "subtract_", type(self).subtract, other, alpha=alpha)

    def true_divide_(self: Tensor, other: Any) -> Tensor:
        """:meth:`true_divide` in place."""
        return overwrite(self, "true_divide_", type(self).true_divide, other)

    def xlogy_(self: Tensor, other: Any) -> Tensor:
        """:meth:`xlogy` in place."""
        return overwrite(self, "xlogy_", type(self).xlogy, other)

    def tril_(self: Tensor, diagonal: int = 0) -> Tensor:
        """:meth:`tril` in place."""
        return overwrite(self, "tril_", type(self).tril, diagonal)

    def triu_(self: Tensor, diagonal: int = 0) -> Tensor:
        """:meth:`triu` in place."""
        return overwrite(self, "triu_", type(self).triu, diagonal)

    # ---- another view of the same memory --------------------------------------------------------------------

    def squeeze_(self: Tensor, dim: Any = None) -> Tensor:
        """:meth:`squeeze` in place."""
        return _turned(self, "squeeze_", self.squeeze(dim))

    def unsqueeze_(self: Tensor, dim: int) -> Tensor:
        """:meth:`unsqueeze` in place."""
        return _turned(self, "unsqueeze_", self.unsqueeze(dim))

    def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
        """:meth:`transpose` in place."""
        return _turned(self, "transpose_", self.transpose(dim0, dim1))

    def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
        """:meth:`transpose` in place."""
        return _turned(self, "swapaxes_", self.transpose(axis0, axis1))

    swapdims_ = swapaxes_

    def t_(self: Tensor) -> Tensor:
        """:meth:`t` in place."""
        return _turned(self, "t_", self.t())


def _turned(t: Tensor, name: str, view: Tensor) -> Tensor:
    """``t`` after it became another view of its memory."""
    info = t._info()
    if info.is_parameter or (info.requires_grad and info.is_leaf):
        raise GradinoError(f"{name}: a parameter or leaf that requires grad keeps its shape; use the method without the underscore")
    t._h = view._h
    return t
