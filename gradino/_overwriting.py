"""In-place variants of the elementwise methods: ``x.exp_()`` overwrites ``x`` with ``x.exp()`` and returns it.

What may be written in place, and what happens to gradients, is the same for all and stands in ``_in_place.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradino._in_place import changed

if TYPE_CHECKING:
    from gradino.tensor import Tensor

__all__ = ["Overwriting"]


def overwrite(t: Tensor, name: str, method: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """``t`` after its values became those of ``method(t, ...)``, cast to its dtype."""
    return changed(t, name, lambda values: method(values, *args, **kwargs))


class Overwriting:
    """Each method is the one without the underscore, in place."""

    __slots__ = ()
    _h: int

    def abs_(self: Tensor) -> Tensor:
        """:meth:`abs` in place."""
        return overwrite(self, "abs_", type(self).abs)

    def absolute_(self: Tensor) -> Tensor:
        """:meth:`absolute` in place."""
        return overwrite(self, "absolute_", type(self).absolute)

    def acos_(self: Tensor) -> Tensor:
        """:meth:`acos` in place."""
        return overwrite(self, "acos_", type(self).acos)

    def acosh_(self: Tensor) -> Tensor:
        """:meth:`acosh` in place."""
        return overwrite(self, "acosh_", type(self).acosh)

    def arccos_(self: Tensor) -> Tensor:
        """:meth:`arccos` in place."""
        return overwrite(self, "arccos_", type(self).arccos)

    def arccosh_(self: Tensor) -> Tensor:
        """:meth:`arccosh` in place."""
        return overwrite(self, "arccosh_", type(self).arccosh)

    def arcsin_(self: Tensor) -> Tensor:
        """:meth:`arcsin` in place."""
        return overwrite(self, "arcsin_", type(self).arcsin)

    def arcsinh_(self: Tensor) -> Tensor:
        """:meth:`arcsinh` in place."""
        return overwrite(self, "arcsinh_", type(self).arcsinh)

    def arctan_(self: Tensor) -> Tensor:
        """:meth:`arctan` in place."""
        return overwrite(self, "arctan_", type(self).arctan)

    def arctanh_(self: Tensor) -> Tensor:
        """:meth:`arctanh` in place."""
        return overwrite(self, "arctanh_", type(self).arctanh)

    def asin_(self: Tensor) -> Tensor:
        """:meth:`asin` in place."""
        return overwrite(self, "asin_", type(self).asin)

    def asinh_(self: Tensor) -> Tensor:
        """:meth:`asinh` in place."""
        return overwrite(self, "asinh_", type(self).asinh)

    def atan_(self: Tensor) -> Tensor:
        """:meth:`atan` in place."""
        return overwrite(self, "atan_", type(self).atan)

    def atanh_(self: Tensor) -> Tensor:
        """:meth:`atanh` in place."""
        return overwrite(self, "atanh_", type(self).atanh)

    def bitwise_not_(self: Tensor) -> Tensor:
        """:meth:`bitwise_not` in place."""
        return overwrite(self, "bitwise_not_", type(self).bitwise_not)

    def ceil_(self: Tensor) -> Tensor:
        """:meth:`ceil` in place."""
        return overwrite(self, "ceil_", type(self).ceil)

    def cos_(self: Tensor) -> Tensor:
        """:meth:`cos` in place."""
        return overwrite(self, "cos_", type(self).cos)

    def cosh_(self: Tensor) -> Tensor:
        """:meth:`cosh` in place."""
        return overwrite(self, "cosh_", type(self).cosh)

    def deg2rad_(self: Tensor) -> Tensor:
        """:meth:`deg2rad` in place."""
        return overwrite(self, "deg2rad_", type(self).deg2rad)

    def digamma_(self: Tensor) -> Tensor:
        """:meth:`digamma` in place."""
        return overwrite(self, "digamma_", type(self).digamma)

    def erf_(self: Tensor) -> Tensor:
        """:meth:`erf` in place."""
        return overwrite(self, "erf_", type(self).erf)

    def erfc_(self: Tensor) -> Tensor:
        """:meth:`erfc` in place."""
        return overwrite(self, "erfc_", type(self).erfc)

    def erfinv_(self: Tensor) -> Tensor:
        """:meth:`erfinv` in place."""
        return overwrite(self, "erfinv_", type(self).erfinv)

    def exp_(self: Tensor) -> Tensor:
        """:meth:`exp` in place."""
        return overwrite(self, "exp_", type(self).exp)

    def exp2_(self: Tensor) -> Tensor:
        """:meth:`exp2` in place."""
        return overwrite(self, "exp2_", type(self).exp2)

    def expm1_(self: Tensor) -> Tensor:
        """:meth:`expm1` in place."""
        return overwrite(self, "expm1_", type(self).expm1)

    def fix_(self: Tensor) -> Tensor:
        """:meth:`fix` in place."""
        return overwrite(self, "fix_", type(self).fix)

    def floor_(self: Tensor) -> Tensor:
        """:meth:`floor` in place."""
        return overwrite(self, "floor_", type(self).floor)

    def frac_(self: Tensor) -> Tensor:
        """:meth:`frac` in place."""
        return overwrite(self, "frac_", type(self).frac)

    def lgamma_(self: Tensor) -> Tensor:
        """:meth:`lgamma` in place."""
        return overwrite(self, "lgamma_", type(self).lgamma)

    def log_(self: Tensor) -> Tensor:
        """:meth:`log` in place."""
        return overwrite(self, "log_", type(self).log)

    def log10_(self: Tensor) -> Tensor:
        """:meth:`log10` in place."""
        return overwrite(self, "log10_", type(self).log10)

    def log1p_(self: Tensor) -> Tensor:
        """:meth:`log1p` in place."""
        return overwrite(self, "log1p_", type(self).log1p)

    def log2_(self: Tensor) -> Tensor:
        """:meth:`log2` in place."""
        return overwrite(self, "log2_", type(self).log2)

    def logical_not_(self: Tensor) -> Tensor:
        """:meth:`logical_not` in place."""
        return overwrite(self, "logical_not_", type(self).logical_not)

    def neg_(self: Tensor) -> Tensor:
        """:meth:`neg` in place."""
        return overwrite(self, "neg_", type(self).neg)

    def negative_(self: Tensor) -> Tensor:
        """:meth:`negative` in place."""
        return overwrite(self, "negative_", type(self).negative)

    def rad2deg_(self: Tensor) -> Tensor:
        """:meth:`rad2deg` in place."""
        return overwrite(self, "rad2deg_", type(self).rad2deg)

    def reciprocal_(self: Tensor) -> Tensor:
        """:meth:`reciprocal` in place."""
        return overwrite(self, "reciprocal_", type(self).reciprocal)

    def relu_(self: Tensor) -> Tensor:
        """:meth:`relu` in place."""
        return overwrite(self, "relu_", type(self).relu)

    def rsqrt_(self: Tensor) -> Tensor:
        """:meth:`rsqrt` in place."""
        return overwrite(self, "rsqrt_", type(self).rsqrt)

    def sgn_(self: Tensor) -> Tensor:
        """:meth:`sgn` in place."""
        return overwrite(self, "sgn_", type(self).sgn)

    def sigmoid_(self: Tensor) -> Tensor:
        """:meth:`sigmoid` in place."""
        return overwrite(self, "sigmoid_", type(self).sigmoid)

    def sign_(self: Tensor) -> Tensor:
        """:meth:`sign` in place."""
        return overwrite(self, "sign_", type(self).sign)

    def sin_(self: Tensor) -> Tensor:
        """:meth:`sin` in place."""
        return overwrite(self, "sin_", type(self).sin)

    def sinc_(self: Tensor) -> Tensor:
        """:meth:`sinc` in place."""
        return overwrite(self, "sinc_", type(self).sinc)

    def sinh_(self: Tensor) -> Tensor:
        """:meth:`sinh` in place."""
        return overwrite(self, "sinh_", type(self).sinh)

    def sqrt_(self: Tensor) -> Tensor:
        """:meth:`sqrt` in place."""
        return overwrite(self, "sqrt_", type(self).sqrt)

    def square_(self: Tensor) -> Tensor:
        """:meth:`square` in place."""
        return overwrite(self, "square_", type(self).square)

    def tan_(self: Tensor) -> Tensor:
        """:meth:`tan` in place."""
        return overwrite(self, "tan_", type(self).tan)

    def tanh_(self: Tensor) -> Tensor:
        """:meth:`tanh` in place."""
        return overwrite(self, "tanh_", type(self).tanh)

    def trunc_(self: Tensor) -> Tensor:
        """:meth:`trunc` in place."""
        return overwrite(self, "trunc_", type(self).trunc)
