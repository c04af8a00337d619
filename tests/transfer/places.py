"""Databases to move from and to, made quickly: the schema comes from the template instead of being installed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import psycopg

from queen.sql import query
from queen.transfer.follow import copy
from queen.transfer.generator import Sizes, generate
from queen.transfer.link import Link, open_link
from queen.transfer.model import Quiet, Version
from queen.transfer.prepare import check, prepare

SIZES = Sizes(queues=3, partitions=12, messages=300, groups=3)


async def hurry(dsn: str) -> None:
    """Have the schema of the template under the name of a copy, as `prepare` would have installed it."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(query("transfer/target/name_next"))
    finally:
        await connection.close()


async def begin(dsn: str, source: str, version: Version) -> None:
    """Note the beginning of a transfer into a database that has the schema already."""
    connection = await asyncpg.connect(dsn)
    other = await asyncpg.connect(source)
    try:
        row = await other.fetchrow(query("transfer/identity"))
        assert row is not None
        await connection.execute(query("transfer/target/tables"))
        await connection.execute(query("transfer/target/begin"), version, row["database"])
    finally:
        await connection.close()
        await other.close()


@asynccontextmanager
async def copied(
    database: str, version: Version, seed: str = "queen", source: str | None = None, sizes: Sizes = SIZES
) -> AsyncIterator[Link]:
    """A generated system, copied: into the same database, or from `source`."""
    await hurry(database)
    await generate(source or database, version, sizes, seed=seed)
    await begin(database, source or database, version)
    async with open_link(version, source or database, database) as link:
        await check(link)
        await prepare(link)
        await copy(link, Quiet())
        yield link


def ask(dsn: str, statement: str, *arguments: object) -> list[tuple[object, ...]]:
    """Rows of one statement."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), arguments or None)
        return cursor.fetchall() if cursor.description else []
