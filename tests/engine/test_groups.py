from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queen import errors
from queen.engine import Engine
from queen.engine.groups import Groups
from queen.model import QUEUE_MODE
from tests.support.work import Sql, lease_of, message, numbers, pop, push


@pytest.fixture
def groups(engine: Engine) -> Groups:
    return Groups(engine.database, engine.wake)


async def age(sql: Sql, seconds: int) -> None:
    """Make everything there is this much older."""
    for statement in (
        "update queen.messages set created_at = created_at - make_interval(secs => $1)",
        "update queen.partitions set last_created_at = last_created_at - make_interval(secs => $1)",
    ):
        await sql.execute(statement, seconds)


async def test_every_group_of_every_queue_with_exact_numbers(engine: Engine, groups: Groups, sql: Sql) -> None:
    await engine.push([message(n, partition=f"p{n % 3}") for n in range(9)])
    await engine.register("q", "g", mode="all")
    await engine.ack_messages(await pop(engine, 2, group="g", partition="p0"))
    await pop(engine, 1, group="g", partition="p1")
    await push(engine, 1, queue="other")
    await engine.ack_messages(await pop(engine, 1, queue="other"))
    await age(sql, 12)
    found = {(each.name, each.queue): each for each in await groups.known()}
    assert set(found) == {("g", "q"), (QUEUE_MODE, "other")}
    assert found[QUEUE_MODE, "other"].lag_seconds is None
    mine = found["g", "q"]
    assert (mine.members, mine.lagging, mine.waiting, mine.consumed, mine.leases) == (3, 3, 7, 2, 1)
    assert mine.lag_seconds is not None
    assert 12 <= mine.lag_seconds < 60
    assert (mine.state, mine.mode) == ("Stable", "all")
    assert (await groups.known("nobody")) == []


async def test_a_group_is_lagging_stable_or_dead(engine: Engine, groups: Groups, sql: Sql) -> None:
    await push(engine, 1, 2)
    await engine.register("q", "g")
    assert [each.state for each in await groups.known("g")] == ["Dead"]
    await engine.ack_messages(await pop(engine, 1, group="g"))
    assert [each.state for each in await groups.known("g")] == ["Stable"]
    await age(sql, 301)
    assert [each.state for each in await groups.known("g")] == ["Lagging"]


async def test_lagging_lanes_come_worst_first(engine: Engine, groups: Groups, sql: Sql) -> None:
    await push(engine, 1, 2, partition="old")
    await age(sql, 100)
    await push(engine, 3, partition="young")
    await age(sql, 100)
    await push(engine, 4, partition="new")
    await engine.register("q", "g")
    found = await groups.lagging(50)
    assert [(each.partition, each.waiting) for each in found] == [("old", 2), ("young", 1)]
    assert (found[0].group, found[0].queue, found[0].last_consumed_at) == ("g", "q", None)
    assert 200 <= found[0].lag_seconds < 260
    assert [each.partition for each in await groups.lagging(150)] == ["old"]
    assert [each.partition for each in await groups.lagging(50, limit=1)] == ["old"]


async def test_lanes_of_one_group(engine: Engine, groups: Groups) -> None:
    await engine.push([message(n, partition=f"p{n % 2}") for n in range(4)])
    await engine.register("q", "g")
    held = await pop(engine, 1, group="g", partition="p0")
    await engine.ack_messages(await pop(engine, 2, group="g", partition="p1"))
    lanes = {each.partition: each for each in await groups.lanes("g")}
    assert {name: (each.waiting, each.total_consumed, each.lease_id) for name, each in lanes.items()} == {
        "p0": (2, 0, lease_of(held)),
        "p1": (0, 2, None),
    }
    assert lanes["p1"].lag_seconds is None
    assert await groups.lanes("nobody") == []
    assert await groups.lanes("g", "elsewhere") == []


async def test_depth_is_exact_also_with_deleted_messages(engine: Engine, groups: Groups) -> None:
    pushed = await engine.push([message(n, partition=f"p{n % 2}") for n in range(6)])
    await engine.delete_message(pushed[2].partition_id, pushed[2].transaction_id)
    assert await groups.depth("q", "not yet known") == await groups.depth("q", QUEUE_MODE)
    assert (await groups.depth("q", "g")).partitions == {"p0": 2, "p1": 3}
    await engine.ack_messages(await pop(engine, 3, group="g", partition="p1"))
    depth = await groups.depth("q", "g")
    assert (depth.waiting, depth.partitions) == (2, {"p0": 2})
    with pytest.raises(errors.QueueNotFound):
        await groups.depth("nowhere", "g")


async def test_a_subscription_time_applies_when_the_group_starts_anew(engine: Engine, groups: Groups, sql: Sql) -> None:
    await push(engine, 1)
    between = await sql.fetchval("select clock_timestamp()")
    await push(engine, 2)
    await engine.register("q", "g", mode="all")
    assert await groups.set_subscription("g", between) == 1
    assert (await groups.depth("q", "g")).waiting == 2, "cursors stay where they are"
    await engine.queues.forget_group("g", "q", subscription=False)
    assert numbers(await pop(engine, group="g")) == [2]
    assert await groups.set_subscription("nobody", between) == 0


async def test_a_kept_subscription_to_new_messages_applies_again(engine: Engine) -> None:
    await push(engine, 1)
    await engine.register("q", "g", mode="new")
    await push(engine, 2)
    await engine.ack_messages(await pop(engine, group="g"))
    await engine.queues.forget_group("g", "q", subscription=False)
    assert numbers(await pop(engine, group="g")) == [2]


async def test_seek_by_seq_moves_named_partitions_only(engine: Engine, groups: Groups) -> None:
    await engine.push([message(n, partition=f"p{n % 3}") for n in range(9)])
    await engine.register("q", "g")
    while taken := await pop(engine, group="g"):
        await engine.ack_messages(taken)
    preview = await groups.seek_seqs("q", "g", {"p0": 1, "p2": 0}, dry_run=True)
    assert (preview.partitions, preview.redelivered, preview.skipped) == (2, 5, 0)
    assert await pop(engine, group="g") == []
    assert await groups.seek_seqs("q", "g", {"p0": 1, "p2": 0}) == preview
    assert (await groups.depth("q", "g")).partitions == {"p0": 2, "p2": 3}


async def test_seek_by_seq_does_all_or_nothing(engine: Engine, groups: Groups) -> None:
    await push(engine, 1, 2)
    await engine.ack_messages(await pop(engine, group="g"))
    with pytest.raises(errors.InvalidRequest, match="no partition 'nope'"):
        await groups.seek_seqs("q", "g", {"p": 0, "nope": 0})
    with pytest.raises(errors.QueueNotFound):
        await groups.seek_seqs("nowhere", "g", {"p": 0})
    assert (await groups.depth("q", "g")).waiting == 0


async def test_a_time_before_everything_is_a_start_too(engine: Engine, groups: Groups) -> None:
    await push(engine, 1)
    await engine.register("q", "g", mode="new")
    await groups.set_subscription("g", datetime.now(UTC) - timedelta(days=3650))
    await engine.queues.forget_group("g", subscription=False)
    assert numbers(await pop(engine, group="g")) == [1]
