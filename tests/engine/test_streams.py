from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from queen import errors
from queen.engine import Engine, RolledBack
from queen.engine.streams import Cycle, StateOp, StreamQuery, Streams
from queen.model import Ack, Message, NewMessage
from tests.support.work import Sql, dead, numbers, pop, push

GROUP = "streams.test"


@pytest.fixture
def streams(engine: Engine) -> Streams:
    return Streams(engine)


async def register(streams: Streams, config_hash: str = "h1", *, reset: bool = False) -> StreamQuery:
    return await streams.register("totals", "q", "out", config_hash, reset=reset)


def last(messages: list[Message], status: str = "completed") -> Ack:
    message = messages[-1]
    return Ack(
        partition_id=message.partition_id,
        transaction_id=message.transaction_id,
        group=message.group,
        lease_id=message.lease_id,
        status=status,  # type: ignore[arg-type]
        error="told so",
    )


def put(key: str, value: str = "1") -> StateOp:
    return StateOp(type="upsert", key=key, value=value)


async def state(streams: Streams, query: StreamQuery, partition: int) -> dict[str, str]:
    return {row.key: row.value for row in await streams.state(query.id, partition)}


async def test_registering_again_keeps_state_unless_reset(engine: Engine, streams: Streams) -> None:
    (pushed,) = await push(engine, 1)
    first = await register(streams)
    assert (first.fresh, first.reset, first.matches) == (True, False, True)
    await streams.cycle(Cycle(query_id=first.id, partition_id=pushed.partition_id, state_ops=[put("k")]))
    for reset in (False, True):
        again = await register(streams, reset=reset)
        assert (again.id, again.fresh, again.reset, again.matches) == (first.id, False, False, True)
    assert await state(streams, first, pushed.partition_id) == {"k": "1"}
    other = await register(streams, "h2")
    assert (other.id, other.matches, other.config_hash) == (first.id, False, "h1")
    assert await state(streams, first, pushed.partition_id) == {"k": "1"}
    changed = await register(streams, "h2", reset=True)
    assert (changed.id, changed.reset, changed.matches, changed.config_hash) == (first.id, True, True, "h2")
    assert await state(streams, first, pushed.partition_id) == {}


@pytest.mark.parametrize("field", ["name", "source_queue", "config_hash"])
async def test_registering_needs_names(streams: Streams, field: str) -> None:
    texts = {"name": "n", "source_queue": "s", "config_hash": "h", field: ""}
    with pytest.raises(errors.InvalidRequest, match=field):
        await streams.register(texts["name"], texts["source_queue"], None, texts["config_hash"])


async def test_a_cycle_commits_state_output_and_ack_together(engine: Engine, streams: Streams) -> None:
    await push(engine, 1, 2, 3)
    query = await register(streams)
    taken = await pop(engine, group=GROUP)
    done = await streams.cycle(
        Cycle(
            query_id=query.id,
            partition_id=taken[0].partition_id,
            group=GROUP,
            state_ops=[put("a", '{"sum": 6}'), put("gone"), StateOp(type="delete", key="gone")],
            pushes=[NewMessage(queue="out", partition="eu", payload=str(n)) for n in range(5)],
            ack=last(taken),
        )
    )
    assert (done.queue, done.lease_released) == ("q", True)
    assert [each.status for each in done.pushed] == ["queued"] * 5
    assert [message.payload for message in await pop(engine, queue="out")] == ["0", "1", "2", "3", "4"]
    assert await state(streams, query, taken[0].partition_id) == {"a": '{"sum": 6}'}
    assert await pop(engine, group=GROUP) == []


async def test_output_is_pushed_once(engine: Engine, streams: Streams) -> None:
    (pushed,) = await push(engine, 1)
    query = await register(streams)
    out = [NewMessage(queue="out", payload="1", transaction_id="same")]
    cycle = Cycle(query_id=query.id, partition_id=pushed.partition_id, pushes=out)
    assert [(await streams.cycle(cycle)).pushed[0].status for _ in range(2)] == ["queued", "duplicate"]


@pytest.mark.parametrize("fault", ["lease", "message", "query", "partition"])
async def test_a_failing_cycle_changes_nothing(engine: Engine, streams: Streams, fault: str) -> None:
    await push(engine, 1, 2)
    query = await register(streams)
    taken = await pop(engine, group=GROUP)
    ack = last(taken)
    partition = taken[0].partition_id
    ack = Ack(
        partition_id=ack.partition_id,
        group=GROUP,
        transaction_id="nope" if fault == "message" else ack.transaction_id,
        lease_id=uuid4() if fault == "lease" else ack.lease_id,
    )
    cycle = Cycle(
        query_id=uuid4() if fault == "query" else query.id,
        partition_id=10**9 if fault == "partition" else partition,
        group=GROUP,
        state_ops=[put("a")],
        pushes=[NewMessage(queue="out", payload="1")],
        ack=ack,
    )
    expected = {"lease": "Invalid or expired lease", "message": "Message not found", "query": "query_id"}
    with pytest.raises((RolledBack, errors.InvalidRequest), match=expected.get(fault, "partition_id")):
        await streams.cycle(cycle)
    assert await state(streams, query, partition) == {}
    assert await pop(engine, queue="out") == []
    await streams.cycle(Cycle(query_id=query.id, partition_id=partition, group=GROUP, ack=last(taken)))


async def test_a_released_lease_lets_the_rest_come_again_at_once(engine: Engine, streams: Streams) -> None:
    await push(engine, 1, 2, 3)
    query = await register(streams)
    taken = await pop(engine, group=GROUP)
    done = await streams.cycle(
        Cycle(query_id=query.id, partition_id=taken[0].partition_id, group=GROUP, ack=last(taken[:1]))
    )
    assert done.lease_released
    assert numbers(await pop(engine, group=GROUP)) == [2, 3]


async def test_a_kept_lease_holds_the_rest_back(engine: Engine, streams: Streams, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    query = await register(streams)
    taken = await pop(engine, group=GROUP)
    done = await streams.cycle(
        Cycle(
            query_id=query.id, partition_id=taken[0].partition_id, group=GROUP, ack=last(taken[:1]),
            release_lease=False,
        )
    )  # fmt: skip
    assert not done.lease_released
    assert await pop(engine, group=GROUP) == []
    await sql.execute(
        "update queen.partition_consumers set lease_expires_at = clock_timestamp(), ready_at = clock_timestamp()"
    )
    assert numbers(await pop(engine, group=GROUP)) == [2, 3]


async def test_releasing_one_lane_leaves_the_others_of_the_lease(engine: Engine, streams: Streams) -> None:
    for partition in ("a", "b"):
        await push(engine, 1, 2, partition=partition)
    query = await register(streams)
    taken = await pop(engine, group=GROUP, partitions=2)
    lanes = {name: [m for m in taken if m.partition == name] for name in ("a", "b")}
    assert len({message.lease_id for message in taken}) == 1
    first = Cycle(query_id=query.id, partition_id=lanes["a"][0].partition_id, group=GROUP, ack=last(lanes["a"][:1]))
    await streams.cycle(first)
    second = Cycle(query_id=query.id, partition_id=lanes["b"][0].partition_id, group=GROUP, ack=last(lanes["b"]))
    assert (await streams.cycle(second)).lease_released


@pytest.mark.parametrize("status", ["failed", "dlq"])
async def test_a_failed_ack_dead_letters_at_once(engine: Engine, streams: Streams, sql: Sql, status: str) -> None:
    await push(engine, 1, 2)
    query = await register(streams)
    taken = await pop(engine, group=GROUP)
    done = await streams.cycle(
        Cycle(query_id=query.id, partition_id=taken[0].partition_id, group=GROUP, ack=last(taken[:1], status))
    )
    assert done.acked is not None
    assert (done.acked.dead_letter, done.lease_released) == (True, True)
    assert await dead(sql, group=GROUP) == [1]
    assert numbers(await pop(engine, group=GROUP)) == [2]


async def test_an_idle_flush_has_no_ack(engine: Engine, streams: Streams) -> None:
    (pushed,) = await push(engine, 1)
    query = await register(streams)
    done = await streams.cycle(
        Cycle(query_id=query.id, partition_id=pushed.partition_id, pushes=[NewMessage(queue="out", payload="1")])
    )
    assert (done.acked, done.lease_released, len(done.pushed)) == (None, False, 1)


async def test_cycles_of_one_partition_do_not_interleave(engine: Engine, streams: Streams) -> None:
    """Each cycle writes the same two keys; whoever reads must never see two different cycles."""
    (pushed,) = await push(engine, 1)
    query = await register(streams)

    def cycle(number: int) -> Cycle:
        return Cycle(
            query_id=query.id,
            partition_id=pushed.partition_id,
            state_ops=[put(key, str(number)) for key in (("a", "b") if number % 2 else ("b", "a"))],
            pushes=[NewMessage(queue="out", payload=str(number))],
        )

    tasks = [asyncio.create_task(streams.cycle(cycle(number))) for number in range(20)]
    while not all(task.done() for task in tasks):
        seen = await state(streams, query, pushed.partition_id)
        assert len(set(seen.values())) <= 1
    await asyncio.gather(*tasks)
    final = await state(streams, query, pushed.partition_id)
    out = [message.payload for message in await pop(engine, queue="out")]
    assert set(final.values()) == {out[-1]}


async def test_state_is_filtered_and_sorted_by_key(engine: Engine, streams: Streams) -> None:
    (pushed,) = await push(engine, 1)
    query = await register(streams)
    rows = {
        "b": '{"windowEnd": 100}', "a\x1f2": '{"windowEnd": 200}', "a\x1f1": '{"windowEnd": 300.5}',
        "B": '{"windowEnd": "100"}', "ä": "[1]", "z": "null",
    }  # fmt: skip
    await streams.cycle(
        Cycle(
            query_id=query.id,
            partition_id=pushed.partition_id,
            state_ops=[put(key, value) for key, value in rows.items()],
        )
    )

    async def keys(**wanted: object) -> list[str]:
        return [row.key for row in await streams.state(query.id, pushed.partition_id, **wanted)]  # type: ignore[arg-type]

    assert await keys() == ["B", "a\x1f1", "a\x1f2", "b", "z", "ä"]
    assert await keys(keys=["b", "z", "none"]) == ["b", "z"]
    assert await keys(prefix="a\x1f") == ["a\x1f1", "a\x1f2"]
    assert await keys(ripe_by=200) == ["a\x1f2", "b"]
    assert await keys(prefix="a", ripe_by=250, keys=["a\x1f2", "b"]) == ["a\x1f2"]
    assert await streams.state(uuid4(), pushed.partition_id) == []
    with pytest.raises(errors.InvalidRequest):
        await keys(keys=["a\0"])
