"""Bits that flip on the disk under a buffer, and the names of what they cost."""

from __future__ import annotations

import os
import random
from pathlib import Path

from queen.engine import KeyRing
from queen.server.buffer.aside import Aside
from queen.server.buffer.log import SUFFIX
from queen.server.buffer.record import Record, scan


def damage(directory: Path, rng: random.Random, key: str) -> list[str]:
    """Flip a bit in the bodies of up to two waiting records; returns the names of their messages."""
    names: list[str] = []
    for path in sorted(directory.glob(f"*{SUFFIX}"))[-1:]:
        descriptor = os.open(path, os.O_RDWR)
        try:
            waiting = [one for one in scan(descriptor) if isinstance(one, Record) and not one.done and one.length]
            for record in rng.sample(waiting, min(2, len(waiting))):
                items = record.items(record.body(descriptor), KeyRing([key]))
                names += [item.transaction_id or str(item.id) for item in items]
                at = record.body_at + rng.randrange(record.length)
                byte = os.pread(descriptor, 1, at)[0]
                os.pwrite(descriptor, bytes([byte ^ 1 << rng.randrange(8)]), at)
        finally:
            os.close(descriptor)
    return names


def parked(directory: Path, key: str) -> list[str]:
    """The names of messages that a buffer was refused for good and keeps aside: a queue without room."""
    names: list[str] = []
    aside = Aside(directory)
    for entry in aside.entries():
        found = aside.read(entry.id)
        if entry.kind == "refused" and found is not None:
            record = Record(
                offset=0, seq=entry.seq or 0, at=0.0, messages=entry.messages or 0, slots=(), length=len(found[1]),
                checksum=0, sealed=entry.sealed, done=False,
            )  # fmt: skip
            names += [item.transaction_id or str(item.id) for item in record.items(found[1], KeyRing([key]))]
    return names
