"""Identifiers: UUIDv7 for what Queen makes, and the UUID face of numbers on the wire."""

from __future__ import annotations

import os
import threading
import time
from typing import Final, Literal
from uuid import UUID

Kind = Literal["queue", "partition", "dead-letter", "trace"]

_KINDS: Final[tuple[Kind, ...]] = ("queue", "partition", "dead-letter", "trace")
_PREFIX: Final = 0x51E0_0000_0000_8000  # version 8: the layout is ours
_VARIANT: Final = 0x8000_0000_0000_0000
# Version 7, and Queen's sign: PostgreSQL knows by it whether a transaction id can be one that was made here.
_MARK: Final = 0x751E
_LOW: Final = 0x3FFF_FFFF_FFFF_FFFF


class _Uuid7:
    """UUIDv7s of one process, each greater than the one before.

    61 random bits begin a count within each millisecond, so ids made in a row sort in that order even when the clock
    stands still or goes back. The twelve bits after the version are always the same: they say that Queen made the id.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._millis = 0
        self._next = 0

    def many(self, count: int) -> list[UUID]:
        with self._lock:
            millis = time.time_ns() // 1_000_000
            if millis > self._millis:
                self._begin(millis)
            elif (self._next & _LOW) + count > _LOW:
                self._begin(self._millis + 1)
            first = self._next
            self._next = first + count
        return [UUID(int=number) for number in range(first, first + count)]

    def _begin(self, millis: int) -> None:
        self._millis = millis
        chance = int.from_bytes(os.urandom(8), "big")
        # The top bit of the low ones stays free so that the count has room to grow.
        self._next = millis << 80 | _MARK << 64 | 2 << 62 | chance & _LOW >> 1


_generator = _Uuid7()


def uuid7() -> UUID:
    """A new UUIDv7, greater than any this process made before."""
    return _generator.many(1)[0]


def uuid7s(count: int) -> list[UUID]:
    """New UUIDv7s in growing order."""
    return _generator.many(count)


def made_here(value: UUID) -> bool:
    """Whether an id can be one of ours; of UUIDv7s made elsewhere one in four thousand looks like it."""
    return value.int >> 64 & 0xFFFF == _MARK


def may_be_made_here(text: str) -> bool:
    """The same of a transaction id, by a glance."""
    return text[14:18] == "751e"


def as_callers(value: UUID) -> str:
    """An id as a transaction id of a caller's own: without our sign, so that the unique index answers for it."""
    return str(UUID(int=value.int & ~(0xFFF << 64)))


def to_wire(kind: Kind, number: int) -> str:
    """The UUID-shaped string that stands for a number of the database on the wire."""
    return str(UUID(int=(_PREFIX | _KINDS.index(kind)) << 64 | _VARIANT | number))


def from_wire(kind: Kind, text: str) -> int | None:
    """The number behind `to_wire`'s string, or None when it is not one of that kind."""
    try:
        value = UUID(text).int
    except ValueError:
        return None
    if value >> 64 != _PREFIX | _KINDS.index(kind) or not value & _VARIANT:
        return None
    return value & ~_VARIANT & 0xFFFF_FFFF_FFFF_FFFF
