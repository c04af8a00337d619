from __future__ import annotations

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from queen import errors
from queen.engine import Engine, KeyRing, Selection
from tests.support.work import Sql, acks, message, numbers, pop, push

OLD, NEW = "00" * 32, "11" * 32


@pytest.fixture
async def sealed(database: str) -> AsyncIterator[Engine]:
    """An engine with a key, and an encrypted queue `q`."""
    async with Engine.connect(database, keys=KeyRing([OLD])) as engine:
        await engine.queues.configure("q", {"encryption_enabled": True})
        yield engine


async def test_what_is_stored_cannot_be_read(sealed: Engine, sql: Sql) -> None:
    await push(sealed, 1, 2)
    rows = [json.loads(row["payload"]) for row in await sql.fetch("select payload from queen.messages")]
    assert all(set(row) == {"encrypted", "iv", "authTag"} for row in rows)
    assert len({row["iv"] for row in rows}) == 2
    got = await pop(sealed)
    assert numbers(got) == [1, 2]
    assert [m.broken for m in got] == [None, None]


async def test_also_inside_a_transaction_and_beside_plain_queues(sealed: Engine, sql: Sql) -> None:
    await sealed.transaction([message(1), message(2, "plain")])
    await sealed.push([message(3), message(4, "plain")])
    assert numbers(await pop(sealed)) == [1, 3]
    assert numbers(await pop(sealed, queue="plain")) == [2, 4]
    assert await sql.fetchval("select count(*) from queen.messages where is_encrypted") == 2


async def test_a_new_key_reads_what_the_old_one_sealed(sealed: Engine, database: str, sql: Sql) -> None:
    await push(sealed, 1)
    for group, ring in (("a", [OLD, f"next:{NEW}"]), ("c", [f"next:{NEW}", OLD])):
        async with Engine.connect(database, keys=KeyRing(ring)) as engine:
            assert numbers(await pop(engine, group=group)) == [1]
    async with Engine.connect(database, keys=KeyRing([f"next:{NEW}"])) as engine:
        await push(engine, 2)
        got = await pop(engine, group="b")
        assert [m.broken is None for m in got] == [False, True]
        assert numbers(got[1:]) == [2]


async def test_without_the_key_it_is_broken_and_not_lost(sealed: Engine, database: str) -> None:
    await push(sealed, 1)
    async with Engine.connect(database) as engine:
        (got,) = await pop(engine)
        assert got.broken is not None
        with pytest.raises(errors.EncryptionUnavailable) as refused:
            await push(engine, 2)
        assert refused.value.code == "ENCRYPTION_UNAVAILABLE"


async def test_no_key_no_encrypted_queue(engine: Engine) -> None:
    with pytest.raises(errors.EncryptionUnavailable):
        await engine.queues.configure("q", {"encryption_enabled": True})


async def test_sql_refuses_what_is_not_sealed(sealed: Engine, sql: Sql) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await sql.execute("select queen.push('q', 'p', '{\"n\": 1}')")
    assert refused.value.detail == "ENCRYPTION_REQUIRED"
    envelope = KeyRing([OLD]).seal('{"n": 7}')
    await sql.execute("select queen.push('q', 'p', $1)", envelope)
    assert numbers(await pop(sealed)) == [7]


async def test_one_callers_unsealed_message_fails_alone(sealed: Engine, database: str) -> None:
    """I11: an engine that does not know yet that the queue is encrypted learns it, and loses nobody's push."""
    import asyncio

    async with Engine.connect(database, keys=KeyRing([OLD])) as fresh:
        calls = [push(fresh, n, queue="q" if n % 2 else "plain") for n in range(20)]
        pushed = await asyncio.gather(*calls)
    assert [p.status for (p,) in pushed] == ["queued"] * 20
    assert sorted(numbers(await pop(sealed))) == list(range(1, 20, 2))


async def test_dead_letters_stay_sealed_and_come_back_readable(sealed: Engine, sql: Sql) -> None:
    await push(sealed, 1)
    await sealed.ack(acks(await pop(sealed), "dlq"))
    assert "encrypted" in await sql.fetchval("select payload from queen.dead_letter_queue")
    await sealed.dead_letters.redrive(Selection(queue="q"))
    assert numbers(await pop(sealed)) == [1]


@pytest.mark.parametrize("damage", ["{}", '"text"', '{"encrypted": "!", "iv": "!", "authTag": "!"}'])
def test_what_is_no_envelope_is_said_to_be_none(damage: str) -> None:
    with pytest.raises(errors.EncryptionUnavailable):
        KeyRing([OLD]).open(damage)


def test_a_changed_envelope_is_refused() -> None:
    ring = KeyRing([OLD])
    envelope = json.loads(ring.seal("1"))
    other = json.loads(ring.seal("2"))
    with pytest.raises(errors.EncryptionUnavailable):
        ring.open(json.dumps({**envelope, "authTag": other["authTag"]}))
