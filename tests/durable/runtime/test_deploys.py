"""Deployments: code that does not fit is waited out, and what failed is run again from where it was right."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from queen.durable import (
    ActivityContext,
    ActivityFailed,
    Cancelled,
    Provider,
    Worker,
    WorkerSettings,
    WorkflowCancelled,
    WorkflowClient,
    WorkflowContext,
    WorkflowFailed,
    WorkflowTimedOut,
    activity,
    workflow,
)
from queen.durable.errors import NothingToRetry, StepNotFound
from queen.durable.events import ExternalSubscribed, OrchestrationParked
from queen.durable.testing import eventually

SOON = WorkerSettings(unregistered_backoff_ms=50, unregistered_backoff_cap_ms=200)
RUNS: Counter[str] = Counter()
KEYS: list[str] = []
BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RUNS.clear()
    KEYS.clear()
    BROKEN.clear()


@activity
async def step(ctx: ActivityContext, name: str) -> str:
    RUNS[f"{ctx.instance_id.partition('~')[0]}/{name}"] += 1
    KEYS.append(ctx.idempotency_key)
    if name in BROKEN:
        raise ConnectionError(f"{name} is down")
    return name


@workflow(name="order", version="1.0.0")
async def order_1(ctx: WorkflowContext, number: int) -> list[str]:
    charged = await ctx.activity(step, "charge")
    await ctx.event("ship", buffered=True)
    return [charged, await ctx.activity(step, "ship")]


@workflow(name="order", version="1.0.0")
async def order_2(ctx: WorkflowContext, number: int) -> list[str]:
    charged = await ctx.activity(step, "charge")
    audited = await ctx.activity(step, "audit")
    await ctx.event("ship", buffered=True)
    return [charged, audited, await ctx.activity(step, "ship")]


@workflow(name="order", version="1.0.0")
async def order_3(ctx: WorkflowContext, number: int) -> list[str]:
    prices: dict[int, str] = {}
    return [prices[number]]


async def _events(provider: Provider, instance: str, count: int) -> bool:
    return len(await provider.read(instance)) >= count


async def _status(provider: Provider, instance: str, wanted: str) -> bool:
    info = await provider.get_instance_info(instance)
    return info is not None and info.status == wanted


async def begun(provider: Provider, count: int) -> list[Any]:
    """Orders that are charged and wait for their shipment, on the first version of the code."""
    async with Worker(provider, workflows=[order_1], activities=[step], settings=SOON):
        handles = [await WorkflowClient(provider).start(order_1, n, id=f"o{n}") for n in range(count)]
        for handle in handles:
            await eventually(lambda handle=handle: _events(provider, handle.id, 4))  # type: ignore[misc]
    return handles


async def parked(provider: Provider, handles: list[Any], code: Any) -> None:
    """A worker with other code gets to see the orders, and parks each of them."""
    async with Worker(provider, workflows=[code], activities=[step], settings=SOON):
        for handle in handles:
            await handle.raise_event("ship")
        for handle in handles:
            await eventually(lambda handle=handle: _status(provider, handle.id, "Parked"))  # type: ignore[misc]


async def test_a_breaking_deployment_is_waited_out(provider: Provider) -> None:
    handles = await begun(provider, 5)
    await parked(provider, handles, order_2)
    state = await handles[0].state()
    assert state.status == "Parked"
    assert state.error == (
        "nondeterministic: at event 4 history has ExternalSubscribed(name=ship), "
        'but the code asked for ActivityScheduled(name=step, input="audit")'
    )
    with pytest.raises(WorkflowTimedOut, match="it is Parked: nondeterministic: at event 4"):
        await handles[0].result(0.05)
    mark = next(each for each in await provider.read("o0") if isinstance(each, OrchestrationParked))
    assert (mark.at_event, mark.recorded) == (4, "ExternalSubscribed(name=ship)")
    assert mark.found == 'the code asked for ActivityScheduled(name=step, input="audit")'
    async with Worker(provider, workflows=[order_1], activities=[step], settings=SOON):
        assert [await handle.result(20) for handle in handles] == [["charge", "ship"]] * 5
    assert set(RUNS.values()) == {1}, "nothing that had finished ran twice"
    assert len(RUNS) == 10


async def test_an_exception_in_replayed_code_parks_with_its_traceback(provider: Provider) -> None:
    handles = await begun(provider, 1)
    await parked(provider, handles, order_3)
    state = await handles[0].state()
    assert "but the code had raised KeyError: 0" in (state.error or "")
    mark = next(each for each in await provider.read("o0") if isinstance(each, OrchestrationParked))
    assert "return [prices[number]]" in mark.traceback
    async with Worker(provider, workflows=[order_1], activities=[step], settings=SOON):
        assert await handles[0].result(20) == ["charge", "ship"]


async def test_a_parked_instance_does_not_grow_while_it_waits(provider: Provider) -> None:
    handles = await begun(provider, 1)
    await parked(provider, handles, order_2)
    length = len(await provider.read("o0"))
    async with Worker(provider, workflows=[order_2], activities=[step], settings=SOON) as worker:
        await eventually(lambda: worker.counters.orch_dispatcher_items_fetched >= 3)
        await handles[0].retry()
        await eventually(lambda: worker.counters.orch_dispatcher_items_fetched >= 5)
    assert len(await provider.read("o0")) == length
    assert RUNS == {"o0/charge": 1}


async def test_parked_orders_go_on_with_the_new_code_from_a_step(provider: Provider) -> None:
    handles = await begun(provider, 4)
    await parked(provider, handles, order_2)
    async with Worker(provider, workflows=[order_2], activities=[step], settings=SOON):
        for handle in handles[:2]:
            assert await handle.reset(from_step=4)
        forks = [await handle.fork(f"{handle.id}~fork", from_step=4) for handle in handles[2:]]
        results = [await each.result(20) for each in [*handles[:2], *forks]]
        assert results == [["charge", "audit", "ship"]] * 4
        assert await _status(provider, "o2", "Parked"), "what was forked stays as it is"
        with pytest.raises(StepNotFound, match="there is no step 3; the last ones are: 2 ActivityScheduled"):
            await handles[2].reset(from_step=3)
    for number in range(4):
        assert RUNS[f"o{number}/charge"] == 1, "it had finished before the step"
        assert RUNS[f"o{number}/audit"] == RUNS[f"o{number}/ship"] == 1
    executions = await provider.list_executions("o0")
    assert [each.status for each in executions] == ["ContinuedAsNew", "Completed"]


async def test_a_reset_without_a_step_runs_everything_again(provider: Provider) -> None:
    handles = await begun(provider, 1)
    async with Worker(provider, workflows=[order_1], activities=[step], settings=SOON):
        await handles[0].raise_event("ship")
        assert await handles[0].result(20) == ["charge", "ship"]
        first = list(KEYS)
        assert await handles[0].reset()
        assert await handles[0].result(20) == ["charge", "ship"], "the event that had come is still there"
        assert RUNS == {"o0/charge": 2, "o0/ship": 2}
        assert not set(first) & set(KEYS[2:]), "what runs anew has keys of its own"


@workflow
async def patient(ctx: WorkflowContext) -> list[str]:
    asked = await ctx.activity(step, "ask")
    words = [await ctx.event("word", str), await ctx.event("word", str)]
    return [asked, *words, await ctx.activity(step, "tell")]


async def test_events_that_had_come_are_there_for_the_waits_that_took_them(provider: Provider) -> None:
    async with Worker(provider, workflows=[patient], activities=[step], settings=SOON):
        client = WorkflowClient(provider)
        handle = await client.start(patient, id="p")
        for number, word in enumerate(("yes", "please"), 1):
            await eventually(partial(_waits_for_event, provider, "p", number))
            await handle.raise_event("word", word)
        wanted = ["ask", "yes", "please", "tell"]
        assert await handle.result(20) == wanted
        assert await handle.reset()
        assert await handle.result(20) == wanted, "from the start"
        second_word = [each.event_id for each in await provider.read("p") if isinstance(each, ExternalSubscribed)][1]
        assert await handle.reset(from_step=second_word)
        assert await handle.result(20) == wanted, "from between the two"
        fork = await handle.fork("q", from_step=2)
        assert await fork.result(20) == wanted
        assert RUNS == {"p/ask": 2, "p/tell": 3, "q/ask": 1, "q/tell": 1}


async def _waits_for_event(provider: Provider, instance: str, wanted: int) -> bool:
    return sum(isinstance(each, ExternalSubscribed) for each in await provider.read(instance)) == wanted


async def test_a_failed_order_is_retried_from_its_failure(provider: Provider) -> None:
    @workflow
    async def both(ctx: WorkflowContext) -> list[str]:
        await ctx.activity(step, "first")
        return list(await ctx.gather(ctx.activity(step, "left"), ctx.activity(step, "right")))

    BROKEN.add("left")
    async with Worker(provider, workflows=[both], activities=[step], settings=SOON):
        handle = await WorkflowClient(provider).start(both, id="b")
        with pytest.raises(WorkflowFailed, match="left is down"):
            await handle.result(20)
        await eventually(lambda: RUNS["b/right"] == 1)
        BROKEN.clear()
        assert await handle.retry()
        assert await handle.result(20) == ["left", "right"]
        assert RUNS["b/first"] == 1
        assert RUNS["b/left"] == 2
        assert KEYS.count(next(key for key in KEYS if key.endswith(":4"))) == 2, "the same key: it is the same step"
        with pytest.raises(NothingToRetry, match="is Completed: only a failed or parked one is retried"):
            await handle.retry()


async def test_code_that_was_wrong_is_mended_and_retried(provider: Provider) -> None:
    @workflow(name="prices")
    async def wrong(ctx: WorkflowContext) -> str:
        name = await ctx.activity(step, "look")
        return {"nothing": "here"}[name]

    @workflow(name="prices")
    async def right(ctx: WorkflowContext) -> str:
        name = await ctx.activity(step, "look")
        return f"price of {name}"

    async with Worker(provider, workflows=[wrong], activities=[step], settings=SOON):
        handle = await WorkflowClient(provider).start(wrong, id="p")
        with pytest.raises(WorkflowFailed, match="KeyError: 'look'"):
            await handle.result(20)
    async with Worker(provider, workflows=[right], activities=[step], settings=SOON):
        assert await handle.retry()
        assert await handle.result(20) == "price of look"
    assert RUNS == {"p/look": 1}


async def test_keys_are_those_of_the_step_it_goes_on_from(provider: Provider) -> None:
    @workflow
    async def counts(ctx: WorkflowContext, rounds: int) -> int:
        for _ in range(3):
            ctx.set_key("count", (ctx.get_key("count") or 0) + 1)
            await ctx.activity(step, "tick")
        if rounds:
            ctx.continue_as_new(rounds - 1)
        await ctx.activity(step, "last")
        return int(ctx.get_key("count"))

    BROKEN.add("last")
    async with Worker(provider, workflows=[counts], activities=[step], settings=SOON):
        handle = await WorkflowClient(provider).start(counts, 2, id="c")
        with pytest.raises(WorkflowFailed, match="last is down"):
            await handle.result(20)
        BROKEN.clear()
        assert await handle.retry()
        assert await handle.result(20) == 9
        assert RUNS["c/tick"] == 9
        assert await handle.reset(from_step=5)
        assert await handle.result(20) == 9
        assert RUNS["c/tick"] == 11
        fork = await handle.fork("d")
        assert await fork.result(20) == 9
        assert await fork.key("count") == 9


@workflow
async def kid(ctx: WorkflowContext) -> str:
    return await ctx.activity(step, "kid")


async def test_a_child_that_failed_is_started_again_under_another_id(provider: Provider) -> None:
    @workflow
    async def parent(ctx: WorkflowContext) -> str:
        return await ctx.child(kid)

    BROKEN.add("kid")
    async with Worker(provider, workflows=[parent, kid], activities=[step], settings=SOON):
        handle = await WorkflowClient(provider).start(parent, id="p")
        with pytest.raises(WorkflowFailed, match="kid is down"):
            await handle.result(20)
        BROKEN.clear()
        assert await handle.retry()
        assert await handle.result(20) == "kid"
        assert await provider.list_children("p") == ["p::sub::2", "p::sub::2~2"]


@workflow(name="patched", version="1.0.0")
async def unpatched(ctx: WorkflowContext) -> list[str]:
    first = await ctx.activity(step, "first")
    await ctx.event("go", buffered=True)
    return [first, await ctx.activity(step, "old")]


@workflow(name="patched", version="1.0.0")
async def patched(ctx: WorkflowContext) -> list[str]:
    first = await ctx.activity(step, "first")
    checked = [await ctx.activity(step, "check")] if ctx.patched("check") else []
    await ctx.event("go", buffered=True)
    again = [await ctx.activity(step, "again")] if ctx.patched("check") else []
    return [first, *checked, *again, await ctx.activity(step, "new" if ctx.patched("new") else "old")]


async def test_a_patch_is_taken_where_it_is_new(provider: Provider) -> None:
    client = WorkflowClient(provider)
    async with Worker(provider, workflows=[unpatched], activities=[step], settings=SOON):
        old = await client.start(unpatched, id="old")
        await eventually(lambda: _events(provider, "old", 4))
    async with Worker(provider, workflows=[patched], activities=[step], settings=SOON):
        new = await client.start(patched, id="new")
        await eventually(lambda: _events(provider, "new", 7))
    async with Worker(provider, workflows=[patched], activities=[step], settings=SOON):
        for handle in (old, new):
            await handle.raise_event("go")
        assert await old.result(20) == ["first", "new"], "what comes after where it stood is new to it"
        assert await new.result(20) == ["first", "check", "again", "new"]


async def test_a_workflow_that_will_not_end_is_made_to(provider: Provider) -> None:
    @workflow
    async def stubborn(ctx: WorkflowContext) -> None:
        ctx.child(waiting, id="kid")
        while True:
            try:
                await ctx.event("never")
            except Cancelled:
                continue

    @workflow
    async def waiting(ctx: WorkflowContext) -> None:
        await ctx.event("never")

    async with Worker(provider, workflows=[stubborn, waiting], settings=SOON):
        handle = await WorkflowClient(provider).start(stubborn)
        await eventually(lambda: _status(provider, "kid", "Running"))
        await handle.cancel("please")
        with pytest.raises(WorkflowTimedOut):
            await handle.result(0.2)
        await handle.cancel("now", force=True)
        with pytest.raises(WorkflowCancelled, match="now"):
            await handle.result(20)
        assert (await handle.state()).status == "Cancelled"
        await eventually(lambda: _status(provider, "kid", "Cancelled"))


async def test_an_id_is_taken_again_only_as_allowed(provider: Provider) -> None:
    @workflow
    async def maybe(ctx: WorkflowContext, how: str) -> str:
        assert ctx.get_key("seen") is None, "a new run has no keys of the old one"
        ctx.set_key("seen", how)
        try:
            return await ctx.activity(step, how)
        except ActivityFailed as failed:
            raise ValueError(how) from failed

    BROKEN.add("bad")
    async with Worker(provider, workflows=[maybe], activities=[step], settings=SOON):
        client = WorkflowClient(provider)

        async def run(how: str, reuse: Any) -> str:
            before = len(RUNS)
            handle = await client.start(maybe, how, id="m", reuse=reuse)
            if reuse != "never":
                await eventually(lambda: len(RUNS) > before)
            try:
                return await handle.result(20)
            except WorkflowFailed as failed:
                return str(failed)

        assert await run("bad", "never") == "ValueError: bad"
        assert await run("one", "never") == "ValueError: bad"
        assert await run("two", "failed") == "two"
        await client.start(maybe, "three", id="m", reuse="failed")
        assert await run("four", "ended") == "four"
        assert RUNS == {"m/bad": 1, "m/two": 1, "m/four": 1}
        info = await provider.get_instance_info("m")
        assert info is not None
        assert info.current_execution_id == 3
