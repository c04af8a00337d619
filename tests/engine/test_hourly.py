"""Statistics by the hour: the same sums as the minutes, each hour once, gaps kept, and kept for longer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from queen.config import Settings
from queen.engine import Engine
from queen.engine.services.jobs import Jobs
from queen.sql import query
from tests.support.clock import Clock
from tests.support.work import Sql

HOUR = timedelta(hours=1)


async def minutes(sql: Sql, queue: str, start: datetime, count: int) -> None:
    """Statistics of so many minutes, no two alike."""
    await sql.execute(
        "insert into queen.stats (queue_id, bucket, pushed, popped, acked, failed, lag, max_lag_ms)"
        " select q.id, $2::timestamptz + n * interval '1 minute', 10 + n, n, 5 + n, n % 3, 100 + n, 1000 + n"
        " from queen.queues q cross join generate_series(0, $3::integer - 1) n where q.name = $1",
        queue, start, count,
    )  # fmt: skip


async def summed(sql: Sql) -> list[tuple[float, ...]]:
    rows = await sql.fetch(
        "select pushed, acked, failed, lag, max_lag_ms from queen.stats_hourly order by queue_id, bucket"
    )
    return [tuple(map(float, row)) for row in rows]


async def test_hours_that_are_over_are_summed_up_once(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {})
    start = (await clock.now()).replace(minute=0, second=0, microsecond=0) - 4 * HOUR
    await minutes(sql, "q", start, 60)
    await minutes(sql, "q", start + 2 * HOUR, 60)  # an hour without anything stays a gap
    first = sum(10 + n for n in range(60)), sum(5 + n for n in range(60)), 60, 129.5, 1059
    jobs = Jobs(engine, Settings())
    assert (await jobs.history())["summed"] == 2
    assert await summed(sql) == [first, first]
    assert (await jobs.history())["summed"] == 0
    assert await summed(sql) == [first, first]


async def test_an_hour_waits_for_whoever_still_writes_its_last_minute(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {})
    now = await clock.now()
    begun = now.replace(minute=0, second=0, microsecond=0)
    await clock.advance((begun + HOUR - now).total_seconds() + 60)
    await minutes(sql, "q", begun, 60)
    jobs = Jobs(engine, Settings())
    assert (await jobs.history())["summed"] == 0
    await clock.advance(300)
    assert (await jobs.history())["summed"] == 1


async def test_a_chart_is_the_same_from_hours_and_from_minutes(engine: Engine, sql: Sql, clock: Clock) -> None:
    for queue in ("a", "b"):
        await engine.queues.configure(queue, {})
    start = (await clock.now()).replace(minute=0, second=0, microsecond=0) - 30 * HOUR
    await minutes(sql, "a", start, 30 * 60)
    await minutes(sql, "b", start + 3 * HOUR, 20 * 60)
    arguments = None, None, start - HOUR, 7200.0
    before = await sql.fetch(query("dashboard/series"), *arguments)
    assert await sql.fetch(query("dashboard/series_long"), *arguments) == before
    assert await sql.fetchval("select queen.roll_up_stats(12)") > 0  # the rest is still by the minute
    assert await sql.fetch(query("dashboard/series_long"), *arguments) == before
    await Jobs(engine, Settings()).history()
    assert await sql.fetch(query("dashboard/series_long"), *arguments) == before
    queue = await sql.fetchval("select id from queen.queues where name = 'b'")
    for narrowed in ((queue, None), (None, [queue])):
        short = await sql.fetch(query("dashboard/series"), *narrowed, *arguments[2:])
        assert await sql.fetch(query("dashboard/series_long"), *narrowed, *arguments[2:]) == short


async def test_hours_outlive_their_minutes_by_a_month(engine: Engine, sql: Sql, clock: Clock) -> None:
    await engine.queues.configure("q", {})
    await minutes(sql, "q", datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 2 * HOUR, 60)
    jobs = Jobs(engine, Settings(metrics_retention_days=1))
    await clock.advance(34 * 86_400)
    await jobs.history()
    assert await sql.fetchval("select count(*) from queen.stats") == 0
    assert len(await summed(sql)) == 1
    await clock.advance(2 * 86_400)
    await jobs.history()
    assert await summed(sql) == []


async def test_the_audit_log_is_kept_for_as_long_as_is_said(engine: Engine, sql: Sql, clock: Clock) -> None:
    await sql.execute(
        "insert into queen.audit (at, subject, act, text)"
        " select queen.clock() - n * interval '1 day', 'ada', 'pause', n::text from generate_series(1, 3000) n"
    )
    assert await Jobs(engine, Settings(audit_retention_days=30)).history() == {"summed": 0, "removed": 2971}
    assert await sql.fetchval("select max(text::integer) from queen.audit") == 29
