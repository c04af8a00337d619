"""What the workers of a broker agree on about their disk buffer: a small file, changed under its lock.

It lives in the page cache and need not survive the machine: after a restart of that, or when it is damaged, it is made
anew from the records. Its space is taken when it is made, so that a full disk cannot stop it from being changed.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import msgspec
import psutil
from msgspec import Struct

from queen.server.buffer.files import write_all
from queen.server.buffer.record import SLOTS

_MAGIC: Final = b"queenbuf"
_CHECKSUM: Final = struct.Struct(">I")
_TABLE_AT: Final = 4096
_SLOT: Final = struct.Struct("=Q")
_LOCK_LIMIT: Final = 10.0
_PATIENCE: Final = 0.002


class Shared(Struct, frozen=True):
    """The figures, all whole numbers; times are milliseconds.

    `segment` and `length` are the file that is written to, 0 when the next record begins a new one. What waits is
    `appended - removed`. `beat` is when the worker that drains last looked; `trouble` whether a write just failed.
    """

    last_seq: int = 0
    segment: int = 0
    length: int = 0
    appended: int = 0
    removed: int = 0
    stored: int = 0
    size: int = 0
    oldest: int = 0
    beat: int = 0
    draining: int = 0
    trouble: int = 0

    @property
    def pending(self) -> int:
        """Messages that wait."""
        return max(self.appended - self.removed, 0)


_HEAD: Final = struct.Struct(f"=8sQ{len(Shared.__struct_fields__)}Q")
NOTHING: Final = Shared()


class State:
    """The file. Everything that changes it happens inside `locked`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._threads = threading.Lock()
        self._boot = int(psutil.boot_time())
        # What was read last: every push asks, and mostly nothing has changed.
        self._known: tuple[bytes, Shared | None] = (b"", None)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """The state of a directory; OSError when it cannot be written."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory / "state", os.O_RDWR | os.O_CREAT, 0o600)
        state = cls(descriptor)
        try:
            with state.locked():
                missing = _TABLE_AT + SLOTS * _SLOT.size - (size := os.fstat(descriptor).st_size)
                write_all(descriptor, bytes(max(missing, 0)), size)
        except OSError:
            state.close()
            raise
        return state

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes it within the block; OSError when somebody holds it for too long."""
        with self._threads:
            end = time.monotonic() + _LOCK_LIMIT
            while True:
                try:
                    fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise TimeoutError("another worker holds the disk buffer") from None
                    time.sleep(_PATIENCE)
            try:
                yield
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def read(self) -> Shared | None:
        """The figures; None when they are of an earlier life of the machine, or damaged."""
        for _ in range(3):  # somebody may be writing it just now
            data = os.pread(self._descriptor, _HEAD.size + _CHECKSUM.size, 0)
            if data == self._known[0]:
                return self._known[1]
            if zlib.crc32(data[: _HEAD.size]) == _CHECKSUM.unpack_from(data, _HEAD.size)[0]:
                magic, boot, *figures = _HEAD.unpack_from(data)
                if magic != _MAGIC or abs(boot - self._boot) > 1:
                    return None
                self._known = (data, Shared(*figures))
                return self._known[1]
        return None

    def change(self, **figures: int) -> Shared:
        """Set some figures; the rest stays."""
        shared = msgspec.structs.replace(self.read() or NOTHING, **figures)
        data = _HEAD.pack(_MAGIC, self._boot, *msgspec.structs.astuple(shared))
        os.pwrite(self._descriptor, data + _CHECKSUM.pack(zlib.crc32(data)), 0)
        return shared

    def last(self, slot: int) -> int:
        """The last seq that waits in a slot; 0 when nothing does."""
        seq: int = _SLOT.unpack(os.pread(self._descriptor, _SLOT.size, _TABLE_AT + slot * _SLOT.size))[0]
        return seq

    def set_last(self, slot: int, seq: int) -> None:
        """Something waits in a slot, or with 0 nothing does."""
        os.pwrite(self._descriptor, _SLOT.pack(seq), _TABLE_AT + slot * _SLOT.size)

    def keep_only(self, slots: Iterable[int] = (), after: int | None = None) -> None:
        """Forget every slot but these, and those that got something after a seq."""
        table = array("Q", os.pread(self._descriptor, SLOTS * _SLOT.size, _TABLE_AT))
        kept = set(slots)
        for slot, seq in enumerate(table):
            if seq and slot not in kept and (after is None or seq <= after):
                self.set_last(slot, 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
