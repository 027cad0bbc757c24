"""GradScaler: scaling, unscaling, skipped steps, growth; case O06."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradino as gd
from gradino import nn, optim

GradScaler = gd.amp.GradScaler


def _parameter(*gradient: float) -> gd.Tensor:
    p = nn.Parameter(gd.zeros(len(gradient)))
    p.grad = gd.tensor(list(gradient))
    return p


def test_o06_unscale_comes_before_clipping() -> None:
    p = _parameter(3 * 1024.0, 4 * 1024.0)
    scaler, sgd = GradScaler("cpu", init_scale=1024.0), optim.SGD([p], lr=1.0)
    scaler.unscale_(sgd)
    nn.utils.clip_grad_norm_([p], 1.0)
    np.testing.assert_allclose(p.grad.numpy(), [0.6, 0.8], rtol=1e-5)
    scaler.step(sgd)
    np.testing.assert_allclose(p.detach().numpy(), [-0.6, -0.8], rtol=1e-5)
    with pytest.raises(gd.GradinoError, match="already"):
        scaler.step(sgd)
    scaler.update()


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_o06_a_bad_gradient_skips_that_optimizer_alone_and_halves_the_scale(bad: float) -> None:
    broken, good = _parameter(1.0, bad), _parameter(8.0)
    first, second = optim.Adam([broken], lr=0.1), optim.SGD([good], lr=1.0)
    scaler = GradScaler("cpu", init_scale=8.0)
    assert scaler.step(first) is None and scaler.step_was_skipped
    scaler.step(second)
    assert not scaler.step_was_skipped
    scaler.update()
    assert scaler.get_scale() == 4.0
    assert broken.detach().tolist() == [0, 0] and good.detach().tolist() == [-1]
    assert first.state_dict()["state"] == {}, "a skipped step leaves neither moments nor a count"


def test_o06_the_scale_grows_after_the_interval_and_never_becomes_zero_or_infinite() -> None:
    p = _parameter(1.0)
    scaler, sgd = GradScaler("cpu", init_scale=2.0, growth_interval=3), optim.SGD([p], lr=0.0)
    scales = []
    for step in range(8):
        p.grad = gd.tensor([math.inf if step == 4 else 1.0])
        scaler.step(sgd)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [2, 2, 4, 4, 2, 2, 2, 4]
    for start, gradient, rule in ((2.0**-126, math.inf, lambda s: s > 0), (2.0**127, 0.0, lambda s: s < 2.0**128)):
        scaler = GradScaler("cpu", init_scale=start, growth_interval=1)
        p.grad = gd.tensor([gradient])
        scaler.step(sgd)
        scaler.update()
        assert rule(scaler.get_scale())


def test_o06_wrong_orders_are_errors() -> None:
    p = _parameter(1.0)
    scaler, sgd = GradScaler("cpu"), optim.SGD([p], lr=1.0)
    with pytest.raises(gd.GradinoError, match="no step"):
        scaler.update()
    scaler.unscale_(sgd)
    with pytest.raises(gd.GradinoError, match="already"):
        scaler.unscale_(sgd)
    scaler.step(sgd)
    with pytest.raises(gd.GradinoError, match="after step"):
        scaler.unscale_(sgd)
    scaler.update()
    with pytest.raises(gd.GradinoError, match="closures"):
        scaler.step(sgd, lambda: None)
    for wrong in ({"init_scale": 0}, {"growth_factor": 1.0}, {"backoff_factor": 1.0}, {"growth_interval": 0}):
        with pytest.raises(gd.InvalidValueError, match=next(iter(wrong))):
            GradScaler("cpu", **wrong)


def test_o06_parameters_without_gradients_count_as_finite() -> None:
    p = nn.Parameter(gd.ones(2))
    scaler, sgd = GradScaler("cpu", init_scale=4.0, growth_interval=1), optim.SGD([p], lr=1.0)
    scaler.step(sgd)
    scaler.update()
    assert p.detach().tolist() == [1, 1] and scaler.get_scale() == 8.0


def test_float16_gradients_are_refused() -> None:
    p = nn.Parameter(gd.zeros(2, dtype=gd.float16))
    p.grad = gd.ones(2, dtype=gd.float16)
    with pytest.raises(gd.DTypeError, match="float16"):
        GradScaler("cpu").unscale_(optim.SGD([p], lr=1.0))


def test_disabled_it_passes_everything_on() -> None:
    p = _parameter(math.inf)
    with pytest.warns(RuntimeWarning, match="no CUDA"):
        scaler = GradScaler()
    loss = gd.tensor(2.0)
    assert scaler.scale(loss) is loss and not scaler.is_enabled() and scaler.state_dict() == {} and scaler.get_scale() == 1.0
    scaler.unscale_(None)
    scaler.step(optim.SGD([p], lr=1.0))
    scaler.update()
    assert p.item() == -math.inf


def test_scale_keeps_the_kind_of_its_argument() -> None:
    scaler = GradScaler("cpu", init_scale=4.0)
    a, b = scaler.scale((gd.tensor(1.0), [gd.tensor(2.0)]))
    assert a.item() == 4 and isinstance(b, list) and b[0].item() == 8
    with pytest.raises(gd.DTypeError, match="tensors"):
        scaler.scale(3)


def test_its_state_goes_both_ways_with_pytorch_and_a_wrong_one_changes_nothing() -> None:
    scaler = GradScaler("cpu", init_scale=16.0, growth_interval=7)
    state = scaler.state_dict()
    other = GradScaler("cpu")
    with pytest.raises(gd.GradinoError, match="growth_factor"):
        other.load_state_dict({"scale": 3.0})
    assert other.get_scale() == 2.0**16
    other.load_state_dict(state)
    assert other.state_dict() == state
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=7)
    assert theirs.state_dict() == state
    theirs.load_state_dict(state)


def test_float16_training_follows_pytorch_skipped_steps_included() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, start = np.random.default_rng(1).standard_normal((8, 4), np.float32), np.ones((1, 4), np.float32)
    history = []
    for m, tensor in ((torch, torch.from_numpy), (gd, gd.from_numpy)):
        w = m.nn.Parameter(tensor(start.copy()))
        opt, scaler = m.optim.SGD([w], lr=0.01), m.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=4)
        seen = []
        for _ in range(16):
            opt.zero_grad()
            with m.autocast("cpu", dtype=m.float16):
                out = m.nn.functional.linear(tensor(x), w)
            scaler.scale(out.float().square().mean()).backward()
            scaler.step(opt)
            scaler.update()
            seen.append((scaler.get_scale(), *w.detach().numpy().ravel().tolist()))
        history.append(np.array(seen))
    np.testing.assert_array_equal(history[1][:, 0], history[0][:, 0])
    assert len(set(history[0][:, 0])) > 2, "some steps were skipped, and the scale grew"
    np.testing.assert_allclose(history[1], history[0], rtol=2e-3)
