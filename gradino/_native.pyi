"""What native/python/types.c adds to the cffi module."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from gradino.arena import Arena

ffi: Any
lib: Any

class StepScope:
    def __enter__(self) -> Arena: ...
    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None: ...

class ArenaScope:
    _address: int
    def __enter__(self) -> Arena: ...
    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None: ...

class GradScope:
    _enabled: bool
    _restore: int
    def __enter__(self) -> None: ...
    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None: ...

def set_callbacks(
    raise_error: Callable[[], NoReturn],
    arena_error: type[Exception],
    make_arena: Callable[[int], Arena],
    borrowed: dict[int, dict[int, Any]],
    drop_objects: Callable[[], None],
) -> None: ...
