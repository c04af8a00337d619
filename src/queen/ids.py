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


class _Uuid7:
    """UUIDv7s of one process, each greater than the one before.

    62 random bits seed a counter that grows within a millisecond, so ids made in a row sort in that
    order even when the clock stands still or goes back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._millis = 0
        self._tail = 0

    def many(self, count: int) -> list[UUID]:
        with self._lock:
            millis = max(time.time_ns() // 1_000_000, self._millis)
            if millis > self._millis or self._tail + count >= 1 << 74:
                self._millis = millis + (0 if millis > self._millis else 1)
                # The top bit stays free so that the counter has room to grow.
                self._tail = int.from_bytes(os.urandom(10), "big") >> 7
            first = self._tail
            self._tail += count
            head = self._millis << 80 | 7 << 76 | 2 << 62
        return [
            UUID(int=head | (tail >> 62) << 64 | tail & 0x3FFF_FFFF_FFFF_FFFF) for tail in range(first, first + count)
        ]


_generator = _Uuid7()


def uuid7() -> UUID:
    """A new UUIDv7, greater than any this process made before."""
    return _generator.many(1)[0]


def uuid7s(count: int) -> list[UUID]:
    """New UUIDv7s in growing order."""
    return _generator.many(count)


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
