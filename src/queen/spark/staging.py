"""Rows of a frame as rows of a stage table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, StringType, StructType, TimestampType

from queen.spark.columns import MESSAGES
from queen.spark.errors import SparkError
from queen.spark.options import SinkOptions
from queen.spark.reading import key_ring

TAKEN: Final[dict[str, DataType]] = {
    "queue": StringType(),
    "partition": StringType(),
    "payload": StringType(),
    "transaction_id": StringType(),
    "trace_id": StringType(),
    "parent_id": StringType(),
    "deliver_at": TimestampType(),
}
# COPY sends jsonb as a version byte and the text.
JSONB: Final = "\x01"
PLACES_PER_TASK: Final = 1 << 40
PARTS_PER_TASK: Final = 1 << 30
SIDE_BY_SIDE: Final = 8
"""Parts whose numbers differ modulo this have no partition in common."""
PART: Final = 250
"""Rows of a part at most. Parts are stored together as long as that is quick enough."""
LIMITED: Final = -1
"""The part of the rows for limited queues, of any size: there is room for all of them or for none."""
STAGE: Final = pa.schema(
    [
        ("stage", pa.int64()),
        ("place", pa.int64()),
        ("part", pa.int64()),
        ("queue", pa.string()),
        ("partition", pa.string()),
        ("id", pa.binary(16)),
        ("payload", pa.string()),
        ("is_encrypted", pa.bool_()),
        ("transaction_id", pa.string()),
        ("trace_id", pa.binary(16)),
        ("parent_id", pa.binary(16)),
        ("deliver_at", pa.timestamp("us", "UTC")),
    ]
)


def require_fitting(schema: StructType, options: SinkOptions) -> None:
    """Refuse a frame that cannot become messages. Columns a source adds are allowed and left out."""
    for column in schema.fields:
        wanted = TAKEN.get(column.name)
        if wanted is None and column.name not in MESSAGES.names:
            raise SparkError(
                "INVALID_OPTION",
                f"there is no place for column {column.name!r} in a message: put it into the payload, for example by "
                f"to_json(struct(...)); allowed are {', '.join(TAKEN)}",
            )
        if wanted is not None and column.dataType != wanted:
            given, hint = column.dataType.simpleString(), "; use to_json" if column.name == "payload" else ""
            raise SparkError(
                "INVALID_OPTION", f"column {column.name!r} must be {wanted.simpleString()}, not {given}{hint}"
            )
    if "payload" not in schema.names:
        raise SparkError("INVALID_OPTION", "a column `payload` with JSON text is needed")
    if "queue" not in schema.names and not options.queue:
        raise SparkError("INVALID_OPTION", "say where to: by a column `queue` or the option `queue`")


@dataclass(frozen=True, slots=True)
class Stager:
    """Turns the batches of one task into rows of its stage."""

    options: SinkOptions
    stage: int
    task: int
    sealed_queues: Sequence[str]
    limited_queues: Sequence[str] = ()
    _taken: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(SIDE_BY_SIDE, np.int64))

    def stage_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches in the shape of the stage table, numbered in order."""
        place = self.task * PLACES_PER_TASK
        for batch in batches:
            if batch.num_rows:
                yield self._stage(batch, place)
                place += batch.num_rows

    def _stage(self, batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
        count = batch.num_rows
        queue = self._named(batch, "queue", self.options.queue)
        payload = pc.fill_null(batch.column("payload"), "null")
        sealed = pc.is_in(queue, value_set=pa.array(self.sealed_queues, pa.string()))
        if sealed.true_count:
            ring = key_ring()
            pairs = zip(payload.to_pylist(), sealed.to_pylist(), strict=True)
            payload = pa.array([ring.seal(text) if seal else text for text, seal in pairs])
        partition = self._named(batch, "partition", self.options.partition or "Default")
        columns = [
            pa.array(np.full(count, self.stage)),
            pa.array(np.arange(place, place + count)),
            pa.array(self._parts(queue, partition)),
            queue,
            partition,
            new_ids(count),
            pc.binary_join_element_wise(JSONB, payload.cast(pa.string()), ""),
            sealed,
            optional(batch, "transaction_id", pa.string()),
            uuids(batch, "trace_id"),
            uuids(batch, "parent_id"),
            optional(batch, "deliver_at", pa.timestamp("us", "UTC")),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=STAGE)

    def _parts(self, queue: pa.Array, partition: pa.Array) -> npt.NDArray[np.int64]:
        """The part each row belongs to: so many rows of partitions with the same residue, in order."""
        lanes = pc.binary_join_element_wise(queue, partition, "/").dictionary_encode()
        residues = np.array([crc32(name.encode()) % SIDE_BY_SIDE for name in lanes.dictionary.to_pylist()], np.int64)
        mine = residues[lanes.indices.to_numpy()]
        parts = np.empty(len(mine), np.int64)
        for residue in range(SIDE_BY_SIDE):
            rows = np.flatnonzero(mine == residue)
            counts = self._taken[residue] + np.arange(len(rows))
            self._taken[residue] += len(rows)
            number = self.task * PARTS_PER_TASK + counts // min(PART, self.options.rows_per_transaction)
            parts[rows] = residue + SIDE_BY_SIDE * number
        if self.limited_queues:
            limited = pc.is_in(queue, value_set=pa.array(self.limited_queues, pa.string()))
            parts[np.asarray(limited)] = LIMITED
        return parts

    def _named(self, batch: pa.RecordBatch, name: str, default: str | None) -> pa.Array:
        found = optional(batch, name, pa.string())
        if default is not None:
            found = pc.fill_null(found, default)
        if found.null_count:
            raise SparkError("INVALID_ROW", f"a row has no {name}, and the option `{name}` is not set")
        return found


def optional(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    """A column, or as many nulls."""
    if name in batch.schema.names:
        return batch.column(name).cast(kind)
    return pa.nulls(batch.num_rows, kind)


def uuids(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column of UUIDs as the bytes COPY wants."""
    texts = optional(batch, name, pa.string())
    if texts.null_count == batch.num_rows:
        return pa.nulls(batch.num_rows, pa.binary(16))
    try:
        return pa.array([None if text is None else UUID(text).bytes for text in texts.to_pylist()], pa.binary(16))
    except ValueError:
        raise SparkError("INVALID_ROW", f"column {name!r} has a value that is no UUID") from None


def new_ids(count: int) -> pa.Array:
    """UUIDv7s: the time in milliseconds, then chance."""
    data: Any = np.frombuffer(np.random.default_rng().bytes(16 * count), dtype=np.uint8).reshape(count, 16).copy()
    data[:, :6] = np.frombuffer((time.time_ns() // 1_000_000).to_bytes(6, "big"), dtype=np.uint8)
    data[:, 6] = data[:, 6] & 0x0F | 0x70
    data[:, 8] = data[:, 8] & 0x3F | 0x80
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, pa.py_buffer(data.tobytes())])
