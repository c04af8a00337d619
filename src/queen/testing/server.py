"""A PostgreSQL for tests: one embedded server per run, one database per test, copied from a template."""

from __future__ import annotations

import asyncio
import fcntl
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.migrate import Connection

TEMPLATE: Final = "queen_template"
# Speed before durability: tests do not look at what survives a power cut.
SETTINGS: Final[Mapping[str, str]] = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}


class TestServer:
    """The server of a test run. Processes that name the same directory share it."""

    __test__ = False

    def __init__(self, directory: Path | None = None) -> None:
        self._temporary = (
            None if directory else tempfile.TemporaryDirectory(prefix="queen-", ignore_cleanup_errors=True)
        )
        self._directory = directory or Path(self._temporary.name if self._temporary else "")
        self._directory.chmod(0o711)
        self._server = EmbeddedServer.start(self._directory / "server", settings=SETTINGS)
        with (self._directory / "template.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (self._directory / "template.done").exists():
                _run(self._make_template())
                (self._directory / "template.done").touch()

    async def _make_template(self) -> None:
        await self._on("postgres", lambda connection: self._create(connection, TEMPLATE, "template0"))

        async def fill(connection: Connection) -> None:
            for migrations in migrate.SETS.values():
                await migrate.up(connection, migrations)

        await self._on(TEMPLATE, fill)

    async def _create(self, connection: Connection, name: str, template: str) -> None:
        statement = await connection.fetchval(query("testing/create_database"), name, template)
        await connection.execute(statement)

    async def _drop(self, connection: Connection, name: str) -> None:
        await connection.execute(await connection.fetchval(query("testing/drop_database"), name))

    async def _on(self, database: str, work: Callable[[Connection], Awaitable[None]]) -> None:
        async with migrate.connect(self.url(database)) as connection:
            await work(connection)

    def url(self, database: str) -> str:
        """The address of one of its databases."""
        return urlunsplit(urlsplit(self._server.dsn())._replace(path=f"/{database}"))

    @contextmanager
    def database(self) -> Iterator[str]:
        """A fresh, empty Queen for the length of a block: its address."""
        name = f"test_{uuid.uuid4().hex}"
        _run(self._on("postgres", lambda connection: self._create(connection, name, TEMPLATE)))
        try:
            yield self.url(name)
        finally:
            _run(self._on("postgres", lambda connection: self._drop(connection, name)))

    def close(self) -> None:
        """Leave the server; the last process to do so stops it."""
        self._server.stop()
        if self._temporary is not None:
            self._temporary.cleanup()


def _run(work: Awaitable[None]) -> None:
    """Run to the end, also where a loop runs already."""

    async def main() -> None:
        await work

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, main()).result()
