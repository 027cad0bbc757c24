"""PyTorch's own sample inputs (OpInfo), given to both libraries: values, dtypes, shapes, gradients, and what is refused.

A sample is one input of one operator in one dtype; it agrees if the function, the method and the in-place method of that
operator all do. What cannot be asked of gradino (five dimensions, complex, sparse ...) is out of scope, with its reason.
"""

from __future__ import annotations

import itertools
import re
import sys
import types
import unittest
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sweep_values import OutOfScopeError, converted, copied, difference, differing, flat, in_scope, refusal

import gradino as gd

try:
    import torch
except ImportError:  # the tests skip
    torch = None  # type: ignore[assignment]

DTYPES = ("float32", "float64", "int64", "bool")


# ---- PyTorch's side --------------------------------------------------------------------------------------------------


def operators() -> list[Any]:
    """PyTorch's operator table. Its module wants expecttest, of which it uses a base class."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:
            stand_in = types.ModuleType("expecttest")
            stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
            sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return list(op_db)


def in_tables(op: Any) -> str:
    """An operator's name in lists and tables: with its variant, where it has several."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


# ---- gradino's side --------------------------------------------------------------------------------------------------


def function_of(op: Any) -> Callable[..., Any] | None:
    """The function of gradino, or its method as a function, that has the operator's name."""
    name = op.name
    for key in (in_tables(op), name):
        if key in ADAPTED:
            return ADAPTED[key]()  # type: ignore[no-any-return]
    found: Any = gd
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None or isinstance(found, (gd.dtype, type, types.ModuleType)) or not callable(found):
        return method_of(name)
    return found  # type: ignore[no-any-return]


def method_of(name: str) -> Callable[..., Any] | None:
    """The method of that name, as a function."""
    if not hasattr(gd.Tensor, name) or "." in name:
        return None
    found = getattr(gd.Tensor, name)
    if isinstance(found, property):
        return lambda x: getattr(x, name)
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def _method(name: str) -> Callable[[], Callable[..., Any] | None]:
    return lambda: method_of(name)


def _function(dotted: str, call: Callable[..., Any]) -> Callable[[], Callable[..., Any] | None]:
    """Where PyTorch's table calls a function in its own way: `call(function, *sample)`; None while gradino has it not."""

    def find() -> Callable[..., Any] | None:
        found: Any = gd
        for part in dotted.split("."):
            found = getattr(found, part, None)
        return None if found is None else lambda *args, **kwargs: call(found, *args, **kwargs)

    return find


def _written(method: str) -> Callable[[], Callable[..., Any] | None]:
    """`x.clone().method_(...)`."""
    name = method
    if not hasattr(gd.Tensor, name):
        return lambda: None
    return lambda: lambda x, *args, **kwargs: getattr(x.clone(), name)(*args, **kwargs)


# Operators whose name in the table is no name in the library, or that the table calls with arguments of its own.
ADAPTED: dict[str, Any] = {
    "fill": _written("fill_"),
    "zero_": _written("zero_"),
    "normal.in_place": _written("normal_"),
    "cauchy": _written("cauchy_"),
    "exponential": _written("exponential_"),
    "geometric": _written("geometric_"),
    "log_normal": _written("log_normal_"),
    "normal": _function("normal", lambda f, *a, **k: f(*a, **k)),
    "uniform": _written("uniform_"),
    "__getitem__": _method("__getitem__"),
    "expand": _method("expand"),
    "to": _method("to"),
    "where": _method("where"),
    "einsum": _function("einsum", lambda f, tensors, equation: f(equation, *tensors)),
    "polygamma": _function("polygamma", lambda f, x, n, **k: f(n, x, **k)),
    "special.polygamma": _function("special.polygamma", lambda f, x, n, **k: f(n, x, **k)),
    "nn.functional.embedding_bag": _function("nn.functional.embedding_bag", lambda f, weight, index, **k: f(index, weight, **k)),
    "nn.functional.embedding": _function("nn.functional.embedding", lambda f, weight, index, **k: f(index, weight, **k)),
    "rsub": _function("rsub", lambda f, x, other, alpha=1, **k: f(x, other, alpha=alpha, **k)),
}

RANDOM = {
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout",
    "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "rand_like", "randn_like", "randint_like", "randn", "randint",
    "bernoulli", "multinomial", "normal", "uniform", "cauchy", "exponential", "geometric", "log_normal", "empty", "empty_like",
    "new_empty", "new_empty_strided", "empty_strided", "empty_permuted", "nn.functional.fractional_max_pool2d", "resize_", "resize_as_",
}  # fmt: skip
"""Only shape and dtype can be compared."""


# ---- One sample -----------------------------------------------------------------------------------------------------------


def _upstream(x: Any, k: int) -> np.ndarray:
    return np.random.default_rng(zlib.crc32(repr((tuple(x.shape), k)).encode())).standard_normal(tuple(x.shape))


def check_function(op: Any, function: Any, sample: Any, dtype: str, loose: float) -> str | None:
    """The function on a sample: value, and gradient in float64."""
    leaves: list[Any] = []
    values = op.name not in RANDOM and not sample.kwargs.get("dropout_p")
    args = converted((sample.input, *sample.args), leaves)
    kwargs = converted(sample.kwargs, leaves)
    if isinstance(sample.input, torch.Tensor) and op.name in ("resize_", "resize_as_"):
        leaves.clear()
    try:
        theirs: Any = op.op(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        try:
            function(*args, **kwargs)
        except Exception:
            return None  # both refuse
        return f"accepts what PyTorch refuses: {str(error).splitlines()[0]}"
    for x in flat(theirs):
        if isinstance(x, torch.Tensor):
            in_scope(x)
    try:
        ours = function(*args, **kwargs)
    except Exception as error:
        return refusal(error)
    found = difference(theirs, ours, values, loose)
    if found or dtype != "float64" or not leaves or not values:
        return found
    return check_gradient(op, theirs, ours, leaves, loose)


def check_gradient(op: Any, theirs: Any, ours: Any, leaves: list[Any], loose: float) -> str | None:
    """Gradients of the leaves for the same random gradient of the results."""
    pairs = [
        (x, y, _upstream(x, k)) for k, (x, y) in enumerate(zip(flat(theirs), flat(ours))) if isinstance(x, torch.Tensor) and x.requires_grad
    ]
    if not pairs:
        return None
    try:
        wanted = torch.autograd.grad(
            [x for x, _, _ in pairs], [x for x, _ in leaves], [torch.from_numpy(g).to(x.dtype) for x, _, g in pairs], allow_unused=True
        )
    except Exception:
        return None  # PyTorch has no gradient here
    missing = [k for k, (_, y, _) in enumerate(pairs) if not y.requires_grad]
    if missing:
        return "gradient: the result does not require grad"
    try:
        got = gd.autograd.grad(
            [y for _, y, _ in pairs], [y for _, y in leaves], [gd.tensor(g).to(y.dtype) for _, y, g in pairs], allow_unused=True
        )
    except Exception as error:
        return f"gradient {refusal(error)}"
    for k, (x, y) in enumerate(zip(wanted, got)):
        a = np.zeros(tuple(leaves[k][0].shape)) if x is None else x.detach().double().numpy(force=True)
        b = np.zeros(tuple(leaves[k][0].shape)) if y is None else y.detach().double().numpy()
        if a.shape != b.shape:
            return f"gradient {k}: shape {b.shape} instead of {a.shape}"
        found = differing(a, b, str(leaves[k][0].dtype).removeprefix("torch."), loose)
        if found:
            return f"gradient {k}: {found}"
    return None


def check_method(op: Any, sample: Any, loose: float) -> str | None:
    """The method of that name gives what the function gives."""
    name = getattr(op.method_variant, "__name__", None)
    if name is None or not name.isidentifier() or not isinstance(sample.input, torch.Tensor) or op.name in ADAPTED:
        return None
    method = method_of(name)
    if method is None:
        return f"method: Tensor.{name} is missing"
    try:
        theirs = op.method_variant(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return None
    try:
        ours = method(converted(sample.input), *converted(sample.args), **converted(sample.kwargs))
    except OutOfScopeError:
        raise
    except Exception as error:
        return f"method {refusal(error)}"
    found = difference(theirs, ours, op.name not in RANDOM, loose)
    return found and f"method {found}"


def check_in_place(op: Any, sample: Any, loose: float) -> str | None:
    """The in-place method gives the same and returns the tensor it wrote."""
    variant = op.inplace_variant
    name = getattr(variant, "__name__", None)
    if (
        name is None
        or name.startswith("__")
        or not name.isidentifier()
        or not isinstance(sample.input, torch.Tensor)
        or sample.broadcasts_input
    ):
        return None
    method = method_of(name)
    if method is None:
        return f"in place: Tensor.{name} is missing"
    their_input, our_input = copied(sample.input), converted(copied(sample.input))
    their_args, our_args = copied((sample.args, sample.kwargs)), converted(copied((sample.args, sample.kwargs)))
    try:
        with torch.no_grad():
            variant(their_input, *their_args[0], **their_args[1])
    except Exception:
        return None
    try:
        with gd.no_grad():
            ours = method(our_input, *our_args[0], **our_args[1])
    except Exception as error:
        return f"in place {refusal(error)}"
    if not isinstance(ours, gd.Tensor):
        return f"in place: returns a {type(ours).__name__}"
    found = difference(their_input, our_input, op.name not in RANDOM, loose)
    return found and f"in place {found}"


# ---- All samples of one operator --------------------------------------------------------------------------------------------


@dataclass
class Row:
    """What the samples of one operator came to."""

    name: str
    operator: str
    absent: bool = False
    agree: int = 0
    differ: Counter[str] = field(default_factory=Counter)  # what is different -> samples
    beyond: Counter[str] = field(default_factory=Counter)  # out of scope: why -> samples
    refused: int = 0  # error inputs that both refuse
    wider: int = 0  # error inputs that gradino accepts on purpose
    accepted: list[str] = field(default_factory=list)  # further error inputs that it accepts
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def scope(self) -> int:
        return self.agree + sum(self.differ.values())


def samples_of(op: Any, dtype: str, most: int | None) -> Iterator[Any]:
    """The samples of an operator in a dtype, or `most` of the first ones."""
    d = getattr(torch, dtype)
    if d not in op.dtypes:
        return
    grad = dtype == "float64" and op.supports_autograd
    torch.manual_seed(0)
    try:
        every = op.sample_inputs("cpu", d, requires_grad=grad)
        drawn = list(every if most is None else itertools.islice(every, 4 * most))  # making them is what takes time
    except Exception:  # a sample generator that needs what is not installed
        return
    if most is not None and len(drawn) > most:
        drawn = [drawn[int(k)] for k in np.linspace(0, len(drawn) - 1, most)]
    yield from drawn


def summary(sample: Any) -> str:
    """A sample in a few words, for tables of differences."""

    def short(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype).removeprefix('torch.')}{tuple(x.shape)}"
        if isinstance(x, (list, tuple)):
            return f"[{', '.join(map(short, x))}]"
        return repr(x)

    parts = [short(sample.input), *map(short, sample.args), *(f"{k}={short(v)}" for k, v in sample.kwargs.items())]
    return ", ".join(parts)


def sweep(op: Any, most: int | None = None, dtypes: tuple[str, ...] = DTYPES, errors: bool = True) -> Row:
    """Run an operator's samples on both."""
    from sweep_lists import LOOSE

    function = function_of(op)
    row, loose = Row(in_tables(op), op.name, absent=function is None), LOOSE.get(op.name, 1.0)
    if function is None and most is not None:
        return row  # only the share of all operators asks for more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in dtypes:
            for sample in samples_of(op, dtype, most):
                _one(row, op, function, sample, dtype, loose)
        if errors and function is not None and op.error_inputs_func is not None:
            _errors(row, op, function, most)
    return row


def _one(row: Row, op: Any, function: Any, sample: Any, dtype: str, loose: float) -> None:
    with gd.step_arena():
        try:
            if function is None:
                converted((sample.input, sample.args, sample.kwargs))
                found: str | None = "absent"
                _theirs_in_scope(op, sample)
            else:
                found = check_function(op, function, sample, dtype, loose)
                found = found or check_method(op, sample, loose)
                if not found and op.inplace_variant is not None:
                    found = check_in_place(op, sample, loose)
        except OutOfScopeError as why:
            row.beyond[str(why)] += 1
            return
    if found is None:
        row.agree += 1
    else:
        row.differ[found] += 1
        row.examples.setdefault(found, f"{dtype}: {summary(sample)}")


def _theirs_in_scope(op: Any, sample: Any) -> None:
    try:
        theirs = op.op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        raise OutOfScopeError("what PyTorch itself cannot do here") from None
    for x in flat(theirs):
        if isinstance(x, torch.Tensor):
            in_scope(x)


def _errors(row: Row, op: Any, function: Any, most: int | None) -> None:
    try:
        cases = list(op.error_inputs("cpu"))
    except Exception:
        return
    for case in cases if most is None else cases[:most]:
        sample = case.sample_input
        with gd.step_arena():
            try:
                args, kwargs = converted((sample.input, *sample.args)), converted(sample.kwargs)
            except OutOfScopeError as why:
                row.beyond[str(why)] += 1
                continue
            try:
                function(*args, **kwargs)
            except Exception:
                row.refused += 1
            else:
                text = f"{summary(sample)} (PyTorch: {str(case.error_regex)[:80]})"
                if wider(row.name, text):
                    row.wider += 1
                else:
                    row.accepted.append(text)


def wider(name: str, text: str) -> str | None:
    """Why gradino accepts an input that PyTorch refuses, if that is meant."""
    from sweep_lists import WIDER

    return next((reason for names, pattern, reason in WIDER if re.fullmatch(names, name) and re.search(pattern, text)), None)


def reason_of_absence(name: str) -> str | None:
    """Why gradino does not have an operator, if that is meant."""
    from sweep_lists import ABSENT

    return next((reason for names, reason in ABSENT if re.fullmatch(names, name)), None)


def reason_for(name: str, found: str) -> str | None:
    """Why a difference is meant, if it is."""
    from sweep_lists import DELIBERATE

    for names, pattern, reason in DELIBERATE:
        if re.fullmatch(names, name) and re.search(pattern, found):
            return str(reason)
    return None
