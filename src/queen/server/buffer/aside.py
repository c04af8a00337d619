"""What was set aside: records that were refused, and bytes that are no records any more. Kept until somebody decides.

An entry is one file in `failed/`: a line of JSON that says what is known, then the bytes as they were found.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from queen.server.buffer.files import sync_directory

FOLDER: Final = "failed"
Kind = Literal["refused", "damaged", "cut"]
KINDS: Final[tuple[Kind, ...]] = ("refused", "damaged", "cut")


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of it. `cut` is the end of a file: most likely a push that was never answered.

    `refused` entries hold the body of a record, which can be tried again; the others the damaged bytes. `lost` are
    the seqs of records of which nothing could be found.
    """

    id: str
    kind: Kind
    reason: str
    file: str
    offset: int
    bytes: int
    seq: int | None = None
    messages: int | None = None
    queues: list[str] = []
    lost: list[int] = []
    sealed: bool = False
    at: float | None = None


class Aside:
    """The folder of a buffer directory."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER

    def add(self, entry: Entry, data: bytes) -> bool:
        """Keep something durably; tells whether it is new."""
        path = self._path(entry)
        if path.exists():
            return False
        self._folder.mkdir(mode=0o700, exist_ok=True)
        fresh = path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(msgspec.json.encode(entry) + b"\n" + data)
                file.flush()
                os.fsync(descriptor)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        fresh.replace(path)
        sync_directory(self._folder)
        return True

    def _path(self, entry: Entry) -> Path:
        return self._folder / f"{entry.id}.{entry.kind}"

    def counts(self) -> Counter[str]:
        """How many entries there are of each kind."""
        if not self._folder.is_dir():
            return Counter()
        return Counter(path.suffix[1:] for path in self._folder.iterdir() if path.suffix[1:] in KINDS)

    def entries(self) -> Iterator[Entry]:
        """All entries, oldest first."""
        for path in sorted(self._folder.glob("*")) if self._folder.is_dir() else ():
            if path.suffix[1:] in KINDS:
                with path.open("rb") as file:
                    yield msgspec.json.decode(file.readline(), type=Entry)

    def read(self, name: str) -> tuple[Entry, bytes] | None:
        """One entry and its bytes."""
        for kind in KINDS:
            path = self._folder / f"{name}.{kind}"
            if Path(name).name == name and path.is_file():
                head, _, data = path.read_bytes().partition(b"\n")
                return msgspec.json.decode(head, type=Entry), data
        return None

    def remove(self, entry: Entry) -> None:
        """It was stored, or nobody wants it any more."""
        self._path(entry).unlink(missing_ok=True)
        sync_directory(self._folder)
