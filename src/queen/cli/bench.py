"""`queen bench`: how fast it is here."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click

from queen.cli.target import Target, targeted
from queen.client.client import Client
from queen.client.message import Message
from queen.client.push import Push
from queen.ids import uuid7


@click.command()
@click.option("--messages", default=20_000, show_default=True, type=click.IntRange(1, 10_000_000))
@click.option("--batch", default=100, show_default=True, type=click.IntRange(1, 10_000), help="Messages per call.")
@click.option("--partitions", default=10, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--concurrency", default=4, show_default=True, type=click.IntRange(1, 1000), help="Calls at a time.")
@click.option("--size", default=100, show_default=True, type=click.IntRange(0, 1_000_000), help="Bytes per payload.")
@targeted
def command(target: Target, messages: int, batch: int, partitions: int, concurrency: int, size: int) -> None:
    """Push and consume messages on a queue of its own, which is removed at the end."""
    queue = f"bench-{uuid7()}"

    async def work(client: Client) -> None:
        try:
            rows = [
                await _push(client, queue, messages, batch, partitions, concurrency, "x" * size),
                await _consume(client, queue, messages, batch, concurrency),
            ]
        finally:
            await client.queues.delete(queue)
        target.rows(rows)

    target.run(work)


async def _push(
    client: Client, queue: str, messages: int, batch: int, partitions: int, concurrency: int, payload: str
) -> dict[str, Any]:
    sizes = [min(batch, messages - start) for start in range(0, messages, batch)]
    calls = iter(enumerate(sizes))
    waits: list[float] = []

    async def producer() -> None:
        for number, size in calls:
            started = time.perf_counter()
            await client.push_all([Push(queue, payload, f"p{number % partitions}")] * size)
            waits.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(producer() for _ in range(concurrency)))
    return _figures("push", messages, time.perf_counter() - started, waits)


async def _consume(client: Client, queue: str, messages: int, batch: int, concurrency: int) -> dict[str, Any]:
    waits: list[float] = []
    last = time.perf_counter()

    async def done(batch: list[Message[object]]) -> None:
        nonlocal last
        now = time.perf_counter()
        waits.append(now - last)
        last = now

    started = time.perf_counter()
    await client.consume_batches(queue, done, batch=batch, concurrency=concurrency, limit=messages)
    return _figures("consume", messages, time.perf_counter() - started, waits)


def _figures(verb: str, messages: int, seconds: float, waits: list[float]) -> dict[str, Any]:
    waits.sort()
    return {
        "verb": verb,
        "messages": messages,
        "seconds": round(seconds, 3),
        "messages_per_second": round(messages / seconds),
        "median_ms": round(waits[len(waits) // 2] * 1000, 2),
        "p99_ms": round(waits[int(len(waits) * 0.99)] * 1000, 2),
    }
