"""Histories: what a process was about to do and what it was told, on disk before it goes on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


def now() -> float:
    """The time of the machine and of its database, whatever was done to the clock of this process."""
    return time.clock_gettime(time.CLOCK_REALTIME)


class Note(NamedTuple):
    """One line: where it comes from, what happened, when, and what belongs to it."""

    source: str
    kind: str
    at: float
    fields: list[Any]


class History:
    """A file that only grows; a line is there once `note` returned, also after kill -9."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, kind: str, *fields: object) -> None:
        """Write one line."""
        os.write(self._file, (json.dumps([kind, now(), *fields]) + "\n").encode())

    def close(self) -> None:
        """No more lines."""
        os.close(self._file)


def read(folder: Path) -> Iterator[Note]:
    """Every whole line of every history in a folder, file by file; the last of a killed process may be cut off."""
    for path in sorted(folder.glob("*.history")):
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    kind, at, *fields = json.loads(line)
                    yield Note(path.stem, kind, at, fields)
