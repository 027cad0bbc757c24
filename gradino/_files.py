"""Replacing a file in one go: whatever happens, its name stands for the whole old content or the whole new one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["replacing", "the_path"]


def the_path(function: str, path: Any) -> str:
    """The argument as a string; a number, which ``open`` would take for a file that is open already, is refused."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"{function}: expected a path, got {type(path).__name__}") from None


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the name of a file to write; at the end of the block it takes the place of ``path``, permissions kept.

    It is written beside the target (behind a symbolic link: beside what the link names), so that one rename
    publishes it, and it has reached the disk before that. If the block raises, ``path`` is as it was. What a
    killed process left behind is removed the next time.

    Raises:
        OSError: if the folder is missing or cannot be written, or the disk is full.
    """
    import shutil
    import tempfile  # at their first use: importing them takes longer than all of this package's own modules

    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"cannot save to {os.fspath(path)!r}: it is a directory")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot save to {os.fspath(path)!r}: there is no directory {str(target.parent)!r}")
    _remove_leftovers(target)
    room = Path(tempfile.mkdtemp(prefix=_prefix(target), suffix=f".{os.getpid()}", dir=target.parent))
    try:
        written = room / "new"
        yield written
        written.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask())
        _sync(written)
        os.replace(written, target)
        _sync(target.parent)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}.saving-"


def _remove_leftovers(target: Path) -> None:
    import glob
    import shutil

    for old in target.parent.glob(glob.escape(_prefix(target)) + "*"):
        pid = old.suffix[1:]
        if pid.isdecimal() and old.is_dir() and not _runs(int(pid)):
            shutil.rmtree(old, ignore_errors=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # another user's
    return True


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    """Have the disk hold what was written; folders cannot be synchronised everywhere."""
    try:
        number = os.open(path, os.O_RDONLY)
    except OSError:
        if path.is_dir():
            return
        raise
    try:
        os.fsync(number)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        os.close(number)
