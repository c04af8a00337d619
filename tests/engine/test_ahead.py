"""A crowd that takes single messages is served from runs: quicker, and otherwise as if every pop took one."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from queen.engine import Engine, ahead
from queen.model import Message, PopRequest
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import Sql, acks, connect, dead, lane, lease_of, leased, numbers, pop, push, runs, up_to

REQUEST = PopRequest(queue="q")
LANES = [f"p{number}" for number in range(20)]
LONGER_THAN_ANY_TEST = 600.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine's pace, runs grow and nothing goes back by itself."""
    monkeypatch.setattr(ahead, "HOLD", LONGER_THAN_ANY_TEST)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine's pace, runs grow; what nobody asks for goes back."""
    monkeypatch.setattr(ahead, "HOLD", 1.0)
    monkeypatch.setattr(ahead, "_AIM", 1e9)


async def fill(engine: Engine, count: int) -> None:
    """Have messages 1 to count in every lane."""
    for name in LANES:
        await push(engine, *range(1, count + 1), partition=name)


async def crowd(engine: Engine, request: PopRequest = REQUEST) -> list[Message]:
    """One message for each of a crowd that asks at once, by lane."""
    got = await asyncio.gather(*(engine.pop(request) for _ in LANES))
    return sorted((message for messages in got for message in messages), key=lambda message: message.partition_id)


async def round_of_acks(engine: Engine, request: PopRequest = REQUEST) -> list[Message]:
    """What a crowd got and acknowledged, one call each."""
    got = await crowd(engine, request)
    await asyncio.gather(*(engine.ack_messages([message]) for message in got))
    return got


async def free(sql: Sql, but: int = 0) -> bool:
    """Whether no lane is leased, or all but so many."""
    return bool(await sql.fetchval("select count(lease_id) from queen.partition_consumers") == but)


async def held(engine: Engine, sql: Sql, count: int = 12) -> list[Message]:
    """The first message of a run of eight in each lane, after one was acknowledged."""
    await fill(engine, count)
    assert {*numbers(await round_of_acks(engine))} == {1}
    got = await crowd(engine)
    assert ({*numbers(got)}, await leased(sql)) == ({2}, {8})
    return got


@pytest.mark.usefixtures("patient")
async def test_each_message_is_acknowledged_before_the_next_is_given(engine: Engine, sql: Sql) -> None:
    await fill(engine, 50)
    for number in range(1, 51):
        got = await crowd(engine)
        assert [message.partition for message in got] == LANES
        assert {*numbers(got)} == {number}
        assert {row[0] for row in await sql.fetch("select last_consumed_seq from queen.partition_consumers")} == {
            number - 1
        }
        assert all(
            acked.released
            for [acked] in await asyncio.gather(*(engine.ack_messages([message]) for message in got))
        )  # fmt: skip
    assert await crowd(engine) == []
    assert {*await runs(sql)} == {1, 8, 32, 9}
    assert {(row["depth"], row["lease_id"]) for row in [await lane(sql, partition=name) for name in LANES]} == {
        (0, None)
    }


@pytest.mark.usefixtures("patient")
async def test_fewer_than_a_crowd_pop_one_at_a_time(engine: Engine, sql: Sql) -> None:
    await fill(engine, 5)
    for _ in range(4):
        got = await asyncio.gather(*(engine.pop(REQUEST) for _ in range(ahead.CROWD - 1)))
        assert await leased(sql) == {1}
        await asyncio.gather(*(engine.ack_messages(messages) for messages in got))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("wait", [0.0, 30.0])
async def test_where_partitions_are_scarce_others_may_want_them_too(engine: Engine, sql: Sql, wait: float) -> None:
    for name in "abcd":
        await push(engine, *range(1, 6), partition=name)
    for _ in range(4):
        asking = [asyncio.create_task(engine.pop(PopRequest(queue="q", wait=wait))) for _ in LANES]
        await eventually(lambda: sum(task.done() for task in asking) == (4 if wait else len(LANES)))  # noqa: B023
        assert await leased(sql) == {1}
        got = [message for task in asking if task.done() for message in task.result()]
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        await asyncio.gather(*(engine.ack_messages([message]) for message in got))


async def test_a_slow_crowd_pops_one_at_a_time(engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "HOLD", 0.0)
    await fill(engine, 5)
    for _ in range(5):
        await round_of_acks(engine)
    assert {*await runs(sql)} == {1}


@pytest.mark.usefixtures("patient")
async def test_a_short_lease_is_not_shared(engine: Engine, sql: Sql) -> None:
    await fill(engine, 5)
    for _ in range(5):
        await round_of_acks(engine, PopRequest(queue="q", lease_seconds=4))
    assert {*await runs(sql)} == {1}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("limit", "size"), [("RUN_BYTES", 20), ("CROWD_BYTES", 20 * len(LANES))])
async def test_big_messages_are_popped_few_at_a_time(
    engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch, limit: str, size: int
) -> None:
    monkeypatch.setattr(ahead, limit, size)
    await fill(engine, 5)
    for _ in range(5):
        await round_of_acks(engine)
    assert {*await runs(sql)} == {1, 2}


@pytest.mark.usefixtures("patient")
async def test_without_leases_nothing_is_popped_ahead(engine: Engine, sql: Sql) -> None:
    await fill(engine, 5)
    for number in range(1, 6):
        assert {*numbers(await crowd(engine, PopRequest(queue="q", auto_ack=True)))} == {number}
        assert (await lane(sql, partition="p0"))["last_consumed_seq"] == number


@pytest.mark.usefixtures("patient")
async def test_batches_beside_a_crowd_get_what_they_asked_for(engine: Engine) -> None:
    await fill(engine, 30)
    for name in ("other", "another"):
        await push(engine, *range(1, 31), partition=name)
    for _ in range(3):
        singles, batch = await asyncio.gather(round_of_acks(engine), pop(engine, 5))
        assert len(batch) == 5
        assert batch[0].partition not in {message.partition for message in singles}
        await engine.release([lease_of(batch)])


@pytest.mark.usefixtures("patient")
async def test_whoever_waits_for_one_gets_the_next_message_first(engine: Engine, sql: Sql) -> None:
    got = await held(engine, sql)
    batch = asyncio.create_task(pop(engine, 5, wait=30))
    waiting = [asyncio.create_task(engine.pop(PopRequest(queue="q", wait=30))) for _ in range(3)]
    await eventually(lambda: engine.parked.get("q") == 4)
    await engine.ack_messages(got[:1])
    assert numbers(await asyncio.wait_for(waiting[0], 10)) == [3]
    await engine.ack_messages(got[1:2])
    assert numbers(await asyncio.wait_for(waiting[1], 10)) == [3]
    assert not waiting[2].done()
    assert not batch.done()
    await engine.stop()


@pytest.mark.usefixtures("patient")
async def test_an_ack_said_twice_gives_one_message_not_two(engine: Engine, sql: Sql) -> None:
    got = await held(engine, sql)
    await asyncio.gather(*(engine.ack_messages(got[:1]) for _ in range(3)))
    assert numbers(await engine.pop(REQUEST)) == [3]
    await engine.ack_messages(got[:1])
    assert await engine.pop(REQUEST) == []


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", ["by transaction id", "by seq", "dead letter", "transaction"])
async def test_whatever_passes_a_message_lets_the_run_go_on(engine: Engine, sql: Sql, how: str) -> None:
    [message, *_] = await held(engine, sql)
    if how == "by seq":
        [acked] = await engine.ack_leases([up_to(message)])
    elif how == "transaction":
        [acked] = (await engine.transaction(acks=acks([message]))).acked
    else:
        [acked] = await engine.ack(acks([message], "dlq" if how == "dead letter" else "completed"))
    assert (acked.verdict, acked.released) == ("acked", True)
    [after] = await engine.pop(REQUEST)
    assert (after.partition, after.lease_id, numbers([after])) == (message.partition, message.lease_id, [3])


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", ["failed", "retry", "release", "release after its ack", "lost"])
async def test_a_run_ends_with_its_lease(engine: Engine, other: Engine, sql: Sql, how: str) -> None:
    """What comes next is popped anew, from the message that was not done."""
    [first, *_] = await held(engine, sql)
    if how == "lost":
        await other.queues.seek("q", first.group, "seq", seq=2, partition=first.partition)
        [acked] = await engine.ack_messages([first])
        assert acked.verdict == "lost"
    elif how.startswith("release"):
        if how != "release":
            await engine.ack_messages([first])
        await engine.release([lease_of([first])])
    else:
        await engine.ack(acks([first], "failed" if how == "failed" else "retry"))
    [again] = await engine.pop(PopRequest(queue="q", wait=10))
    assert again.partition == first.partition
    assert again.lease_id != first.lease_id
    assert numbers([again]) == [3 if how in ("lost", "release after its ack") else 2]
    assert again.retry_count == (1 if how == "failed" else 0)


@pytest.mark.usefixtures("patient")
async def test_a_caller_that_goes_away_as_its_message_comes_leaves_no_lease(
    engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first, *_] = await held(engine, sql)
    caller = asyncio.create_task(engine.pop(PopRequest(queue="q", wait=30)))
    await eventually(lambda: engine.parked.get("q") == 1)
    give = ahead.Run.give

    def give_and_cancel(run: ahead.Run) -> list[Message]:
        asyncio.get_running_loop().call_soon(caller.cancel)
        return give(run)

    monkeypatch.setattr(ahead.Run, "give", give_and_cancel)
    await engine.ack_messages([first])
    await asyncio.wait([caller])
    assert caller.cancelled()
    await eventually(lambda: free(sql, but=19))
    assert numbers(await engine.pop(PopRequest(queue="q", wait=10))) == [3]


@pytest.mark.usefixtures("patient")
async def test_only_the_message_that_failed_says_so(engine: Engine, sql: Sql) -> None:
    got = await held(engine, sql)
    await engine.ack(acks(got, "failed"))
    again = await crowd(engine)
    assert {(*numbers([message]), message.retry_count) for message in again} == {(2, 1)}
    await asyncio.gather(*(engine.ack_messages([message]) for message in again))
    assert {(*numbers([message]), message.retry_count) for message in await crowd(engine)} == {(3, 0)}


@pytest.mark.usefixtures("patient")
async def test_a_message_that_fails_for_good_does_not_stop_its_run(engine: Engine, sql: Sql) -> None:
    await engine.queues.configure("q", {"retry_limit": 0})
    got = await held(engine, sql)
    await engine.ack(acks(got[:1], "failed"))
    assert await dead(sql) == [2]
    assert numbers(await engine.pop(REQUEST)) == [3]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("acknowledged", [True, False], ids=["acknowledged", "in hand"])
async def test_what_nobody_asks_for_goes_back(engine: Engine, other: Engine, sql: Sql, acknowledged: bool) -> None:
    """Whoever has a message keeps it; the ones behind it are as if they had not been popped."""
    await fill(engine, 12)
    await round_of_acks(engine)
    got = await crowd(engine)
    if acknowledged:
        await asyncio.gather(*(engine.ack_messages([message]) for message in got))
        await eventually(lambda: free(sql))
    else:
        await eventually(lambda: _only_ones(sql))
        await asyncio.gather(*(other.ack_messages([message]) for message in got))
    row = await lane(sql, partition="p0")
    assert (row["last_consumed_seq"], row["lease_id"], row["retry_count"]) == (2, None, 0)
    assert (row["total_messages_delivered"], row["total_messages_consumed"], row["total_batches_consumed"]) == (2, 2, 2)
    assert {*await runs(sql)} == {1}
    assert {*numbers(await crowd(other))} == {3}


async def _only_ones(sql: Sql) -> bool:
    return await leased(sql) == {1}


@pytest.mark.usefixtures("eager")
async def test_an_ack_while_the_rest_goes_back_ends_what_its_consumer_had(
    engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the database cuts the lease before or after the acknowledgement, its consumer hears the same."""
    await fill(engine, 12)
    await round_of_acks(engine)
    [message, *_] = await crowd(engine)
    runs, returning, returned = engine._popper._runs, asyncio.Event(), asyncio.Event()
    give_back = runs._give_back

    async def give_back_later() -> None:
        returning.set()
        await returned.wait()
        await give_back()

    monkeypatch.setattr(runs, "_give_back", give_back_later)
    await asyncio.wait_for(returning.wait(), 20)
    [acked] = await engine.ack_messages([message])
    assert acked.released
    assert (await lane(sql, partition=message.partition))["lease_id"] == message.lease_id
    returned.set()
    await eventually(lambda: free(sql, but=len(LANES) - 1))
    assert runs.acked(lease_of([message]), message.seq, ended=False)
    await eventually(lambda: runs._returning is None)
    assert not runs._late


@pytest.mark.usefixtures("eager")
async def test_what_goes_back_wakes_those_who_wait_elsewhere(engine: Engine, other: Engine) -> None:
    await fill(engine, 3)
    await round_of_acks(engine)
    await round_of_acks(engine)
    assert numbers(await other.pop(PopRequest(queue="q", wait=20))) == [3]


@pytest.mark.usefixtures("patient")
async def test_stopping_gives_back_at_once(engine: Engine, other: Engine, sql: Sql) -> None:
    got = await held(engine, sql)
    await asyncio.gather(*(engine.ack_messages([message]) for message in got[10:]))
    await engine.stop()
    assert await leased(sql) == {1}
    assert {*numbers(await crowd(other))} == {3}
    [acked] = await engine.ack_messages(got[:1])
    assert (acked.verdict, acked.released) == ("acked", True)


@pytest.mark.usefixtures("patient")
async def test_after_a_standstill_nothing_old_is_handed_out(
    engine: Engine, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped for a while finds its runs in its hands, but its leases may be somebody else's."""
    got = await held(engine, sql)
    await engine.ack_messages(got[:1])
    waiting = asyncio.create_task(engine.pop(PopRequest(queue="q", wait=0.2)))
    monkeypatch.setattr(ahead, "HOLD", -1.0)
    assert await waiting == []
    waiting = asyncio.create_task(engine.pop(PopRequest(queue="q", wait=0.5)))
    await eventually(lambda: engine.parked.get("q") == 1)
    await engine.ack_messages(got[1:2])
    assert await waiting == []


@pytest.mark.usefixtures("eager")
async def test_a_lane_held_by_a_transaction_goes_back_when_it_can(engine: Engine, database: str, sql: Sql) -> None:
    await fill(engine, 12)
    await round_of_acks(engine)
    [message, *_] = await round_of_acks(engine)
    async with connect(database) as connection:
        async with connection.transaction():
            await connection.execute(
                "select from queen.partition_consumers where partition_id = $1 for update", message.partition_id
            )
            await eventually(lambda: free(sql, but=1))
        await eventually(lambda: free(sql))


@pytest.mark.usefixtures("patient")
async def test_a_lease_that_ran_out_is_told_and_nothing_is_skipped(
    engine: Engine, other: Engine, sql: Sql, clock: Clock
) -> None:
    got = await held(engine, sql)
    await clock.advance(1000)
    assert {*numbers(await crowd(other))} == {2}
    assert {acked.verdict for message in got for acked in await engine.ack_messages([message])} == {"lost"}
    assert await crowd(engine) == []


async def test_the_database_says_what_became_of_the_rest(engine: Engine, sql: Sql) -> None:
    await push(engine, *range(1, 9))
    got = await pop(engine, 8)
    await engine.ack_leases([up_to(got[2])])

    async def release_rest(seq: int) -> tuple[str, int]:
        row = await sql.fetchrow(
            "select * from queen.release_rest(array[$1]::bigint[], array[$2], array[$3]::uuid[], array[$4]::bigint[])",
            got[0].partition_id, got[0].group, lease_of(got), seq,
        )  # fmt: skip
        assert isinstance(row, asyncpg.Record)
        return row["status"], (await lane(sql))["batch_to"]

    assert await release_rest(8) == ("lost", 8)
    assert await release_rest(5) == ("kept", 5)
    assert await release_rest(5) == ("lost", 5)
    assert await release_rest(2) == ("released", 3)
    assert await release_rest(2) == ("lost", 3)
    assert (await lane(sql))["total_messages_delivered"] == 3
    assert numbers(await pop(engine)) == [4, 5, 6, 7, 8]
