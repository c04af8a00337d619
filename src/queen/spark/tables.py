"""What Queen knows beside messages, as tables: deliveries, dead letters, statistics, workflow history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from queen.spark.columns import MESSAGES
from queen.spark.database import Database
from queen.spark.errors import SparkError, plainly
from queen.spark.options import SourceOptions
from queen.spark.planning import Planner
from queen.spark.reading import opened, require_replayed

TEXT, LONG, TIME, TRUTH = StringType(), LongType(), TimestampType(), BooleanType()
TABLES: Final[dict[str, StructType]] = {
    "messages": MESSAGES,
    "deliveries": StructType(
        [
            StructField("queue", TEXT), StructField("partition", TEXT), StructField("partition_id", LONG),
            StructField("consumer_group", TEXT), StructField("batch_from", LONG), StructField("batch_to", LONG),
            StructField("leased_at", TIME), StructField("ended_at", TIME), StructField("outcome", TEXT),
            StructField("failed", LONG), StructField("retry_count", LONG), StructField("lease_id", TEXT),
        ]
    ),
    "dead_letters": StructType(
        [
            StructField("queue", TEXT), StructField("partition", TEXT), StructField("partition_id", LONG),
            StructField("consumer_group", TEXT), StructField("seq", LONG), StructField("id", TEXT),
            StructField("transaction_id", TEXT), StructField("trace_id", TEXT), StructField("parent_id", TEXT),
            StructField("payload", TEXT), StructField("producer_sub", TEXT), StructField("created_at", TIME),
            StructField("failed_at", TIME), StructField("error_message", TEXT), StructField("retry_count", LONG),
            StructField("evicted", TRUTH), StructField("redriven_at", TIME), StructField("redriven_as", TEXT),
        ]
    ),
    "stats": StructType(
        [
            StructField("queue", TEXT), StructField("bucket", TIME), StructField("pushed", LONG),
            StructField("popped", LONG), StructField("acked", LONG), StructField("failed", LONG),
            StructField("lag", LONG), StructField("max_lag_ms", LONG),
        ]
    ),
    "workflow_history": StructType(
        [
            StructField("instance", TEXT), StructField("workflow", TEXT), StructField("version", TEXT),
            StructField("execution_id", LONG), StructField("event_id", LONG), StructField("kind", TEXT),
            StructField("data", TEXT), StructField("status", TEXT), StructField("started_at", TIME),
        ]
    ),
}  # fmt: skip


def table_schema(name: str) -> StructType:
    """The columns of a table."""
    if name not in TABLES:
        raise SparkError("INVALID_OPTION", f"option `table` must be one of {', '.join(TABLES)}, not {name!r}")
    return TABLES[name]


@dataclass(frozen=True)
class Span(InputPartition):
    """What one task reads: rows of a length of time."""

    since: datetime | None
    until: datetime | None
    queues: Sequence[int] | None
    lsn: str | None = None
    """How far a replica must have come to be read from."""


class TableReader(DataSourceReader):
    """Reads a table in slices of time, which startingTimestamp and endingTimestamp bound."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @plainly()
    def partitions(self) -> list[InputPartition]:
        """Equal lengths of time."""
        options = self._options
        database = Database(options.address, limit=options.statement_limit)
        try:
            chosen = bool(options.queues or options.pattern or options.namespace)
            queues = Planner(options, database).queues() if chosen else None
            found = database.row(f"extent_{options.table}")
            lsn = database.row("written")["lsn"] if options.read_url else None
        finally:
            database.close()
        low = max(filter(None, (found["low"], options.since)), default=None)
        high = min(filter(None, (plus_tick(found["high"]), options.until)), default=None)
        return [replace(span, lsn=lsn) for span in spans(low, high, options.min_partitions, queues)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one slice."""
        with plainly():
            if not isinstance(partition, Span):
                return
            shaped = to_arrow_schema(self._schema, timezone="UTC")
            database = Database(self._options.read_address, limit=self._options.statement_limit)
            try:
                if partition.lsn is not None:
                    require_replayed(database, partition.lsn)
                for batch in database.table(f"table_{self._options.table}", **ask_for(partition)).to_batches():
                    columns = {name: batch.column(name) for name in shaped.names}
                    if "payload" in columns:
                        columns["payload"] = opened(columns["payload"], batch.column("sealed"))
                    yield pa.RecordBatch.from_arrays(list(columns.values()), schema=shaped)
            finally:
                database.close()


def plus_tick(time: datetime | None) -> datetime | None:
    """Just after, so that an open end includes it."""
    return None if time is None else time + timedelta(microseconds=1)


def spans(low: datetime | None, high: datetime | None, parts: int, queues: Sequence[int] | None) -> Iterator[Span]:
    """The time between in equal parts; nothing when there is none."""
    if low is None or high is None or low >= high:
        return
    step = (high - low) / parts
    edges = [low + step * part for part in range(parts)] + [high]
    for since, until in pairwise(edges):
        yield Span(since, until, queues)


def ask_for(span: Span) -> dict[str, Any]:
    """The question for a slice."""
    ask: dict[str, Any] = {} if span.queues is None else {"queues": list(span.queues)}
    if span.since is not None:
        ask["since"] = span.since.isoformat()
    if span.until is not None:
        ask["until"] = span.until.isoformat()
    return ask
