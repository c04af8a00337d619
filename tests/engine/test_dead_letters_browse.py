from __future__ import annotations

from datetime import timedelta

import pytest

from queen import errors
from queen.engine import Engine, KeyRing, Selection
from queen.engine.dead_letters import Wanted
from queen.engine.reading import Window
from tests.support.work import Sql, acks, pop, push


async def bury(engine: Engine, *errors_: str, queue: str = "q", partition: str = "p", group: str = "g") -> None:
    """One dead letter per error text."""
    await push(engine, *range(len(errors_)), queue=queue, partition=partition)
    for text in errors_:
        await engine.ack(acks(await pop(engine, 1, queue=queue, group=group, partition=partition), "dlq", text))


async def test_dead_letters_come_newest_first_page_by_page(engine: Engine) -> None:
    await bury(engine, *[f"error {n}" for n in range(5)])
    page, total = await engine.dead_letters.browse(Wanted(), Window(limit=2))
    assert ([each.error_message for each in page.items], total) == (["error 4", "error 3"], 5)
    rest, _ = await engine.dead_letters.browse(Wanted(), Window(limit=10, cursor=page.next_cursor))
    assert [each.error_message for each in rest.items] == ["error 2", "error 1", "error 0"]
    offset, _ = await engine.dead_letters.browse(Wanted(), Window(limit=10, offset=2))
    assert offset.items == rest.items
    assert page.items[0].payload == '{"n": 4}'


async def test_every_filter_counts(engine: Engine, sql: Sql) -> None:
    await bury(engine, "a 1", "b", queue="q1", partition="x", group="g1")
    await bury(engine, "a 2", queue="q2", partition="y", group="g2")
    now = await sql.fetchval("select clock_timestamp()")

    async def found(wanted: Wanted) -> list[str]:
        page, total = await engine.dead_letters.browse(wanted, Window())
        assert total == len(page.items)
        return [each.error_message for each in page.items]

    assert await found(Wanted(queue="q1")) == ["b", "a 1"]
    assert await found(Wanted(group="g2")) == ["a 2"]
    assert await found(Wanted(partition="x")) == ["b", "a 1"]
    assert await found(Wanted(error_contains="a ")) == ["a 2", "a 1"]
    assert await found(Wanted(error="a <n>")) == ["a 2", "a 1"]
    assert await found(Wanted(since=now)) == []
    assert await found(Wanted(until=now - timedelta(hours=1))) == []


async def test_redriven_ones_are_shown_when_asked_for(engine: Engine) -> None:
    await bury(engine, "a", "b")
    newest, oldest = (await engine.dead_letters.browse(Wanted(), Window()))[0].items
    await engine.dead_letters.redrive(Selection(ids=[oldest.id]))
    page, total = await engine.dead_letters.browse(Wanted(), Window())
    assert ([each.id for each in page.items], total) == ([newest.id], 1)
    page, total = await engine.dead_letters.browse(Wanted(redriven=True), Window())
    assert total == 2
    assert page.items[1].redriven_as is not None


async def test_one_dead_letter(engine: Engine) -> None:
    await bury(engine, "a")
    (listed,) = (await engine.dead_letters.browse(Wanted(), Window()))[0].items
    assert await engine.dead_letters.get(listed.id) == listed
    assert await engine.dead_letters.get(10**9) is None


async def test_only_the_single_one_is_decrypted(database: str) -> None:
    async with Engine.connect(database, keys=KeyRing(["a" * 64])) as engine:
        await engine.queues.configure("q", {"encryption_enabled": True})
        await bury(engine, "a")
        (listed,) = (await engine.dead_letters.browse(Wanted(), Window()))[0].items
        assert '"encrypted"' in listed.payload
        found = await engine.dead_letters.get(listed.id)
        assert found is not None
        assert found.payload == '{"n": 0}'
        number = found.id
    async with Engine.connect(database, keys=KeyRing(["b" * 64])) as stranger:
        with pytest.raises(errors.EncryptionUnavailable):
            await stranger.dead_letters.get(number)


async def test_errors_that_differ_in_details_are_one_group(engine: Engine) -> None:
    await bury(
        engine,
        "timeout after 30.5 s",
        "timeout after 7 s",
        "no user 'anna'",
        "no user 'bob'",
        "no user 'carl'\nTraceback: line 17",
        "bad id 0198c0de-1111-7222-8333-444455556666 at 0x7fA0",
    )
    found = await engine.dead_letters.groups()
    assert [(each.error, each.dead_letters) for each in found] == [
        ("no user <x>", 3), ("timeout after <n> s", 2), ("bad id <id> at <x>", 1),
    ]  # fmt: skip
    assert (found[1].sample, found[1].queues, found[1].consumer_groups) == ("timeout after 7 s", ["q"], ["g"])
    assert await engine.dead_letters.groups(queue="other") == []
    assert len(await engine.dead_letters.groups(group="g", limit=2)) == 2
