"""A lake in a directory: making it, opening it, reading what is committed, and writing one run at a time."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote
from uuid import uuid4

import msgspec

from queen.spark.errors import SparkError
from queen.spark.lake.durably import room_for, sync_directory, write_new
from queen.spark.lake.manifest import Commit, File, Manifest, Reach, State
from queen.spark.lake.tables import GROUPS, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT: Final = 1
SWEEP_AFTER: Final = 3600.0
LOCK_PATIENCE: Final = 60.0
LOCK_STEP: Final = 0.1
SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")
GLOB: Final = re.compile(r"([\[\]{}*?\\])")
"""What Spark takes for a pattern unless it is escaped."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a lake is, in `lake.json`."""

    format: int
    id: str
    database: str
    created_at: str


class Lake:
    """A directory with `lake.json`, `manifest/`, `data/TABLE/queue=.../date=.../` and, while one writes, `staging/`."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self.path = path
        self.identity = identity
        self.manifest = Manifest(path / "manifest")

    @classmethod
    def open(cls, path: str | Path) -> Lake:
        """A lake that is there."""
        place = local(path)
        try:
            data = (place / "lake.json").read_bytes()
        except OSError:
            raise SparkError(
                "LAKE_NOT_FOUND", f"there is no lake at {place}: `queen pipeline run archive --lake {place}` makes one"
            ) from None
        try:
            identity = msgspec.json.decode(data, type=Identity)
        except msgspec.MsgspecError as error:
            raise SparkError("LAKE_DAMAGED", f"{place / 'lake.json'} is not what it should be: {error}") from None
        if identity.format > FORMAT:
            raise SparkError("LAKE_TOO_NEW", f"the lake at {place} was made by a newer release of Queen")
        return cls(place, identity)

    @classmethod
    def make(cls, path: str | Path, database: str) -> Lake:
        """The lake at a path; a new one when there is nothing there yet."""
        place = local(path)
        if not (place / "lake.json").exists():
            if place.exists() and (not place.is_dir() or any(place.iterdir())):
                raise SparkError("LAKE_NOT_FOUND", f"{place} is not a lake and not empty: choose another directory")
            with room_for(place):
                (place / "manifest").mkdir(parents=True, exist_ok=True)
                said = Identity(
                    format=FORMAT, id=str(uuid4()), database=database, created_at=datetime.now(UTC).isoformat()
                )
                write_new(place / "lake.json", msgspec.json.encode(said))
        lake = cls.open(place)
        lake.require_database(database)
        return lake

    @property
    def place(self) -> str:
        """Host and directory, for people."""
        return f"{socket.gethostname()}:{self.path}"

    def require_database(self, database: str) -> None:
        """Refuse to mix the messages of two databases."""
        if self.identity.database != database:
            raise SparkError(
                "FOREIGN_LAKE",
                f"the lake at {self.path} belongs to database {self.identity.database}, but this is {database} "
                "(system:timeline:database): choose another directory, or the database it was made from",
            )

    def state(self) -> State:
        """What is committed."""
        return self.manifest.state()

    def reach(self, table: str) -> Reach | None:
        """Up to where a table is complete."""
        return self.state().reaches.get(table)

    def read(self, spark: SparkSession, table: str, files: Sequence[File] | None = None) -> DataFrame:
        """The committed rows of a table, or of some of its files: nothing that is half-written, nothing twice."""
        schema = spark_schema(table)
        chosen = self.state().of(table) if files is None else files
        paths = [GLOB.sub(r"\\\1", str(self.whole(file))) for file in chosen]
        if not paths:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)

    def whole(self, file: File) -> Path:
        """Where a file is; refuses one that is missing or shorter than it was."""
        path = self.path / file.path
        try:
            size = path.stat().st_size
        except OSError:
            size = -1
        if size != file.bytes:
            found = "missing" if size < 0 else f"{size} bytes instead of {file.bytes}"
            raise SparkError(
                "LAKE_DAMAGED",
                f"{path} is {found}: restore it from a copy; `queen lake verify` lists everything that is damaged",
            )
        return path

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only one who writes, after waiting for another; the lock goes with the process, however it ends."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + LOCK_PATIENCE
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise SparkError(
                            "LAKE_BUSY", f"another run is writing to the lake at {self.path}: let it end first"
                        ) from None
                    time.sleep(LOCK_STEP)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A directory for files that do not count yet; gone afterwards."""
        place = self.path / "staging" / uuid4().hex
        with room_for(place):
            place.mkdir(parents=True)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def commit(self, state: State, commit: Commit, staged: Path) -> State:
        """Move staged files home and let them count, all at once."""
        folders = set()
        with room_for(self.path):
            for file in commit.added:
                home = self.path / file.path
                if home.parent not in folders:
                    home.parent.mkdir(parents=True, exist_ok=True)
                    folders.add(home.parent)
                (staged / home.name).replace(home)
        for folder in folders:
            sync_directory(folder)
        return self.manifest.commit(state, commit)

    @property
    def untidy(self) -> bool:
        """Whether a run has ended without tidying up behind it."""
        staging = self.path / "staging"
        return staging.is_dir() and any(staging.iterdir())

    def sweep(self, state: State, *, older: float = SWEEP_AFTER) -> int:
        """Remove what no commit names and nobody can still be writing or reading; returns how many files."""
        gone = 0
        shutil.rmtree(self.path / "staging", ignore_errors=True)
        limit = time.time() - older
        for path in (self.path / "data").rglob("*.parquet"):
            unnamed = str(path.relative_to(self.path)) not in state.files and "_delta_log" not in path.parts
            if unnamed and path.stat().st_mtime < limit:
                path.unlink(missing_ok=True)
                gone += 1
        return gone


def local(path: str | Path) -> Path:
    """A path on this machine; refuses an address, which would else become a folder of that name."""
    if SCHEME.match(str(path)):
        raise SparkError(
            "INVALID_OPTION",
            f"a lake must be a directory that every machine sees under the same path, not {str(path)!r}",
        )
    return Path(path).absolute()


def home(table: str, name: str, group: str, date: str) -> str:
    """Where a file belongs, below the lake."""
    return f"data/{table}/{GROUPS[table]}={quote(group, safe='')[:200]}/date={date}/{name}.parquet"
