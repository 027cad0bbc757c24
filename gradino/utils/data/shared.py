"""Batches from a worker to the training process: what is small through a socket, tensors and arrays through shared memory.

A worker has one piece of shared memory per batch that may be on its way. The memory has no name: only the two
processes hold it, so that nothing is left behind however they end.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

import numpy as np

from gradino._core import wrap
from gradino._lib import check, ffi, lib
from gradino.tensor import Tensor

__all__ = ["Inbox", "Outbox"]

_ALIGN = 64
_SMALLEST = 1 << 16


def _room_for(size: int) -> int:
    return max(_SMALLEST, 1 << (size - 1).bit_length())


def _memory(size: int) -> int:
    """File descriptor of nameless memory."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("gradino-batch")
    else:
        file, name = tempfile.mkstemp()
        os.unlink(name)
        number = file
    os.ftruncate(number, size)
    return number


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, parts: list[tuple[int, Any]]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.parts, self.end = parts, 0

    def persistent_id(self, obj: Any) -> Any:
        """Tensors and arrays of numbers go into the memory, and stand in the message as where and what they are."""
        if type(obj) is Tensor:
            place = self._place(obj.detach().contiguous(), obj.nbytes)
            return "tensor", place, obj.shape, obj.dtype.code
        if type(obj) is np.ndarray and obj.dtype.kind in "fiub":
            return "array", self._place(np.ascontiguousarray(obj), obj.nbytes), obj.shape, obj.dtype.str
        return None

    def _place(self, part: Any, size: int) -> int:
        place = self.end
        self.parts.append((place, part))
        self.end += -(-size // _ALIGN) * _ALIGN
        return place


class Outbox:
    """The worker's end."""

    def __init__(self, connection: Connection, slots: int) -> None:
        self.connection = connection
        self._maps: list[mmap.mmap | None] = [None] * slots
        self._next = 0

    def send(self, number: int, content: Any) -> None:
        """Send the content of batch ``number``; the slot is free again when the next but ``slots`` batch was asked for."""
        slot = self._next
        parts: list[tuple[int, Any]] = []
        file = io.BytesIO()
        pickler = _Pickler(file, parts)
        pickler.dump(content)
        memory = self._maps[slot]
        if pickler.end and (memory is None or len(memory) < pickler.end):
            size = _room_for(pickler.end)
            descriptor = _memory(size)
            memory = self._maps[slot] = mmap.mmap(descriptor, size)
            self.connection.send(("memory", slot, size))
            send_handle(self.connection, descriptor, None)
            os.close(descriptor)
        for place, part in parts:
            if not part.nbytes:
                continue
            assert memory is not None
            if isinstance(part, Tensor):
                target = ffi.from_buffer("char[]", memory, require_writable=True)
                check(lib.gd_copy_out(part._h, target + place, part.nbytes))
                ffi.release(target)
            else:
                memory[place : place + part.nbytes] = part.tobytes()
        self.connection.send(("batch", number, slot, file.getvalue()))
        self._next = (slot + 1) % len(self._maps)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, memory: mmap.mmap | None) -> None:
        super().__init__(file)
        self.memory = memory

    def persistent_load(self, pid: Any) -> Any:
        """A tensor in the active arena, or an array; both own their memory."""
        kind, place, shape, dtype = pid
        if kind == "tensor":
            with memoryview(self.memory or b"") as view, ffi.from_buffer(view) as source:
                return wrap(lib.gd_from_data(len(shape), list(shape), dtype, source + place))
        count = int(np.prod(shape))
        return np.frombuffer(self.memory or b"", dtype, count, place).reshape(shape).copy() if count else np.empty(shape, dtype)


class Inbox:
    """The training process's end."""

    def __init__(self, connection: Connection, slots: int) -> None:
        self.connection = connection
        self._maps: list[mmap.mmap | None] = [None] * slots

    def close(self) -> None:
        """Hang up, which ends the worker, and give the memory back."""
        self.connection.close()
        for memory in self._maps:
            if memory is not None:
                memory.close()
        self._maps.clear()

    def receive(self) -> tuple[int, Any]:
        """The next batch that the worker sends, with its number.

        Raises:
            EOFError: if the worker is gone.
        """
        message = self.connection.recv()
        while message[0] == "memory":
            _, slot, size = message
            descriptor = recv_handle(self.connection)
            self._maps[slot] = mmap.mmap(descriptor, size)
            os.close(descriptor)
            message = self.connection.recv()
        _, number, slot, content = message
        return number, _Unpickler(io.BytesIO(content), self._maps[slot]).load()
