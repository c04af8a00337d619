# mypy: ignore-errors
"""Streams as users of the published client use them: every operator and window, with exact results.

Runs in the client's own environment: `queen` here is the published package.
"""

from __future__ import annotations

import asyncio
import contextlib

from words import eventually, fresh, values

import queen
from queen import Stream


async def run(client, url, stream, condition, name):
    """Run a stream until the condition holds; it must not have met a single error."""
    errors = []
    runner = await stream.run(
        query_id=name, url=url, max_wait_millis=300, on_error=lambda error, context: errors.append(str(error))
    )
    try:
        await eventually(condition)
    finally:
        metrics = runner.metrics()
        await runner.stop()
    assert errors == []
    assert metrics["errorsTotal"] == 0, metrics


async def collect(client, name, into, seconds=20.0):
    while True:
        messages = await client.queue(name).batch(50).partitions(10).wait(True).timeout_millis(500).pop()
        into.extend(values(messages))
        if messages:
            await client.ack(messages, True)


async def through(client, url, build, payloads, enough, more=()):
    """Push payloads, run the stream `build(source, sink)` makes, and give what came out."""
    source, sink, out = fresh("source"), fresh("sink"), []
    for payload in payloads:
        await client.queue(source).partition(str(payload.get("k", "p"))).push([{"data": payload}])
    collecting = asyncio.create_task(collect(client, sink, out))
    try:
        stream = build(Stream.from_(client.queue(source)), client.queue(sink))
        for payload in more:
            await client.queue(source).partition(str(payload.get("k", "p"))).push([{"data": payload}])
        await run(client, url, stream, lambda: enough(out), fresh("query"))
    finally:
        collecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await collecting
    return out


async def scenario_stream_of_single_messages(client, url):
    seen = []

    def build(source, sink):
        return (
            source.filter(lambda message: message["data"]["n"] != 2)
            .map(lambda message: {"double": message["data"]["n"] * 2})
            .to(sink)
        )

    out = await through(client, url, build, [{"n": n} for n in range(4)], lambda out: len(out) >= 3)
    assert [value["double"] for value in out] == [0, 2, 6]

    def twice(source, sink):
        return source.flat_map(lambda message: [message["data"], message["data"]]).to(sink, partition="out")

    out = await through(client, url, twice, [{"n": n} for n in range(2)], lambda out: len(out) >= 4)
    assert [value["n"] for value in out] == [0, 0, 1, 1]
    source = fresh("source")
    await client.queue(source).push([{"data": {"n": n}} for n in range(3)])
    stream = (
        Stream.from_queue(client.queue(source))
        .flatMap(lambda value: [value])
        .keyBy(lambda message: "k")
        .foreach(lambda value, *rest: seen.append(value))
    )
    await run(client, url, stream, lambda: len(seen) >= 3, fresh("query"))
    assert len(seen) == 3


EVENTS = [{"k": key, "n": n, "at": 1_700_000_000_000 + n * 400} for key in ("a", "b") for n in range(10)]


def total(out):
    return sum(value.get("sum", value.get("count", 0)) for value in out)


async def scenario_stream_tumbling_window(client, url):
    """Sums per key and second, by wall clock; every number is counted once."""

    def build(source, sink):
        return (
            source.key_by(lambda message: message["data"]["k"])
            .window_tumbling(seconds=1, idle_flush_ms=300)
            .aggregate({"count": lambda value: 1, "sum": lambda value: value["n"]})
            .to(sink)
        )

    out = await through(client, url, build, EVENTS, lambda out: sum(value["count"] for value in out) >= len(EVENTS))
    assert sum(value["count"] for value in out) == len(EVENTS)
    assert sum(value["sum"] for value in out) == sum(event["n"] for event in EVENTS)


async def scenario_stream_reduce(client, url):
    def build(source, sink):
        return (
            source.windowTumbling(seconds=1, idle_flush_ms=300)
            .reduce(lambda total, value: {"sum": total["sum"] + value["n"]}, {"sum": 0})
            .to(sink)
        )

    wanted = sum(event["n"] for event in EVENTS)
    out = await through(client, url, build, EVENTS, lambda out: total(out) >= wanted)
    assert total(out) == wanted


async def scenario_stream_sliding_window(client, url):
    """Every event falls into size / slide windows."""
    for spelling in ("window_sliding", "windowSliding"):

        def build(source, sink, spelling=spelling):
            return (
                getattr(source, spelling)(size=2, slide=1, idle_flush_ms=300)
                .aggregate({"count": lambda value: 1})
                .to(sink)
            )

        payloads = [{"n": n} for n in range(5)]
        out = await through(client, url, build, payloads, lambda out: total(out) >= 10)
        assert total(out) == 10


async def scenario_stream_session_window(client, url):
    for spelling in ("window_session", "windowSession"):

        def build(source, sink, spelling=spelling):
            return getattr(source, spelling)(gap=1, idle_flush_ms=200).aggregate({"count": lambda value: 1}).to(sink)

        out = await through(client, url, build, [{"n": n} for n in range(5)], lambda out: total(out) >= 5)
        assert total(out) == 5


async def scenario_stream_cron_window(client, url):
    for spelling in ("window_cron", "windowCron"):

        def build(source, sink, spelling=spelling):
            return (
                getattr(source, spelling)(every="second", idle_flush_ms=200)
                .aggregate({"count": lambda value: 1})
                .to(sink)
            )

        out = await through(client, url, build, [{"n": n} for n in range(5)], lambda out: total(out) >= 5)
        assert total(out) == 5


async def scenario_stream_gates(client, url):
    for gate in (queen.token_bucket_gate(100, 100), queen.sliding_window_gate(100, 60)):
        out = await through(
            client,
            url,
            lambda source, sink, gate=gate: source.gate(gate).to(sink),
            [{"n": n} for n in range(5)],
            lambda out: len(out) >= 5,
        )
        assert [value["n"] for value in out] == list(range(5))


async def scenario_gate_holds_back_in_order(client, url):
    """A gate that denies after three: the acked prefix is committed, the rest comes again in order."""
    source, sink, out = fresh("gated"), fresh("sink"), []
    await client.queue(source).config({"leaseTime": 1}).create()
    await client.queue(source).push([{"data": {"n": n}} for n in range(9)])
    collecting = asyncio.create_task(collect(client, sink, out))
    try:
        stream = Stream.from_(client.queue(source)).gate(queen.token_bucket_gate(3, 3)).to(client.queue(sink))
        await run(client, url, stream, lambda: len(out) >= 9, fresh("query"))
    finally:
        collecting.cancel()
    assert [value["n"] for value in out] == list(range(9))
