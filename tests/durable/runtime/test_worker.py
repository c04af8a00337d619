"""Workflows end to end on both stores."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from queen.durable import (
    ActivityContext,
    Cancelled,
    Provider,
    RetryPolicy,
    Worker,
    WorkerSettings,
    WorkflowCancelled,
    WorkflowClient,
    WorkflowContext,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowTimedOut,
    activity,
    open_provider,
    workflow,
)
from queen.durable.testing import eventually


@activity
async def double(number: int) -> int:
    return number * 2


@activity
def blocking(number: int) -> str:
    return f"{number} on {threading.current_thread().name.split('_')[0]}"


@activity
async def fails(text: str) -> str:
    raise ValueError(text)


@activity
async def context_of(ctx: ActivityContext) -> dict[str, Any]:
    return {
        "instance": ctx.instance_id,
        "workflow": ctx.orchestration_name,
        "activity": ctx.activity_name,
        "key": ctx.idempotency_key,
        "trace": ctx.trace_id,
        "attempt": ctx.attempt,
    }


@workflow
async def kid(ctx: WorkflowContext, number: int) -> int:
    return await ctx.activity(double, number)


@workflow
async def everything(ctx: WorkflowContext, number: int) -> Any:
    first = await ctx.activity(double, number)
    on_thread = await ctx.activity(blocking, first)
    many = await ctx.gather(*(ctx.activity(double, n) for n in range(5)))
    from_kid = await ctx.child(kid, 10)
    await ctx.sleep(0.01)
    ctx.set_key("seen", many)
    ctx.status = {"waiting": "for go"}
    said = await ctx.event("go", str)
    queued = [await ctx.receive("inbox", int) for _ in range(3)]
    try:
        await ctx.activity(fails, "no", retry=RetryPolicy(max_attempts=2, first_delay=timedelta(milliseconds=5)))
    except Exception as error:  # noqa: BLE001 its text is the result
        failure = str(error)
    else:
        failure = ""
    return [first, on_thread, list(many), from_kid, said, queued, failure]


ALL: Any = {"workflows": [everything, kid], "activities": [double, blocking, fails, context_of]}


async def test_everything_together(provider: Provider) -> None:
    async with Worker(provider, **ALL) as worker:
        client = WorkflowClient(provider)
        handle = await client.start(everything, 4, id="all", trace_id="trace-1")
        for number in range(3):
            assert await handle.send("inbox", number)
        await eventually(lambda: _status_is(handle, "for go"))
        await handle.raise_event("go", "going")
        assert await handle.result() == [
            8,
            "8 on queen-activity",
            [0, 2, 4, 6, 8],
            20,
            "going",
            [0, 1, 2],
            "Activity 'fails' call failed: ValueError: no",
        ]
        assert await handle.key("seen") == [0, 2, 4, 6, 8]
    history = await provider.read("all")
    assert [each.event_id for each in history] == list(range(1, len(history) + 1))
    root, child = (await provider.get_instance_tree("all")).ids
    assert (root, child.split("::sub::")[0]) == ("all", "all")
    info = await provider.get_instance_info(child)
    assert info is not None
    assert info.trace_id == "trace-1"
    assert worker.counters.orch_completions == 2
    assert worker.counters.suborchestration_calls == 1
    assert worker.counters.orch_dispatcher_items_fetched > 5
    assert worker.counters.worker_dispatcher_items_fetched == 10
    assert worker.counters.activity_app_errors == 2


async def _status_is(handle: Any, word: str) -> bool:
    try:
        return word in ((await handle.state()).custom_status or "")
    except WorkflowNotFound:
        return False


async def test_activities_know_who_called_them(provider: Provider) -> None:
    @workflow
    async def asking(ctx: WorkflowContext) -> dict[str, Any]:
        return await ctx.activity(context_of)

    async with Worker(provider, workflows=[asking], activities=[context_of]):
        handle = await WorkflowClient(provider).start(asking, id="who", trace_id="t")
        told = await handle.result()
        seed = (await provider.read("who"))[0].seed  # type: ignore[union-attr]
        assert told == {
            "instance": "who",
            "workflow": "asking",
            "activity": "context_of",
            "key": f"who:{seed}:2",
            "trace": "t",
            "attempt": 1,
        }


async def test_starting_twice_changes_nothing(provider: Provider) -> None:
    async with Worker(provider, **ALL):
        client = WorkflowClient(provider)
        first = await client.start(kid, 1, id="same")
        second = await client.start(kid, 100, id="same")
        assert await first.result() == await second.result() == 2
        third = await client.start(kid, 100, id="same")
        assert await third.result() == 2


async def test_failures_reach_the_client_by_class(provider: Provider) -> None:
    @workflow
    async def failing(ctx: WorkflowContext) -> None:
        await ctx.activity(fails, "bad")

    @workflow
    async def waiting(ctx: WorkflowContext) -> None:
        await ctx.event("never")

    async with Worker(provider, workflows=[failing, waiting], activities=[fails]):
        client = WorkflowClient(provider)
        with pytest.raises(WorkflowFailed, match="Activity 'fails' call failed: ValueError: bad"):
            await (await client.start(failing)).result()
        handle = await client.start(waiting, id="w")
        with pytest.raises(WorkflowTimedOut):
            await handle.result(0.05)
        await handle.cancel("enough")
        with pytest.raises(WorkflowCancelled, match="enough"):
            await handle.result()
        with pytest.raises(WorkflowNotFound):
            await client.handle(waiting, "nobody").state()


async def test_a_cancelled_race_reaches_a_running_activity_at_once(provider: Provider) -> None:
    begun, ended = threading.Event(), threading.Event()
    cancelled: list[str] = []

    @activity
    def on_thread(ctx: ActivityContext) -> None:
        begun.set()
        while not ctx.is_cancelled():
            time.sleep(0.001)
        ended.set()

    @activity
    async def on_loop() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append("loop")
            raise

    @workflow
    async def racing(ctx: WorkflowContext) -> int:
        winner = await ctx.race(ctx.activity(on_thread), ctx.activity(on_loop), ctx.event("stop"))
        return winner.index

    async with Worker(provider, workflows=[racing], activities=[on_thread, on_loop]):
        handle = await WorkflowClient(provider).start(racing, id="r")
        await eventually(begun.is_set)
        stopped = time.monotonic()
        await handle.raise_event("stop")
        assert await handle.result() == 2
        await eventually(lambda: ended.is_set() and cancelled == ["loop"])
        assert time.monotonic() - stopped < 5, "long before the lock of 30 s is renewed"
    assert (await provider.get_queue_depths()).worker == 0


async def test_clean_up_after_cancel_is_durable(provider: Provider) -> None:
    @workflow
    async def careful(ctx: WorkflowContext) -> None:
        try:
            ctx.status = "waiting"
            await ctx.event("never")
        except Cancelled:
            ctx.set_key("undone", await ctx.activity(double, 21))
            raise

    async with Worker(provider, workflows=[careful], activities=[double]):
        handle = await WorkflowClient(provider).start(careful, id="c")
        await eventually(lambda: _status_is(handle, "waiting"))
        await handle.cancel("stop")
        with pytest.raises(WorkflowCancelled):
            await handle.result()
        assert await handle.key("undone") == 42


async def test_a_child_is_cancelled_with_its_parent(provider: Provider) -> None:
    @workflow
    async def sleeping(ctx: WorkflowContext) -> None:
        await ctx.event("never")

    @workflow
    async def parent(ctx: WorkflowContext) -> None:
        await ctx.child(sleeping, id="child")

    async with Worker(provider, workflows=[sleeping, parent]):
        client = WorkflowClient(provider)
        handle = await client.start(parent, id="parent")
        await eventually(lambda: _is_known(provider, "child"))
        await handle.cancel("stop")
        with pytest.raises(WorkflowCancelled, match="parent canceled"):
            await client.handle(sleeping, "child").result()
        with pytest.raises(WorkflowCancelled, match="stop"):
            await handle.result()


async def _is_known(provider: Provider, instance: str) -> bool:
    return await provider.get_instance_info(instance) is not None


async def test_an_eternal_loop_keeps_keys_and_status_and_messages(provider: Provider) -> None:
    @workflow
    async def counting(ctx: WorkflowContext, total: int) -> int:
        ctx.status = total
        number = await ctx.receive("numbers", int)
        if number == 0:
            return total
        ctx.set_key("total", total + number)
        return ctx.continue_as_new(total + number)

    async with Worker(provider, workflows=[counting]):
        handle = await WorkflowClient(provider).start(counting, 0, id="loop")
        for number in [*range(1, 121), 0]:
            await handle.send("numbers", number)
        assert await handle.result() == 7260
        assert await handle.key("total") == 7260
    executions = await provider.list_executions("loop")
    assert len(executions) == 121
    assert {each.status for each in executions} == {"ContinuedAsNew", "Completed"}


async def test_a_second_worker_finishes_what_the_first_began(store_url: str) -> None:
    @workflow
    async def two_steps(ctx: WorkflowContext) -> int:
        first = await ctx.activity(double, 1)
        await ctx.event("go")
        return first + await ctx.activity(double, 10)

    async with await open_provider(store_url) as provider, Worker(provider, workflows=[two_steps], activities=[double]):
        handle = await WorkflowClient(provider).start(two_steps, id="two")
        await eventually(lambda: _has_events(provider, "two", 4))
    async with await open_provider(store_url) as provider:
        await WorkflowClient(provider).handle(two_steps, "two").raise_event("go")
        async with Worker(provider, workflows=[two_steps], activities=[double]):
            handle = WorkflowClient(provider).handle(two_steps, "two")
            assert await handle.result() == 22


async def _has_events(provider: Provider, instance: str, count: int) -> bool:
    return len(await provider.read(instance)) >= count


async def test_shutdown_hands_back_what_it_holds(provider: Provider) -> None:
    gate = asyncio.Event()
    runs: list[int] = []

    @activity
    async def waits(ctx: ActivityContext) -> str:
        runs.append(ctx.attempt)
        if len(runs) == 1:
            await gate.wait()
        return "done"

    @workflow
    async def waiting(ctx: WorkflowContext) -> str:
        return await ctx.activity(waits)

    handle = await WorkflowClient(provider).start(waiting, id="s")
    worker = Worker(provider, workflows=[waiting], activities=[waits])
    await worker.start()
    await eventually(lambda: bool(runs))
    await worker.stop(timeout=0.05)
    async with Worker(provider, workflows=[waiting], activities=[waits]):
        assert await handle.result(5) == "done", "at once, not after the lock's 30 s"
    assert runs == [1, 1], "an interruption is not a failed attempt"


async def test_unregistered_code_waits_for_a_worker_that_has_it(provider: Provider) -> None:
    handle = await WorkflowClient(provider).start(kid, 3, id="rolling")
    async with Worker(provider, workflows=[everything], activities=[double]) as old:
        async with Worker(provider, workflows=[kid]):
            assert await handle.result() == 6
        assert old.counters.orch_dispatcher_items_fetched == 0, "left to those who have the code"


async def test_code_nobody_has_is_poison_in_the_end(provider: Provider) -> None:
    quick = WorkerSettings(
        unregistered_after_ms=50, unregistered_backoff_ms=5, unregistered_backoff_cap_ms=5, max_attempts=3
    )

    @workflow
    async def calls_nobody(ctx: WorkflowContext) -> int:
        return await ctx.activity(double, 1)

    async with Worker(provider, settings=quick, workflows=[calls_nobody], activities=[fails]) as worker:
        client = WorkflowClient(provider)
        with pytest.raises(WorkflowFailed, match=r"poison: orchestration .* exceeded 4 attempts \(max 3\)"):
            await (await client.start(kid, 3)).result()
        with pytest.raises(WorkflowFailed, match=r"poison: activity double .* exceeded 4 attempts \(max 3\)"):
            await (await client.start(calls_nobody)).result()
        assert worker.counters.orch_poison == 2
        assert worker.counters.activity_poison == 1


async def test_delayed_starts_wait(provider: Provider) -> None:
    async with Worker(provider, **ALL):
        begun = time.monotonic()
        handle = await WorkflowClient(provider).start(kid, 1, delay=timedelta(milliseconds=300))
        assert await handle.result() == 2
        assert time.monotonic() - begun >= 0.3


async def test_priorities_run_first(provider: Provider) -> None:
    order: list[int] = []

    @activity
    async def note(number: int) -> None:
        order.append(number)

    @workflow
    async def ranked(ctx: WorkflowContext) -> None:
        await ctx.gather(*(ctx.activity(note, n, priority=n) for n in (1, 5, 3)))

    async with Worker(provider, workflows=[ranked]):
        handle = await WorkflowClient(provider).start(ranked, id="p")
        await eventually(lambda: _depth(provider, 3))
    async with Worker(provider, workflows=[ranked], activities=[note], settings=WorkerSettings(worker_concurrency=1)):
        await handle.result()
    assert order == [5, 3, 1]


async def _depth(provider: Provider, count: int) -> bool:
    return (await provider.get_queue_depths()).worker >= count
