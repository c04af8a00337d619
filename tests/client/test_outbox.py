from __future__ import annotations

import asyncio

import asyncpg
import psycopg
import pytest

import queen
from queen.testing import drain


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
        with pytest.raises(queen.InvalidRequest, match="transaction_id must have"):
            await direct.push("small", 2, transaction_id="x" * 300, connection=other)
    finally:
        await other.close()
    with pytest.raises(queen.InvalidRequest, match="asyncpg or psycopg"):
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
