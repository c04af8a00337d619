"""Storing what waits: in order within each partition, in pieces that fail alone."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from queen import errors
from queen.engine.encryption import KeyRing
from queen.model import NewMessage
from queen.server.buffer.aside import Aside, Entry
from queen.server.buffer.log import Segment, SegmentLog
from queen.server.buffer.record import Gap, Record

Store = Callable[[Sequence[NewMessage]], Awaitable[object]]
RECORDS: Final = 500
BYTES: Final = 4 * 2**20
SIDE_BY_SIDE: Final = 4
PAUSES: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
LOG: Final = structlog.get_logger("queen.buffer")


class Piece(Struct, frozen=True):
    """A record and its messages."""

    record: Record
    body: bytes
    items: list[NewMessage]


class Pass:
    """What one pass over all segments leaves behind: slots whose records wait on, and their messages."""

    def __init__(self, slots: set[int]) -> None:
        self.slots = slots
        self.messages = 0
        self.oldest = 0.0
        self.stored = 0

    def leave(self, record: Record) -> None:
        """This record waits on, and with it everything behind it in its partitions."""
        self.slots.update(record.slots)
        self.messages += record.messages
        self.oldest = min(self.oldest or record.at, record.at)


class Drain:
    """Stores the records of a log. One worker of a broker does it at a time."""

    def __init__(
        self,
        log: SegmentLog,
        aside: Aside,
        keys: KeyRing,
        store: Store,
        reachable: Callable[[], Awaitable[bool]],
    ) -> None:
        self._log = log
        self._aside = aside
        self._keys = keys
        self._store = store
        self._reachable = reachable
        self._running = asyncio.Lock()
        # Slots that failed by themselves: how often, and when to try them again.
        self._held: dict[int, tuple[int, float]] = {}
        self._told: set[int] = set()
        self.unreadable = 0

    async def run(self) -> int:
        """Pass over the segments until nothing more can be stored now."""
        drained = 0
        async with self._running:
            try:
                while (passed := await self._pass()).stored:
                    drained += passed.stored
            finally:
                await asyncio.to_thread(self._log.rest)
        return drained

    async def _pass(self) -> Pass:
        paths, sealed = await asyncio.to_thread(self._log.seal)
        now = time.monotonic()
        passed = Pass({slot for slot, (_, again) in self._held.items() if again > now})
        self.unreadable = 0
        for path in paths:
            segment = await asyncio.to_thread(self._log.load, path)
            try:
                await self._segment(segment, passed)
            finally:
                segment.close()
        await asyncio.to_thread(self._log.settle, sealed, passed.slots, passed.messages, passed.oldest)
        return passed

    async def _segment(self, segment: Segment, passed: Pass) -> None:
        before = passed.messages
        for gap in segment.gaps:
            await asyncio.to_thread(self._set_gap_aside, segment, gap)
        if segment.missing:
            await asyncio.to_thread(self._tell_missing, segment)
        for chunk in segment.chunks(RECORDS, BYTES):
            pieces = await asyncio.to_thread(self._read, segment, chunk, passed)
            done = await self._store_apart(pieces, passed)
            if done:
                passed.stored += sum(piece.record.messages for piece in done)
                oldest = passed.oldest or done[-1].record.at
                records = [piece.record for piece in done]
                stored = sum(record.messages for record in records)
                await asyncio.to_thread(self._log.finish, segment, records, stored, oldest)
        if passed.messages == before:
            await asyncio.to_thread(self._log.remove, segment)

    def _read(self, segment: Segment, chunk: Sequence[Record], passed: Pass) -> list[Piece]:
        pieces: list[Piece] = []
        for record in chunk:
            if passed.slots.intersection(record.slots):
                passed.leave(record)
                continue
            body = record.body(segment.descriptor)
            try:
                pieces.append(Piece(record, body, record.items(body, self._keys)))
            except (errors.EncryptionUnavailable, msgspec.MsgspecError) as error:
                if record.seq not in self._told:
                    self._told.add(record.seq)
                    LOG.error("a buffered push cannot be read", seq=record.seq, reason=str(error))
                self.unreadable += 1
                passed.leave(record)
        return pieces

    async def _store_apart(self, pieces: Sequence[Piece], passed: Pass) -> list[Piece]:
        """Store all together, or, when that fails, those that have no partition in common apart from each other."""
        if len(pieces) > 1:
            try:
                await self._try(pieces)
                return list(pieces)
            except Away:
                raise
            except (errors.QueenError, TimeoutError):
                pass
        gate = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(group: Sequence[Piece]) -> list[Piece]:
            async with gate:
                return await self._store_in_turn(group, passed)

        found = await asyncio.gather(*(one(group) for group in independent(pieces)), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return [piece for group in found if not isinstance(group, BaseException) for piece in group]

    async def _store_in_turn(self, pieces: Sequence[Piece], passed: Pass) -> list[Piece]:
        """Store pieces of the same partitions: the first that cannot be stored now keeps the later ones waiting."""
        done: list[Piece] = []
        for piece in pieces:
            if passed.slots.intersection(piece.record.slots):
                passed.leave(piece.record)
                continue
            try:
                await self._try([piece])
                done.append(piece)
            except Away:
                raise
            except (errors.QueenError, TimeoutError) as error:
                if _is_final(error):
                    await asyncio.to_thread(self._set_record_aside, piece, error)
                    done.append(piece)
                else:
                    self._hold(piece, error)
                    passed.leave(piece.record)
        return done

    async def _try(self, pieces: Sequence[Piece]) -> None:
        """Store pieces in one call; an error that is no fault of theirs, the database being away, ends the drain."""
        try:
            await self._store([item for piece in pieces for item in piece.items])
        except (errors.StoreUnavailable, TimeoutError) as error:
            if not await self._reachable():
                raise Away(str(error) or "the database did not answer in time") from error
            raise
        for slot in {slot for piece in pieces for slot in piece.record.slots} if self._held else ():
            self._held.pop(slot, None)

    def _hold(self, piece: Piece, error: Exception) -> None:
        for slot in piece.record.slots:
            times = self._held.get(slot, (0, 0.0))[0]
            self._held[slot] = (times + 1, time.monotonic() + PAUSES[min(times, len(PAUSES) - 1)])
        LOG.warning(
            "a buffered push waits on, the others go ahead",
            queue=piece.items[0].queue,
            partition=piece.items[0].partition,
            reason=str(error) or "no answer in time",
        )

    def _set_record_aside(self, piece: Piece, error: Exception) -> None:
        record = piece.record
        reason = f"{error.code}: {error.message}" if isinstance(error, errors.QueenError) else str(error)
        queues = sorted({item.queue for item in piece.items})
        entry = Entry(
            id=f"{record.seq:020d}-{record.offset}",
            kind="refused",
            reason=reason,
            file="",
            offset=record.offset,
            bytes=record.length,
            seq=record.seq,
            messages=record.messages,
            queues=queues,
            sealed=record.sealed,
            at=record.at,
        )
        self._aside.add(entry, piece.body)
        LOG.error("a buffered push could not be stored", entry=entry.id, queues=queues, reason=reason)

    def _set_gap_aside(self, segment: Segment, gap: Gap) -> None:
        head = gap.head
        entry = Entry(
            id=f"{segment.path.stem}-{gap.offset}",
            kind="cut" if gap.cut else "damaged",
            reason="the file ends in the middle of a record" if gap.cut else "the bytes have changed on disk",
            file=segment.path.name,
            offset=gap.offset,
            bytes=gap.end - gap.offset,
            seq=head.seq if head else None,
            messages=head.messages if head else None,
            at=head.at if head else None,
        )
        if self._aside.add(entry, os.pread(segment.descriptor, gap.end - gap.offset, gap.offset)):
            tell = LOG.warning if gap.cut else LOG.error
            tell("damage in the disk buffer was set aside", **msgspec.structs.asdict(entry))

    def _tell_missing(self, segment: Segment) -> None:
        """Records that were accepted and cannot be found: all that is left of them is their seqs."""
        shown = ", ".join(map(str, segment.missing[:20])) + (" and more" if len(segment.missing) > 20 else "")
        entry = Entry(
            id=f"{segment.path.stem}-missing",
            kind="damaged",
            reason=f"{len(segment.missing)} records cannot be found in the file: {shown}",
            file=segment.path.name,
            offset=0,
            bytes=0,
            lost=segment.missing,
        )
        if self._aside.add(entry, b""):
            LOG.error("records are missing in the disk buffer", file=entry.file, reason=entry.reason)


class Away(errors.StoreUnavailable):
    """The database is away: the drain goes on another time."""


def _is_final(error: Exception) -> bool:
    """Tell whether storing it again cannot help; a full queue is for people to decide."""
    return isinstance(error, errors.RequestError | errors.QueueFull)


def independent(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Groups of pieces that share no partition with other groups, each in order."""
    above: dict[int, int] = {}

    def top(slot: int) -> int:
        while above.setdefault(slot, slot) != slot:
            slot = above[slot]
        return slot

    for piece in pieces:
        first, *others = piece.record.slots
        for slot in others:
            above[top(slot)] = top(first)
    groups: dict[int, list[Piece]] = {}
    for piece in pieces:
        groups.setdefault(top(piece.record.slots[0]), []).append(piece)
    return list(groups.values())
