"""Payloads of encrypted queues: sealed in the lake, opened where they are needed, by the keys of that process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from queen.spark.errors import plainly
from queen.spark.reading import opened

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def unsealed(frame: DataFrame) -> DataFrame:
    """The messages with payloads that are encrypted decrypted."""
    return frame.mapInArrow(open_batches, frame.schema)


def open_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: open what is sealed."""
    with plainly():
        for batch in batches:
            payloads = opened(batch.column("payload"), batch.column("is_encrypted"))
            yield batch.set_column(batch.schema.get_field_index("payload"), "payload", payloads)
