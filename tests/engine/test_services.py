"""Background services: what each does in a run, and that one process runs each slot, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queen.config import Settings
from queen.engine import Engine
from queen.engine.services import Service, ServiceRunner
from queen.engine.services.jobs import Jobs, all_services
from queen.errors import StoreUnavailable
from tests.support.clock import Clock
from tests.support.wait import eventually
from tests.support.work import Sql, connect, message, numbers, pop, push


@pytest.fixture
def jobs(engine: Engine) -> Jobs:
    return Jobs(engine, Settings())


async def idle() -> Mapping[str, Any]:
    return {"done": 1}


async def test_retention_removes_what_is_too_old_and_says_how_much(
    engine: Engine, jobs: Jobs, clock: Clock, sql: Sql
) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    for partition in range(120):
        await push(engine, 1, 2, partition=f"p{partition}")
    await clock.advance(61)
    await push(engine, 3, partition="p0")
    assert await jobs.retention() == {"removed": 240, "finished": True}
    assert await sql.fetchval("select count(*) from queen.messages") == 1
    assert await sql.fetchval("select sum(messages_removed) from queen.retention_history") == 240
    assert numbers(await pop(engine)) == [3]


async def test_eviction_dead_letters_what_waited_too_long(engine: Engine, jobs: Jobs, clock: Clock, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await engine.register("q", "g")
    await push(engine, 1, 2)
    await clock.advance(61)
    await push(engine, 3)
    assert await jobs.eviction() == {"evicted": 2, "finished": True}
    assert await jobs.eviction() == {"evicted": 0, "finished": True}
    rows = await sql.fetch("select payload, evicted, consumer_group from queen.dead_letter_queue order by seq")
    assert [(json.loads(row["payload"])["n"], row["evicted"], row["consumer_group"]) for row in rows] == [
        (1, True, "g"),
        (2, True, "g"),
    ]
    assert numbers(await pop(engine, group="g")) == [3]


async def test_scheduled_messages_are_pushed_when_due_and_wake_who_waits(
    engine: Engine, jobs: Jobs, clock: Clock
) -> None:
    due = datetime.now(UTC) + timedelta(seconds=60)
    pushed = await engine.push([message(2, deliver_at=due + timedelta(seconds=1)), message(1, deliver_at=due)])
    assert [one.status for one in pushed] == ["scheduled", "scheduled"]
    assert await jobs.scheduled() == {"delivered": 0, "finished": True}
    waiting = asyncio.create_task(pop(engine, wait=20))
    await eventually(lambda: engine.parked.get("q") == 1)
    await clock.advance(70)
    assert await jobs.scheduled() == {"delivered": 2, "finished": True}
    assert numbers(await waiting) == [1, 2]


async def test_statistics_count_each_thing_once(engine: Engine, jobs: Jobs, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    messages = await pop(engine, 2)
    await engine.ack_messages(messages)
    await jobs.stats()
    await push(engine, 4)
    await jobs.stats()
    row = await sql.fetchrow(
        "select sum(pushed) as pushed, sum(popped) as popped, sum(acked) as acked, max(lag) as lag from queen.stats"
    )
    assert row is not None
    assert dict(row) == {"pushed": 4, "popped": 2, "acked": 2, "lag": 2}


async def test_the_delivery_log_loses_whole_days_that_are_over(
    engine: Engine, jobs: Jobs, clock: Clock, sql: Sql
) -> None:
    for _ in range(2):
        await push(engine, 1)
        await engine.ack_messages(await pop(engine))
        await clock.advance(86_400)
    assert await jobs.deliveries() == {"emptied": 0, "in_use": 0, "removed": 0}
    assert await sql.fetchval("select count(*) from queen.deliveries") == 2
    await clock.advance(6 * 86_400)
    assert await jobs.deliveries() == {"emptied": 1, "in_use": 0, "removed": 0}
    assert await sql.fetchval("select count(*) from queen.deliveries") == 1


async def test_a_day_of_the_log_that_somebody_read_until_its_turn_came_again_is_deleted_by_row(
    engine: Engine, jobs: Jobs, clock: Clock, sql: Sql
) -> None:
    for _ in range(2):
        await push(engine, 1)
        await engine.ack_messages(await pop(engine))
        await clock.advance(16 * 86_400)
    await clock.advance(-16 * 86_400)
    assert await jobs.deliveries() == {"emptied": 0, "in_use": 0, "removed": 1}
    assert await sql.fetchval("select count(*) from queen.deliveries") == 1


async def test_the_delivery_log_never_holds_up_an_ack(
    engine: Engine, jobs: Jobs, clock: Clock, sql: Sql, database: str
) -> None:
    """Also beside somebody who reads the log for long."""
    await push(engine, 1)
    await engine.ack_messages(await pop(engine))
    await clock.advance(9 * 86_400)
    await push(engine, 2, partition="unrelated")
    messages = await pop(engine)
    async with connect(database) as reader, reader.transaction():
        await reader.fetch("select * from queen.deliveries")
        trimming = asyncio.create_task(jobs.deliveries())
        blocked = "select count(*) from pg_locks where not granted and relation is not null"

        async def waits_or_is_done() -> bool:
            return trimming.done() or bool(await sql.fetchval(blocked))

        await eventually(waits_or_is_done, pause=0)
        async with sql.transaction():
            await sql.execute("set local lock_timeout = '1ms'")
            await sql.execute(
                "select queen.ack_leases(array[$1::bigint], array['__QUEUE_MODE__'], array[$2::uuid], array[1])",
                messages[0].partition_id,
                messages[0].lease_id,
            )
        assert await trimming == {"emptied": 0, "in_use": 1, "removed": 0}
    assert await jobs.deliveries() == {"emptied": 1, "in_use": 0, "removed": 0}


async def test_idle_empty_partitions_go_and_come_back_by_a_push(
    engine: Engine, jobs: Jobs, clock: Clock, sql: Sql
) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, 1, partition="idle")
    await push(engine, 1, partition="busy")
    await clock.advance(31 * 86_400)
    await push(engine, 2, partition="busy")
    await jobs.retention()
    assert await jobs.partitions() == {"removed": 1}
    names = [row["name"] for row in await sql.fetch("select name from queen.partitions order by name")]
    assert names == ["Default", "busy"]
    await push(engine, 3, partition="idle")
    assert sorted(numbers(await pop(engine, partitions=5))) == [2, 3]


async def test_leases_are_counted_and_left_alone(engine: Engine, jobs: Jobs, clock: Clock) -> None:
    await push(engine, 1)
    messages = await pop(engine)
    assert await jobs.leases() == {"live": 1, "expired": 0}
    await clock.advance(301)
    assert await jobs.leases() == {"live": 0, "expired": 1}
    assert [one.verdict for one in await engine.ack_messages(messages)] == ["acked"]


async def test_a_slot_is_run_by_one_process_once(engine: Engine, sql: Sql) -> None:
    runs: list[str] = []

    def service(holder: str) -> Service:
        async def run() -> Mapping[str, Any]:
            runs.append(holder)
            return {}

        return Service("tick", 3600, run)

    runners = [ServiceRunner(engine.database, [], holder=f"h{n}") for n in range(8)]
    ran = await asyncio.gather(*(runner.tick(service(runner.holder)) for runner in runners for _ in range(3)))
    assert sum(ran) == len(runs) == 1
    assert [row["holder"] for row in await sql.fetch("select holder from queen.service_ticks")] == runs


async def test_another_process_takes_over_when_the_holder_is_gone(engine: Engine, clock: Clock) -> None:
    service = Service("tick", 10, idle)
    await clock.freeze()
    first, second = (ServiceRunner(engine.database, [], holder=name) for name in ("first", "second"))
    assert await first.tick(service)
    await clock.advance(10)
    assert not await second.tick(service), "the holder has not been away for long enough"
    await clock.advance(10)
    assert await second.tick(service)
    [row] = await second.status()
    assert row["holder"] == "second"


async def test_a_failure_is_written_down_and_the_next_slot_runs(engine: Engine, clock: Clock) -> None:
    async def fail() -> Mapping[str, Any]:
        raise StoreUnavailable("no database")

    runner = ServiceRunner(engine.database, [])
    await clock.freeze()
    with pytest.raises(StoreUnavailable):
        await runner.tick(Service("tick", 10, fail))
    [row] = await runner.status()
    assert row["last_error"] == "STORE_UNAVAILABLE: no database"
    assert row["last_success"] is None
    await clock.advance(10)
    assert await runner.tick(Service("tick", 10, idle))
    [row] = await runner.status()
    assert row["last_success"] is not None
    assert json.loads(row["last_result"]) == {"done": 1}


async def test_every_service_runs_by_itself(engine: Engine) -> None:
    settings = Settings(retention_interval=0.2, eviction_interval=0.2, stats_interval=0.2)
    runner = ServiceRunner(engine.database, all_services(engine, settings))
    runner.start()
    try:

        async def all_succeeded() -> bool:
            rows = await runner.status()
            return len(rows) == 9 and all(row["last_success"] is not None for row in rows)

        await eventually(all_succeeded)
    finally:
        await runner.stop()


async def test_a_raised_interval_does_not_stop_a_service(engine: Engine, clock: Clock) -> None:
    await clock.freeze()
    runner = ServiceRunner(engine.database, [])
    assert await runner.tick(Service("tick", 1, idle))
    await clock.advance(100)
    assert await runner.tick(Service("tick", 100, idle))
    assert not await runner.tick(Service("tick", 100, idle)), "this slot has run"
    await clock.advance(1)
    assert await runner.tick(Service("tick", 1, idle)), "and lowered again"


async def test_a_clock_that_was_ahead_does_not_stop_a_service(engine: Engine, clock: Clock) -> None:
    await clock.freeze()
    first, second = (ServiceRunner(engine.database, [], holder=name) for name in ("first", "second"))
    await clock.advance(86_400)
    assert await first.tick(Service("tick", 10, idle))
    await clock.advance(-86_400)
    ran = [await runner.tick(Service("tick", 10, idle)) for runner in (second, first, second, first)]
    assert ran == [True, False, False, False]
    await clock.advance(10)
    assert await second.tick(Service("tick", 10, idle))


async def test_a_stopped_process_gives_its_services_back(engine: Engine, clock: Clock) -> None:
    await clock.freeze()
    first, second = (ServiceRunner(engine.database, [], holder=name) for name in ("first", "second"))
    assert await first.tick(Service("tick", 10, idle))
    await first.stop()
    await clock.advance(10)
    assert await second.tick(Service("tick", 10, idle)), "the next slot already, not the one after"


async def test_a_service_without_success_for_three_intervals_is_late(
    engine: Engine, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> Mapping[str, Any]:
        raise StoreUnavailable("no database")

    await clock.freeze()
    runner = ServiceRunner(engine.database, [])
    for _ in range(4):
        with pytest.raises(StoreUnavailable):
            await runner.tick(Service("never", 10, fail))
        assert await runner.tick(Service("well", 10, idle))
        await clock.advance(10)
    assert "late" not in caplog.text, "three intervals are not over yet"
    await runner.tick(Service("well", 10, idle))
    with pytest.raises(StoreUnavailable):
        await runner.tick(Service("never", 10, fail))
    assert "the service never is late" in caplog.text
    assert "well" not in caplog.text
    assert {row["service"]: row["late"] for row in await runner.status()} == {"never": True, "well": False}


async def test_an_unexpected_error_does_not_end_a_service(engine: Engine) -> None:
    seen: list[int] = []

    async def fail() -> Mapping[str, Any]:
        seen.append(1)
        raise RuntimeError("a defect")

    runner = ServiceRunner(engine.database, [Service("tick", 0.1, fail)])
    runner.start()
    await eventually(lambda: len(seen) > 1)
    await runner.stop()
    [row] = await runner.status()
    assert row["last_error"] == "RuntimeError: a defect"


async def test_retention_keeps_up_with_one_busy_partition(engine: Engine, jobs: Jobs, clock: Clock, sql: Sql) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await push(engine, *range(12_000), partition="busy")
    await clock.advance(61)
    assert await jobs.retention() == {"removed": 12_000, "finished": True}
    assert (
        await sql.fetchval("select (oldest_at, idle_since) is null from queen.partitions where name = 'busy'") is False
    )


async def test_retention_looks_only_at_what_is_due(engine: Engine, clock: Clock, sql: Sql) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    await engine.push([message(1, partition=f"p{n}") for n in range(3000)])
    await clock.advance(61)
    await sql.execute("update queen.partitions set oldest_at = queen.clock() where name <> 'p7'")
    assert await _rows_read(sql, "retain_queue") < 20
    assert await sql.fetchval("select sum(messages_removed) from queen.retention_history") == 1


async def _rows_read(sql: Sql, portion: str) -> int:
    """How many partitions and cursors one portion of a service looks at."""
    read = (
        "select sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::int from pg_stat_xact_user_tables"
        " where relname in ('partitions', 'partition_consumers')"
    )
    async with sql.transaction():
        before: int = await sql.fetchval(read)
        await sql.execute(f"select queen.{portion}(id, null, null, 1000) from queen.queues")
        after: int = await sql.fetchval(read)
    return after - before


async def test_a_group_that_lags_does_not_hide_what_others_have_passed(
    engine: Engine, jobs: Jobs, clock: Clock, sql: Sql
) -> None:
    """More old partitions that must stay than are looked at in one portion."""
    await engine.queues.configure("q", {"retention_enabled": True, "completed_retention_seconds": 60})
    await engine.push([message(1, partition=f"p{n}") for n in range(1500)])
    await engine.register("q", "g")
    await clock.advance(1)
    await push(engine, 2, partition="last")
    await engine.ack_messages(await pop(engine, group="g", partition="last"))
    await clock.advance(61)
    assert await jobs.retention() == {"removed": 1, "finished": True}
    assert await sql.fetchval("select count(*) from queen.messages") == 1500


async def _deliver(jobs: Jobs) -> int:
    """All that can be pushed now, in as many runs as it takes."""
    delivered = 0
    while True:
        result = await jobs.scheduled()
        delivered += int(result["delivered"])
        if result["finished"]:
            return delivered


async def test_a_full_queue_does_not_hold_up_what_is_scheduled_for_others(
    engine: Engine, jobs: Jobs, clock: Clock
) -> None:
    due = datetime.now(UTC) + timedelta(seconds=60)
    await push(engine, 0, queue="full")
    await engine.push([message(n, "full", deliver_at=due) for n in range(1500)])
    await engine.queues.configure("full", {"max_queue_size": 3})
    await engine.push([message(n, "free", deliver_at=due + timedelta(seconds=1)) for n in range(3)])
    await clock.advance(70)
    assert await _deliver(jobs) == 5
    assert numbers(await pop(engine, queue="free")) == [0, 1, 2]
    assert len(await pop(engine, queue="full")) == 3


async def test_a_busy_partition_does_not_hold_up_what_is_scheduled_for_others(
    engine: Engine, jobs: Jobs, clock: Clock, database: str
) -> None:
    due = datetime.now(UTC) + timedelta(seconds=60)
    await push(engine, 0, partition="held")
    await engine.push([message(n, partition="held", deliver_at=due) for n in range(1200)])
    await push(engine, 1, partition="free", deliver_at=due + timedelta(seconds=1))
    await clock.advance(70)
    async with connect(database) as other, other.transaction():
        await other.execute("select queen.push('q', 'held', '{\"n\": -1}')")
        assert await _deliver(jobs) == 1
    assert await _deliver(jobs) == 1200
    got = numbers(await pop(engine, 2000, partition="held"))
    assert got == [0, -1, *range(1200)]


async def test_eviction_goes_on_lane_by_lane(engine: Engine, jobs: Jobs, clock: Clock, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await engine.register("q", "g")
    await engine.push([message(n, partition=f"p{n % 250}") for n in range(2000)])
    await clock.advance(61)
    assert await jobs.eviction() == {"evicted": 2000, "finished": True}
    assert await sql.fetchval("select count(*) from queen.dead_letter_queue") == 2000
    assert await sql.fetchval("select count(*) from queen.partition_consumers where evict_at is not null") == 0


async def test_eviction_looks_only_at_what_is_due(engine: Engine, clock: Clock, sql: Sql) -> None:
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    await engine.register("q", "g")
    await engine.push([message(1, partition=f"p{n}") for n in range(2000)])
    assert await _rows_read(sql, "evict_queue") < 20
    await clock.advance(61)
    assert await _rows_read(sql, "evict_queue") > 20


async def test_a_maximum_wait_that_is_set_later_counts_for_what_waits_already(
    engine: Engine, jobs: Jobs, clock: Clock
) -> None:
    await engine.register("q", "g")
    await push(engine, 1, 2)
    await clock.advance(61)
    await push(engine, 3)
    await engine.queues.configure("q", {"max_wait_time_seconds": 60})
    assert await jobs.eviction() == {"evicted": 2, "finished": True}
    await clock.advance(61)
    assert await jobs.eviction() == {"evicted": 1, "finished": True}


async def test_statistics_stay_right_when_partitions_and_groups_go(engine: Engine, jobs: Jobs, sql: Sql) -> None:
    await push(engine, *range(5), partition="gone")
    await engine.ack_messages(await pop(engine, 3))
    await jobs.stats()
    await push(engine, 5, partition="gone")
    await sql.execute("delete from queen.partitions where name = 'gone'")
    await push(engine, 6, 7, partition="there")
    await engine.ack_messages(await pop(engine, 1))
    await engine.queues.forget_group("__QUEUE_MODE__", "q")
    await jobs.stats()
    row = await sql.fetchrow("select sum(pushed), sum(popped), sum(acked) from queen.stats")
    assert row is not None
    assert tuple(row) == (8, 4, 4)


async def test_history_and_traces_are_kept_for_as_long_as_statistics(
    engine: Engine, jobs: Jobs, clock: Clock, sql: Sql
) -> None:
    await engine.queues.configure("q", {"retention_enabled": True, "retention_seconds": 60})
    for _ in range(2):
        (pushed,) = await push(engine, 1)
        await sql.execute(
            "insert into queen.traces (partition_id, transaction_id, message_id, event_type, data, created_at)"
            " values ($1, $2, $3, 'info', '{}', queen.clock())",
            pushed.partition_id, pushed.transaction_id, pushed.id,
        )  # fmt: skip
        await jobs.stats()
        await clock.advance(61)
        await jobs.retention()
        await clock.advance(80 * 86_400)
    assert await jobs.history() == {"summed": 2, "removed": 4}
    assert await jobs.history() == {"summed": 0, "removed": 0}
    for table in ("traces", "retention_history", "stats"):
        assert await sql.fetchval(f"select count(*) from queen.{table}") == 1
