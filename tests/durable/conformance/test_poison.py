from __future__ import annotations

from queen.durable.provider import Provider
from tests.durable.conformance.story import begin, fetch, fetch_task, raised, start, task
from tests.durable.stores import ManualClock


async def test_counts_start_at_one_and_rise_with_every_fetch(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    await provider.enqueue_for_worker(task())
    for attempt in (1, 2, 3):
        item, found = await fetch(provider), await fetch_task(provider)
        assert (item.attempt, found.attempt) == (attempt, attempt)
        await provider.abandon_orchestration_item(item.token)
        await provider.abandon_work_item(found.token)


async def test_counts_rise_when_locks_expire(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    await provider.enqueue_for_worker(task())
    for attempt in (1, 2, 3):
        assert (await fetch(provider)).attempt == attempt
        assert (await fetch_task(provider)).attempt == attempt
        clock.advance(5_000)


async def test_counts_are_per_message_and_the_batch_has_the_highest(provider: Provider) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a", "old"))
    for _ in range(2):
        await provider.abandon_orchestration_item((await fetch(provider)).token)
    await provider.enqueue_for_orchestrator(raised("a", "new"))
    item = await fetch(provider)
    assert (item.attempt, len(item.messages)) == (3, 2)


async def test_a_new_message_after_an_ack_starts_at_one(provider: Provider) -> None:
    await provider.enqueue_for_worker(task("a", 1))
    found = await fetch_task(provider)
    await provider.abandon_work_item(found.token)
    await provider.ack_work_item((await fetch_task(provider)).token)
    await provider.enqueue_for_worker(task("a", 2))
    assert (await fetch_task(provider)).attempt == 1


async def test_an_ignored_attempt_is_not_counted(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    await provider.enqueue_for_worker(task())
    for _ in range(3):
        item, found = await fetch(provider), await fetch_task(provider)
        assert (item.attempt, found.attempt) == (1, 1)
        await provider.abandon_orchestration_item(item.token, ignore_attempt=True)
        await provider.abandon_work_item(found.token, ignore_attempt=True)


async def test_counts_never_fall_below_zero(provider: Provider) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a", "1"))
    item = await fetch(provider)
    await provider.abandon_orchestration_item(item.token, ignore_attempt=True)
    await provider.enqueue_for_orchestrator(raised("a", "2"))
    item = await fetch(provider)
    await provider.abandon_orchestration_item(item.token, ignore_attempt=True)
    assert (await fetch(provider)).attempt == 1


async def test_counts_of_different_items_are_independent(provider: Provider) -> None:
    for number in (1, 2):
        await provider.enqueue_for_worker(task("a", number))
    first = await fetch_task(provider)
    await provider.abandon_work_item(first.token)
    found = {item.task.activity_id: item.attempt for item in [await fetch_task(provider) for _ in range(2)]}
    assert found == {1: 2, 2: 1}
