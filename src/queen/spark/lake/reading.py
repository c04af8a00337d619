"""Files of a lake as a frame: by Spark itself from a directory, by Python in its tasks from a bucket."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from queen.spark.errors import plainly
from queen.spark.lake.files import File
from queen.spark.lake.places import Place
from queen.spark.lake.tables import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GLOB: Final = re.compile(r"([\[\]{}*?\\])")
"""What Spark takes for a pattern unless it is escaped."""
PER_TASK: Final = 64 << 20
ROWS: Final = 10_000


def frame_of(spark: SparkSession, place: Place, table: str, files: Sequence[File]) -> DataFrame:
    """The rows of some files of a table."""
    schema = spark_schema(table)
    if not files:
        return spark.createDataFrame([], schema)
    if place.local:
        paths = [GLOB.sub(r"\\\1", place.path(file.path)) for file in files]
        return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)
    shares = list(shared(files))
    named = spark.createDataFrame([(paths,) for paths in shares], "paths array<string>").repartition(len(shares))
    return named.mapInArrow(partial(read_files, place, table), schema)


def shared(files: Sequence[File]) -> Iterator[list[str]]:
    """Files in shares of about the same size."""
    held: list[str] = []
    size = 0
    for file in files:
        held.append(file.path)
        size += file.bytes
        if size >= PER_TASK:
            yield held
            held, size = [], 0
    if held:
        yield held


def read_files(place: Place, table: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of the files named."""
    with plainly():
        for batch in batches:
            for path in batch.column(0).flatten().to_pylist():
                yield from batches_of(place, table, path)


def batches_of(place: Place, table: str, path: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file, a few at a time."""
    schema = arrow_schema(table)
    with place.get(path) as source, pq.ParquetFile(source) as file:
        for batch in file.iter_batches(ROWS, columns=schema.names):
            yield pa.Table.from_batches([batch]).select(schema.names).cast(schema).combine_chunks().to_batches()[0]
