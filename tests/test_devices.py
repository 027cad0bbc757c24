"""Devices other than the CPU. Runs on a CUDA device, or on the emulated CUDA part that GRADINO_CUDA_LIBRARY names."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gradino as gd
from gradino import nn

pytestmark = pytest.mark.skipif(not gd.cuda.is_available(), reason="no CUDA device and no emulated one")


def test_where_tensors_are() -> None:
    x = gd.Tensor([[1.0, 2.0]]).to("cuda")
    assert x.device == "cuda:0" and x.is_cuda and x.get_device() == 0 and "device='cuda:0'" in repr(x)
    assert (x @ x.t() + 1).device == x.device and gd.zeros_like(x).device == x.device and x.new_ones(2).device == x.device
    assert x.cpu().device == "cpu" and x.cpu().tolist() == x.tolist() == [[1.0, 2.0]] and x.to("cuda:0") is x
    assert pickle.loads(pickle.dumps(x)).device == x.device
    with gd.device("cuda"):
        assert gd.rand(2).is_cuda
    assert x.sum().item() == 3.0 and float(x.amax()) == 2.0


def test_two_devices_are_an_error_that_names_both() -> None:
    x, y = gd.Tensor([1.0, 2.0]).to("cuda"), gd.Tensor([1.0, 2.0]).to("cpu")
    with pytest.raises(gd.DeviceError, match=r"add.*cuda:0.*cpu"):
        _ = x + y
    assert (x + gd.Tensor(2.0).to("cpu")).tolist() == [3.0, 4.0]  # a scalar goes along
    scale = gd.Tensor(3.0).to("cpu").requires_grad_()
    (x * scale).sum().backward()
    assert scale.grad is not None and scale.grad.device == "cpu" and scale.grad.item() == 3.0


def test_gradients_flow_between_devices() -> None:
    x = gd.Tensor([1.0, 2.0, 3.0]).to("cpu").requires_grad_()
    (x.to("cuda").square().cpu() * 2).sum().backward()
    assert x.grad is not None and x.grad.device == "cpu" and x.grad.tolist() == [4.0, 8.0, 12.0]


def test_same_seed_same_numbers() -> None:
    gd.manual_seed(5)
    a = gd.rand(100, device="cpu")
    gd.manual_seed(5)
    assert gd.rand(100, device="cuda").tolist() == a.tolist()


@pytest.mark.parametrize("optimizer", [gd.optim.SGD, gd.optim.AdamW, gd.optim.RMSprop])
def test_training_as_on_the_cpu(optimizer: type) -> None:
    losses = {}
    for device in ("cpu", "cuda"):
        gd.manual_seed(1)
        with gd.device("cpu"):
            model, x, y = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)), gd.randn(16, 6), gd.arange(16) % 3
        model, x, y = model.to(device), x.to(device), y.to(device)
        assert all(p.device.type == device for p in model.parameters()) and all(b.device.type == device for b in model.buffers())
        opt = optimizer(model.parameters(), lr=0.05)
        losses[device] = []
        for _ in range(5):
            with gd.step_arena():
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
                losses[device].append(loss.item())
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=2e-5)


def test_modules_are_made_and_moved() -> None:
    layer = nn.Linear(3, 2, device="cuda")
    assert layer.weight.is_cuda and layer.bias.is_cuda
    weight = layer.weight
    layer.cpu()
    assert layer.weight is weight and not weight.is_cuda
    other = nn.Linear(3, 2, device="cpu").cuda()
    other.load_state_dict(layer.state_dict())
    assert other.weight.tolist() == layer.weight.tolist() and other.weight.is_cuda


def test_saved_and_loaded(tmp_path) -> None:
    gd.save({"a": gd.Tensor([1.0, 2.0]).to("cuda")}, tmp_path / "x")
    assert gd.load(tmp_path / "x", map_location="cuda")["a"].device == "cuda:0"


@pytest.mark.own_arenas
def test_arenas_hold_device_memory() -> None:
    with gd.step_arena():
        gd.ones(1000, device="cuda").sum().item()
    before = gd.cuda.memory_allocated()
    for _ in range(3):
        with gd.step_arena():
            kept = gd.ones(1000, 100, device="cuda") * 2
            assert gd.cuda.memory_allocated() >= before + 800_000
        assert gd.cuda.memory_allocated() == before
        with pytest.raises(gd.StaleTensorError):
            kept.sum()


def test_what_needs_the_cpu_says_so() -> None:
    x = gd.Tensor([1.0]).to("cuda")
    with pytest.raises(gd.DeviceError, match=r"cuda:99|there"):
        gd.zeros(1, device="cuda:99")
    with pytest.raises(gd.DeviceError):
        x.pin_memory()


def test_streams_and_events() -> None:
    stream, begin, end = gd.cuda.Stream(), gd.cuda.Event(enable_timing=True), gd.cuda.Event(enable_timing=True)
    x = gd.ones(10, device="cuda")
    stream.wait_stream(gd.cuda.current_stream())
    with gd.cuda.stream(stream):
        assert gd.cuda.current_stream() == stream
        begin.record()
        y = x * 3
        end.record()
    gd.cuda.current_stream().wait_stream(stream)
    end.synchronize()
    assert begin.elapsed_time(end) >= 0 and y.sum().item() == 30 and gd.cuda.current_stream() != stream
    gd.cuda.synchronize()


def test_pinned_memory() -> None:
    x = gd.Tensor([1.0, 2.0]).to("cpu").pin_memory()
    assert x.is_pinned() and x.to("cuda", non_blocking=True).tolist() == [1.0, 2.0]


def test_index_out_of_range_is_reported_when_the_host_waits() -> None:
    if gd.cuda.get_device_name().startswith("stand-in"):
        pytest.skip("the stand-in's kernels do not look at indices")
    table = gd.ones(3, 2, device="cuda")
    with pytest.raises(IndexError, match=r"index 7 .*\[0, 3\)"):
        table.index_select(0, gd.Tensor([0, 7]).to("cuda")).tolist()
    assert table.sum().item() == 6.0


def test_memory_is_shared_by_cuda_array_interface() -> None:
    class Array:  # stands in for CuPy's
        def __init__(self, t: gd.Tensor) -> None:
            self.__cuda_array_interface__ = t.__cuda_array_interface__

    x = gd.arange(6, dtype="float32", device="cuda").reshape(2, 3)
    about = x.t().__cuda_array_interface__
    assert about["version"] == 3 and about["shape"] == (3, 2) and about["strides"] == (4, 12) and about["stream"]
    y = gd.from_cupy(Array(x.t()))
    x.mul_(2)
    assert y.device == "cuda:0" and y.tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]]
    assert not hasattr(x.cpu(), "__cuda_array_interface__") and x.__dlpack_device__() == (2, 0)
    with pytest.raises(gd.DeviceError, match=r"CuPy|CPU"):
        gd.Tensor([1.0]).to("cpu").cupy()
