"""Weaknesses known from a store of this kind, each shown not to be here."""

from __future__ import annotations

import asyncio

from queen.durable.messages import CancelMessage
from queen.durable.model import InstanceQuery, TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    LOCK_MS,
    begin,
    fetch,
    nothing_to_fetch,
    queued,
    raised,
    start,
    started,
    task,
    timer,
    told,
)
from tests.durable.stores import Address, ManualClock


async def test_stray_messages_do_not_block_the_queue(provider: Provider, clock: ManualClock) -> None:
    for stray in (raised("ghost"), CancelMessage(instance="ghost2", reason="x"), queued("ghost3")):
        await provider.enqueue_for_orchestrator(stray)
        clock.advance(1)
    for number in range(20):
        await provider.enqueue_for_orchestrator(start(f"i{number}"))
    items = await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=1)
    items += await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=50)
    assert sorted(item.instance for item in items) == sorted(f"i{number}" for number in range(20))
    assert await nothing_to_fetch(provider)


async def test_stray_messages_cost_nothing_afterwards(provider: Provider) -> None:
    for number in range(50):
        await provider.enqueue_for_orchestrator(raised(f"ghost{number}"))
    assert await nothing_to_fetch(provider)
    assert await provider.next_due_ms() is None


async def test_contention_is_never_an_error(address: Address) -> None:
    """Eight writers on one store."""
    providers = [await address.open() for _ in range(8)]
    try:
        await asyncio.gather(
            *(
                providers[number % 8].enqueue_for_orchestrator(raised(f"i{number % 64}", str(number)))
                for number in range(320)
            )
        )
        assert (await providers[0].get_queue_depths()).orchestrator == 320
    finally:
        await asyncio.gather(*(provider.close() for provider in providers))


async def test_times_are_never_zero(provider: Provider) -> None:
    await begin(provider, "a")
    info = await provider.get_instance_info("a")
    [execution] = await provider.list_executions("a")
    assert info is not None
    assert min(info.created_at_ms, info.updated_at_ms, execution.started_at_ms) == provider.now_ms()


async def test_a_start_can_be_delayed(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_orchestrator(start("later"), delay_ms=3_600_000)
    assert await nothing_to_fetch(provider)
    clock.advance(3_600_000)
    assert (await fetch(provider)).instance == "later"


async def test_an_urgent_activity_overtakes_a_long_line(provider: Provider) -> None:
    for number in range(30):
        await provider.enqueue_for_worker(task("a", number))
    await provider.enqueue_for_worker(task("a", 99, priority=1))
    [found] = await provider.fetch_work_items(lock_timeout_ms=LOCK_MS)
    assert found.task.activity_id == 99


async def test_lists_have_pages_and_can_be_searched(provider: Provider, clock: ManualClock) -> None:
    for number in range(5):
        await begin(provider, f"order-{number}")
        clock.advance(1_000)
    page = await provider.list_instances(InstanceQuery(limit=2, created_before_ms=clock() - 1_500))
    assert [info.instance for info in page.instances] == ["order-3", "order-2"]
    page = await provider.list_instances(InstanceQuery(limit=2, cursor=page.next_cursor))
    assert [info.instance for info in page.instances] == ["order-1", "order-0"]
    assert page.next_cursor is None


async def test_thousands_of_messages_for_one_instance_come_in_order(provider: Provider) -> None:
    await begin(provider, "a")
    await asyncio.gather(*(provider.enqueue_for_orchestrator(queued("a", str(n))) for n in range(1_500)))
    item = await fetch(provider)
    assert [message.data for message in item.messages] == [str(n) for n in range(1_500)]  # type: ignore[union-attr]
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1))
    assert await nothing_to_fetch(provider)


async def test_an_instance_that_keeps_failing_does_not_starve_the_others(
    provider: Provider, clock: ManualClock
) -> None:
    await provider.enqueue_for_orchestrator(start("bad"))
    clock.advance(1)
    for number in range(3):
        await provider.enqueue_for_orchestrator(start(f"good{number}"))
    done: list[str] = []
    for _ in range(6):
        clock.advance(1)
        item = await fetch(provider)
        if item.instance == "bad":
            await provider.abandon_orchestration_item(item.token)
            continue
        commit = TurnCommit(execution_id=1, history_delta=(started(item.instance),), metadata=told())
        await provider.ack_orchestration_item(item.token, commit)
        done.append(item.instance)
    assert sorted(done) == ["good0", "good1", "good2"]


async def test_a_thousand_timers_due_at_once_are_all_handed_out(provider: Provider, clock: ManualClock) -> None:
    due = clock() + 60_000
    names = [f"i{number}" for number in range(1_000)]
    await asyncio.gather(*(provider.enqueue_for_orchestrator(start(name)) for name in names))
    items = await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=1_000)
    await asyncio.gather(
        *(
            provider.ack_orchestration_item(
                item.token,
                TurnCommit(
                    execution_id=1,
                    history_delta=(started(item.instance),),
                    metadata=told(),
                    orchestrator_items=(timer(item.instance, due),),
                ),
            )
            for item in items
        )
    )
    assert await nothing_to_fetch(provider)
    clock.advance(60_000)
    fired: list[str] = []
    while batch := await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=64):
        fired += [item.instance for item in batch]
        assert all(item.messages == [timer(item.instance, due)] for item in batch)
        await asyncio.gather(
            *(provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1)) for item in batch)
        )
    assert sorted(fired) == sorted(names)
