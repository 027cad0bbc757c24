"""What loading a module's state reports: the names that did not match."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["IncompatibleKeys"]


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict(strict=False)`` did not find, and what it found too much."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"
