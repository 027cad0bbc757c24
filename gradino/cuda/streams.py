"""Streams and events. An arena's memory is used again in the order of its streams: where several used it, the next one waits.

A tensor made in one stream may be read in another only after that one waits for the first (``wait_stream``).
"""

from __future__ import annotations

from typing import Any

from gradino import devices
from gradino._lib import check, ffi, lib, raise_error
from gradino.errors import GradinoError

__all__ = ["Event", "Stream", "current_stream", "default_stream", "set_stream", "stream"]


class Stream:
    """Work of a device in order, beside that of its other streams. A device has at most 32."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self._device = devices.number_of("Stream", "cuda" if device is None else device)
        self._own = kwargs.pop("_own", None)
        if kwargs:
            raise TypeError(f"Stream: unknown arguments {sorted(kwargs)}")
        self._number = check(lib.gd_stream_new(self._device, priority)) if self._own is None else self._own

    @property
    def device(self) -> devices.device:
        """The device."""
        return devices.named(self._device)

    @property
    def cuda_stream(self) -> int:
        """The driver's handle, for other libraries."""
        return int(lib.gd_stream_handle(self._device, self._number))

    def query(self) -> bool:
        """Whether all it was given is done."""
        return bool(check(lib.gd_stream_done(self._device, self._number)))

    def synchronize(self) -> None:
        """Wait until all it was given is done."""
        check(lib.gd_stream_wait(self._device, self._number))

    def wait_stream(self, stream: Stream) -> None:
        """What it is given from now on waits for what another stream was given so far."""
        check(lib.gd_stream_await(self._device, self._number, stream._device, stream._number))

    def wait_event(self, event: Event) -> None:
        """What it is given from now on waits for an event."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that says when all it was given so far is done."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self._device, self._number) == (other._device, other._number)

    def __hash__(self) -> int:
        return hash((self._device, self._number))

    def __repr__(self) -> str:
        return f"<gradino.cuda.Stream {self._number} of {self.device}>"

    def __del__(self, _free: Any = lib.gd_stream_free, _clear: Any = lib.gd_clear_error) -> None:
        if getattr(self, "_own", 0) is None and getattr(self, "_number", 0) > 0 and _free(self._device, self._number) < 0:
            _clear()


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread gives its work to."""
    number = devices.number_of("current_stream", "cuda" if device is None else device)
    return Stream(devices.named(number), _own=check(lib.gd_stream_current(number)))


def default_stream(device: Any = None) -> Stream:
    """The device's own stream."""
    return Stream(device, _own=0)


def set_stream(stream: Stream) -> None:
    """Let this thread give its work to a stream."""
    check(lib.gd_stream_use(stream._device, stream._number))


class stream:  # noqa: N801  (PyTorch's name)
    """A context in which this thread gives its work to a stream; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self._stream, self._before = stream, 0

    def __enter__(self) -> None:
        if self._stream is not None:
            self._before = check(lib.gd_stream_use(self._stream._device, self._stream._number))

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            lib.gd_stream_use(self._stream._device, self._before)


class Event:
    """A place in a stream, to wait for, and to measure time between two."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self._timed, self._device, self._pointer = enable_timing, 0, ffi.NULL

    def record(self, stream: Stream | None = None) -> None:
        """Put it where a stream is now, by default the current one."""
        at = current_stream() if stream is None else stream
        if self._pointer == ffi.NULL:
            self._pointer, self._device = lib.gd_event_new(at._device, self._timed), at._device
            if self._pointer == ffi.NULL:
                raise_error()
        elif self._device != at._device:
            raise GradinoError(f"Event: it was recorded on {devices.named(self._device)}, the stream is on {at.device}")
        check(lib.gd_event_record(self._pointer, at._device, at._number))

    def wait(self, stream: Stream | None = None) -> None:
        """What a stream is given from now on waits for this event."""
        at = current_stream() if stream is None else stream
        if self._pointer != ffi.NULL:
            check(lib.gd_event_await(self._pointer, at._device, at._number))

    def query(self) -> bool:
        """Whether it has been reached."""
        return self._pointer == ffi.NULL or bool(check(lib.gd_event_done(self._pointer, self._device)))

    def synchronize(self) -> None:
        """Wait until it is reached."""
        if self._pointer != ffi.NULL:
            check(lib.gd_event_wait(self._pointer, self._device))

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to a later one; both with ``enable_timing``."""
        if not (self._timed and end_event._timed) or ffi.NULL in (self._pointer, end_event._pointer):
            raise GradinoError("elapsed_time: both events must be made with enable_timing=True and recorded")
        time = lib.gd_event_elapsed(self._pointer, end_event._pointer, self._device)
        return float(time) if time >= 0 else raise_error()

    def __del__(self, _free: Any = lib.gd_event_free, _clear: Any = lib.gd_clear_error, _none: Any = ffi.NULL) -> None:
        if getattr(self, "_pointer", _none) != _none and _free(self._pointer) < 0:
            _clear()
