"""The context managers: what to note, and when."""

from __future__ import annotations

import enum
import functools
import json
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from gradino._arguments import whole
from gradino._lib import check, ffi, lib, text
from gradino.dtypes import BY_CODE
from gradino.errors import GradinoError, InvalidValueError
from gradino.profiler.events import Averages, Event, KernelEvent, summed

__all__ = ["ProfilerActivity", "profile", "record_function"]

CAPACITY = 1 << 16  # events that a profile keeps: about 17 MB
F = TypeVar("F", bound=Callable[..., Any])

_running: profile | None = None


class ProfilerActivity(enum.Enum):
    """What can be profiled."""

    CPU = 0


class profile:  # noqa: N801
    """Notes every op that runs inside, with its time, bytes and shapes; forward, backward and optimizers, of all threads.

    Nothing is noted, and nothing costs anything, outside. Events go to a ring of fixed size in the library, so noting one takes
    no memory and about a tenth of a microsecond; when the ring is full the oldest are lost, and tables say how many.

    >>> import gradino as gd
    >>> with gd.profiler.profile() as prof:
    ...     y = gd.ones(1000).exp().sum()
    >>> [a.key for a in prof.key_averages()]
    ['fill', 'exp', 'sum']

    Args:
        activities: at most ``[ProfilerActivity.CPU]``, which is the default.
        record_shapes, profile_memory, with_flops: shapes, memory and operations are always noted.
        schedule, on_trace_ready, with_stack, with_modules, experimental_config: not supported.
        capacity: events that are kept.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Any = None,
        on_trace_ready: Any = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        capacity: int = CAPACITY,
    ) -> None:
        given = {"schedule": schedule, "on_trace_ready": on_trace_ready, "with_stack": with_stack, "with_modules": with_modules,
                 "experimental_config": experimental_config}  # fmt: skip
        for name, value in given.items():
            if value:
                raise InvalidValueError(f"profile: {name}= is not supported")
        for activity in activities or ():
            if activity is not ProfilerActivity.CPU:
                raise InvalidValueError(f"profile: activity {activity} is not supported, only ProfilerActivity.CPU")
        self._capacity = whole("profile", "capacity", capacity)
        self._ranges: list[Event] = []
        self._events: list[KernelEvent] = []
        self._steps: list[int] = []
        self.arena_events: list[KernelEvent] = []
        self.arena_names: dict[int, str] = {}
        self._begun = self._ended = 0
        self.lost = 0

    def start(self) -> None:
        """Begin; forgets what was noted before."""
        global _running
        check(lib.gd_profile_start(self._capacity))
        self._ranges, self._events, self._steps = [], [], []
        self._begun = self._ended = lib.gd_profile_clock()
        self._steps.append(self._begun)
        _running = self

    def stop(self) -> None:
        """End, and read what was noted."""
        global _running
        if _running is not self:
            raise GradinoError("profile: it does not run")
        self._ended = lib.gd_profile_clock()
        noted, _running = lib.gd_profile_stop(), None
        room = min(noted, self._capacity)
        raw = ffi.new("gd_profile_event[]", max(room, 1))
        kept = lib.gd_profile_read(raw, room)
        self.lost = noted - kept
        self.arena_names = _arena_names()
        everything = [_event(raw[k]) for k in range(kept)]
        everything.sort(key=lambda e: e.start)
        self.arena_events = everything
        self._events = [e for e in everything if e.name not in _MOVES]

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def step(self) -> None:
        """Marks the end of a training step: a range ``ProfilerStep#n`` from the last one to here."""
        now = lib.gd_profile_clock()
        self._ranges.append(Event(f"ProfilerStep#{len(self._steps) - 1}", self._steps[-1], now, _thread()))
        self._steps.append(now)

    def events(self) -> list[Event]:
        """All that was noted, ops and ranges, by their begin."""
        return sorted([*self._events, *self._ranges], key=lambda e: e.start)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """The events by op, and by shapes of inputs if wanted."""
        if group_by_stack_n:
            raise InvalidValueError("key_averages: group_by_stack_n= is not supported")
        wall = (self._ended - self._begun) / 1000
        return Averages(summed(self._events, self._ranges, group_by_input_shape), wall, self.lost, group_by_input_shape)

    def table(self, sort_by: str | None = "cpu_time_total", row_limit: int = 100, **more: Any) -> str:
        """:meth:`Averages.table` of all ops."""
        return self.key_averages().table(sort_by, row_limit, **more)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that ops took."""
        return self.key_averages().total_average().self_cpu_time_total

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes what ``chrome://tracing`` and Perfetto show: ops and ranges over time, and the use of arenas."""
        Path(path).write_text(json.dumps({"traceEvents": list(self._trace()), "displayTimeUnit": "ms"}), encoding="utf-8")

    def _trace(self) -> Iterable[dict[str, Any]]:
        pid, zero = os.getpid(), self._begun
        for e in self.events():
            made: dict[str, Any] = {
                "name": e.key,
                "cat": "user_annotation",
                "ph": "X",
                "ts": (e.start - zero) / 1000,
                "dur": e.cpu_time_total,
            }
            made |= {"pid": pid, "tid": e.thread}
            if isinstance(e, KernelEvent):
                made["cat"] = "cpu_op"
                made["args"] = {"Input Dims": e.input_shapes, "Input type": e.dtypes, "bytes": e.bytes, "flops": e.flops}
            yield made
        for e in self.arena_events:
            if e.arena >= 0:
                name = self.arena_names.get(e.arena, f"arena {e.arena}")
                yield {"name": name, "cat": "memory", "ph": "C", "ts": (e.stop - zero) / 1000, "pid": pid, "args": {"bytes": e.used}}


class record_function:  # noqa: N801
    """Gives a name to the time that a block, or a decorated function, takes; costs next to nothing while nothing is profiled.

    >>> import gradino as gd
    >>> with gd.profiler.profile() as prof:
    ...     with gd.profiler.record_function("my part"):
    ...         y = gd.ones(10) + 1
    >>> "my part" in [a.key for a in prof.key_averages()]
    True
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name if args is None else f"{name} {args}"
        self._start = 0

    def __enter__(self) -> record_function:
        self._start = lib.gd_profile_clock() if _running is not None else 0
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        running = _running
        if running is not None and self._start >= running._begun:
            running._ranges.append(Event(self.name, self._start, lib.gd_profile_clock(), _thread()))

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return timed  # type: ignore[return-value]


# ---- Reading the library's events --------------------------------------------------------------------------------

_MOVES = ("reset", "mark", "rewind", "return")  # of arenas


def _thread() -> int:
    return threading.get_native_id()


def _arena_names() -> dict[int, str]:
    """Names of the open arenas by their numbers, which are their order."""
    arenas = ffi.new("gd_arena *[]", 1024)
    return {lib.gd_arena_number(arenas[k]): text(lib.gd_arena_name(arenas[k])) for k in range(lib.gd_arena_list(arenas, 1024))}


def _event(e: Any) -> KernelEvent:
    shapes = [tuple(e.shapes[k][0 : e.ranks[k] - 1]) if e.ranks[k] else None for k in range(4)]
    inputs = tuple(s for s in shapes[:3] if s is not None)
    return KernelEvent(
        name=text(lib.gd_profile_name(e.op)),
        start=e.start,
        stop=e.stop,
        thread=e.thread,
        bytes=e.bytes,
        elements=e.elements,
        gradient_of=text(lib.gd_profile_name(e.gradient_of)) if e.gradient_of >= 0 else "",
        input_shapes=inputs,
        result_shape=shapes[3] or (),
        dtypes=tuple(BY_CODE[e.dtypes[k]].name for k in range(3) if shapes[k] is not None),
        arena=e.arena,
        used=e.used,
        made=e.made,
        workspace=e.workspace,
        is_update=e.op <= lib.GD_PROFILE_UPDATE,
    )
