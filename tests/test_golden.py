"""What PyTorch computed, from files, so that machines without PyTorch check it too. tests/golden/make.py writes them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_close

import gradino as gd
from gradino import nn, optim
from gradino.nn import functional as F

FOLDER = Path(__file__).parent / "golden"
LSTM_CASES = {
    "plain": {},
    "no bias": {"bias": False},
    "two layers": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "batch first": {"batch_first": True, "num_layers": 2, "bidirectional": True},
    "lengths": {"num_layers": 2, "bidirectional": True},
}
OPTIMIZERS = {
    "sgd": (optim.SGD, {"lr": 0.05}),
    "sgd decay": (optim.SGD, {"lr": 0.05, "weight_decay": 0.1}),
    "sgd momentum": (optim.SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    "sgd nesterov": (optim.SGD, {"lr": 0.05, "momentum": 0.8, "nesterov": True, "maximize": True}),
    "adam": (optim.Adam, {"lr": 0.02}),
    "adam decay": (optim.Adam, {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-4}),
    "adam amsgrad": (optim.Adam, {"lr": 0.02, "amsgrad": True}),
    "adamw": (optim.AdamW, {"lr": 0.02}),
    "adamw maximize": (optim.AdamW, {"lr": 0.02, "weight_decay": 0.2, "maximize": True, "amsgrad": True}),
}
MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3, bias=False)),
    "lstm": lambda: nn.LSTM(3, 4, 2, bidirectional=True),
    "lstm no bias": lambda: nn.LSTM(3, 4, bias=False),
    "cell": lambda: nn.LSTMCell(3, 4),
    "embedding": lambda: nn.Sequential(nn.Embedding(5, 3), nn.Dropout(0.1)),
    "loss": lambda: nn.CrossEntropyLoss(weight=gd.ones(3)),
}


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / f"{name}.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def lstm_cases() -> dict[str, np.ndarray]:
    return golden("lstm")


@pytest.mark.parametrize("name", LSTM_CASES)
def test_lstm(name: str, lstm_cases: dict[str, np.ndarray], isa: str) -> None:
    a = {k.removeprefix(f"{name}/"): v for k, v in lstm_cases.items() if k.startswith(f"{name}/")}
    model = nn.LSTM(2, 3, dtype=gd.float64, **LSTM_CASES[name])
    model.load_state_dict({k.removeprefix("p."): v for k, v in a.items() if k.startswith("p.")})
    x, h0, c0 = (gd.tensor(a[k], requires_grad=True) for k in ("x", "h0", "c0"))
    y, (h, c) = model(x, (h0, c0), lengths=a.get("lengths"))
    ((y * gd.tensor(a["wy"])).sum() + (h * gd.tensor(a["wh"])).sum() + (c * gd.tensor(a["wc"])).sum()).backward()
    got = {
        "y": y,
        "h": h,
        "c": c,
        "g.x": x.grad,
        "g.h0": h0.grad,
        "g.c0": c0.grad,
        **{f"g.{k}": p.grad for k, p in model.named_parameters()},
    }
    for key, value in got.items():
        assert_close(value, a[key], rtol=1e-11, atol=1e-11, what=f"lstm {name}, {isa}: {key}")
    assert {k for k in a if k[0] == "g"} == {k for k in got if k[0] == "g"}, name


def test_cross_entropy(isa: str) -> None:
    a = golden("cross_entropy")
    keys = [k.removeprefix("loss/") for k in a if k.startswith("loss/")]
    assert len(keys) == 24
    for key in keys:
        kind, weighted, smoothing, reduction = key.split("/")
        logits = gd.tensor(a["logits"], requires_grad=True)
        weight = gd.tensor(a["weight"]) if weighted == "1" else None
        loss = F.cross_entropy(logits, gd.tensor(a[kind]), weight, reduction=reduction, label_smoothing=float(smoothing))
        (loss * gd.tensor(np.arange(1.0, loss.numel() + 1).reshape(loss.shape))).sum().backward()
        assert_close(loss, a[f"loss/{key}"], rtol=1e-13, atol=1e-13, what=f"cross_entropy {key}, {isa}: loss")
        assert_close(logits.grad, a[f"grad/{key}"], rtol=1e-13, atol=1e-13, what=f"cross_entropy {key}, {isa}: gradient")


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 3e-6)])
def test_optimizer(name: str, dtype: str, tolerance: float, isa: str) -> None:
    a = golden("optimizers")
    kind, options = OPTIMIZERS[name]
    p = nn.Parameter(gd.tensor(a["start"], dtype=dtype))
    optimizer = kind([p], **options)
    for t in range(a["steps"].max()):
        p.grad = gd.tensor(a["g"][t % 16], dtype=dtype) + p.detach()
        optimizer.step()
        if t + 1 in a["steps"]:
            want = a[f"p/{name}"][list(a["steps"]).index(t + 1)]
            assert_close(p, want, rtol=tolerance, atol=tolerance, what=f"{name}, {isa}, {dtype}, step {t + 1}")


def test_training_trajectory(isa: str) -> None:
    """300 steps of plain SGD on a problem of 3 classes follow PyTorch's losses within 1e-13."""
    a = golden("training")
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    model.load_state_dict({k.removeprefix("p."): v for k, v in a.items() if k.startswith("p.")})
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(300):
        with gd.step_arena():
            loss = F.cross_entropy(model(gd.tensor(a["x"])), gd.tensor(a["y"]))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    assert losses[0] > 0.8 and losses[-1] < 0.3
    assert_close(np.array(losses), a["losses"], atol=1e-13, what=f"losses, {isa}")
    for key, p in model.named_parameters():
        assert_close(p, a[f"end.{key}"], atol=1e-12, what=f"{key} after 300 steps, {isa}")


@pytest.mark.parametrize("name", MODELS)
def test_names_and_text(name: str) -> None:
    a, model = golden("names"), MODELS[name]()
    assert [f"{k} {tuple(v.shape)}" for k, v in model.state_dict().items()] == a[f"state/{name}"].tolist()
    assert repr(model) == str(a[f"repr/{name}"])


def test_files_are_what_make_writes() -> None:
    """Where PyTorch is installed: the files are those of this make.py, and small."""
    pytest.importorskip("torch", reason="PyTorch writes the golden files, and it is not installed")
    make: Any = importlib.util.module_from_spec(importlib.util.spec_from_file_location("golden_make", FOLDER / "make.py"))  # type: ignore[arg-type]
    make.__spec__.loader.exec_module(make)
    assert make.LSTM_CASES == LSTM_CASES and list(make.OPTIMIZERS) == list(OPTIMIZERS) and list(make.MODELS) == list(MODELS)
    assert [(k.__name__, o) for k, o in OPTIMIZERS.values()] == list(make.OPTIMIZERS.values())
    for name, write in make.GOLDEN.items():
        fresh, stored = write(), golden(name)
        assert fresh.keys() == stored.keys(), name
        for key, value in fresh.items():
            if value.dtype.kind == "f":
                assert_close(value, stored[key], rtol=1e-12, atol=1e-13, what=f"{name}.npz: {key}")
            else:
                assert np.array_equal(value, stored[key]), f"{name}.npz: {key}"
    assert sum(f.stat().st_size for f in FOLDER.glob("*.npz")) < 300_000
