from __future__ import annotations

import asyncio

from queen.durable.events import HistoryEvent
from queen.durable.model import ActivityKey, TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    begin,
    completed,
    fetch,
    fetch_task,
    key_set,
    no_task,
    nothing_to_fetch,
    raised,
    refusal,
    scheduled,
    start,
    started,
    status_set,
    task,
    told,
)


async def test_a_failing_ack_leaves_everything_untouched(provider: Provider) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    commit = TurnCommit(
        execution_id=1,
        history_delta=(scheduled("a", 2), status_set("a", 3, '"s"'), key_set("a", 4, "k", "v"), started("a")),
        worker_items=(task("a"),),
        orchestrator_items=(start("b"),),
        metadata=told(status="Completed", output="1"),
    )
    assert await refusal(provider.ack_orchestration_item(item.token, commit)) == "duplicate_event"
    assert [event.event_id for event in await provider.read("a")] == [1]
    assert await no_task(provider)
    assert await provider.get_custom_status("a") is None
    assert await provider.get_kv_all_values("a") == {}
    info = await provider.get_instance_info("a")
    assert info is not None
    assert info.status == "Running"
    assert await nothing_to_fetch(provider), "neither the lock was freed nor the new instance started"
    await provider.abandon_orchestration_item(item.token)
    assert len((await fetch(provider)).messages) == 1


async def test_a_complex_ack_lands_whole(provider: Provider) -> None:
    await begin(provider, "a", [scheduled("a", 2), scheduled("a", 3)], worker_items=[task("a", 2), task("a", 3)])
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    commit = TurnCommit(
        execution_id=1,
        history_delta=(scheduled("a", 4), status_set("a", 5, '"half"'), key_set("a", 6, "k", "v")),
        worker_items=(task("a", 4),),
        orchestrator_items=(start("child", parent_instance="a"), raised("a", "self")),
        cancelled_activities=(ActivityKey("a", 1, 2),),
        metadata=told(pinned_version="1.2.3"),
    )
    await provider.ack_orchestration_item(item.token, commit)
    assert [event.event_id for event in await provider.read("a")] == [1, 2, 3, 4, 5, 6]
    tasks = [await fetch_task(provider) for _ in range(2)]
    assert [found.task.activity_id for found in tasks] == [3, 4]
    status = await provider.get_custom_status("a")
    assert status is not None
    assert status.value == '"half"'
    items = await provider.fetch_orchestration_items(lock_timeout_ms=5_000, limit=5)
    assert sorted(found.instance for found in items) == ["a", "child"]


async def test_only_success_frees_the_lock(provider: Provider) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    bad = TurnCommit(execution_id=1, history_delta=(started("a"),))
    for _ in range(2):
        assert await refusal(provider.ack_orchestration_item(item.token, bad)) == "duplicate_event"
        assert await nothing_to_fetch(provider)
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1))
    await provider.enqueue_for_orchestrator(raised("a"))
    assert (await fetch(provider)).attempt == 1


async def test_of_two_acks_with_one_token_one_wins(provider: Provider) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    item = await fetch(provider)
    commits = [
        TurnCommit(
            execution_id=1, history_delta=(started("a"),), metadata=told(), orchestrator_items=(raised("a", str(n)),)
        )
        for n in range(2)
    ]
    outcomes = await asyncio.gather(
        *(provider.ack_orchestration_item(item.token, commit) for commit in commits), return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 1
    assert len((await fetch(provider)).messages) == 1


async def test_a_bad_turn_does_not_spoil_the_turns_committed_with_it(provider: Provider) -> None:
    for instance in ("a", "b", "c"):
        await begin(provider, instance)
    for instance in ("a", "b", "c"):
        await provider.enqueue_for_orchestrator(raised(instance))
    items = await provider.fetch_orchestration_items(lock_timeout_ms=5_000, limit=3)
    deltas: dict[str, HistoryEvent] = {"a": scheduled("a", 2), "b": started("b"), "c": scheduled("c", 2)}
    outcomes = await asyncio.gather(
        *(
            provider.ack_orchestration_item(
                item.token, TurnCommit(execution_id=1, history_delta=(deltas[item.instance],))
            )
            for item in items
        ),
        return_exceptions=True,
    )
    assert [outcome is None for outcome in outcomes] == [item.instance != "b" for item in items]
    assert [len(await provider.read(instance)) for instance in ("a", "b", "c")] == [2, 1, 2]


async def test_finishing_an_activity_and_its_completion_are_one(provider: Provider) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    found = await fetch_task(provider)
    await provider.ack_work_item(found.token, completed("a"))
    assert await refusal(provider.ack_work_item(found.token, completed("a", result="2"))) == "lock_lost"
    assert (await fetch(provider)).messages == [completed("a")]
