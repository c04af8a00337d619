"""What a task does: read its slice page by page as Arrow, and notice what is missing."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from queen.spark.database import Database
from queen.spark.offsets import Position
from queen.spark.options import SourceOptions, words
from queen.spark.planning import Slice, lost, pack

if TYPE_CHECKING:
    from queen.engine.encryption import KeyRing

PAGE = 32_768
KEY_VARIABLES = ("QUEEN_ENCRYPTION_KEYS", "QUEEN_ENCRYPTION_KEY")
log = logging.getLogger("queen.spark")


def read(options: SourceOptions, schema: StructType, part: Slice) -> Iterator[pa.RecordBatch]:
    """The rows of a slice in order: by position, or partition by partition."""
    database = Database(options.address)
    try:
        require_same(database, part.position)
        ask: dict[str, Any] = {"columns": schema.fieldNames(), "queues": part.queues, "removed": part.position.removed}
        if options.since is not None:
            ask["since"] = options.since.isoformat()
        if options.until is not None:
            ask["until"] = options.until.isoformat()
        if part.starts is not None:
            ask["starts"] = part.starts
        shaped = to_arrow_schema(schema, timezone="UTC")
        for name, check, page in pages(part, ask):
            table, missing = database.page(name, check, page)
            report_missing(missing, fail=options.fail_on_data_loss)
            yield from shape(table, shaped)
    finally:
        database.close()


def require_same(database: Database, position: Position) -> None:
    """Refuse to read from another database than the one the slice was planned on, or one that lags behind it."""
    found = database.row("identity")
    position.require_valid(Position(max(found["pos"], position.pos), found["database"], 0))


def pages(part: Slice, ask: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The questions a slice is read with: each short, so that no long snapshot holds back clean-up."""
    if part.lanes:
        for lanes in pack(part.lanes, PAGE, 1):
            yield "read_lanes", "lost_lanes", ask | {"lanes": lanes}
        return
    low = part.position.pos
    while low < part.high:
        high = min(low + PAGE, part.high)
        yield "read_positions", "lost", ask | {"from": low, "to": high}
        low = high


def report_missing(missing: Sequence[dict[str, Any]], *, fail: bool) -> None:
    """Messages that were removed before they were read: an error, or a warning when that was asked for."""
    for row in missing:
        error = lost(row["queue"], row["partition"], row["first_seq"])
        if fail:
            raise error
        log.warning("%s", error.message.partition(";")[0])


def shape(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The columns Spark expects, in its order; sealed payloads opened."""
    for batch in in_order(table).to_batches():
        columns = [batch.column(name) for name in schema.names]
        if "payload" in schema.names:
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
