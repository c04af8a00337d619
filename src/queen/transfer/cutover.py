"""Change sides: the source stops, the last changes come over, the copy becomes the schema `queen`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import asyncpg

from queen.db.migrate import connect
from queen.sql import query
from queen.transfer.errors import TransferRefused, TransferStopped
from queen.transfer.follow import Applied, catch_up, disk_full_is_told
from queen.transfer.link import Link, exclusive
from queen.transfer.model import OLD
from queen.transfer.verify import Named, Tally, compare, prepare_target

if TYPE_CHECKING:
    from queen.db.migrate import Connection

LOCK_TRIES: Final = 60
LOOKED_AT: Final = 200


async def cutover(link: Link, *, unverified: bool = False) -> float:
    """Let the target take over; returns for how many milliseconds nobody could write.

    Goes on where an earlier one was interrupted. Needs a passed verify, unless told to do without.
    """
    link.require("copied", "closing")
    if not unverified:
        await require_passed(link)
    started = time.monotonic()
    if link.source_schema == OLD:
        await prepare_target(link)
        async with disk_full_is_told():
            await catch_up(link)
            async with exclusive(link):
                link.require("copied", "closing")
                started = await _change_sides(link)
    if not link.same:
        async with link.target.transaction():
            await _open(link.target)
    pause = (time.monotonic() - started) * 1000
    await link.target.execute(query("transfer/target/paused_for"), pause)
    return pause


async def require_passed(link: Link) -> None:
    """Refuse unless the last verify found no difference."""
    row = await link.target.fetchrow(query("transfer/target/last_report"))
    if row is None or not row["passed"]:
        said = "has not been verified" if row is None else "differs from the source by the last verify"
        raise TransferRefused(f"the copy {said}: run `verify` first, and look into what it finds")


async def _change_sides(link: Link) -> float:
    """Under a lock on the source: the last changes, a look at them, and the names; when writers began to wait."""
    for attempt in range(LOCK_TRIES):
        started = time.monotonic()
        try:
            async with locked(link.source_dsn, OLD, f"transfer/{link.version}/lock", attempt) as locker:
                await _check(link, await catch_up(link, stopped=True))
                if link.same:
                    await locker.execute(query(f"transfer/{link.version}/put_aside"))
                    await _open(locker)
                else:
                    await link.target.execute(query("transfer/target/enter"), "closing")
                    await locker.execute(query(f"transfer/{link.version}/put_aside"))
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            # Whoever waited behind us goes on before we try again.
            await asyncio.sleep(0.05 * (attempt + 1))
            await catch_up(link)
        else:
            return started
    raise TransferStopped("the source is never free for the instant a cutover takes: try at a calmer time")


@asynccontextmanager
async def locked(dsn: str, schema: str, name: str, attempt: int) -> AsyncIterator[Connection]:
    """A transaction of its own that holds a lock on one side, commits when all went well and lets go otherwise.

    It gives up sooner than PostgreSQL looks for deadlocks (a second): who waits for it never becomes a victim.
    """
    async with connect(dsn) as connection:
        await connection.fetchval(query("transfer/search_path"), schema)
        async with connection.transaction():
            await connection.fetchval(query("transfer/lock_timeout"), f"{100 + 10 * attempt}ms")
            await connection.execute(query(name))
            yield connection


async def _check(link: Link, applied: Applied) -> None:
    """Compare what came last before anybody relies on it."""
    tally = Tally()
    last = sorted(applied.partitions or (), key=lambda each: each.id)[:LOOKED_AT]
    if last:
        await compare(link, [Named(each, "", str(each.former), 0) for each in last], tally)
    if tally.differences:
        first = tally.differences[0]
        raise TransferStopped(
            f"{len(tally.differences)} differences in what came last, such as {first.verdict} {first.name} in "
            f"{first.partition}: nothing was changed over; run `verify`"
        )


async def _open(connection: Connection) -> None:
    await connection.execute(query("transfer/target/baseline"))
    await connection.execute(query("transfer/target/open"))
    await connection.execute(query("transfer/target/enter"), "done")
