"""What PyTorch's users write and expect: scripts that import gradino as torch, arguments, devices, wrong arguments."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import gradino as gd
import gradino as torch
import gradino.nn.functional as F
from gradino import nn, optim

NAN, INF = float("nan"), float("inf")


class Classifier(nn.Module):
    """A char-LSTM in PyTorch's style."""

    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)
        self.register_buffer("seen", torch.zeros(1, dtype=torch.long))

    def forward(self, x, state=None):
        y, state = self.lstm(self.embedding(x), state)
        self.seen += x.size(0)
        return self.head(y), state


def test_a_script_in_pytorch_style() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    ids = torch.tensor([i % 5 for i in range(81)], dtype=torch.long, device=device)
    x, y = ids[:-1].view(-1, 8), ids[1:].view(-1, 8)
    model = Classifier(5, 16).to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        model.train()
        order = torch.randperm(len(x))
        logits, (_, _) = model(x[order])
        loss = F.cross_entropy(logits.view(-1, 5), y[order].view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits, _ = model(x)
        accuracy = (logits.argmax(dim=-1) == y).float().mean().item()
        probabilities = F.softmax(logits[0, -1], dim=-1).numpy()
    assert accuracy > 0.95 and f"{loss:.3f}" == f"{loss.item():.3f}" and abs(probabilities.sum() - 1) < 1e-6
    assert next(model.parameters()).device == device and device.type == "cpu" and model.seen.item() == 610
    other = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    assert torch.equal(other(x)[0], logits) and repr(other) == repr(model)


def test_manual_descent_in_and_out_of_step_arenas() -> None:
    data, want = torch.randn(64, 2), torch.randn(64, 1)
    results = []
    for arena in (gd.step_arena, torch.enable_grad):  # the second stands for no arena
        torch.manual_seed(1)
        w, b = nn.Parameter(torch.randn(2, 1)), torch.zeros(1, requires_grad=True)
        for _ in range(20):
            with arena():
                loss = ((data @ w + b - want) ** 2).mean()
                loss.backward()
                with torch.no_grad():
                    w -= 0.1 * w.grad
                    b -= 0.1 * b.grad
                w.grad = None
                b.grad.zero_()
        results.append((w.tolist(), b.tolist(), w.grad, b.grad.tolist()))
    assert results[0] == results[1] and results[0][2:] == (None, [0])


# ---- Making tensors -------------------------------------------------------------------------------------------


def test_devices() -> None:
    assert gd.ones(1).device == "cpu" == str(gd.device("cpu")) and gd.device("cuda:1").index == 1 and gd.device("cpu").index is None
    assert repr(gd.device("cuda", 1)) == "device(type='cuda', index=1)" and pickle.loads(pickle.dumps(gd.device("cpu"))).type == "cpu"
    assert gd.zeros(2, device=gd.device("cpu:0")).to(gd.device("cpu")).to("cpu", gd.float64).dtype is gd.float64
    assert not gd.cuda.is_available() and gd.cuda.device_count() == 0 and not gd.ones(1).is_cuda
    for wrong in ("gpu", "cpu:", "cuda:x", ""):
        with pytest.raises(ValueError, match="is not a device"):
            gd.device(wrong)
    for call in (lambda: gd.zeros(2, device="cuda"), lambda: gd.ones(1).to("cuda:0"), lambda: nn.Linear(1, 1, device=gd.device("cuda"))):
        with pytest.raises(gd.DeviceError, match="cuda is not available"):
            call()


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([np.float64(1.5), 2.0], gd.float64), ([2, [3.0, np.float64(1)]], None), ([np.float32(1.5), 2.0], gd.float32),
        ([np.zeros(2), np.ones(2)], gd.float64), ([gd.tensor(1.0, dtype=gd.float64), 2], gd.float64), ([gd.tensor(1.0)], gd.float32),
        ([True, False], gd.bool), ([1, True], gd.int64), ([], gd.float32), ((1, 2.0), gd.float32),
    ],
)  # fmt: skip
def test_dtypes_of_lists(data: Any, dtype: Any) -> None:
    if dtype is None:
        with pytest.raises(gd.ShapeError, match="ragged"):
            gd.tensor(data)
    else:
        assert gd.tensor(data).dtype is dtype


def test_values_that_do_not_fit() -> None:
    """Integers never wrap, floats become infinite, and NumPy does not warn."""
    assert gd.tensor(1e300).item() == INF and gd.tensor(np.array([1e300]), dtype=gd.float32).tolist() == [INF]
    for call in (
        lambda: gd.tensor([2**40], dtype=gd.int32), lambda: gd.tensor(2**64), lambda: gd.full((2,), 2**40, dtype=gd.int32),
        lambda: gd.full((2,), NAN, dtype=gd.int64), lambda: gd.full((2,), 2**63),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="does not fit int"):
            call()
    gd.tensor([NAN, INF], dtype=gd.int64)


def test_arguments_of_factories() -> None:
    for make in (gd.zeros, gd.ones, gd.empty, gd.rand, gd.randn):
        assert make(size=(2, 3)).shape == make((2, 3)).shape == make(2, 3).shape == (2, 3)
        with pytest.raises(TypeError, match="twice"):
            make(2, size=(2,))
    for n in (np.int64(4), gd.tensor(4)):
        assert gd.arange(n).dtype is gd.int64 and gd.arange(end=n).tolist() == [0, 1, 2, 3]
    assert gd.randint(high=5, size=(3,)).amax().item() < 5 and gd.zeros(2, dtype=float).dtype is gd.float64
    assert gd.zeros_like(gd.ones(2), device="cpu").tolist() == [0, 0]
    gd.manual_seed(np.int64(3))
    first = gd.randperm(100)
    gd.manual_seed(3)
    assert gd.equal(gd.randperm(100), first) and sorted(first.tolist()) == list(range(100)) != first.tolist()
    assert gd.randperm(0).shape == (0,) and gd.randperm(3, dtype=gd.int32).dtype is gd.int32
    with pytest.raises(ValueError, match="at least 0"):
        gd.randperm(-1)
    array, tensor = np.zeros(3), gd.ones(2)
    gd.as_tensor(array)[0] = 5
    assert array[0] == 5 and gd.as_tensor(tensor) is tensor and gd.as_tensor([1, 2], dtype=gd.float32).tolist() == [1, 2]
    assert gd.as_tensor(np.int8([1])).dtype is gd.int64


# ---- Values and copies ----------------------------------------------------------------------------------------


def test_conversions_that_change_nothing_return_the_tensor() -> None:
    x = gd.ones(2)
    assert x.to(gd.float32) is x and x.float() is x and x.contiguous() is x and x.cpu() is x and x.to("cpu") is x
    assert x.to(gd.float32, copy=True) is not x


def test_data_and_grad_as_attributes() -> None:
    for w in (gd.ones(2, requires_grad=True), nn.Parameter(gd.ones(2))):
        assert w.grad_fn is None and (w * 2).grad_fn.name() == "MulBackward0"
        (w * 3).sum().backward()
        w.data -= 0.1 * w.grad
        w.data[0] = 5
        assert w.requires_grad and w.is_leaf and np.allclose(w.tolist(), [5, 0.7])
        w.data = gd.zeros(2)
        w.grad.data.zero_()
        assert w.tolist() == w.grad.tolist() == [0, 0]
        del w.grad
        assert w.grad is None
        with pytest.raises(ValueError, match="must be equal"):
            w.data = gd.zeros(3)


def test_sizes_in_bytes() -> None:
    x = gd.zeros(2, 3, dtype=gd.float64)
    assert (x.nbytes, x.itemsize, x.element_size(), x.nelement(), x.ndimension()) == (48, 8, 8, 6, 2)
    assert x.stride(0) == 3 and x.T.stride(-1) == 3 and x[1].data_ptr() - x.data_ptr() == 24


def test_membership_and_format() -> None:
    t = gd.tensor([1, 2, 3])
    assert 3 in t and 4 not in t and gd.tensor(2) in t and np.int64(1) in t
    for wrong in ("a", None, [1]):
        with pytest.raises(TypeError, match="cannot contain"):
            wrong in t  # noqa: B015
    assert f"{gd.tensor(1.5)}" == "1.5" and f"{gd.tensor(3):03d}" == "003"
    assert (t == None) is False and (t != None) is True  # noqa: E711


def test_close() -> None:
    a, b = gd.tensor([INF, -INF, NAN, 1.0, INF]), gd.tensor([INF, -INF, NAN, 1.0 + 1e-7, 1.0])
    assert gd.isclose(a, b).tolist() == [True, True, False, True, False]
    assert gd.isclose(a, b, equal_nan=True).tolist() == [True, True, True, True, False]
    assert gd.allclose(a[:2], b[:2]) and not gd.allclose(b[4], a[4])


# ---- Ops ------------------------------------------------------------------------------------------------------


def test_reductions_take_pytorchs_forms() -> None:
    x = gd.tensor([[1.0, 2.0], [4.0, 8.0]])
    population = x._array().var()
    for got in (x.var(False), x.var(unbiased=False), gd.var(x, correction=0), x.std(unbiased=False) ** 2):
        assert abs(got.item() - population) < 1e-5
    assert x.var(0, False).tolist() == [2.25, 9] == x.var(0, unbiased=False, keepdim=True)[0].tolist()
    for call in (lambda: x.sum(True), lambda: x.sum("a"), lambda: x.sum(1.0), lambda: x.var(0, 0), lambda: x.var(0, True, correction=1)):
        with pytest.raises(TypeError, match=r"dim|unbiased"):
            call()
    assert x.softmax(0, dtype=gd.float64).dtype is gd.float64 and gd.ones(1, 1, 3).squeeze((0, 1)).shape == (3,)


def test_clamp_bounds() -> None:
    """Bounds decide as PyTorch's do: floats make integers floats, tensors bound elementwise, NaN is a bound too."""
    i, f = gd.tensor([1, 5]), gd.tensor([1.0, 5.0], requires_grad=True)
    assert i.clamp(2.5).tolist() == [2.5, 5] and i.clamp(2, 3).dtype is gd.int64
    assert gd.tensor([2**62 + 1]).clamp(0, 2**62 + 3).tolist() == [2**62 + 1]
    assert f.clamp(min=gd.tensor([2.0, 2.0]), max=4).tolist() == [2, 4] and f.clamp(min=NAN).isnan().all()
    f.clamp(gd.tensor(2.0), gd.tensor(6.0)).sum().backward()
    assert f.grad.tolist() == [0, 1]


def test_products_check_their_ranks() -> None:
    for call in (lambda: gd.mm(gd.ones(3), gd.ones(3)), lambda: gd.bmm(gd.ones(2, 3), gd.ones(3, 2)),
                 lambda: gd.ones(1, 2, 3).mm(gd.ones(1, 3, 2)), lambda: gd.bmm(gd.ones(1, 2, 3), gd.ones(4, 3, 2))):  # fmt: skip
        with pytest.raises(gd.ShapeError, match="both must have"):
            call()
    for scalar in (2, 2.0, np.float32(2), [1.0], None):
        for call in (lambda s=scalar: s @ gd.ones(2), lambda s=scalar: gd.ones(2) @ s):
            with pytest.raises(TypeError, match="@"):
                call()


def test_integers_and_bits() -> None:
    assert (~gd.tensor([5, -1])).tolist() == [-6, 0] and (~gd.tensor([True])).tolist() == [False]
    with pytest.raises(TypeError, match="~"):
        ~gd.ones(2)
    assert gd.where(gd.tensor([True, False]), 1, 0).dtype is gd.int64 and gd.where(gd.tensor([True]), 1, 0.5).dtype is gd.float32
    assert [i.tolist() for i in gd.where(gd.eye(2, dtype=gd.bool))] == [[0, 1], [0, 1]]
    for write in (lambda t: t.add_(1.5), lambda t: t.sub_(0.5), lambda t: t.mul_(0.5), lambda t: t.div_(2), lambda t: t.clamp_(0.5)):
        with pytest.raises(TypeError, match="cannot hold"):
            write(gd.ones(3, dtype=gd.int64))


def test_joining_promotes() -> None:
    x = gd.ones(2, requires_grad=True)
    joined = gd.cat([gd.tensor([1]), x, gd.tensor([True])])
    assert joined.dtype is gd.float32 and gd.stack([gd.tensor(1), gd.tensor(2.0, dtype=gd.float64)]).dtype is gd.float64
    joined.sum().backward()
    assert x.grad.tolist() == [1, 1] and gd.concatenate([x, x]).shape == (4,)
    assert math.isnan(gd.tensor(math.nan).item()), "the conversion left no error behind, that a call after it would find"


def test_triangles() -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    for k in (-4, -1, 0, 2, 5):
        assert np.array_equal(gd.tril(gd.tensor(a), k)._array(), np.tril(a, k)), k
        assert np.array_equal(gd.triu(gd.tensor(a), diagonal=k)._array(), np.triu(a, k)), k
    x = gd.ones(2, 2, requires_grad=True)
    x.tril().sum().backward()
    assert x.grad.tolist() == [[1, 0], [1, 1]]
    with pytest.raises(gd.ShapeError, match="two dimensions"):
        gd.ones(3).tril()


def test_index_tensors_apart() -> None:
    """Their dimensions come first, as in NumPy; reading, its gradient, and writing."""
    a = np.arange(24.0).reshape(2, 3, 4)
    i, j = np.array([0, 1]), np.array([3, 0])
    x = gd.tensor(a, requires_grad=True)
    y = x[gd.tensor(i), :, gd.tensor(j)]
    assert np.array_equal(y.detach()._array(), a[i, :, j])
    y.sum().backward()
    want = np.zeros_like(a)
    want[i, :, j] = 1
    assert np.array_equal(x.grad._array(), want)
    t = gd.zeros(2, 3, 4)
    t[gd.tensor(i), :, gd.tensor(j)] = 1
    assert np.array_equal(t._array(), want)


def test_writing_through_masks() -> None:
    t, a = gd.zeros(300, 300), np.zeros((300, 300))
    rows = np.arange(300) % 3 == 0
    t[t == 0] = 2
    t[gd.tensor(rows)] = 7
    a[:], a[rows] = 2, 7
    assert np.array_equal(t._array(), a)
    ints = gd.zeros(3, dtype=gd.int64)
    ints[ints == 0] = 2.7
    assert ints.tolist() == [2, 2, 2]
    t.masked_fill_(t == 7, 0).clamp_(max=1)
    assert t.sum().item() == 200 * 300


def test_random_fills() -> None:
    w = nn.Parameter(gd.zeros(1000))
    with gd.no_grad():
        w.uniform_(-1, 1)
    assert -1 <= w.min().item() < -0.9 and 0.9 < w.max().item() < 1
    w.data.normal_(3, 0.1)
    assert abs(w.mean().item() - 3) < 0.02


# ---- Modules --------------------------------------------------------------------------------------------------


def test_lists_and_dicts_of_modules() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])
    layers.append(nn.Linear(2, 3)).extend([nn.Tanh()])
    layers.insert(1, nn.Dropout(0.1))
    assert [type(m).__name__ for m in layers] == ["Linear", "Dropout", "ReLU", "Linear", "Tanh"] and len(layers) == 5
    del layers[1]
    layers[1] = nn.Sigmoid()
    assert list(layers.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"] and len(layers[1:]) == 3
    named = nn.ModuleDict({"a": nn.Linear(2, 2)})
    named["b"] = nn.ReLU()
    assert list(named) == list(named.keys()) == ["a", "b"] and "a" in named and [n for n, _ in named.items()] == ["a", "b"]
    del named["b"]
    assert len(named) == 1 and [n for n, _ in named.named_parameters()] == ["a.weight", "a.bias"]
    for call in (lambda: layers.append(3), lambda: named.update({"x": 3}), lambda: nn.ModuleList([None])):
        with pytest.raises(TypeError, match="not a Module"):
            call()


# ---- Wrong arguments ------------------------------------------------------------------------------------------

NOT_TENSORS: list[Any] = [
    lambda: gd.exp(1.0), lambda: gd.exp(np.ones(2)), lambda: gd.add(1, 2), lambda: gd.maximum(1, 2), lambda: gd.where(True, 1, 0),
    lambda: gd.ones(2).where([True, False], 0), lambda: gd.ones(2).masked_fill([True, False], 0), lambda: gd.ones(2).matmul(2),
    lambda: gd.ones(2).index_select(0, [0]), lambda: gd.ones(2).gather(0, [0]), lambda: gd.ones(2).max("a"),
    lambda: gd.ones(2, requires_grad=True).sum().backward("a"), lambda: F.one_hot([1]), lambda: F.embedding([1], gd.ones(2, 2)),
    lambda: gd.equal(gd.ones(2), 1), lambda: gd.allclose(gd.ones(2), 1), lambda: gd.softmax([1.0], 0), lambda: gd.sum(3.0),
]  # fmt: skip


@pytest.mark.parametrize("call", NOT_TENSORS)
def test_what_is_no_tensor_is_named(call: Any) -> None:
    with pytest.raises(gd.DTypeError, match="Tensor"):
        call()


def test_wrong_indices_are_what_pytorch_raises() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        gd.arange(6)[::-1]
    for index in (1.5, "a", gd.ones(2), np.ones(2)):
        for kind in (IndexError, TypeError):
            with pytest.raises(kind, match="index"):
                gd.arange(6)[index]


@pytest.mark.own_arenas
def test_one_arena_in_many_threads() -> None:
    """Entering and leaving the same arena at once: each thread leaves its own scope."""
    arena, failed = gd.Arena(name="shared"), []

    def work() -> None:
        try:
            for _ in range(300):
                with arena:
                    assert gd.ones(3).arena == arena
                assert gd.active_arena() == gd.permanent_arena()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    arena.close()


def test_importing_brings_little_along() -> None:
    """What few scripts need is imported at its first use."""
    code = """
import sys, numpy
before = set(sys.modules)
import gradino as gd
late = {"json", "multiprocessing", "pathlib", "tempfile", "statistics", "inspect", "gradino.serialization"}
late |= {"gradino.utils", "gradino.tools", "gradino.optim.lr_scheduler"}
print(sorted(late & (set(sys.modules) - before)))
gd.utils.data.DataLoader, gd.optim.lr_scheduler.StepLR, gd.save, gd.safetensors.save_file
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    for module in (gd, gd.optim):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nothing'"):
            _ = module.nothing
