"""Model files written for PyTorch run under both libraries: the same file, once with `torch` bound to gradino."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_close
from peer import array, torch

import gradino

FOLDER = Path(__file__).parent / "port"
NAMES = (
    "", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "optim", "optim.lr_scheduler", "utils", "utils.data", "autograd",
    "cuda", "backends", "random", "distributed",
)  # fmt: skip


def load(name: str, monkeypatch: pytest.MonkeyPatch, ours: bool) -> Any:
    """The file as a module, with `import torch` meaning gradino or PyTorch."""
    with monkeypatch.context() as patch:
        if ours:
            for part in NAMES:
                found: Any = gradino
                for attribute in part.split(".") if part else ():
                    found = getattr(found, attribute)
                patch.setitem(sys.modules, f"torch.{part}" if part else "torch", found)
        spec = importlib.util.spec_from_file_location(f"port_{name}_{'gradino' if ours else 'torch'}", FOLDER / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    assert module.torch is (gradino if ours else torch)
    return module


def words(rng: np.random.Generator, count: int, length: int, top: int) -> list[list[int]]:
    return [rng.integers(1, top, rng.integers(1, length)).tolist() for _ in range(count)]


def gpt(rng: np.random.Generator) -> Any:
    tokens = [rng.integers(0, 23, (4, 17)) for _ in range(12)]
    return [(np.ascontiguousarray(t[:, :-1]), np.ascontiguousarray(t[:, 1:])) for t in tokens]


def resnet(rng: np.random.Generator) -> Any:
    return [(rng.standard_normal((6, 3, 12, 12)).astype("f"), rng.integers(0, 10, 6)) for _ in range(5)]


def vae(rng: np.random.Generator) -> Any:
    return [(rng.random((9, 1, 8, 8)).astype("f"), rng.standard_normal((9, 6)).astype("f")) for _ in range(8)]


def tagger(rng: np.random.Generator) -> Any:
    batches = []
    for _ in range(6):
        sentences = words(rng, 5, 9, 30)
        batches.append((sentences, [rng.integers(0, 5, len(s)).tolist() for s in sentences]))
    return batches


def seq2seq(rng: np.random.Generator) -> Any:
    return [(rng.integers(0, 17, (4, 6)), rng.integers(0, 17, (4, 5))) for _ in range(6)]


def actor_critic(rng: np.random.Generator) -> Any:
    return [rng.random(14).astype("f") for _ in range(8)]


def loop(rng: np.random.Generator) -> Any:
    return [(rng.standard_normal((n, 4)).astype("f"), (rng.random((n, 3)) < 0.4).astype("f")) for n in (45, 20)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("make", [gpt, resnet, vae, tagger, seq2seq, actor_critic, loop])
def test_a_file_written_for_pytorch(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # the operator sweep's import of PyTorch's own tests freezes the backends' flags for the whole process
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)
    name, results, state = make.__name__, [], None
    for ours in (True, False):
        file = load(name, monkeypatch, ours)
        model = file.build()
        if state is None:
            state = {k: array(v).copy() for k, v in model.state_dict().items()}
        else:
            model.load_state_dict({k: torch.tensor(v) for k, v in state.items()}, strict=True)
        gradients: list[dict[str, np.ndarray]] = []

        def record(m: Any, gradients: list[dict[str, np.ndarray]] = gradients) -> None:
            gradients.append({n: array(p.grad).copy() for n, p in m.named_parameters() if p.grad is not None})

        losses, outcome = file.train(model, make(np.random.default_rng(12)), record)
        results.append((losses, outcome, gradients))
    (losses, outcome, gradients), (want, expected, wanted) = results
    assert_close(gradino.tensor(losses), np.array(want, np.float32), rtol=1e-4, atol=1e-4, what=f"{name}: losses")
    assert len(gradients) == len(wanted) >= 4
    for step, (a, b) in enumerate(zip(gradients, wanted, strict=True)):
        assert list(a) == list(b), f"{name}: which parameters have gradients at step {step}"
        for parameter in a:
            error = np.abs(a[parameter] - b[parameter]).max()
            assert error <= 1e-3 * max(np.abs(b[parameter]).max(), 1e-4), f"{name}: step {step}, gradient of {parameter} is off by {error}"
    if isinstance(expected, float):
        assert outcome == pytest.approx(expected, rel=1e-3)
    else:
        assert outcome == expected, name


def test_switches_that_scripts_touch() -> None:
    t = gradino
    t.backends.cuda.matmul.allow_tf32 = True
    t.backends.cudnn.benchmark = True
    t.set_float32_matmul_precision("high")
    assert t.get_float32_matmul_precision() == "high"
    t.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError, match="highest"):
        t.set_float32_matmul_precision("low")
    assert not (t.cuda.is_available() or t.backends.mps.is_available() or t.distributed.is_available() or t.distributed.is_initialized())
    t.cuda.manual_seed_all(3)
    t.use_deterministic_algorithms(True)
    state = t.random.get_rng_state()
    t.random.manual_seed(7)
    assert t.random.initial_seed() == 7
    t.set_rng_state(state)
    with pytest.raises(gradino.DeviceError):
        t.cuda.current_device()


def test_compile_changes_nothing() -> None:
    model = gradino.nn.Linear(2, 3)
    assert gradino.compile(model) is model

    @gradino.compile
    def f(x: Any) -> Any:
        return x + 1

    @gradino.compile(fullgraph=True, mode="max-autotune")
    def g(x: Any) -> Any:
        return x + 2

    assert f(1) == 2 and g(1) == 3


def test_no_grad_is_a_decorator_too() -> None:
    w = gradino.ones(2, requires_grad=True)

    @gradino.no_grad()
    def f() -> Any:
        return w * 2

    @gradino.inference_mode()
    def g() -> Any:
        return w * 2

    assert not f().requires_grad and not g().requires_grad and (w * 2).requires_grad
