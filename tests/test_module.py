"""Module and containers: registration, walking the tree, attributes, modes, text."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from helpers import assert_same_bits

import gradino as gd
from gradino import nn, optim


class Block(nn.Module):
    """A parameter, a buffer, a child, in mixed order."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 3)
        self.scale = nn.Parameter(gd.ones(3))
        self.register_buffer("count", gd.zeros(()))
        self.shift = nn.Parameter(gd.zeros(3))
        self.label = "block"

    def forward(self, x: gd.Tensor) -> gd.Tensor:
        return self.inner(x) * self.scale + self.shift


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(3, 2, bias=False))


NAMES = ["first.scale", "first.shift", "first.inner.weight", "first.inner.bias", "second.scale", "second.shift", "second.inner.weight"]
NAMES += ["second.inner.bias", "head.1.weight"]


# ---- Walking ------------------------------------------------------------------------------------------------


def test_names_and_order() -> None:
    """A module's own parameters come before its children's; each in order of assignment."""
    net = Net()
    assert [n for n, _ in net.named_parameters()] == NAMES
    assert [id(p) for p in net.parameters()] == [id(p) for _, p in net.named_parameters()]
    assert [n for n, _ in net.named_parameters("net")] == [f"net.{n}" for n in NAMES]
    assert [n for n, _ in net.first.named_parameters(recurse=False)] == ["scale", "shift"]
    assert list(net.parameters(recurse=False)) == []
    assert [n for n, _ in net.named_buffers()] == ["first.count", "second.count"] and len(list(net.buffers())) == 2
    assert [n for n, _ in net.named_children()] == ["first", "second", "head"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "first.inner", "second", "second.inner", "head", "head.0", "head.1"]
    assert list(net.children())[2] is net.head and next(iter(net.modules())) is net
    assert net.num_parameters() == 2 * (3 + 3 + 6 + 3) + 6
    assert net.get_submodule("first.inner") is net.first.inner and net.get_submodule("") is net
    assert net.get_parameter("first.inner.bias") is net.first.inner.bias and net.get_buffer("first.count") is net.first.count
    for bad in ("third", "first.outer", "first.scale"):
        with pytest.raises(AttributeError, match=bad.split(".")[-1]):
            net.get_submodule(bad)
    with pytest.raises(AttributeError, match=r"first\.weight"):
        net.get_parameter("first.weight")


def test_shared_modules_and_parameters_stand_once() -> None:
    net = Net()
    net.second = net.first
    net.head[1].weight = nn.Parameter(gd.ones(2, 3))
    net.tied = net.head[1].weight
    names = [n for n, _ in net.named_parameters()]
    assert names == ["tied", *NAMES[:4]]
    every = [n for n, _ in net.named_parameters(remove_duplicate=False)]
    assert every == ["tied", *NAMES]
    assert [n for n, _ in net.named_modules(remove_duplicate=False)][3:5] == ["second", "second.inner"]
    assert [n for n, _ in net.named_children()] == ["first", "head"]


def test_apply_visits_children_first() -> None:
    seen: list[str] = []
    net = Net()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "Block", "Linear", "Block", "ReLU", "Linear", "Sequential", "Net"]


def test_modes() -> None:
    net = Net()
    assert net.training and all(m.training for m in net.modules())
    assert net.eval() is net and not any(m.training for m in net.modules())
    net.first.train()
    assert net.first.inner.training and not net.second.training
    with pytest.raises(ValueError, match="bool"):
        net.train("yes")  # type: ignore[arg-type]
    dropout = nn.Dropout(1.0)
    x = gd.ones(3)
    assert not dropout(x).any() and dropout.eval()(x) is x


def test_requires_grad_and_zero_grad() -> None:
    net = Net()
    assert net.requires_grad_(False) is net and not any(p.requires_grad for p in net.parameters())
    net.first.requires_grad_()
    net.first(gd.ones(1, 2)).sum().backward()
    assert net.first.scale.grad is not None and net.second.scale.grad is None
    net.zero_grad(set_to_none=False)
    assert not net.first.scale.grad.ne(0).any()
    net.zero_grad()
    assert net.first.scale.grad is None


def test_calling_a_module_without_forward() -> None:
    with pytest.raises(NotImplementedError, match="Module"):
        nn.Module()(1)


# ---- Attributes ---------------------------------------------------------------------------------------------


def test_parameters_modules_and_buffers_keep_their_kind() -> None:
    block = Block()
    for name, what in (("scale", "Parameter"), ("inner", "Module"), ("count", "Tensor")):
        for value in (3, "text", [1]):
            with pytest.raises(TypeError, match=f"Block.{name}.*{what} or None"):
                setattr(block, name, value)
    with pytest.raises(TypeError, match=r"Block.scale.*Tensor"):
        block.scale = gd.ones(3)
    with pytest.raises(TypeError, match=r"Block.scale.*Linear"):
        block.scale = nn.Linear(1, 1)
    assert [n for n, _ in block.named_parameters()] == ["scale", "shift", "inner.weight", "inner.bias"]


def test_none_reserves_a_name() -> None:
    block = Block()
    block.scale = block.inner = block.count = None
    assert [n for n, _ in block.named_parameters()] == ["shift"] and block.scale is None and list(block.buffers()) == []
    assert list(block.state_dict()) == ["shift"]
    block.scale, block.inner, block.count = nn.Parameter(gd.ones(1)), nn.ReLU(), gd.ones(2)
    assert [n for n, _ in block.named_parameters()] == ["scale", "shift"]
    assert [n for n, _ in block.named_buffers()] == ["count"] and list(block.state_dict()) == ["scale", "shift", "count"]


def test_a_name_changes_its_kind() -> None:
    block = Block()
    block.label = nn.Parameter(gd.ones(1))
    assert "label" in dict(block.named_parameters())
    block.inner = nn.Parameter(gd.ones(1))
    assert "inner" in dict(block.named_parameters()) and list(block.children()) == []
    block.count = nn.Linear(1, 1)
    assert list(block.buffers()) == [] and "count" in dict(block.named_children())
    del block.shift
    block.shift = 5
    assert "shift" not in dict(block.named_parameters()) and block.shift == 5


def test_delattr() -> None:
    block = Block()
    for name in ("scale", "inner", "count", "label"):
        delattr(block, name)
        with pytest.raises(AttributeError, match=f"'Block' object has no attribute '{name}'"):
            getattr(block, name)
        with pytest.raises(AttributeError):
            delattr(block, name)
    assert list(block.state_dict()) == ["shift"]


def test_assignment_before_init() -> None:
    class Early(nn.Module):
        def __init__(self, value: Any) -> None:
            self.value = value
            super().__init__()

    assert Early(3).value == 3
    for value in (nn.Parameter(gd.ones(1)), nn.ReLU()):
        with pytest.raises(AttributeError, match=r"super\(\).__init__\(\) before assigning 'value'"):
            Early(value)


def test_properties_of_subclasses_work() -> None:
    class Scaled(nn.Module):
        _log = 0.0

        @property
        def scale(self) -> float:
            return 2.0**self._log

        @scale.setter
        def scale(self, value: float) -> None:
            self._log = value / 2

    module = Scaled()
    module.scale = 4.0
    assert module.scale == 4.0 and "scale" not in module.__dict__


@pytest.mark.parametrize(
    "register, good", [("register_parameter", nn.Parameter), ("register_buffer", gd.ones), ("add_module", nn.Identity)]
)
def test_registering_checks_names_and_kinds(register: str, good: Any) -> None:
    block = Block()
    for name, error in (("", KeyError), ("a.b", KeyError), ("forward", KeyError), ("label", KeyError), (3, TypeError)):
        with pytest.raises(error):
            getattr(block, register)(name, good(gd.ones(1)) if good is not gd.ones else gd.ones(1))
    with pytest.raises(TypeError, match="float"):
        getattr(block, register)("new", 1.0)
    getattr(block, register)("empty", None)
    assert block.empty is None and list(block.state_dict()) == list(Block().state_dict())


def test_buffers() -> None:
    block = Block()
    block.register_buffer("cache", gd.ones(2), persistent=False)
    assert "cache" in dict(block.named_buffers()) and "cache" not in block.state_dict()
    assert not block.count.requires_grad and block.count not in set(block.parameters())
    with gd.step_arena():
        for _ in range(3):
            block.count = block.count + 1  # as running statistics are kept
        block.cache = gd.full((4,), 2.0) * block.scale.sum()
    gd.full((1000,), 9.0)
    assert block.count.item() == 3 and block.cache.tolist() == [6, 6, 6, 6]
    assert block.count.arena == gd.permanent_arena() and not block.cache.requires_grad


def test_updating_a_buffer_takes_no_new_memory() -> None:
    block = Block()
    block.register_buffer("mean", gd.zeros(256))
    with gd.step_arena():
        block.mean = block.mean * 0.9 + 0.1
    before = gd.permanent_arena().stats().used
    for _ in range(100):
        with gd.step_arena():
            block.mean = block.mean * 0.9 + 0.1
    assert gd.permanent_arena().stats().used == before


# ---- Dtypes -------------------------------------------------------------------------------------------------


def test_to_keeps_parameter_objects() -> None:
    """References, tied weights, gradients and requires_grad survive; an optimizer made before says that it is outdated."""
    block = Block()
    block.tied, block.shift.requires_grad = block.scale, False
    kept = list(block.parameters())
    block.scale.grad = gd.full((3,), 2.0)
    opt = optim.SGD([block.scale], lr=0.1)
    assert block.double() is block
    assert all(a is b for a, b in zip(block.parameters(), kept, strict=True)) and block.tied is block.scale
    assert {p.dtype for p in kept} == {gd.float64} and block.count.dtype is gd.float64
    assert block.scale.grad.dtype is gd.float64 and block.scale.grad.tolist() == [2, 2, 2] and not block.shift.requires_grad
    with pytest.raises(gd.StaleTensorError):
        opt.step()
    assert block.to("cpu").to(gd.float32).scale.dtype is gd.float32
    assert block.to(gd.zeros(1, dtype=gd.float64)).scale.dtype is gd.float64
    assert block.float().cpu().to(device="cpu", dtype="float64").scale.dtype is gd.float64
    block.register_buffer("index", gd.tensor([1, 2]))
    assert block.float().index.dtype is gd.int64
    for call, error in (
        (lambda: block.to("cuda"), gd.DeviceError),
        (lambda: block.to(gd.int64), TypeError),
        (lambda: block.to(size=3), TypeError),
    ):
        with pytest.raises(error):
            call()


# ---- Sequential ---------------------------------------------------------------------------------------------


def test_sequential_is_a_list_of_modules() -> None:
    a, b, c = nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)
    model = nn.Sequential(a, b)
    assert model.append(c) is model and len(model) == 3 and list(model) == [a, b, c]
    assert model[0] is a and model[-1] is c and list(model[1:]) == [b, c] and isinstance(model[1:], nn.Sequential)
    x = gd.ones(4, 2)
    assert_same_bits(model(x), c(b(a(x))), what="in order")
    model[1] = nn.Tanh()
    assert isinstance(model[1], nn.Tanh) and list(model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    del model[1]
    assert list(model) == [a, c] and list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    model.insert(0, b).extend([b, nn.Identity()])
    assert [type(m).__name__ for m in model] == ["ReLU", "Linear", "Linear", "ReLU", "Identity"]
    del model[3:]
    assert len(model) == 3
    assert model.pop(0) is b and len(model + nn.Sequential(b)) == 3 and len(model) == 2
    named = nn.Sequential(OrderedDict(first=a, second=c))
    assert next(iter(named.state_dict())) == "first.weight" and named.second is c and named[1] is c
    for index in (2, -3):
        with pytest.raises(IndexError, match=str(index)):
            named[index]
    for wrong in (lambda: nn.Sequential(a, 3), lambda: model.append(len), lambda: model.insert(0, None)):
        with pytest.raises(TypeError, match="not a Module"):
            wrong()


# ---- Text ---------------------------------------------------------------------------------------------------


def test_text() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part, self.gone = Block(), nn.ReLU()
            self.gone = None

        def extra_repr(self) -> str:
            return "a=1\nb=2"

    assert repr(Odd()) == (
        "Odd(\n  a=1\n  b=2\n  (part): Block(\n    (inner): Linear(in_features=2, out_features=3, bias=True)\n  )\n  (gone): None\n)"
    )
    assert repr(nn.Module()) == "Module()" and repr(nn.Sequential()) == "Sequential()"


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: nn.Linear(-1, 2), ValueError, "-1"),
        (lambda: nn.Linear(2, 3, device="cuda"), gd.DeviceError, "cuda"),
        (lambda: nn.Linear(2, 3, dtype="int64"), TypeError, "int64"),
        (lambda: nn.Linear(2, 3)(gd.ones(2, 3)), gd.ShapeError, "(2, 3)"),
        (lambda: nn.Linear(2, 3)([1.0, 2.0]), TypeError, "list"),
        (lambda: nn.Linear(2, 3)(gd.ones(2, dtype=gd.float64)), TypeError, "float64"),
        (lambda: nn.Dropout(1.5), ValueError, "1.5"),
        (lambda: nn.Dropout(0.5, inplace=1), TypeError, "inplace"),
        (lambda: nn.ReLU(inplace=None), TypeError, "inplace"),
        (lambda: nn.ReLU()(3), TypeError, "int"),
        (lambda: nn.Softmax(), ValueError, "dim"),
        (lambda: nn.Embedding(0, 3), ValueError, "0 rows"),
        (lambda: nn.Embedding(3, 2, 3), IndexError, "padding_idx"),
        (lambda: nn.Parameter([1, 2]), TypeError, "int64"),
    ],
)
def test_errors_name_what_is_wrong(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)
