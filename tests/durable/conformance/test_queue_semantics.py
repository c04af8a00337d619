from __future__ import annotations

from typing import Any

from queen.durable.events import HistoryEvent
from queen.durable.messages import CancelMessage, ContinueAsNewMessage, decode_message
from queen.durable.model import ExecutionMetadata, OrchestrationItem, TagFilter, TurnCommit
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
    scheduled,
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


async def test_a_queue_event_waits_for_an_instance_that_does_not_exist_yet(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(queued("a"))
    assert await nothing_to_fetch(provider)
    await provider.enqueue_for_orchestrator(start("a"))
    item = await fetch(provider)
    assert item.messages == [queued("a"), start("a")]
    assert item.attempt == 1


async def test_messages_whose_instance_never_comes_end_among_the_dead_letters(
    provider: Provider, clock: ManualClock
) -> None:
    await begin(provider, "lives")
    await provider.enqueue_for_orchestrator(start("late"), delay_ms=3_600_000)
    for stray in (queued("nobody", "1"), raised("nobody", "2"), queued("late"), queued("lives")):
        await provider.enqueue_for_orchestrator(stray)
    assert (await fetch(provider)).instance == "lives"
    clock.advance(59_999)
    await provider.enqueue_for_orchestrator(queued("nobody", "young"))
    assert await nothing_to_fetch(provider, handlers=())
    assert await provider.expire_orphans(60_000) == []
    clock.advance(1)
    assert await provider.expire_orphans(60_000) == ["nobody"]
    assert await provider.expire_orphans(60_000) == []
    letters = await provider.list_dead_letters()
    assert [decode_message(letter.body) for letter in letters] == [queued("nobody", "1"), raised("nobody", "2")]
    assert {letter.error for letter in letters} == {"no instance nobody was started within 60000 ms"}
    await provider.enqueue_for_orchestrator(start("nobody"))
    items = await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=9)
    assert {item.instance: item.messages for item in items}["nobody"] == [queued("nobody", "young"), start("nobody")]


async def test_what_arrives_for_an_abandoned_instance_does_not_overtake(provider: Provider, clock: ManualClock) -> None:
    """A next execution that was put off must not lose a signal that comes meanwhile."""
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(queued("a", "1"))
    item = await fetch(provider)
    await provider.abandon_orchestration_item(item.token, delay_ms=1_000)
    await provider.enqueue_for_orchestrator(queued("a", "2"))
    assert await nothing_to_fetch(provider)
    clock.advance(1_000)
    assert (await fetch(provider)).messages == [queued("a", "1"), queued("a", "2")]


async def test_a_fetch_takes_only_what_the_worker_has_code_for(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_orchestrator(start("any"))
    await provider.enqueue_for_orchestrator(start("exact", version="2.0.0"))
    assert await nothing_to_fetch(provider, handlers=("Other", "Flow@1.0.0", "Flow@3.0.0"))
    assert (await fetch(provider, handlers=("Flow",))).instance == "any"
    item = await fetch(provider, handlers=("Flow@2.0.0",))
    assert (item.instance, item.attempt) == ("exact", 1)
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1, metadata=told()))
    await provider.enqueue_for_orchestrator(start("exact", version="7.0.0"))
    assert await nothing_to_fetch(provider, handlers=("Flow", "Flow@2.0.0", "Flow@7.0.0"))
    item = await fetch(provider, handlers=("Flow@1.0.0",))
    again = ContinueAsNewMessage(instance="exact", name="Flow", input="1", execution_id=2, version="3.0.0")
    over = TurnCommit(execution_id=1, orchestrator_items=(again,), metadata=told(status="ContinuedAsNew"))
    await provider.ack_orchestration_item(item.token, over)
    assert await nothing_to_fetch(provider, handlers=("Flow", "Flow@1.0.0"))
    assert (await fetch(provider, handlers=("Flow@3.0.0",))).messages == [again]


async def test_a_fetch_takes_only_activities_the_worker_has_code_for(provider: Provider) -> None:
    for n in range(3):
        await provider.enqueue_for_worker(task("a", n, tag="gpu" if n == 1 else None))
    wants: dict[str, Any] = {"lock_timeout_ms": LOCK_MS, "limit": 9}
    assert await provider.fetch_work_items(**wants, names=("other",), tags=TagFilter.any()) == []
    assert await provider.fetch_work_items(**wants, names=()) == []
    found = await provider.fetch_work_items(**wants, names=("other", "act"))
    assert [each.task.activity_id for each in found] == [0, 2]
    assert len(await provider.fetch_work_items(**wants, names=("act",), tags=TagFilter.any())) == 1


async def test_code_no_worker_announces_is_found(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    await provider.enqueue_for_worker(task("a", 2))
    await provider.announce(handlers=["Flow"], activities=["act"])
    unknown: dict[str, Any] = {"lock_timeout_ms": LOCK_MS, "unknown_for_ms": 1_000}
    clock.advance(999)
    assert await provider.fetch_orchestration_items(**unknown) == []
    assert await provider.fetch_work_items(**unknown) == []
    await provider.announce(handlers=["Flow"], activities=["other"])
    clock.advance(1)
    assert await provider.fetch_orchestration_items(**unknown) == []
    assert len(await provider.fetch_work_items(**unknown)) == 1
    clock.advance(1_000)
    assert len(await provider.fetch_orchestration_items(**unknown)) == 1


async def test_timers_nobody_waits_for_are_taken_back(provider: Provider, clock: ManualClock) -> None:
    later = clock() + 60_000
    await begin(provider, "a", orchestrator_items=[timer("a", later, 2), timer("a", later, 3), timer("a", later, 4)])
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1, withdrawn_timers=(2, 4, 9)))
    clock.advance(60_000)
    item = await fetch(provider)
    assert item.messages == [timer("a", later, 3)]
    more = (timer("a", later + 60_000, 5),)
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1, orchestrator_items=more))
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    await provider.ack_orchestration_item(
        item.token, TurnCommit(execution_id=1, metadata=ExecutionMetadata(status="Completed", output="1"))
    )
    assert (await provider.get_queue_depths()).orchestrator == 0


async def test_an_owner_reads_what_it_lacks_of_a_history(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    item = await fetch(provider, owner="me")
    assert (item.left_out, item.last_event_id, item.status) == (False, 0, None)
    history: tuple[HistoryEvent, ...] = (started("a"), *(scheduled("a", n) for n in range(2, 51)))
    commit = TurnCommit(execution_id=1, history_delta=history, metadata=told(), owner="me")
    await provider.ack_orchestration_item(item.token, commit)

    async def next_item(owner: str | None) -> OrchestrationItem:
        await provider.enqueue_for_orchestrator(raised("a"))
        return await fetch(provider, owner=owner)

    item = await next_item("me")
    assert (item.left_out, item.history, item.last_event_id, item.status) == (True, [], 50, "Running")
    assert await provider.read_history_after("a", 1, 48) == list(history[48:])
    await provider.abandon_orchestration_item(item.token)
    item = await next_item("me")
    assert not item.left_out, "abandoned: what is in memory went further than what is stored"
    assert item.history == list(history)
    more = tuple(scheduled("a", n) for n in range(51, 151))
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1, history_delta=more, owner="me"))
    item = await next_item("other")
    assert (item.left_out, item.last_event_id) == (True, 150), "long"
    await provider.abandon_orchestration_item(item.token)
    assert len((await next_item(None)).history) == 150
    identity = item.identity
    await provider.delete_instance("a", force=True)
    await begin(provider, "a")
    assert (await next_item(None)).identity != identity


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
