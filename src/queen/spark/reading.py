"""What a task does: read its slice page by page as Arrow, and notice what is missing."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.offsets import Position
from queen.spark.options import SourceOptions, words
from queen.spark.planning import Lane, Slice, lost, pack
from queen.spark.takeover import preceded

if TYPE_CHECKING:
    from queen.engine.encryption import KeyRing

FIRST_PAGE = 256
LARGEST_PAGE = 32_768
LARGEST_PIECE = 2048
PIECE_BYTES = 1 << 20
PIECES = 16
GROWTH = 8
LAG_PATIENCE = 30.0
LAG_STEP = 0.2
GIVEN = {"pos": "pos", "is_encrypted": "sealed"}
"""Columns that come with every page, and their names there."""
KEY_VARIABLES = ("QUEEN_ENCRYPTION_KEYS", "QUEEN_ENCRYPTION_KEY")
log = logging.getLogger("queen.spark")


def read(options: SourceOptions, schema: StructType, part: Slice) -> Iterator[pa.RecordBatch]:
    """The rows of a slice in order: by position, or partition by partition."""
    database = Database(options.read_address, limit=options.statement_limit, snapshot=options.snapshot)
    try:
        require_same(database, part)
        columns = [name for name in schema.fieldNames() if name not in GIVEN]
        ask: dict[str, Any] = {"columns": columns, "queues": part.queues, "removed": part.position.removed}
        if options.since is not None:
            ask["since"] = options.since.isoformat()
        if options.until is not None:
            ask["until"] = options.until.isoformat()
        if part.position.starts and not part.lanes:
            ask["starts"] = dict(part.position.starts)
        shaped = to_arrow_schema(schema, timezone="UTC")
        check = "lost_lanes" if part.lanes else "lost"
        if options.archive:
            check, ask["lenient"] = "lake/lost", options.archive == "lenient"
        for table in tables(database, part, ask, check, fail=options.fail_on_data_loss):
            yield from shape(table, shaped, raw=bool(options.archive))
    finally:
        database.close()


def require_same(database: Database, part: Slice, patience: float = LAG_PATIENCE) -> None:
    """Refuse to read from another database than the one the slice was planned on; wait for a replica that lags."""
    deadline = time.monotonic() + patience
    while True:
        found = database.row("identity")
        follows = not preceded(found["database"], part.position.database)
        if follows:
            replace(part.position, pos=0).require_valid(Position(found["pos"], found["database"], 0))
        if follows and found["pos"] >= part.end:
            return
        if time.monotonic() > deadline:
            raise SparkError(
                "REPLICA_BEHIND",
                f"the server has only come to position {found['pos']}, but {part.end} is to be read: it is a replica "
                f"that is more than {patience:.0f} s behind, or an older state of the database",
            )
        time.sleep(LAG_STEP)


def require_replayed(database: Database, lsn: str, patience: float = LAG_PATIENCE) -> None:
    """Wait for a replica to have what its primary had committed when the read was planned."""
    deadline = time.monotonic() + patience
    while not database.row("replayed", lsn=lsn)["replayed"]:
        if time.monotonic() > deadline:
            raise SparkError(
                "REPLICA_BEHIND",
                f"the server that is read from has not come to {lsn} in the log of its primary: it is a replica that "
                f"is more than {patience:.0f} s behind",
            )
        time.sleep(LAG_STEP)


class Pace:
    """How many rows to ask for at once: few at first, then as many as make pieces of about a megabyte."""

    def __init__(self) -> None:
        self.page = self.piece = FIRST_PAGE

    def note(self, table: pa.Table) -> None:
        """Go by the size of the rows that came."""
        width = max(table.nbytes // max(table.num_rows, 1), PIECE_BYTES // LARGEST_PIECE)
        self.piece = max(PIECE_BYTES // width, 1)
        self.page = min(self.piece * PIECES, self.page * GROWTH, LARGEST_PAGE)

    def slow_down(self) -> bool:
        """Ask for less; False when it is one row already."""
        further = self.page > 1
        self.page = self.piece = max(self.page // PIECES, 1)
        return further


def tables(database: Database, part: Slice, ask: dict[str, Any], check: str, *, fail: bool) -> Iterator[pa.Table]:
    """A slice page by page, each of one short question, so that no long snapshot holds back clean-up.

    `check` is the question for what was removed before it was read.
    """
    pace = Pace()
    rest = list(part.lanes) or [(0, part.position.pos, part.high)]
    while rest:
        taken, left = split(rest, pace.page)
        try:
            table, missing = database.page("read_page", check, ask | asked(part, taken, pace.piece))
        except SparkError as error:
            if error.code == "PAGE_TOO_LARGE" and pace.slow_down():
                continue
            raise
        report_missing(missing, fail=fail)
        yield in_order(table)
        pace.note(table)
        rest = left


def split(ranges: Sequence[Lane], rows: int) -> tuple[list[Lane], list[Lane]]:
    """The first so many rows of some ranges, and the others."""
    taken: list[Lane] = []
    for place, (lane, low, high) in enumerate(ranges):
        middle = min(high, low + rows)
        taken.append((lane, low, middle))
        rows -= middle - low
        if rows == 0:
            return taken, [(lane, middle, high)] * (middle < high) + list(ranges[place + 1 :])
    return taken, []


def asked(part: Slice, taken: Sequence[Lane], piece: int) -> dict[str, Any]:
    """The question for a page: which rows, and in pieces of how many."""
    if part.lanes:
        packed = enumerate(pack(taken, piece, 1))
        return {"lanes": [(*lane, number) for number, lanes in packed for lane in lanes]}
    ((_, low, high),) = taken
    return {"from": low, "to": high, "piece": piece}


def report_missing(missing: Sequence[dict[str, Any]], *, fail: bool) -> None:
    """Messages that were removed before they were read: an error, or a warning when that was asked for."""
    for row in missing:
        if row.get("behind"):
            raise SparkError(
                "REPLICA_BEHIND",
                f"messages of queue {row['queue']!r}, partition {row['partition']!r} are not there yet: the server "
                "that is read from is a replica that lags",
            )
        error = lost(row["queue"], row["partition"], row["first_seq"])
        if fail:
            raise error
        log.warning("%s", error.message.partition(";")[0])


def shape(table: pa.Table, schema: pa.Schema, *, raw: bool = False) -> Iterator[pa.RecordBatch]:
    """The columns Spark expects, in its order; sealed payloads opened unless they are to stay as they are."""
    for batch in table.to_batches():
        columns = [batch.column(GIVEN.get(name, name)) for name in schema.names]
        if "payload" in schema.names and not raw:
            place = schema.names.index("payload")
            columns[place] = opened(batch.column("payload"), batch.column("sealed"))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def in_order(table: pa.Table) -> pa.Table:
    """The rows of a page by position. They come that way as a rule, which is cheaper to see than to make sure of."""
    places = table.column("pos").combine_chunks()
    if pc.all(pc.less(places[:-1], places[1:])).as_py() is False:
        return table.sort_by("pos")
    return table


def opened(payloads: pa.Array, sealed: pa.Array) -> pa.Array:
    """The payloads with those that are encrypted decrypted, by the keys in this process's environment."""
    if not sealed.true_count:
        return payloads
    ring = key_ring()
    pairs = zip(payloads.to_pylist(), sealed.to_pylist(), strict=True)
    return pa.array([ring.open(text) if is_sealed else text for text, is_sealed in pairs], pa.string())


def key_ring() -> KeyRing:
    """The keys this process was given."""
    from queen.engine.encryption import KeyRing  # noqa: PLC0415 - costly to load in every worker, and seldom needed

    return KeyRing(words(next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), "")))
