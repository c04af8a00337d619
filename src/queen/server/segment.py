"""One file of the disk buffer: append, read in order, remember how far it was drained."""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from queen.engine.encryption import KeyRing
from queen.ids import uuid7
from queen.model import NewMessage

SUFFIX: Final = ".records"
FAILED: Final = "failed"
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[NewMessage])
_SEALED: Final = b"*"
_CLEAR: Final = b" "


def encode_record(items: Sequence[NewMessage], keys: KeyRing) -> bytes:
    """One push as a line: checksum, whether it is sealed, JSON."""
    body = _ENCODER.encode(items)
    if keys:
        body = keys.seal(body.decode()).encode()
    mark = _SEALED if keys else _CLEAR
    return b"%08x%s%s\n" % (zlib.crc32(body), mark, body)


def decode_record(line: bytes, keys: KeyRing) -> list[NewMessage]:
    """The messages of a line that `whole` accepted."""
    body = line[9:-1]
    return _DECODER.decode(keys.open(body.decode()) if line[8:9] == _SEALED else body)


def whole(line: bytes) -> bool:
    """Tell whether a line was written to its end."""
    return len(line) > 10 and line.endswith(b"\n") and line[:8] == b"%08x" % zlib.crc32(line[9:-1])


class Segment:
    """A file of records, locked by the process that owns it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self.position = 0

    @property
    def _mark(self) -> Path:
        return self.path.with_suffix(".drained")

    def append(self, data: bytes) -> None:
        """Write at the end and wait until it is on disk; a failed write leaves nothing behind."""
        try:
            view, at = memoryview(data), self.size
            while view:
                written = os.pwrite(self._descriptor, view, at)
                view, at = view[written:], at + written
            os.fdatasync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(data)

    def recover(self) -> None:
        """After a crash: cut off a record that was never answered, and go on where draining stopped."""
        good = sum(map(len, self._whole_lines(0)))
        if good < self.size:
            os.ftruncate(self._descriptor, good)
            self.size = good
        if self._mark.exists():
            self.position = min(int(self._mark.read_text() or "0"), self.size)

    def lines(self) -> list[bytes]:
        """Every record that is not drained yet."""
        return list(self._whole_lines(self.position))

    def read(self, limit: int) -> list[bytes]:
        """The next records, up to about `limit` of them and 4 MB."""
        found: list[bytes] = []
        room = 4 * 2**20
        for line in self._whole_lines(self.position):
            found.append(line)
            room -= len(line)
            if len(found) >= limit or room <= 0:
                break
        return found

    def _whole_lines(self, start: int) -> Iterator[bytes]:
        with open(os.dup(self._descriptor), "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.seek(start)
            at = start
            while at < self.size and whole(line := file.readline()):
                at += len(line)
                yield line

    def advance(self, length: int) -> None:
        """This many bytes are stored: remember it."""
        self.position += length
        replacement = self._mark.with_suffix(".new")
        replacement.write_text(str(self.position))
        replacement.replace(self._mark)

    def remove(self) -> None:
        """Everything is stored: the file goes."""
        self.path.unlink(missing_ok=True)
        self._mark.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the file and of its lock."""
        os.close(self._descriptor)


def begin(directory: Path) -> Segment:
    """A new file of this process."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"{uuid7()}{SUFFIX}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _sync_directory(directory)
    return Segment(path, descriptor)


def adopt(directory: Path) -> tuple[list[Segment], int]:
    """The files whose process is gone, oldest first, now locked by us; and how many messages are parked."""
    found: list[Segment] = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        if not path.exists():
            os.close(descriptor)
            continue
        segment = Segment(path, descriptor)
        segment.recover()
        found.append(segment)
    parked = sum(1 for path in (directory / FAILED).glob(f"*{SUFFIX}"))
    return found, parked


def park(directory: Path, line: bytes, reason: str) -> None:
    """Keep a record that cannot be stored, and why, beside the others."""
    folder = directory / FAILED
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{uuid7()}{SUFFIX}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    path.with_suffix(".reason").write_text(reason)
    _sync_directory(folder)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
