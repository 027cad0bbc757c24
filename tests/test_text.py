"""Tokenizers and files of tokens."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import gradino as gd
from gradino.utils.data import TokenDataset
from gradino.utils.text import BPETokenizer, CharTokenizer, write_tokens

TEXT = "the cat sat on the mat, the rat sat on the cat. Äpfel \U0001f600\n" * 20


def test_characters_come_back(tmp_path: Path) -> None:
    t = CharTokenizer(TEXT)
    ids = t.encode(TEXT)
    assert t.vocab_size == len(set(TEXT)) and max(ids) < t.vocab_size
    assert t.decode(ids) == t.decode(gd.tensor(ids)) == t.decode(np.array(ids)) == TEXT
    t.save(tmp_path / "t.json")
    assert CharTokenizer.load(tmp_path / "t.json").encode(TEXT) == ids
    with pytest.raises(gd.OutOfRangeError, match="'Z' is not in the alphabet"):
        t.encode("Z")
    with pytest.raises(gd.OutOfRangeError, match="token -1"):
        t.decode([-1])
    with pytest.raises(gd.InvalidValueError, match="empty"):
        CharTokenizer("")
    with pytest.raises(gd.InvalidValueError, match="unknown"):
        CharTokenizer("abc", unknown="z")
    assert CharTokenizer("abc?", unknown="?").decode(CharTokenizer("abc?", unknown="?").encode("axc")) == "a?c"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "other"}', '{"kind": "characters", "alphabet": 3, "unknown": null}'])
def test_files_that_are_none_are_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(gd.FileFormatError, match=r"t\.json"):
        CharTokenizer.load(tmp_path / "t.json")
    pytest.importorskip("tokenizers", reason="the tokenizers library is not installed")
    with pytest.raises(gd.FileFormatError, match=r"t\.json"):
        BPETokenizer.load(tmp_path / "t.json")


def test_byte_pairs_encode_everything_and_learn_what_is_frequent(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="the tokenizers library is not installed")
    t = BPETokenizer.train([TEXT], 300)
    assert 257 <= t.vocab_size <= 300
    for text in (TEXT, "never seen: \u0000 \u4e2d\u6587", "", "  two  spaces "):
        assert t.decode(t.encode(text)) == text
    assert len(t.encode(TEXT)) < len(TEXT.encode()) / 2
    assert len(t.encode("<|endoftext|>")) == 1
    t.save(tmp_path / "t.json")
    assert BPETokenizer.load(tmp_path / "t.json").encode(TEXT) == t.encode(TEXT)
    with pytest.raises(gd.OutOfRangeError, match="out of range"):
        t.decode([t.vocab_size])
    with pytest.raises(gd.InvalidValueError, match="256 bytes"):
        BPETokenizer.train([TEXT], 100)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(gd.GradinoError, match=r"gradino\[text\]"):
        BPETokenizer.train([TEXT], 300)


def test_tokens_are_written_for_the_dataset_to_map(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    assert write_tokens(path, iter(range(70000)), np.int32) == 70000
    assert os.path.getsize(path) == 280000
    x, y = TokenDataset(path, 8, dtype=np.int32)[0]
    assert x.tolist() == list(range(8)) and y.tolist() == list(range(1, 9))
    with pytest.raises(gd.OutOfRangeError, match="token 70000 at place 1"):
        write_tokens(path, [3, 70000])
    assert os.path.getsize(path) == 280000, "a failure changes nothing"
    with pytest.raises(gd.InvalidValueError, match="integers"):
        write_tokens(path, [1], np.float32)
    assert write_tokens(path, []) == 0
