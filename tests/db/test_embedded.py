from __future__ import annotations

import asyncpg


async def test_a_test_database_answers(database: str) -> None:
    connection = await asyncpg.connect(database)
    assert await connection.fetchval("select 1") == 1
    await connection.close()


async def test_an_empty_database_answers(empty_database: str) -> None:
    connection = await asyncpg.connect(empty_database)
    assert await connection.fetchval("select 1") == 1
    await connection.close()
