"""Pictures: the graph behind a loss, and the use of arenas over time."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import gradino as gd
from gradino import nn
from gradino.nn import functional as F


def labels(text: str) -> list[str]:
    return re.findall(r'n\d+ \[label="([^"]*)"', text)


def model_and_loss() -> tuple[nn.Module, gd.Tensor]:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    return model, F.cross_entropy(model(gd.ones(5, 4)), gd.zeros(5, dtype="int64"))


def test_ops_shapes_memory_and_names_stand_in_the_picture(tmp_path: Path) -> None:
    with gd.step_arena():
        model, loss = model_and_loss()
        text = gd.utils.draw_graph(loss, tmp_path / "graph.dot", model=model)
    assert (tmp_path / "graph.dot").read_text() == text and text.startswith("digraph gradino {")
    found = labels(text)
    assert len(found) == 8 and found[0] == r"cross_entropy\n() float32\n4 B"
    assert r"tanh\n(5, 8) float32\n160 B" in found and r"0.weight\n(8, 4) float32\n128 B" in found
    assert {"0.weight", "0.bias", "2.weight", "2.bias"} == {label.split("\\n")[0] for label in found if "." in label.split("\\n")[0]}
    assert text.count(" -> ") == 7


def test_names_may_be_given(tmp_path: Path) -> None:
    with gd.step_arena():
        x, y = gd.ones(3, requires_grad=True), gd.ones(3, requires_grad=True)
        text = gd.utils.draw_graph((x * y).sum(), tmp_path / "g.dot", params={"my x": x, 'a "quoted" name': y}, direction="LR")
        assert "my x" in text and r"a \"quoted\" name" in text and "rankdir=LR" in text
        assert labels(gd.utils.draw_graph(x * x, tmp_path / "g.gv"))[1].startswith("leaf")
        with pytest.raises(gd.DTypeError, match="params must hold tensors"):
            gd.utils.draw_graph(x * y, tmp_path / "g.dot", params={"x": 3})


def test_views_take_no_memory_and_second_outputs_are_one_op(tmp_path: Path) -> None:
    with gd.step_arena():
        x = gd.ones(4, 3, requires_grad=True)
        values, _ = x.max(1)
        text = gd.utils.draw_graph(values.reshape(2, 2), tmp_path / "g.dot")
        assert r"reshape\n(2, 2) float32\na view" in labels(text) and len(labels(text)) == 3
        model = nn.LSTM(3, 2)
        _, (h, c) = model(gd.ones(2, 1, 3))
        text = gd.utils.draw_graph(h.sum() + c.sum(), tmp_path / "g.dot", model=model)
        assert sum(label.startswith("lstm") for label in labels(text)) == 1


def test_a_deep_graph_is_walked_and_cut(tmp_path: Path) -> None:
    with gd.step_arena():
        x = gd.ones(2, requires_grad=True)
        y = x
        for _ in range(20_000):
            y = y + 1
        with pytest.warns(UserWarning, match="19902 nodes are not shown"):
            text = gd.utils.draw_graph(y, tmp_path / "deep.dot", max_nodes=99)
        assert len(labels(text)) == 99 and "19902 more nodes" in text and "cut -> n98" in text
        text = gd.utils.draw_graph(y, tmp_path / "deep.dot", max_nodes=30_000)
        assert len(labels(text)) == 20_001


def test_a_shared_node_stands_once(tmp_path: Path) -> None:
    with gd.step_arena():
        x = gd.ones(2, requires_grad=True)
        y = x
        for _ in range(40):
            y = y * y  # 2^40 ways
        text = gd.utils.draw_graph(y, tmp_path / "g.dot")
        assert len(labels(text)) == 41 and text.count(" -> ") == 80


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda p: gd.utils.draw_graph(gd.ones(2), p / "g.dot"), gd.GradinoError, "has no graph"),
        (lambda p: gd.utils.draw_graph(1, p / "g.dot"), gd.DTypeError, "expected a Tensor"),
        (lambda p: gd.utils.draw_graph(gd.ones(2, requires_grad=True) * 2, p / "g.jpg"), gd.InvalidValueError, "must end with"),
        (lambda p: gd.utils.draw_graph(gd.ones(2, requires_grad=True) * 2, p / "g.dot", max_nodes=0), gd.InvalidValueError, "at least 1"),
        (lambda p: gd.utils.draw_graph(gd.ones(2, requires_grad=True) * 2, p / "g.dot", direction="up"), gd.InvalidValueError, "'TB'"),
    ],
)
def test_misuse(call: Any, kind: type[Exception], words: str, tmp_path: Path) -> None:
    with gd.step_arena(), pytest.raises(kind, match=words):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def _graphviz(found: bool) -> types.ModuleType:
    module = types.ModuleType("graphviz")
    missing = type("ExecutableNotFound", (RuntimeError,), {})

    class Source:
        def __init__(self, source: str) -> None:
            self.source = source

        def pipe(self, format: str) -> bytes:
            if not found:
                raise missing("dot")
            return f"{format}: {self.source[:16]}".encode()

    module.Source, module.ExecutableNotFound = Source, missing  # type: ignore[attr-defined]
    return module


def test_pictures_go_through_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gd.step_arena():
        y = gd.ones(2, requires_grad=True) * 2
        monkeypatch.setitem(sys.modules, "graphviz", _graphviz(True))
        gd.utils.draw_graph(y, tmp_path / "g.svg")
        assert (tmp_path / "g.svg").read_bytes() == b"svg: digraph gradino "
        monkeypatch.setitem(sys.modules, "graphviz", _graphviz(False))
        with pytest.raises(gd.GradinoError, match="program `dot`, which is not on the PATH"):
            gd.utils.draw_graph(y, tmp_path / "h.png")
        monkeypatch.setitem(sys.modules, "graphviz", None)
        with pytest.raises(gd.GradinoError, match=r"pip install 'gradino\[graph\]'"):
            gd.utils.draw_graph(y, tmp_path / "h.svg")
    assert [p.name for p in tmp_path.iterdir()] == ["g.svg"]


# ---- Arenas -----------------------------------------------------------------------------------------------------------


def test_arena_timeline(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws the picture")
    model, x = nn.Linear(8, 4), gd.ones(16, 8)
    with gd.profiler.profile() as prof:
        for _ in range(3):
            with gd.step_arena():
                model(x).exp().sum().backward()
    high = gd.utils.draw_arena_timeline(prof, tmp_path / "arena.svg")
    assert set(high) == {"step"} and 512 <= high["step"] < 100_000
    picture = (tmp_path / "arena.svg").read_text()
    assert "3 resets" in picture and "linear" in picture and "high water" in picture
    gd.utils.draw_arena_timeline(prof, tmp_path / "arena.png")
    assert (tmp_path / "arena.png").read_bytes()[:4] == b"\x89PNG"


def test_arena_timeline_of_nothing(tmp_path: Path) -> None:
    with gd.profiler.profile() as prof:
        pass
    with pytest.raises(gd.GradinoError, match="saw no arena"):
        gd.utils.draw_arena_timeline(prof, tmp_path / "arena.svg")
