"""The questions operators ask, as views."""

from __future__ import annotations

from typing import Any

import asyncpg

from queen.engine import Engine
from tests.support.wait import eventually
from tests.support.work import Sql, acks, pop, push


async def rows(sql: Sql, view: str) -> list[dict[str, Any]]:
    """Everything in a view."""
    return [dict(row) for row in await sql.fetch(f"select * from queen.{view} order by 1, 2")]


def columns(row: asyncpg.Record | dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


async def test_queue_depths(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("limited", {"max_queue_size": 10})
    await push(engine, 1, 2, 3, queue="limited")
    await push(engine, 1, queue="limited", partition="b")
    await engine.ack_messages(await pop(engine, 2, queue="limited"))
    pushed = await push(engine, 1, 2, queue="free")
    await engine.delete_message(pushed[0].partition_id, pushed[0].transaction_id)
    assert await rows(sql, "queue_depths") == [
        {"queue_name": "free", "current_depth": 1, "max_queue_size": 0, "remaining_capacity": None},
        {"queue_name": "limited", "current_depth": 2, "max_queue_size": 10, "remaining_capacity": 8},
    ]


async def test_active_leases(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine, 3, group="g", lease_seconds=60)
    await engine.ack(acks(got[:1]))
    (row,) = await rows(sql, "active_leases")
    assert columns(row, "queue_name", "partition_name", "consumer_group", "message_count") == ("q", "p", "g", 2)
    assert row["lease_expires_at"] == got[0].lease_expires_at
    assert 50 < row["seconds_remaining"] <= 60
    await engine.ack(acks(got[1:]))
    assert await rows(sql, "active_leases") == []


async def test_stuck_partitions(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, partition="a")
    await push(engine, 1, partition="b")
    await pop(engine, partition="a", lease_seconds=100)
    await pop(engine, partition="b", lease_seconds=1)
    (row,) = await rows(sql, "stuck_partitions")
    assert columns(row, "queue_name", "partition_name", "message_count") == ("q", "b", 1)
    assert row["lease_started_at"] < row["lease_expires_at"]
    assert row["lease_held_seconds"] >= 0
    await eventually(lambda: sql.fetchval("select seconds_remaining < 0 from queen.stuck_partitions"))
    assert [row["partition_name"] for row in await rows(sql, "active_leases")] == ["a"]


async def test_partition_utilization(engine: Engine, sql: Sql) -> None:
    for partition in "abc":
        await push(engine, 1, partition=partition)
    await pop(engine)
    await pop(engine, group="other", partitions=1)
    await engine.queues.configure("empty", {})
    found = {row["queue_name"]: row for row in await rows(sql, "partition_utilization")}
    names = ("total_partitions", "leased_partitions", "utilization_pct")
    assert columns(found["q"], *names[:2]) == (3, 1)
    assert float(found["q"]["utilization_pct"]) == 33.33
    assert columns(found["empty"], *names[:2]) == (1, 0)


async def test_cursor_progress(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    for _ in range(3):
        await engine.ack_messages(await pop(engine, 1))
    (row,) = await rows(sql, "cursor_progress")
    assert columns(row, "queue_name", "partition_name", "consumer_group") == ("q", "p", "__QUEUE_MODE__")
    assert columns(row, "total_messages_consumed", "total_batches_consumed") == (3, 3)
    assert row["last_consumed_at"] is not None


async def test_dead_letters_by_group(engine: Engine, sql: Sql) -> None:
    from queen.engine import Selection

    await push(engine, 1, 2)
    await engine.ack(acks(await pop(engine, group="a"), "dlq"))
    await engine.ack(acks(await pop(engine, 1, group="b"), "dlq"))
    await engine.dead_letters.redrive(Selection(group="b"))
    found = await rows(sql, "dead_letters_by_group")
    names = ("queue_name", "consumer_group", "dead_letters", "redriven")
    assert [columns(row, *names) for row in found] == [("q", "a", 2, 0), ("q", "b", 1, 1)]
    assert all(row["first_failed_at"] <= row["last_failed_at"] for row in found)
