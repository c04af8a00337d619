"""SQL over the lake, and over the lake and the live queue as one, in this very process.

DuckDB rather than Spark, because it answers in the time Spark needs to start, and rather than Polars, because it knows
all of SQL, works with more rows than fit into memory, and reads what the connector reads without a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from queen.spark.errors import SparkError
from queen.spark.lake.files import State
from queen.spark.lake.joined import VIEW, Cut, choose
from queen.spark.lake.lake import Lake
from queen.spark.lake.tables import LAKE_TABLES, MESSAGES, delta_schema

OFFLINE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""Nothing is fetched from elsewhere."""
LIVE: Final = "live_messages"
NEEDS_DATABASE: Final = re.compile(rf"\b({VIEW}|{LIVE})\b", re.IGNORECASE)


@contextmanager
def opened(lake: Lake, state: State | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in which every table of the lake is a view of what is committed."""
    state = state or lake.state()
    lake.require_whole(state.files)
    with duckdb.connect(":memory:", config=OFFLINE) as connection:
        for table in LAKE_TABLES:
            log = lake.log(table, state.versions[table]) if table in state.versions else None
            connection.register(table, rows_of(table, log))
        yield connection


def rows_of(table: str, log: DeltaTable | None) -> Any:
    """A table as DuckDB takes it."""
    return delta_schema(table).empty_table() if log is None else log.to_pyarrow_dataset()


@contextmanager
def opened_with_live(lake: Lake, url: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the tables of the lake, `live_messages`, and both kinds of messages as `all_messages`."""
    with choose(lake, url) as cut, opened(lake) as connection:
        register_live(connection, cut)
        yield connection


def register_live(connection: duckdb.DuckDBPyConnection, cut: Cut) -> None:
    """Let messages be of the version that was chosen, and those that are not in it be there too."""
    connection.unregister(MESSAGES)
    connection.register(MESSAGES, rows_of(MESSAGES, cut.log))
    connection.register(LIVE, cut.live())
    names = delta_schema(MESSAGES).names
    columns = ", ".join(f'"{name}"' for name in names)
    cold, hot = (connection.table(table).project(columns) for table in (MESSAGES, LIVE))
    cold.union(hot).create_view(VIEW)


def needs_database(statement: str) -> bool:
    """Whether a statement asks for messages that are not in the lake."""
    return NEEDS_DATABASE.search(statement) is not None


@contextmanager
def connected(lake: Lake, statement: str, url: str | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in which there is what a statement asks for."""
    live = needs_database(statement)
    if live and url is None:
        raise SparkError("INVALID_QUERY", f"{VIEW} and {LIVE} need the address of the database besides the lake")
    with opened_with_live(lake, url) if live and url is not None else opened(lake) as connection:
        try:
            yield connection
        except duckdb.Error as error:
            raise SparkError("INVALID_QUERY", str(error).strip()) from None


def ask(lake: Lake, statement: str, url: str | None = None) -> pa.Table:
    """What a question returns, as Arrow; in a notebook with `.to_pandas()`.

        ask(Lake.open("lake"), "select queue, count(*) from all_messages group by queue", url)

    Tables are messages, deliveries, dead_letters and workflow_history of the lake; with the address of the database
    also `live_messages`, those that are not in the lake yet, and `all_messages`, every message once.
    """
    with connected(lake, statement, url) as connection:
        return connection.sql(statement).to_arrow_table()


def query(lake: Lake, statement: str, url: str | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names and rows a statement returns."""
    with connected(lake, statement, url) as connection:
        found = connection.execute(statement)
        return [column[0] for column in found.description or []], found.fetchall()
