"""Whatever makes a group go on: nothing is lost, and what befell one message is not held against the next."""

from __future__ import annotations

import asyncpg
import pytest

from queen.engine import Engine
from queen.model import QUEUE_MODE, Ack, AckStatus, Message
from tests.sql.mutation import plant
from tests.support.clock import Clock
from tests.support.work import Sql, acks, dead, lane, lease_of, numbers, pop, push, up_to

EVICT = "select (queen.evict_queue(id, null, null, $1)).handled::int from queen.queues where name = 'q'"
PREFETCH = """
select l.first_seq + m.place - 1 as seq, l.delivery_count
  from queen.pop_lanes('q', $1, array[$2::int], array[1], array[gen_random_uuid()], p_prefetch => true) l
 cross join lateral unnest(l.message_ids) with ordinality m(id, place)
"""


async def delete(sql: Sql, message: Message) -> None:
    assert await sql.fetchval("select queen.delete_message($1, $2)", message.partition_id, message.transaction_id)


async def prefetch(sql: Sql, count: int) -> list[tuple[int, int]]:
    rows = await sql.fetch(PREFETCH, QUEUE_MODE, count)
    return [(row["seq"], row["delivery_count"]) for row in rows]


@pytest.mark.parametrize("by", ["pop", "service"])
async def test_more_overdue_than_a_portion_and_one_deleted(engine: Engine, sql: Sql, clock: Clock, by: str) -> None:
    """The cursor never passes the head."""
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await engine.register("q", "g")
    pushed = await push(engine, *range(1200), transaction_id=None)
    await sql.fetchval(
        "select queen.delete_message(id, $1) from queen.partitions where name = 'p'", pushed[700].transaction_id
    )
    await clock.advance(61)
    await push(engine, 5000)
    if by == "service":
        assert await sql.fetchval(EVICT, 1000) == 1000
    assert numbers(await pop(engine, group="g")) == [5000]
    assert await dead(sql, group="g") == [number for number in range(1200) if number != 700]
    row = await lane(sql, group="g")
    assert (row["last_consumed_seq"], row["depth"]) == (1200, 1)


async def test_what_was_pushed_before_the_first_pop_is_not_skipped(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await push(engine, 1)
    await clock.advance(61)
    assert await pop(engine) == []
    assert await dead(sql) == [1]
    assert (await lane(sql))["total_messages_consumed"] == 0


async def test_followers_do_not_die_for_their_predecessor(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_deliveries": 3})
    await push(engine, 1, 2, 3)
    seen: list[tuple[int, int]] = []
    while got := await pop(engine, 1, lease_seconds=10):
        seen += [(number, got[0].delivery_count) for number in numbers(got)]
        await clock.advance(11)
    assert seen == [(number, count) for number in (1, 2, 3) for count in (0, 1, 2)]
    assert await dead(sql) == [1, 2, 3]


@pytest.mark.parametrize("how", ["deleted", "buried", "retained", "evicted", "passed by seek"])
async def test_a_first_failure_spends_the_first_retry(engine: Engine, sql: Sql, clock: Clock, how: str) -> None:
    await engine.queues.configure("q", {"retry_limit": 2})
    await push(engine, 1)
    await clock.advance(100)
    await push(engine, 2)
    await engine.ack(acks(await pop(engine, 1), "failed"))
    (first,) = await pop(engine, 1)
    await engine.ack(acks([first], "failed"))
    if how == "deleted":
        await delete(sql, first)
    elif how == "buried":
        await sql.fetchval(
            "select queen.bury_message($1, $2, $3, 'x')", first.partition_id, first.transaction_id, QUEUE_MODE
        )
    elif how == "retained":
        await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 50})
        assert await sql.fetchval("select queen.retain_partitions(array[$1::bigint], 100)", first.partition_id) == 1
    elif how == "evicted":
        await engine.queues.configure("q", {"max_wait_time_seconds": 50})
    else:
        await sql.fetch("select * from queen.seek('q', $1, 'seq', p_seq => 1)", QUEUE_MODE)
    for retries in range(3):
        (second,) = await pop(engine, 1)
        assert (numbers([second]), second.retry_count) == ([2], retries)
        assert 2 not in await dead(sql)
        await engine.ack(acks([second], "failed"))
    assert 2 in await dead(sql)


async def test_what_failed_together_comes_again_together_and_nothing_joins(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"retry_limit": 1})
    await push(engine, 1, 2)
    await engine.ack(acks(await pop(engine), "failed"))
    await push(engine, 3)
    got = await pop(engine)
    assert [(number, message.retry_count) for number, message in zip(numbers(got), got, strict=True)] == [
        (1, 1),
        (2, 1),
    ]
    await engine.ack(acks(got, "failed"))
    assert await dead(sql) == [1, 2]
    (third,) = await pop(engine)
    assert third.retry_count == 0
    await engine.ack(acks([third], "failed"))
    assert await dead(sql) == [1, 2]


async def test_what_expired_together_comes_again_together(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_deliveries": 2})
    await push(engine, 1, 2)
    await pop(engine, lease_seconds=10)
    await push(engine, 3)
    await clock.advance(11)
    got = await pop(engine, lease_seconds=10)
    assert (numbers(got), {message.delivery_count for message in got}) == ([1, 2], {1})
    await clock.advance(11)
    (third,) = await pop(engine)
    assert (numbers([third]), third.delivery_count) == ([3], 0)
    assert await dead(sql) == [1, 2]


async def test_the_next_message_starts_its_deliveries_at_zero(engine: Engine, clock: Clock) -> None:
    await push(engine, 1, 2)
    await pop(engine, batch=1)
    await clock.advance(301)
    again = await pop(engine, batch=1)
    assert [message.delivery_count for message in again] == [1]
    await engine.ack(acks(again))
    assert [message.delivery_count for message in await pop(engine, batch=1)] == [0]


async def test_a_smaller_batch_counts_for_itself(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_deliveries": 2})
    await push(engine, 1, 2)
    await pop(engine, lease_seconds=10)
    await clock.advance(11)
    assert numbers(await pop(engine, 1, lease_seconds=10)) == [1]
    await clock.advance(11)
    (second,) = await pop(engine)
    assert (await dead(sql), numbers([second]), second.delivery_count) == ([1], [2], 0)


async def test_a_failure_behind_an_open_message_counts_when_it_is_first(engine: Engine, sql: Sql) -> None:
    """A consumer that works on a batch in parallel tells of the third before the others: they have not failed."""
    await engine.queues.configure("q", {"retry_limit": 1})
    await push(engine, 1, 2, 3, 4)
    got = await pop(engine)
    await engine.ack(acks([got[2]], "failed"))
    assert (await lane(sql))["retry_count"] == 0
    front = await pop(engine)
    assert numbers(front) == [1, 2]
    await engine.ack(acks(front, "failed"))
    assert await dead(sql) == []
    await engine.ack_messages(await pop(engine))
    for retries in range(2):
        third, *_ = await pop(engine, 1)
        assert (numbers([third]), third.retry_count) == ([3], retries)
        await engine.ack(acks([third], "failed"))
    assert await dead(sql) == [3]
    assert numbers(await pop(engine)) == [4]


async def test_a_failure_at_the_limit_passes_nothing_that_was_not_acknowledged(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"retry_limit": 1})
    await push(engine, 1, 2, 3)
    await engine.ack(acks(await pop(engine), "failed"))
    got = await pop(engine)
    await engine.ack(acks([got[2]], "failed"))
    assert (await dead(sql), (await lane(sql))["last_consumed_seq"]) == ([], 0)
    assert numbers(await pop(engine)) == [1, 2]


async def test_a_release_does_not_make_the_next_batch_smaller(engine: Engine) -> None:
    await push(engine, 1, 2, 3)
    await engine.release([lease_of(await pop(engine, 1))])
    assert numbers(await pop(engine)) == [1, 2, 3]


async def test_what_a_prefetching_consumer_never_handed_over_is_not_counted(
    engine: Engine, sql: Sql, clock: Clock
) -> None:
    await engine.queues.configure("q", {"max_deliveries": 2, "lease_time": 10})
    await engine.register("q", QUEUE_MODE)
    await push(engine, 1, 2, 3, 4)
    assert await prefetch(sql, 4) == [(1, 0), (2, 0), (3, 0), (4, 0)]
    await clock.advance(11)
    assert await prefetch(sql, 4) == [(1, 1)], "only the first was handed over for certain"
    await clock.advance(11)
    assert await prefetch(sql, 4) == [(2, 0), (3, 0), (4, 0)]
    assert await dead(sql) == [1]


async def test_an_expiry_behind_the_first_of_a_prefetch_counts_for_nobody(
    engine: Engine, sql: Sql, clock: Clock
) -> None:
    await engine.queues.configure("q", {"max_deliveries": 1, "lease_time": 10})
    await engine.register("q", QUEUE_MODE)
    await push(engine, 1, 2, 3)
    for done in (1, 2):
        assert (await prefetch(sql, 3))[0] == (done, 0)
        row = await lane(sql)
        await sql.fetch(
            "select * from queen.ack_leases(array[$1::bigint], array[$2], array[$3::uuid], array[$4::bigint])",
            row["partition_id"], QUEUE_MODE, row["lease_id"], done,
        )  # fmt: skip
        await clock.advance(11)
    assert await prefetch(sql, 3) == [(3, 0)]
    assert await dead(sql) == []


@pytest.mark.parametrize("status", ["failed", "retry"])
async def test_an_ack_without_a_token_breaks_no_lease(engine: Engine, sql: Sql, status: AckStatus) -> None:
    await push(engine, 1, 2)
    got = await pop(engine)
    alien = Ack(partition_id=got[0].partition_id, transaction_id=got[0].transaction_id, status=status, group=QUEUE_MODE)
    (outcome,) = await engine.ack([alien])
    assert (outcome.verdict, outcome.released) == ("lost", False)
    assert (await lane(sql))["retry_count"] == 0
    (outcome,) = await engine.ack_leases([up_to(got[-1])])
    assert (outcome.verdict, outcome.released) == ("acked", True)


@pytest.mark.parametrize("acked_first", [True, False])
async def test_a_batch_whose_last_message_was_deleted_ends(engine: Engine, sql: Sql, acked_first: bool) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    await push(engine, 4)
    if acked_first:
        await engine.ack(acks(got[:2]))
        await delete(sql, got[2])
        (outcome,) = await engine.ack(acks(got[2:]))
        assert (outcome.verdict, outcome.released) == ("lost", False)
    else:
        await delete(sql, got[2])
        assert [outcome.released for outcome in await engine.ack(acks(got[:2]))] == [True, True]
    assert numbers(await pop(engine)) == [4]


async def test_a_dead_letter_of_a_batch_that_expired_is_logged_once(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {"max_deliveries": 1})
    await push(engine, 1, 2)
    await pop(engine, 1, lease_seconds=10)
    await clock.advance(11)
    assert numbers(await pop(engine, 1, lease_seconds=10)) == [2]
    await clock.advance(11)
    assert await pop(engine) == []
    rows = await sql.fetch("select batch_from, batch_to, outcome from queen.deliveries order by ended_at")
    assert [tuple(row.values()) for row in rows] == [(1, 1, "expired"), (2, 2, "expired")]
    assert ((await lane(sql))["lease_id"], await dead(sql)) == (None, [1, 2])


async def test_a_lease_ends_with_the_last_message_that_is_left_of_its_batch(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3, 4)
    batch = await pop(engine, batch=3)
    await delete(sql, batch[2])
    await engine.ack_leases([up_to(batch[1])])
    assert (await lane(sql))["lease_id"] is None
    assert numbers(await pop(engine, batch=9)) == [4]


async def test_a_window_as_long_as_it_may_be(engine: Engine) -> None:
    await engine.queues.configure("q", {"window_buffer": 2_147_483_647})
    await push(engine, 1)
    assert await pop(engine) == []


async def test_a_queue_has_a_name_in_sql(sql: Sql) -> None:
    with pytest.raises(asyncpg.PostgresError):
        await sql.fetch("select queen.push('', 'p', '1')")


@pytest.mark.parametrize("arguments", ["'beginning'", "'time'", "'seq'", "null"])
async def test_a_seek_to_nowhere_moves_nothing(engine: Engine, sql: Sql, arguments: str) -> None:
    await push(engine, 1, 2)
    await engine.ack_messages(await pop(engine))
    with pytest.raises(asyncpg.PostgresError, match="start, end, time"):
        await sql.fetch(f"select * from queen.seek('q', '{QUEUE_MODE}', {arguments})")
    assert (await lane(sql))["last_consumed_seq"] == 2


async def test_a_batch_that_others_join_is_noticed(engine: Engine, sql: Sql, database: str) -> None:
    plant(database, "a-batch-that-others-join")
    with pytest.raises(AssertionError):
        await test_what_failed_together_comes_again_together_and_nothing_joins(engine, sql)


async def test_counts_that_stay_with_no_batch_are_noticed(engine: Engine, sql: Sql, database: str) -> None:
    plant(database, "counts-that-stay-with-no-batch")
    with pytest.raises(AssertionError):
        await test_what_failed_together_comes_again_together_and_nothing_joins(engine, sql)


async def test_deliveries_held_against_the_next_message_are_noticed(
    engine: Engine, clock: Clock, database: str
) -> None:
    plant(database, "deliveries-held-against-the-next-message")
    with pytest.raises(AssertionError):
        await test_the_next_message_starts_its_deliveries_at_zero(engine, clock)


async def test_an_expiry_that_nobody_counts_is_noticed(engine: Engine, sql: Sql, clock: Clock, database: str) -> None:
    plant(database, "an-expiry-that-nobody-counts")
    with pytest.raises(AssertionError):
        await test_what_expired_together_comes_again_together(engine, sql, clock)


async def test_a_retry_is_kept_when_what_was_in_front_is_deleted(engine: Engine, sql: Sql) -> None:
    """The cursor passes the deleted message with the failure; passing it later would start the count again."""
    await engine.queues.configure("q", {"retry_limit": 1})
    await push(engine, 1, 2)
    popped = await pop(engine)
    await delete(sql, popped[0])
    await engine.ack(acks(popped[1:], "failed"))
    (again,) = await pop(engine)
    assert (numbers([again]), again.retry_count) == ([2], 1)
    await engine.ack(acks([again], "failed"))
    assert await dead(sql) == [2]
    assert (await lane(sql))["total_messages_consumed"] == 0


@pytest.mark.parametrize("status", ["completed", "failed", "retry"])
async def test_an_ack_of_what_is_gone_finishes_nothing(
    engine: Engine, sql: Sql, clock: Clock, status: AckStatus
) -> None:
    """The lease ran out, then retention took its message: nothing of the batch is left, nor was any of it finished."""
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 50})
    await push(engine, 1)
    (held,) = await pop(engine, lease_seconds=10)
    await clock.advance(60)
    await push(engine, 2)
    assert await sql.fetchval("select queen.retain_partitions(array[$1::bigint])", held.partition_id) == 1
    await sql.fetch("select queen.delete_message(partition_id, coalesce(transaction_id, id::text)) from queen.messages")
    (answer,) = await engine.ack(acks([held], status))
    assert answer.verdict == "unknown"
    counted = "select total_messages_consumed from queen.partition_consumers where partition_id = $1"
    assert await sql.fetchval(counted, held.partition_id) == 0
