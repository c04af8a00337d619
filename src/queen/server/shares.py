"""What the workers of a broker tell each other, so that whichever is asked answers for all.

Each writes what it counted to a file of its own in a directory they share, once a second and before it answers itself.
The numbers there only grow, and every answer is made of the files alone: sums never fall, whoever is asked next. What
was read from the database is in a file too, read by one of them at a time.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar, cast

import msgspec
from msgspec import Struct

from queen.server.exposition import Distribution

DIRECTORY: Final = "QUEEN_METRICS_DIR"
# Who has not written for this long has ended: its sums stay, its levels are no longer there.
SILENT: Final = 10.0
_PAUSE: Final = 0.02
_LIMIT: Final = 5.0
T = TypeVar("T", bound=Struct)


class Counted(Struct, kw_only=True):
    """All a worker has counted, and how it is now.

    `refused` is by status, `histograms` by name and label, `sums` and `levels` are by name, `largest` by verb,
    `parked` by queue.
    """

    at: float
    started_at: float
    up: bool
    refused: dict[str, int]
    histograms: dict[str, dict[str, Distribution]]
    sums: dict[str, float]
    levels: dict[str, float]
    largest: dict[str, int]
    parked: dict[str, int]

    @property
    def lives(self) -> bool:
        """Whether its worker has written lately."""
        return time.time() - self.at < SILENT


class Shares:
    """The directory, or without one what this process alone has."""

    def __init__(self) -> None:
        directory = os.environ.get(DIRECTORY)
        self._directory = Path(directory) if directory else None
        self._name = f"{os.getpid()}-{time.time_ns()}"
        self._reading = asyncio.Lock()
        self._kept: Struct | None = None
        self._read_at = float("-inf")

    @property
    def several(self) -> bool:
        """Whether there may be other workers."""
        return self._directory is not None

    def publish(self, own: Counted) -> None:
        """Let the others know."""
        if self._directory is not None:
            with suppress(FileNotFoundError):  # the supervisor has ended and taken the directory along
                _replace(self._directory / f"{self._name}.counted", own)

    def counted(self, own: Counted) -> list[Counted]:
        """What all workers have counted, those that ended too: a sum must never fall."""
        if self._directory is None:
            return [own]
        self.publish(own)
        found = [msgspec.json.decode(path.read_bytes(), type=Counted) for path in self._directory.glob("*.counted")]
        return found or [own]

    async def read(self, kind: type[T], fresh: float, read: Callable[[], Awaitable[T | None]]) -> T | None:
        """What `read` gave last, to this worker or another; it is asked again after `fresh` seconds.

        While it gives nothing, for want of the database, the last stands.
        """
        async with self._reading:
            if self._directory is None:
                if time.time() - self._read_at >= fresh:
                    self._kept = await read() or self._kept
                    self._read_at = time.time()
                return cast("T | None", self._kept)
            path = self._directory / "database.json"
            deadline = time.time() + _LIMIT
            while not _is_fresh(path, fresh) and time.time() < deadline:
                with _turn(path.with_suffix(".lock")) as is_ours:
                    if is_ours:
                        found = None if _is_fresh(path, fresh) else await read()
                        if found is not None:
                            _replace(path, found)
                        break
                await asyncio.sleep(_PAUSE)
            return msgspec.json.decode(path.read_bytes(), type=kind) if path.exists() else None


def _is_fresh(path: Path, seconds: float) -> bool:
    try:
        return time.time() - path.stat().st_mtime < seconds
    except FileNotFoundError:
        return False


def _replace(path: Path, value: Struct) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(msgspec.json.encode(value))
    fresh.replace(path)


@contextmanager
def _turn(path: Path) -> Iterator[bool]:
    """Whether nobody else has it; a process that is killed gives it back."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
