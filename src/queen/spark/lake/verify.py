"""Is the lake what it says, and does it agree with PostgreSQL? By files, then by partition, then by message."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from queen.spark.database import Database
from queen.spark.lake.files import File, State
from queen.spark.lake.lake import Lake
from queen.spark.lake.querying import opened
from queen.sql import query

if TYPE_CHECKING:
    import duckdb

ROWS_AT_ONCE = 200_000
SHOWN = 20


@dataclass(frozen=True)
class Lane:
    """One partition in the lake and in the database."""

    queue: str
    partition: str
    partition_id: int
    lake: int
    database: int
    twice: int
    missing: int
    """Between its first and last seq: deleted by hand, or removed before it was archived."""
    agrees: bool
    only_in_lake: tuple[str, ...] = ()
    only_in_database: tuple[str, ...] = ()
    different: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What was found."""

    files: int
    rows: int
    damaged: tuple[str, ...] = ()
    lanes: tuple[Lane, ...] = field(default=())

    @property
    def agrees(self) -> bool:
        """Whether all is well."""
        return not self.damaged and all(lane.agrees and not lane.twice for lane in self.lanes)


def verify(lake: Lake, url: str | None) -> Verdict:
    """Check every file against the log, and the messages against PostgreSQL if an address is given."""
    state = lake.state()
    files = state.files
    with ThreadPoolExecutor(4) as pool:
        damaged = tuple(found for found in pool.map(lambda file: damage(lake, file), files) if found)
    rows = sum(file.rows for file in files)
    if damaged or url is None:
        return Verdict(len(files), rows, damaged)
    database = Database(url)
    try:
        lake.require_database(database.row("identity")["database"])
        with opened(lake, state) as connection:
            return Verdict(len(files), rows, (), tuple(Comparison(connection, database, state).lanes()))
    finally:
        database.close()


def damage(lake: Lake, file: File) -> str | None:
    """What is wrong with a file, if anything."""
    place = lake.place.below(file.table)
    (size,) = place.sizes([file.path])
    if size < 0:
        return f"{file.path} is missing"
    if size != file.bytes:
        return f"{file.path} is not what was written"
    with place.get(file.path) as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    if not file.fits(digest):
        return f"{file.path} is not what was written"
    with place.get(file.path) as source:
        rows = pq.read_metadata(source).num_rows
    return None if rows == file.rows else f"{file.path} has {rows} rows instead of {file.rows}"


class Comparison:
    """The messages of a lake beside those of its database."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, database: Database, state: State) -> None:
        self._connection = connection
        self._database = database
        reach = state.reaches.get("messages")
        self._high = reach.pos or 0 if reach is not None else 0

    def lanes(self) -> Iterator[Lane]:
        """Every partition of either side."""
        known = {row["id"]: row for row in self._sizes()}
        kept = {row["partition_id"]: row for row in self._kept(known.values())}
        ours = {row["partition_id"]: row for row in self._archived(kept.values())}
        for number in sorted(known.keys() | ours.keys()):
            lane = self._lane(number, ours.get(number), kept.get(number), known.get(number))
            if lane.lake or lane.database:
                yield lane

    def _lane(self, number: int, ours: Any, kept: Any, known: Any) -> Lane:
        names = ours or known
        there = kept["n"] if kept else 0
        here = ours["kept"] if ours else 0
        same = here == there and (not there or ours["checksum"] == kept["checksum"])
        details = {} if same else self._details(number, kept["first_seq"] if kept else 1)
        return Lane(
            names["queue"],
            names["partition"],
            number,
            ours["n"] if ours else 0,
            there,
            ours["twice"] if ours else 0,
            ours["missing"] if ours else 0,
            same or not any(details.values()),
            **details,
        )

    def _details(self, number: int, first: int) -> dict[str, tuple[str, ...]]:
        """Which messages differ; one deleted by hand may well be in the lake."""
        there = {row["seq"]: row for row in self._database.rows("lake/lane_rows", partition=number, to=self._high)}
        found = self._connection.execute(query("lake/lane_rows"), [number, first]).fetchall()
        here = {seq: (id_, value) for seq, id_, value in found}
        return {
            "only_in_lake": shown(f"{seq}:{here[seq][0]}" for seq in here if seq not in there),
            "only_in_database": shown(f"{s}:{r['id']}" for s, r in there.items() if r["id"] and s not in here),
            "different": shown(
                f"{s}:{r['id']}" for s, r in there.items() if r["id"] and s in here and here[s][1] != r["hash"]
            ),
        }

    def _sizes(self) -> Iterator[dict[str, Any]]:
        after = 0
        while rows := self._database.rows("lake/lane_sizes", after=after):
            yield from rows
            after = rows[-1]["id"]

    def _kept(self, lanes: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        held: list[int] = []
        size = 0
        for lane in lanes:
            held.append(lane["id"])
            size += lane["n"]
            if size >= ROWS_AT_ONCE or len(held) >= 10_000:
                yield from self._database.rows("lake/checksums", partitions=held, to=self._high)
                held, size = [], 0
        if held:
            yield from self._database.rows("lake/checksums", partitions=held, to=self._high)

    def _archived(self, kept: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        rows = [{"partition_id": row["partition_id"], "first_seq": row["first_seq"]} for row in kept]
        schema = pa.schema([("partition_id", pa.int64()), ("first_seq", pa.int64())])
        self._connection.register("kept", pa.Table.from_pylist(rows, schema))
        found = self._connection.execute(query("lake/checksums"))
        names = [column[0] for column in found.description or []]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def shown(texts: Iterable[str]) -> tuple[str, ...]:
    """The first few."""
    return tuple(text for text, _ in zip(texts, range(SHOWN), strict=False))
