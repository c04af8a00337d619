from __future__ import annotations

from queen.durable.messages import CancelMessage
from queen.durable.model import TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    LOCK_MS,
    begin,
    completed,
    fetch,
    fetch_task,
    no_task,
    nothing_to_fetch,
    queued,
    raised,
    start,
    started,
    task,
    timer,
    told,
)
from tests.durable.stores import ManualClock


async def test_workers_are_served_in_order(provider: Provider) -> None:
    for number in range(5):
        await provider.enqueue_for_worker(task("a", number))
    assert [(await fetch_task(provider)).task.activity_id for _ in range(5)] == [0, 1, 2, 3, 4]
    assert await no_task(provider)


async def test_many_items_come_in_one_fetch(provider: Provider) -> None:
    for number in range(5):
        await provider.enqueue_for_worker(task("a", number))
    found = await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=3)
    assert [item.task.activity_id for item in found] == [0, 1, 2]
    assert len({item.token for item in found}) == 3


async def test_higher_priority_goes_first(provider: Provider) -> None:
    for number, priority in enumerate((0, 5, -1, 5)):
        await provider.enqueue_for_worker(task("a", number, priority=priority))
    found = await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=4)
    assert [item.task.activity_id for item in found] == [1, 3, 0, 2]


async def test_an_item_stays_until_it_is_acked(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_worker(task())
    await fetch_task(provider)
    clock.advance(LOCK_MS)
    again = await fetch_task(provider)
    await provider.ack_work_item(again.token)
    clock.advance(LOCK_MS)
    assert await no_task(provider)


async def test_the_completion_reaches_the_instance(provider: Provider) -> None:
    await begin(provider, "a", worker_items=[task("a", 2)])
    assert await nothing_to_fetch(provider)
    found = await fetch_task(provider)
    await provider.ack_work_item(found.token, completed("a", 2, '"r"'))
    assert (await fetch(provider)).messages == [completed("a", 2, '"r"')]


async def test_a_timer_is_invisible_until_due(provider: Provider, clock: ManualClock) -> None:
    due = clock() + 60_000
    await begin(provider, "a", orchestrator_items=[timer("a", due)])
    assert await provider.next_due_ms() == due
    clock.advance(59_999)
    assert await nothing_to_fetch(provider)
    clock.advance(1)
    assert (await fetch(provider)).messages == [timer("a", due)]


async def test_a_timer_waits_while_other_messages_are_handled(provider: Provider, clock: ManualClock) -> None:
    due = clock() + 1_000
    await begin(provider, "a", orchestrator_items=[timer("a", due)])
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    assert item.messages == [raised("a")]
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1))
    assert await nothing_to_fetch(provider)
    clock.advance(1_000)
    assert (await fetch(provider)).messages == [timer("a", due)]


async def test_messages_come_in_the_order_they_became_visible(provider: Provider, clock: ManualClock) -> None:
    due = clock() + 1_000
    await begin(provider, "a", orchestrator_items=[timer("a", due)])
    await provider.enqueue_for_orchestrator(raised("a", "before"))
    clock.advance(2_000)
    await provider.enqueue_for_orchestrator(raised("a", "after"))
    expected = [raised("a", "before"), timer("a", due), raised("a", "after")]
    item = await fetch(provider)
    assert item.messages == expected
    await provider.abandon_orchestration_item(item.token, delay_ms=10)
    clock.advance(10)
    assert (await fetch(provider)).messages == expected


async def test_a_delayed_message_is_skipped_though_unlocked(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_orchestrator(start("late"), delay_ms=10_000)
    await provider.enqueue_for_orchestrator(start("now"))
    assert (await fetch(provider)).instance == "now"
    assert await nothing_to_fetch(provider)
    clock.advance(10_000)
    assert "late" in [(await fetch(provider)).instance for _ in range(2)]


async def test_orphan_queue_events_are_dropped(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(queued("nobody"))
    assert await nothing_to_fetch(provider)
    assert (await provider.get_queue_depths()).orchestrator == 0
    await provider.enqueue_for_orchestrator(start("nobody"))
    assert [type(message).__name__ for message in (await fetch(provider)).messages] == ["StartMessage"]


async def test_queue_events_of_a_live_instance_are_kept(provider: Provider) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(queued("a"))
    assert (await fetch(provider)).messages == [queued("a")]


async def test_messages_that_overtook_their_start_are_kept(provider: Provider) -> None:
    cancel = CancelMessage(instance="a", reason="early")
    await provider.enqueue_for_orchestrator(cancel)
    assert await nothing_to_fetch(provider)
    await provider.enqueue_for_orchestrator(start("a"))
    item = await fetch(provider)
    assert item.messages == [cancel, start("a")]
    assert item.attempt == 1


async def test_a_queue_event_waits_for_a_start_that_is_delayed(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_orchestrator(start("a"), delay_ms=5_000)
    await provider.enqueue_for_orchestrator(queued("a"))
    assert await nothing_to_fetch(provider)
    clock.advance(5_000)
    assert (await fetch(provider)).messages == [queued("a"), start("a")]


async def test_the_same_dedup_id_is_accepted_once_per_instance(provider: Provider) -> None:
    assert await provider.enqueue_for_orchestrator(start("a"), dedup_id="t1")
    assert not await provider.enqueue_for_orchestrator(start("a"), dedup_id="t1")
    assert await provider.enqueue_for_orchestrator(start("b"), dedup_id="t1")
    item = await fetch(provider)
    assert item.messages == [start("a")]
    commit = TurnCommit(execution_id=1, history_delta=(started("a"),), metadata=told())
    await provider.ack_orchestration_item(item.token, commit)
    assert not await provider.enqueue_for_orchestrator(raised("a"), dedup_id="t1")
    assert await provider.enqueue_for_orchestrator(raised("a"), dedup_id="t2")
