"""A lake: a Delta table for each kind of thing, and what they promise together.

The log of each table is the only truth: which files count, and up to where the table is complete. The latter is
the version of an application transaction, so it moves together with the files, and of two who try one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from queen.spark.errors import SparkError
from queen.spark.lake.durably import FULL, full
from queen.spark.lake.files import File, Reach, State, listed
from queen.spark.lake.heads import Head, Heads
from queen.spark.lake.places import Place
from queen.spark.lake.reading import frame_of
from queen.spark.lake.tables import LAKE_TABLES, MESSAGES, delta_schema, divided_by
from queen.spark.takeover import preceded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT: Final = "2"
OLD: Final = "lake.json"
ARCHIVE: Final = "queen.archive"
COMPACT: Final = "queen.compact"
KEEP_HOURS: Final = 24
NO_ROOM: Final = re.compile(r"os error (\d+)")


class Moved(SparkError):
    """Somebody else has committed meanwhile."""

    def __init__(self, lake: str) -> None:
        super().__init__("LAKE_BUSY", f"another run is writing to the lake at {lake}: let it end first")


@dataclass(frozen=True)
class Identity:
    """What a lake is: kept with its table of messages. Only its database changes, when another server takes over."""

    id: str
    database: str
    removed: int
    """How many removals the database had seen when the lake began."""


class Lake:
    """A place with a Delta table in `messages`, `deliveries`, `dead_letters` and `workflow_history`."""

    def __init__(self, place: Place, identity: Identity) -> None:
        self.place = place
        self.identity = identity
        self._heads = Heads()

    @classmethod
    def open(cls, path: str | Path) -> Lake:
        """A lake that is there."""
        place = Place.of(path)
        if place.local and (Path(place.address) / OLD).exists():
            raise SparkError(
                "LAKE_TOO_OLD",
                f"the lake at {place.address} has the form of an earlier release: `queen lake convert --lake "
                f"{place.address}` makes it a Delta table",
            )
        lake = cls._known(place)
        if lake is None:
            raise SparkError(
                "LAKE_NOT_FOUND",
                f"there is no lake at {place.address}: `queen pipeline run archive --lake {place.address}` makes one",
            )
        return lake

    @classmethod
    def make(cls, path: str | Path, database: str, removed: int = 0) -> Lake:
        """The lake at a path; a new one when there is nothing there yet."""
        place = Place.of(path)
        names = place.names()
        if MESSAGES in names or OLD in names:
            lake = cls.open(path)
            lake.require_database(database)
            return lake
        if names or (place.local and Path(place.address).is_file()):
            raise SparkError("LAKE_NOT_FOUND", f"{place.address} is not a lake and not empty: choose another directory")
        return cls.begin(place, database, removed)

    @classmethod
    def begin(cls, place: Place, database: str, removed: int) -> Lake:
        """The lake at a place, made unless somebody else has, whatever else is there."""
        create(place.below(MESSAGES), MESSAGES, database, removed)
        lake = cls._known(place)
        if lake is None:
            raise SparkError("LAKE_DAMAGED", f"the lake at {place.address} went away while it was made")
        lake.require_database(database)
        return lake

    @classmethod
    def _known(cls, place: Place) -> Lake | None:
        head = head_of(Heads(), place.below(MESSAGES))
        return None if head is None else cls(place, identity_of(place, head))

    def require_database(self, database: str) -> None:
        """Refuse to mix the messages of two databases."""
        if self.identity.database != database:
            raise SparkError(
                "FOREIGN_LAKE",
                f"the lake at {self.place.address} belongs to database {self.identity.database}, but this is "
                f"{database} (system:timeline:database): choose another directory, or the database it was made from"
                + (
                    f"; if this server took over from that one: queen lake adopt --lake {self.place.address}"
                    if preceded(self.identity.database, database)
                    else ""
                ),
            )

    def adopt(self, database: str) -> Lake:
        """The lake as one of the server that took over; whoever still writes to it for the other is refused."""
        log, head = self.log(MESSAGES), head_of(self._heads, self.place.below(MESSAGES))
        if log is None or head is None or identity_of(self.place, head) != self.identity:
            raise Moved(self.place.address)
        with said_plainly(self.place):
            try:
                log.alter.set_table_properties({"queen.database": database}, raise_if_not_exists=False)
            except CommitFailedError as error:
                raise Moved(self.place.address) from error
        return Lake.open(self.place.address)

    def log(self, table: str, version: int | None = None) -> DeltaTable | None:
        """The log of a table as it is now, or was at a version; None when nothing of it was archived yet."""
        return opened(self.place.below(table), version)

    def state(self) -> State:
        """What is committed."""
        logs = {table: log for table in LAKE_TABLES if (log := self.log(table)) is not None}
        reaches = {table: reach for table, log in logs.items() if (reach := reached(table, log)) is not None}
        files = {table: list(listed(table, log)) for table, log in logs.items()}
        return State(files, reaches, {table: log.version() for table, log in logs.items()})

    def reach(self, table: str) -> Reach | None:
        """Up to where a table is complete."""
        head = self.head(table)
        return None if head is None else reach_of(table, head.transactions.get(ARCHIVE))

    def head(self, table: str) -> Head | None:
        """The head of the log of a table; None when nothing of it was archived yet."""
        return head_of(self._heads, self.place.below(table))

    def read(self, spark: SparkSession, table: str, files: Sequence[File] | None = None) -> DataFrame:
        """The committed rows of a table, or of some of its files: nothing that is half-written, nothing twice."""
        log = self.log(table) if files is None else None
        chosen = list(listed(table, log)) if log is not None else files or ()
        self.require_whole(chosen)
        return frame_of(spark, self.place.below(table), table, chosen)

    def require_whole(self, files: Sequence[File]) -> None:
        """Refuse files that are missing or shorter than they were."""
        for table in LAKE_TABLES:
            mine = [file for file in files if file.table == table]
            place = self.place.below(table)
            for file, size in zip(mine, place.sizes([file.path for file in mine]), strict=True):
                if size != file.bytes:
                    found = "missing" if size < 0 else f"{size} bytes instead of {file.bytes}"
                    raise SparkError(
                        "LAKE_DAMAGED",
                        f"{place.address}/{file.path} is {found}: restore it from a copy; `queen lake verify` lists "
                        "everything that is damaged",
                    )

    def append(self, table: str, files: Sequence[File], since: Reach | None, reach: Reach) -> None:
        """Let files count, and the table be complete up to `reach`, if it was up to `since` until now."""
        place = self.place.below(table)
        head = self.head(table)
        if head is None:
            create(place, table, self.identity.database, self.identity.removed)
            head = self.head(table)
        if head is None or reach_of(table, head.transactions.get(ARCHIVE)) != since:
            raise Moved(self.place.address)
        if table == MESSAGES:
            Lake(self.place, identity_of(self.place, head)).require_database(self.identity.database)
        version = (reach.pos if table == MESSAGES else reach.until) or 0
        if place.local and head.plain:
            if not self._heads.append(place, table, files, ARCHIVE, version):
                raise Moved(self.place.address)
            return
        log = opened(place)
        if log is None or reached(table, log) != since:
            raise Moved(self.place.address)
        self._commit(log, table, [file.added(new=True) for file in files], Transaction(ARCHIVE, version))

    def exchange(self, table: str, log: DeltaTable, gone: Sequence[File], merged: Sequence[File]) -> None:
        """Let files count in place of others that hold the same rows; of two who try at once one is refused."""
        actions = [*(file.added(new=False) for file in merged), *(file.removed() for file in gone)]
        self._commit(log, table, actions, Transaction(COMPACT, log.version()))

    def left_over(self, table: str, *, hours: int = KEEP_HOURS) -> list[str]:
        """The files of a table that no longer count, or never did, for so many hours."""
        log = self.log(table)
        if log is None:
            return []
        return log.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False, full=True)

    def _commit(self, log: DeltaTable, table: str, actions: list[object], noted: Transaction) -> None:
        properties = CommitProperties(app_transactions=[noted])
        with said_plainly(self.place):
            try:
                log.create_write_transaction(
                    actions,  # type: ignore[arg-type]
                    "append",
                    Schema.from_arrow(delta_schema(table)),
                    partition_by=divided_by(table),
                    commit_properties=properties,
                )
            except CommitFailedError as error:
                raise Moved(self.place.address) from error


def opened(place: Place, version: int | None = None) -> DeltaTable | None:
    """The Delta table at a place, if there is one."""
    try:
        return DeltaTable(place.address, version, storage_options=place.storage)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise damaged(place, error) from error


def create(place: Place, table: str, database: str, removed: int) -> None:
    """Make an empty table, unless somebody else has just done so."""
    with said_plainly(place):
        DeltaTable.create(
            place.address,
            Schema.from_arrow(delta_schema(table)),
            mode="ignore",
            partition_by=divided_by(table),
            name=table,
            configuration={"queen.database": database, "queen.removed": str(removed), "queen.format": FORMAT},
            storage_options=place.storage,
            raise_if_key_not_exists=False,
        )


def reached(table: str, log: DeltaTable) -> Reach | None:
    """Up to where a table is complete."""
    return reach_of(table, log.transaction_version(ARCHIVE))


def reach_of(table: str, version: int | None) -> Reach | None:
    """Up to where a table is complete, as its application transaction says."""
    if version is None:
        return None
    return Reach(pos=version) if table == MESSAGES else Reach(until=version)


def head_of(heads: Heads, place: Place) -> Head | None:
    """The head of the log at a place, if there is one."""
    try:
        return heads.of(place)
    except (DeltaError, OSError, msgspec.DecodeError, pa.ArrowInvalid) as error:
        raise damaged(place, error) from error


def identity_of(place: Place, head: Head) -> Identity:
    """What a lake is, as its table of messages says."""
    said = head.configuration
    if "queen.database" not in said:
        raise SparkError("LAKE_NOT_FOUND", f"the Delta table at {place.address}/{MESSAGES} is not a lake of queues")
    if said.get("queen.format", FORMAT) > FORMAT:
        raise SparkError("LAKE_TOO_NEW", f"the lake at {place.address} was made by a newer release of Queen")
    return Identity(head.id, str(said["queen.database"]), int(said["queen.removed"] or 0))


def damaged(place: Place, error: Exception) -> SparkError:
    """A log that cannot be read."""
    # After the first line delta-rs tells where in its own code it was.
    told = str(error).strip().partition("\n")[0]
    return SparkError(
        "LAKE_DAMAGED",
        f"the log of {place.address} cannot be read ({told}): if it was changed by something else, restore it from "
        "a copy",
    )


@contextmanager
def said_plainly(place: Place) -> Iterator[None]:
    """Say in one sentence that a disk is full, also if delta-rs met it."""
    try:
        yield
    except (DeltaError, OSError) as error:
        found = NO_ROOM.search(str(error))
        if found and int(found[1]) in FULL:
            raise full(place.address) from error
        raise
