# mypy: ignore-errors
"""Queues as users of the published client use them: configure, push, pop, consume, acknowledge, transact.

Runs in the client's own environment: `queen` here is the published package.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

from words import fresh, now, refusal, said, teller, values


async def scenario_configure(client, url):
    name = fresh("configure")
    told = []
    answer = await (
        client.queue(name)
        .namespace("ns")
        .task("task")
        .config({"lease_time": 60, "retry_limit": 5, "priority": 7, "maxSize": 5000})
        .create()
    )
    assert answer["configured"] is True
    assert answer["queue"] == name
    assert (answer["namespace"], answer["task"]) == ("ns", "task")
    expected = {
        "leaseTime": 60, "retryLimit": 5, "retryDelay": 1000, "maxSize": 5000, "ttl": 3600, "priority": 7,
        "deadLetterQueue": False, "dlqAfterMaxRetries": False, "delayedProcessing": 0, "windowBuffer": 0,
        "retentionSeconds": 0, "completedRetentionSeconds": 0, "retentionEnabled": False, "encryptionEnabled": False,
        "maxWaitTimeSeconds": 0,
    }  # fmt: skip
    assert answer["options"].items() >= expected.items(), answer["options"]
    await client.queue(name).create().on_success(teller(told, lambda result: result["configured"]))
    await client.queue(name).config({"leaseTime": -1}).create().on_error(teller(told, said))
    assert told[0] is True
    assert "leaseTime" in told[1]
    deleted = await client.queue(name).delete()
    assert (deleted["deleted"], deleted["existed"]) == (True, True)
    assert (await client.queue(name).delete())["existed"] is False


async def scenario_push(client, url):
    name = fresh("push")
    told = {"success": [], "duplicate": [], "error": []}

    def push(items):
        return (
            client.queue(name)
            .partition("eu")
            .push(items)
            .on_success(teller(told["success"]))
            .on_duplicate(teller(told["duplicate"]))
            .on_error(teller(told["error"], said))
        )

    first = await client.queue(name).partition("eu").push([{"transactionId": "m-1", "data": {"n": 1}}])
    assert [entry["status"] for entry in first] == ["queued"]
    again = await client.queue(name).partition("eu").push([{"transactionId": "m-1", "data": {"n": 2}}])
    assert [(e["status"], e["message_id"]) for e in again] == [("duplicate", first[0]["message_id"])]
    three = await client.queue(name).push([{"transactionId": "x", "data": {"n": n}} for n in range(3)])
    assert [entry["status"] for entry in three] == ["queued", "duplicate", "duplicate"]
    assert len({entry["message_id"] for entry in three}) == 1
    await push([{"data": {"n": 3}}])
    await push([{"transactionId": "m-1", "data": {"n": 4}}])
    assert len(told["success"]) == 1
    assert len(told["duplicate"]) == 1
    full = fresh("full")
    await client.queue(full).config({"maxSize": 1}).create()
    await client.queue(full).push([{"data": {}}])
    refused = []
    await client.queue(full).push([{"data": {}}]).on_error(teller(refused, said))
    assert "full" in refused[0]
    assert values(await now(client.queue(name).partition("eu").batch(10))) == [{"n": 1}, {"n": 3}]
    for payload in (None, {}, {"deep": [1, {"x": None}]}):
        queue = fresh("payload")
        await client.queue(queue).push([{"data": payload}])
        assert values(await now(client.queue(queue))) == [payload]
    many = await client.queue(name).push([{"data": {"n": n}} for n in range(100)])
    assert len({entry["message_id"] for entry in many}) == 100


async def scenario_eight_pushes_of_one_id(client, url):
    name = fresh("race")
    answers = await asyncio.gather(
        *(client.queue(name).push([{"transactionId": "one", "data": {"n": n}}]) for n in range(8))
    )
    statuses = sorted(answer[0]["status"] for answer in answers)
    assert statuses == ["duplicate"] * 7 + ["queued"]
    assert len({answer[0]["message_id"] for answer in answers}) == 1


async def scenario_buffer(client, url):
    name = fresh("buffer")
    options = {"message_count": 1000, "time_millis": 60_000}
    for n in range(5):
        await client.queue(name).buffer(options).push([{"data": {"n": n}}])
    assert client.get_buffer_stats()["totalBufferedMessages"] >= 5
    assert await now(client.queue(name)) == []
    await client.queue(name).flush_buffer()
    assert len(await now(client.queue(name).batch(10))) == 5
    other = fresh("buffer")
    await client.queue(other).buffer(options).push([{"data": {"n": 9}}])
    await client.flush_all_buffers()
    assert values(await now(client.queue(other))) == [{"n": 9}]


async def scenario_pop(client, url):
    name = fresh("pop.some")
    for partition in ("a", "b", "c"):
        await client.queue(name).partition(partition).push([{"data": {"n": n}} for n in range(2)])
    every = await now(client.queue(name).batch(100).partitions(3))
    assert len(every) == 6
    assert len({message["partitionId"] for message in every}) == 3
    assert len({message["leaseId"] for message in every}) == 1
    assert await client.queue(name).wait(False).pop() == []
    renewed = await client.renew(every)
    assert renewed
    assert (await client.ack(every, True))["success"]
    waiting = asyncio.create_task(client.queue(name).wait(True).timeout_millis(10_000).pop())
    await asyncio.sleep(0.3)
    await client.queue(name).partition("a").push([{"data": {"late": True}}])
    assert values(await waiting) == [{"late": True}]
    spaced = fresh("pop")
    await client.queue(spaced).namespace(spaced).task("t").config({"priority": 1}).create()
    await client.queue(spaced).push([{"data": {"by": "namespace"}}])
    assert values(await now(client.queue().namespace(spaced).task("t"))) == [{"by": "namespace"}]


async def scenario_ack_and_renew(client, url):
    name = fresh("ack")
    await client.queue(name).config({"leaseTime": 2, "retryLimit": 1}).create()
    await client.queue(name).push([{"data": {"n": n}} for n in range(3)])
    (message,) = await now(client.queue(name))
    for target in (message["leaseId"], message):
        renewed = await client.renew(target)
        assert renewed["success"] is True, renewed
    assert (await client.renew([message]))[0]["success"] is True
    assert (await client.ack(message, True))["success"]
    stale = await client.ack(message, False)
    assert stale["success"] is False
    assert (await client.renew(message["leaseId"]))["newExpiresAt"] is None
    (message,) = await now(client.queue(name))
    assert (await client.ack(message, False, {"error": "first"}))["success"]
    (again,) = await client.queue(name).wait(True).timeout_millis(5000).pop()
    assert again["transactionId"] == message["transactionId"]
    assert (await client.ack(again, "dlq", {"error": "by word"}))["success"]
    rest = await now(client.queue(name))
    assert values(rest) == [{"n": 2}]
    assert (await client.ack(rest, True, {"group": None}))["success"]


async def scenario_consume(client, url):
    name = fresh("consume")
    for partition in ("a", "b"):
        await client.queue(name).partition(partition).push([{"data": {"p": partition, "n": n}} for n in range(5)])
    seen, told = [], []

    async def one(message):
        seen.append((message["data"]["p"], message["data"]["n"]))
        await message["trace"]({"traceName": name, "eventType": "step", "data": {"text": "seen"}})

    async def finish(message, result):
        told.append((await client.ack(message, True, {"group": "g"}))["success"])

    await (
        client.queue(name)
        .group("g")
        .concurrency(2)
        .batch(3)
        .each()
        .idle_millis(4000)
        .timeout_millis(500)
        .auto_ack(True)
        .consume(one)
        .on_success(finish)
    )
    assert set(seen) == {(p, n) for p in "ab" for n in range(5)}
    for partition in "ab":
        numbers = list(dict.fromkeys(n for p, n in seen if p == partition))
        assert numbers == sorted(numbers)
    assert told == [True] * len(seen)
    batches = []

    async def many(messages):
        batches.append(values(messages))

    await client.queue(name).group("other").batch(10).idle_millis(3000).timeout_millis(300).consume(many)
    assert sum(map(len, batches)) == 10
    traces = await client.admin.get_traces_by_name(name)
    assert traces["total"] == len(seen)
    assert {name} <= {entry["trace_name"] for entry in (await client.admin.get_trace_names(limit=500))["trace_names"]}


async def scenario_failing_handler(client, url):
    name = fresh("failing")
    await client.queue(name).config({"retryLimit": 2}).create()
    await client.queue(name).push([{"data": {"message": "hello"}}])
    attempts = []

    async def broken(message):
        attempts.append(message["data"])
        raise ValueError("handler broke")

    async def give_up(message, error):
        """The client acknowledges once more after this, as completed: that must not count."""
        await client.ack(message, False, {"error": str(error)})

    await client.queue(name).idle_millis(4000).timeout_millis(500).consume(broken).on_error(give_up)
    assert attempts == [{"message": "hello"}] * 3
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    letters = await client.queue(name).dlq().limit(10).offset(0).from_(past).to(soon).get()
    assert letters["total"] == 1
    assert letters["messages"][0]["data"]["message"] == "hello"
    assert "handler broke" in letters["messages"][0]["errorMessage"]
    assert await now(client.queue(name)) == []


async def scenario_batch_retries_count_once(client, url):
    name = fresh("retries")
    await client.queue(name).config({"retryLimit": 3}).create()
    await client.queue(name).push([{"data": {"n": n}} for n in range(100)])
    calls = []

    async def handler(messages):
        calls.append(len(messages))
        if len(calls) < 3:
            raise ValueError("not yet")

    signal = asyncio.Event()
    with contextlib.suppress(ValueError):
        await (
            client.queue(name)
            .batch(100)
            .limit(100)
            .idle_millis(4000)
            .timeout_millis(500)
            .consume(handler, signal=signal)
        )
    while len(calls) < 3:
        with contextlib.suppress(ValueError):
            await client.queue(name).batch(100).idle_millis(3000).timeout_millis(500).consume(handler)
    assert calls == [100, 100, 100]
    assert (await client.queue(name).dlq().get())["total"] == 0
    assert await now(client.queue(name)) == []


async def scenario_renewing_consumer(client, url):
    name = fresh("renewing")
    await client.queue(name).config({"leaseTime": 2}).create()
    await client.queue(name).push([{"data": {"n": 1}}])
    calls = []

    async def slow(message):
        calls.append(message["data"])
        await asyncio.sleep(4)

    await (
        client.queue(name).renew_lease(True, 500).limit(1).idle_millis(3000).timeout_millis(500).consume(slow)
    )  # fmt: skip
    assert calls == [{"n": 1}]
    assert await now(client.queue(name)) == []


async def scenario_transaction(client, url):
    source, sink = fresh("in"), fresh("out")
    await client.queue(source).config({"leaseTime": 3}).create()
    await client.queue(source).partition("a").push([{"data": {"n": n}} for n in range(2)])
    (message,) = await now(client.queue(source))
    done = await (
        client.transaction()
        .ack(message)
        .queue(sink)
        .partition("eu")
        .push([{"data": {"n": n}} for n in range(5)])
        .queue(f"{sink}-2")
        .push([{"data": {"other": True}}])
        .commit()
    )
    assert done["success"] is True
    assert len(await now(client.queue(sink).batch(10))) == 5
    assert values(await now(client.queue(f"{sink}-2"))) == [{"other": True}]
    (message,) = await now(client.queue(source))
    unknown = {**message, "transactionId": "nobody"}
    bundle = client.transaction().ack(unknown).queue(f"{sink}-3").push([{"data": {}}])
    assert "Message not found" in await refusal(bundle.commit())
    assert await now(client.queue(f"{sink}-3")) == []
    assert values(await client.queue(source).wait(True).timeout_millis(5000).pop()) == [{"n": 1}]
    assert await refusal(client.transaction().commit()) == "Transaction has no operations to commit"


async def scenario_transaction_in_a_group(client, url):
    name = fresh("groups")
    await client.queue(name).config({"retryLimit": 0}).create()
    await client.queue(name).push([{"data": {"n": 1}}])
    (mine,) = await now(client.queue(name).group("g1"))
    assert (await client.transaction().ack(mine, "failed", {"consumer_group": "g1"}).commit())["success"]
    assert await now(client.queue(name).group("g1")) == []
    assert values(await now(client.queue(name).group("g2"))) == [{"n": 1}]
