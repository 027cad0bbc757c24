"""Arenas: where tensors live, and when they die.

Tensors are never freed one by one. A step arena forgets all of its tensors at the end of its ``with``
block; the permanent arena holds parameters and whatever is made outside any block.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from gradino._arguments import shown, whole
from gradino._lib import ArenaScope, StepScope, check, ffi, lib, raise_error, set_callbacks, text
from gradino.errors import ArenaError, DTypeError, InvalidValueError

__all__ = ["Arena", "ArenaStats", "active_arena", "borrow", "memory_stats", "permanent_arena", "step_arena"]


class ArenaStats(NamedTuple):
    """Sizes in bytes; counts since the arena was opened.

    ``reserved`` is the arena's ``reserve``, or less where that was left to the default and a limit on
    address space (``ulimit -v``) gave no more.
    """

    reserved: int
    committed: int
    used: int
    high_water: int
    allocations: int
    resets: int


_new = object.__new__

# Arrays that tensors borrow memory from, by address of the arena and handle: alive until that arena forgets the tensors.
_borrowed: dict[int, dict[int, Any]] = {}


def _address_of(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def borrow(handle: int, owner: object) -> None:
    """Keep ``owner``, whose memory the tensor ``handle`` uses, alive as long as the tensors of the active arena."""
    _borrowed.setdefault(_address_of(lib.gd_arena_active()), {})[handle] = owner


def owner_of(handle: int) -> Any:
    """Whose memory the tensor ``handle`` borrows, or None."""
    return _borrowed.get(_address_of(lib.gd_arena_of(handle)), {}).get(handle)


class Arena(ArenaScope):
    """A region that tensors are allocated from and that is emptied as a whole.

    Args:
        reserve: bytes of address space (default 64 GiB, of which only what is used costs memory).
        commit: bytes to make ready at once.
        name: shown in errors and statistics.

    ``with arena:`` makes it the active one of this thread; scopes nest.

    Raises:
        OutOfMemoryError: if the system refuses the reserve.

    >>> import gradino as gd
    >>> with gd.Arena(name="example") as arena:
    ...     x = gd.ones(3)
    >>> arena.stats().used
    64
    >>> arena.reset()
    """

    # Of a view, which is made anew in every step, only the pointer is set; close is what ends an arena of one's own.
    _pointer: Any
    _close: weakref.finalize[..., Arena] | None = None

    def __init__(self, reserve: int | None = None, commit: int = 0, name: str = "arena") -> None:
        size = 0 if reserve is None else whole("Arena", "reserve", reserve)
        if reserve is not None and size <= 0:
            raise InvalidValueError(f"Arena: reserve is {size} bytes, must be positive")
        if not isinstance(name, str):
            raise DTypeError(f"Arena: name must be a str, got {shown(name)}")
        pointer = lib.gd_arena_open(size, whole("Arena", "commit", commit), name.encode())
        if pointer == ffi.NULL:
            raise_error()
        self._pointer = pointer
        self._address = _address_of(pointer)
        self._close = weakref.finalize(self, _drop, pointer, self._address)
        self._close.atexit = False

    @classmethod
    def _view(cls, pointer: Any) -> Arena:
        self = _new(cls)
        self._pointer = pointer
        self._address = _address_of(pointer)
        return self

    def _alive(self) -> Any:
        if self._pointer is None:
            raise ArenaError("this arena is closed")
        return self._pointer

    @property
    def name(self) -> str:
        """The arena's name."""
        return "closed" if self._pointer is None else text(lib.gd_arena_name(self._pointer))

    def reset(self) -> None:
        """Forget every tensor in the arena and keep its memory for the next ones."""
        check(lib.gd_arena_reset(self._alive()))
        _borrowed.pop(self._address, None)
        drop_objects()

    def mark(self) -> int:
        """A place to ``rewind`` to."""
        return int(lib.gd_arena_mark(self._alive())) or raise_error()

    def rewind(self, mark: int) -> None:
        """Forget what was allocated since ``mark``."""
        if not isinstance(mark, int) or not 0 <= mark < 2**64:
            raise ArenaError(f"rewind: {shown(mark)} is not a mark of arena '{self.name}'")
        check(lib.gd_arena_rewind(self._alive(), mark))
        owners = _borrowed.get(self._address)
        if owners:
            for handle in [h for h in owners if lib.gd_check(h) < 0]:
                del owners[handle]
            lib.gd_clear_error()
        drop_objects()

    def close(self) -> None:
        """Free the arena. NumPy views of its tensors stay valid; the tensors do not."""
        if self._close is None:
            raise ArenaError(f"close: the arena '{self.name}' is not yours to close")
        if self._pointer is not None:
            check(lib.gd_arena_close(self._pointer))
            self._close.detach()
            _borrowed.pop(self._address, None)
            self._pointer, self._address = None, 0
            drop_objects()

    def stats(self) -> ArenaStats:
        """What the arena holds now and held at most."""
        s = lib.gd_arena_get_stats(self._alive())
        return ArenaStats(s.reserved, s.committed, s.used, s.high_water, s.allocations, s.resets)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arena) and self._pointer == other._pointer

    def __hash__(self) -> int:
        return hash(self._pointer)

    def __repr__(self) -> str:
        if self._pointer is None:
            return "Arena(closed)"
        s = self.stats()
        return f"Arena(name={self.name!r}, used={s.used}, committed={s.committed}, high_water={s.high_water}, resets={s.resets})"


def _drop(pointer: Any, address: int) -> None:
    """Close an arena whose object is gone, unless it is active somewhere."""
    if lib.gd_arena_close(pointer) < 0:
        lib.gd_clear_error()
    else:
        _borrowed.pop(address, None)
        drop_objects()


class step_arena(StepScope):  # noqa: N801
    """An arena for one step: everything made inside the ``with`` block dies at its end.

    Take numbers out with ``.item()``, arrays with ``.numpy()``, tensors with ``.keep()``.

    >>> import gradino as gd
    >>> with gd.step_arena():
    ...     total = gd.ones(2, 3).sum().item()
    >>> total
    6.0
    """

    __slots__ = ()


let_go: Callable[[], None] | None = None  # set by gradino._calls


def drop_objects() -> None:
    """Let go of what Python keeps for tensors that are gone."""
    if let_go is not None and lib.gd_has_dropped():
        let_go()


set_callbacks(raise_error, ArenaError, lambda address: Arena._view(ffi.cast("gd_arena *", address)), _borrowed, drop_objects)


def permanent_arena() -> Arena:
    """The arena that is never reset; parameters live beside it in their slabs."""
    return Arena._view(lib.gd_arena_permanent())


def active_arena() -> Arena:
    """The arena that this thread allocates from."""
    return Arena._view(lib.gd_arena_active())


def memory_stats() -> dict[str, ArenaStats]:
    """Statistics of every open arena by name; equal names are numbered."""
    pointers = ffi.new("gd_arena *[1024]")
    found: dict[str, ArenaStats] = {}
    for i in range(lib.gd_arena_list(pointers, 1024)):
        arena = Arena._view(pointers[i])
        name, n = arena.name, 2
        while name in found:
            name, n = f"{arena.name} {n}", n + 1
        found[name] = arena.stats()
    return found
