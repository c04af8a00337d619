"""SQL over the lake in this very process: DuckDB over the files that count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import duckdb

from queen.spark.errors import SparkError
from queen.spark.lake.files import State
from queen.spark.lake.lake import Lake
from queen.spark.lake.tables import LAKE_TABLES, delta_schema

OFFLINE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""Nothing is fetched from elsewhere."""


@contextmanager
def opened(lake: Lake, state: State | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in which every table of the lake is a view of what is committed."""
    state = state or lake.state()
    lake.require_whole(state.files)
    with duckdb.connect(":memory:", config=OFFLINE) as connection:
        for table in LAKE_TABLES:
            log = lake.log(table, state.versions[table]) if table in state.versions else None
            rows = delta_schema(table).empty_table() if log is None else log.to_pyarrow_dataset()
            connection.register(table, rows)
        yield connection


def query(lake: Lake, statement: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names and rows a statement returns."""
    with opened(lake) as connection:
        try:
            found = connection.execute(statement)
            return [column[0] for column in found.description or []], found.fetchall()
        except duckdb.Error as error:
            raise SparkError("INVALID_QUERY", str(error).strip()) from None
