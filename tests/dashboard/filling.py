"""What the browser tests look at: a shop's history, hostile names, a stuck partition, workflows, a pipeline."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

import psycopg

from queen.demo.history import make_history
from queen.demo.storing import store
from queen.durable import (
    Schedules,
    Worker,
    WorkflowClient,
    WorkflowContext,
    WorkflowFailed,
    activity,
    open_provider,
    workflow,
)
from queen.durable.testing import eventually
from queen.engine import Engine
from queen.engine.traces import Traces
from queen.model import Ack, NewMessage, PopRequest

MESSAGES = 2500
CORPUS = (
    "<script>window.pwned=1</script>",
    "\"><img src=x onerror=window.pwned=1>",
    "' onmouseover='window.pwned=1",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.pwned=1//",
    "</textarea></title><svg onload=window.pwned=1>",
)  # fmt: skip
STUCK = "stuck.payments"


@activity
async def charge(order: str) -> str:
    if "fails" in order:
        raise RuntimeError(f"the bank refused {CORPUS[0]}")
    return f"receipt for {order}"


@workflow(name="checkout")
async def checkout(ctx: WorkflowContext, order: str) -> str:
    ctx.status = {"order": order}
    receipt = await ctx.activity(charge, order)
    if "waits" in order:
        await ctx.receive("approval")
    return receipt


@workflow(name="nightly")
async def nightly(ctx: WorkflowContext) -> str:
    return "done"


@dataclass(frozen=True)
class Filled:
    """Where to look."""

    trace: str
    message: str
    dead_letter: int


async def fill(database: str) -> Filled:
    """Put everything there is to see into a database."""
    async with Engine.connect(database, listen=False) as engine:
        history = make_history(MESSAGES, 0.2, seed=7, until=datetime.now(UTC), plain=False)
        await store(engine, history, "")
        for text in CORPUS:
            await _hostile(engine, text)
        await _stuck(engine)
    await _workflows(database)
    _pipeline(database)
    with psycopg.connect(database) as connection:
        dead = connection.execute("select min(id) from queen.dead_letter_queue").fetchone()
        found = connection.execute(
            "select m.trace_id, m.partition_id, coalesce(m.transaction_id, m.id::text) from queen.messages m"
            " join queen.partitions p on p.id = m.partition_id join queen.queues q on q.id = p.queue_id"
            " where q.name = 'shipping' and m.trace_id is not null limit 1"
        ).fetchone()
    assert dead is not None
    assert found is not None
    return Filled(str(found[0]), f"message?partition={found[1]}&transaction={found[2]}", dead[0])


async def _hostile(engine: Engine, text: str) -> None:
    await engine.queues.configure(text, {}, namespace=text, task=text)
    items = [
        NewMessage(queue=text, partition=text, payload=json.dumps({text: text}), transaction_id=text,
                   producer_sub=text, trace_id=uuid4()),
        NewMessage(queue=text, partition=text, payload="1"),
    ]  # fmt: skip
    await engine.push(items)
    (popped,) = await engine.pop(PopRequest(queue=text, group=text))
    traces = Traces(engine.database, engine.keys)
    await traces.record(
        popped.partition_id, popped.transaction_id, json.dumps(text), group=text, event_type=text, names=[text]
    )
    ack = Ack(
        partition_id=popped.partition_id, transaction_id=text, group=text, lease_id=popped.lease_id, status="dlq",
        error=text,
    )  # fmt: skip
    await engine.ack([ack])


async def _stuck(engine: Engine) -> None:
    """A partition whose first message has failed for hours."""
    await engine.queues.configure(STUCK, {"retry_limit": 100, "retry_delay": 3_600_000, "lease_time": 60})
    items = [
        NewMessage(queue=STUCK, partition="customer-7", payload=json.dumps({"n": n}), transaction_id=f"payment-{n}")
        for n in range(25)
    ]
    await engine.push(items)
    (popped,) = await engine.pop(PopRequest(queue=STUCK, group="billing"))
    ack = Ack(
        partition_id=popped.partition_id, transaction_id=popped.transaction_id, group="billing",
        lease_id=popped.lease_id, status="failed", error="CardDeclined",
    )  # fmt: skip
    await engine.ack([ack])
    async with engine.database.connection() as connection:
        await connection.fetch(
            "update queen.messages set created_at = created_at - interval '3 hours' where partition_id = $1",
            popped.partition_id,
        )


async def _workflows(database: str) -> None:
    async with (
        await open_provider(database) as provider,
        Worker(provider, workflows=[checkout, nightly], activities=[charge]),
    ):
        client = WorkflowClient(provider)
        handles = [await client.start(checkout, order, id=f"checkout {order}") for order in ("one", "fails", *CORPUS)]
        await client.start(checkout, "waits", id="checkout waits")
        await Schedules(provider).put("night", nightly, cron="0 4 * * *")

        for handle in handles:
            with suppress(WorkflowFailed):
                await handle.result(60)
        await eventually(Schedules(provider).list, within=60)


def _pipeline(database: str) -> None:
    with psycopg.connect(database) as connection:
        run = uuid4()
        connection.execute(
            "insert into queen.pipeline_runs (id, pipeline, state, lake, master, rows, lag, figures, progress,"
            " options, versions, started_at, finished_at, heartbeat_at)"
            " values (%s, 'rollups', 'done', 'lake', 'local[2]', 1234, 0, '{}', '{\"stage\": 3}', '{}', '{}',"
            " now() - interval '1 minute', now(), now())",
            (run,),
        )
        for number, text in enumerate(CORPUS):
            connection.execute(
                "insert into queen.pipeline_results (run_id, pipeline, kind, key, value)"
                " values (%s, 'rollups', 'skew', %s, %s)",
                (run, str(number), json.dumps({"queue": text, "messages": 100 * number})),
            )
