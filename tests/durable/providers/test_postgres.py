from __future__ import annotations

import asyncio

import asyncpg
import pytest

from queen.durable.model import TurnCommit
from queen.durable.provider import ProviderError
from queen.durable.providers.postgres.connection import Database
from queen.durable.providers.postgres.provider import PostgresProvider
from tests.durable.conformance.story import LOCK_MS, begin, completed, fetch, fetch_task, raised, scheduled, start, task
from tests.durable.stores import Address, parked
from tests.support.wait import eventually
from tests.support.work import WAITS_FOR_A_LOCK


async def sessions(address: Address, action: str = "count(*)") -> int:
    connection = await asyncpg.connect(address.where)
    try:
        found: int = await connection.fetchval(
            f"select {action} from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()
    return found


def is_listening(provider: PostgresProvider) -> bool:
    return provider._listener is not None and provider._listener.healthy


async def test_nothing_is_prepared_behind_a_pooler_and_work_is_still_found(postgres_address: Address) -> None:
    async with (
        await PostgresProvider.connect(postgres_address.where, pooler="transaction", pool_size=1) as provider,
        await PostgresProvider.connect(postgres_address.where) as other,
    ):
        waiting = asyncio.create_task(
            provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=10_000)
        )
        await parked(provider, 1)
        await other.enqueue_for_orchestrator(start("a"))
        async with asyncio.timeout(9):
            assert len(await waiting) == 1
        assert isinstance(provider._database, Database)
        async with provider._database._pool.acquire() as connection:
            prepared = await connection.fetchval("select count(*) from pg_prepared_statements where name <> ''")
        assert prepared == 0
        assert not is_listening(provider)


async def test_many_may_connect_to_an_empty_database_at_once(empty_database: str) -> None:
    providers = await asyncio.gather(*(PostgresProvider.connect(empty_database, pool_size=2) for _ in range(4)))
    try:
        await begin(providers[0], "a")
        assert [len(await provider.read("a")) for provider in providers] == [1, 1, 1, 1]
    finally:
        await asyncio.gather(*(provider.close() for provider in providers))


async def test_schemas_keep_tenants_apart(empty_database: str) -> None:
    async with (
        await PostgresProvider.connect(empty_database, schema="tenant_a") as first,
        await PostgresProvider.connect(empty_database, schema="tenant_b") as second,
    ):
        await begin(first, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
        assert await second.get_instance_info("a") is None
        waiting = asyncio.create_task(first.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=10_000))
        await first.ack_work_item((await fetch_task(first)).token, completed("a"))
        async with asyncio.timeout(5):
            assert len(await waiting) == 1
    connection = await asyncpg.connect(empty_database)
    schemas = await connection.fetch("select nspname from pg_namespace where nspname ~ '^(tenant|queen)' order by 1")
    await connection.close()
    assert [row[0] for row in schemas] == ["tenant_a", "tenant_b"]


@pytest.mark.parametrize("schema", ["", "Tenant", "a-b", "a.b", "a; drop schema public", "1a", "x" * 64])
async def test_a_schema_name_must_be_plain(schema: str) -> None:
    with pytest.raises(ProviderError, match="schema must be"):
        await PostgresProvider.connect("postgresql://nowhere", schema=schema)


async def test_a_server_that_is_not_there_is_worth_a_retry() -> None:
    with pytest.raises(ProviderError) as failure:
        await PostgresProvider.connect("postgresql://127.0.0.1:1/none")
    assert failure.value.retryable
    assert failure.value.operation == "connect"


async def test_broken_connections_are_worth_a_retry_and_replaced(postgres_address: Address) -> None:
    async with await PostgresProvider.connect(postgres_address.where, pool_size=2) as provider:
        await begin(provider, "a")
        await eventually(lambda: is_listening(provider))
        await sessions(postgres_address, "count(pg_terminate_backend(pid))")
        refusals: list[ProviderError] = []

        async def recovered() -> bool:
            try:
                await provider.enqueue_for_orchestrator(raised("a"))
            except ProviderError as error:
                refusals.append(error)
                return False
            return True

        await eventually(recovered)
        assert [str(error) for error in refusals if not error.retryable] == []
        assert (await fetch(provider)).instance == "a"
        await eventually(lambda: not is_listening(provider))
        await eventually(lambda: is_listening(provider))


async def test_a_listener_that_came_back_looks_at_once(postgres_address: Address) -> None:
    async with (
        await PostgresProvider.connect(postgres_address.where) as provider,
        await PostgresProvider.connect(postgres_address.where) as other,
    ):
        await eventually(lambda: is_listening(provider))
        waiting = asyncio.create_task(
            provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=20_000)
        )
        await parked(provider, 1)
        await other.enqueue_for_orchestrator(start("a"))
        async with asyncio.timeout(9):
            assert len(await waiting) == 1


async def test_turns_that_send_to_each_other_do_not_deadlock(postgres_address: Address) -> None:
    """Each turn locks its own instance and the receivers of its messages; all in one order."""
    async with (
        await PostgresProvider.connect(postgres_address.where) as first,
        await PostgresProvider.connect(postgres_address.where) as second,
    ):
        names = [f"i{number}" for number in range(8)]
        for name in names:
            await begin(first, name)

        async def rounds(provider: PostgresProvider) -> None:
            for _ in range(12):
                items = await provider.fetch_orchestration_items(lock_timeout_ms=30_000, limit=4)
                await asyncio.gather(
                    *(
                        provider.ack_orchestration_item(
                            item.token,
                            TurnCommit(execution_id=1, orchestrator_items=tuple(raised(name) for name in names[::-1])),
                        )
                        for item in items
                    )
                )

        for name in names:
            await first.enqueue_for_orchestrator(raised(name))
        await asyncio.gather(rounds(first), rounds(second))
    assert await deadlocks(postgres_address) == 0


async def deadlocks(address: Address) -> int:
    connection = await asyncpg.connect(address.where)
    try:
        return int(
            await connection.fetchval("select deadlocks from pg_stat_database where datname = current_database()")
        )
    finally:
        await connection.close()


async def test_turns_and_results_that_go_together_do_not_deadlock(postgres_address: Address) -> None:
    """One process commits a turn of `a` and a result for `b`, the other a turn of `b` and a result for `a`."""
    async with (
        await PostgresProvider.connect(postgres_address.where) as first,
        await PostgresProvider.connect(postgres_address.where) as second,
    ):
        for name in ("a", "b"):
            await begin(first, name)
        for number in range(2, 22):
            turns, results = {}, {}
            for name in ("a", "b"):
                await first.enqueue_for_orchestrator(raised(name))
                await first.enqueue_for_worker(task(name, number))
                turns[name] = await fetch(first)
                results[name] = await fetch_task(first)
            await asyncio.gather(
                first.ack_orchestration_item(turns["a"].token, TurnCommit(execution_id=1)),
                first.ack_work_item(results["b"].token, completed("b")),
                second.ack_orchestration_item(turns["b"].token, TurnCommit(execution_id=1)),
                second.ack_work_item(results["a"].token, completed("a")),
            )
            for _ in range(2):
                await first.ack_orchestration_item((await fetch(first)).token, TurnCommit(execution_id=1))
    assert await deadlocks(postgres_address) == 0


async def test_notices_are_few_however_much_is_sent(postgres_address: Address) -> None:
    heard: list[str] = []
    listener = await asyncpg.connect(postgres_address.where)
    await listener.add_listener("queen_durable", lambda *notice: heard.append(str(notice[3])))
    async with await PostgresProvider.connect(postgres_address.where) as provider:
        for number in range(300):
            await provider.enqueue_for_orchestrator(start(f"i{number}"))
    await eventually(lambda: len(heard) > 1)
    await listener.close()
    assert len(heard) < 100
    assert all(notice.split(" ")[1] == "o" for notice in heard)


async def test_a_sleeping_transaction_on_one_instance_does_not_hold_up_the_others(postgres_address: Address) -> None:
    async with await PostgresProvider.connect(postgres_address.where) as provider:
        for name in ("a", "b"):
            await begin(provider, name)
        for name in ("a", "b"):
            await provider.enqueue_for_orchestrator(raised(name))
        other = await asyncpg.connect(postgres_address.where)
        async with other.transaction():
            await other.execute("select from queen_durable.mailbox_keys where routing_key = 'a' for update")
            items = await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=5)
            assert [item.instance for item in items] == ["b"]
        await other.close()
        async with asyncio.timeout(9):
            [item] = await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=10_000)
        assert item.instance == "a"


async def test_an_ack_that_waits_for_somebody_holds_up_nobody_else(postgres_address: Address) -> None:
    async with await PostgresProvider.connect(postgres_address.where) as provider:
        for name in ("a", "b"):
            await begin(provider, name)
        for name in ("a", "b"):
            await provider.enqueue_for_orchestrator(raised(name))
        held, free = await provider.fetch_orchestration_items(lock_timeout_ms=30_000, limit=2)
        other = await asyncpg.connect(postgres_address.where)
        async with other.transaction():
            await other.execute(
                "select from queen_durable.mailbox_keys where routing_key = $1 for update", held.instance
            )
            stuck = asyncio.create_task(provider.ack_orchestration_item(held.token, TurnCommit(execution_id=1)))
            await eventually(lambda: other.fetchval(WAITS_FOR_A_LOCK))
            async with asyncio.timeout(20):
                await provider.ack_orchestration_item(free.token, TurnCommit(execution_id=1))
                await provider.enqueue_for_orchestrator(start("c"))
                assert (await fetch(provider)).instance == "c"
            assert not stuck.done()
        await other.close()
        async with asyncio.timeout(20):
            await stuck


async def test_a_turn_waits_for_the_disk_also_when_results_go_along(postgres_address: Address) -> None:
    """A power failure may undo results and locks, never a turn."""
    connection = await asyncpg.connect(postgres_address.where)
    await connection.execute(
        """
        create table waits (what text, setting text);
        create function note() returns trigger language plpgsql as
            'begin insert into waits values (tg_table_name, current_setting(''synchronous_commit'')); return null; end';
        create constraint trigger note after insert on queen_durable.history
            deferrable initially deferred for each row execute function note();
        create constraint trigger note after delete on queen_durable.work_items
            deferrable initially deferred for each row execute function note();
        """
    )
    async with await PostgresProvider.connect(postgres_address.where) as provider:
        await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
        await begin(provider, "b", [scheduled("b", 2)], worker_items=[task("b", 2)])
        await provider.ack_work_item((await fetch_task(provider)).token, completed("a"))
        assert await connection.fetchval("select setting from waits where what = 'work_items'") == "off"
        turn, result = await fetch(provider), await fetch_task(provider)
        await connection.execute("delete from waits")
        await asyncio.gather(
            provider.ack_work_item(result.token, completed("b")),
            provider.ack_orchestration_item(turn.token, TurnCommit(execution_id=1, history_delta=(scheduled("a", 3),))),
        )
        noted = await connection.fetch("select what, setting from waits order by 1")
        assert [tuple(row) for row in noted] == [("history", "on"), ("work_items", "on")]
    await connection.close()


async def test_what_was_looked_up_for_someone_who_has_gone_is_given_back(postgres_address: Address) -> None:
    async with await PostgresProvider.connect(postgres_address.where) as provider:
        await begin(provider, "a", [scheduled("a", 2)], worker_items=[task("a", 2)])
        await provider.enqueue_for_orchestrator(raised("a"))
        for pause in range(8):
            looks = [
                asyncio.create_task(provider.fetch_work_items(lock_timeout_ms=30_000)),
                asyncio.create_task(provider.fetch_orchestration_items(lock_timeout_ms=30_000)),
            ]
            await asyncio.sleep(pause * 0.001)
            for look in looks:
                look.cancel()
            found, items = await asyncio.gather(*looks, return_exceptions=True)
            if isinstance(found, list):
                await provider.abandon_work_item(found[0].token, ignore_attempt=True)
            if isinstance(items, list):
                await provider.abandon_orchestration_item(items[0].token, ignore_attempt=True)
        assert (await fetch_task(provider)).attempt == 1
        assert (await fetch(provider)).attempt == 1
