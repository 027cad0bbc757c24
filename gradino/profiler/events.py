"""What a profile has noted, op by op, and summed up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gradino.errors import InvalidValueError
from gradino.profiler.counting import flops_of, machine_limits, share_of_limit

__all__ = ["Average", "Averages", "Event", "KernelEvent"]


@dataclass(frozen=True)
class Event:
    """A stretch of time with a name: what :func:`record_function` encloses."""

    name: str
    start: int  # nanoseconds, of time.monotonic_ns()
    stop: int
    thread: int

    @property
    def key(self) -> str:
        """Under which it is summed up."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds."""
        return (self.stop - self.start) / 1000


@dataclass(frozen=True)
class KernelEvent(Event):
    """One call of an op, or of an optimizer's kernel."""

    bytes: int = 0  # read and written
    elements: int = 0  # of the largest tensor
    gradient_of: str = ""  # the op whose gradient it is a part of
    input_shapes: tuple[tuple[int, ...], ...] = ()  # of the first three inputs
    result_shape: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ()  # of the same inputs
    arena: int = -1
    used: int = 0  # bytes in use in the arena, workspace included
    made: int = 0  # bytes that the results hold
    workspace: int = 0
    is_update: bool = False

    @property
    def key(self) -> str:
        """Its name, and whose gradient it belongs to."""
        return f"d({self.gradient_of}): {self.name}" if self.gradient_of else self.name

    @property
    def flops(self) -> float:
        """Operations."""
        return flops_of(self.name, list(self.input_shapes), self.result_shape, self.elements, self.is_update)


@dataclass
class Average:
    """All events of one key."""

    key: str
    is_range: bool = False
    count: int = 0
    cpu_time_total: float = 0.0  # microseconds
    self_cpu_time_total: float = 0.0  # without what is inside of a range
    bytes: int = 0
    flops: float = 0.0
    cpu_memory_usage: int = 0  # bytes that results took
    input_shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def cpu_time(self) -> float:
        """Microseconds of one event."""
        return self.cpu_time_total / self.count

    @property
    def gbytes_per_second(self) -> float:
        """Memory traffic."""
        return self.bytes / self.cpu_time_total / 1e3 if self.cpu_time_total else 0.0

    @property
    def gflops_per_second(self) -> float:
        """Arithmetic."""
        return self.flops / self.cpu_time_total / 1e3 if self.cpu_time_total else 0.0


_SORTS: dict[str, Callable[[Average], Any]] = {
    "cpu_time_total": lambda a: a.cpu_time_total,
    "self_cpu_time_total": lambda a: a.self_cpu_time_total,
    "cpu_time": lambda a: a.cpu_time,
    "count": lambda a: a.count,
    "bytes": lambda a: a.bytes,
    "flops": lambda a: a.flops,
    "cpu_memory_usage": lambda a: a.cpu_memory_usage,
}


@dataclass
class Averages:
    """What :meth:`profile.key_averages` gives: a list of :class:`Average` that prints as a table."""

    entries: list[Average]
    wall: float  # microseconds that the profile ran
    lost: int = 0  # events that the ring had no room for
    by_shape: bool = False
    notes: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Average]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, k: int) -> Average:
        return self.entries[k]

    def total_average(self) -> Average:
        """All ops as one."""
        total = Average("total")
        for a in self.entries:
            if not a.is_range:
                total.count += a.count
                total.cpu_time_total += a.cpu_time_total
                total.self_cpu_time_total += a.self_cpu_time_total
                total.bytes += a.bytes
                total.flops += a.flops
                total.cpu_memory_usage += a.cpu_memory_usage
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        limits: bool = True,
    ) -> str:
        """A table of the ops.

        Args:
            sort_by: ``"cpu_time_total"``, ``"self_cpu_time_total"``, ``"cpu_time"``, ``"count"``, ``"bytes"``, ``"flops"`` or
                ``"cpu_memory_usage"``, largest first; None: in the order of their first calls.
            row_limit: rows at most; -1: all.
            top_level_events_only: only what :class:`record_function` names.
            limits: measure what the machine can do (a fifth of a second, once) and show the share of it that each op reaches.
        """
        if sort_by is not None and sort_by not in _SORTS:
            raise InvalidValueError(f"table: sort_by is {sort_by!r}, must be one of {', '.join(map(repr, _SORTS))}")
        rows = [a for a in self.entries if a.is_range or not top_level_events_only]
        if sort_by is not None:
            rows.sort(key=_SORTS[sort_by], reverse=True)
        shown = rows if row_limit < 0 else rows[:row_limit]
        bounds = machine_limits() if limits else None
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls", "Memory", "GB/s", "GFLOP/s", "of limit"]
        if self.by_shape:
            titles.append("Input Shapes")
        total = self.total_average().self_cpu_time_total or 1.0
        cells = [self._cells(a, total, bounds, max_name_column_width, max_shapes_column_width) for a in shown]
        if not limits:
            titles.remove("of limit")
        text = _lined_up(titles, cells)
        return "\n".join([*([header] if header else []), text, *self._summary(len(rows) - len(shown), bounds)])

    def _cells(self, a: Average, total: float, bounds: tuple[float, float] | None, width: int, shapes_width: int) -> list[str]:
        cells = [
            _cut(a.key, width),
            f"{100 * a.self_cpu_time_total / total:.2f}%" if not a.is_range else "",
            _time(a.self_cpu_time_total),
            _time(a.cpu_time_total),
            _time(a.cpu_time),
            str(a.count),
            _size(a.cpu_memory_usage) if a.cpu_memory_usage else "",
            f"{a.gbytes_per_second:.2f}" if a.bytes else "",
            f"{a.gflops_per_second:.2f}" if a.flops else "",
        ]
        if bounds is not None:
            share = share_of_limit(a.cpu_time_total / 1e6, a.flops, a.bytes, bounds) if a.bytes else None
            cells.append("" if share is None else f"{100 * share:.0f}%")
        if self.by_shape:
            cells.append(_cut(str([list(s) for s in a.input_shapes]), shapes_width))
        return cells

    def _summary(self, hidden: int, bounds: tuple[float, float] | None) -> list[str]:
        total = self.total_average().self_cpu_time_total
        lines = [f"Ops took {_time(total)} of {_time(self.wall)} ({100 * total / (self.wall or 1):.0f}%)."]
        if bounds is not None:
            lines.append(f"Limit: {bounds[0] / 1e9:.0f} GFLOP/s, {bounds[1] / 1e9:.1f} GB/s; above 100% caches helped.")
        if hidden:
            lines.append(f"{hidden} rows are not shown.")
        if self.lost:
            lines.append(f"The first {self.lost} events were lost: give profile(capacity=) more room.")
        return lines

    def __str__(self) -> str:
        return self.table(limits=False)


def summed(events: Iterable[Event], ranges: Iterable[Event], by_shape: bool) -> list[Average]:
    """Ops and ranges by key, in the order of their first events."""
    found: dict[Any, Average] = {}
    kernels = list(events)
    for e in kernels:
        assert isinstance(e, KernelEvent)
        key = (e.key, e.input_shapes) if by_shape else e.key
        a = found.get(key)
        if a is None:
            a = found[key] = Average(e.key, input_shapes=e.input_shapes)
        a.count += 1
        a.cpu_time_total += e.cpu_time_total
        a.self_cpu_time_total += e.cpu_time_total
        a.bytes += e.bytes
        a.flops += e.flops
        a.cpu_memory_usage += e.made
    starts = sorted((e.start, e.stop, e.thread) for e in kernels)
    for r in ranges:
        a = found.setdefault(("range", r.key), Average(r.key, is_range=True))
        a.count += 1
        a.cpu_time_total += r.cpu_time_total
        a.self_cpu_time_total += r.cpu_time_total - _inside(r, starts)
    return list(found.values())


def _inside(r: Event, kernels: list[tuple[int, int, int]]) -> float:
    """Microseconds of ops of the same thread inside of a range."""
    import bisect

    first, time = bisect.bisect_left(kernels, (r.start, 0, 0)), 0
    for start, stop, thread in kernels[first:]:
        if start >= r.stop:
            break
        if thread == r.thread and stop <= r.stop:
            time += stop - start
    return time / 1000


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _time(us: float) -> str:
    return f"{us / 1e6:.3f}s" if us >= 1e6 else f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def _size(n: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.2f} {unit}"
        n /= 1024
    return f"{n:.2f} GiB"


def _lined_up(titles: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(t), *(len(row[k]) for row in rows)) if rows else len(t) for k, t in enumerate(titles)]
    rule = "  ".join("-" * w for w in widths)
    lines = [rule, "  ".join(t.rjust(w) for t, w in zip(titles, widths)), rule]
    lines += ["  ".join(cell.rjust(w) for cell, w in zip(row, widths)) for row in rows]
    return "\n".join([*lines, rule])
