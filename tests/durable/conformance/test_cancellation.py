from __future__ import annotations

import pytest

from queen.durable.model import ActivityKey
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    begin,
    completed,
    fetch_task,
    finish,
    no_task,
    nothing_to_fetch,
    refusal,
    scheduled,
    task,
    turn,
)
from tests.durable.stores import ManualClock


@pytest.mark.parametrize("status", [None, "Completed", "Failed", "ContinuedAsNew"])
async def test_activities_can_be_fetched_and_renewed_in_every_state(provider: Provider, status: str | None) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    if status is not None:
        await finish(provider, "a", status)
    found = await fetch_task(provider)
    await provider.renew_work_item_lock(found.token, 5_000)
    await provider.ack_work_item(found.token, completed("a"))


async def test_an_ack_without_completion_deletes_only(provider: Provider) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    found = await fetch_task(provider)
    await provider.ack_work_item(found.token)
    assert await nothing_to_fetch(provider)
    assert await no_task(provider)


async def test_a_cancelled_activity_that_waits_is_gone(provider: Provider) -> None:
    await begin(provider, "a", [scheduled("a", 2), scheduled("a", 3)], worker_items=[task("a", 2), task("a", 3)])
    await turn(provider, "a", cancelled_activities=(ActivityKey("a", 1, 2),))
    assert (await fetch_task(provider)).task.activity_id == 3
    assert await no_task(provider)


async def test_a_cancelled_activity_that_runs_loses_its_lock(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    found = await fetch_task(provider)
    await turn(provider, "a", cancelled_activities=(ActivityKey("a", 1, 2),))
    assert await refusal(provider.renew_work_item_lock(found.token, 5_000)) == "lock_lost"
    assert await provider.renew_work_item_locks([found.token], 5_000) == [found.token]
    assert await refusal(provider.ack_work_item(found.token, completed("a"))) == "lock_lost"
    assert await refusal(provider.abandon_work_item(found.token)) == "lock_lost"
    clock.advance(60_000)
    assert await no_task(provider)
    assert await nothing_to_fetch(provider)


async def test_unknown_activities_are_ignored(provider: Provider) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    unknown = (ActivityKey("a", 1, 99), ActivityKey("a", 2, 2), ActivityKey("b", 1, 2))
    await turn(provider, "a", cancelled_activities=unknown)
    await fetch_task(provider)


async def test_many_are_cancelled_at_once(provider: Provider) -> None:
    numbers = range(2, 12)
    await begin(provider, "a", [scheduled("a", n) for n in numbers], worker_items=[task("a", n) for n in numbers])
    await turn(provider, "a", cancelled_activities=tuple(ActivityKey("a", 1, n) for n in numbers if n != 5))
    assert (await fetch_task(provider)).task.activity_id == 5
    assert await no_task(provider)


async def test_scheduled_and_cancelled_in_one_turn_is_absent(provider: Provider) -> None:
    await begin(provider, "a")
    await turn(
        provider,
        "a",
        [scheduled("a", 2), scheduled("a", 3)],
        worker_items=(task("a", 2), task("a", 3)),
        cancelled_activities=(ActivityKey("a", 1, 2),),
    )
    assert (await fetch_task(provider)).task.activity_id == 3
    assert await no_task(provider)


async def test_an_activity_of_a_deleted_instance_is_harmless(provider: Provider) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    late = await fetch_task(provider)
    await provider.delete_instance("a", force=True)
    assert await refusal(provider.ack_work_item(late.token, completed("a"))) == "lock_lost"
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    assert await refusal(provider.ack_work_item(late.token, completed("a", result='"late"'))) == "lock_lost"
    assert await nothing_to_fetch(provider)
    assert (await fetch_task(provider)).attempt == 1
