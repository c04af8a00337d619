from __future__ import annotations

import asyncio
import random

import asyncpg
import django.db
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext import asyncio as alchemy

import queen
from queen.testing import drain
from tests.client import outboxes


async def test_with_asyncpg_a_row_and_a_push_commit_or_roll_back_together(database: str, direct: queen.Client) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("create table orders (id integer primary key)")

        async def order(number: int, *, fail: bool) -> None:
            async with connection.transaction():
                await connection.execute("insert into orders values ($1)", number)
                await direct.push("orders", {"order": number}, partition="acme", connection=connection)
                if fail:
                    raise ArithmeticError

        with pytest.raises(ArithmeticError):
            await order(1, fail=True)
        assert await connection.fetchval("select count(*) from orders") == 0
        assert await drain(direct, "orders") == []
        await order(2, fail=False)
        assert await connection.fetchval("select count(*) from orders") == 1
        assert [message.data for message in await drain(direct, "orders")] == [{"order": 2}]
    finally:
        await connection.close()


async def test_with_psycopg_a_row_and_a_push_commit_or_roll_back_together(database: str, direct: queen.Client) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await connection.execute("create table orders (id integer primary key)")
        await connection.commit()
        await connection.execute("insert into orders values (1)")
        await direct.push("orders", {"order": 1}, connection=connection)
        await connection.rollback()
        assert await drain(direct, "orders") == []
        await connection.execute("insert into orders values (2)")
        made = await direct.push("orders", {"order": 2}, transaction_id="o-2", connection=connection)
        assert await direct.pop("orders") == []
        await connection.commit()
        (message,) = await drain(direct, "orders")
        assert (message.id, message.data, message.transaction_id) == (made, {"order": 2}, "o-2")


def test_with_a_synchronous_connection_and_client(database: str) -> None:
    with queen.connect_sync(database) as q, psycopg.connect(database) as connection:
        q.push("orders", 1, connection=connection)
        connection.rollback()
        q.push("orders", 2, connection=connection)
        connection.commit()
        assert [message.data for message in q.pop("orders", batch=9)] == [2]


async def test_a_push_on_a_connection_wakes_a_waiting_pop(database: str, direct: queen.Client) -> None:
    await direct.push("orders", "first")
    await drain(direct, "orders")
    waiting = asyncio.create_task(direct.pop("orders", wait=20))
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await direct.push("orders", "second", connection=connection)
    assert [message.data for message in await waiting] == ["second"]


async def test_refusals_are_queens_own(database: str, direct: queen.Client) -> None:
    await direct.queues.configure("small", max_queue_size=1)
    async with await psycopg.AsyncConnection.connect(database) as connection:
        await direct.push("small", 1, connection=connection)
        with pytest.raises(queen.QueueFull) as caught:
            await direct.push("small", 2, connection=connection)
        assert caught.value.figures["limit"] == 1
    other = await asyncpg.connect(database)
    try:
        async with other.transaction():
            with pytest.raises(queen.InvalidRequest, match="transaction_id must have"):
                await direct.push("small", 2, transaction_id="x" * 300, connection=other)
    finally:
        await other.close()
    with pytest.raises(queen.InvalidRequest, match="asyncpg, psycopg, SQLAlchemy or Django"):
        await direct.push("small", 1, connection=object())


async def test_an_encrypted_queue_takes_sealed_payloads_from_a_transaction(database: str) -> None:
    async with queen.connect(database, encryption_keys=["ab" * 32]) as q:
        await q.queues.configure("secret", encryption_enabled=True)
        async with await psycopg.AsyncConnection.connect(database) as connection:
            await q.push("secret", {"card": 1}, connection=connection)
            await connection.commit()
            cursor = await connection.execute("select payload::text from queen.messages")
            assert "card" not in str(await cursor.fetchone())
        assert [message.data for message in await drain(q, "secret")] == [{"card": 1}]
    async with queen.connect(database, encryption_keys=[]) as q:
        await q.groups.seek("secret", to="start")
        (message,) = await q.pop("secret")
        with pytest.raises(queen.DecodeError, match="decrypt"):
            _ = message.data


async def test_a_broker_cannot_take_part_in_a_transaction_of_ours() -> None:
    async with queen.connect("http://127.0.0.1:1") as q:
        with pytest.raises(queen.InvalidRequest, match="needs a client on the database itself"):
            await q.push("orders", 1, connection=object())


@pytest.mark.parametrize("kind", outboxes.KINDS)
async def test_a_message_is_there_exactly_when_the_row_is(kind: str, database: str, direct: queen.Client) -> None:
    chance = random.Random(kind)
    await direct.queues.configure("orders", lease_time=300)
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("create table orders (id integer primary key)")
        async with outboxes.KINDS[kind](database, direct) as begin:
            for number in range(200):
                steps = [("push", number), ("insert", number)] + [("push", 1000 + number)] * chance.randrange(2)
                chance.shuffle(steps)
                commit = chance.random() < 0.5
                if not commit:
                    steps = steps[: chance.randrange(1, len(steps) + 1)]
                await outboxes.transact(begin, steps, commit=commit)
        rows = {row["id"] for row in await connection.fetch("select id from orders")}
        pushed = [message.data for message in await drain(direct, "orders")]
        assert {number for number in pushed if number < 1000} == rows
        assert {number - 1000 for number in pushed if number >= 1000} <= rows
        assert len(pushed) == len(set(pushed))
        assert 50 < len(rows) < 150
    finally:
        await connection.close()


async def test_a_connection_that_is_in_no_transaction_is_refused(database: str, direct: queen.Client) -> None:
    url = outboxes.sqlalchemy_url(database, "psycopg")
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    over_asyncpg = alchemy.create_async_engine(
        outboxes.sqlalchemy_url(database, "asyncpg"), isolation_level="AUTOCOMMIT"
    )
    plain = await asyncpg.connect(database)
    outboxes.configure_django(database)
    try:
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as autocommit:
            with engine.connect() as connection:
                async with over_asyncpg.connect() as asynchronous:
                    for refused in (plain, autocommit, connection, asynchronous, django.db.connection):
                        with pytest.raises(queen.InvalidRequest, match="must be in a transaction") as caught:
                            await direct.push("orders", 1, connection=refused)
                        assert caught.value.field == "connection"
            async with autocommit.transaction():
                await direct.push("orders", 2, connection=autocommit)
    finally:
        await plain.close()
        engine.dispose()
        await over_asyncpg.dispose()
    assert [message.data for message in await drain(direct, "orders")] == [2]


async def test_refusals_are_queens_own_through_sqlalchemy(database: str, direct: queen.Client) -> None:
    await direct.queues.configure("small", max_queue_size=1)
    await direct.push("small", 1)
    for driver in ("psycopg", "asyncpg"):
        engine = alchemy.create_async_engine(outboxes.sqlalchemy_url(database, driver))
        async with alchemy.AsyncSession(engine) as session:
            with pytest.raises(queen.QueueFull) as caught:
                await direct.push("small", 2, connection=session)
        assert caught.value.figures["limit"] == 1
        await engine.dispose()
