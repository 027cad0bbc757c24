"""Convolutional layers: initial values, padding modes, output sizes, saved states; and PyTorch's results where it is installed."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest
from helpers import assert_close, assert_same_bits, values

import gradino as gd
import gradino.nn.functional as F
from gradino import nn


@pytest.mark.parametrize("make", [nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d])
def test_parameters(make: Any) -> None:
    layer = make(6, 4, 3, groups=2)
    dims = make.dims
    channels = (6, 2) if make.transposed else (4, 3)
    assert layer.weight.shape == (*channels, *(3,) * dims) and layer.bias.shape == (4,)
    bound = (channels[1] * 3**dims) ** -0.5
    for p in layer.parameters():
        assert abs(values(p)).max() <= bound and abs(values(p)).max() > bound / 4
    before = values(layer.weight).copy()
    layer.reset_parameters()
    assert not np.array_equal(before, values(layer.weight)) and abs(values(layer.weight)).max() <= bound
    assert make(2, 2, 3, bias=False).bias is None
    half = make(2, 2, 3, device="cpu", dtype=gd.float64)
    assert half.weight.dtype is gd.float64 and half.bias.dtype is gd.float64


def test_copies_and_states() -> None:
    layer = nn.Conv2d(3, 4, 3, padding="same", padding_mode="circular")
    x = gd.randn(2, 3, 5, 5)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert_same_bits(other(x), layer(x))
    fresh = nn.Conv2d(3, 4, 3, padding="same", padding_mode="circular")
    fresh.load_state_dict(layer.state_dict())
    assert_same_bits(fresh(x), layer(x))


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_padding_modes_pad_first(mode: str) -> None:
    x = gd.randn(2, 3, 6, 7)
    layer = nn.Conv2d(3, 4, (3, 2), stride=2, padding=(2, 1), padding_mode=mode)
    around = F.pad(x, (1, 1, 2, 2), "constant" if mode == "zeros" else mode)
    assert_close(layer(x), values(F.conv2d(around, layer.weight, layer.bias, 2)), atol=1e-6)
    line = nn.Conv1d(3, 4, 4, padding="same", padding_mode=mode)
    around = F.pad(x[:, :, 0], (1, 2), "constant" if mode == "zeros" else mode)
    assert_close(line(x[:, :, 0]), values(F.conv1d(around, line.weight, line.bias)), atol=1e-6)


def test_output_size() -> None:
    down, up = nn.Conv2d(3, 5, 3, stride=2, padding=1), nn.ConvTranspose2d(5, 3, 3, stride=2, padding=1)
    for size in ((7, 8), (8, 7), (12, 12)):
        x = gd.randn(2, 3, *size)
        assert up(down(x), output_size=size).shape == x.shape
        assert up(down(x), output_size=x.shape).shape == x.shape
        assert up(down(x[0]), size).shape == x.shape[1:]
    with pytest.raises(gd.InvalidValueError, match="output_size"):
        up(down(gd.randn(1, 3, 8, 8)), (10, 8))
    with pytest.raises(gd.InvalidValueError, match="entries"):
        up(down(gd.randn(1, 3, 8, 8)), (8,))


@pytest.mark.parametrize(
    ("kind", "words", "make"),
    [
        (gd.InvalidValueError, "multiples of groups", lambda: nn.Conv2d(3, 4, 3, groups=2)),
        (gd.InvalidValueError, "multiples of groups", lambda: nn.Conv2d(4, 4, 3, groups=0)),
        (gd.InvalidValueError, "padding_mode", lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror")),
        (gd.InvalidValueError, "must be 'zeros'", lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect")),
        (gd.InvalidValueError, "'valid' or 'same'", lambda: nn.Conv1d(3, 4, 3, padding="full")),
        (gd.InvalidValueError, "strided", lambda: nn.Conv1d(3, 4, 3, padding="same", stride=2)),
        (gd.InvalidValueError, "must be numbers", lambda: nn.ConvTranspose1d(3, 4, 3, padding="same")),
        (gd.ShapeError, "kernel_size", lambda: nn.Conv2d(3, 4, (3, 3, 3))),
        (gd.DTypeError, "in_channels", lambda: nn.Conv2d(3.5, 4, 3)),
        (gd.DTypeError, "floating point", lambda: nn.Conv2d(3, 4, 3, dtype=gd.int64)),
        (gd.ShapeError, "at most four dimensions", lambda: nn.Conv3d(3, 4, 3)),
        (gd.ShapeError, "at most four dimensions", lambda: nn.ConvTranspose3d(3, 4, 3)),
    ],
)
def test_refused(kind: Any, words: str, make: Any) -> None:
    with pytest.raises(kind, match=words):
        make()


# ---- Beside PyTorch ---------------------------------------------------------------------------------------------------


def drawn(rnd: random.Random) -> tuple[str, dict[str, Any], tuple[int, ...]]:
    """A layer's name, its arguments and an input's shape, at random."""
    dims, transposed = rnd.choice((1, 2)), rnd.random() < 0.4
    groups = rnd.choice((1, 1, 2, 3))
    arguments: dict[str, Any] = {
        "in_channels": groups * rnd.choice((1, 2, 5, 17)),
        "out_channels": groups * rnd.choice((1, 3, 8, 19)),
        "groups": groups,
        "kernel_size": tuple(rnd.choice((1, 2, 3, 5)) for _ in range(dims)),
        "stride": tuple(rnd.choice((1, 1, 2, 3)) for _ in range(dims)),
        "padding": tuple(rnd.choice((0, 1, 2)) for _ in range(dims)),
        "dilation": tuple(rnd.choice((1, 1, 2)) for _ in range(dims)),
        "bias": rnd.random() < 0.7,
    }
    if transposed:
        arguments["output_padding"] = tuple(rnd.randrange(max(s, d)) for s, d in zip(arguments["stride"], arguments["dilation"]))
    else:
        arguments["padding_mode"] = rnd.choice(("zeros", "zeros", "reflect", "replicate", "circular"))
        if rnd.random() < 0.2:
            arguments |= {"padding": "same", "stride": (1,) * dims}
    shape = tuple(rnd.choice((5, 8, 11, 16, 21)) for _ in range(dims))
    batch = () if rnd.random() < 0.2 else (rnd.choice((1, 3)),)
    return f"Conv{'Transpose' if transposed else ''}{dims}d", arguments, (*batch, arguments["in_channels"], *shape)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")  # PyTorch's
@pytest.mark.parametrize("seed", range(8))
def test_layers_are_pytorchs(seed: int) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rnd, compared = random.Random(seed), 0
    torch.manual_seed(seed)
    for _ in range(25):
        name, arguments, shape = drawn(rnd)
        what = f"{name} {arguments} {shape}"
        theirs, ours = getattr(torch.nn, name)(**arguments), getattr(nn, name)(**arguments)
        assert repr(ours) == repr(theirs)
        ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
        x = torch.randn(shape, requires_grad=True)
        mine = gd.tensor(x.detach().numpy(), requires_grad=True)
        try:
            y = theirs(x)
        except RuntimeError:
            with pytest.raises(gd.GradinoError):
                ours(mine)
            continue
        got = ours(mine)
        scale = max(1.0, y.abs().max().item())
        assert_close(got, y.detach().numpy(), atol=1e-5 * scale, what=what)
        y.square().sum().backward()
        got.square().sum().backward()
        for ours_grad, theirs_grad in ((mine.grad, x.grad), *((p.grad, q.grad) for p, q in zip(ours.parameters(), theirs.parameters()))):
            largest = max(1.0, theirs_grad.abs().max().item())
            assert_close(ours_grad, theirs_grad.numpy(), atol=4e-5 * largest, what=f"gradient, {what}")
        for key, value in ours.state_dict().items():
            assert tuple(value.shape) == tuple(theirs.state_dict()[key].shape), what
        compared += 1
    assert compared > 10


def test_a_network_trains_as_pytorchs_does() -> None:
    """A block as in residual networks, some steps of plain gradient descent: the same losses."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def network(m: Any) -> Any:
        class Block(m.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.stem = m.nn.Conv2d(3, 8, 3, padding=1, bias=False)
                self.one, self.two = m.nn.Conv2d(8, 16, 3, stride=2, padding=1), m.nn.Conv2d(16, 16, 3, padding=1)
                self.short = m.nn.Conv2d(8, 16, 1, stride=2)
                self.head = m.nn.Linear(16, 5)

            def forward(self, x: Any) -> Any:
                x = self.stem(x).relu()
                x = (self.two(self.one(x).relu()) + self.short(x)).relu()
                return self.head(x.mean((2, 3)))

        return Block()

    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((6, 3, 16, 16)).astype(np.float32), rng.integers(0, 5, 6)
    torch.manual_seed(0)
    theirs, ours, losses = network(torch), network(gd), []
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    for m, model in ((torch, theirs), (gd, ours)):
        optimizer, found = m.optim.SGD(model.parameters(), lr=0.1), []
        for _ in range(8):
            loss = m.nn.functional.cross_entropy(model(m.tensor(x)), m.tensor(target))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        losses.append(found)
    assert losses[0][-1] < losses[0][0] - 0.1
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_unfold_and_fold_as_modules() -> None:
    x = gd.randn(2, 3, 6, 5)
    patches = nn.Unfold(3, padding=1, stride=2)(x)
    assert (patches == F.unfold(x, 3, 1, 1, 2)).all()
    back = nn.Fold((6, 5), 3, padding=1, stride=2)(patches)
    assert (back == F.fold(patches, (6, 5), 3, 1, 1, 2)).all()
    assert repr(nn.Fold((6, 5), 3)) == "Fold(output_size=(6, 5), kernel_size=3, dilation=1, padding=0, stride=1)"
