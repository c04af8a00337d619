from __future__ import annotations

import asyncio
from typing import Any

import pytest

from queen import errors
from queen.db.pool import PoolOptions, Row
from queen.engine import Engine
from queen.engine import pop as popping
from queen.model import QUEUE_MODE, PopRequest
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import Sql, connect, dead, lane, message, numbers, pop, push


async def test_a_queue_nobody_made_is_empty(engine: Engine, sql: Sql) -> None:
    assert await pop(engine) == []
    assert await sql.fetchval("select count(*) from queen.queues") == 0


async def test_messages_come_in_order_and_once(engine: Engine) -> None:
    await push(engine, 1, 2, 3)
    first = await pop(engine, 2)
    assert numbers(first) == [1, 2]
    assert [m.seq for m in first] == [1, 2]
    assert await pop(engine, 2) == []
    await engine.ack_messages(first)
    assert numbers(await pop(engine, 2)) == [3]


async def test_groups_do_not_disturb_each_other(engine: Engine) -> None:
    await push(engine, 1, 2)
    mine, yours = await pop(engine, group="a"), await pop(engine, group="b")
    assert numbers(mine) == numbers(yours) == [1, 2]
    await engine.ack_messages(mine)
    assert await pop(engine, group="a") == []
    assert numbers(await pop(engine)) == [1, 2]


async def test_the_partition_ready_longest_comes_first(engine: Engine) -> None:
    for number, partition in enumerate("cab"):
        await push(engine, number, number + 10, partition=partition)
    for partition in "cab":
        (got,) = await pop(engine, 1)
        assert got.partition == partition
        await engine.ack_messages([got])
    assert [(await pop(engine, 1))[0].partition for _ in range(3)] == ["c", "a", "b"]


async def test_a_lane_with_one_message_is_served_beside_one_with_many(engine: Engine) -> None:
    await push(engine, *range(500), partition="long")
    got = await pop(engine, 10)
    await push(engine, 1, partition="short")
    await engine.ack_messages(got)
    served = [(await pop(engine, 10))[0].partition for _ in range(2)]
    assert "short" in served


async def test_a_batch_is_a_cap_over_all_partitions(engine: Engine) -> None:
    for partition in "abc":
        await push(engine, 1, 2, 3, partition=partition)
    got = await pop(engine, 7, partitions=3)
    assert [(m.partition, m.seq) for m in got] == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3), ("c", 1)]
    assert len({m.lease_id for m in got}) == 1
    assert len(await pop(engine, 7, partitions=3)) == 0
    await engine.ack_messages(got)
    assert [(m.partition, m.seq) for m in await pop(engine, 7, partitions=3)] == [("c", 2), ("c", 3)]


async def test_at_most_the_partitions_asked_for(engine: Engine) -> None:
    for partition in "abc":
        await push(engine, 1, partition=partition)
    assert [m.partition for m in await pop(engine, 10, partitions=2)] == ["a", "b"]
    assert [m.partition for m in await pop(engine, 10, partitions=2)] == ["c"]


async def test_one_partition_by_name(engine: Engine) -> None:
    await push(engine, 1, partition="a")
    await push(engine, 2, partition="b")
    assert numbers(await pop(engine, partition="b")) == [2]
    assert await pop(engine, partition="b") == []
    assert await pop(engine, partition="none") == []
    assert numbers(await pop(engine)) == [1]


async def test_concurrent_pops_share_without_overlap(engine: Engine) -> None:
    for partition in range(20):
        await push(engine, *range(5), partition=str(partition))
    found = await asyncio.gather(*[pop(engine, 5) for _ in range(20)])
    assert all(len(batch) == 5 and len({m.partition for m in batch}) == 1 for batch in found)
    assert len({m.partition for batch in found for m in batch}) == 20
    assert len({m.lease_id for batch in found for m in batch}) == 20


async def test_a_crashed_consumers_work_comes_back_in_order(engine: Engine, clock: Clock, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    lost = await pop(engine, 2, lease_seconds=10)
    assert [m.delivery_count for m in lost] == [0, 0]
    await clock.advance(9)
    assert await pop(engine, 2) == []
    await clock.advance(2)
    again = await pop(engine, 2)
    assert numbers(again) == [1, 2]
    assert [(m.delivery_count, m.retry_count) for m in again] == [(1, 0), (1, 0)]
    assert again[0].lease_id != lost[0].lease_id
    assert await sql.fetchval("select outcome from queen.deliveries") == "expired"


async def test_a_crash_is_not_a_failure_unless_max_deliveries_says_so(engine: Engine, clock: Clock, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_deliveries": 3, "lease_time": 10, "retry_limit": 0})
    await push(engine, 1, 2, 3)
    for delivery in range(3):
        got = await pop(engine, 2)
        assert [(n, m.delivery_count) for n, m in zip(numbers(got), got, strict=True)] == [(1, delivery), (2, delivery)]
        await clock.advance(11)
    assert numbers(await pop(engine, 2)) == [3]
    assert await dead(sql) == [1, 2]


async def test_without_max_deliveries_it_comes_back_for_ever(engine: Engine, clock: Clock, sql: Sql) -> None:
    await engine.queues.configure("q", {"lease_time": 10, "retry_limit": 0})
    await push(engine, 1)
    for delivery in range(8):
        (got,) = await pop(engine)
        assert got.delivery_count == delivery
        await clock.advance(11)
    assert await dead(sql) == []


async def test_lease_time_of_the_queue_and_of_the_pop(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("q", {"lease_time": 50})
    await push(engine, 1, partition="a")
    await push(engine, 2, partition="b")
    (by_queue,), (by_pop,) = await pop(engine, partition="a"), await pop(engine, partition="b", lease_seconds=7)
    now = await clock.now()
    assert by_queue.lease_expires_at is not None
    assert by_pop.lease_expires_at is not None
    assert 45 < (by_queue.lease_expires_at - now).total_seconds() <= 50
    assert 5 < (by_pop.lease_expires_at - now).total_seconds() <= 7


async def test_auto_ack_keeps_no_lease(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine, 2, auto_ack=True)
    assert numbers(got) == [1, 2]
    assert {m.lease_id for m in got} == {None}
    assert numbers(await pop(engine, 2, auto_ack=True)) == [3]
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"], row["ready_at"], row["total_messages_consumed"]) == (
        3,
        None,
        None,
        3,
    )


async def test_paused_means_nothing_is_handed_out(engine: Engine) -> None:
    await push(engine, 1)
    await engine.queues.pause("q")
    assert await pop(engine) == []
    assert await pop(engine, group="new") == []
    await push(engine, 2)
    assert await pop(engine) == []
    await engine.queues.pause("q", paused=False)
    assert numbers(await pop(engine)) == [1, 2]
    assert numbers(await pop(engine, group="new")) == [1, 2]


async def test_an_expired_lease_on_a_paused_queue_waits(engine: Engine, clock: Clock) -> None:
    await push(engine, 1)
    await pop(engine, lease_seconds=1)
    await engine.queues.pause("q")
    await clock.advance(2)
    assert await pop(engine) == []
    await engine.queues.pause("q", paused=False)
    assert numbers(await pop(engine)) == [1]


async def test_deleted_messages_are_skipped(engine: Engine, sql: Sql) -> None:
    pushed = await push(engine, *range(1, 11))
    for seq in (1, 2, 5, 10):
        assert await engine.delete_message(pushed[0].partition_id, pushed[seq - 1].transaction_id)
    assert not await engine.delete_message(pushed[0].partition_id, pushed[0].transaction_id)
    assert not await engine.delete_message(pushed[0].partition_id, "nothing")
    first = await pop(engine, 3)
    assert numbers(first) == [3, 4]
    assert (await lane(sql))["depth"] == 6
    await engine.ack_messages(first)
    rest = await pop(engine)
    assert numbers(rest) == [6, 7, 8, 9]
    await engine.ack_messages(rest)
    assert (await lane(sql))["depth"] == 0
    assert await pop(engine) == []
    assert (await lane(sql))["ready_at"] is None


async def test_a_lane_of_deleted_messages_is_drained(engine: Engine, sql: Sql) -> None:
    pushed = await push(engine, 1, 2)
    await pop(engine, group="other")
    for one in pushed:
        await engine.delete_message(one.partition_id, one.transaction_id)
    assert await pop(engine) == []
    assert await sql.fetchval("select current_depth from queen.queue_depths") == 0
    await push(engine, 3)
    assert numbers(await pop(engine)) == [3]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (PopRequest(queue="x" * 513), "INVALID_QUEUE"),
        (PopRequest(queue="q", group=""), "INVALID_CONSUMER_GROUP"),
        (PopRequest(queue="q", group="x" * 513), "INVALID_CONSUMER_GROUP"),
        (PopRequest(queue="q", partition="\0"), "INVALID_PARTITION"),
        (PopRequest(queue="q", batch=0), "INVALID_BATCH"),
        (PopRequest(queue="q", batch=10_001), "INVALID_BATCH"),
        (PopRequest(queue="q", partitions=0), "INVALID_PARTITIONS"),
        (PopRequest(queue="q", lease_seconds=0), "INVALID_LEASE_SECONDS"),
        (PopRequest(queue="q", lease_seconds=86_401), "INVALID_LEASE_SECONDS"),
        (PopRequest(queue="q", wait=301), "INVALID_TIMEOUT"),
        (PopRequest(queue="q", wait=-1), "INVALID_TIMEOUT"),
    ],
)
async def test_what_pop_cannot_do_is_refused(engine: Engine, request_: PopRequest, code: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        await engine.pop(request_)
    assert refused.value.code == code


async def test_pops_of_a_batch_at_different_sizes(engine: Engine) -> None:
    for partition in range(6):
        await push(engine, *range(10), partition=str(partition))
    found = await asyncio.gather(*[pop(engine, size) for size in (1, 10, 3, 7, 2, 5)])
    assert [len(batch) for batch in found] == [1, 10, 3, 7, 2, 5]


async def test_many_ask_where_little_is(engine: Engine) -> None:
    await engine.push([message(n, partition=str(n)) for n in range(3)])
    found = await asyncio.gather(*[pop(engine, 5) for _ in range(10)])
    assert sorted(len(batch) for batch in found) == [0] * 7 + [1] * 3


async def test_an_uncommitted_push_hides_nothing_and_is_found_after_commit(engine: Engine, database: str) -> None:
    """R2: an empty pop that met a push in flight looks again by itself."""
    await push(engine, 1)
    await engine.ack_messages(await pop(engine))
    async with connect(database) as other:
        async with other.transaction():
            await other.execute("select queen.push('q', 'p', '{\"n\": 2}')")
            assert await pop(engine) == []
        assert numbers(await pop(engine, wait=5)) == [2]


async def test_a_pop_whose_answer_is_lost_hands_back_what_it_took(database: str, sql: Sql) -> None:
    async with Engine.connect(database, options=PoolOptions(size=1)) as engine:
        assert await pop(engine, group="g") == []
        await sql.execute("select queen.push('q', 'p', '{\"n\": 1}')")
        pool: Any = engine.database
        line = pool._kept[-1]._con._transport
        line.pause_reading()
        asked = asyncio.create_task(pop(engine, group="g"))
        leased = "select count(*) = 1 from queen.partition_consumers where lease_id is not null"
        await eventually(lambda: sql.fetchval(leased))
        line.abort()
        with pytest.raises(errors.StoreUnavailable):
            await asked
        assert numbers(await pop(engine, group="g")) == [1]


async def test_what_commits_below_the_mark_is_found_though_the_queue_is_busy(
    engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark spares walking what is dead; a late commit may lie below it, so it is not believed for long.

    Its time is over during a pop here, as in a queue that is always being popped: that must not begin it anew.
    """
    monkeypatch.setattr(popping, "MARK_LIFETIME", 0.2)
    others = 7
    await engine.push([message(0, partition="late"), *(message(n, partition=f"p{n}") for n in range(1, others))])
    await engine.register("q", QUEUE_MODE)
    ready = "update queen.partition_consumers set ready_at = now() + interval '{} hour' where partition_id = {}"
    late = await sql.fetchval("select id from queen.partitions where name = 'late'")
    await sql.execute(ready.format(1, late))
    ask = engine._popper._ask

    async def ask_slowly(*given: Any) -> list[Row]:
        rows = await ask(*given)
        await asyncio.sleep(0.25)
        return rows

    monkeypatch.setattr(engine._popper, "_ask", ask_slowly)
    assert (await pop(engine, 1))[0].partition != "late"
    await sql.execute(ready.format(-1, late))
    for _ in range(2, others):
        if (await pop(engine, 1))[0].partition == "late":
            break
    else:
        pytest.fail("everything else came first")
