"""Stand-ins for the code of the earlier versions: producers and consumers in SQL, as their brokers would run it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
GONE = (
    asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError, asyncpg.DataError,
    asyncpg.DatatypeMismatchError, asyncpg.UndefinedFunctionError, asyncpg.SyntaxOrAccessError,
    asyncpg.IntegrityConstraintViolationError, asyncpg.InvalidCachedStatementError,
)  # fmt: skip
"""What earlier code meets once the schema is another."""


@dataclass
class Batch:
    """What a consumer was handed."""

    partition: UUID
    group: str
    token: str
    numbers: list[int]
    last: tuple[object, UUID]
    ids: list[UUID]


async def push(connection: Connection, partition: UUID, number: int) -> None:
    await connection.execute(
        "insert into queen.messages (id, transaction_id, partition_id, payload, created_at) "
        "values ($1, $2, $3, $4, clock_timestamp())",
        uuid4(), f"{partition}-{number}", partition, json.dumps({"n": number}),
    )  # fmt: skip


class V3:
    """One row per partition and group holds cursor and lease."""

    async def pop(self, connection: Connection, group: str, size: int) -> Batch | None:
        async with connection.transaction():
            row = await connection.fetchrow(
                "select c.partition_id, coalesce(c.last_consumed_created_at, '-infinity') as at, c.last_consumed_id "
                "from queen.partition_consumers c where c.consumer_group = $1 "
                "and (c.lease_expires_at is null or c.lease_expires_at < now()) "
                "and exists (select from queen.messages m where m.partition_id = c.partition_id "
                "and (m.created_at, m.id) > (coalesce(c.last_consumed_created_at, '-infinity'), c.last_consumed_id)) "
                "order by random() limit 1 for update skip locked",
                group,
            )
            if row is None:
                return None
            rows = await connection.fetch(
                "select id, created_at, payload from queen.messages where partition_id = $1 "
                "and (created_at, id) > ($2, $3) order by created_at, id limit $4",
                row["partition_id"], row["at"], row["last_consumed_id"], size,
            )  # fmt: skip
            token = str(uuid4())
            await connection.execute(
                "update queen.partition_consumers set worker_id = $3, lease_expires_at = now() + interval '1 hour', "
                "lease_acquired_at = now(), message_batch = $4, batch_size = $5, acked_count = 0 "
                "where partition_id = $1 and consumer_group = $2",
                row["partition_id"], group, token, json.dumps([str(each["id"]) for each in rows]), len(rows),
            )  # fmt: skip
        return _batch(row["partition_id"], group, token, rows)

    async def ack(self, connection: Connection, batch: Batch) -> bool:
        done = await connection.execute(
            "update queen.partition_consumers set last_consumed_created_at = $4, last_consumed_id = $5, "
            "total_messages_consumed = total_messages_consumed + $6, worker_id = null, lease_expires_at = null, "
            "message_batch = null, batch_size = 0, last_consumed_at = now() "
            "where partition_id = $1 and consumer_group = $2 and worker_id = $3",
            batch.partition, batch.group, batch.token, *batch.last, len(batch.ids),
        )  # fmt: skip
        return done == "UPDATE 1"


class V2:
    """A lease in one table; what is finished by a cursor in another, or by status rows: group `b` has only those."""

    async def pop(self, connection: Connection, group: str, size: int) -> Batch | None:
        async with connection.transaction():
            row = await connection.fetchrow(
                "select l.partition_id from queen.partition_leases l where l.consumer_group = $1 "
                "and (l.released_at is not null or l.lease_expires_at < now()) "
                "order by random() limit 1 for update skip locked",
                group,
            )
            if row is None:
                return None
            rows = await connection.fetch(
                "select m.id, m.created_at, m.payload from queen.messages m left join queen.partition_cursors c "
                "on c.partition_id = m.partition_id and c.consumer_group = $2 where m.partition_id = $1 "
                "and not exists (select from queen.messages_status s where s.message_id = m.id "
                "and s.consumer_group = $2 and s.status in ('completed', 'failed', 'dead_letter')) "
                "and ($4 or not coalesce((m.created_at, m.id) <= "
                "(c.last_consumed_created_at, c.last_consumed_id), false)) "
                "order by m.created_at, m.id limit $3",
                row["partition_id"], group, size, group == "b",
            )  # fmt: skip
            if not rows:
                return None
            await connection.execute(
                "update queen.partition_leases set released_at = null, lease_expires_at = now() + interval '1 hour', "
                "message_batch = $3, batch_size = $4, acked_count = 0, created_at = now() "
                "where partition_id = $1 and consumer_group = $2",
                row["partition_id"], group, json.dumps([str(each["id"]) for each in rows]), len(rows),
            )  # fmt: skip
        return _batch(row["partition_id"], group, "", rows)

    async def ack(self, connection: Connection, batch: Batch) -> bool:
        async with connection.transaction():
            if batch.group == "b":
                await connection.execute(
                    "insert into queen.messages_status (message_id, consumer_group, status, completed_at) "
                    "select n, $2, 'completed', now() from unnest($1::uuid[]) n "
                    "on conflict (message_id, consumer_group) do update set status = 'completed'",
                    batch.ids, batch.group,
                )  # fmt: skip
            else:
                await connection.execute(
                    "insert into queen.partition_cursors (partition_id, consumer_group, last_consumed_created_at, "
                    "last_consumed_id) values ($1, $2, $3, $4) on conflict (partition_id, consumer_group) do update "
                    "set last_consumed_created_at = excluded.last_consumed_created_at, "
                    "last_consumed_id = excluded.last_consumed_id",
                    batch.partition, batch.group, *batch.last,
                )  # fmt: skip
            done = await connection.execute(
                "update queen.partition_leases set released_at = now() "
                "where partition_id = $1 and consumer_group = $2 and released_at is null",
                batch.partition, batch.group,
            )  # fmt: skip
        return done == "UPDATE 1"


def _batch(partition: UUID, group: str, token: str, rows: list[asyncpg.Record]) -> Batch:
    numbers = [json.loads(row["payload"])["n"] for row in rows]
    last = (rows[-1]["created_at"], rows[-1]["id"])
    return Batch(partition, group, token, numbers, last, [row["id"] for row in rows])


async def found(connection: Connection, version: str, partitions: int, groups: tuple[str, ...]) -> dict[UUID, str]:
    """A queue with partitions and groups that have nothing yet; partitions by id, with their names."""
    queue = await connection.fetchval("insert into queen.queues (name, lease_time) values ('live', 3600) returning id")
    made: dict[UUID, str] = {}
    for number in range(partitions):
        name = f"p{number}"
        identity = await connection.fetchval(
            "insert into queen.partitions (queue_id, name) values ($1, $2) returning id", queue, name
        )
        made[identity] = name
        for group in groups:
            if version == "v3":
                await connection.execute(
                    "insert into queen.partition_consumers (partition_id, consumer_group) values ($1, $2)",
                    identity,
                    group,
                )
            else:
                await connection.execute(
                    "insert into queen.partition_leases (partition_id, consumer_group, lease_expires_at, released_at) "
                    "values ($1, $2, now(), now())", identity, group
                )  # fmt: skip
    return made
