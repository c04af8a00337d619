"""The disk buffer as a worker uses it: keep messages, tell who must queue behind, how it stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from queen import errors
from queen.engine.batching import Coalescer
from queen.engine.encryption import KeyRing
from queen.engine.push import validate
from queen.model import NewMessage
from queen.server.buffer.aside import Aside
from queen.server.buffer.drain import Drain, Store
from queen.server.buffer.log import SegmentLog
from queen.server.buffer.record import Draft, draft, slot_of

CATCH_UP: Final = 1.0
LIMIT: Final = 4 * 2**30
AGE_LIMIT: Final = 86_400.0
# A worker that drains looks several times a second; one that did not for so long is stuck.
SILENCE: Final = 60.0
_PAUSE: Final = 0.01
LOG: Final = structlog.get_logger("queen.buffer")


class BufferFull(errors.Backpressure):
    """The disk buffer holds all it may, or what it holds has waited too long."""

    code = "BUFFER_FULL"


class BufferStats(Struct, frozen=True, kw_only=True):
    """How the buffer stands, for all workers of the broker.

    `failed` are the pushes that were refused when they were to be stored or whose bytes are damaged, `cut` the ends
    of files that were broken off. `age` is how long the oldest has waited, `silent` since the drain last looked.
    """

    pending: int
    failed: int
    damaged: int
    cut: int
    healthy: bool
    drained: int
    size: int
    age: float
    silent: float


async def _always() -> bool:
    return True


class Buffer:
    """The disk buffer of one worker. `store` puts messages into the database, looking each up first.

    `reachable` tells whether the database answers at all: what fails while it does fails for reasons of its own.
    """

    def __init__(
        self,
        directory: Path,
        keys: KeyRing,
        store: Store,
        *,
        reachable: Callable[[], Awaitable[bool]] = _always,
        limit: int = LIMIT,
        age_limit: float = AGE_LIMIT,
    ) -> None:
        self._keys = keys
        self._limit = limit
        self._age_limit = age_limit
        self._log = SegmentLog(directory)
        self._aside = Aside(directory)
        self._drain = Drain(self._log, self._aside, keys, store, reachable)
        self._writer: Coalescer[Draft, None] = Coalescer(self._append, limit=1_000_000)
        self._healthy = True

    @property
    def pending(self) -> int:
        """Messages that wait to be stored."""
        return self._log.shared().pending

    @property
    def stats(self) -> BufferStats:
        """How the buffer stands."""
        shared, counts = self._log.shared(), self._aside.counts()
        now = time.time()
        silent = max(now - shared.beat / 1000, 0.0) if shared.beat else 0.0
        healthy = self._healthy and not shared.trouble and not self._drain.unreadable
        return BufferStats(
            pending=shared.pending,
            failed=counts["refused"] + counts["damaged"],
            damaged=counts["damaged"],
            cut=counts["cut"],
            healthy=healthy and not counts["damaged"] and silent < SILENCE,
            drained=shared.stored,
            size=shared.size,
            age=max(now - shared.oldest / 1000, 0.0) if shared.oldest and shared.pending else 0.0,
            silent=silent,
        )

    def holds(self, items: Sequence[NewMessage]) -> bool:
        """Tell whether a partition of these messages still waits here, so that they must queue behind."""
        if not self.pending:
            return False
        state = self._log.state
        return any(state.last(slot) for slot in {slot_of(item.queue, item.partition) for item in items})

    async def behind(self, items: Sequence[NewMessage], limit: float = CATCH_UP) -> bool:
        """Tell whether these messages must queue behind others here, after giving a drain some time to store those.

        Without that a drain never ends while more arrives than it stores: writing a file is quicker.
        """
        end = time.monotonic() + limit
        while self.holds(items):
            if time.monotonic() >= end or not self._log.shared().draining:
                return True
            await asyncio.sleep(_PAUSE)
        return False

    async def open(self) -> None:
        """Look at what an earlier run left behind; a directory that cannot be used is told, not raised."""
        try:
            await asyncio.to_thread(lambda: self._log.state)
            self._healthy = True
        except OSError as error:
            self._healthy = False
            LOG.error("the disk buffer cannot be used", reason=str(error))

    async def append(self, items: Sequence[NewMessage]) -> None:
        """Keep messages until they can be stored; returns once they are on disk."""
        validate(items)
        record = draft(items, self._keys)
        self._require_room(record)
        await self._writer.submit(record, weight=1)

    def _require_room(self, record: Draft) -> None:
        shared = self._log.shared()
        if shared.size + record.size > self._limit:
            raise BufferFull(
                f"the disk buffer is full: {shared.size} of {self._limit} bytes wait for the database",
                figures={"size": shared.size, "limit": self._limit},
            )
        age = time.time() - shared.oldest / 1000 if shared.oldest and shared.pending else 0.0
        if age > self._age_limit:
            raise BufferFull(
                f"the disk buffer takes nothing more: its oldest message has waited {age:.0f} seconds for the database",
                figures={"age": int(age), "limit": int(self._age_limit)},
            )

    async def _append(self, drafts: Sequence[Draft]) -> Sequence[None]:
        try:
            await asyncio.to_thread(self._log.append, drafts)
        except OSError as error:
            if self._healthy:
                LOG.error("the disk buffer cannot be written", reason=str(error))
            self._healthy = False
            raise errors.StoreUnavailable(f"the disk buffer cannot be written: {error}") from error
        self._healthy = True
        return [None] * len(drafts)

    async def lead(self) -> bool:
        """Tell whether this worker is the one that drains."""
        return await asyncio.to_thread(self._log.lead)

    async def drain(self) -> int:
        """Store what waits, in order; returns how many messages left the buffer.

        Stops when the database is away (QueenError); what is left is for the next time.
        """
        return await self._drain.run()

    async def close(self) -> None:
        """Let go of the files; what they hold is for the next process."""
        await self._writer.drain()
        with suppress(OSError):
            self._log.close()
