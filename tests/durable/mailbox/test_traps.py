"""The eleven traps of a first mailbox design, one test each or more."""

from __future__ import annotations

import asyncio

import pytest

from queen.durable.mailbox import DeadLetter, Outgoing, StoredEvent, UnitOfWork
from queen.durable.provider import ProviderError
from queen.durable.providers.postgres.mailbox import PostgresMailbox
from queen.durable.providers.sqlite.mailbox import SqliteMailbox
from tests.durable.stores import Address, ManualClock

AnyMailbox = SqliteMailbox | PostgresMailbox


async def take(mailbox: AnyMailbox, queue: str = "q") -> tuple[str | None, list[bytes], str]:
    batch = await mailbox.dequeue_batch(queue)
    assert batch is not None
    return batch.routing_key, [message.body for message in batch.messages], batch.lock_token


async def test_all_visible_messages_of_one_key_come_together(mailbox: AnyMailbox) -> None:
    for key, body in [("a", b"1"), ("b", b"2"), ("a", b"3")]:
        await mailbox.enqueue("q", key, body)
    assert (await take(mailbox))[:2] == ("a", [b"1", b"3"])
    assert (await take(mailbox))[:2] == ("b", [b"2"])


async def test_1_the_lock_hides_messages_that_arrive_later(mailbox: AnyMailbox) -> None:
    await mailbox.enqueue("q", "a", b"1")
    _, _, token = await take(mailbox)
    await mailbox.enqueue("q", "a", b"2")
    assert await mailbox.dequeue_batch("q") is None
    await mailbox.ack(token)
    assert (await take(mailbox))[:2] == ("a", [b"2"])


async def test_2_an_ack_with_a_wrong_token_fails_and_changes_nothing(mailbox: AnyMailbox, clock: ManualClock) -> None:
    await mailbox.enqueue("q", "a", b"1")
    _, _, expired = await take(mailbox)
    clock.advance(30_000)
    _, bodies, current = await take(mailbox)
    assert bodies == [b"1"]
    for token in ("never", expired):
        with pytest.raises(ProviderError, match="lock") as failure:
            await mailbox.ack(token, UnitOfWork(outgoing=(Outgoing("other", "x", b"no"),)))
        assert failure.value.code == "lock_lost"
        assert not failure.value.retryable
    assert await mailbox.dequeue_batch("other") is None
    await mailbox.ack(current)
    with pytest.raises(ProviderError):
        await mailbox.ack(current)


async def test_3_an_ack_commits_everything_or_nothing(mailbox: AnyMailbox) -> None:
    event = StoredEvent("a", 1, 1, "Started", "{}")
    work = UnitOfWork(outgoing=(Outgoing("q", "b", b"2"), Outgoing("other", None, b"3")), events=(event,))
    await mailbox.append([event])
    await mailbox.enqueue("q", "a", b"1")
    _, _, token = await take(mailbox)
    with pytest.raises(ProviderError) as failure:
        await mailbox.ack(token, work)
    assert failure.value.code == "duplicate_event"
    assert await mailbox.dequeue_batch("q") is None
    assert await mailbox.dequeue_batch("other") is None
    await mailbox.ack(token, UnitOfWork(outgoing=work.outgoing, events=(StoredEvent("a", 1, 2, "Next", "{}"),)))
    assert (await take(mailbox))[:2] == ("b", [b"2"])
    assert (await take(mailbox, "other"))[:2] == (None, [b"3"])
    assert [stored.event_id for stored in await mailbox.read_events("a")] == [1, 2]


async def test_4_what_cannot_be_decoded_goes_to_the_dead_letters(mailbox: AnyMailbox) -> None:
    await mailbox.enqueue("q", "a", b"\xff\x00 not ours")
    await mailbox.enqueue("q", "a", b"good")
    first = await mailbox.dequeue_batch("q")
    assert first is not None
    await mailbox.abandon(first.lock_token)
    batch = await mailbox.dequeue_batch("q")
    assert batch is not None
    assert [message.attempt for message in batch.messages] == [2, 2]
    bad = DeadLetter(batch.messages[0].message_id, "cannot be decoded")
    await mailbox.ack(batch.lock_token, UnitOfWork(dead_letters=(bad,)))
    [letter] = await mailbox.dead_letters("q")
    assert (letter.body, letter.error, letter.routing_key, letter.attempt) == (
        b"\xff\x00 not ours", "cannot be decoded", "a", 2
    )  # fmt: skip
    assert await mailbox.dequeue_batch("q") is None


async def test_5_attempts_renewal_and_time_limit_per_call(mailbox: AnyMailbox, clock: ManualClock) -> None:
    await mailbox.enqueue("q", "a", b"1")
    batch = await mailbox.dequeue_batch("q", lock_timeout_ms=1_000)
    assert batch is not None
    assert batch.attempt == 1
    clock.advance(900)
    await mailbox.renew(batch.lock_token, 1_000)
    clock.advance(900)
    assert await mailbox.dequeue_batch("q") is None
    clock.advance(100)
    with pytest.raises(ProviderError) as failure:
        await mailbox.renew(batch.lock_token, 1_000)
    assert failure.value.code == "lock_lost"
    again = await mailbox.dequeue_batch("q", lock_timeout_ms=50)
    assert again is not None
    assert again.attempt == 2
    await mailbox.abandon(again.lock_token, ignore_attempt=True)
    third = await mailbox.dequeue_batch("q")
    assert third is not None
    assert third.attempt == 2


async def test_6_an_ack_deletes_only_what_was_handed_out(mailbox: AnyMailbox, clock: ManualClock) -> None:
    await mailbox.enqueue("q", "a", b"now")
    await mailbox.enqueue("q", "a", b"later", visible_after_ms=500)
    _, bodies, token = await take(mailbox)
    assert bodies == [b"now"]
    await mailbox.enqueue("q", "a", b"meanwhile")
    await mailbox.ack(token)
    assert (await take(mailbox))[1] == [b"meanwhile"]
    clock.advance(30_000)
    assert (await take(mailbox))[1] == [b"meanwhile", b"later"]


async def test_7_history_is_that_of_the_latest_execution_under_the_lock(mailbox: AnyMailbox) -> None:
    await mailbox.append([StoredEvent("a", 1, n, "Old", "{}") for n in (1, 2, 3)])
    await mailbox.enqueue("q", "a", b"go")
    _, _, token = await take(mailbox)
    await mailbox.ack(token, UnitOfWork(events=(StoredEvent("a", 2, 1, "New", "{}"),)))
    assert await mailbox.latest_execution("a") == 2
    assert [event.kind for event in await mailbox.read_events("a")] == ["New"]
    assert [event.event_id for event in await mailbox.read_events("a", 1)] == [1, 2, 3]


async def test_8_messages_without_key_in_a_keyed_queue_stand_alone(mailbox: AnyMailbox, clock: ManualClock) -> None:
    await mailbox.enqueue("q", "a", b"keyed")
    clock.advance(1)
    for body in (b"1", b"2"):
        await mailbox.enqueue("q", None, body)
    assert (await take(mailbox))[:2] == ("a", [b"keyed"])
    key, bodies, first = await take(mailbox)
    assert (key, bodies) == (None, [b"1"])
    assert (await take(mailbox))[:2] == (None, [b"2"])
    assert await mailbox.dequeue_batch("q") is None
    await mailbox.abandon(first, delay_ms=100)
    assert await mailbox.dequeue_batch("q") is None
    clock.advance(100)
    assert (await take(mailbox))[:2] == (None, [b"1"])


async def test_9_concurrent_dequeues_and_acks_never_meet_a_locked_database(address: Address) -> None:
    mailboxes = [await address.open_mailbox() for _ in range(4)]
    for number in range(40):
        await mailboxes[0].enqueue("q", f"k{number}", b"x")
    seen: list[str | None] = []

    async def work(mailbox: AnyMailbox) -> None:
        while (batch := await mailbox.dequeue_batch("q")) is not None:
            seen.append(batch.routing_key)
            await mailbox.ack(batch.lock_token, UnitOfWork(outgoing=(Outgoing("done", None, b"y"),)))

    try:
        await asyncio.gather(*(work(mailbox) for mailbox in mailboxes))
        assert sorted(map(str, seen)) == sorted(f"k{number}" for number in range(40))
    finally:
        await asyncio.gather(*(mailbox.close() for mailbox in mailboxes))


async def test_10_an_undeliverable_head_does_not_block_the_queue(mailbox: AnyMailbox, clock: ManualClock) -> None:
    await mailbox.enqueue("q", "bad", b"1")
    clock.advance(1)
    await mailbox.enqueue("q", "good", b"2")
    for _ in range(3):
        key, _, token = await take(mailbox)
        if key == "good":
            await mailbox.ack(token)
            break
        clock.advance(1)
        await mailbox.abandon(token)
    else:
        pytest.fail("the message behind the bad one was never handed out")


async def test_11_losing_a_race_for_one_key_means_trying_the_next(address: Address) -> None:
    first, second = await address.open_mailbox(), await address.open_mailbox()
    try:
        for number in range(20):
            await first.enqueue("q", f"k{number}", b"x")
        pairs = [await asyncio.gather(first.dequeue_batch("q"), second.dequeue_batch("q")) for _ in range(10)]
        keys = [batch.routing_key for pair in pairs for batch in pair if batch is not None]
        assert sorted(map(str, keys)) == sorted(f"k{number}" for number in range(20))
    finally:
        await asyncio.gather(first.close(), second.close())
