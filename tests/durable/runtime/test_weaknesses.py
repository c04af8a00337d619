"""What goes wrong in the engine ours is compatible with, and must not here.

The weaknesses of the store alone have tests beside the conformance suite; those of the replay engine
(races of more than two, total time-outs, carried events) in tests/durable/replay.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from queen.durable import (
    ActivityContext,
    Client,
    Provider,
    Runtime,
    RuntimeOptions,
    SqliteProvider,
    TagFilter,
    Worker,
    WorkerSettings,
    WorkflowClient,
    WorkflowContext,
    WorkflowTimedOut,
    activity,
    open_provider,
    workflow,
)
from queen.durable.messages import CancelMessage, ExternalRaisedMessage, QueueMessage
from queen.durable.model import InstanceQuery
from queen.durable.model import TagFilter as Tags
from queen.durable.testing import eventually


@activity
async def double(number: int) -> int:
    return number * 2


@workflow
async def doubled(ctx: WorkflowContext, number: int) -> int:
    return await ctx.activity(double, number)


@workflow
async def total_of(ctx: WorkflowContext, count: int) -> int:
    return sum([await ctx.receive("numbers", int) for _ in range(count)])


async def test_strays_for_unknown_instances_block_nobody(provider: Provider) -> None:
    """1: one stray event or cancellation stopped every orchestration of a SQLite file."""
    strays: list[Any] = [
        ExternalRaisedMessage(instance="nobody", name="e", data="1"),
        CancelMessage(instance="nobody", reason="r"),
        QueueMessage(instance="nobody", name="q", data="1"),
    ]
    for stray in strays:
        await provider.enqueue_for_orchestrator(stray)
    async with Worker(provider, workflows=[doubled], activities=[double]):
        handles = [await WorkflowClient(provider).start(doubled, number) for number in range(5)]
        assert [await handle.result(10) for handle in handles] == [0, 2, 4, 6, 8]


async def test_a_busy_store_fails_no_instance(tmp_path: Path) -> None:
    """2: "database is locked" became the result of an instance."""
    path = tmp_path / "busy.db"
    stop = threading.Event()

    def hog() -> None:
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            while not stop.is_set():
                connection.execute("begin immediate")
                stop.wait(0.05)
                connection.execute("rollback")
                stop.wait(0.02)

    async with await open_provider(str(path)) as provider:
        hogging = threading.Thread(target=hog)
        hogging.start()
        try:
            async with Worker(provider, workflows=[doubled], activities=[double]):
                handles = [await WorkflowClient(provider).start(doubled, number) for number in range(30)]
                assert [await handle.result(60) for handle in handles] == [number * 2 for number in range(30)]
        finally:
            stop.set()
            hogging.join(10)


async def test_work_is_told_not_polled_for(provider: Provider) -> None:
    """3: every step waited for the next poll."""
    settings = WorkerSettings(poll_timeout_ms=60_000)

    @workflow
    async def steps(ctx: WorkflowContext) -> int:
        return sum([await ctx.activity(double, number) for number in range(20)])

    async with Worker(provider, workflows=[steps], activities=[double], settings=settings):
        handle = await WorkflowClient(provider).start(steps)
        assert await handle.result(10) == 380, "forty hand-overs, none after the sixty seconds of a poll"


async def test_fifteen_hundred_ready_messages(provider: Provider) -> None:
    """4: more than 100 ready messages failed the instance."""
    handle = await WorkflowClient(provider).start(total_of, 1500)
    await asyncio.gather(*(handle.send("numbers", 1) for _ in range(1500)))
    async with Worker(provider, workflows=[total_of]):
        assert await handle.result(60) == 1500


async def test_more_than_a_hundred_messages_are_carried_over(provider: Provider) -> None:
    """5: the newest of more than 100 carried messages were dropped silently."""

    @workflow
    async def begins_again(ctx: WorkflowContext, first: bool) -> int:
        if first:
            await ctx.event("go")
            ctx.continue_as_new(False)
        return sum([await ctx.receive("numbers", int) for _ in range(250)])

    async with Worker(provider, workflows=[begins_again]):
        handle = await WorkflowClient(provider).start(begins_again, True)
        await eventually(lambda: _events(provider, handle.id, 2))
        await asyncio.gather(*(handle.send("numbers", 1) for _ in range(250)))
        await handle.raise_event("go")
        assert await handle.result() == 250


async def _events(provider: Provider, instance: str, count: int) -> bool:
    return len(await provider.read(instance)) >= count


async def test_events_before_the_wait_can_be_kept(provider: Provider) -> None:
    """6: an event raised before the wait is lost; that stays the default, and can be chosen away."""

    @workflow
    async def waits(ctx: WorkflowContext, buffered: bool) -> str:
        await ctx.receive("begin")
        return await ctx.event("early", str, buffered=buffered)

    async with Worker(provider, workflows=[waits]):
        client = WorkflowClient(provider)
        kept, lost = await client.start(waits, True, id="kept"), await client.start(waits, False, id="lost")
        for handle in (kept, lost):
            await eventually(partial(_events, provider, handle.id, 2))
            await handle.raise_event("early", "came early")
            await eventually(partial(_events, provider, handle.id, 3))
            await handle.send("begin")
        assert await kept.result() == "came early"
        with pytest.raises(WorkflowTimedOut):
            await lost.result(0.3)


async def test_instances_can_be_found(provider: Provider) -> None:
    """7 and 9: times were 0; no paging, no search by name or time; no delayed start."""
    begun = provider.now_ms()
    async with Worker(provider, workflows=[doubled, total_of], activities=[double]):
        client = WorkflowClient(provider)
        for number in range(5):
            await (await client.start(doubled, number, id=f"d{number}")).result()
        await (await client.start(total_of, 0, id="t", delay=timedelta(milliseconds=50))).result()
    named = await provider.list_instances(InstanceQuery(name="total_of"))
    assert [each.instance for each in named.instances] == ["t"]
    first = await provider.list_instances(InstanceQuery(name="doubled", limit=3))
    rest = await provider.list_instances(InstanceQuery(name="doubled", limit=3, cursor=first.next_cursor))
    assert [each.instance for each in [*first.instances, *rest.instances]] == ["d4", "d3", "d2", "d1", "d0"]
    recent = await provider.list_instances(InstanceQuery(created_from_ms=begun, status="Completed"))
    assert len(recent.instances) == 6
    assert all(begun <= each.created_at_ms <= each.updated_at_ms for each in recent.instances)
    assert not (await provider.list_instances(InstanceQuery(created_before_ms=begun))).instances


async def test_a_cancelled_activity_is_no_failed_ack(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    """10: cancellation was noticed at lock renewal, and logged as a failed ack."""
    begun, ended = threading.Event(), threading.Event()

    @activity
    def stubborn() -> None:
        begun.set()
        ended.wait(5)

    @workflow
    async def racing(ctx: WorkflowContext) -> int:
        return (await ctx.race(ctx.activity(stubborn), ctx.event("stop"))).index

    caplog.set_level(logging.INFO, "queen.durable")
    async with Worker(provider, workflows=[racing], activities=[stubborn]) as worker:
        handle = await WorkflowClient(provider).start(racing)
        await eventually(begun.is_set)
        await handle.raise_event("stop")
        assert await handle.result() == 1
        ended.set()
        await eventually(lambda: worker.is_idle)
        assert worker.counters.provider_errors == 0
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING], caplog.text


def test_options_are_refused_in_python() -> None:
    """13: six tags, or versions out of order, ended in a native panic."""
    with SqliteProvider.in_memory() as store:
        six = TagFilter.tags([str(number) for number in range(6)])
        with pytest.raises(RuntimeError, match="a tag filter names 1 to 5 tags, got 6"):
            Runtime(store, RuntimeOptions(worker_tag_filter=six))
        with pytest.raises(RuntimeError, match="a tag filter names 1 to 5 tags, got 0"):
            Runtime(store, RuntimeOptions(worker_tag_filter=TagFilter.tags([])))
        with pytest.raises(RuntimeError, match="worker_concurrency must be at least 1"):
            Runtime(store, RuntimeOptions(worker_concurrency=0))


def test_a_detached_start_survives_continue_as_new() -> None:
    """14: a detached start in the turn of a continue-as-new was recorded, and never started."""
    with SqliteProvider.in_memory() as store:
        runtime = Runtime(store)

        def parent(ctx: Any, value: int) -> Any:
            if value == 1:
                yield ctx.start_orchestration("child", "the-child", 5)
                yield ctx.continue_as_new(2)
            return "parent"

        runtime.register_orchestration("parent", parent)
        runtime.register_orchestration("child", lambda _ctx, value: value)
        runtime.start()
        client = Client(store)
        client.start_orchestration("p", "parent", 1)
        assert client.wait_for_orchestration("p").output == "parent"
        assert client.wait_for_orchestration("the-child", 5000).output == 5
        runtime.shutdown()


async def test_tags_route_activities(provider: Provider) -> None:
    """Tags survive the way to the worker; an untagged worker leaves them alone."""

    @workflow
    async def tagged(ctx: WorkflowContext) -> list[int]:
        return list(await ctx.gather(ctx.activity(double, 1, tag="gpu"), ctx.activity(double, 2)))

    async with Worker(provider, workflows=[tagged], activities=[double]) as plain:
        handle = await WorkflowClient(provider).start(tagged)
        await eventually(lambda: plain.counters.activity_success == 1)
        with pytest.raises(WorkflowTimedOut):
            await handle.result(0.1)
        gpu = WorkerSettings(tags=Tags.only("gpu"))
        async with Worker(provider, activities=[double], settings=gpu) as special:
            assert await handle.result() == [2, 4]
            assert special.counters.activity_success == 1


async def test_sessions_stay_with_one_worker(provider: Provider) -> None:
    """All activities of a session run on the worker that holds it."""
    seen: set[str] = set()

    @activity
    async def noting(ctx: ActivityContext, name: str) -> str:
        seen.add(ctx.worker_id)
        return name

    @workflow
    async def stays(ctx: WorkflowContext) -> list[str]:
        return [await ctx.activity(noting, str(number), session="s") for number in range(4)]

    first, second = WorkerSettings(node_id="one"), WorkerSettings(node_id="two")
    async with (
        Worker(provider, workflows=[stays], activities=[noting], settings=first),
        Worker(provider, workflows=[stays], activities=[noting], settings=second),
    ):
        handle = await WorkflowClient(provider).start(stays)
        assert await handle.result() == ["0", "1", "2", "3"]
    assert len(seen) == 1


async def test_a_slow_turn_keeps_its_lock(provider: Provider) -> None:
    """A turn longer than its lock is renewed, not run twice."""
    runs: list[float] = []

    @workflow
    async def slow(ctx: WorkflowContext) -> str:
        runs.append(time.monotonic())
        time.sleep(1.0)  # noqa: ASYNC251 blocking code in a workflow is what is tested
        return "once"

    settings = WorkerSettings(orchestrator_lock_timeout_ms=400)
    async with Worker(provider, workflows=[slow], settings=settings):
        handle = await WorkflowClient(provider).start(slow)
        assert await handle.result() == "once"
    assert len(runs) == 1


async def test_a_slow_activity_keeps_its_lock(provider: Provider) -> None:
    """An activity longer than its lock is renewed, not run twice."""
    runs: list[int] = []

    @activity
    def slow() -> str:
        runs.append(1)
        time.sleep(1.0)
        return "once"

    @workflow
    async def waits(ctx: WorkflowContext) -> str:
        return await ctx.activity(slow)

    settings = WorkerSettings(worker_lock_timeout_ms=400)
    async with (
        Worker(provider, workflows=[waits], activities=[slow], settings=settings),
        Worker(provider, activities=[slow], settings=settings),
    ):
        assert await (await WorkflowClient(provider).start(waits)).result() == "once"
    assert len(runs) == 1
