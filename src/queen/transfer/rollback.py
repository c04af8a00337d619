"""Change sides back: what happened since the cutover is written into the earlier tables, and they are live again."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import asyncpg

from queen.sql import query
from queen.transfer.cutover import locked
from queen.transfer.errors import TransferRefused, TransferStopped
from queen.transfer.link import Link, exclusive
from queen.transfer.model import NEXT, OLD
from queen.transfer.pipe import pipe

if TYPE_CHECKING:
    from queen.db.migrate import Connection

PIECE: Final = 20_000
LOCK_TRIES: Final = 60
HIGHEST_POS: Final = 2**62
_PARTITIONS: Final = "former_id queue_name name created_at last_activity"
_GROUPS: Final = "queue_name consumer_group mode start_at created_at"
_MESSAGES: Final = "former_id seq id transaction_id trace_id payload created_at is_encrypted producer_sub"
_STATES: Final = (
    "former_id consumer_group position_id next_id last_created_at skipped lease_token lease_expires_at "
    "lease_acquired_at batch retry_count consumed batches last_consumed_at"
)
_DEAD_LETTERS: Final = "former_id consumer_group message_id error_message retry_count created_at failed_at"


async def rollback(link: Link) -> float:
    """Let the earlier schema go on; returns for how many milliseconds nobody could write.

    Most messages are written back before anybody has to wait. Goes on where an earlier one was interrupted.
    """
    async with exclusive(link):
        link.require("done", "returning")
        return await _go_back(link)


async def _go_back(link: Link) -> float:
    started = time.monotonic()
    if not await link.target.fetchval(query("transfer/has_schema"), NEXT):
        await _require_no_schedule(link)
        await link.target.execute(query("transfer/target/enter"), "returning")
        async with link.source.transaction():
            await link.source.execute(query("transfer/unwatch"))
        await link.source.execute(query("transfer/back/incoming"))
        await _structure(link)
        async with link.target.transaction():
            below = await link.target.fetchval(query("transfer/back/horizon"))
        await _messages(link, below)
        started = await _change_sides(link)
    if not link.same:
        await link.source.execute(query(f"transfer/{link.version}/put_back"))
    await link.target.execute(query("transfer/target/enter"), "returned")
    pause = (time.monotonic() - started) * 1000
    await link.target.execute(query("transfer/target/paused_for"), pause)
    return pause


async def _require_no_schedule(link: Link) -> None:
    count = await link.target.fetchval(query("transfer/back/scheduled"))
    if count:
        raise TransferRefused(
            f"{count} scheduled messages wait for their time, and the earlier schema has no place for them: wait until "
            "they are delivered, or delete them (`queen queue scheduled`)"
        )


async def _change_sides(link: Link) -> float:
    for attempt in range(LOCK_TRIES):
        started = time.monotonic()
        try:
            async with locked(link.target_dsn, OLD, "transfer/target/lock", attempt) as locker:
                await _require_no_schedule(link)
                await link.source.execute(query("transfer/back/incoming"))
                await _structure(link)
                await _messages(link, HIGHEST_POS)
                async with link.source.transaction():
                    await _states(link, link.source)
                await locker.execute(query("transfer/target/close"))
                if link.same:
                    await locker.execute(query(f"transfer/{link.version}/put_back"))
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(0.05 * (attempt + 1))
        else:
            return started
    raise TransferStopped("the queues are never free for the instant a rollback takes: try at a calmer time")


async def _structure(link: Link) -> None:
    """Queues, partitions and groups that are new, or changed, or gone."""
    await link.target.execute(query("transfer/back/name_partitions"))
    queues = await link.target.fetchval(query("transfer/back/queues"))
    async with link.source.transaction():
        await link.source.execute(query("transfer/back/store_queues"), queues)
        await _arrive(link, "partitions", _PARTITIONS)
        await _arrive(link, "groups", _GROUPS)
        await link.source.execute(query("transfer/back/store_partitions"))
        await link.source.execute(query(f"transfer/{link.version}/back_groups"))
        await link.source.execute(query("transfer/back/clear"))


async def _messages(link: Link, below: int) -> None:
    """What was stored since the cutover, in batches; a batch that was written twice is there once."""
    await link.reload()
    assert link.state is not None
    last = link.state.last_pos or 0
    while reached := await link.target.fetchval(query("transfer/back/reached"), last, below, PIECE):
        async with link.source.transaction():
            arguments = (last, below, PIECE)
            statement = query("transfer/back/messages")
            await pipe(link.target, statement, arguments, link.source, "back_messages", _MESSAGES)
            await link.source.execute(query(f"transfer/{link.version}/back_messages"))
        last = reached
        await link.target.execute(query("transfer/back/set_pos"), last)


async def _states(link: Link, source: Connection) -> None:
    """Cursors, leases, statuses and dead letters; what was removed."""
    await _arrive(link, "states", _STATES)
    await _arrive(link, "gone", "former_id consumer_group")
    await _arrive(link, "dead_letters", _DEAD_LETTERS)
    await _arrive(link, "firsts", "former_id next_id")
    await _arrive(link, "kept", "former_id message_id")
    await source.execute(query("transfer/back/store_removals"))
    await source.execute(query(f"transfer/{link.version}/back_states"))
    await source.execute(query("transfer/back/store_dead_letters"))
    await source.execute(query("transfer/back/clear"))


async def _arrive(link: Link, name: str, columns: str) -> None:
    await pipe(link.target, query(f"transfer/back/{name}"), (), link.source, f"back_{name}", columns)
