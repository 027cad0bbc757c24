"""Arguments have PyTorch's names, order and defaults, so that code written for it means the same here."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from peer import torch

import gradino as gd
from gradino import nn, optim
from gradino.nn import functional as F
from gradino.nn.utils import rnn

MODULES = [
    "Linear", "LSTMCell", "ReLU", "Dropout", "Softmax", "LogSoftmax", "Sequential", "CrossEntropyLoss", "MSELoss", "GELU", "SiLU",
    "Softplus", "Embedding", "LayerNorm", "RMSNorm", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d",
]  # fmt: skip
METHODS = [n for n, f in vars(nn.Module).items() if n[0] != "_" and callable(f) and hasattr(torch.nn.Module, n)]
OPTIMIZERS = [n for n in optim.__all__ if n[0].isupper() and n not in ("Lion", "Optimizer")]
SCHEDULES = [n for n in optim.lr_scheduler.__all__ if n != "WarmupCosineLR"]  # that one is ours alone
STEPS = ["step", "zero_grad", "state_dict", "load_state_dict", "add_param_group"]
BUILT_IN_CPP = (  # without a signature there
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "adaptive_max_pool2d", "avg_pool1d", "avg_pool2d", "celu_", "channel_shuffle",
    "cosine_similarity", "elu_", "gelu", "hardshrink", "hardtanh_", "leaky_relu_", "linear", "logsigmoid", "max_pool1d", "max_pool2d",
    "one_hot", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_", "scaled_dot_product_attention",
    "selu_", "sigmoid", "softplus", "softshrink", "tanh", "threshold_",
)  # fmt: skip
OURS = ("rotary_embedding", "relu_squared", "softcap", "softmax2d", "swiglu")  # not in PyTorch
FUNCTIONS = [n for n in F.__all__ if n not in BUILT_IN_CPP and n not in OURS and not n.startswith("conv")]
AUTOGRAD = ["grad", "backward", "gradcheck", "gradgradcheck"]
RNN = [n for n in rnn.__all__ if n != "PackedSequence"]

PAIRS: dict[str, tuple[Any, Any]] = {
    **{f"nn.{n}": (getattr(nn, n).__init__, getattr(torch.nn, n).__init__) for n in MODULES},
    **{f"Module.{n}": (getattr(nn.Module, n), getattr(torch.nn.Module, n)) for n in METHODS},
    **{f"optim.{n}": (getattr(optim, n).__init__, getattr(torch.optim, n).__init__) for n in OPTIMIZERS},
    **{f"lr_scheduler.{n}": (getattr(optim.lr_scheduler, n).__init__, getattr(torch.optim.lr_scheduler, n).__init__) for n in SCHEDULES},
    **{f"Optimizer.{n}": (getattr(optim.Optimizer, n), getattr(torch.optim.Optimizer, n)) for n in STEPS},
    **{f"F.{n}": (getattr(F, n), getattr(torch.nn.functional, n)) for n in FUNCTIONS},
    **{f"autograd.{n}": (getattr(gd.autograd, n), getattr(torch.autograd, n)) for n in AUTOGRAD},
    **{f"rnn.{n}": (getattr(rnn, n), getattr(torch.nn.utils.rnn, n)) for n in RNN},
    "LSTM.forward": (nn.LSTM.forward, torch.nn.LSTM.forward),
    "Tensor.backward": (gd.Tensor.backward, torch.Tensor.backward),
}
RENAMED = {("autograd.gradcheck", "fn"): "func", ("autograd.gradgradcheck", "fn"): "func"}
OURS_ALONE = {"lengths", "optimizer", "function", "convert"}
NO_DEFAULT = {
    ("F.softmax", "dim"),
    ("F.log_softmax", "dim"),
    ("F.softmin", "dim"),
}  # guessing the dimension is deprecated there, an error here


def arguments(function: Any) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p for p in inspect.signature(function).parameters.values() if p.kind not in kinds]


@pytest.mark.parametrize("name", PAIRS)
def test_signature(name: str) -> None:
    ours, theirs = (arguments(f) for f in PAIRS[name])
    known = {p.name: p for p in theirs}
    for k, p in enumerate(ours):
        label = RENAMED.get((name, p.name), p.name)
        if label in OURS_ALONE:
            continue
        assert label in known, f"{name}: PyTorch has no argument {label}, but {list(known)}"
        if (name, label) not in NO_DEFAULT:
            assert p.default == known[label].default, f"{name}: {label} is {p.default!r} by default, PyTorch's {known[label].default!r}"
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            assert theirs[k].name == label, f"{name}: argument {k} is {label}, PyTorch's is {theirs[k].name}"


def test_lstm_takes_its_arguments_in_order() -> None:
    """PyTorch's own signature is hidden behind *args."""
    ours, theirs = nn.LSTM(3, 4, 2, False, True, 0.5, True), torch.nn.LSTM(3, 4, 2, False, True, 0.5, True)
    for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.Linear(2, 3),
        lambda m: m.Linear(2, 3, bias=False),
        lambda m: m.Sequential(m.Linear(2, 3), m.Sequential(m.ReLU(), m.Tanh(), m.Sigmoid()), m.Dropout(0.25)),
        lambda m: m.Softmax(dim=-1),
        lambda m: m.Sequential(m.GELU(), m.GELU("tanh"), m.SiLU(), m.Softplus(), m.Softplus(2, 9.5)),
        lambda m: m.LogSoftmax(1),
        lambda m: m.Embedding(7, 3),
        lambda m: m.CrossEntropyLoss(),
        lambda m: m.MSELoss(),
        lambda m: m.Identity(3, anything=4),
        lambda m: m.LSTMCell(2, 3, bias=False),
        lambda m: m.Conv1d(4, 6, 3, padding="same", groups=2, bias=False),
        lambda m: m.Conv2d(1, 2, (3, 5), 2, (1, 2), 2, padding_mode="reflect"),
        lambda m: m.ConvTranspose2d(3, 2, 4, 2, 1, output_padding=1),
    ],
)
def test_text_of_modules(make: Any) -> None:
    assert repr(make(nn)) == repr(make(torch.nn))
