"""One push as bytes, and how to find records again in a file that was damaged.

    magic 4 | mark 1 | checksum of the head 4 | flags 1, seq 8, time 8, messages 4, slots 4, length 4, checksum 4
    slots, 2 each | body

The mark alone is not covered by a checksum: it is overwritten in place once the record is stored. Its two values
differ in every bit; any other counts as waiting, since storing again what is stored does no harm. The magic begins with
a byte that JSON never contains, so no payload can be mistaken for a record.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from queen.engine.encryption import KeyRing
from queen.model import NewMessage

MAGIC: Final = b"\x1eQR\x02"
WAITING: Final = b"\x0f"
DONE: Final = b"\xf0"
SLOTS: Final = 65_536
_FIXED: Final = struct.Struct(">BQQIIII")
_CHECKSUM: Final = struct.Struct(">I")
_BARE: Final = len(MAGIC) + 1 + _CHECKSUM.size + _FIXED.size
_MARK_AT: Final = len(MAGIC)
_SEALED: Final = 1
_WINDOW: Final = 2**18
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[NewMessage])


def slot_of(queue: str, partition: str) -> int:
    """The slot of a partition: partitions that share one wait for each other, never overtake."""
    return zlib.crc32(f"{queue}\0{partition}".encode()) % SLOTS


class Draft(Struct, frozen=True):
    """A record that has no seq yet."""

    body: bytes
    sealed: bool
    messages: int
    slots: tuple[int, ...]

    @property
    def size(self) -> int:
        """Its bytes on disk."""
        return _BARE + 2 * len(self.slots) + len(self.body)

    def numbered(self, seq: int) -> bytes:
        """The bytes to write."""
        fixed = _FIXED.pack(
            _SEALED if self.sealed else 0,
            seq,
            int(time.time() * 1000),
            self.messages,
            len(self.slots),
            len(self.body),
            zlib.crc32(self.body),
        )
        slots = struct.pack(f">{len(self.slots)}H", *self.slots)
        return b"".join((MAGIC, WAITING, _CHECKSUM.pack(zlib.crc32(fixed + slots)), fixed, slots, self.body))


def draft(items: Sequence[NewMessage], keys: KeyRing) -> Draft:
    """The record of one push; sealed when there are keys."""
    body = _ENCODER.encode(items)
    if keys:
        body = keys.seal(body.decode()).encode()
    slots = {slot_of(item.queue, item.partition) for item in items}
    return Draft(body, bool(keys), len(items), tuple(sorted(slots)))


class Record(Struct, frozen=True):
    """Where a record lies in its file, and what its head says."""

    offset: int
    seq: int
    at: float
    messages: int
    slots: tuple[int, ...]
    length: int
    checksum: int
    sealed: bool
    done: bool

    @property
    def body_at(self) -> int:
        """Where its body begins."""
        return self.offset + _BARE + 2 * len(self.slots)

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.body_at + self.length

    def body(self, descriptor: int) -> bytes:
        """Its body; ValueError if that is not what was written."""
        found = os.pread(descriptor, self.length, self.body_at)
        if zlib.crc32(found) != self.checksum:
            raise ValueError(f"record {self.seq} changed since it was looked at")
        return found

    def items(self, body: bytes, keys: KeyRing) -> list[NewMessage]:
        """The messages; EncryptionUnavailable without the key."""
        return _DECODER.decode(keys.open(body.decode()) if self.sealed else body)

    def mark(self, descriptor: int) -> None:
        """It is stored, or set aside: not to be drained again."""
        os.pwrite(descriptor, DONE, self.offset + _MARK_AT)


class Gap(Struct, frozen=True):
    """Bytes that are no record. `cut` when the file ends before a record does; `head` of it, when that can be read."""

    offset: int
    end: int
    cut: bool
    head: Record | None


def scan(descriptor: int) -> Iterator[Record | Gap]:
    """Everything in a file, in its order; what is damaged is passed over up to the next whole record."""
    at, end = 0, os.fstat(descriptor).st_size
    while at < end:
        head = _head(descriptor, at, end)
        if head is not None and head.end <= end and _is_whole(descriptor, head):
            yield head
            at = head.end
            continue
        after = _next_head(descriptor, at + 1, end)
        if head is not None and head.end <= end:
            after = min(after, head.end)
        yield Gap(at, after, after == end and _is_cut(descriptor, at, end, head), head)
        at = after


def _is_cut(descriptor: int, at: int, end: int, head: Record | None) -> bool:
    """Tell whether the end of a file looks like a write that was broken off, not like bytes that changed."""
    if head is not None:
        return head.end > end
    rest = os.pread(descriptor, _WINDOW, at)
    if len(rest) >= _BARE and rest.startswith(MAGIC):
        slots: int = _FIXED.unpack_from(rest, _BARE - _FIXED.size)[4]
        return slots <= SLOTS and at + _BARE + 2 * slots > end
    return len(rest) < _BARE or not rest.strip(b"\0")


def _head(descriptor: int, at: int, end: int) -> Record | None:
    data = os.pread(descriptor, _BARE, at)
    if len(data) < _BARE or not data.startswith(MAGIC):
        return None
    flags, seq, millis, messages, slots, length, checksum = _FIXED.unpack_from(data, _BARE - _FIXED.size)
    if slots > SLOTS or at + _BARE + 2 * slots > end:
        return None
    packed = os.pread(descriptor, 2 * slots, at + _BARE)
    expected = _CHECKSUM.unpack_from(data, _MARK_AT + 1)[0]
    if zlib.crc32(data[-_FIXED.size :] + packed) != expected:
        return None
    done = data[_MARK_AT : _MARK_AT + 1] == DONE
    named = struct.unpack(f">{slots}H", packed)
    return Record(at, seq, millis / 1000, messages, named, length, checksum, bool(flags & _SEALED), done)


def _is_whole(descriptor: int, head: Record) -> bool:
    found, at = 0, head.body_at
    while at < head.end:
        part = os.pread(descriptor, min(_WINDOW, head.end - at), at)
        if not part:
            return False
        found, at = zlib.crc32(part, found), at + len(part)
    return found == head.checksum


def _next_head(descriptor: int, at: int, end: int) -> int:
    """Where the next record begins whose head is whole, or the end."""
    while at < end:
        window = os.pread(descriptor, _WINDOW, at)
        place = window.find(MAGIC)
        while place >= 0:
            if _head(descriptor, at + place, end) is not None:
                return at + place
            place = window.find(MAGIC, place + 1)
        if len(window) < _WINDOW:
            return end
        at += len(window) - len(MAGIC) + 1
    return end
