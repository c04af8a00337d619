"""Questions to PostgreSQL through ADBC: each is one short transaction, asked again when the connection breaks."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import adbc_driver_manager
import adbc_driver_postgresql
import adbc_driver_postgresql.dbapi as driver
import pyarrow as pa

from queen.spark.errors import SparkError
from queen.sql import query

T = TypeVar("T")
Batches = list[pa.RecordBatch]
PATIENCE = 30.0
STATEMENT_LIMIT = "600000"
BATCH_BYTES = str(1 << 20)
CONFLICTS = ("40001", "40P01")


class Database:
    """One connection, made when needed and made anew when it breaks.

    A question is a file in `sql/queries/spark` and what it asks for, as JSON. Whatever is asked may
    be asked twice: after a broken connection nobody knows whether the first time was carried out.
    """

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        self._url = url
        self._patience = patience
        self._connection: Any = None

    def rows(self, name: str, **ask: object) -> list[dict[str, Any]]:
        """The answer as dictionaries."""
        found: list[dict[str, Any]] = self._persist(lambda: self._run(name, ask, bulk=False)).to_pylist()
        return found

    def row(self, name: str, **ask: object) -> dict[str, Any]:
        """The answer of a question that has exactly one row."""
        return self.rows(name, **ask)[0]

    def table(self, name: str, **ask: object) -> pa.Table:
        """The answer as Arrow, sent by COPY."""
        return self._persist(lambda: self._run(name, ask, bulk=True))

    def page(self, name: str, check: str, ask: dict[str, object]) -> tuple[pa.Table, list[dict[str, Any]]]:
        """A page of rows, and what is missing from it, as of one moment."""

        def both() -> tuple[pa.Table, list[dict[str, Any]]]:
            with self._open().cursor() as cursor:
                cursor.execute(query("spark/begin_page"))
            table = self._answer(name, ask, bulk=True)
            missing: list[dict[str, Any]] = self._answer(check, ask, bulk=False).to_pylist()
            self._open().commit()
            return table, missing

        return self._persist(both)

    def copy(self, table: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """Append rows to a table by COPY, all or none. Not asked again: the batches are gone then."""
        connection = self._open()
        refused: list[SparkError] = []
        try:
            with connection.cursor() as cursor:
                reader = pa.RecordBatchReader.from_batches(schema, keeping(batches, refused))
                count: int = cursor.adbc_ingest(table, reader, mode="append", db_schema_name="queen")
            connection.commit()
        except adbc_driver_manager.Error as error:
            self.close()
            raise (refused[0] if refused else explained(error)) from error
        return count

    def close(self) -> None:
        """End the connection; the next question makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(adbc_driver_manager.Error):
                connection.close()

    def _open(self) -> Any:
        if self._connection is None:
            self._connection = driver.connect(with_limits(self._url))
        return self._connection

    def _run(self, name: str, ask: dict[str, object], *, bulk: bool) -> pa.Table:
        table = self._answer(name, ask, bulk=bulk)
        self._open().commit()
        return table

    def _answer(self, name: str, ask: dict[str, object], *, bulk: bool) -> pa.Table:
        connection = self._open()
        with connection.cursor() as cursor:
            cursor.execute(query("spark/ask"), (json.dumps(ask), STATEMENT_LIMIT))
            cursor.fetchall()
        with connection.cursor() as cursor:
            cursor.adbc_statement.set_options(
                **{
                    adbc_driver_postgresql.StatementOptions.USE_COPY.value: str(bulk).lower(),
                    adbc_driver_postgresql.StatementOptions.BATCH_SIZE_HINT_BYTES.value: BATCH_BYTES,
                }
            )
            cursor.execute(query(f"spark/{name}"))
            return cursor.fetch_arrow_table()

    def _persist(self, attempt: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._patience
        pause = 0.1
        while True:
            try:
                return attempt()
            except (adbc_driver_manager.Error, pa.ArrowException) as error:
                self.close()
                if not passing(error) or time.monotonic() + pause > deadline:
                    raise explained(error) from error
                time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads retries, guards nothing
                pause = min(pause * 2, 2)


def keeping(batches: Iterable[pa.RecordBatch], refused: list[SparkError]) -> Iterator[pa.RecordBatch]:
    """The batches, and aside the error that ends them: the driver in between would make a text of it."""
    try:
        yield from batches
    except SparkError as error:
        refused.append(error)
        raise


def with_limits(url: str) -> str:
    """The address with a limit on connecting, and a name operators can see."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    return urlunsplit(
        parts._replace(query=urlencode({"connect_timeout": "10", "application_name": "queen-spark"} | given, safe="/"))
    )


def passing(error: Exception) -> bool:
    """Tell whether asking again may help: no connection, a server starting or stopping, a lost race."""
    state = getattr(error, "sqlstate", None) or ""
    if state in CONFLICTS or state.startswith(("08", "57P", "53")):
        return True
    return state in ("", "00000") and isinstance(error, adbc_driver_manager.OperationalError | pa.ArrowException)


def explained(error: Exception) -> SparkError:
    """The error of the database in our words."""
    fields = {key: value.decode(errors="replace") for key, value in dict(getattr(error, "details", [])).items()}
    fields = {str(key, "ascii") if isinstance(key, bytes) else key: value for key, value in fields.items()}
    said = fields.get("PG_DIAG_MESSAGE_PRIMARY") or str(error).strip()
    state = getattr(error, "sqlstate", None) or ""
    if state == "QU001":
        figures = json.loads(fields.get("PG_DIAG_MESSAGE_HINT") or "{}")
        return SparkError(fields.get("PG_DIAG_MESSAGE_DETAIL", "INTERNAL"), said, figures)
    if state in ("42P01", "42883", "3F000"):
        return SparkError(
            "SCHEMA_OUTDATED", f"the database lacks the schema of this release: run `queen migrate up` ({said})"
        )
    if state.startswith("22") or state == "23514":
        return SparkError("INVALID_ROW", f"a row cannot become a message: {said}")
    if passing(error):
        return SparkError("STORE_UNAVAILABLE", f"the database cannot be reached: {said}")
    return SparkError("STORE_FAILED", f"the database refused: {said}")
