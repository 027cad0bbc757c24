"""Batch, group and instance norm: precision, running statistics, memory, threads, and training beside PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import references_planes as p
from helpers import assert_close, assert_same_bits

import gradino as gd
from gradino import nn
from gradino.nn import functional as F

# ---- N06: a large mean -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean, step", [(0.0, 1e-3), (1000.0, 1e-3), (10000.0, 1e-3), (40000.0, 1.0), (1e7, 1.0)])
@pytest.mark.parametrize("shape", [(16, 3), (8, 3, 16), (2, 4, 16, 20)])
def test_n06_a_large_mean_costs_no_precision(mean: float, step: float, shape: tuple[int, ...], isa: str, rng: Any) -> None:
    """Forward and backward, against float64 on the float32 inputs; a constant channel gives exactly 0."""
    n = math.prod(shape) // shape[1]
    values = (mean + np.arange(n) * step).astype(np.float32).reshape(shape[0], 1, *shape[2:])
    x = np.repeat(values, shape[1], 1)
    x[:, 1] = x[:, 1][::-1]
    x[:, 2] = np.float32(1234.0 + mean)
    w, g = rng.uniform(0.5, 2, shape[1]).astype(np.float32), rng.uniform(0.5, 2, shape).astype(np.float32)
    for name, groups in (("batch_norm", 0), ("group_norm", shape[1])):
        if groups and len(shape) == 2:
            continue
        tx, tw = gd.tensor(x, requires_grad=True), gd.tensor(w, requires_grad=True)
        y = F.batch_norm(tx, None, None, tw, training=True) if not groups else F.group_norm(tx, groups, tw)
        what = f"{name}, mean {mean}, {shape}, {isa}"
        exact = [a.astype(np.float64) for a in (g, x, w)]
        want = p.group_norm(exact[1], exact[2], groups=groups, eps=1e-5) if groups else p.batch_norm(exact[1], exact[2])
        assert_close(y, want, rtol=2e-6, atol=2e-7, what=what)
        assert not y[:, 2].abs().sum().item(), f"{what}: a constant channel must give 0"
        y.backward(gd.tensor(g))
        dx, dw, _ = p.channel_norm_bwd(*exact, i=(groups, 7), f=(1e-5,), group=bool(groups))
        assert_close(tx.grad, dx, rtol=1e-5, atol=2e-6 * np.abs(dx).max(), what=f"dx, {what}")
        assert_close(tw.grad, dw, rtol=1e-5, atol=2e-6 * max(np.abs(dw).max(), 1), what=f"dweight, {what}")


# ---- Running statistics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("momentum", [0.1, 1.0, None])
@pytest.mark.parametrize("name, shape", [("BatchNorm1d", (6, 4)), ("BatchNorm1d", (3, 4, 7)), ("BatchNorm2d", (3, 4, 5, 6))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_running_statistics_after_many_batches_are_pytorchs(name: str, shape: Any, momentum: Any, dtype: str, rng: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    ours, theirs = (getattr(m.nn, name)(4, momentum=momentum, dtype=getattr(m, dtype)) for m in (gd, torch))
    for _ in range(20):
        x = (rng.standard_normal(shape) * 3 + 5).astype(dtype)
        with gd.step_arena():
            ours(gd.tensor(x))
        theirs(torch.tensor(x))
    rtol = 1e-5 if dtype == "float32" else 1e-12
    assert ours.num_batches_tracked.item() == theirs.num_batches_tracked.item() == 20
    for key in ("running_mean", "running_var"):
        assert_close(getattr(ours, key), getattr(theirs, key).numpy().astype(np.float64), rtol=rtol, what=f"{key}, {name}, {momentum}")
    x = rng.standard_normal(shape).astype(dtype)
    assert_close(ours.eval()(gd.tensor(x)), theirs.eval()(torch.tensor(x)).detach().numpy(), rtol=rtol * 10, atol=rtol, what="evaluation")
    assert ours.num_batches_tracked.item() == 20


def test_running_statistics_are_permanent_and_leave_no_garbage() -> None:
    layer, permanent = nn.BatchNorm2d(5), gd.permanent_arena()
    before = permanent.stats().used
    handles = [getattr(layer, name)._h for name in ("running_mean", "running_var", "num_batches_tracked")]
    for _ in range(10):
        with gd.step_arena():
            layer(gd.randn(2, 5, 3, 3, requires_grad=True)).square().sum().backward()
    assert permanent.stats().used == before, "ten batches must not take permanent memory"
    assert [getattr(layer, name)._h for name in ("running_mean", "running_var", "num_batches_tracked")] == handles
    assert layer.running_var.arena == permanent and layer.num_batches_tracked.item() == 10


def test_a_batch_that_fails_counts_nothing() -> None:
    layer = nn.BatchNorm1d(3)
    with pytest.raises(gd.InvalidValueError, match="more than 1 value per channel"):
        layer(gd.ones(1, 3))
    with pytest.raises(gd.ShapeError, match="one per channel"):
        layer(gd.ones(2, 4))
    assert layer.num_batches_tracked.item() == 0 and layer.running_mean.tolist() == [0, 0, 0]
    layer(gd.ones(0, 3))
    assert layer.num_batches_tracked.item() == 1 and layer.running_var.tolist() == [1, 1, 1]


def test_an_update_is_a_write_that_backward_sees() -> None:
    layer, x = nn.BatchNorm1d(2), gd.randn(4, 2, requires_grad=True)
    layer.eval()
    y = layer(x)
    layer.train()
    layer(gd.randn(4, 2))
    y.sum().backward()  # the op keeps what it needs of the statistics
    z = layer.running_mean * x
    layer(gd.randn(4, 2))
    with pytest.raises(gd.GradinoError, match="changed in place"):
        z.sum().backward()


def test_without_tracking_the_batch_is_always_used() -> None:
    layer, x = nn.BatchNorm1d(3, track_running_stats=False), gd.randn(5, 3)
    assert layer.running_mean is None and list(layer.state_dict()) == ["weight", "bias"]
    assert_same_bits(layer(x), layer.eval()(x))
    half = nn.BatchNorm1d(3, affine=False)
    assert list(half.state_dict()) == ["running_mean", "running_var", "num_batches_tracked"] and half.weight is None


def test_reset() -> None:
    layer = nn.BatchNorm1d(2)
    layer(gd.tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert layer.running_mean.tolist() != [0, 0]
    layer.reset_running_stats()
    assert (layer.running_mean.tolist(), layer.running_var.tolist(), layer.num_batches_tracked.item()) == ([0, 0], [1, 1], 0)
    layer.weight.detach().fill_(3)
    layer.reset_parameters()
    assert layer.weight.tolist() == [1, 1]


# ---- Threads, NaN, layouts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape, groups", [((64, 100), 0), ((4, 3, 9000), 0), ((8, 40, 14, 14), 0), ((3, 8, 30, 31), 2), ((2, 2, 9000), 1)])
def test_any_thread_count_gives_the_same_bits(shape: tuple[int, ...], groups: int, isa: str, rng: Any) -> None:
    x, g = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    w, b = (rng.standard_normal(shape[1], dtype=np.float32) for _ in range(2))
    before, runs = gd.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            gd.set_num_threads(threads)
            tensors = [gd.tensor(a, requires_grad=True) for a in (x, w, b)]
            y = (
                F.group_norm(tensors[0], groups, *tensors[1:])
                if groups
                else F.batch_norm(tensors[0], None, None, *tensors[1:], training=True)
            )
            y.backward(gd.tensor(g))
            runs.append([y, *(t.grad for t in tensors)])
    finally:
        gd.set_num_threads(before)
    for other in runs[1:]:
        for name, one, two in zip(("y", "dx", "dweight", "dbias"), runs[0], other):
            assert_same_bits(one, two, what=f"{name}, {shape}, {groups} groups, {isa}")


def test_a_layout_changes_no_bit(isa: str, rng: Any) -> None:
    x = gd.tensor(rng.standard_normal((4, 5, 6, 7), dtype=np.float32))
    for moved in (x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2), x.transpose(2, 3).contiguous().transpose(2, 3)):
        assert not moved.is_contiguous()
        assert_same_bits(F.batch_norm(moved, None, None, training=True), F.batch_norm(x, None, None, training=True), what=isa)
        assert_same_bits(F.group_norm(moved, 5), F.group_norm(x, 5), what=isa)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 40)])
def test_channels_without_gradient_poison_nothing(shape: tuple[int, ...], isa: str, rng: Any) -> None:
    x, g = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    x[0, 1], g[:, 1] = np.nan, 0
    tx = gd.tensor(x, requires_grad=True)
    y = F.batch_norm(tx, None, None, training=True)
    assert np.isnan(y.detach().numpy()[:, 1]).all() and np.isfinite(y.detach().numpy()[:, [0, 2]]).all()
    y.backward(gd.tensor(g))
    assert np.isfinite(tx.grad.numpy()).all() and not tx.grad[:, 1].abs().sum().item()


# ---- Modules beside PyTorch's ------------------------------------------------------------------------------------------

MODULES = [
    ("BatchNorm1d", (4,), {}, (6, 4)),
    ("BatchNorm1d", (4,), {"eps": 0.1, "bias": False}, (3, 4, 5)),
    ("BatchNorm2d", (4,), {"affine": False}, (3, 4, 5, 6)),
    ("BatchNorm2d", (4,), {"track_running_stats": False}, (3, 4, 5, 6)),
    ("GroupNorm", (2, 4), {}, (3, 4, 5)),
    ("GroupNorm", (4, 4), {"affine": False}, (3, 4, 2, 2)),
    ("InstanceNorm1d", (4,), {"affine": True, "track_running_stats": True}, (3, 4, 5)),
    ("InstanceNorm1d", (4,), {}, (4, 9)),
    ("InstanceNorm2d", (4,), {"affine": True, "momentum": None, "track_running_stats": True}, (3, 4, 5, 2)),
    ("LocalResponseNorm", (3,), {"alpha": 0.1}, (2, 4, 5)),
]


@pytest.mark.parametrize("name, arguments, options, shape", MODULES, ids=lambda v: str(v))
def test_modules_train_as_pytorchs(name: str, arguments: Any, options: dict[str, Any], shape: Any, rng: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    try:
        theirs = getattr(torch.nn, name)(*arguments, **options)
    except TypeError as error:
        pytest.skip(f"this PyTorch is older: {error}")
    ours = getattr(nn, name)(*arguments, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for value in theirs.state_dict().values():  # what it learned elsewhere
        if value.ndim:
            value.copy_(torch.tensor(rng.uniform(0.5, 2, tuple(value.shape)).astype(np.float32)))
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    x = rng.standard_normal((5, *shape)).astype(np.float32)
    for step in range(5):
        if step == 4:
            ours.eval(), theirs.eval()
        results = []
        for m, model in ((gd, ours), (torch, theirs)):
            inputs = m.tensor(x[step]).requires_grad_()
            optimizer = m.optim.SGD(model.parameters(), lr=0.1) if list(model.parameters()) else None
            y = model(inputs)
            (y * y * y).mean().backward()
            if optimizer:
                optimizer.step()
                optimizer.zero_grad()
            results.append([y.detach(), inputs.grad, *(v.detach() for v in model.state_dict().values())])
        for one, two in zip(*results):
            want = two.numpy()
            assert_close(one, want.astype(np.float64) if want.ndim else want, rtol=2e-4, atol=2e-5, what=f"{name}, step {step}")
    theirs.load_state_dict({k: torch.tensor(v.detach().numpy()) for k, v in ours.state_dict().items()})


@pytest.mark.parametrize(
    "call",
    [
        lambda n: n.BatchNorm1d(3)(n.ones(2, 3, 2, 2)),
        lambda n: n.BatchNorm2d(3)(n.ones(2, 3, 2)),
        lambda n: n.GroupNorm(3, 4),
        lambda n: n.InstanceNorm1d(3, affine=True)(n.ones(4, 4)),
        lambda n: n.InstanceNorm2d(3)(n.ones(4, 4)),
        lambda n: n.InstanceNorm1d(3)(n.ones(2, 3, 1)),
        lambda n: n.GroupNorm(2, 4)(n.ones(2, 6, 3)),
    ],
)
def test_what_pytorch_refuses_is_refused(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the peer that this needs")
    for m in (gd, torch):
        monkeypatch.setattr(m.nn, "ones", m.ones, raising=False)
        with pytest.raises((RuntimeError, ValueError)):
            call(m.nn)


def test_a_channel_count_that_does_not_matter_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="expected 3 channels, but got 4"):
        nn.InstanceNorm1d(3)(gd.randn(2, 4, 5))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_with_float32_parameters(dtype: str, rng: Any) -> None:
    layer, x = nn.BatchNorm1d(4), gd.tensor(rng.standard_normal((6, 4), dtype=np.float32)).to(dtype).requires_grad_()
    y = layer(x)
    y.float().square().sum().backward()
    assert (y.dtype.name, x.grad.dtype.name, layer.weight.grad.dtype.name) == (dtype, dtype, "float32")
    wide = F.batch_norm(x.detach().float(), None, None, training=True)
    assert_close(y.float(), wide, rtol=0.01, atol=0.01, what=dtype)
