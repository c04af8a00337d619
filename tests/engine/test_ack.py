"""Every row of the table of outcomes."""

from __future__ import annotations

import asyncio

import pytest

from queen.engine import Engine
from queen.model import Ack, AckStatus, LeaseAck
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import Sql, acks, connect, dead, lane, lease_of, numbers, pop, push, up_to

FREE = "select count(*) = 0 from queen.partition_consumers where lease_id = $1"


async def test_all_completed(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    outcomes = await engine.ack(acks(got))
    assert [(o.verdict, o.released, o.dead_letter, o.queue, o.partition) for o in outcomes] == [
        ("acked", True, False, "q", "p")
    ] * 3
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"], row["ready_at"]) == (3, None, None)
    assert (row["total_messages_consumed"], row["total_batches_consumed"]) == (3, 1)
    assert dict(await sql.fetchrow("select batch_from, batch_to, outcome, failed from queen.deliveries") or {}) == {
        "batch_from": 1, "batch_to": 3, "outcome": "completed", "failed": 0,
    }  # fmt: skip


async def test_whole_leases_completed(engine: Engine, sql: Sql) -> None:
    for partition in "abc":
        await push(engine, 1, 2, partition=partition)
    got = await pop(engine, 6, partitions=3)
    assert [(o.verdict, o.released) for o in await engine.ack_messages(got)] == [("acked", True)] * 3
    assert [(await lane(sql, partition=p))["ready_at"] for p in "abc"] == [None] * 3
    assert await sql.fetchval("select count(*) from queen.deliveries where outcome = 'completed'") == 3


async def test_an_ack_never_moves_the_cursor_back(engine: Engine, sql: Sql) -> None:
    await push(engine, *range(1, 11))
    batch = await pop(engine, 4)
    ahead = Ack(partition_id=batch[0].partition_id, transaction_id="", seq=7, group=batch[0].group)
    assert [o.verdict for o in await engine.ack([ahead])] == ["acked"]
    assert (await lane(sql))["last_consumed_seq"] == 7
    assert [(o.verdict, o.released) for o in await engine.ack_leases([up_to(batch[-1])])] == [("lost", False)]
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["total_messages_consumed"]) == (7, 7)
    assert numbers(await pop(engine)) == [8, 9, 10]


async def test_an_ack_is_one_row_written_besides_the_delivery(engine: Engine, sql: Sql) -> None:
    await push(engine, *range(10))
    got = await pop(engine)
    counted = (
        "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::int from pg_stat_xact_user_tables"
        " where schemaname = 'queen'"
    )
    async with sql.transaction():
        before = await sql.fetchval(counted)
        await sql.fetch(
            "select * from queen.ack_leases($1, $2, $3, $4)",
            [got[0].partition_id], [got[0].group], [got[0].lease_id], [10],
        )  # fmt: skip
        assert await sql.fetchval(counted) - before == 2


async def test_some_completed_some_failed(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3, 4)
    got = await pop(engine)
    outcomes = await engine.ack([*acks(got[:1]), *acks(got[1:3], "failed", "boom"), *acks(got[3:])])
    assert [o.verdict for o in outcomes] == ["acked"] * 4
    assert [o.dead_letter for o in outcomes] == [False, True, True, False]
    assert await dead(sql) == [2, 3]
    assert await sql.fetchval("select distinct error_message from queen.dead_letter_queue") == "boom"
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"], row["ready_at"], row["retry_count"]) == (4, None, None, 0)
    assert await sql.fetchval("select outcome from queen.deliveries") == "partial"


async def test_some_failed_where_the_queue_prefers_to_retry(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"partial_failure": "retry", "retry_limit": 1})
    await push(engine, 1, 2, 3)
    first, second, third = await pop(engine)
    await engine.ack([*acks([first]), *acks([second], "failed"), *acks([third])])
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["retry_count"], row["lease_id"]) == (1, 1, None)
    assert await dead(sql) == []
    got = await pop(engine)
    assert numbers(got) == [2], "what failed alone comes again alone"
    await engine.ack(acks(got, "failed"))
    assert await dead(sql) == [2]
    assert numbers(await pop(engine)) == [3]


async def test_all_failed_comes_again_and_spends_one_retry(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    for retries in range(3):
        got = await pop(engine)
        assert numbers(got) == [1, 2, 3]
        assert {m.retry_count for m in got} == {retries}
        outcomes = await engine.ack(acks(got, "failed", "boom"))
        assert [(o.verdict, o.released, o.dead_letter) for o in outcomes] == [("acked", True, False)] * 3
    assert (await lane(sql))["retry_count"] == 3
    assert await dead(sql) == []
    last = await engine.ack(acks(await pop(engine), "failed", "boom"))
    assert [o.dead_letter for o in last] == [True] * 3
    assert await dead(sql) == [1, 2, 3]
    assert await sql.fetchval("select distinct retry_count from queen.dead_letter_queue") == 3
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["retry_count"], row["lease_id"], row["ready_at"]) == (3, 0, None, None)


@pytest.mark.parametrize("limit", [0, 1, 2])
async def test_attempts_are_the_retry_limit_and_one(engine: Engine, sql: Sql, limit: int) -> None:
    await engine.queues.configure("q", {"retry_limit": limit})
    await push(engine, 1, 2)
    attempts: list[int] = []
    while got := await pop(engine, 1):
        attempts += numbers(got)
        await engine.ack(acks(got, "failed"))
    assert attempts == [1] * (limit + 1) + [2] * (limit + 1)
    assert await dead(sql) == [1, 2]


async def test_a_retry_waits_for_its_delay(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("q", {"retry_delay": 30_000})
    await push(engine, 1)
    await engine.ack(acks(await pop(engine), "failed"))
    assert await pop(engine) == []
    await push(engine, 2)
    await clock.advance(29)
    assert await pop(engine) == []
    await clock.advance(2)
    assert numbers(await pop(engine)) == [1]


async def test_progress_starts_the_count_again(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"retry_limit": 1})
    await push(engine, 1, 2)
    await engine.ack(acks(await pop(engine), "failed"))
    got = await pop(engine)
    await engine.ack(acks(got[:1]))
    assert (await lane(sql))["retry_count"] == 0
    await engine.ack(acks(got[1:], "failed"))
    assert await dead(sql) == []
    assert numbers(await pop(engine)) == [2]


async def test_a_prefix_completed_keeps_the_rest_leased(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    assert [o.released for o in await engine.ack(acks(got[:2]))] == [False, False]
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"]) == (2, lease_of(got))
    assert await pop(engine) == []
    assert [o.released for o in await engine.ack_leases([up_to(got[2])])] == [True]
    assert (await lane(sql))["last_consumed_seq"] == 3


async def test_a_prefix_completed_then_a_crash_redelivers_the_rest(engine: Engine, clock: Clock) -> None:
    await push(engine, 1, 2, 3)
    await engine.ack_leases([up_to((await pop(engine, lease_seconds=5))[0])])
    await clock.advance(6)
    assert numbers(await pop(engine)) == [2, 3]


async def test_completed_but_no_prefix_is_cumulative(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3, 4)
    got = await pop(engine)
    await engine.ack(acks([got[2]]))
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"]) == (3, lease_of(got))
    assert [o.verdict for o in await engine.ack(acks(got[:2]))] == ["noop", "noop"]
    assert (await lane(sql))["last_consumed_seq"] == 3


async def test_one_failed_on_its_own_is_redelivered_from_there(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3, 4)
    got = await pop(engine)
    await engine.ack(acks(got[:1]))
    (outcome,) = await engine.ack(acks([got[1]], "failed"))
    assert (outcome.verdict, outcome.released, outcome.dead_letter) == ("acked", True, False)
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["retry_count"], row["lease_id"]) == (1, 1, None)
    again = await pop(engine)
    assert numbers(again) == [2]
    await engine.ack_messages(again)
    assert numbers(await pop(engine)) == [3, 4]


async def test_one_failed_on_its_own_at_the_limit(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"retry_limit": 0})
    await push(engine, 1, 2, 3, 4)
    got = await pop(engine)
    await engine.ack(acks(got[:1]))
    (outcome,) = await engine.ack(acks([got[1]], "failed"))
    assert (outcome.released, outcome.dead_letter) == (False, True)
    assert await dead(sql) == [2]
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"]) == (2, lease_of(got))
    assert [o.released for o in await engine.ack(acks(got[2:]))] == [True, True]


@pytest.mark.parametrize("status", ["failed", "dlq"])
async def test_failed_below_the_cursor_inside_the_lease(engine: Engine, sql: Sql, status: AckStatus) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    await engine.ack(acks([got[1]]))
    (outcome,) = await engine.ack(acks([got[0]], status, "late"))
    assert (outcome.verdict, outcome.released, outcome.dead_letter) == ("acked", False, True)
    assert await dead(sql) == [1]
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"]) == (2, lease_of(got))
    await engine.ack(acks([got[0]], status, "late"))
    assert await dead(sql) == [1]


async def test_completed_below_the_cursor_is_a_success_that_does_nothing(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    await engine.ack_leases([up_to(got[1])])
    before = dict(await lane(sql))
    (outcome,) = await engine.ack(acks([got[0]]))
    assert (outcome.verdict, outcome.ok, outcome.released) == ("noop", True, False)
    assert dict(await lane(sql)) == before


async def test_dlq_dead_letters_at_once(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    (outcome,) = await engine.ack(acks(got[:1], "dlq", "no good"))
    assert (outcome.dead_letter, outcome.released) == (True, False)
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"], row["retry_count"]) == (1, lease_of(got), 0)
    assert await dead(sql) == [1]


async def test_retry_is_redelivered_and_not_counted(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"retry_limit": 0, "retry_delay": 60_000})
    await push(engine, 1, 2)
    for _ in range(3):
        got = await pop(engine)
        assert numbers(got) == [1, 2]
        assert {m.retry_count for m in got} == {0}
        assert all(o.released for o in await engine.ack(acks(got, "retry")))
    assert await dead(sql) == []


async def test_a_prefix_and_retry_in_one_call(engine: Engine) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    await engine.ack([*acks(got[:1]), *acks(got[1:2], "retry"), *acks(got[2:])])
    assert numbers(await pop(engine)) == [2, 3]


async def test_a_late_ack_counts_while_its_token_is_there(engine: Engine, clock: Clock, sql: Sql) -> None:
    """R10"""
    await push(engine, 1, 2)
    got = await pop(engine, lease_seconds=1)
    await clock.advance(60)
    assert [o.verdict for o in await engine.ack(acks(got))] == ["acked", "acked"]
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"], row["ready_at"]) == (2, None, None)


@pytest.mark.parametrize("status", ["completed", "failed", "dlq", "retry"])
async def test_a_lost_lease_changes_nothing(engine: Engine, clock: Clock, sql: Sql, status: AckStatus) -> None:
    """I4"""
    await push(engine, 1, 2)
    stale = await pop(engine, lease_seconds=1)
    await clock.advance(2)
    fresh = await pop(engine)
    before = dict(await lane(sql))
    assert [o.verdict for o in await engine.ack(acks(stale, status))] == ["lost", "lost"]
    assert [o.verdict for o in await engine.ack_leases([up_to(stale[1])])] == ["lost"]
    assert dict(await lane(sql)) == before
    assert await dead(sql) == []
    assert [o.verdict for o in await engine.ack(acks(fresh))] == ["acked", "acked"]


async def test_a_second_ack_after_the_failed_one_is_refused(engine: Engine) -> None:
    """Some old clients ack twice: the failure must not be lost."""
    await push(engine, 1)
    got = await pop(engine)
    await engine.ack(acks(got, "failed"))
    assert [o.verdict for o in await engine.ack(acks(got))] == ["lost"]
    assert numbers(await pop(engine)) == [1]


async def test_without_a_token_the_cursor_only_moves_forward(engine: Engine, sql: Sql) -> None:
    pushed = await push(engine, 1, 2, 3)
    got = await pop(engine, 3)

    def bare(index: int, status: AckStatus = "completed") -> Ack:
        return Ack(partition_id=pushed[0].partition_id, transaction_id=pushed[index].transaction_id, status=status)

    assert [o.verdict for o in await engine.ack([bare(1)])] == ["acked"]
    assert [o.verdict for o in await engine.ack([bare(0)])] == ["noop"]
    row = await lane(sql)
    assert (row["last_consumed_seq"], row["lease_id"]) == (2, lease_of(got))
    assert [(o.verdict, o.released) for o in await engine.ack([bare(2)])] == [("acked", True)]
    assert [o.verdict for o in await engine.ack([bare(0, "failed")])] == ["committed"]
    assert (await lane(sql))["last_consumed_seq"] == 3


async def test_failed_without_token_and_without_lease_is_refused(engine: Engine, sql: Sql) -> None:
    pushed = await push(engine, 1)
    await engine.register("q", "g")
    bare = Ack(partition_id=pushed[0].partition_id, transaction_id=pushed[0].transaction_id, group="g", status="failed")
    assert [o.verdict for o in await engine.ack([bare])] == ["lost"]
    assert (await lane(sql, group="g"))["last_consumed_seq"] == 0


async def test_an_unknown_message_or_partition(engine: Engine, sql: Sql) -> None:
    (pushed,) = await push(engine, 1)
    (got,) = await pop(engine)
    before = dict(await lane(sql))
    nothing = Ack(partition_id=pushed.partition_id, transaction_id="nothing", lease_id=got.lease_id)
    nowhere = Ack(partition_id=987, transaction_id="nothing", lease_id=got.lease_id)
    assert [o.verdict for o in await engine.ack([nothing, nowhere])] == ["unknown", "unknown"]
    assert dict(await lane(sql)) == before


async def test_an_unknown_status_is_invalid(engine: Engine, sql: Sql) -> None:
    await push(engine, 1)
    got = await pop(engine)
    assert [o.verdict for o in await engine.ack(acks(got, "done"))] == ["invalid"]  # type: ignore[arg-type]
    assert (await lane(sql))["last_consumed_seq"] == 0


@pytest.mark.parametrize("seq", [5, 1000])
async def test_a_lease_reaches_no_further_than_its_batch(engine: Engine, sql: Sql, seq: int) -> None:
    """Neither a message that was not handed out, nor one that is not there yet, can be passed."""
    await push(engine, 1, 2, 3, 4, 5)
    got = await pop(engine, 2)
    by_seq = Ack(partition_id=got[0].partition_id, transaction_id="", lease_id=got[0].lease_id, seq=seq)
    assert [o.verdict for o in await engine.ack([by_seq])] == ["unknown"]
    assert (await lane(sql))["last_consumed_seq"] == 0
    whole = LeaseAck(partition_id=got[0].partition_id, lease_id=lease_of(got), up_to=seq)
    assert [o.verdict for o in await engine.ack_leases([whole])] == ["acked"]
    assert (await lane(sql))["last_consumed_seq"] == 2
    assert numbers(await pop(engine)) == [3, 4, 5]


async def test_without_a_token_a_seq_beyond_the_head_is_unknown(engine: Engine, sql: Sql) -> None:
    (pushed, *_) = await push(engine, 1, 2)
    await pop(engine)
    far = Ack(partition_id=pushed.partition_id, transaction_id="", seq=50)
    assert [o.verdict for o in await engine.ack([far])] == ["unknown"]
    await push(engine, 3)
    assert (await lane(sql))["last_consumed_seq"] == 0


@pytest.mark.parametrize("kind", ["single", "whole"])
async def test_one_held_lane_does_not_spoil_the_others(engine: Engine, sql: Sql, database: str, kind: str) -> None:
    """R6: the free lanes are acknowledged at once, the held one later, and none twice."""
    for partition in "ab":
        await push(engine, 1, 2, partition=partition)
    got = await pop(engine, 1, partition="a") + await pop(engine, 1, partition="b")
    async with connect(database) as other, other.transaction():
        held = got[1].partition_id
        await other.execute("select from queen.partition_consumers where partition_id = $1 for update", held)
        waiting = asyncio.create_task(engine.ack(acks(got)) if kind == "single" else engine.ack_messages(got))
        await eventually(lambda: sql.fetchval(FREE, got[0].lease_id))
        assert not waiting.done()
    assert [o.verdict for o in await asyncio.wait_for(waiting, 10)] == ["acked", "acked"]


async def test_the_same_lane_twice_in_one_call(engine: Engine, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    got = await pop(engine)
    outcomes = await engine.ack_leases([up_to(got[0]), up_to(got[2])])
    assert [(o.verdict, o.released) for o in outcomes] == [("acked", False), ("acked", True)]
    assert (await lane(sql))["last_consumed_seq"] == 3
    await push(engine, 4, 5, 6)
    got = await pop(engine)
    outcomes = await engine.ack_leases([up_to(got[2]), up_to(got[0])])
    assert [(o.verdict, o.released) for o in outcomes] == [("acked", True), ("lost", False)]
    assert (await lane(sql))["last_consumed_seq"] == 6


async def test_concurrent_acks_of_one_lane(engine: Engine, sql: Sql) -> None:
    await push(engine, *range(50))
    got = await pop(engine)
    outcomes = await asyncio.gather(*[engine.ack(acks([m])) for m in got])
    assert all(o.ok for (o,) in outcomes)
    assert (await lane(sql))["last_consumed_seq"] == 50
    assert (await lane(sql))["lease_id"] is None


async def test_an_error_text_may_hold_anything(engine: Engine, sql: Sql) -> None:
    await push(engine, 1)
    await engine.ack(acks(await pop(engine), "dlq", "a\0b" + "x" * 20_000))
    text = await sql.fetchval("select error_message from queen.dead_letter_queue")
    assert text.startswith("a\N{SYMBOL FOR NULL}b")
    assert len(text) == 10_000


async def test_a_queue_without_delivery_log_writes_none(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"delivery_log": False})
    await push(engine, 1, 2)
    await engine.ack_messages(await pop(engine, 1))
    await engine.ack(acks(await pop(engine, 1), "failed"))
    await engine.release([lease_of(await pop(engine))])
    assert await sql.fetchval("select count(*) from queen.deliveries") == 0
