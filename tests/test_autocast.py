"""Mixed precision: what ops take under autocast, where gradients go, and where it begins and ends."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gradino as gd
from gradino import nn

F = nn.functional


def test_products_give_halves_and_losses_float32() -> None:
    a, w = gd.randn(4, 8), gd.randn(3, 8)
    with gd.autocast("cpu"):
        assert (a @ w.T).dtype is gd.bfloat16
        assert F.linear(a, w, gd.zeros(3)).dtype is gd.bfloat16
        assert nn.LSTM(8, 3)(gd.randn(5, 2, 8))[0].dtype is gd.bfloat16
        logits = F.linear(a, w)
        assert F.cross_entropy(logits, gd.tensor([0, 1, 2, 0])).dtype is gd.float32
        assert F.mse_loss(logits, logits.detach() + 1).dtype is gd.float32
        assert logits.prod(1).dtype is gd.float32
        assert (a + 1).dtype is gd.float32 and (logits + a[:, :3]).dtype is gd.float32
        assert logits.softmax(1).dtype is gd.bfloat16
        assert (a.double() @ w.double().T).dtype is gd.float64
    assert (a @ w.T).dtype is gd.float32
    with gd.autocast("cpu", dtype=gd.float16):
        assert (a @ w.T).dtype is gd.float16
        assert (a.bfloat16() @ w.T).dtype is gd.float16


def test_products_have_the_bits_of_cast_operands() -> None:
    a, b = gd.randn(5, 70), gd.randn(70, 9)
    with gd.autocast("cpu"):
        product = a @ b
    assert (product == a.bfloat16() @ b.bfloat16()).all()


def test_vectors_and_failures_work_as_outside() -> None:
    with gd.autocast("cpu"):
        assert (gd.ones(3) @ gd.ones(3)).dtype is gd.bfloat16
        with pytest.raises(gd.ShapeError, match="matmul"):
            gd.ones(2, 3) @ gd.ones(2, 3)
        with pytest.raises(gd.DTypeError, match="one dtype"):
            gd.ones(2, 3) @ gd.ones(3, 2, dtype=gd.float64)


def test_nesting_and_switching_off_within() -> None:
    a = gd.ones(2, 2)
    with gd.autocast("cpu"):
        with gd.autocast("cpu", enabled=False):
            assert not gd.is_autocast_enabled() and (a @ a).dtype is gd.float32
            with gd.autocast("cpu", dtype=gd.float16):
                assert gd.get_autocast_dtype("cpu") is gd.float16 and (a @ a).dtype is gd.float16
        assert (a @ a).dtype is gd.bfloat16
        with gd.no_grad():
            assert gd.is_autocast_enabled() and (a @ a).dtype is gd.bfloat16
    assert not gd.is_autocast_enabled()


def test_modes_of_two_kinds_left_in_any_order_keep_to_their_own() -> None:
    mixed, silent = gd.autocast("cpu"), gd.no_grad()
    mixed.__enter__()
    silent.__enter__()
    mixed.__exit__(None, None, None)
    assert not gd.is_autocast_enabled() and not gd.is_grad_enabled()
    silent.__exit__(None, None, None)
    assert gd.is_grad_enabled()
    with gd.autocast("cpu"):
        gd.set_grad_enabled(False)
        assert gd.is_autocast_enabled()
    assert not gd.is_grad_enabled()
    gd.set_grad_enabled(True)


def test_an_exception_ends_it_and_decorators_and_threads_have_their_own() -> None:
    with pytest.raises(ZeroDivisionError), gd.autocast("cpu"):
        raise ZeroDivisionError
    assert not gd.is_autocast_enabled()

    @gd.autocast("cpu")
    def inside() -> bool:
        return gd.is_autocast_enabled()

    assert inside() and not gd.is_autocast_enabled()
    seen = []
    with gd.autocast("cpu"):
        other = threading.Thread(target=lambda: seen.append(gd.is_autocast_enabled()))
        other.start()
        other.join()
    assert seen == [False]


def test_gradients_are_float32_and_those_of_explicit_casts() -> None:
    layer, x = nn.Linear(6, 4), gd.randn(5, 6)
    with gd.autocast("cpu"):
        layer(x).float().square().sum().backward()
    got = [p.grad.numpy().copy() for p in layer.parameters()]
    assert all(p.grad.dtype is gd.float32 for p in layer.parameters())
    layer.zero_grad()
    F.linear(x.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16()).float().square().sum().backward()
    for a, p in zip(got, layer.parameters(), strict=True):
        np.testing.assert_array_equal(a, p.grad.numpy())


def _casts() -> int:
    return gd.active_arena().stats().allocations


def test_a_leaf_is_cast_once_and_again_after_a_change_or_another_mode() -> None:
    w, x = gd.randn(64, 64, requires_grad=True), gd.randn(2, 64).bfloat16()
    with gd.step_arena(), gd.autocast("cpu"):
        counts = []
        for _ in range(3):
            before = _casts()
            first = x @ w
            counts.append(_casts() - before)
        assert counts[1] == counts[2] < counts[0]
        with gd.no_grad():
            assert not (x @ w).requires_grad
            w.mul_(2)
        assert (x @ w).requires_grad
        assert (x @ w == first * 2).all()
    with gd.step_arena(), gd.autocast("cpu", cache_enabled=False):
        before = _casts()
        x @ w
        once = _casts() - before
        x @ w
        assert _casts() - before == 2 * once
    for _ in range(3):  # the cast of the last step went with its arena
        with gd.autocast("cpu"), gd.step_arena():
            (x @ w).sum().backward()


def test_two_losses_share_a_cast_and_each_has_its_backward() -> None:
    w = gd.randn(3, 3, requires_grad=True)
    with gd.autocast("cpu"):
        first, second = (gd.ones(1, 3) @ w).sum(), (gd.ones(1, 3) @ w).sum()
        first.backward()
        second.backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.full((3, 3), 2, np.float32))


def test_backward_within_autocast_is_the_backward_outside() -> None:
    grads = []
    for inside in (True, False):
        gd.manual_seed(3)
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        with gd.autocast("cpu"):
            loss = F.mse_loss(model(gd.randn(4, 8)), gd.zeros(4, 1))
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        grads.append([p.grad.numpy().copy() for p in model.parameters()])
    for a, b in zip(*grads, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("half", [gd.bfloat16, gd.float16])
def test_norms_of_halves_take_float32_parameters(norm: str, half: gd.dtype) -> None:
    module = (nn.LayerNorm if norm == "layer_norm" else nn.RMSNorm)(16)
    x = gd.randn(5, 16).to(half).requires_grad_()
    y = module(x)
    assert y.dtype is half
    y.float().square().sum().backward()
    assert x.grad.dtype is half and all(p.grad.dtype is gd.float32 for p in module.parameters())
    wide = module(x.detach().float())
    np.testing.assert_array_equal(y.detach().float().numpy(), wide.to(half).float().detach().numpy())
    with pytest.raises(gd.DTypeError, match="one dtype"):
        getattr(F, norm)(x.detach().double(), (16,), module.weight)


def test_wrong_arguments() -> None:
    with pytest.raises(gd.DeviceError, match="device_type"):
        gd.autocast("tpu")
    with pytest.warns(RuntimeWarning, match="no CUDA"):
        mode = gd.autocast("cuda")
    with gd.autocast("cpu"), mode:
        assert gd.is_autocast_enabled()
    with pytest.warns(RuntimeWarning, match="float32"), gd.autocast("cpu", dtype=gd.float32):
        assert not gd.is_autocast_enabled()


def test_as_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def build(m):  # type: ignore[no-untyped-def]
        return m.nn.Sequential(m.nn.Linear(32, 64), m.nn.GELU(), m.nn.LayerNorm(64), m.nn.Linear(64, 10))

    theirs, ours = build(torch), build(gd)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    x, y = np.random.default_rng(0).standard_normal((16, 32), np.float32), np.arange(16) % 10
    results = []
    for m, model, tensor in ((torch, theirs, torch.from_numpy), (gd, ours, gd.from_numpy)):
        with m.autocast("cpu", dtype=m.bfloat16):
            out = model(tensor(x))
            loss = m.nn.functional.cross_entropy(out, tensor(y))
        loss.backward()
        results.append([loss.item(), str(out.dtype).split(".")[1], *(p.grad.numpy() for p in model.parameters())])
    assert results[0][1] == results[1][1]
    for a, b in zip(results[0], results[1], strict=True):
        if not isinstance(a, str):
            np.testing.assert_allclose(b, a, rtol=2e-2, atol=2e-3)


def test_attention_gives_halves_too() -> None:
    q = gd.randn(2, 3, 5, 8)
    with gd.autocast("cpu"):
        assert F.scaled_dot_product_attention(q, q.bfloat16(), q).dtype is gd.bfloat16
        assert F.scaled_dot_product_attention(q, q, q, gd.zeros(5, 5)).dtype is gd.bfloat16


def test_convolutions_of_both_kinds_give_halves() -> None:
    x, w = gd.randn(2, 3, 5, 5), gd.randn(4, 3, 3, 3)
    with gd.autocast("cpu"):
        assert F.conv2d(x, w, gd.zeros(4)).dtype is gd.bfloat16
        assert F.conv_transpose2d(gd.randn(2, 4, 5, 5), w, gd.zeros(3)).dtype is gd.bfloat16
        assert F.conv1d(x[:, :, 0], w[:, :, 0]).dtype is gd.bfloat16
    layer = nn.Conv2d(3, 4, 3)
    with gd.autocast("cpu"):
        layer(x).float().sum().backward()
    assert layer.weight.grad.dtype is gd.float32
