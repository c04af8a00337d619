"""Does a pop and its ack cost the same at any depth, progress, number of partitions and of groups?"""

from __future__ import annotations

import json
import statistics
import sys
import time

from loads import PAYLOAD, sql

from queen.engine import Engine
from queen.ids import uuid7s
from queen.model import PopRequest

CYCLES = 200
# (messages pending, share consumed, partitions, groups)
SMALL = [
    (1_000, 0.0, 100, 1),
    (20_000, 0.0, 100, 1),
    (20_000, 0.99, 100, 1),
    (20_000, 0.0, 5_000, 1),
    (1_000, 0.0, 100, 12),
]
FULL = [
    (1_000, 0.0, 100, 1),
    (1_000_000, 0.0, 100, 1),
    (1_000_000, 0.5, 100, 1),
    (1_000_000, 0.99, 100, 1),
    (1_000_000, 0.0, 10_000, 1),
    (1_000_000, 0.0, 100_000, 1),
    (1_000, 0.0, 100, 12),
]


async def flatness(engine: Engine, size: str) -> list[dict[str, object]]:
    """One row per case: the median latency of a pop and its ack, against the first case, interleaved."""
    cases = FULL if size == "full" else SMALL
    for number, (messages, share, partitions, groups) in enumerate(cases):
        queue = f"flat{number}"
        await engine.queues.configure(queue, {})
        await engine.database.fetch(sql("preload"), queue, partitions, messages, PAYLOAD)
        for group in range(groups):
            await engine.register(queue, f"g{group}")
            await engine.database.fetch(sql("consume_to"), queue, f"g{group}", share)
        print(f"filled {queue}: {messages} messages, {partitions} partitions, {groups} groups", file=sys.stderr)
    async with engine.database.connection() as connection:
        await connection.execute(sql("vacuum"))
    samples: list[list[float]] = [[] for _ in cases]
    for cycle in range(CYCLES):
        for number, (_, _, _, groups) in enumerate(cases):
            started = time.perf_counter()
            messages_out = await engine.pop(PopRequest(queue=f"flat{number}", group=f"g{cycle % groups}", batch=2))
            await engine.ack_messages(messages_out)
            assert messages_out
            samples[number].append(time.perf_counter() - started)
    pages = [await pages_of(engine, f"flat{number}") for number in range(len(cases))]
    base = statistics.median(samples[0])
    return [
        {
            "messages": messages,
            "consumed": share,
            "partitions": partitions,
            "groups": groups,
            "median_ms": round(statistics.median(times) * 1000, 3),
            "ratio": round(statistics.median(times) / base, 2),
            "pages": touched,
            "pages_ratio": round(touched / pages[0], 2),
        }
        for (messages, share, partitions, groups), times, touched in zip(cases, samples, pages, strict=True)
    ]


async def pages_of(engine: Engine, queue: str) -> int:
    """Pages that one pop and its ack touch, on a connection that has its plans and catalogues."""
    touched = 0
    async with engine.database.connection() as connection:
        for lease in uuid7s(4):
            popped = await connection.fetchval(sql("explain_pop"), queue, "g0", lease)
            lane = await connection.fetchrow(sql("leased_lane"), lease)
            assert lane is not None
            acked = await connection.fetchval(sql("explain_ack"), lane["partition_id"], "g0", lease, lane["batch_to"])
            touched = blocks(popped) + blocks(acked)
    return touched


def blocks(plan: str) -> int:
    """Pages found in or read into shared memory by an explained statement."""
    top = json.loads(plan)[0]["Plan"]
    return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])
