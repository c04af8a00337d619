"""Steps in a transaction of the store's database: what they write is there with their result, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from queen.durable import (
    ActivityFailed,
    RegistrationError,
    RetryPolicy,
    Worker,
    WorkflowCancelled,
    WorkflowClient,
    WorkflowContext,
    transaction,
    workflow,
)
from queen.durable.testing import eventually
from tests.durable.stores import Address

ENTERED: list[str] = []
GATES: list[asyncio.Event] = []  # the test's own: one belongs to the loop that first waited for it


@pytest.fixture(autouse=True)
def _fresh() -> None:
    ENTERED.clear()
    GATES[:] = [asyncio.Event()]


@pytest.fixture
async def tables(postgres_address: Address) -> Address:
    await postgres_address.execute(
        "create table accounts (name text primary key, cents integer check (cents >= 0) not null)"
    )
    await postgres_address.execute("create table notes (cents integer)")
    await postgres_address.execute("insert into accounts values ('a', 100), ('b', 0)")
    return postgres_address


@transaction
async def move(connection: asyncpg.Connection[Any], cents: int) -> int:
    await connection.execute("update accounts set cents = cents + $1 where name = 'b'", cents)
    await connection.execute("update accounts set cents = cents - $1 where name = 'a'", cents)
    left: int = await connection.fetchval("select cents from accounts where name = 'a'")
    return left


@transaction(name="note slowly")
async def note_slowly(connection: asyncpg.Connection[Any], cents: int) -> int:
    await connection.execute("insert into notes values ($1)", cents)
    ENTERED.append("noted")
    if len(ENTERED) == 1:
        await GATES[0].wait()
    return len(ENTERED)


@workflow
async def transfer(ctx: WorkflowContext, cents: int) -> str:
    try:
        return f"{await ctx.activity(move, cents, retry=RetryPolicy(max_attempts=2))} left"
    except ActivityFailed as failed:
        return failed.error_types[0]


@workflow
async def slow_transfer(ctx: WorkflowContext, cents: int) -> int:
    return await ctx.activity(note_slowly, cents)


async def cents(address: Address) -> dict[str, int]:
    return {row[0]: row[1] for row in await address.execute("select name, cents from accounts")}


async def test_the_rows_and_the_result_come_together(tables: Address) -> None:
    async with await tables.open() as provider, Worker(provider, workflows=[transfer], activities=[move]):
        client = WorkflowClient(provider)
        assert await (await client.start(transfer, 30)).result(20) == "70 left"
        assert await cents(tables) == {"a": 70, "b": 30}
        assert await (await client.start(transfer, 200)).result(20) == "CheckViolationError"
        assert await cents(tables) == {"a": 70, "b": 30}, "what it had written before it failed is undone"


async def test_many_at_once_are_not_in_each_others_way(tables: Address) -> None:
    async with await tables.open() as provider, Worker(provider, workflows=[transfer], activities=[move]):
        client = WorkflowClient(provider)
        handles = [await client.start(transfer, 1) for _ in range(40)]
        assert sorted([await each.result(30) for each in handles]) == sorted(f"{n} left" for n in range(60, 100))
    assert await cents(tables) == {"a": 60, "b": 40}


async def notes(address: Address) -> int:
    return len(await address.execute("select from notes"))


async def test_a_step_that_lost_its_lock_writes_nothing(tables: Address) -> None:
    """Another worker has taken it over: the first one's transaction must not be committed as well."""
    async with await tables.open() as provider:
        async with Worker(provider, workflows=[slow_transfer], activities=[note_slowly]) as worker:
            handle = await WorkflowClient(provider).start(slow_transfer, 10, id="s")
            await eventually(lambda: ENTERED == ["noted"])
            await tables.execute("update {}work_items set ready_at = 0")
            provider.wake()
            assert await handle.result(20) == 2, "whoever took it over has done it"
            GATES[0].set()
            await eventually(lambda: worker.is_idle)
        assert await notes(tables) == 1


async def test_a_cancelled_step_writes_nothing(tables: Address) -> None:
    async with await tables.open() as provider:
        async with Worker(provider, workflows=[slow_transfer], activities=[note_slowly]):
            handle = await WorkflowClient(provider).start(slow_transfer, 10, id="s")
            await eventually(lambda: ENTERED == ["noted"])
            await handle.cancel("enough")
            with pytest.raises(WorkflowCancelled):
                await handle.result(20)
        assert await notes(tables) == 0


async def test_sqlite_says_that_it_cannot(sqlite_address: Address) -> None:
    async with await sqlite_address.open() as provider, Worker(provider, workflows=[transfer], activities=[move]):
        refused = await (await WorkflowClient(provider).start(transfer, 30)).result(20)
        assert refused == "ProviderError"


def test_it_must_be_async() -> None:
    with pytest.raises(RegistrationError, match="transaction 'plain' must be an async def"):

        @transaction  # type: ignore[arg-type]
        def plain(connection: Any) -> int:
            return 1
