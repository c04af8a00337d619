"""The disk buffer: where pushes go while the database is away or push maintenance is on.

A record is one push, in one line: a checksum and the messages as JSON, sealed when encryption keys are
configured. A record is answered once it is on disk (fsync, shared by all who write at that moment).
Each process writes a file of its own and holds a lock on it; files whose process is gone are adopted.

Messages got their ids before they came here, and draining looks each one up before it is stored: a
push whose outcome was unknown, or a drain that was cut off, stores nothing twice. What cannot be
stored (queue full, invalid) is moved to `failed/`, reported, and never dropped.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
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
from queen.server.segment import Segment, adopt, begin, decode_record, encode_record, park

Lane = tuple[str, str]
Store = Callable[[Sequence[NewMessage]], Awaitable[object]]
CHUNK: Final = 500
CATCH_UP: Final = 1.0
MAX_EXPONENT: Final = 131_000
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_EXPONENT: Final = re.compile(r"[eE][+-]?(\d{5,18})")
LOG: Final = structlog.get_logger("queen.buffer")


class BufferStats(Struct, frozen=True):
    """How the buffer stands."""

    pending: int
    failed: int
    healthy: bool
    drained: int
    size: int


class Buffer:
    """The disk buffer of one process. `store` puts messages into the database, looking each up first."""

    def __init__(self, directory: Path, keys: KeyRing, store: Store) -> None:
        self._directory = directory
        self._keys = keys
        self._store = store
        self._segments: list[Segment] = []
        self._writing: Segment | None = None
        self._lanes: Counter[Lane] = Counter()
        self._writer: Coalescer[bytes, None] = Coalescer(self._append, limit=1_000_000)
        self._draining = asyncio.Lock()
        self._went_on = asyncio.Event()
        self._file = asyncio.Lock()
        self._failed = 0
        self._healthy = True
        self._drained = 0

    @property
    def pending(self) -> int:
        """Messages that wait to be stored."""
        return self._lanes.total()

    @property
    def stats(self) -> BufferStats:
        """How the buffer stands."""
        size = sum(segment.size - segment.position for segment in self._segments)
        return BufferStats(self.pending, self._failed, self._healthy, self._drained, size)

    def holds(self, items: Sequence[NewMessage]) -> bool:
        """Tell whether a partition of these messages still waits here, so that they must queue behind."""
        return bool(self._lanes) and any((item.queue, item.partition) in self._lanes for item in items)

    async def behind(self, items: Sequence[NewMessage], limit: float = CATCH_UP) -> bool:
        """Tell whether these messages must queue behind others here, after giving a drain some time to store those.

        Without that a drain never ends while more arrives than it stores: writing a file is quicker.
        """
        end = asyncio.get_running_loop().time() + limit
        while self.holds(items):
            left = end - asyncio.get_running_loop().time()
            if left <= 0 or not self._draining.locked():
                return True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._went_on.wait(), left)
        return False

    async def adopt(self) -> int:
        """Take over files whose process is gone; returns how many messages came with them."""
        found, self._failed = await asyncio.to_thread(adopt, self._directory)
        taken: list[Lane] = []
        for segment in found:
            try:
                lanes = await asyncio.to_thread(self._lanes_of, segment)
            except errors.QueenError as error:
                LOG.error("a file of the disk buffer cannot be read", file=str(segment.path), reason=error.message)
                self._healthy = False
                segment.close()
                continue
            taken += lanes
            self._segments.insert(len(self._segments) - (self._writing is not None), segment)
        self._lanes.update(taken)
        if taken:
            LOG.info("messages of an earlier run were found in the disk buffer", messages=len(taken))
        return len(taken)

    def _lanes_of(self, segment: Segment) -> list[Lane]:
        return [(item.queue, item.partition) for line in segment.lines() for item in decode_record(line, self._keys)]

    async def append(self, items: Sequence[NewMessage]) -> None:
        """Keep messages until they can be stored; returns once they are on disk."""
        validate(items)
        for item in items:
            _require_storable(item.payload)
        self._lanes.update((item.queue, item.partition) for item in items)
        try:
            await self._writer.submit(encode_record(items, self._keys), weight=1)
        except BaseException:
            self._forget(items)
            raise

    async def _append(self, records: Sequence[bytes]) -> Sequence[None]:
        try:
            async with self._file:
                if self._writing is None:
                    self._writing = await asyncio.to_thread(begin, self._directory)
                    self._segments.append(self._writing)
                await asyncio.to_thread(self._writing.append, b"".join(records))
        except OSError as error:
            self._healthy = False
            raise errors.StoreUnavailable(f"the disk buffer cannot be written: {error}") from error
        self._healthy = True
        return [None] * len(records)

    async def drain(self) -> int:
        """Store everything that waits, in order; returns how many messages left the buffer.

        Stops at the first failure of the database (QueenError); what is left is for the next time.
        """
        drained = 0
        try:
            async with self._draining:
                while self._segments:
                    segment = self._segments[0]
                    lines = await asyncio.to_thread(segment.read, CHUNK)
                    if lines:
                        drained += await self._store_lines(segment, lines)
                        self._tell()
                    else:
                        await self._retire(segment)
        finally:
            self._tell()
        return drained

    def _tell(self) -> None:
        """Let those look again who wait for the drain."""
        self._went_on.set()
        self._went_on = asyncio.Event()

    async def _retire(self, segment: Segment) -> None:
        async with self._file:
            if segment.position < segment.size:
                return
            if segment is self._writing:
                self._writing = None
            self._segments.remove(segment)
            await asyncio.to_thread(segment.remove)

    async def _store_lines(self, segment: Segment, lines: Sequence[bytes]) -> int:
        records = [decode_record(line, self._keys) for line in lines]
        together = [item for items in records for item in items]
        try:
            await self._store(together)
        except errors.QueenError as error:
            if error.retryable and not isinstance(error, errors.QueueFull):
                raise
            for line, items in zip(lines, records, strict=True):
                await self._store_alone(line, items)
        await asyncio.to_thread(segment.advance, sum(map(len, lines)))
        self._forget(together)
        self._drained += len(together)
        return len(together)

    async def _store_alone(self, line: bytes, items: Sequence[NewMessage]) -> None:
        try:
            await self._store(items)
        except errors.QueenError as error:
            if error.retryable and not isinstance(error, errors.QueueFull):
                raise
            await self._park(line, items, error)

    async def _park(self, line: bytes, items: Sequence[NewMessage], error: errors.QueenError) -> None:
        await asyncio.to_thread(park, self._directory, line, f"{error.code}: {error.message}")
        self._failed += 1
        LOG.error(
            "a buffered push could not be stored", messages=len(items), queue=items[0].queue, reason=error.message
        )

    def _forget(self, items: Sequence[NewMessage]) -> None:
        for item in items:
            lane = (item.queue, item.partition)
            self._lanes[lane] -= 1
            if self._lanes[lane] <= 0:
                del self._lanes[lane]

    async def close(self) -> None:
        """Let go of the files; what they hold is for the next process."""
        await self._writer.drain()
        for segment in self._segments:
            segment.close()
        self._segments, self._writing = [], None


def _require_storable(payload: str) -> None:
    """Refuse now what PostgreSQL would refuse when the buffer is drained and nobody listens any more."""
    if "\\u0000" in payload.replace("\\\\", ""):
        raise errors.InvalidRequest("payload", "payload must not contain \\u0000")
    if any(int(digits) > MAX_EXPONENT for digits in _EXPONENT.findall(_STRING.sub("", payload))):
        raise errors.InvalidRequest("payload", "payload has a number that PostgreSQL cannot store")
