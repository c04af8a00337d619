from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queen import errors
from queen.engine import Engine, KeyRing
from queen.engine.browse import Browser, Filter, Listed, Status
from queen.engine.reading import MAX_OFFSET, Window
from queen.ids import uuid7
from queen.model import Ack, NewMessage
from tests.support.work import Sql, acks, dead, lane, message, numbers, pop, push

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def browser(engine: Engine) -> Browser:
    return Browser(engine.database, engine.keys, engine.wake)


async def listed(browser: Browser, window: Window | None = None, **wanted: object) -> list[Listed]:
    page, _ = await browser.browse(Filter(**{"since": LONG_AGO, **wanted}), window or Window(limit=1000))  # type: ignore[arg-type]
    return page.items


def order(found: list[Listed]) -> list[tuple[datetime, int, int]]:
    return [(each.created_at, each.partition_id, each.seq) for each in found]


async def test_messages_are_listed_newest_first_over_all_partitions(engine: Engine, browser: Browser) -> None:
    for number in range(12):
        await push(engine, number, queue=f"q{number % 2}", partition=f"p{number % 3}")
    found = await listed(browser)
    assert order(found) == sorted(order(found), reverse=True)
    assert len(found) == 12
    assert {(each.queue, each.partition) for each in found} == {(f"q{n % 2}", f"p{n % 3}") for n in range(6)}


@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_pages_by_cursor_show_every_message_once(engine: Engine, browser: Browser, limit: int) -> None:
    await engine.push([message(n, partition=f"p{n % 3}") for n in range(20)])
    await engine.push([message(n, partition=f"p{n % 2}") for n in range(20, 30)])
    whole = order(await listed(browser))
    seen: list[tuple[datetime, int, int]] = []
    cursor: str | None = None
    while True:
        page, _ = await browser.browse(Filter(), Window(limit=limit, cursor=cursor))
        seen += order(page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == whole
    assert len(seen) == 30


async def test_a_page_by_cursor_is_not_moved_by_new_messages(engine: Engine, browser: Browser) -> None:
    await engine.push([message(n) for n in range(4)])
    first, _ = await browser.browse(Filter(), Window(limit=2))
    await engine.push([message(n) for n in range(4, 9)])
    second, _ = await browser.browse(Filter(), Window(limit=2, cursor=first.next_cursor))
    assert [each.seq for each in first.items + second.items] == [4, 3, 2, 1]


async def test_pages_by_offset_are_the_same(engine: Engine, browser: Browser) -> None:
    await engine.push([message(n, partition=f"p{n % 3}") for n in range(10)])
    whole = order(await listed(browser))
    for offset in (0, 3, 9, 10):
        assert order(await listed(browser, Window(limit=4, offset=offset))) == whole[offset : offset + 4]


@pytest.mark.parametrize("cursor", ["x", "!!", "W10", "WzEsMiwzXQ", "bnVsbA", "W251bGwsbnVsbCxudWxsXQ"])
async def test_a_foreign_cursor_is_refused(browser: Browser, cursor: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="nextCursor"):
        await browser.browse(Filter(), Window(cursor=cursor))


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (1001, 0), (1, -1), (1, MAX_OFFSET + 1)])
def test_a_window_has_limits(limit: int, offset: int) -> None:
    with pytest.raises(errors.InvalidRequest, match="must be between"):
        Window(limit=limit, offset=offset)


async def test_statuses_follow_a_message_through_its_life(engine: Engine, browser: Browser) -> None:
    await push(engine, 1, 2, 3, 4, 5)
    assert [each.status for each in await listed(browser)] == ["pending"] * 5
    first = await pop(engine, 2)
    await engine.ack_messages(first)
    out = await pop(engine, 1)
    await engine.ack(acks(out, "dlq", "boom"))
    leased = await pop(engine, 1)
    found = {each.seq: each for each in await listed(browser)}
    assert {seq: each.status for seq, each in found.items()} == {
        1: "completed", 2: "completed", 3: "dead_letter", 4: "processing", 5: "pending",
    }  # fmt: skip
    assert found[4].lease_expires_at == leased[0].lease_expires_at
    assert found[5].lease_expires_at is None
    assert found[5].queue_status == "pending"


@pytest.mark.parametrize(
    ("status", "seqs"),
    [("pending", [6, 5]), ("processing", [4]), ("completed", [2, 1]), ("dead_letter", [3])],
)
async def test_a_status_can_be_asked_for(engine: Engine, browser: Browser, status: Status, seqs: list[int]) -> None:
    for partition in ("a", "b"):
        await push(engine, 1, 2, 3, 4, 5, 6, partition=partition)
        await engine.ack_messages(await pop(engine, 2, partition=partition))
        await engine.ack(acks(await pop(engine, 1, partition=partition), "dlq"))
        await pop(engine, 1, partition=partition)
    found = await listed(browser, status=status)
    assert sorted((each.partition, -each.seq) for each in found) == [(p, -s) for p in ("a", "b") for s in seqs]
    one_by_one = []
    cursor = None
    for _ in found:
        page, _ = await browser.browse(Filter(status=status), Window(limit=1, cursor=cursor))
        one_by_one += page.items
        cursor = page.next_cursor
    assert order(one_by_one) == order(found)
    assert cursor is None


async def test_a_message_is_completed_when_every_known_group_passed_it(engine: Engine, browser: Browser) -> None:
    await push(engine, 1, 2, 3)
    await engine.register("q", "a")
    await engine.register("q", "b")
    await engine.ack_messages(await pop(engine, 3, group="a"))
    await engine.ack_messages(await pop(engine, 1, group="b"))
    page, readers = await browser.browse(Filter(queue="q"), Window())
    assert [(each.seq, each.status, each.consumed_by, each.total_groups) for each in page.items] == [
        (3, "pending", 1, 2), (2, "pending", 1, 2), (1, "completed", 2, 2),
    ]  # fmt: skip
    assert {each.queue_status for each in page.items} == {None}
    assert (readers.kind, readers.named) == ("bus", 2)


async def test_who_reads_a_queue_is_one_word(engine: Engine, browser: Browser) -> None:
    async def kind(queue: str) -> str:
        return (await browser.browse(Filter(queue=queue), Window()))[1].kind

    await push(engine, 1)
    assert await kind("q") == "none"
    await pop(engine, 1)
    assert await kind("q") == "queue"
    await engine.register("q", "g")
    assert await kind("q") == "hybrid"
    assert await kind("another") == "none"


async def test_filters_by_name_and_time(engine: Engine, browser: Browser, sql: Sql) -> None:
    await engine.queues.configure("mail.send", {}, namespace="mail", task="send")
    await push(engine, 1, queue="mail.send", partition="eu")
    await push(engine, 2, queue="mail.send", partition="us")
    await push(engine, 3, queue="other")
    assert {each.partition for each in await listed(browser, queue="mail.send")} == {"eu", "us"}
    assert [each.partition for each in await listed(browser, queue="mail.send", partition="us")] == ["us"]
    assert len(await listed(browser, namespace="mail")) == 2
    assert len(await listed(browser, task="send")) == 2
    assert await listed(browser, namespace="mail", task="receive") == []
    assert await listed(browser, queue="nowhere") == []
    now = await sql.fetchval("select clock_timestamp()")
    assert await listed(browser, since=now) == []
    assert len(await listed(browser, until=now)) == 3
    assert await listed(browser, until=now - timedelta(minutes=1)) == []


async def test_a_time_span_cuts_a_partition_in_the_middle(engine: Engine, browser: Browser, sql: Sql) -> None:
    times = []
    for number in range(6):
        await push(engine, number)
        times.append(await sql.fetchval("select clock_timestamp()"))
    found = await listed(browser, since=times[1], until=times[4])
    assert [each.seq for each in found] == [5, 4, 3]


async def test_messages_older_than_an_hour_are_left_out_unless_asked_for(
    engine: Engine, browser: Browser, sql: Sql
) -> None:
    await push(engine, 1, 2)
    await sql.execute("update queen.messages set created_at = created_at - interval '2 hours'")
    await sql.execute("update queen.partitions set last_created_at = last_created_at - interval '2 hours'")
    assert (await browser.browse(Filter(), Window()))[0].items == []
    assert len(await listed(browser)) == 2


async def test_one_message_with_everything_about_it(engine: Engine, browser: Browser) -> None:
    trace = uuid7()
    (pushed,) = await push(engine, 7, transaction_id="m-7", trace_id=trace)
    await engine.register("q", "g")
    (taken,) = await pop(engine, 1, group="g")
    found = await browser.message(pushed.partition_id, "m-7")
    assert found is not None
    assert (found.payload, found.listed.id, found.listed.trace_id) == ('{"n": 7}', pushed.id, trace)
    assert found.listed.status == "processing"
    assert [(g.name, g.consumed, g.lease_expires_at) for g in found.groups] == [("g", False, taken.lease_expires_at)]
    assert (found.lease_time, found.retry_limit, found.retry_delay, found.ttl) == (300, 3, 0, 3600)
    await engine.ack(acks([taken], "dlq", "boom"))
    found = await browser.message(pushed.partition_id, "m-7")
    assert found is not None
    assert (found.listed.status, found.error_message, found.groups[0].consumed) == ("dead_letter", "boom", True)


async def test_a_message_the_server_named_is_found_by_its_id(engine: Engine, browser: Browser) -> None:
    (pushed,) = await push(engine, 7)
    found = await browser.message(pushed.partition_id, str(pushed.id))
    assert found is not None
    assert found.listed.transaction_id == str(pushed.id)


async def test_an_unknown_message_is_none(engine: Engine, browser: Browser) -> None:
    (pushed,) = await push(engine, 7, transaction_id="here")
    for partition, name in ((pushed.partition_id, "there"), (10**9, "here")):
        assert await browser.message(partition, name) is None
        assert await browser.deliveries(partition, name) is None
        assert await browser.retry(partition, name) is None
        assert await browser.bury(partition, name) is None


async def test_an_encrypted_payload_is_opened(database: str) -> None:
    keys = KeyRing(["a" * 64])
    async with Engine.connect(database, keys=keys) as engine:
        await engine.queues.configure("q", {"encryption_enabled": True})
        (pushed,) = await push(engine, 7, transaction_id="m")
        browser = Browser(engine.database, keys, engine.wake)
        found = await browser.message(pushed.partition_id, "m")
        assert found is not None
        assert (found.payload, found.is_encrypted, found.broken) == ('{"n": 7}', True, None)
        stranger = Browser(engine.database, KeyRing(["b" * 64]), engine.wake)
        sealed = await stranger.message(pushed.partition_id, "m")
        assert sealed is not None
        assert sealed.broken is not None
        assert '"encrypted"' in sealed.payload


async def test_deliveries_tell_the_story_of_a_message(engine: Engine, browser: Browser) -> None:
    pushed = await push(engine, 1, 2, 3)
    await engine.ack(acks(await pop(engine, 2), "failed", "no"))
    await engine.ack_messages(await pop(engine, 2))
    held = await pop(engine, 1)
    story = await browser.deliveries(pushed[0].partition_id, pushed[1].transaction_id)
    assert story is not None
    assert [(each.outcome, each.batch_from, each.batch_to) for each in story] == [
        ("failed", 1, 2), ("completed", 1, 2),
    ]  # fmt: skip
    current = await browser.deliveries(pushed[2].partition_id, pushed[2].transaction_id)
    assert current is not None
    assert [(each.outcome, each.lease_id, each.ended_at) for each in current] == [("leased", held[0].lease_id, None)]


async def test_retry_pushes_a_message_again_with_the_old_one_as_parent(engine: Engine, browser: Browser) -> None:
    (pushed,) = await push(engine, 7, transaction_id="m")
    await engine.ack_messages(await pop(engine))
    again = await browser.retry(pushed.partition_id, "m")
    assert again is not None
    (taken,) = await pop(engine)
    assert (numbers([taken]), taken.id, taken.parent_id, taken.seq) == ([7], again.id, pushed.id, 2)


async def test_retry_respects_the_limit_of_a_queue(engine: Engine, browser: Browser) -> None:
    await engine.queues.configure("q", {"max_queue_size": 1})
    (pushed,) = await push(engine, 7, transaction_id="m")
    with pytest.raises(errors.QueueFull):
        await browser.retry(pushed.partition_id, "m")


async def test_bury_takes_a_waiting_message_from_one_group_only(engine: Engine, browser: Browser, sql: Sql) -> None:
    pushed = await push(engine, 1, 2, 3)
    await engine.register("q", "a")
    await engine.register("q", "b")
    for name in (pushed[0].transaction_id, pushed[1].transaction_id):
        assert await browser.bury(pushed[0].partition_id, name, group="a", error="by hand")
    assert (await lane(sql, group="a"))["depth"] == 1
    assert numbers(await pop(engine, group="a")) == [3]
    assert numbers(await pop(engine, group="b")) == [1, 2, 3]
    assert await dead(sql, group="a") == [1, 2]
    assert await dead(sql, group="b") == []


async def test_bury_twice_keeps_one_dead_letter(engine: Engine, browser: Browser, sql: Sql) -> None:
    (pushed,) = await push(engine, 1)
    first = await browser.bury(pushed.partition_id, pushed.transaction_id)
    assert await browser.bury(pushed.partition_id, pushed.transaction_id) == first
    assert await dead(sql) == [1]


async def test_bury_after_consumption_leaves_the_cursor_alone(engine: Engine, browser: Browser, sql: Sql) -> None:
    (pushed,) = await push(engine, 1)
    await engine.ack_messages(await pop(engine))
    assert await browser.bury(pushed.partition_id, pushed.transaction_id)
    assert await dead(sql) == [1]
    assert await sql.fetchval("select count(*) from queen.skips") == 0
    await push(engine, 2)
    assert numbers(await pop(engine)) == [2]


async def test_a_deleted_message_is_not_listed(engine: Engine, browser: Browser) -> None:
    pushed = await push(engine, 1, 2, 3)
    await engine.delete_message(pushed[2].partition_id, pushed[2].transaction_id)
    assert [each.seq for each in await listed(browser)] == [2, 1]


async def test_names_with_nul_are_refused(browser: Browser) -> None:
    with pytest.raises(errors.InvalidRequest):
        await browser.browse(Filter(queue="a\0"), Window())
    with pytest.raises(errors.InvalidRequest):
        await browser.bury(1, "t", group="")


@pytest.mark.parametrize("status", [None, "pending", "completed", "dead_letter", "processing"])
async def test_listing_reads_few_messages_of_a_long_partition(engine: Engine, sql: Sql, status: Status | None) -> None:
    """A page costs its length, not the depth of the queue: counted in rows read."""
    for _ in range(5):
        await engine.push([NewMessage(queue="q", payload="1") for _ in range(1000)])
    await engine.ack_messages(await pop(engine, 2000))
    await pop(engine, 100)
    before = await rows_read(sql)
    browse = "select * from queen.browse_messages(null, null, null, null, $1, $2, null, 10)"
    assert len(await sql.fetch(browse, status, LONG_AGO)) == (0 if status == "dead_letter" else 10)
    assert await rows_read(sql) - before < 500
    await sql.fetch("select from queen.messages")
    assert await rows_read(sql) - before >= 5000, "the measure itself sees what is read"


async def rows_read(sql: Sql) -> int:
    """Rows of messages that this connection, and whoever reported by now, has read."""
    await sql.execute("select pg_stat_force_next_flush()")
    return int(
        await sql.fetchval(
            "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relname = 'messages'"
        )
    )


async def test_acks_below_the_cursor_do_not_change_a_status(engine: Engine, browser: Browser) -> None:
    await push(engine, 1, 2)
    taken = await pop(engine)
    await engine.ack_messages(taken)
    first = taken[0]
    await engine.ack([Ack(partition_id=first.partition_id, transaction_id=first.transaction_id)])
    assert {each.status for each in await listed(browser)} == {"completed"}
