from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest

import queen
from queen.durable import Worker, WorkflowClient, WorkflowContext, activity, open_provider, workflow
from queen.spark.errors import SparkError
from tests.pipelines.support.lakes import Pond


def test_every_message_is_in_the_lake_once_as_it_was(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=3, per_partition=40)
    pond.queues.push("orders", "p1", {"é": [1, None]}, transaction_id="t-1", trace_id="0" * 32)
    first = pond.run("archive", rows="50")
    assert (first.rows, first.figures["messages"]) == (121, 121)
    assert pond.run("archive").rows == 0
    pond.queues.fill("payments/2026", partitions=1, per_partition=5)
    assert pond.run("archive").rows == 5
    assert pond.contents("orders") == {"p0": [*range(1, 41)], "p1": [*range(1, 42)], "p2": [*range(1, 41)]}
    row = pond.lake.read(pond.spark, "messages").where("transaction_id = 't-1'").first()
    stored = pond.queues.rows("select id::text, payload, created_at, pos from queen.messages where seq = 41")[0]
    assert row is not None
    assert (row.id, json.loads(row.payload), row.pos) == (stored[0], stored[1], stored[3])
    assert row.created_at.astimezone(UTC) == stored[2]
    today = datetime.now(UTC).date().isoformat()
    assert {(file.group, file.date) for file in pond.lake.state().of("messages")} <= {
        ("orders", today), ("payments/2026", today),
    }  # fmt: skip


def test_retention_takes_only_what_the_lake_has(pond: Pond) -> None:
    queues = pond.queues
    queues.rows(
        "select from queen.configure('orders', %s)",
        json.dumps({"retention_enabled": True, "retention_seconds": 1, "archive": True}),
    )
    queues.fill("orders", partitions=1, per_partition=10)
    pond.run("archive")
    queues.push("orders", "p0", "later")
    queues.age()
    assert queues.value("select sum(queen.retain_partitions(array[id])) from queen.partitions") == 10
    assert queues.contents("orders") == {"p0": ["later"]}
    assert pond.contents("orders") == {"p0": [*range(1, 11)]}


def test_messages_cleared_before_they_were_archived_are_told(pond: Pond) -> None:
    pond.queues.rows("select from queen.configure('orders', %s)", json.dumps({"archive": True}))
    pond.queues.fill("orders", partitions=1, per_partition=5)
    pond.run("archive")
    pond.queues.fill("orders", partitions=1, per_partition=5)
    pond.queues.rows("select queen.clear_queue('orders')")
    pond.queues.fill("orders", partitions=1, per_partition=5)
    with pytest.raises(SparkError, match="were removed before they were read") as caught:
        pond.run("archive")
    assert caught.value.code == "DATA_LOST"
    assert pond.run("archive", on_loss="skip").rows == 5
    assert pond.contents("orders") == {"p0": [*range(1, 6), *range(11, 16)]}


def test_deliveries_and_dead_letters_come_too(pond: Pond) -> None:
    queues = pond.queues
    queues.fill("orders", partitions=1, per_partition=5)
    with queen.connect_sync(queues.url) as client:
        client.ack(client.pop("orders", group="g", batch=2))
        client.ack(client.pop("orders", group="g", batch=1), status="dlq", error="no")
    pond.run("archive")
    deliveries = pond.lake.read(pond.spark, "deliveries")
    expected = queues.value("select count(*) from queen.deliveries")
    assert expected > 0
    assert deliveries.count() == expected
    assert pond.lake.read(pond.spark, "dead_letters").count() == 1
    assert pond.run("archive").rows == 0


@activity
async def double(number: int) -> int:
    return number * 2


@workflow
async def doubling(ctx: WorkflowContext, number: int) -> int:
    return await ctx.activity(double, number)


@workflow
async def waiting(ctx: WorkflowContext) -> int:
    return await ctx.event("go", int)


async def work_through(url: str) -> None:
    """Two workflows end, a third waits for ever."""
    async with (
        await open_provider(url) as provider,
        Worker(provider, workflows=[doubling, waiting], activities=[double]),
    ):
        client = WorkflowClient(provider)
        handles = [await client.start(doubling, number, id=f"w-{number}") for number in range(2)]
        await client.start(waiting, id="w-waits")
        assert [await handle.result() for handle in handles] == [0, 2]


HISTORY = """select h.instance, h.event_id, h.kind, h.data, e.status from queen_durable.history h
               join queen_durable.executions e using (instance, execution_id)
              where h.instance <> 'w-waits' order by 1, 2"""


def test_the_history_of_workflows_comes_when_they_have_ended(pond: Pond) -> None:
    asyncio.run(work_through(pond.queues.url))
    stored = pond.queues.rows(HISTORY)
    assert {row[2] for row in stored} >= {"OrchestrationStarted", "ActivityCompleted", "OrchestrationCompleted"}
    assert pond.run("archive").figures["workflow_history"] == len(stored)
    rows = pond.lake.read(pond.spark, "workflow_history").orderBy("instance", "event_id").collect()
    assert [(row.instance, row.event_id, row.kind, row.data, row.status) for row in rows] == stored
    assert {row.workflow for row in rows} == {"doubling"}
    assert all(row.started_at <= row.completed_at for row in rows)
    assert {file.group for file in pond.lake.state().of("workflow_history")} == {"doubling"}
    assert pond.run("archive").rows == 0
