"""The PostgreSQL of a test run: one server, one template, a database per test."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
from psycopg import sql

from queen.db import migrate
from queen.db.embedded import EmbeddedServer

TEMPLATE = "queen_template"
RUN = "QUEEN_TEST_RUN"
MAJOR = int(os.environ.get("QUEEN_TEST_PG_MAJOR", "18"))
DIRECTORY = "QUEEN_TEST_DIRECTORY"
ROOM = 8 << 30
# Speed for tests that do not look at durability; crash tests start a server of their own.
HASTY: Mapping[str, str] = {"fsync": "off", "full_page_writes": "off", "max_connections": "400"}


class Postgres:
    """The server of this test run."""

    def __init__(self, url: str, server: EmbeddedServer | None = None) -> None:
        self.url = url
        self.server = server
        # One thread, so that what it is given is done in that order.
        self._aside = ThreadPoolExecutor(1, "databases")
        self._next: dict[str, Future[str]] = {}

    def dsn(self, database: str) -> str:
        """The address of one of its databases."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}")) if self.url else ""

    @contextmanager
    def scratch(self, template: str) -> Iterator[str]:
        """Make a database like `template`, give its address, and drop it.

        The next one is made, and the last one dropped, aside while a test goes on: that takes as long as most tests.
        """
        made = self._next.get(template) or self._aside.submit(self._make, template)
        self._next[template] = self._aside.submit(self._make, template)
        name = made.result()
        try:
            yield self.dsn(name)
        finally:
            self._aside.submit(self._drop, name).add_done_callback(Future.result)

    def close(self) -> None:
        """Drop what was made for tests that did not come."""
        for made in self._next.values():
            self._drop(made.result())
        self._aside.shutdown()

    def _make(self, template: str) -> str:
        name = f"test_{uuid.uuid4().hex}"
        self.execute("create database {} template {} strategy file_copy", name, template)
        return name

    def _drop(self, name: str) -> None:
        self.execute("drop database if exists {} with (force)", name)

    def execute(self, statement: str, *names: str) -> None:
        """Run one statement about databases."""
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def exists(self, database: str) -> bool:
        """Tell whether there is such a database."""
        with psycopg.connect(self.dsn("postgres")) as connection:
            return bool(connection.execute("select from pg_database where datname = %s", [database]).fetchall())


def name_run() -> None:
    """Give the run a name that its workers inherit."""
    os.environ.setdefault(RUN, str(os.getpid()))
    os.environ.setdefault(DIRECTORY, str(roomy() / f"queen-test-{os.environ[RUN]}"))


def run_directory() -> Path:
    """A directory that all workers of one test run share, reachable for the server's own user."""
    path = Path(os.environ[DIRECTORY])
    path.mkdir(mode=0o711, exist_ok=True)
    return path


def roomy() -> Path:
    """Where there is one, a file system in memory: a database per test is hundreds of files made and removed."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        return Path(tempfile.gettempdir())
    room = os.statvfs(memory)
    return memory if room.f_bavail * room.f_frsize >= ROOM else Path(tempfile.gettempdir())


def forget_run() -> None:
    """Remove the directory; only the process that named the run may, once its workers are gone."""
    if os.environ[RUN] == str(os.getpid()):
        shutil.rmtree(run_directory(), ignore_errors=True)


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory inside that of the run, removed after use."""
    path = run_directory() / uuid.uuid4().hex[:8]
    path.mkdir(mode=0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def run_server() -> Iterator[Postgres]:
    """The server all workers share, with the template made; or the one QUEEN_TEST_DATABASE_URL names."""
    if url := os.environ.get("QUEEN_TEST_DATABASE_URL"):
        with closing(Postgres(url)) as postgres:
            make_template(postgres)
            yield postgres
        return
    with (
        EmbeddedServer.start(run_directory(), major=MAJOR, settings=HASTY) as server,
        closing(Postgres(server.dsn(), server)) as postgres,
    ):
        make_template(postgres)
        yield postgres


def make_template(postgres: Postgres) -> None:
    """Make the template once, and migrate it; whoever comes second waits and finds it done."""
    making = f"{TEMPLATE}_making"
    with (run_directory() / "template.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run_directory() / "template.done"
        if done.exists():
            return
        postgres.execute("drop database if exists {} with (force)", making)
        postgres.execute("drop database if exists {} with (force)", TEMPLATE)
        postgres.execute("create database {}", making)
        asyncio.run(_migrate(postgres.dsn(making)))
        postgres.execute("alter database {} rename to {}", making, TEMPLATE)
        done.touch()


async def _migrate(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for migrations in migrate.SETS.values():
            await migrate.up(connection, migrations)
    finally:
        await connection.close()
