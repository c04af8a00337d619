"""The segments of a buffer directory: one log that all workers append to and one of them drains."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from queen.server.buffer.files import sync_directory, write_all
from queen.server.buffer.record import Draft, Gap, Record, scan
from queen.server.buffer.state import NOTHING, Shared, State

SUFFIX: Final = ".records"
_NAME: Final = re.compile(r"\d+(-\d+)?")
SEGMENT: Final = 16 * 2**20
LOG: Final = structlog.get_logger("queen.buffer")


class Segment(Struct):
    """A file that nobody writes to any more: its records that wait, in the order of their seqs, and its gaps.

    `missing` are the seqs that ought to be in it and of which not even the head can be read.
    """

    path: Path
    descriptor: int
    size: int
    waiting: list[Record]
    gaps: list[Gap]
    missing: list[int]

    def chunks(self, records: int, size: int) -> Iterator[list[Record]]:
        """What waits, in pieces of so many records and about so many bytes."""
        chunk: list[Record] = []
        room = size
        for record in self.waiting:
            if chunk and (len(chunk) >= records or record.length > room):
                yield chunk
                chunk, room = [], size
            chunk.append(record)
            room -= record.length
        if chunk:
            yield chunk

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)


class SegmentLog:
    """The log as one worker sees it. Every call may raise OSError."""

    def __init__(self, directory: Path, segment_size: int = SEGMENT) -> None:
        self._directory = directory
        self._segment_size = segment_size
        self._state: State | None = None
        self._writing: tuple[int, int] | None = None
        self._lead: int | None = None

    @property
    def state(self) -> State:
        """What the workers agree on; made or mended when first asked for."""
        if self._state is None:
            state = State.open(self._directory)
            with state.locked():
                if state.read() is None:
                    self._rebuild(state)
            self._state = state
        return self._state

    def shared(self) -> Shared:
        """The figures all workers share; nothing while the directory cannot be used."""
        try:
            return self.state.read() or NOTHING
        except OSError:
            return NOTHING

    def _rebuild(self, state: State) -> None:
        """Look through all records: the machine was restarted, or the state is damaged."""
        last = waiting = oldest = 0
        slots: dict[int, int] = {}
        for path in self.segments():
            for record, whole in _heads(path):
                last = max(last, record.seq)
                if whole and not record.done:
                    waiting += record.messages
                    oldest = min(oldest or int(record.at * 1000), int(record.at * 1000))
                    slots.update((slot, max(slots.get(slot, 0), record.seq)) for slot in record.slots)
            last = max(last, *map(int, path.stem.split("-")))
        state.keep_only()
        for slot, seq in slots.items():
            state.set_last(slot, seq)
        fresh = Shared(last_seq=last, appended=waiting, size=self._size(), oldest=oldest)
        state.change(**msgspec.structs.asdict(fresh))
        if waiting:
            LOG.info("messages of an earlier run were found in the disk buffer", messages=waiting)

    def segments(self) -> list[Path]:
        """All files, oldest first."""
        return sorted(path for path in self._directory.glob(f"*{SUFFIX}") if _NAME.fullmatch(path.stem))

    def append(self, drafts: Sequence[Draft]) -> None:
        """Write records at the end of the log; returns once they are on disk. A failed write leaves nothing behind."""
        state = self.state
        with state.locked():
            shared = state.read() or NOTHING
            descriptor, at = self._file(state, shared)
            data = [draft.numbered(seq) for seq, draft in enumerate(drafts, shared.last_seq + 1)]
            size = sum(map(len, data))
            try:
                write_all(descriptor, b"".join(data), at)
            except OSError:
                os.ftruncate(descriptor, at)
                state.change(trouble=1)
                raise
            last = shared.last_seq
            for draft in drafts:
                last += 1
                for slot in draft.slots:
                    state.set_last(slot, last)
            assert self._writing is not None
            state.change(
                last_seq=last,
                segment=self._writing[0],
                length=at + size,
                appended=shared.appended + sum(draft.messages for draft in drafts),
                size=shared.size + size,
                oldest=shared.oldest or _millis(),
                trouble=0,
            )
        try:
            os.fdatasync(descriptor)
        except OSError:
            with state.locked():
                state.change(trouble=1)
            raise

    def _file(self, state: State, shared: Shared) -> tuple[int, int]:
        """The file to write to, and where: a new one when there is none, it is full, or its writer was killed."""
        if shared.segment and shared.length < self._segment_size:
            if self._writing is None or self._writing[0] != shared.segment:
                self._leave()
                with suppress(FileNotFoundError):
                    self._writing = (shared.segment, os.open(self._path(shared.segment), os.O_RDWR))
            if self._writing is not None and os.fstat(self._writing[1]).st_size == shared.length:
                return self._writing[1], shared.length
        self._leave()
        self._close_segments(shared.last_seq)
        first = shared.last_seq + 1
        path = self._path(first)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._writing = (first, descriptor)
        state.change(segment=first, length=0)
        sync_directory(self._directory)
        return descriptor, 0

    def _path(self, first: int) -> Path:
        return self._directory / f"{first:020d}{SUFFIX}"

    def _leave(self) -> None:
        if self._writing is not None:
            os.close(self._writing[1])
            self._writing = None

    def lead(self) -> bool:
        """Tell whether this worker is the one that drains; it stays so until it ends."""
        if self._lead is None:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._directory / "drain", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            self._lead = descriptor
        with self.state.locked():
            self.state.change(beat=_millis())
        return True

    def seal(self) -> tuple[list[Path], Shared]:
        """Begin a new file with the next record: the files there are now, and the figures that belong to them."""
        state = self.state
        with state.locked():
            shared = state.change(segment=0, length=0, draining=1)
            self._close_segments(shared.last_seq)
            return self.segments(), shared

    def _close_segments(self, last: int) -> None:
        """Name the file that was written to for its last seq, too: then it is known what must be in it."""
        for path in self.segments():
            if path.stem.isdigit():
                path.rename(path.with_name(f"{path.stem}-{max(last, int(path.stem)):020d}{SUFFIX}"))

    def load(self, path: Path) -> Segment:
        """Look through a file that is not written to any more."""
        descriptor = os.open(path, os.O_RDWR)
        waiting: list[Record] = []
        gaps: list[Gap] = []
        seen: set[int] = set()
        try:
            for found in scan(descriptor):
                head = found.head if isinstance(found, Gap) else found
                seen.update(() if head is None else (head.seq,))
                if isinstance(found, Gap):
                    gaps.append(found)
                elif not found.done:
                    waiting.append(found)
        except OSError:
            os.close(descriptor)
            raise
        waiting.sort(key=lambda record: record.seq)
        first, _, last = path.stem.partition("-")
        missing = sorted(set(range(int(first), int(last or first) + 1)) - seen)
        return Segment(path, descriptor, os.fstat(descriptor).st_size, waiting, gaps, missing)

    def finish(self, segment: Segment, records: Sequence[Record], stored: int, oldest: float) -> None:
        """These records need not be drained again; the oldest that waits is of that time."""
        for record in records:
            record.mark(segment.descriptor)
        os.fdatasync(segment.descriptor)
        last: dict[int, int] = {}
        for record in records:
            last.update(dict.fromkeys(record.slots, record.seq))
        state = self.state
        with state.locked():
            shared = state.read() or NOTHING
            for slot, seq in last.items():
                if state.last(slot) <= seq:
                    state.set_last(slot, 0)
            messages = sum(record.messages for record in records)
            state.change(
                removed=shared.removed + messages,
                stored=shared.stored + stored,
                oldest=int(oldest * 1000),
                beat=_millis(),
            )

    def remove(self, segment: Segment) -> None:
        """Everything in a file is stored or set aside: it goes."""
        segment.path.unlink(missing_ok=True)
        state = self.state
        with state.locked():
            state.change(size=self._size())

    def settle(self, sealed: Shared, slots: Iterable[int], messages: int, oldest: float) -> None:
        """A pass over the sealed files is over: of them only these slots, with so many messages, still wait."""
        state = self.state
        with state.locked():
            state.keep_only(slots, after=sealed.last_seq)
            state.change(
                removed=sealed.appended - messages,
                size=self._size(),
                oldest=int(oldest * 1000),
                beat=_millis(),
            )

    def rest(self) -> None:
        """No pass is under way."""
        with self.state.locked():
            self.state.change(draining=0)

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self.segments())

    def close(self) -> None:
        """Let go of all files; what they hold is for the next process."""
        self._leave()
        if self._lead is not None:
            os.close(self._lead)
            self._lead = None
        if self._state is not None:
            self._state.close()
            self._state = None


def _heads(path: Path) -> Iterator[tuple[Record, bool]]:
    """Every head that can be read, and whether its record is whole."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for found in scan(descriptor):
            if isinstance(found, Record):
                yield found, True
            elif found.head is not None:
                yield found.head, False
    finally:
        os.close(descriptor)


def _millis() -> int:
    return int(time.time() * 1000)
