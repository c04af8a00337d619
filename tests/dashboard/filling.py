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
    _pipelines(database)
    _parked(database)
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
        await connection.fetch(
            "update queen.partitions set oldest_at = oldest_at - interval '3 hours',"
            " last_created_at = last_created_at - interval '3 hours' where id = $1",
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


def _pipelines(database: str) -> None:
    """Runs with results of every shape, a lake, and what was summed up by the hour."""
    lake = uuid4()
    hot = [{"queue": text, "partition": text, "messages": 100 * number, "share": number / 10}
           for number, text in enumerate(CORPUS)]  # fmt: skip
    heat = [{"queue": "orders", "partitions": [*CORPUS[:2], "customer-1"], "slot_seconds": 3600.0,
             "counts": [[slot * lane for slot in range(24)] for lane in range(3)]}]  # fmt: skip
    clusters = [{"queue": "payments", "error": text, "count": 7, "trend": "rising", "slots": [0, 1, 2, 4]}
                for text in CORPUS]  # fmt: skip
    with psycopg.connect(database) as connection:
        for pipeline, figures, results in (
            ("rollups", {}, {"queues": [{"queue": "orders", "messages_in": 700, "wait_p95_ms": 1234.5}]}),
            ("skew", {}, {"hot_partitions": hot, "heat": heat}),
            ("triage", {}, {"clusters": clusters}),
            ("archive", {"lake": str(lake), "files": 3, "bytes": 1_234_567, "kept": 2500}, {}),
        ):
            run = uuid4()
            connection.execute(
                "insert into queen.pipeline_runs (id, pipeline, state, lake, master, rows, lag, figures, progress,"
                " started_at, finished_at, heartbeat_at) values (%s, %s, 'done', 'lake', 'local[2]', 1234, 0, %s,"
                ' \'{"step": "summing up", "done": 2, "total": 2}\', now() - interval \'1 minute\', now(), now())',
                (run, pipeline, json.dumps(figures)),
            )
            for kind, rows in results.items():
                for number, row in enumerate(rows):
                    connection.execute(
                        "insert into queen.pipeline_results (run_id, pipeline, kind, key, value)"
                        " values (%s, %s, %s, %s, %s)",
                        (run, pipeline, kind, str(number), json.dumps(row)),
                    )
        connection.execute(
            "insert into queen.archive_positions (lake, source, place, pos, until, updated_at)"
            " values (%s, 'messages', 'host:/data/lake', 100, null, now() - interval '3 minutes')",
            (lake,),
        )
        connection.execute(
            "insert into queen.rollups (queue, grain, bucket, messages_in, messages_out, wait_p95_ms, lag)"
            " select 'orders', 'hour', date_trunc('hour', now()) - n * interval '1 hour', 100 + n, 90, 250.0 * n, n"
            " from generate_series(0, 47) n"
        )


def _parked(database: str) -> None:
    """A workflow whose code does not fit what it has done, as a worker leaves it."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "insert into queen_durable.instances (instance, name, version, current_execution_id, created_at,"
            " updated_at) select 'checkout parked', 'checkout', '1.0.0', 1, t.ms, t.ms"
            " from (select (extract(epoch from now()) * 1000)::bigint - 7200000 as ms) t"
        )
        connection.execute(
            "insert into queen_durable.executions (instance, execution_id, status, output, started_at)"
            " select instance, 1, 'Parked', 'step 2 was charge, the code says ship', created_at"
            " from queen_durable.instances where instance = 'checkout parked'"
        )
