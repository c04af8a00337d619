"""What a message looks like as a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from queen.spark.errors import SparkError

MESSAGES: Final = StructType(
    [
        StructField("queue", StringType()),
        StructField("partition", StringType()),
        StructField("partition_id", LongType()),
        StructField("seq", LongType()),
        StructField("id", StringType()),
        StructField("transaction_id", StringType()),
        StructField("trace_id", StringType()),
        StructField("parent_id", StringType()),
        StructField("payload", StringType()),
        StructField("created_at", TimestampType()),
        StructField("producer_sub", StringType()),
    ]
)


ARCHIVED: Final = StructType(
    [*MESSAGES.fields, StructField("pos", LongType()), StructField("is_encrypted", BooleanType())]
)
"""As the archive keeps it: what is encrypted stays encrypted, and says so."""


def chosen(available: StructType, names: Sequence[str]) -> StructType:
    """The columns named, in that order; all when none are."""
    known = {field.name: field for field in available.fields}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SparkError("INVALID_OPTION", f"there is no column {unknown[0]!r}; allowed are {', '.join(known)}")
    return StructType([known[name] for name in names]) if names else available


def checked(schema: StructType, available: StructType) -> StructType:
    """The schema a user gave, if it is made of our columns with their types."""
    ours = chosen(available, schema.fieldNames())
    for field, known in zip(schema.fields, ours.fields, strict=True):
        if field.dataType != known.dataType:
            wanted, given = known.dataType.simpleString(), field.dataType.simpleString()
            raise SparkError("INVALID_OPTION", f"column {field.name!r} is {wanted}, not {given}")
    return schema
