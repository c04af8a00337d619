"""What runs found: rows of `queen.pipeline_results`, each JSON under a kind and a key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from math import isfinite
from typing import Any, Final

from pyspark.sql import DataFrame

from queen.spark.database import Database
from queen.spark.errors import SparkError

AT_ONCE: Final = 1000


class RunResults:
    """The results of one run."""

    def __init__(self, database: Database, run: str) -> None:
        self._database = database
        self._run = run

    def write(self, kind: str, rows: DataFrame | Iterable[Mapping[str, object]], key: str) -> int:
        """Store rows under a kind and the text of their key columns; returns how many."""
        names = [name.strip() for name in key.split(",")]
        given = (row.asDict(recursive=True) for row in rows.toLocalIterator()) if isinstance(rows, DataFrame) else rows
        ready = ({"key": key_of(row, names), "value": plain(row)} for row in given)
        count = 0
        while chunk := list(islice(ready, AT_ONCE)):
            unique = list({one["key"]: one for one in chunk}.values())
            self._database.rows("pipelines/write_results", id=self._run, kind=kind, rows=unique)
            count += len(unique)
        return count


def read(database: Database, pipeline: str, kind: str, *, run: str | None = None) -> Iterator[dict[str, Any]]:
    """The results of a pipeline's newest good run, or of the run named, in order of their keys."""
    after = ""
    while True:
        ask = {"pipeline": pipeline, "kind": kind, "after": after, "limit": AT_ONCE, "run": run}
        rows = database.rows("pipelines/read_results", **ask)
        for row in rows:
            yield json.loads(row["value"])
        if len(rows) < AT_ONCE:
            return
        after = rows[-1]["key"]


def key_of(row: Mapping[str, object], names: Iterable[str]) -> str:
    """The text that tells a row apart."""
    try:
        values = [plain(row[name]) for name in names]
    except KeyError as error:
        raise SparkError("INVALID_ROW", f"a result has no column {error.args[0]!r} to be known by") from None
    return "/".join("" if value is None else str(value) for value in values)


def plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO texts in UTC (Spark hands them out in local time), numbers as numbers."""
    match value:
        case Mapping():
            return {str(name): plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case datetime():
            return value.astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
        case float():
            return value if isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case _:
            return value
