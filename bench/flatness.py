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
# (messages, partitions, the share that each group has consumed)
Filled = tuple[int, int, list[float]]
SMALL: list[Filled] = [
    (1_000, 100, [0.0]),
    (20_000, 100, [0.0, 0.95]),
    (20_000, 5_000, [0.0]),
    (1_000, 100, [0.0] * 12),
]
FULL: list[Filled] = [
    (1_000, 100, [0.0]),
    (1_000_000, 100, [0.0, 0.5, 0.99]),
    (1_000_000, 10_000, [0.0]),
    (1_000_000, 100_000, [0.0]),
    (1_000, 100, [0.0] * 12),
]


async def flatness(engine: Engine, size: str) -> list[dict[str, object]]:
    """One row per queue and share: the median latency of a pop and its ack, against the first one, interleaved."""
    filled = FULL if size == "full" else SMALL
    for number, (messages, partitions, shares) in enumerate(filled):
        queue = f"flat{number}"
        await engine.queues.configure(queue, {})
        await engine.database.fetch(sql("preload"), queue, partitions, messages, PAYLOAD)
        for group, share in enumerate(shares):
            await engine.register(queue, f"g{group}")
            await engine.database.fetch(sql("consume_to"), queue, f"g{group}", share)
        print(f"filled {queue}: {messages} messages, {partitions} partitions, {len(shares)} groups", file=sys.stderr)
    async with engine.database.connection() as connection:
        await connection.execute(sql("vacuum"))
    # A share that several groups have is one case, and they take turns.
    cases = [
        (number, share, [f"g{group}" for group, other in enumerate(shares) if other == share])
        for number, (_, _, shares) in enumerate(filled)
        for share in sorted(set(shares))
    ]
    samples: list[list[float]] = [[] for _ in cases]
    for cycle in range(CYCLES):
        for (number, _, groups), times in zip(cases, samples, strict=True):
            started = time.perf_counter()
            request = PopRequest(queue=f"flat{number}", group=groups[cycle % len(groups)], batch=2)
            messages_out = await engine.pop(request)
            await engine.ack_messages(messages_out)
            assert messages_out
            times.append(time.perf_counter() - started)
    pages = [await pages_of(engine, f"flat{number}", groups[0]) for number, _, groups in cases]
    base = statistics.median(samples[0])
    return [
        {
            "messages": filled[number][0],
            "consumed": share,
            "partitions": filled[number][1],
            "groups": len(filled[number][2]),
            "median_ms": round(statistics.median(times) * 1000, 3),
            "ratio": round(statistics.median(times) / base, 2),
            "pages": touched,
            "pages_ratio": round(touched / pages[0], 2),
        }
        for (number, share, _), times, touched in zip(cases, samples, pages, strict=True)
    ]


async def pages_of(engine: Engine, queue: str, group: str) -> int:
    """Pages that one pop and its ack touch, on a connection that has its plans and catalogues."""
    touched = 0
    async with engine.database.connection() as connection:
        for lease in uuid7s(4):
            popped = await connection.fetchval(sql("explain_pop"), queue, group, lease)
            lane = await connection.fetchrow(sql("leased_lane"), lease)
            assert lane is not None
            acked = await connection.fetchval(sql("explain_ack"), lane["partition_id"], group, lease, lane["batch_to"])
            touched = blocks(popped) + blocks(acked)
    return touched


def blocks(plan: str) -> int:
    """Pages found in or read into shared memory by an explained statement."""
    top = json.loads(plan)[0]["Plan"]
    return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])
