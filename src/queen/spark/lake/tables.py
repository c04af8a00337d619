"""What the tables of a lake look like as rows, to Spark and to Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from queen.spark.columns import ARCHIVED
from queen.spark.errors import SparkError
from queen.spark.tables import TABLES

MESSAGES: Final = "messages"
LAKE_TABLES: Final[dict[str, StructType]] = {
    MESSAGES: ARCHIVED,
    "deliveries": TABLES["deliveries"],
    "dead_letters": StructType([*TABLES["dead_letters"].fields, StructField("is_encrypted", BooleanType())]),
    "redrives": StructType(
        [
            *[StructField(name, StringType()) for name in ("queue", "partition")],
            StructField("partition_id", LongType()), StructField("consumer_group", StringType()),
            StructField("seq", LongType()), StructField("id", StringType()), StructField("failed_at", TimestampType()),
            StructField("redriven_at", TimestampType()), StructField("redriven_as", StringType()),
        ]
    ),
    "workflow_history": StructType([*TABLES["workflow_history"].fields, StructField("completed_at", TimestampType())]),
}  # fmt: skip
"""As the connector has them; what is encrypted stays encrypted, and says so. A dead letter never changes: that it was
redriven is a row of its own."""
TIMES: Final = {
    MESSAGES: "created_at",
    "deliveries": "ended_at",
    "dead_letters": "failed_at",
    "redrives": "redriven_at",
    "workflow_history": "completed_at",
}
"""The time a row is filed under."""
GROUPS: Final = {table: "workflow" if table == "workflow_history" else "queue" for table in TIMES}
"""The name a row is filed under."""
REPEATED: Final = (
    "queue", "partition", "producer_sub", "consumer_group", "outcome", "workflow", "version", "kind", "status",
    "error_message",
)  # fmt: skip
"""Columns whose values repeat, so that a dictionary pays."""


def spark_schema(table: str) -> StructType:
    """The columns of a table."""
    if table not in LAKE_TABLES:
        raise SparkError("INVALID_OPTION", f"a lake has no table {table!r}; it has {', '.join(LAKE_TABLES)}")
    return LAKE_TABLES[table]


def arrow_schema(table: str) -> pa.Schema:
    """The columns of a table as they are in the files."""
    return to_arrow_schema(spark_schema(table), timezone="UTC")


def delta_schema(table: str) -> pa.Schema:
    """The columns of a table as its log has them: with the day by which files are divided."""
    return arrow_schema(table).append(pa.field("date", pa.date32()))


def divided_by(table: str) -> list[str]:
    """The columns that are the same in all rows of a file."""
    return [GROUPS[table], "date"]
