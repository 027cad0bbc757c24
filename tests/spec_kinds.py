"""What a spec is, the kinds of inputs it draws, and the families whose specs differ in one function only.

A spec says of one row of the op table how to call it, what the result must be, and what it refuses.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

import gradino as gd
from gradino._core import wrap
from gradino._lib import ffi, lib, op_id

FLOATS = ("float32", "float64")
INTS = ("int64", "int32")
NUMBERS = FLOATS + INTS
ALL = (*NUMBERS, "bool")
HALVES = ("bfloat16", "float16")  # every op of float32 takes them

# Relative errors allowed in float32 and float64: exact, correctly rounded up to two units, and sums.
EXACT = (0.0, 0.0)
ROUNDED = (2.4e-7, 1e-15)
SUMMED = (1e-6, 4e-15)


@dataclass(frozen=True)
class Domain:
    """Where inputs are drawn from: if 0 lies inside, a tenth are exactly 0, unless `nonzero`.

    Gradients are checked away from `kinks` (numbers, or "integers", or "halves").
    """

    low: float = -3.0
    high: float = 3.0
    kinks: Any = ()
    nonzero: bool = False


@dataclass(frozen=True)
class Const:
    """An input of the dtype under test that needs no gradient."""

    shape: tuple[int, ...]
    low: float = 0.1
    high: float = 2.0


@dataclass(frozen=True)
class Ints:
    """An int64 input, whatever the dtype under test."""

    shape: tuple[int, ...]
    low: int
    high: int  # exclusive


@dataclass(frozen=True)
class Bools:
    """A bool input."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Given:
    """An int64 input with these values."""

    values: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """Inputs (a shape is drawn from the spec's domain in the dtype under test; None is absent) and attributes."""

    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.inputs))}{' ' if self.attributes else ''}{self.attributes or ''}"

    def of_length(self, n: int) -> Case:
        """The same with vectors of n elements, for elementwise ops."""
        return replace(self, inputs=tuple((n,) if isinstance(x, tuple) else replace(x, shape=(n,)) for x in self.inputs))


def case(*inputs: Any, **attributes: Any) -> Case:
    return Case(inputs, attributes)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One op. `call(m, *tensors, **attributes)` runs it, with m gradino, or torch where PyTorch has the same;
    `ref(*arrays, **attributes)` is the right result, from floats as float64 and integers as int64."""

    name: str
    call: Callable[..., Any]
    ref: Callable[..., Any]
    cases: tuple[Case, ...]
    domain: Domain | tuple[Domain, ...] = Domain()
    dtypes: tuple[str, ...] = FLOATS
    out: Any = "same"  # dtype of the result: "same", "float" (float32 from integers), or a name; one per result
    rtol: tuple[float, float] = ROUNDED
    atol: tuple[float, float] = EXACT
    scale: Callable[..., Any] | None = None  # like ref: the magnitude that rtol refers to, where terms cancel
    order: int = 2  # how often it can be differentiated
    elementwise: bool = False
    rows: Callable[[int], tuple[Case, ...]] | None = None  # cases over rows and columns of n elements, for all short n
    large: tuple[Case, ...] = ()  # enough work for several threads
    factory: bool = False  # takes no tensors; call and ref get dtype=
    torch: bool = True  # call(torch, ...) means the same
    canaries: bool = True  # False where call runs other ops first, whose workspace lies where the result will be
    reads_rounded: bool = False  # of halves: it reads a result that forward has rounded, so it is not rounded once only
    python: str = ""  # dotted name in the package, of the function or method that runs it
    errors: tuple[tuple[type[Exception], str, Callable[[], Any]], ...] = ()

    @property
    def halves(self) -> tuple[str, ...]:
        """bfloat16 and float16, where the op takes floats."""
        return HALVES if "float32" in self.dtypes else ()

    def domain_of(self, k: int) -> Domain:
        return self.domain if isinstance(self.domain, Domain) else self.domain[k]


# ---- Drawing inputs --------------------------------------------------------------------------------------


def generator(*key: Any) -> np.random.Generator:
    """Random numbers that depend on the key alone."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def _away_from(x: np.ndarray, kinks: Any) -> np.ndarray:
    for kink in [kinks] if isinstance(kinks, str) else kinks:
        nearest = np.round(x) if kink == "integers" else np.floor(x) + 0.5 if kink == "halves" else np.full_like(x, kink)
        x = np.where(np.abs(x - nearest) < 0.1, nearest + np.where(x < nearest, -0.2, 0.2), x)
    return x


def draw(spec: Spec, inputs: tuple[Any, ...], dtype: str, rng: np.random.Generator, smooth: bool = False) -> list[Any]:
    """An array for each input; `smooth` keeps away from kinks."""
    return [None if x is None else _draw(spec.domain_of(k), x, dtype, rng, smooth) for k, x in enumerate(inputs)]


def _draw(d: Domain, x: Any, dtype: str, rng: np.random.Generator, smooth: bool) -> np.ndarray:
    if isinstance(x, Given):
        return np.array(x.values, np.int64)
    if isinstance(x, Ints):
        return rng.integers(x.low, x.high, x.shape)
    if isinstance(x, Bools) or dtype == "bool":
        return np.asarray(rng.random(x.shape if isinstance(x, Bools) else x) < 0.5)
    if isinstance(x, Const):
        x, d, smooth = x.shape, Domain(x.low, x.high), False
    if dtype in INTS:
        values = rng.integers(int(np.ceil(d.low)), int(np.floor(d.high)) + 1, x)
        return np.asarray(np.where(values == 0, 1, values) if d.nonzero else values).astype(dtype)
    values = rng.uniform(d.low, d.high, x)
    if smooth:
        return np.asarray(_away_from(values, d.kinks)).astype(dtype)
    may_be_zero = d.low <= 0 <= d.high and not d.nonzero
    return np.asarray(np.where(rng.random(x) < 0.1, 0, values) if may_be_zero else values).astype(dtype)


# ---- Layouts -------------------------------------------------------------------------------------------------

LAYOUTS = ("contiguous", "transposed", "strided", "guarded", "expanded")


def laid_out(a: np.ndarray | None, layout: str) -> np.ndarray | None:
    """The array in another memory layout; "expanded" repeats its first row, and so changes values."""
    if a is None or layout in ("contiguous", "guarded") or not a.ndim:
        return a
    if layout == "transposed":
        return np.ascontiguousarray(a.T).T
    if layout == "expanded":
        if a.shape[0] < 2:
            return a
        first = a[:1].copy()
        return np.lib.stride_tricks.as_strided(first, a.shape, (0, *first.strides[1:]), writeable=True)
    result = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)[..., 1 : 2 * a.shape[-1] : 2]
    result[...] = a  # every second element of the last dimension, from the second on
    return result


def along_rows(n: int) -> tuple[Case, ...]:
    """One row, three rows, three columns of n elements."""
    return case((n,), dim=0), case((3, n), dim=1), case((n, 3), dim=0)


def large_rows(**more: Any) -> tuple[Case, ...]:
    """Many rows, few long rows, many columns, everything at once."""
    return case((900, 150), dim=1, **more), case((3, 50000), dim=1, **more), case((500, 300), dim=0, **more)


def wide(a: np.ndarray | None) -> np.ndarray | None:
    """The array as references take it: float64, int64 or bool."""
    return None if a is None else a.astype({"f": np.float64, "i": np.int64, "b": np.bool_}[a.dtype.kind])


# ---- Calling rows that have no Python function -----------------------------------------------------------------


def raw(name: str, outputs: int = 1) -> Callable[..., Any]:
    """A call of a row of the table with its attributes as they stand in ops.def."""
    op = op_id(name)

    def call(m: Any, *tensors: gd.Tensor | None, i: tuple[int, ...] = (), f: tuple[float, ...] = ()) -> Any:
        attributes = ffi.new("gd_attr *")
        attributes.i[0 : len(i)] = list(i)
        attributes.f[0 : len(f)] = list(f)
        first = wrap(lib.gd_call(op, [lib.GD_ABSENT if t is None else t._h for t in tensors], len(tensors), attributes))
        return first if outputs == 1 else (first, *(wrap(lib.gd_output(first._h, k)) for k in range(1, outputs)))

    return call


def named(name: str) -> Callable[..., Any]:
    """A call of the function of that name."""
    return lambda m, *tensors, **attributes: getattr(m, name)(*tensors, **attributes)


# ---- Families --------------------------------------------------------------------------------------------------

UNARY_CASES = (case((7,)), case((2, 3)), case(()), case((1,)), case((0,)), case((2, 0, 3)), case((3, 4, 5)), case((2, 1, 3, 4)))
BINARY_CASES = (
    case((5,), (5,)), case((2, 3), (3,)), case((3,), (2, 3)), case((2, 3), (2, 1)), case((), (3,)), case((), ()), case((4, 1), (1, 3)),
    case((0,), (1,)), case((2, 0), (2, 1)), case((3, 4, 5), (4, 1)), case((2, 1, 3, 4), (5, 1, 4)), case((2, 3, 4, 5), (2, 3, 4, 5)),
)  # fmt: skip
REDUCE_CASES = (
    case((7,)), case((3, 4)), case((3, 4), dim=0), case((3, 4), dim=-1, keepdim=True), case((2, 3, 4), dim=1), case(()), case((1,)),
    case((2, 3, 4), dim=2), case((2, 3, 2, 3), dim=2, keepdim=True), case((2, 3, 2, 3), dim=0), case((3, 0), dim=0), case((1, 5, 1), dim=1),
    case((2, 67), dim=1), case((131,)),
)  # fmt: skip
DIMS_CASES = (
    *REDUCE_CASES, case((3, 1100), dim=1), case((1100, 2), dim=0), case((2, 3, 4), dim=(0, 2)),
    case((2, 3, 2, 3), dim=(1, 3), keepdim=True), case((2, 3, 2, 3), dim=(0, 1, 2)),
    case((2, 3, 4), dim=(-1, -2)),
)  # fmt: skip
EMPTY_REDUCE = (case((0,)), case((2, 0, 3), dim=1), case((2, 0, 3), dim=1, keepdim=True), case((0, 3), dim=0))


def ones(*shape: int, dtype: str = "float32") -> gd.Tensor:
    return gd.ones(*shape, dtype=dtype)


def unary(name: str, ref: Callable[..., Any], low: float = -3.0, high: float = 3.0, *, kinks: Any = (), **more: Any) -> Spec:
    """`out = f(x)`, elementwise."""
    errors: tuple[Any, ...] = ()
    if more.get("dtypes") == NUMBERS:  # it neither makes floats of bools nor takes them
        errors = ((gd.DTypeError, "bool", lambda: getattr(gd, name)(ones(2, dtype="bool"))),)
    defaults: dict[str, Any] = {"call": named(name), "cases": UNARY_CASES, "elementwise": True, "errors": errors}
    return Spec(name=name, ref=ref, domain=Domain(low, high, kinks), **(defaults | more))


def unary_float(name: str, ref: Callable[..., Any], low: float = -3.0, high: float = 3.0, **more: Any) -> Spec:
    """`out = f(x)`, elementwise, which makes float32 of integers and bools first."""
    return unary(name, ref, low, high, dtypes=ALL, out="float", **more)


def binary(name: str, ref: Callable[..., Any], **more: Any) -> Spec:
    """`out = f(a, b)`, broadcast."""
    dtype = more.get("dtypes", NUMBERS)[0]

    def call(*shapes: tuple[int, ...]) -> Any:
        function = reduce(getattr, more.get("python", name).split("."), gd)
        return function(*(ones(*shape, dtype=dtype) for shape in shapes))

    errors = (
        (gd.ShapeError, "broadcast", lambda: call((2, 3), (2, 4))),
        (gd.ShapeError, "broadcast", lambda: call((2, 3), (2,))),
    )
    defaults: dict[str, Any] = {"call": named(name), "cases": BINARY_CASES, "elementwise": True, "dtypes": NUMBERS, "rtol": ROUNDED}
    return Spec(name=name, ref=ref, errors=errors + more.pop("errors", ()), **(defaults | more))


def reduction(
    name: str, ref: Callable[..., Any], cases: tuple[Case, ...] = DIMS_CASES, empty: tuple[Case, ...] = EMPTY_REDUCE, **more: Any
) -> Spec:
    """A reduction over `dim`. Without `empty` cases, one over no elements is refused."""
    errors = [
        (gd.OutOfRangeError, "dimension", lambda: getattr(gd, name)(ones(2, 3), dim=2)),
        (gd.OutOfRangeError, "dimension", lambda: getattr(gd, name)(ones(2, 3), dim=-3)),
    ]
    if not empty:
        errors.append((gd.ShapeError, "no elements", lambda: getattr(gd, name)(ones(2, 0), dim=1)))
    defaults: dict[str, Any] = {"call": named(name), "cases": cases + empty, "errors": (*errors, *more.pop("errors", ()))}
    defaults |= {"rows": along_rows, "large": large_rows()}
    return Spec(name=name, ref=ref, **(defaults | more))


def slope(name: str, ref: Callable[..., Any], **more: Any) -> Spec:
    """A fused slope `out = g * f'(...)`: exactly 0 where g is 0."""
    cases = tuple(case(shape, shape) for shape in ((5,), (2, 3), (), (0,), (2, 3, 2, 3)))
    zero = {"call": raw(name), "cases": cases, "elementwise": True, "torch": False}
    return Spec(name=name, ref=lambda g, x, **k: np.where(g == 0, 0, ref(g, x, **k)), **(zero | more))
