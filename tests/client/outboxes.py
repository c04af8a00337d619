"""Connections of every kind that can carry a push, each with a transaction that commits or rolls back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import django.conf
import django.db
import psycopg
import sqlalchemy
from django.db import transaction as atomic
from sqlalchemy.ext import asyncio as alchemy
from sqlalchemy.orm import Session

import queen

INSERT = "insert into orders values ({})"


class RolledBack(Exception):
    """Leaves a transaction."""


@dataclass(frozen=True)
class Unit:
    """One open transaction: what to push on, and how to write a row of one's own."""

    push: Callable[[int], Awaitable[object]]
    insert: Callable[[int], Awaitable[object]]


Transactions = Callable[[], AbstractAsyncContextManager[Unit]]
Kind = Callable[[str, queen.Client], AbstractAsyncContextManager[Transactions]]


def _pushing(q: queen.Client, connection: object) -> Callable[[int], Awaitable[object]]:
    return lambda number: q.push("orders", number, partition=f"p{number % 3}", connection=connection)


@asynccontextmanager
async def by_asyncpg(url: str, q: queen.Client) -> AsyncIterator[Transactions]:
    connection = await asyncpg.connect(url)

    @asynccontextmanager
    async def begin() -> AsyncIterator[Unit]:
        async with connection.transaction():
            yield Unit(_pushing(q, connection), lambda number: connection.execute(INSERT.format(number)))

    yield begin
    await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(url: str, q: queen.Client) -> AsyncIterator[Transactions]:
    async with asyncpg.create_pool(url, min_size=1, max_size=2) as pool:

        @asynccontextmanager
        async def begin() -> AsyncIterator[Unit]:
            async with pool.acquire() as connection, connection.transaction():
                yield Unit(_pushing(q, connection), lambda number: connection.execute(INSERT.format(number)))

        yield begin


@asynccontextmanager
async def by_psycopg(url: str, q: queen.Client) -> AsyncIterator[Transactions]:
    async with await psycopg.AsyncConnection.connect(url) as connection:

        @asynccontextmanager
        async def begin() -> AsyncIterator[Unit]:
            async with connection.transaction():
                yield Unit(_pushing(q, connection), lambda number: connection.execute(INSERT.format(number).encode()))

        yield begin


@asynccontextmanager
async def by_psycopg_sync(url: str, q: queen.Client) -> AsyncIterator[Transactions]:
    with queen.connect_sync(url) as client, psycopg.connect(url) as connection:

        @asynccontextmanager
        async def begin() -> AsyncIterator[Unit]:
            try:
                yield Unit(
                    lambda number: asyncio.to_thread(
                        client.push, "orders", number, partition=f"p{number % 3}", connection=connection
                    ),
                    lambda number: asyncio.to_thread(connection.execute, INSERT.format(number).encode()),
                )
                connection.commit()
            finally:
                connection.rollback()

        yield begin


def sqlalchemy_url(url: str, driver: str) -> sqlalchemy.URL:
    parts = urlsplit(url)
    folder = parse_qs(parts.query).get("host", [None])[0]
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        parts.username and unquote(parts.username),
        parts.password and unquote(parts.password),
        folder or parts.hostname,
        parts.port,
        parts.path[1:],
    )


@asynccontextmanager
async def by_session(url: str, q: queen.Client) -> AsyncIterator[Transactions]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(url, "psycopg"))

    @asynccontextmanager
    async def begin() -> AsyncIterator[Unit]:
        with Session(engine) as session, session.begin():
            yield Unit(
                _pushing(q, session),
                lambda number: asyncio.to_thread(session.execute, sqlalchemy.text(INSERT.format(number))),
            )

    yield begin
    engine.dispose()


@asynccontextmanager
async def by_connection(url: str, q: queen.Client) -> AsyncIterator[Transactions]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(url, "psycopg"))

    @asynccontextmanager
    async def begin() -> AsyncIterator[Unit]:
        with engine.begin() as connection:
            yield Unit(
                _pushing(q, connection),
                lambda number: asyncio.to_thread(connection.execute, sqlalchemy.text(INSERT.format(number))),
            )

    yield begin
    engine.dispose()


@asynccontextmanager
async def by_async_session(url: str, q: queen.Client) -> AsyncIterator[Transactions]:
    """Over asyncpg, where a transaction begins with SQLAlchemy's first statement, not before."""
    engine = alchemy.create_async_engine(sqlalchemy_url(url, "asyncpg"))

    @asynccontextmanager
    async def begin() -> AsyncIterator[Unit]:
        async with alchemy.AsyncSession(engine) as session, session.begin():
            yield Unit(_pushing(q, session), lambda number: session.execute(sqlalchemy.text(INSERT.format(number))))

    yield begin
    await engine.dispose()


def configure_django(url: str) -> None:
    """Let `django.db.connection` be one to this database."""
    at = sqlalchemy_url(url, "psycopg")
    settings: dict[str, Any] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": at.database,
        "USER": at.username or "",
        "PASSWORD": at.password or "",
        "HOST": at.host or "",
        "PORT": at.port or "",
    }
    if not django.conf.settings.configured:
        django.conf.settings.configure(USE_TZ=True)
        django.setup()
    django.db.connections.settings = django.db.connections.configure_settings({"default": settings})


@asynccontextmanager
async def by_django(url: str, q: queen.Client) -> AsyncIterator[Transactions]:
    configure_django(url)
    loop = asyncio.get_running_loop()
    # Django's connection belongs to a thread: one thread does all of it.
    with queen.connect_sync(url) as client, ThreadPoolExecutor(1) as thread:

        def on_thread(call: Callable[[], object]) -> Awaitable[object]:
            return loop.run_in_executor(thread, call)

        def insert(number: int) -> None:
            with django.db.connection.cursor() as cursor:
                cursor.execute(INSERT.format(number))

        @asynccontextmanager
        async def begin() -> AsyncIterator[Unit]:
            block = atomic.atomic()
            await on_thread(block.__enter__)
            try:
                yield Unit(
                    lambda number: on_thread(
                        lambda: client.push(
                            "orders", number, partition=f"p{number % 3}", connection=django.db.connection
                        )
                    ),
                    lambda number: on_thread(lambda: insert(number)),
                )
            except RolledBack as error:
                rolled_back = error
                await on_thread(lambda: block.__exit__(RolledBack, rolled_back, None))
                raise
            await on_thread(lambda: block.__exit__(None, None, None))

        yield begin
        await on_thread(django.db.connections.close_all)


KINDS: dict[str, Kind] = {
    "asyncpg": by_asyncpg,
    "asyncpg pool": by_asyncpg_pool,
    "psycopg": by_psycopg,
    "psycopg sync": by_psycopg_sync,
    "sqlalchemy session": by_session,
    "sqlalchemy connection": by_connection,
    "sqlalchemy async session": by_async_session,
    "django": by_django,
}


async def transact(begin: Transactions, steps: list[tuple[str, int]], *, commit: bool) -> None:
    """One transaction of pushes and rows, ended one way or the other."""
    with contextlib.suppress(RolledBack):
        async with begin() as unit:
            for what, number in steps:
                await (unit.push if what == "push" else unit.insert)(number)
            if not commit:
                raise RolledBack
