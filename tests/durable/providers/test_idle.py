"""Ten thousand waiting instances cost next to nothing, and finding work among them stays cheap."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from queen.durable.model import ActivityKey, TurnCommit
from queen.durable.provider import Provider
from queen.durable.providers.postgres.provider import PostgresProvider
from queen.durable.providers.sqlite.provider import SqliteProvider
from tests.durable.conformance.story import (
    LOCK_MS,
    begin,
    completed,
    fetch,
    fetch_task,
    key_set,
    raised,
    scheduled,
    status_set,
    task,
    told,
)
from tests.durable.stores import Address
from tests.support.wait import eventually

WAITING = 10_000
SECONDS = 6.0


async def fill(address: Address, due: int) -> None:
    """Half wait for a timer, half for an event."""
    numbers = "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 10000)"
    await address.execute(
        f"insert into {{}}instances (instance, name, version, current_execution_id, created_at, updated_at) {numbers}"
        " select 'w' || n, 'Flow', '1.0.0', 1, 1, 1 from numbers"
    )
    await address.execute(
        f"insert into {{}}executions (instance, execution_id, started_at) {numbers} select 'w' || n, 1, 1 from numbers"
    )
    await address.execute(
        f"insert into {{}}mailbox_keys (queue, routing_key, ready_at) {numbers} select 'orchestrator', 'w' || n,"
        f" case when n % 2 = 0 then {due} + n end from numbers"
    )
    await address.execute(
        "insert into {}mailbox_messages (queue, routing_key, kind, body, order_at, visible_at) select 'orchestrator',"
        f" routing_key, 'TimerFiredMessage', ?, {due}, ready_at from {{}}mailbox_keys where ready_at is not null",
        b"{}",
    )


class Meter:
    """Statements a provider runs and the processor time of this process."""

    def __init__(self) -> None:
        self.statements = 0
        self._cpu = 0.0

    async def attach(self, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
        if isinstance(provider, SqliteProvider):
            await provider._database.read("meter", lambda store: store.connection.set_trace_callback(self.count))
        elif isinstance(provider, PostgresProvider):
            await eventually(lambda: provider._listener is not None and provider._listener.healthy)
            call = provider._database.call

            async def counted(operation: str, statement: str, *parameters: Any) -> list[Any]:
                self.count(statement)
                return await call(operation, statement, *parameters)

            monkeypatch.setattr(provider._database, "call", counted)
        self.statements = 0
        self._cpu = time.process_time()

    def count(self, _: str) -> None:
        self.statements += 1

    @property
    def cpu(self) -> float:
        return time.process_time() - self._cpu


@pytest.fixture
async def busy(address: Address) -> AsyncIterator[Provider]:
    async with await address.open() as provider:
        await fill(address, provider.now_ms() + 3_600_000)
        yield provider


@pytest.mark.measure
async def test_waiting_costs_next_to_nothing(busy: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [
        asyncio.create_task(busy.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=60_000, limit=8)),
        asyncio.create_task(busy.fetch_work_items(lock_timeout_ms=LOCK_MS, poll_timeout_ms=60_000, limit=8)),
    ]
    await asyncio.sleep(0.5)
    meter = Meter()
    await meter.attach(busy, monkeypatch)
    await asyncio.sleep(SECONDS)
    statements, cpu = meter.statements, meter.cpu
    await busy.close()
    assert await asyncio.gather(*waits) == [[], []]
    assert statements <= 2 * SECONDS
    assert cpu < 0.01 * SECONDS


KNOWN = """'{"",Flow,Flow@1.0.0}', null, 'me'"""
ITEMS = "select * from queen_durable.fetch_orchestrations"
FETCHES = {
    "fetch_orchestrations": f"{ITEMS}((4, 1000, null, null, {KNOWN}), null, true)",
    "fetch_filtered": f"{ITEMS}((4, 1000, '{{1}}', '{{2}}', {KNOWN}), null, true)",
    "fetch_work_items": "select * from queen_durable.fetch_work_items("
    "(4, 1000, '{act,other}', null, '{gpu,eu}', 'me', 1000, 5), null, true)",
}


@pytest.mark.parametrize("fetching", FETCHES)
async def test_a_fetch_among_thousands_reads_a_handful_of_rows(postgres_address: Address, fetching: str) -> None:
    """Also with plans made for tables nobody has counted yet."""
    async with await postgres_address.open() as provider:
        await fill(postgres_address, provider.now_ms() + 3_600_000)
        await begin(provider, "a")
        await provider.enqueue_for_orchestrator(raised("a"))
    await postgres_address.execute(
        "insert into {}work_items (instance, execution_id, activity_id, name, body, ready_at)"
        " select 'w', 1, n, 'act', '{{}}', n from generate_series(1, 10000) as n"
    )
    connection = await asyncpg.connect(postgres_address.where)
    async with connection.transaction():
        await connection.fetch(FETCHES[fetching])
        read = await connection.fetch(
            "select relname, coalesce(idx_tup_fetch, 0) + seq_tup_read from pg_stat_xact_user_tables"
            " where schemaname = 'queen_durable' and coalesce(idx_tup_fetch, 0) + seq_tup_read > 20"
        )
    await connection.close()
    assert read == []


async def test_a_whole_turn_among_thousands_reads_few_rows(postgres_address: Address) -> None:
    async with await PostgresProvider.connect(postgres_address.where, pool_size=1) as provider:
        await fill(postgres_address, provider.now_ms() + 3_600_000)
        await provider._database.value("test", "next_due")
        before = await rows_read(postgres_address)
        await begin(provider, "a", [scheduled("a", 2), scheduled("a", 3)], worker_items=[task("a", 2), task("a", 3)])
        found = await fetch_task(provider, names=("act",))
        await provider.ack_work_item(found.token, completed("a"))
        item = await fetch(provider, handlers=("Flow@1.0.0",))
        commit = TurnCommit(
            execution_id=1,
            history_delta=(status_set("a", 4, "1"), key_set("a", 5, "k", "v")),
            cancelled_activities=(ActivityKey("a", 1, 3),),
            orchestrator_items=(raised("w3"), raised("a")),
            metadata=told(status="ContinuedAsNew"),
        )
        await provider.ack_orchestration_item(item.token, commit)
        again = await provider.fetch_orchestration_items(lock_timeout_ms=LOCK_MS, limit=2, handlers=("Flow@1.0.0",))
        await provider.abandon_orchestration_item(again[0].token)
        await provider.renew_orchestration_item_lock(again[1].token, 1_000)
    assert await rows_read(postgres_address) - before < 500


async def rows_read(address: Address) -> int:
    await address.execute("select pg_stat_force_next_flush()")
    [row] = await address.execute(
        "select sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::bigint from pg_stat_user_tables"
        " where schemaname = 'queen_durable'"
    )
    return int(row[0])


class Steps:
    """The instructions SQLite takes, by hundreds."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        return 0


async def steps_of_turns(provider: SqliteProvider, instance: str) -> int:
    """What it costs to find one instance that has work, by instructions: a clock would tell of the machine."""
    await begin(provider, instance)
    steps = Steps()
    await provider._database.read("meter", lambda store: store.connection.set_progress_handler(steps, 100))
    for _ in range(20):
        await provider.enqueue_for_orchestrator(raised(instance))
        item = await fetch(provider)
        assert item.instance == instance
        await provider.ack_orchestration_item(item.token, TurnCommit(execution_id=1))
    return steps.count


async def test_finding_work_among_ten_thousand_costs_what_it_does_among_none(sqlite_address: Address) -> None:
    """The same for PostgreSQL is shown by the rows a fetch reads."""
    async with await sqlite_address.open() as provider:
        assert isinstance(provider, SqliteProvider)
        alone = await steps_of_turns(provider, "a")
        assert alone > 0
    await fill(sqlite_address, time.time_ns() // 1_000_000 + 3_600_000)
    async with await sqlite_address.open() as provider:
        assert isinstance(provider, SqliteProvider)
        assert await steps_of_turns(provider, "b") <= 2 * alone + 10


@pytest.mark.measure
async def test_a_thousand_timers_due_at_once_are_handed_out_within_seconds(busy: Provider, address: Address) -> None:
    await address.execute(
        "update {}mailbox_messages set visible_at = 1 where id in"
        " (select id from {}mailbox_messages order by id limit 1000)"
    )
    await address.execute(
        "update {}mailbox_keys set ready_at = 1 where queue = 'orchestrator' and routing_key in"
        " (select routing_key from {}mailbox_messages where visible_at = 1)"
    )
    began = time.monotonic()
    started = 0
    while items := await busy.fetch_orchestration_items(lock_timeout_ms=60_000, limit=16):
        started += len(items)
        commits = [TurnCommit(execution_id=1, dead_letters=item.undecodable) for item in items]
        await asyncio.gather(
            *(busy.ack_orchestration_item(item.token, commit) for item, commit in zip(items, commits, strict=True))
        )
    assert started == 1_000
    assert time.monotonic() - began < 5


async def test_the_next_timer_is_found_among_thousands(address: Address) -> None:
    """Half of them have one, each a millisecond after the one before."""
    async with await address.open() as provider:
        first = provider.now_ms() + 3_600_000
        await fill(address, first)
        assert await provider.next_due_ms() == first + 2
