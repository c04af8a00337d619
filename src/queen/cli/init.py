"""`queen init`: make a database ready."""

from __future__ import annotations

import asyncio

import click

from queen.cli.target import Target, confirm, targeted
from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database
from queen.db.repair import repair as put_back
from queen.errors import SchemaOutdated, StoreUnavailable
from queen.sql import query


@click.command()
@click.option("--reset", is_flag=True, help="Drop everything of Queen's first.")
@click.option("--repair", is_flag=True, help="Put back functions, views and indexes that are missing or were altered.")
@click.option("--roles", is_flag=True, help="Also make queen_producer, queen_consumer, queen_observer, queen_admin.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@targeted
def command(target: Target, /, **flags: bool) -> None:
    """Make a database ready: create the schema, or bring it up to date."""
    if target.url is not None and target.url.startswith("http"):
        raise click.UsageError("init works on a database: give --url postgresql://..., or none for the embedded one")
    if target.url is not None:
        asyncio.run(_prepare(target, target.url, **flags))
        return
    with EmbeddedServer.start(target.settings.data_dir) as server:
        asyncio.run(_prepare(target, server.dsn(), **flags))


async def _prepare(target: Target, url: str, *, reset: bool, repair: bool, roles: bool, yes: bool) -> None:
    if reset:
        queues, messages = await _contents(url)
        confirm(f"This drops {queues:,} queues with {messages:,} messages, and all workflows.", yes=yes)
    applied: list[str] = []
    mended: list[str] = []
    try:
        async with migrate.connect(url) as connection:
            for migrations in reversed(list(migrate.SETS.values())) if reset else ():
                await migrate.down(connection, migrations, to=0)
            for migrations in migrate.SETS.values():
                applied += await migrate.up(connection, migrations)
            for migrations in migrate.SETS.values() if repair else ():
                mended += [str(one) for one in await put_back(connection, migrations)]
            if roles:
                await migrate.make_roles(connection)
    except ConnectionError as error:
        raise StoreUnavailable(str(error)) from error
    if repair:
        target.done(
            "\n".join([*mended, f"ready, {len(mended)} put back" if mended else "ready, nothing was missing"]),
            repaired=mended,
        )
        return
    target.done(f"ready, {len(applied)} files applied" if applied else "ready, nothing to do", applied=len(applied))


async def _contents(url: str) -> tuple[int, int]:
    async with Database(url) as database:
        try:
            row = await database.fetchrow(query("client/contents"))
        except SchemaOutdated:
            return 0, 0
        return row["queues"], row["messages"]
