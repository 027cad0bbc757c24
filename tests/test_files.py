"""Files: what is saved comes back, damage is named, and a file is replaced whole or not at all."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import gradino as gd
from gradino import nn, optim
from gradino import safetensors as st

pytest.importorskip("safetensors", reason="files need the safetensors library")
DTYPES = [d.name for d in gd.dtypes.BY_CODE if d.name != "bfloat16"]


def assert_same(a: object, b: object) -> None:
    assert type(a) is type(b), (a, b)
    if isinstance(a, gd.Tensor):
        assert a.dtype is b.dtype and a.shape == b.shape and gd.equal(a, b)  # type: ignore[attr-defined]
    elif isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b, strict=True)  # type: ignore[call-overload]
    elif isinstance(a, dict):
        assert list(a) == list(b)  # type: ignore[call-overload]
        for key in a:
            assert_same(a[key], b[key])  # type: ignore[index]
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)  # type: ignore[arg-type]
        for x, y in zip(a, b):  # type: ignore[call-overload]
            assert_same(x, y)
    else:
        assert a == b or a != a


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_shape(tmp_path, dtype):
    tensors = {str(shape): (gd.rand(*shape) * 100).to(dtype) for shape in [(3,), (2, 3), (), (0, 3), (1, 2, 3, 4)]}
    st.save_file(tensors, tmp_path / "t.safetensors", {"a note": "ü"})
    loaded = st.load_file(tmp_path / "t.safetensors")
    for name, t in tensors.items():
        assert_same(loaded[name], t)
    assert st.metadata_of(tmp_path / "t.safetensors") == {"a note": "ü"}


def test_i03_strided_tensors_are_saved_by_value(tmp_path):
    x = gd.arange(12.0).reshape(3, 4)
    with gd.step_arena():
        tensors = {
            "transposed": gd.arange(6.0).reshape(3, 2).T, "every other": x[:, ::2], "part": x[1:, 1:],
            "expanded": gd.tensor([1.0, 2.0]).expand(4, 2),
        }  # fmt: skip
        st.save_file(tensors, tmp_path / "t")
        gd.save(tensors, tmp_path / "u")
    for loaded in (st.load_file(tmp_path / "t"), gd.load(tmp_path / "u")):
        assert loaded["transposed"].tolist() == [[0, 2, 4], [1, 3, 5]]
        assert loaded["every other"].tolist() == [[0, 2], [4, 6], [8, 10]]
        assert loaded["expanded"].tolist() == [[1, 2]] * 4
        assert loaded["part"].tolist() == [[5, 6, 7], [9, 10, 11]]


def test_the_library_and_pytorch_read_what_is_saved(tmp_path):
    numpy_side = pytest.importorskip("safetensors.numpy")
    tensors = {"w": gd.randn(3, 2), "n": gd.arange(4)}
    st.save_file(tensors, tmp_path / "t")
    theirs = numpy_side.load_file(tmp_path / "t")
    assert all((theirs[k] == v.numpy()).all() for k, v in tensors.items())
    numpy_side.save_file({"small": np.arange(3, dtype=np.uint8), "w": np.ones((2, 2), np.float32)}, tmp_path / "u")
    assert_same(st.load_file(tmp_path / "u"), {"w": gd.ones(2, 2), "small": gd.arange(3)})
    numpy_side.save_file({}, tmp_path / "none")
    assert st.load_file(tmp_path / "none") == {}


def test_tied_weights_are_saved_once_and_load_strictly(tmp_path):
    def model() -> nn.Module:
        m = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))
        m[1].weight = m[0].weight
        return m

    one, two = model(), model()
    st.save_file(one.state_dict(), tmp_path / "t")
    assert (tmp_path / "t").stat().st_size < 64 * 64 * 4 + 1000
    loaded = st.load_file(tmp_path / "t")
    assert set(loaded) == {"0.weight", "1.weight"} and loaded["0.weight"] is loaded["1.weight"]
    two.load_state_dict(loaded)
    assert gd.equal(two[1].weight, one[0].weight) and two[0].weight is two[1].weight


NESTED = [
    None, True, 3, -2.5, float("inf"), float("nan"), "text", [], {}, (), [1, [2, (3, {"a": None})]], {1: "one", "two": 2, (3, 4): "pair"},
    {"$tensor": "not one", "$dict": 1}, {"$odd": {"$tuple": []}}, 2**200,
]  # fmt: skip


@pytest.mark.parametrize("obj", NESTED, ids=str)
def test_what_is_no_tensor(tmp_path, obj):
    gd.save(obj, tmp_path / "x")
    assert_same(gd.load(tmp_path / "x"), obj)


def test_tensors_at_any_depth(tmp_path):
    t = gd.randn(2, 3)
    obj = {"a": [t, (gd.arange(3), {"b": np.arange(4.0)})], "a.0": gd.ones(2), 5: gd.zeros(()), "again": t}
    gd.save(obj, tmp_path / "x")
    loaded = gd.load(tmp_path / "x")
    assert_same(loaded, obj)
    assert loaded["again"] is loaded["a"][0]
    gd.save(t, tmp_path / "x")
    assert_same(gd.load(tmp_path / "x"), t)
    gd.save(gd.arange(2.0, requires_grad=True), tmp_path / "x")
    assert not gd.load(tmp_path / "x").requires_grad


def test_names_of_a_state_dict_are_kept(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 2))
    gd.save(model.state_dict(), tmp_path / "x")
    assert set(st.load_file(tmp_path / "x")) == set(model.state_dict())
    model.load_state_dict(gd.load(tmp_path / "x"))


@pytest.mark.parametrize(("obj", "where"), [
    ({"a": [1, {2, 3}]}, r"a\.1 is a set"),
    (object(), "the object is a object"), ({"f": print}, "f is a builtin_function"), ({b"k": 1}, "a key of"),
])  # fmt: skip
def test_what_cannot_be_saved(tmp_path, obj, where):
    with pytest.raises(TypeError, match=where):
        gd.save(obj, tmp_path / "x")
    assert os.listdir(tmp_path) == []


# ---- Damage -----------------------------------------------------------------------------------------------------


def raw(header: object, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


ENTRY = {"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}
DAMAGED = {
    "empty": b"", "7 bytes": b"1234567", "length 0": raw(b"", size=0), "2^63": raw({}, size=2**63), "2^64-1": raw({}, size=2**64 - 1),
    "10^6 in a short file": raw(ENTRY, b"0" * 12, size=10**6), "too long a header": raw({}, size=100_000_001),
    "cut": raw(ENTRY, b"0" * 9), "2 bytes more": raw(ENTRY, b"0" * 14), "no JSON": raw(b"{x}"), "bad UTF-8": raw(b'{"\xff": 1}'),
    "a list": raw([]),
    "overlap": raw({**ENTRY, "y": ENTRY["x"]}, b"0" * 12),
    "shape against size": raw({"x": {**ENTRY["x"], "shape": [4]}}, b"0" * 12),
    "negative": raw({"x": {**ENTRY["x"], "shape": [-3]}}, b"0" * 12),
    "no such dtype": raw({"x": {**ENTRY["x"], "dtype": "F7"}}, b"0" * 12),
    "a dtype of others": raw({"x": {"dtype": "F8_E5M2", "shape": [2], "data_offsets": [0, 2]}}, b"00"),
    "five dimensions": raw({"x": {**ENTRY["x"], "shape": [1, 1, 1, 1, 3]}}, b"0" * 12),
    "tied to nothing": raw({**ENTRY, "__metadata__": {"gradino.tied": '{"y": "z"}'}}, b"0" * 12),
    "tied, no JSON": raw({**ENTRY, "__metadata__": {"gradino.tied": "{"}}, b"0" * 12),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_i01_damaged_files(tmp_path, name):
    path = tmp_path / "bad"
    path.write_bytes(DAMAGED[name])
    for load in (st.load_file, gd.load):
        with pytest.raises(gd.FileFormatError, match=str(path)):
            load(path)


GOOD = {
    "padded": raw(json.dumps(ENTRY).encode() + b"   ", b"0" * 12),
    "only metadata": raw({"__metadata__": {"a": "b"}}),
    "nothing": raw({}),
}


@pytest.mark.parametrize("name", GOOD)
def test_i01_odd_but_whole_files(tmp_path, name):
    path = tmp_path / "good"
    path.write_bytes(GOOD[name])
    assert list(st.load_file(path)) == (["x"] if name == "padded" else [])


@pytest.mark.parametrize(
    "structure", ["{", '{"$tensor": "nowhere"}', '{"$tuple": 3}', '{"$dict": [[1]]}', '{"$tensor": ["x"]}', "[" * 100_000, '{"$array": {}}']
)
def test_damaged_structure(tmp_path, structure):
    (tmp_path / "bad").write_bytes(raw({**ENTRY, "__metadata__": {"gradino.structure": structure, "gradino.version": "1"}}, b"0" * 12))
    with pytest.raises(gd.FileFormatError, match="bad: its metadata"):
        gd.load(tmp_path / "bad")


def test_a_later_version(tmp_path):
    (tmp_path / "new").write_bytes(raw({"__metadata__": {"gradino.structure": "1", "gradino.version": "2"}}))
    with pytest.raises(gd.FileFormatError, match="format version 2; this version of gradino reads up to 1"):
        gd.load(tmp_path / "new")


def test_mutated_files_never_crash(tmp_path):
    gd.save({"a": gd.randn(4, 5), "b": [gd.arange(7), {"c": 1.5}]}, tmp_path / "x")
    good, rng, path = (tmp_path / "x").read_bytes(), np.random.default_rng(0), tmp_path / "y"
    for _ in range(600):
        data = bytearray(good)
        for place in rng.integers(0, len(data) if rng.random() < 0.5 else 400, rng.integers(1, 4)):
            data[place] = rng.integers(0, 256)
        path.write_bytes(data[: rng.integers(0, len(data))] if rng.random() < 0.2 else data)
        try:
            gd.load(path)
        except gd.FileFormatError:
            pass


# ---- Replacing --------------------------------------------------------------------------------------------------


def test_paths_that_are_wrong(tmp_path):
    with pytest.raises(FileNotFoundError):
        gd.load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        gd.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="no directory"):
        gd.save(1, tmp_path / "no" / "x")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        gd.save(1, tmp_path)


def test_what_is_no_path():
    loads = (gd.load, st.load_file, st.metadata_of, gd.load_checkpoint)
    calls = (*loads, lambda f: gd.save(1, f), lambda f: st.save_file({}, f), gd.save_checkpoint)
    reader, writer = os.pipe()
    for call in calls:
        for path in (reader, None, io.BytesIO(), 1.5):
            with pytest.raises(TypeError, match="expected a path, got"):
                call(path)
    os.write(writer, b"x")
    assert os.read(reader, 1) == b"x", "open files of others stay open"
    os.close(reader)
    os.close(writer)


def test_a_link_stays_and_permissions_stay(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "x", tmp_path / "link"
    mask = os.umask(0o026)
    try:
        gd.save(1, target)
        assert os.umask(0o026) == 0o026, "the mask is as it was"
    finally:
        os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o604)
    link.symlink_to(target)
    gd.save(2, link)
    assert link.is_symlink() and gd.load(target) == 2 and stat.S_IMODE(target.stat().st_mode) == 0o604
    assert os.listdir(tmp_path / "real") == ["x"]


def test_an_error_keeps_the_old_file(tmp_path, monkeypatch):
    import safetensors

    gd.save(gd.ones(3), tmp_path / "x")

    def full(*_: object) -> None:
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as m:
        m.setattr(safetensors, "serialize_file", full)
        with pytest.raises(OSError, match="No space left") as e:
            gd.save(gd.zeros(3), tmp_path / "x")
        assert e.value.errno == errno.ENOSPC
    assert gd.load(tmp_path / "x").tolist() == [1, 1, 1] and os.listdir(tmp_path) == ["x"]


def test_i05_killed_while_saving(tmp_path):
    path = tmp_path / "x"
    script = f"""
        import gradino as gd
        for i in range(1, 10**6):
            gd.save({{"a": gd.full((300_000,), i), "b": gd.full((300_000,), i)}}, {str(path)!r})
            print(i, flush=True)
    """
    rng = np.random.default_rng(0)
    for _ in range(8):
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(rng.uniform(0, 0.05))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        with gd.step_arena():
            loaded = gd.load(path)
            assert gd.equal(loaded["a"], loaded["b"]) and (loaded["a"] == loaded["a"][0]).all()
    gd.save(1, path)
    assert os.listdir(tmp_path) == ["x"], "what killed processes left is gone"


# ---- Checkpoints ------------------------------------------------------------------------------------------------


class Run:
    """A small training run whose every step draws random numbers."""

    def __init__(self, seed: int = 0) -> None:
        gd.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.3), nn.Linear(16, 1))
        self.optimizer = optim.AdamW(self.model.parameters(), lr=0.05)
        self.scheduler = optim.lr_scheduler.MultiStepLR(self.optimizer, [3, 6], 0.5)

    @property
    def parts(self) -> dict[str, object]:
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}

    def train(self, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            with gd.step_arena():
                loss = (self.model(gd.randn(8, 4)) - 1).square().mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                losses.append(loss.item())
            self.scheduler.step()
        return losses


def test_a_resumed_run_gives_the_same_bits(tmp_path):
    whole = Run().train(10)
    first = Run()
    losses = first.train(4)
    gd.save_checkpoint(tmp_path / "run", **first.parts, extra={"step": 4, "losses": losses})
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import gradino as gd
        from test_files import Run
        run = Run(seed=99)
        extra = gd.load_checkpoint({str(tmp_path / "run")!r}, **run.parts)
        print(extra["losses"] + run.train(10 - extra["step"]))
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == whole


def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path):
    run = Run()
    run.train(2)
    gd.save_checkpoint(tmp_path / "run", **run.parts)
    other = Run()
    other.optimizer = optim.AdamW([other.model[0].weight], lr=0.7)
    other.scheduler = optim.lr_scheduler.ExponentialLR(other.optimizer, 0.5)
    other.train(1)
    before = {k: v.tolist() for k, v in other.model.state_dict().items()}, gd.get_rng_state(), str(other.optimizer.state_dict())
    with pytest.raises(gd.GradinoError, match="groups of"):
        gd.load_checkpoint(tmp_path / "run", **other.parts)
    assert ({k: v.tolist() for k, v in other.model.state_dict().items()}, gd.get_rng_state(), str(other.optimizer.state_dict())) == before
    with pytest.raises(gd.GradinoError, match=r"holds \['model', 'optimizer', 'scheduler'\], asked for were \['model'\]"):
        gd.load_checkpoint(tmp_path / "run", model=other.model)
    gd.save({"a": 1}, tmp_path / "x")
    with pytest.raises(gd.FileFormatError, match="no checkpoint"):
        gd.load_checkpoint(tmp_path / "x", model=other.model)
    with pytest.raises(TypeError, match="thing is a int"):
        gd.save_checkpoint(tmp_path / "x", thing=3)


def test_without_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'gradino\[files\]'"):
        gd.save(1, tmp_path / "x")
