"""A caller's transaction that stays open after it made a partition: only changes of the queue's groups wait for it."""

from __future__ import annotations

import pytest

from queen.engine import Engine
from queen.model import QUEUE_MODE
from tests.support.work import Sql, numbers, pop, push


@pytest.mark.parametrize("what", ["pause", "configure", "seek", "pop"])
async def test_an_open_transaction_that_made_a_partition_holds_up_nobody(engine: Engine, sql: Sql, what: str) -> None:
    """Each would wait until its lock times out, and fail."""
    await push(engine, 1)
    await engine.ack_messages(await pop(engine))
    async with sql.transaction():
        await sql.fetch("select queen.push('q', 'new', '{\"n\": 2}')")
        if what == "pause":
            await engine.queues.pause("q")
            await engine.queues.pause("q", paused=False)
        elif what == "configure":
            await engine.queues.configure("q", {"retry_limit": 1})
        elif what == "seek":
            assert (await engine.queues.seek("q", QUEUE_MODE, "end")).partitions > 0
        else:
            assert await pop(engine) == []
    assert numbers(await pop(engine)) == [2]
