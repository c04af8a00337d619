from __future__ import annotations

import asyncio

import pytest

from queen.durable.model import SessionConfig
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    LOCK_MS,
    begin,
    completed,
    continue_as_new,
    fetch_task,
    no_task,
    refusal,
    scheduled,
    task,
)
from tests.durable.stores import Address, ManualClock

ANNA = SessionConfig("anna", lock_timeout_ms=10_000)
BEN = SessionConfig("ben", lock_timeout_ms=10_000)


async def put(provider: Provider, *sessions: str | None) -> None:
    for number, session in enumerate(sessions):
        await provider.enqueue_for_worker(task("a", number, session_id=session))


async def sessions(address: Address) -> list[tuple[str, str]]:
    rows = await address.execute("select session_id, owner from {}sessions order by session_id")
    return [(row[0], row[1]) for row in rows]


async def test_without_a_session_config_only_free_items_come(provider: Provider) -> None:
    await put(provider, "s1", None)
    assert (await fetch_task(provider)).task.activity_id == 1
    assert await no_task(provider)


async def test_with_one_both_kinds_come(provider: Provider) -> None:
    await put(provider, "s1", None)
    found = await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=5, session=ANNA)
    assert [item.task.session_id for item in found] == ["s1", None]


async def test_a_held_session_belongs_to_its_owner(provider: Provider) -> None:
    await put(provider, "s1", "s1", "s2")
    assert (await fetch_task(provider, session=ANNA)).task.activity_id == 0
    assert (await fetch_task(provider, session=BEN)).task.activity_id == 2
    assert await no_task(provider, session=BEN)
    assert (await fetch_task(provider, session=ANNA)).task.activity_id == 1


async def test_of_two_racing_claimants_one_wins(address: Address) -> None:
    first, second = await address.open(), await address.open()
    try:
        for round_ in range(5):
            for number in range(4):
                await first.enqueue_for_worker(task("a", number, session_id=f"s{round_}"))
            found = await asyncio.gather(
                first.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=2, session=ANNA),
                second.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=2, session=BEN),
            )
            winners = [batch for batch in found if batch]
            assert len(winners) == 1
            rest = await asyncio.gather(
                first.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=9, session=ANNA),
                second.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=9, session=BEN),
            )
            assert [bool(batch) for batch in rest] == [bool(batch) for batch in found]
    finally:
        await asyncio.gather(first.close(), second.close())


async def test_slots_with_one_owner_id_share_its_sessions(provider: Provider) -> None:
    await put(provider, *["s1"] * 6)
    found = await asyncio.gather(*(provider.fetch_work_items(lock_timeout_ms=LOCK_MS, session=ANNA) for _ in range(6)))
    while sum(map(len, found)) < 6:
        found.append(await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, session=ANNA))
        assert found[-1]
    assert sorted(item.task.activity_id for batch in found for item in batch) == list(range(6))


async def test_an_expired_session_can_be_claimed_by_another(provider: Provider, clock: ManualClock) -> None:
    await put(provider, "s1", "s1")
    await provider.ack_work_item((await fetch_task(provider, session=ANNA)).token)
    clock.advance(9_999)
    assert await no_task(provider, session=BEN)
    clock.advance(1)
    assert (await fetch_task(provider, session=BEN)).task.activity_id == 1
    await put(provider, "s1")
    assert await no_task(provider, session=ANNA)


async def test_a_restarted_owner_reclaims_at_once(address: Address) -> None:
    async with await address.open() as first:
        await put(first, "s1", "s1")
        await fetch_task(first, session=ANNA)
    async with await address.open() as second:
        assert (await fetch_task(second, session=ANNA)).task.activity_id == 1


async def test_losing_the_session_does_not_invalidate_an_ack(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2, session_id="s1")])
    held = await fetch_task(provider, session=SessionConfig("anna", lock_timeout_ms=1_000), lock_ms=60_000)
    clock.advance(2_000)
    await provider.enqueue_for_worker(task("a", 9, session_id="s1"))
    assert (await fetch_task(provider, session=BEN)).task.activity_id == 9
    await provider.ack_work_item(held.token, completed("a"))


async def test_losing_the_item_while_the_session_lives_redelivers_to_the_owner(
    provider: Provider, clock: ManualClock
) -> None:
    await put(provider, "s1")
    first = await fetch_task(provider, session=SessionConfig("anna", lock_timeout_ms=60_000), lock_ms=1_000)
    clock.advance(1_000)
    assert await no_task(provider, session=BEN)
    again = await fetch_task(provider, session=ANNA)
    assert again.attempt == 2
    assert await refusal(provider.ack_work_item(first.token)) == "lock_lost"


async def test_both_locks_gone_means_anyone(provider: Provider, clock: ManualClock) -> None:
    await put(provider, "s1")
    await fetch_task(provider, session=ANNA, lock_ms=1_000)
    clock.advance(10_000)
    assert (await fetch_task(provider, session=BEN)).attempt == 2


async def test_renewal_keeps_active_sessions(provider: Provider, clock: ManualClock) -> None:
    await put(provider, "s1", "s1", "s2")
    for session in (ANNA, BEN):
        await fetch_task(provider, session=session, lock_ms=100_000)
    clock.advance(9_000)
    assert await provider.renew_session_lock(["anna", "nobody"], extend_ms=10_000, idle_timeout_ms=60_000) == 1
    clock.advance(9_000)
    assert await no_task(provider, session=BEN)
    assert await provider.renew_session_lock(["anna", "ben"], extend_ms=10_000, idle_timeout_ms=60_000) == 1
    assert await provider.renew_session_lock([], extend_ms=10_000, idle_timeout_ms=60_000) == 0


async def test_idle_sessions_lapse(provider: Provider, clock: ManualClock) -> None:
    await put(provider, "s1", "s1")
    held = await fetch_task(provider, session=ANNA, lock_ms=100_000)
    clock.advance(5_000)
    assert await provider.renew_session_lock(["anna"], extend_ms=10_000, idle_timeout_ms=5_000) == 0
    await provider.renew_work_item_lock(held.token, 100_000)
    assert await provider.renew_session_lock(["anna"], extend_ms=10_000, idle_timeout_ms=5_000) == 1
    clock.advance(4_000)
    await provider.ack_work_item(held.token)
    clock.advance(4_000)
    assert await provider.renew_session_lock(["anna"], extend_ms=10_000, idle_timeout_ms=5_000) == 1
    clock.advance(10_000)
    assert await provider.renew_session_lock(["anna"], extend_ms=10_000, idle_timeout_ms=99_000) == 0
    assert (await fetch_task(provider, session=BEN)).task.activity_id == 1


async def test_clean_up_forgets_what_nobody_needs(provider: Provider, clock: ManualClock, address: Address) -> None:
    await put(provider, "busy", "done")
    await fetch_task(provider, session=ANNA)
    await provider.ack_work_item((await fetch_task(provider, session=ANNA)).token)
    assert await provider.cleanup_orphaned_sessions() == 0
    clock.advance(10_000)
    assert await provider.cleanup_orphaned_sessions() == 1
    assert await sessions(address) == [("busy", "anna")]
    await put(provider, "done")
    assert {item.task.session_id for item in await provider.fetch_work_items(
        lock_timeout_ms=LOCK_MS, limit=3, session=BEN)} == {"busy", "done"}  # fmt: skip


async def test_an_owner_claims_no_more_than_it_may(provider: Provider, clock: ManualClock) -> None:
    await put(provider, "s1", "s2", "s1", "s3", None)
    two = SessionConfig("anna", lock_timeout_ms=10_000, max_sessions=2)
    found = await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=9, session=two)
    while more := await provider.fetch_work_items(lock_timeout_ms=LOCK_MS, limit=9, session=two):
        found += more
    assert sorted(item.task.activity_id for item in found) == [0, 1, 2, 4]
    assert (await fetch_task(provider, session=BEN)).task.activity_id == 3


@pytest.mark.parametrize("delay_ms", [0, 500])
async def test_a_session_item_given_back_stays_with_its_owner(
    provider: Provider, clock: ManualClock, delay_ms: int
) -> None:
    await put(provider, "s1")
    held = await fetch_task(provider, session=ANNA)
    await provider.abandon_work_item(held.token, delay_ms=delay_ms)
    clock.advance(delay_ms)
    assert await no_task(provider, session=BEN)
    assert (await fetch_task(provider, session=ANNA)).task.session_id == "s1"


async def test_sessions_survive_continue_as_new(provider: Provider) -> None:
    await begin(provider, "a", worker_items=[task("a", 2, session_id="s1")])
    await provider.ack_work_item((await fetch_task(provider, session=ANNA)).token)
    await continue_as_new(provider, "a", 2)
    await provider.enqueue_for_worker(task("a", 2, execution_id=2, session_id="s1"))
    assert await no_task(provider, session=BEN)
    assert (await fetch_task(provider, session=ANNA)).task.execution_id == 2
