"""Make room in the target and let the source tell what changes; refuse before that whatever would fail later."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import asyncpg

from queen.db import migrate
from queen.sql import query
from queen.transfer.errors import TransferRefused, TransferStopped
from queen.transfer.link import Link, aim, read_columns
from queen.transfer.model import NEXT, OLD

if TYPE_CHECKING:
    from queen.db.migrate import Connection

LOCK_TRIES: Final = 20
LOCK_WAIT: Final = "2s"
LEAST_SERVER: Final = 150_000
UNMEASURED: Final = 1 << 30
ROOM: Final = 1.3


async def check(link: Link, *, target_free: int | None = None) -> None:
    """Refuse what cannot be copied: no rights, no room, names that do not fit, a target in use. Changes nothing."""
    await _check_rights(link)
    if link.state is None:
        await _check_target(link)
        await _check_names(link)
        await check_room(link, target_free)


async def _check_rights(link: Link) -> None:
    lacking = [row["lacking"] for row in await link.source.fetch(query("transfer/rights"), link.source_schema)]
    if not link.same:
        lacking += [row["lacking"] for row in await link.target.fetch(query("transfer/rights"), NEXT)]
    if lacking:
        shown = "; ".join(lacking[:4]) + (f"; and {len(lacking) - 4} more" if len(lacking) > 4 else "")
        raise TransferRefused(f"the role lacks rights: {shown}. Use the owner of the tables, or grant them")


async def _check_target(link: Link) -> None:
    row = await link.target.fetchrow(query("transfer/identity"))
    assert row is not None
    if row["version"] < LEAST_SERVER:
        raise TransferRefused("the target must be PostgreSQL 15 or newer")
    if await link.target.fetchval(query("transfer/has_schema"), NEXT):
        raise TransferRefused(f"the target has a schema {NEXT} that no transfer made: rename or drop it first")
    if link.same:
        return
    columns = await read_columns(link.target, OLD)
    if columns:
        raise TransferRefused(
            "the target already has a schema queen: give an empty database, or `drop schema queen cascade` in it if "
            "nothing there is needed"
        )


async def _check_names(link: Link) -> None:
    rows = await link.source.fetch(query(f"transfer/{link.version}/refused_names"))
    if rows:
        shown = "; ".join(f"{row['kind']} {row['name'][:60]!r}: {row['reason']}" for row in rows[:5])
        raise TransferRefused(f"the source has names that cannot be carried over: {shown}. Rename or remove them first")


async def check_room(link: Link, target_free: int | None) -> None:
    """Refuse a target whose disk is too small for what comes."""
    needed = await needed_bytes(link)
    free = target_free if target_free is not None else await free_bytes(link.target)
    if free is None and needed > UNMEASURED:
        raise TransferRefused(
            f"the copy needs about {needed >> 20:,} MiB on the target, and this role may not look how much is free "
            "there: say it by --target-free, in MiB"
        )
    if free is not None and free < needed:
        raise TransferRefused(
            f"the copy needs about {needed >> 20:,} MiB on the target, and {free >> 20:,} MiB are free: make room first"
        )


async def needed_bytes(link: Link) -> int:
    """About how much the copy takes on the target."""
    return int(ROOM * await link.source.fetchval(query("transfer/size"), link.source_schema))


async def free_bytes(connection: Connection) -> int | None:
    """How much room the disk of a server has; None when the role may not ask."""
    try:
        async with connection.transaction():
            await connection.execute(query("transfer/target/free_space"))
            return int(await connection.fetchval(query("transfer/target/free_bytes")))
    except (asyncpg.InsufficientPrivilegeError, asyncpg.ExternalRoutineError, ValueError):
        return None


async def prepare(link: Link) -> None:
    """Install the schema of the target beside the live one, and let the source tell of its changes. Safe to repeat."""
    if link.state is None:
        await _install(link)
        await link.reload()
    await aim(link)
    await link.target.execute(query("transfer/target/incoming"))
    await _watch(link)


async def _install(link: Link) -> None:
    """In one transaction: whoever looks sees the earlier schema all the time."""
    async with link.target.transaction():
        if link.same:
            await link.target.execute(query("transfer/target/hide_old"))
        await migrate.up(link.target)
        await link.target.execute(query("transfer/target/name_next"))
        if link.same:
            await link.target.execute(query("transfer/target/show_old"))
        await link.target.execute(query("transfer/target/tables"))
        await link.target.execute(query("transfer/target/begin"), link.version, link.identity)


async def _watch(link: Link) -> None:
    """Each table is locked against writers for an instant; one that is never free for that stops us, not them."""
    for attempt in range(LOCK_TRIES):
        try:
            async with link.source.transaction():
                await link.source.fetchval(query("transfer/lock_timeout"), LOCK_WAIT)
                await link.source.execute(query("transfer/watch"))
                await link.source.execute(query(f"transfer/{link.version}/watch"))
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(0.1 * (attempt + 1))
        else:
            return
    raise TransferStopped("the source is never free for the instant it takes to install triggers: try at a calmer time")
