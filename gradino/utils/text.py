"""Text as token numbers: characters, bytes in pairs (through the tokenizers library), and files of tokens.

>>> from gradino.utils.text import CharTokenizer
>>> t = CharTokenizer("banana bread")
>>> t.encode("dear"), t.decode([2, 4, 1, 3])
([3, 4, 1, 6], 'bead')
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from gradino._files import replacing
from gradino.errors import FileFormatError, GradinoError, InvalidValueError, OutOfRangeError

__all__ = ["BPETokenizer", "CharTokenizer", "write_tokens"]

_BLOCK = 1 << 16  # tokens written at a time


class CharTokenizer:
    """One number for each character, in the order of the characters. ``alphabet`` is any text: what occurs in it counts.

    ``unknown`` is the character that others are read as; without it they are an error.
    """

    def __init__(self, alphabet: str, unknown: str | None = None) -> None:
        self.alphabet = "".join(sorted(set(alphabet)))
        if not self.alphabet:
            raise InvalidValueError("CharTokenizer: the alphabet is empty")
        self._number = {character: i for i, character in enumerate(self.alphabet)}
        if unknown is not None and unknown not in self._number:
            raise InvalidValueError(f"CharTokenizer: unknown is {unknown!r}, must be a character of the alphabet")
        self.unknown = unknown

    @property
    def vocab_size(self) -> int:
        """How many numbers there are."""
        return len(self.alphabet)

    def encode(self, text: str) -> list[int]:
        """The number of each character.

        Raises:
            OutOfRangeError: for one that is not in the alphabet, if there is no ``unknown``.
        """
        if self.unknown is not None:
            other = self._number[self.unknown]
            return [self._number.get(c, other) for c in text]
        try:
            return [self._number[c] for c in text]
        except KeyError as error:
            raise OutOfRangeError(f"CharTokenizer: {error.args[0]!r} is not in the alphabet of {self.vocab_size} characters") from None

    def decode(self, ids: Iterable[Any]) -> str:
        """The text of numbers, of a tensor or array as well."""
        return "".join(self.alphabet[i] for i in _numbers(ids, self.vocab_size))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the alphabet as JSON; a file that is there is replaced whole."""
        text = json.dumps({"kind": "characters", "alphabet": self.alphabet, "unknown": self.unknown}, ensure_ascii=False)
        _write(path, text)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CharTokenizer:
        """From a file that ``save`` wrote."""
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            if found["kind"] != "characters":
                raise KeyError("kind")
            return cls(found["alphabet"], found["unknown"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FileFormatError(f"{os.fspath(path)}: not a file of CharTokenizer.save: {error!r}") from None


class BPETokenizer:
    """Byte-level byte-pair encoding as GPT-2 has it, by the tokenizers library (``pip install 'gradino[text]'``).

    Every text can be encoded, and decodes to itself. ``tokenizer`` is the library's object.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, special_tokens: Iterable[str] = ("<|endoftext|>",)) -> BPETokenizer:
        """Learn ``vocab_size`` tokens, at least 256 and the special ones, from texts."""
        library = _library()
        special = list(special_tokens)
        if vocab_size < 256 + len(special):
            raise InvalidValueError(
                f"BPETokenizer: vocab_size is {vocab_size}, must be at least 256 bytes and {len(special)} special tokens"
            )
        made = library.Tokenizer(library.models.BPE())
        made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=special,
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        made.train_from_iterator(texts, trainer)
        return cls(made)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BPETokenizer:
        """From a ``tokenizer.json``, as this class and the Hugging Face libraries write it."""
        name = os.fspath(path)
        with open(name, encoding="utf-8") as file:
            text = file.read()
        try:
            return cls(_library().Tokenizer.from_str(text))
        except GradinoError:
            raise
        except Exception as error:  # the library raises nothing narrower
            raise FileFormatError(f"{name}: not a tokenizer.json: {error}") from None

    @property
    def vocab_size(self) -> int:
        """How many tokens there are, special ones included."""
        return int(self.tokenizer.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """The tokens' numbers; special tokens in the text are found."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Iterable[Any]) -> str:
        """The text of numbers, of a tensor or array as well; special tokens are left in."""
        return str(self.tokenizer.decode(_numbers(ids, self.vocab_size), skip_special_tokens=False))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``tokenizer.json``; a file that is there is replaced whole."""
        text = self.tokenizer.to_str()
        _write(path, text)


def write_tokens(path: str | os.PathLike[str], ids: Iterable[int], dtype: Any = np.uint16) -> int:
    """Write tokens as plain numbers, for ``TokenDataset`` to map; how many there were. The file is replaced whole.

    ``ids`` may be an iterator longer than the memory.

    Raises:
        OutOfRangeError: for a token that ``dtype`` cannot hold; nothing is written.
    """
    kind, count = np.dtype(dtype), 0
    if kind.kind not in "iu":
        raise InvalidValueError(f"write_tokens: dtype is {kind}, must be one of integers")
    limits, tokens = np.iinfo(kind), iter(ids)
    with replacing(path) as new, new.open("wb") as file:
        while block := list(islice(tokens, _BLOCK)):
            for at, token in enumerate(block):
                if not limits.min <= token <= limits.max:
                    raise OutOfRangeError(f"write_tokens: token {token} at place {count + at} does not fit {kind}")
            file.write(np.array(block, kind).tobytes())
            count += len(block)
    return count


def _write(path: str | os.PathLike[str], text: str) -> None:
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")


def _numbers(ids: Any, limit: int) -> list[int]:
    numbers = [int(i) for i in (ids.tolist() if hasattr(ids, "tolist") else ids)]
    for i in numbers:
        if not 0 <= i < limit:
            raise OutOfRangeError(f"decode: token {i} is out of range: there are {limit}")
    return numbers


def _library() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError:
        raise GradinoError("BPETokenizer: needs the tokenizers library: pip install 'gradino[text]'") from None
    return tokenizers
