"""Words for tests of the engine: push numbers, pop them, say what is where."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

import asyncpg
import pytest

from queen.db.pool import Row
from queen.engine import Engine
from queen.model import QUEUE_MODE, Ack, AckStatus, LeaseAck, Message, NewMessage, PopRequest, Pushed
from queen.sql import query

if TYPE_CHECKING:
    Sql = asyncpg.Connection[asyncpg.Record]
else:
    Sql = asyncpg.Connection


# Whether somebody waits for a lock in this database.
WAITS_FOR_A_LOCK = (
    "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


@asynccontextmanager
async def connect(dsn: str, **settings: str) -> AsyncIterator[Sql]:
    """A connection of the test's own."""
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "test", **settings})
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


def message(number: int, queue: str = "q", partition: str = "p", **more: Any) -> NewMessage:
    """A message that carries a number."""
    return NewMessage(queue=queue, partition=partition, payload=json.dumps({"n": number}), **more)


async def push(engine: Engine, *numbers: int, queue: str = "q", partition: str = "p", **more: Any) -> list[Pushed]:
    """Push messages that carry these numbers."""
    return await engine.push([message(number, queue, partition, **more) for number in numbers])


async def pop(
    engine: Engine, batch: int = 100, *, queue: str = "q", group: str = QUEUE_MODE, **more: Any
) -> list[Message]:
    """Pop a batch at once."""
    return await engine.pop(PopRequest(queue=queue, group=group, batch=batch, **more))


def numbers(messages: Sequence[Message]) -> list[int]:
    """The numbers the messages carry."""
    return [json.loads(message.payload)["n"] for message in messages]


def acks(messages: Sequence[Message], status: AckStatus = "completed", error: str | None = None) -> list[Ack]:
    """The same outcome for each of the messages."""
    return [
        Ack(
            partition_id=message.partition_id,
            transaction_id=message.transaction_id,
            group=message.group,
            lease_id=message.lease_id,
            status=status,
            error=error,
        )
        for message in messages
    ]


def up_to(message: Message) -> LeaseAck:
    """Everything up to this message is done."""
    assert message.lease_id is not None
    return LeaseAck(
        partition_id=message.partition_id, lease_id=message.lease_id, up_to=message.seq, group=message.group
    )


def lease_of(messages: Sequence[Message]) -> UUID:
    """The one lease of these messages."""
    (lease,) = {message.lease_id for message in messages}
    assert lease is not None
    return lease


async def lane(sql: Sql, *, queue: str = "q", partition: str = "p", group: str = QUEUE_MODE) -> asyncpg.Record:
    """The cursor row of a group in a partition, with the partition's first and next seq."""
    row = await sql.fetchrow(
        "select c.*, p.first_seq, p.next_seq, queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as depth"
        "  from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id"
        "  join queen.queues q on q.id = p.queue_id"
        " where q.name = $1 and p.name = $2 and c.consumer_group = $3",
        queue, partition, group,
    )  # fmt: skip
    assert row is not None
    return row


async def dead(sql: Sql, *, queue: str = "q", group: str = QUEUE_MODE) -> list[int]:
    """The numbers of the dead letters of a group, oldest first."""
    rows = await sql.fetch(
        "select (d.payload ->> 'n')::int as n from queen.dead_letter_queue d join queen.queues q on q.id = d.queue_id"
        " where q.name = $1 and d.consumer_group = $2 order by d.id",
        queue, group,
    )  # fmt: skip
    return [row["n"] for row in rows]


async def stored(sql: Sql, *, queue: str = "q", partition: str = "p") -> list[tuple[int, int]]:
    """Seq and number of the messages kept in a partition, in order."""
    rows = await sql.fetch(
        "select m.seq, (m.payload ->> 'n')::int as n from queen.messages m"
        "  join queen.partitions p on p.id = m.partition_id"
        "  join queen.queues q on q.id = p.queue_id where q.name = $1 and p.name = $2 order by m.seq",
        queue, partition,
    )  # fmt: skip
    return [(row["seq"], row["n"]) for row in rows]


async def leased(sql: Sql) -> set[int]:
    """How many messages the live leases hold."""
    rows = await sql.fetch(
        "select distinct batch_to - batch_from + 1 from queen.partition_consumers where lease_id is not null"
    )
    return {row[0] for row in rows}


async def runs(sql: Sql) -> list[int]:
    """How many messages each lease held that ended, oldest first."""
    rows = await sql.fetch("select batch_to - batch_from + 1 from queen.deliveries order by ended_at, batch_to")
    return [row[0] for row in rows]


def count_calls(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the engine pops, acknowledges and looks for queues from now on, by the name of the query."""
    calls = Counter[str]()
    names = {query(name): name for name in ("engine/pop", "engine/ack_leases", "engine/matching_queues")}
    fetch = engine.database.fetch

    async def counted(statement: LiteralString, *values: object) -> list[Row]:
        if statement in names:
            calls[names[statement]] += 1
        return await fetch(statement, *values)

    monkeypatch.setattr(engine.database, "fetch", counted)
    return calls
