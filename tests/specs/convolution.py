"""Convolutions, their gradients, and patches. See the package's own text for how entries read."""

from __future__ import annotations

from typing import Any

import conv_reference as r
import numpy as np
from spec_kinds import Spec, case, ones, raw

import gradino as gd

F = gd.nn.functional


def _magnitude(ref: Any) -> Any:
    """The reference on sizes of numbers: what errors are relative to."""
    return lambda *arrays, **attributes: ref(*(None if a is None else np.abs(a) for a in arrays), **attributes)


def _functional(name: str) -> Any:
    return lambda m, *tensors, **attributes: getattr(m.nn.functional, name)(*tensors, **attributes)


CONV_CASES = (  # x, w, b
    case((2, 3, 5, 4), (4, 3, 3, 2), (4,)),
    case((2, 3, 5, 4), (4, 3, 3, 2)),
    case((1, 1, 1, 1), (1, 1, 1, 1), (1,)),
    case((3, 4, 4), (2, 3, 3, 3), (2,), padding=1),
    case((1, 2, 7, 6), (3, 2, 3, 3), (3,), stride=2, padding=1),
    case((2, 2, 8, 5), (2, 2, 2, 3), stride=(3, 1), padding=(0, 2)),
    case((1, 2, 7, 9), (2, 2, 3, 3), (2,), dilation=(2, 3), padding=(1, 2)),
    case((1, 4, 5, 5), (6, 2, 3, 3), (6,), groups=2, padding=1),
    case((2, 5, 4, 5), (5, 1, 3, 3), (5,), groups=5, padding=1),
    case((1, 3, 5, 4), (6, 1, 3, 2), groups=3, stride=2),
    case((2, 3, 4, 4), (5, 3, 1, 1), (5,)),
    case((1, 3, 5, 5), (2, 3, 1, 1), stride=2),
    case((0, 3, 4, 4), (2, 3, 3, 3), (2,)),
    case((1, 2, 5, 4), (2, 2, 2, 4), (2,), padding="same"),
    case((1, 2, 5, 4), (2, 2, 3, 2), padding="valid", dilation=2),
    case((2, 2, 3, 3), (4, 2, 5, 5), padding=2),
    case((1, 1, 1, 30), (2, 1, 1, 5), (2,), stride=(1, 2)),
    case((2, 9, 8, 8), (17, 9, 3, 3), (17,), padding=1),
    case((1, 60, 4, 4), (3, 60, 3, 3), (3,), padding=1),
)

TRANSPOSE_CASES = (  # x, w, b
    case((2, 3, 3, 4), (3, 4, 3, 2), (4,)),
    case((2, 3, 3, 4), (3, 4, 3, 2)),
    case((1, 1, 1, 1), (1, 1, 1, 1), (1,)),
    case((3, 4, 4), (3, 2, 3, 3), (2,), padding=1),
    case((1, 2, 4, 3), (2, 3, 3, 3), (3,), stride=2, padding=1),
    case((1, 2, 4, 3), (2, 3, 3, 3), (3,), stride=2, padding=1, output_padding=1),
    case((2, 2, 3, 2), (2, 2, 2, 3), stride=(3, 1), padding=(0, 1)),
    case((1, 2, 3, 3), (2, 2, 3, 2), (2,), dilation=(2, 3), stride=2, output_padding=(1, 2)),
    case((1, 4, 3, 3), (4, 3, 3, 3), (6,), groups=2),
    case((2, 5, 3, 4), (5, 1, 3, 3), (5,), groups=5, stride=2),
    case((2, 3, 3, 3), (3, 2, 1, 1), (2,), stride=3, output_padding=2),
    case((0, 3, 4, 4), (3, 2, 3, 3), (2,)),
    case((1, 2, 1, 9), (2, 3, 1, 4), (3,), stride=(1, 2)),
    case((2, 17, 4, 4), (17, 9, 2, 2), (9,), stride=2),
)

CONVOLUTIONS = (
    Spec(
        name="conv",
        python="nn.functional.conv2d",
        call=_functional("conv2d"),
        ref=r.conv2d,
        scale=_magnitude(r.conv2d),
        rtol=(1e-6, 4e-15),
        cases=CONV_CASES,
        rows=lambda n: (
            case((1, 2, 3, n), (3, 2, 2, 1), (3,)),
            case((1, n, 2, 2), (2, n, 2, 2)),
            case((1, 1, 3, 3), (n, 1, 2, 2), (n,)),
            case((1, n, 3, 3), (n, 1, 2, 2), (n,), groups=n),
            case((2, 1, n, 2), (2, 1, 1, 1), stride=(2, 1)),
        ),
        large=(
            case((4, 16, 32, 32), (24, 16, 3, 3), (24,), padding=1),
            case((2, 3, 65, 65), (20, 3, 7, 7), (20,), stride=2, padding=3),
            case((1, 130, 9, 9), (70, 130, 3, 3), padding=1),
            case((8, 40, 16, 16), (40, 1, 3, 3), groups=40, padding=1),
            case((9, 70, 8, 8), (33, 70, 1, 1), (33,)),
            case((3, 4, 1, 3000), (9, 4, 1, 9), (9,)),
        ),
        errors=(
            (gd.ShapeError, "larger than the padded input", lambda: F.conv2d(ones(1, 1, 2, 2), ones(1, 1, 3, 3))),
            (gd.ShapeError, "channels", lambda: F.conv2d(ones(1, 3, 4, 4), ones(1, 2, 3, 3))),
            (gd.ShapeError, "multiple of groups", lambda: F.conv2d(ones(1, 4, 4, 4), ones(3, 2, 3, 3), groups=2)),
            (gd.ShapeError, "bias", lambda: F.conv2d(ones(1, 1, 4, 4), ones(2, 1, 3, 3), ones(3))),
            (gd.ShapeError, "4 dimensions, or 3", lambda: F.conv2d(ones(4, 4), ones(1, 1, 3, 3))),
            (gd.DTypeError, "one dtype", lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3, dtype="float64"))),
            (gd.DTypeError, "floating point", lambda: F.conv2d(ones(1, 1, 4, 4, dtype="int64"), ones(1, 1, 3, 3, dtype="int64"))),
            (gd.InvalidValueError, "stride", lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), stride=0)),
            (gd.InvalidValueError, "dilation", lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), dilation=0)),
            (gd.InvalidValueError, "padding", lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), padding=-1)),
            (gd.InvalidValueError, "groups", lambda: F.conv2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), groups=0)),
        ),
    ),
    Spec(
        name="conv_bwd_input",
        python="nn.functional.conv_transpose2d",
        call=_functional("conv_transpose2d"),
        ref=r.conv_transpose2d,
        scale=_magnitude(r.conv_transpose2d),
        rtol=(1e-6, 4e-15),
        cases=TRANSPOSE_CASES,
        rows=lambda n: (
            case((1, 2, 3, n), (2, 3, 2, 1), (3,)),
            case((1, n, 2, 2), (n, 2, 2, 2), stride=2),
            case((1, 1, 3, 3), (1, n, 2, 2), (n,)),
            case((1, n, 3, 3), (n, 1, 2, 2), (n,), groups=n),
        ),
        large=(
            case((4, 16, 16, 16), (16, 24, 3, 3), (24,), padding=1, stride=2),
            case((2, 20, 33, 33), (20, 3, 7, 7), (3,), stride=2, padding=3),
            case((1, 130, 9, 9), (130, 70, 3, 3), padding=1),
            case((3, 4, 1, 3000), (4, 9, 1, 9), (9,)),
        ),
        errors=(
            (gd.ShapeError, "channels", lambda: F.conv_transpose2d(ones(1, 3, 4, 4), ones(2, 1, 3, 3))),
            (gd.ShapeError, "bias", lambda: F.conv_transpose2d(ones(1, 1, 4, 4), ones(1, 2, 3, 3), ones(1))),
            (gd.ShapeError, "the result would have size", lambda: F.conv_transpose2d(ones(1, 1, 1, 1), ones(1, 1, 1, 1), padding=3)),
            (gd.InvalidValueError, "output_padding", lambda: F.conv_transpose2d(ones(1, 1, 4, 4), ones(1, 1, 3, 3), output_padding=1)),
        ),
    ),
    Spec(
        name="conv_bwd_weight",
        call=raw("conv_bwd_weight"),
        ref=r.conv_bwd_weight,
        scale=_magnitude(r.conv_bwd_weight),
        rtol=(1e-6, 4e-15),
        torch=False,
        cases=(  # g, x
            case((2, 4, 3, 3), (2, 3, 5, 4), i=(1, 1, 0, 0, 1, 1, 1, 0, 0, 3, 2)),
            case((1, 3, 4, 3), (1, 2, 7, 6), i=(2, 2, 1, 1, 1, 1, 1, 1, 1, 3, 3)),
            case((1, 6, 3, 3), (1, 4, 5, 5), i=(1, 1, 0, 0, 1, 1, 2, 0, 0, 3, 3)),
            case((2, 5, 4, 5), (2, 5, 4, 5), i=(1, 1, 1, 1, 1, 1, 5, 1, 1, 3, 3)),
            case((1, 2, 5, 4), (1, 2, 5, 4), i=(1, 1, 0, 1, 1, 1, 1, 1, 2, 2, 4)),
            case((0, 2, 3, 3), (0, 3, 3, 3), i=(1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1)),
            case((2, 9, 4, 4), (2, 3, 4, 4), i=(1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1)),
            case((1, 17, 2, 2), (1, 2, 4, 5), i=(2, 2, 0, 0, 1, 2, 1, 0, 0, 2, 2)),
        ),
        rows=lambda n: (
            case((1, n, 3, 3), (1, 2, 4, 4), i=(1, 1, 0, 0, 1, 1, 1, 0, 0, 2, 2)),
            case((2, 3, 2, n), (2, n, 2, n), i=(1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1)),
            case((2, 9, 2, n), (2, 2, 3, n), i=(1, 1, 0, 0, 1, 1, 1, 0, 0, 2, 1)),
            case((1, n, 3, 3), (1, n, 3, 3), i=(1, 1, 1, 1, 1, 1, n, 1, 1, 3, 3)),
        ),
        large=(
            case((4, 24, 32, 32), (4, 16, 32, 32), i=(1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3)),
            case((9, 70, 8, 8), (9, 33, 8, 8), i=(1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1)),
            case((8, 40, 16, 16), (8, 40, 16, 16), i=(1, 1, 1, 1, 1, 1, 40, 1, 1, 3, 3)),
        ),
        errors=(
            (
                gd.ShapeError,
                "belong together",
                lambda: raw("conv_bwd_weight")(gd, ones(1, 2, 3, 3), ones(1, 2, 4, 4), i=(1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1)),
            ),
        ),
    ),
    Spec(
        name="im2col",
        python="nn.functional.unfold",
        call=_functional("unfold"),
        ref=r.unfold,
        rtol=(0.0, 0.0),
        cases=(
            case((2, 3, 4, 5), kernel_size=(2, 3)),
            case((3, 4, 5), kernel_size=2, padding=1),
            case((1, 2, 7, 6), kernel_size=3, stride=2, padding=(1, 2)),
            case((1, 1, 6, 7), kernel_size=(2, 3), dilation=(3, 2), padding=1),
            case((0, 2, 4, 4), kernel_size=2),
            case((2, 2, 3, 3), kernel_size=1),
        ),
        rows=lambda n: (case((1, 2, 3, n), kernel_size=(2, 1)), case((1, n, 3, 3), kernel_size=2)),
        large=(case((4, 20, 32, 32), kernel_size=3, padding=1),),
        errors=(
            (gd.ShapeError, "larger than the padded input", lambda: F.unfold(ones(1, 1, 2, 2), 3)),
            (gd.ShapeError, "must have 4 dimensions, or 3", lambda: F.unfold(ones(2, 2), 1)),
            (gd.InvalidValueError, "kernel_size", lambda: F.unfold(ones(1, 1, 2, 2), 0)),
        ),
    ),
    Spec(
        name="col2im",
        python="nn.functional.fold",
        call=_functional("fold"),
        ref=r.fold,
        scale=_magnitude(r.fold),
        rtol=(1e-6, 4e-15),
        cases=(
            case((2, 18, 9), output_size=(4, 5), kernel_size=(2, 3)),
            case((12, 30), output_size=(4, 5), kernel_size=2, padding=1),
            case((1, 18, 16), output_size=(7, 6), kernel_size=3, stride=2, padding=(1, 2)),
            case((1, 6, 25), output_size=(6, 7), kernel_size=(2, 3), dilation=(3, 2), padding=1),
            case((0, 8, 9), output_size=4, kernel_size=2),
        ),
        rows=lambda n: (case((1, 4, 2 * n), output_size=(3, n), kernel_size=(2, 1)), case((1, 4 * n, 4), output_size=3, kernel_size=2)),
        large=(case((4, 180, 1024), output_size=32, kernel_size=3, padding=1),),
        errors=(
            (gd.ShapeError, "patches", lambda: F.fold(ones(1, 4, 5), 4, 2)),
            (gd.ShapeError, "multiple of the kernel", lambda: F.fold(ones(1, 3, 9), 4, 2)),
            (gd.ShapeError, "three dimensions", lambda: F.fold(ones(1, 1, 4, 9), 4, 2)),
            (gd.InvalidValueError, "output_size", lambda: F.fold(ones(1, 4, 9), 0, 2)),
        ),
    ),
)
