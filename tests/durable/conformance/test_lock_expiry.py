from __future__ import annotations

import asyncio

import asyncpg

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
    raised,
    refusal,
    scheduled,
    start,
    task,
)
from tests.durable.stores import Address, ManualClock


async def test_an_expired_lock_lets_another_in(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    first = await fetch(provider, lock_ms=1_000)
    clock.advance(999)
    assert await nothing_to_fetch(provider)
    clock.advance(1)
    second = await fetch(provider)
    assert (second.instance, second.messages) == (first.instance, first.messages)
    assert second.token != first.token


async def test_the_expired_token_is_worth_nothing(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a"))
    first = await fetch(provider, lock_ms=1_000)
    clock.advance(1_000)
    commit = TurnCommit(execution_id=1, history_delta=(scheduled("a", 2),))
    assert await refusal(provider.ack_orchestration_item(first.token, commit)) == "lock_lost"
    assert await refusal(provider.renew_orchestration_item_lock(first.token, 1_000)) == "lock_lost"
    assert await refusal(provider.abandon_orchestration_item(first.token)) == "lock_lost"
    second = await fetch(provider)
    assert await refusal(provider.ack_orchestration_item(first.token, commit)) == "lock_lost"
    assert len(await provider.read("a")) == 1
    await provider.ack_orchestration_item(second.token, commit)


async def test_a_message_that_arrived_under_an_expired_lock_comes_with_the_rest(
    provider: Provider, clock: ManualClock
) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a", "1"))
    await fetch(provider, lock_ms=1_000)
    clock.advance(500)
    await provider.enqueue_for_orchestrator(raised("a", "2"))
    clock.advance(500)
    assert (await fetch(provider)).messages == [raised("a", "1"), raised("a", "2")]


async def test_abandon_and_ack_free_at_once(provider: Provider) -> None:
    await begin(provider, "a")
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    await provider.abandon_orchestration_item(item.token)
    item = await fetch(provider)
    await provider.enqueue_for_orchestrator(raised("a"))
    await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1))
    await fetch(provider)


async def test_abandon_with_delay_hides_the_messages(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a")
    for data in ("1", "2"):
        await provider.enqueue_for_orchestrator(raised("a", data))
        clock.advance(1)
    item = await fetch(provider)
    await provider.abandon_orchestration_item(item.token, delay_ms=500)
    assert await nothing_to_fetch(provider)
    clock.advance(500)
    assert (await fetch(provider)).messages == [raised("a", "1"), raised("a", "2")]


async def test_renewal_extends_an_instance_lock(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_orchestrator(start("a"))
    item = await fetch(provider, lock_ms=1_000)
    for _ in range(3):
        clock.advance(900)
        await provider.renew_orchestration_item_lock(item.token, 1_000)
        assert await nothing_to_fetch(provider)
    clock.advance(1_000)
    await fetch(provider)


async def test_renewal_extends_a_work_item_lock(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_worker(task())
    found = await fetch_task(provider, lock_ms=1_000)
    for _ in range(3):
        clock.advance(900)
        await provider.renew_work_item_lock(found.token, 1_000)
        assert await no_task(provider)
    clock.advance(1_000)
    assert await refusal(provider.renew_work_item_lock(found.token, 1_000)) == "lock_lost"
    assert (await fetch_task(provider)).attempt == 2


async def test_renewal_fails_on_a_bad_token_and_after_the_ack(provider: Provider) -> None:
    assert await refusal(provider.renew_work_item_lock("nobody's", 1_000)) == "lock_lost"
    await provider.enqueue_for_worker(task())
    found = await fetch_task(provider)
    await provider.ack_work_item(found.token)
    assert await refusal(provider.renew_work_item_lock(found.token, 1_000)) == "lock_lost"


async def test_many_are_renewed_at_once_and_the_lost_ones_named(provider: Provider) -> None:
    for number in range(3):
        await provider.enqueue_for_worker(task("a", number))
    tokens = [(await fetch_task(provider)).token for _ in range(3)]
    await provider.ack_work_item(tokens[1])
    assert sorted(await provider.renew_work_item_locks([*tokens, "x"], 1_000)) == sorted([tokens[1], "x"])


async def test_a_work_item_is_given_back_with_and_without_delay(provider: Provider, clock: ManualClock) -> None:
    await provider.enqueue_for_worker(task())
    found = await fetch_task(provider)
    await provider.abandon_work_item(found.token)
    found = await fetch_task(provider)
    await provider.abandon_work_item(found.token, delay_ms=500)
    assert await no_task(provider)
    clock.advance(500)
    await fetch_task(provider)
    assert await refusal(provider.abandon_work_item("nobody's")) == "lock_lost"


async def test_a_work_item_ack_after_expiry_fails_and_sends_nothing(provider: Provider, clock: ManualClock) -> None:
    await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
    found = await fetch_task(provider, lock_ms=1_000)
    clock.advance(1_000)
    assert await refusal(provider.ack_work_item(found.token, completed("a"))) == "lock_lost"
    assert await nothing_to_fetch(provider)
    again = await fetch_task(provider)
    assert await refusal(provider.ack_work_item(found.token, completed("a"))) == "lock_lost"
    await provider.ack_work_item(again.token, completed("a"))
    assert (await fetch(provider)).messages == [completed("a")]


class LateClock(ManualClock):
    """Once it is `armed`, only the first look is in time."""

    armed = False

    def __call__(self) -> int:
        now = super().__call__()
        if self.armed:
            self.armed = False
            self.advance(LOCK_MS + 1)
        return now


async def test_a_lock_that_expires_during_the_commit_undoes_it_on_sqlite(sqlite_address: Address) -> None:
    clock = LateClock()
    async with await sqlite_address.open(clock) as provider:
        await begin(provider, "a")
        await provider.enqueue_for_orchestrator(raised("a"))
        item = await fetch(provider)
        before = await provider.read("a")
        clock.armed = True
        late = provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1, worker_items=(task("a", 7),)))
        assert await refusal(late) == "lock_lost"
        assert await provider.read("a") == before
        assert await provider.fetch_work_items(lock_timeout_ms=LOCK_MS) == []
        assert (await fetch(provider)).attempt == 2


async def test_a_lock_that_expires_during_the_commit_undoes_it_on_postgres(postgres_address: Address) -> None:
    async with await postgres_address.open() as provider:
        await begin(provider, "a")
        await provider.enqueue_for_orchestrator(raised("a"))
        item = await fetch(provider, lock_ms=400)
        other = await asyncpg.connect(postgres_address.where)
        try:
            async with other.transaction():
                await other.execute("select from queen_durable.instances where instance = 'a' for update")
                late = asyncio.create_task(
                    provider.ack_orchestration_item(
                        item.token, TurnCommit(execution_id=1, worker_items=(task("a", 7),))
                    )
                )
                await other.execute("select pg_sleep(0.6)")
                assert not late.done(), "it waits for the row, its lock runs out meanwhile"
        finally:
            await other.close()
        assert await refusal(late) == "lock_lost"
        assert await provider.fetch_work_items(lock_timeout_ms=LOCK_MS) == []
        assert (await fetch(provider)).attempt == 2
