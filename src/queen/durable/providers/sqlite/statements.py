"""A connection that runs statements by the name of their file."""

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from queen.durable.provider import ProviderError
from queen.durable.providers.wake import Clock

__all__ = ["Statements", "connect"]

Parameters = Mapping[str, Any]
Row = tuple[Any, ...]

_ROOM = "queen.sql"
BUSY_SECONDS = 5.0
OLDEST_SQLITE = (3, 35, 0)


@cache
def _texts() -> dict[str, str]:
    folder = files(_ROOM).joinpath("durable", "sqlite")
    return {item.name.removesuffix(".sql"): item.read_text() for item in folder.iterdir() if item.is_file()}


@cache
def _migrations() -> list[str]:
    folder = files(_ROOM).joinpath("durable", "sqlite", "migrations")
    return [item.read_text() for item in sorted(folder.iterdir(), key=lambda item: item.name)]


class Statements:
    """The thread's side of the database: statements by name, inside whatever transaction is open."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self.connection = connection
        self.now_ms = clock
        self._texts = _texts()

    def rows(self, name: str, /, **parameters: Any) -> list[Row]:
        """All rows of a query or of a ``returning`` clause."""
        return self.connection.execute(self._texts[name], parameters).fetchall()

    def row(self, name: str, /, **parameters: Any) -> Row | None:
        """The first row."""
        found: Row | None = self.connection.execute(self._texts[name], parameters).fetchone()
        return found

    def value(self, name: str, /, **parameters: Any) -> Any:
        """The first column of the first row."""
        found = self.row(name, **parameters)
        return found[0] if found is not None else None

    def change(self, name: str, /, **parameters: Any) -> int:
        """How many rows a statement changed."""
        return self.connection.execute(self._texts[name], parameters).rowcount

    def change_many(self, name: str, parameters: Sequence[Parameters]) -> int:
        """How many rows a statement changed, run for each set of parameters."""
        return self.connection.executemany(self._texts[name], parameters).rowcount if parameters else 0

    def run(self, name: str) -> None:
        """Run a statement without parameters or rows."""
        self.connection.execute(self._texts[name])


def connect(path: str) -> sqlite3.Connection:
    """Open and migrate; several processes may do so at once."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise ProviderError("open", f"SQLite {needed} or newer is needed, this Python has {sqlite3.sqlite_version}")
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute(_texts()["use_wal"])
            break
        except sqlite3.OperationalError:
            # Switching to WAL does not honour the busy timeout.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute(_texts()["sync_full"])
    _migrate(connection)


def _migrate(connection: sqlite3.Connection) -> None:
    if _version(connection) >= len(_migrations()):
        return
    connection.execute(_texts()["begin_write"])
    try:
        for text in _migrations()[_version(connection) :]:
            for statement in _split(text):
                connection.execute(statement)
    except BaseException:
        connection.execute(_texts()["rollback"])
        raise
    connection.execute(_texts()["commit"])


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute(_texts()["schema_version"]).fetchone()[0]
    return version


def _split(script: str) -> Iterable[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
