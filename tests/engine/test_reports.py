from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queen import errors
from queen.engine import Engine
from queen.engine.reading import Reader, Window
from queen.engine.reports import Reports, Span, last_hours
from queen.engine.resources import Counts, Resources
from queen.model import Message
from tests.support.work import Sql, acks, message, pop, push


@pytest.fixture
def resources(engine: Engine) -> Resources:
    return Resources(engine.database)


@pytest.fixture
def reports(engine: Engine) -> Reports:
    return Reports(engine.database)


def hour(**names: str) -> Span:
    since, until = last_hours(1)
    return Span(since=since, until=until + timedelta(minutes=1), **names)


async def mixed(engine: Engine) -> list[Message]:
    """Ten messages in q/p: 3 done, 1 dead-lettered, 2 leased, 4 waiting; five more in another partition."""
    await push(engine, *range(10))
    await engine.ack_messages(await pop(engine, 3))
    await engine.ack(acks(await pop(engine, 1), "dlq", "boom 17"))
    held = await pop(engine, 2)
    await push(engine, *range(5), partition="r")
    return held


async def test_the_numbers_of_a_queue_are_exact(engine: Engine, resources: Resources) -> None:
    await mixed(engine)
    found = await resources.queue("q")
    assert found is not None
    assert found.counts == Counts(total=15, pending=9, processing=2, completed=3, failed=0, dead_letters=1)
    assert found.partitions == 2
    assert await resources.queue("nowhere") is None


async def test_the_numbers_agree_with_counting_every_message(engine: Engine, resources: Resources, sql: Sql) -> None:
    await mixed(engine)
    pushed = await push(engine, 1, 2, 3, partition="s")
    await engine.delete_message(pushed[1].partition_id, pushed[1].transaction_id)
    await engine.register("q", "g")
    await engine.ack_messages(await pop(engine, 2, group="g", partition="p"))
    await pop(engine, 4, group="g", partition="p")
    found = await resources.queue("q")
    assert found is not None
    statuses = await sql.fetch(
        "select status, count(*) from queen.browse_messages('q', null, null, null, null, '-infinity', null, 1000)"
        " group by status"
    )
    counted = {row["status"]: row["count"] for row in statuses}
    assert counted == {"completed": 2, "dead_letter": 1, "processing": 3, "pending": 11}
    assert found.counts == Counts(total=17, pending=11, processing=4, completed=2, dead_letters=1)
    partitions = (await resources.partitions("q")).items
    total = sum((each.counts for each in partitions), Counts())
    assert total == found.counts
    depth = await sql.fetchval("select current_depth from queen.queue_depths where queue_name = 'q'")
    assert found.counts.pending + found.counts.processing == depth


async def test_messages_that_wait_for_another_try_count_as_failed(engine: Engine, resources: Resources) -> None:
    await engine.queues.configure("q", {"retry_delay": 60_000})
    await push(engine, 1, 2, 3, 4)
    await engine.ack(acks(await pop(engine, 3), "failed"))
    found = await resources.queue("q")
    assert found is not None
    assert found.counts == Counts(total=4, pending=4, failed=3)


async def test_queues_come_newest_first_page_by_page(engine: Engine, resources: Resources) -> None:
    for number in range(7):
        await engine.queues.configure(f"queue-{number}", {}, namespace="odd" if number % 2 else "even", task="t")
    page, total = await resources.queues(Window(limit=3))
    assert ([each.config.name for each in page.items], total) == (["queue-6", "queue-5", "queue-4"], 7)
    rest, _ = await resources.queues(Window(limit=10, cursor=page.next_cursor))
    assert [each.config.name for each in rest.items] == ["queue-3", "queue-2", "queue-1", "queue-0"]
    odd, total = await resources.queues(Window(), namespace="odd", task="t")
    assert ([each.config.name for each in odd.items], total) == (["queue-5", "queue-3", "queue-1"], 3)
    found, total = await resources.queues(Window(), search="UE-3")
    assert ([each.config.name for each in found.items], total) == (["queue-3"], 1)


async def test_partitions_with_their_oldest_and_newest(engine: Engine, resources: Resources) -> None:
    await mixed(engine)
    first, second = (await resources.partitions("q")).items
    assert (first.name, first.counts.total, first.consumed, first.batches) == ("p", 10, 3, 2)
    assert first.oldest_at is not None
    assert first.newest_at is not None
    assert first.oldest_at <= first.newest_at
    assert (second.name, second.counts.pending, second.last_consumed_at) == ("r", 5, None)
    page = await resources.partitions(None, Window(limit=1))
    rest = await resources.partitions(None, Window(limit=1, cursor=page.next_cursor))
    assert [each.name for each in page.items + rest.items] == ["p", "r"]


async def test_namespaces_and_tasks(engine: Engine, resources: Resources) -> None:
    await push(engine, 1, 2, queue="mail.send.a")
    await push(engine, 3, queue="mail.send.b")
    await push(engine, 4, queue="mail.read")
    await push(engine, 5, queue="plain")
    assert [(s.name, s.queues, s.partitions, s.total, s.pending) for s in await resources.namespaces()] == [
        ("mail", 3, 3, 4, 4)
    ]
    assert [(s.name, s.queues, s.total) for s in await resources.tasks()] == [("read", 1, 1), ("send", 2, 3)]


async def test_the_overview_of_nothing_is_all_zero(resources: Resources) -> None:
    found = await resources.overview()
    assert (found.queues, found.partitions, found.counts, found.lag.max) == (0, 0, Counts(), 0.0)
    assert (found.pushed_per_second, found.acked_per_second) == (0.0, 0.0)


async def test_the_overview_adds_everything_up(engine: Engine, resources: Resources, reports: Reports) -> None:
    await mixed(engine)
    await push(engine, *range(20), queue="mail.send")
    await pop(engine, 1, queue="mail.send")
    await reports.refresh()
    found = await resources.overview()
    assert (found.queues, found.partitions, found.namespaces, found.tasks) == (2, 3, 1, 1)
    assert found.counts == Counts(total=35, pending=28, processing=3, completed=3, failed=0, dead_letters=1)
    assert (found.backlog.min, found.backlog.max, found.backlog.median) == (5, 20, 6)
    assert found.pushed_per_second > 0


async def test_throughput_comes_from_exact_differences(engine: Engine, reports: Reports) -> None:
    await mixed(engine)
    await push(engine, 1, queue="other.task")
    await reports.refresh()
    await engine.ack_messages(await pop(engine, 5, partition="r"))
    await reports.refresh()
    points = await reports.throughput(hour(queue="q"))
    assert sum(point.pushed for point in points) == 15
    assert sum(point.popped for point in points) == 11
    assert sum(point.acked for point in points) == 8
    assert sum(point.failed for point in points) == 1
    assert sum(point.pushed for point in await reports.throughput(hour())) == 16
    assert sum(point.pushed for point in await reports.throughput(hour(namespace="other", task="task"))) == 1
    series = await reports.queue_series(hour())
    assert {point.queue for point in series} == {"q", "other.task"}
    long_ago = Span(since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2020, 1, 2, tzinfo=UTC))
    assert await reports.throughput(long_ago) == []


@pytest.mark.parametrize(
    ("hours", "minutes"), [(1, 1), (2, 1), (3, 5), (13, 15), (24, 15), (72, 60), (1000, 360), (8000, 1440)]
)
def test_a_long_span_has_longer_buckets(hours: int, minutes: int) -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    assert Span(since=since, until=since + timedelta(hours=hours)).bucket_minutes == minutes


@pytest.mark.parametrize("hours", [-1, 24 * 367])
def test_a_span_has_limits(hours: int) -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(errors.InvalidRequest, match="from must be before to"):
        Span(since=since, until=since + timedelta(hours=hours))


async def test_leases_and_dead_letters(engine: Engine, reports: Reports) -> None:
    held = await mixed(engine)
    await engine.ack(acks(held[:1]))
    found = await reports.leases(hour())
    assert (found.active, found.partitions, found.batch_size, found.acked) == (1, 1, 2, 1)
    assert (await reports.leases(hour(queue="other"))).active == 0
    dead = await reports.dead_letters(hour())
    assert (dead.total, dead.partitions) == (1, 1)
    assert (await reports.dead_letters(hour(namespace="other"))).total == 0


async def test_what_retention_removed(engine: Engine, reports: Reports, sql: Sql) -> None:
    await push(engine, 1, 2, 3)
    await sql.execute(
        "select queen.remove_ranges(array[p.id], array[2], array[2], clock_timestamp()) from queen.partitions p"
    )
    (removal,) = await reports.retention(hour())
    assert (removal.queue, removal.kind, removal.removed) == ("q", "retention", 2)
    assert await reports.retention(hour(queue="other")) == []


async def test_services_say_when_they_last_succeeded(engine: Engine, reports: Reports, sql: Sql) -> None:
    assert await reports.services() == []
    await sql.execute("select queen.hold_service('stats', 'me', 10000)")
    await sql.execute("select queen.report_service('stats', 'me', '{\"queues\": 3}', null)")
    (service,) = await reports.services()
    assert (service.service, service.holder, service.held, service.interval_ms) == ("stats", "me", True, 10000)
    assert (service.last_result, service.last_error) == ('{"queues": 3}', None)
    assert service.last_success is not None


async def test_how_postgres_is(engine: Engine, reports: Reports, sql: Sql) -> None:
    await push(engine, 1)
    await sql.execute("begin")
    await sql.execute("select txid_current()")
    found = await reports.postgres()
    await sql.execute("rollback")
    assert found.database.size > 0
    assert found.database.max_connections >= 20
    assert {"messages", "partition_consumers"} <= {table.name for table in found.tables}
    assert any(session.state == "idle in transaction" for session in found.sessions)


async def test_totals_for_the_live_view(engine: Engine, reports: Reports) -> None:
    await mixed(engine)
    (found,) = await reports.totals()
    assert (found.name, found.waiting, found.processing, found.pushed, found.popped, found.acked) == (
        "q", 11, 2, 15, 6, 3,
    )  # fmt: skip
    assert found.dead_letters == 1


async def test_a_report_has_a_time_limit(engine: Engine, sql: Sql) -> None:
    """While someone holds the tables for himself, a report gives up instead of hanging."""
    await push(engine, 1)
    async with sql.transaction():
        await sql.execute("lock table queen.partitions")
        with pytest.raises(errors.QueenError) as caught:
            await Reader(engine.database, limit=0.2).fetch("overview")
    assert caught.value.retryable


async def test_a_report_cannot_be_slowed_by_many_messages(engine: Engine, resources: Resources, sql: Sql) -> None:
    """The numbers of a queue are read without reading its messages."""
    await engine.push([message(n) for n in range(3000)])
    before = await messages_read(sql)
    assert (await sql.fetch("select * from queen.count_partitions()"))[0]["kept"] == 3000
    assert await messages_read(sql) == before
    assert await sql.fetchval("select count(*) from queen.messages") == 3000
    assert await messages_read(sql) > before, "the measure itself sees what is read"


async def messages_read(sql: Sql) -> int:
    await sql.execute("select pg_stat_force_next_flush()")
    return int(
        await sql.fetchval(
            "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relname = 'messages'"
        )
    )
