"""Questions to PostgreSQL through ADBC: each is one short transaction, asked again when the connection breaks."""

from __future__ import annotations

import json
import random
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import adbc_driver_manager
import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager._reader import AdbcRecordBatchReader

from queen.spark.errors import SparkError
from queen.spark.limits import statement_limit
from queen.spark.unpacking import NAMED, Names, unpack
from queen.sql import query

T = TypeVar("T")
PATIENCE = 30.0
BATCH_BYTES = str(1 << 20)
TOO_LARGE = "54000"
CONFLICTS = ("40001", "40P01", "55P03")


class Connection:
    """ADBC itself rather than its DB-API, which loads pandas: workers are many and short-lived."""

    def __init__(self, url: str) -> None:
        self._database = adbc_driver_postgresql.connect(url)
        try:
            self._connection = adbc_driver_manager.AdbcConnection(self._database)
            self._connection.set_autocommit(False)
        except BaseException:
            self._database.close()
            raise

    def fetch(self, statement: str, values: Sequence[str] = (), *, bulk: bool = False) -> pa.Table:
        """What a statement returns; in bulk by COPY, which takes no values."""
        with adbc_driver_manager.AdbcStatement(self._connection) as prepared:
            prepared.set_options(
                **{
                    adbc_driver_postgresql.StatementOptions.USE_COPY.value: str(bulk).lower(),
                    adbc_driver_postgresql.StatementOptions.BATCH_SIZE_HINT_BYTES.value: BATCH_BYTES,
                }
            )
            prepared.set_sql_query(statement)
            if values:
                names = [f"value_{number}" for number in range(len(values))]
                prepared.bind(pa.RecordBatch.from_arrays([one_text(value) for value in values], names=names))
            stream, _ = prepared.execute_query()
            return AdbcRecordBatchReader._import_from_c(stream.address).read_all()

    def copy(self, table: str, reader: pa.RecordBatchReader) -> int:
        """Append the rows to a table of our schema by COPY."""
        with adbc_driver_manager.AdbcStatement(self._connection) as prepared:
            prepared.set_options(
                **{
                    adbc_driver_manager.StatementOptions.INGEST_TARGET_TABLE.value: table,
                    adbc_driver_manager.StatementOptions.INGEST_TARGET_DB_SCHEMA.value: "queen",
                    adbc_driver_manager.StatementOptions.INGEST_MODE.value: "adbc.ingest.mode.append",
                }
            )
            prepared.bind_stream(reader)
            return int(prepared.execute_update())

    def commit(self) -> None:
        """End the transaction; the next statement begins another."""
        self._connection.commit()

    def close(self) -> None:
        """End the connection, whatever state it is in."""
        for part in (self._connection, self._database):
            with suppress(adbc_driver_manager.Error):
                part.close()


class Database:
    """One connection, made when needed and made anew when it breaks.

    A question is a file in `sql/queries/spark` and what it asks for, as JSON. Whatever is asked may
    be asked twice: after a broken connection nobody knows whether the first time was carried out.
    """

    def __init__(
        self, url: str, *, patience: float = PATIENCE, limit: float | None = None, snapshot: str | None = None
    ) -> None:
        self._url = url
        self._snapshot = snapshot
        self._limit = f"{(limit or statement_limit()) * 1000:.0f}"
        self._patience = patience
        self._connection: Connection | None = None
        self._names = Names()

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

    def page(self, name: str, check: str, ask: dict[str, Any]) -> tuple[pa.Table, list[dict[str, Any]]]:
        """A page of rows, and what is missing from it, as of one moment."""

        def both() -> tuple[pa.Table, list[dict[str, Any]]]:
            connection = self._open()
            self._fix(connection)
            packed = self._answer(connection, name, ask, bulk=True)
            lacking = self._names.lacking(packed) if NAMED & set(ask["columns"]) else []
            if lacking:
                self._names.learn(self._answer(connection, "names", {"partitions": lacking}, bulk=False))
            missing: list[dict[str, Any]] = self._answer(connection, check, ask, bulk=False).to_pylist()
            connection.commit()
            return unpack(packed, self._names, ask["columns"]), missing

        return self._persist(both)

    def copy(self, table: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        """Append rows to a table by COPY, all or none. Not asked again: the batches are gone then."""
        refused: list[SparkError] = []
        try:
            connection = self._open()
            count = connection.copy(table, pa.RecordBatchReader.from_batches(schema, keeping(batches, refused)))
            connection.commit()
        except adbc_driver_manager.Error as error:
            self.close()
            raise (refused[0] if refused else explained(error)) from error
        return count

    def close(self) -> None:
        """End the connection; the next question makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(with_limits(self._url))
        return self._connection

    def _fix(self, connection: Connection) -> None:
        """Let the statements of the transaction see one moment: this one, or that of a snapshot."""
        connection.fetch(query("spark/begin_page"))
        if self._snapshot is not None:
            connection.fetch(query("spark/take_snapshot").format(snapshot=self._snapshot))

    def _run(self, name: str, ask: dict[str, object], *, bulk: bool) -> pa.Table:
        connection = self._open()
        if self._snapshot is not None:
            self._fix(connection)
        table = self._answer(connection, name, ask, bulk=bulk)
        connection.commit()
        return table

    def _answer(self, connection: Connection, name: str, ask: dict[str, object], *, bulk: bool) -> pa.Table:
        connection.fetch(query("spark/ask"), [json.dumps(ask), self._limit])
        return connection.fetch(query(f"spark/{name}"), bulk=bulk)

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


class Snapshot:
    """A moment of the database under a name by which others see it too, as long as this is open."""

    def __init__(self, url: str) -> None:
        self._connection = Connection(with_limits(url))
        try:
            self._connection.fetch(query("spark/begin_page"))
            (found,) = self._connection.fetch(query("spark/export_snapshot")).to_pylist()
        except BaseException:
            self._connection.close()
            raise
        self.name: str = found["snapshot"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def keeping(batches: Iterable[pa.RecordBatch], refused: list[SparkError]) -> Iterator[pa.RecordBatch]:
    """The batches, and aside the error that ends them: the driver in between would make a text of it."""
    try:
        yield from batches
    except SparkError as error:
        refused.append(error)
        raise


def one_text(value: str) -> pa.Array:
    """An array of one text, made from its bytes: `pa.array` would load pandas to see whether it is one of its own."""
    data = value.encode()
    return pa.StringArray.from_buffers(1, pa.py_buffer(struct.pack("=2i", 0, len(data))), pa.py_buffer(data))


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
    if state == TOO_LARGE:
        return SparkError("PAGE_TOO_LARGE", f"the messages are too large to be read: {said}")
    if state.startswith("22") or state == "23514":
        return SparkError("INVALID_ROW", f"a row cannot become a message: {said}")
    if passing(error):
        return SparkError("STORE_UNAVAILABLE", f"the database cannot be reached: {said}")
    return SparkError("STORE_FAILED", f"the database refused: {said}")
