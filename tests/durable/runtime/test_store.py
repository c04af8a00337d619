"""What a worker asks of its store, and keeps of it in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from queen.durable import (
    ActivityContext,
    Provider,
    Worker,
    WorkerSettings,
    WorkflowClient,
    WorkflowContext,
    WorkflowFailed,
    activity,
    open_provider,
    workflow,
)
from queen.durable.testing import eventually
from tests.durable.stores import Address

runs: list[str] = []


@pytest.fixture(autouse=True)
def fresh_runs() -> None:
    runs.clear()


@activity
async def attempt_of(ctx: ActivityContext, number: int) -> tuple[int, int]:
    return number, ctx.attempt


@activity
async def other_attempt_of(ctx: ActivityContext, number: int) -> tuple[int, int]:
    return -number, ctx.attempt


@workflow
async def takes(ctx: WorkflowContext, count: int) -> list[int]:
    return [await ctx.receive("numbers", int) for _ in range(count)]


@workflow
async def steps(ctx: WorkflowContext, count: int) -> int:
    runs.append(ctx.instance_id)
    total = 0
    for number in range(count):
        total += (await ctx.activity(attempt_of, number))[0]
    return total


@workflow
async def both(ctx: WorkflowContext, number: int) -> list[list[int]]:
    return [list(await ctx.activity(attempt_of, number)), list(await ctx.activity(other_attempt_of, number))]


@workflow
async def steps_and_signals(ctx: WorkflowContext, count: int) -> list[int]:
    runs.append(ctx.instance_id)
    seen = []
    for number in range(count):
        seen.append(await ctx.receive("numbers", int))
        seen.append((await ctx.activity(attempt_of, number))[0])
    return seen


async def test_signals_wait_for_an_instance_that_is_started_later(provider: Provider) -> None:
    client = WorkflowClient(provider)
    async with Worker(provider, workflows=[takes]) as worker:
        handle = client.handle(takes, "late")
        for number in range(3):
            await handle.send("numbers", number)
        await provider.wait_for_change("late", timeout_ms=300)
        assert worker.counters.orch_dispatcher_items_fetched == 0
        await client.start(takes, 3, id="late")
        assert await handle.result(10) == [0, 1, 2]


async def test_workers_with_different_code_leave_each_others_work_alone(provider: Provider) -> None:
    client = WorkflowClient(provider)
    async with (
        Worker(provider, workflows=[both]) as turns,
        Worker(provider, workflows=[takes]) as other_turns,
        Worker(provider, activities=[attempt_of]) as one,
        Worker(provider, activities=[other_attempt_of]) as other,
    ):
        handles = [await client.start(both, number) for number in range(20)]
        assert [await handle.result(20) for handle in handles] == [[[n, 1], [-n, 1]] for n in range(20)]
        fetched = [each.counters.worker_dispatcher_items_fetched for each in (one, other)]
        assert fetched == [20, 20]
        assert other_turns.counters.orch_dispatcher_items_fetched == 0
        assert turns.counters.provider_errors == 0


async def test_a_worker_keeps_the_instances_it_works_on(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Any] = []
    read = provider.read_history_after

    async def counted(*arguments: Any) -> Any:
        reads.append(arguments)
        return await read(*arguments)

    monkeypatch.setattr(provider, "read_history_after", counted)
    async with Worker(provider, workflows=[steps], activities=[attempt_of]):
        assert await (await WorkflowClient(provider).start(steps, 150)).result(30) == sum(range(150))
    assert len(runs) == 1, "the code ran once, not once per turn"
    assert reads == []


async def test_without_memory_the_code_is_replayed(provider: Provider) -> None:
    settings = WorkerSettings(sticky_instances=0)
    async with Worker(provider, workflows=[steps], activities=[attempt_of], settings=settings):
        assert await (await WorkflowClient(provider).start(steps, 60)).result(30) == sum(range(60))
    assert len(runs) > 30


async def test_instances_move_between_workers_that_keep_them(store_url: str) -> None:
    """Turns of an instance go from one worker to the other and back, with memories that are behind."""
    expected = [value for number in range(40) for value in (number * 10, number)]
    async with await open_provider(store_url) as one, await open_provider(store_url) as two:
        client = WorkflowClient(one)
        handles = [await client.start(steps_and_signals, 40, id=f"i{n}") for n in range(3)]
        small = WorkerSettings(sticky_instances=2)
        async with (
            Worker(one, workflows=[steps_and_signals], settings=small) as first,
            Worker(two, workflows=[steps_and_signals], activities=[attempt_of]) as second,
        ):
            for number in range(40):
                for handle in handles:
                    await handle.send("numbers", number * 10)
            assert [await handle.result(40) for handle in handles] == [expected] * 3
            assert len(first._core._turns.sticky) <= 2
            turns = [each.counters.orch_dispatcher_items_fetched for each in (first, second)]
    assert min(turns) > 0, "both took part"
    assert len(runs) < sum(turns), "memories were used"


async def test_a_restarted_instance_is_not_taken_for_the_one_in_memory(provider: Provider) -> None:
    client = WorkflowClient(provider)
    async with Worker(provider, workflows=[takes]):
        handle = await client.start(takes, 3, id="again")
        await handle.send("numbers", 1)
        await eventually(lambda: _has_events(provider, "again", 3))
        await provider.delete_instance("again", force=True)
        handle = await client.start(takes, 2, id="again")
        await handle.send("numbers", 2)
        await handle.send("numbers", 3)
        assert await handle.result(10) == [2, 3]


async def _has_events(provider: Provider, instance: str, count: int) -> bool:
    return len(await provider.read(instance)) >= count


async def test_instances_that_ended_are_deleted_after_their_retention(provider: Provider) -> None:
    brief = WorkerSettings(retention_ms=100, housekeeping_ms=20)
    client = WorkflowClient(provider)
    async with Worker(provider, workflows=[takes], settings=brief):
        await client.start(takes, 1, id="waits")
        await (await client.start(takes, 0, id="ends")).result(10)
        await eventually(lambda: _is_gone(provider, "ends"))
        await client.handle(takes, "waits").send("numbers", 1)
        await eventually(lambda: _is_gone(provider, "waits"))


async def _is_gone(provider: Provider, instance: str) -> bool:
    return await provider.get_instance_info(instance) is None and await provider.read(instance) == []


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, BaseException])
async def test_a_turn_that_ends_in_any_error_is_neither_repeated_hotly_nor_for_ever(
    provider: Provider, error: type[BaseException]
) -> None:
    @workflow
    async def breaks(ctx: WorkflowContext) -> None:
        runs.append("x")
        raise error

    quick = WorkerSettings(max_attempts=3, unregistered_backoff_ms=20, unregistered_backoff_cap_ms=40)
    async with Worker(provider, workflows=[breaks], settings=quick):
        with pytest.raises(WorkflowFailed):
            await (await WorkflowClient(provider).start(breaks)).result(10)
    assert len(runs) <= 4


async def test_a_timer_nobody_waits_for_leaves_no_row(provider: Provider) -> None:
    @workflow
    async def waits(ctx: WorkflowContext) -> str:
        winner = await ctx.race(ctx.sleep(timedelta(hours=1)), ctx.event("go"))
        await ctx.event("end")
        return str(winner.index)

    client = WorkflowClient(provider)
    async with Worker(provider, workflows=[waits]):
        handle = await client.start(waits)
        await eventually(lambda: _has_events(provider, handle.id, 3))
        assert (await provider.get_queue_depths()).orchestrator == 1
        await handle.raise_event("go", None)
        await eventually(lambda: _is_empty(provider))
        await handle.raise_event("end", None)
        assert await handle.result(10) == "1"


async def _is_empty(provider: Provider) -> bool:
    return (await provider.get_queue_depths()).orchestrator == 0


async def test_postgres_timers_go_by_the_clock_of_the_server(
    postgres_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + 3_600_000_000_000)

    @workflow
    async def naps(ctx: WorkflowContext) -> None:
        await ctx.sleep(timedelta(milliseconds=200))

    async with await postgres_address.open() as provider, Worker(provider, workflows=[naps]):
        assert abs(provider.now_ms() - true_ns() // 1_000_000) < 60_000
        handle = await WorkflowClient(provider).start(naps)
        await handle.result(10)
        history = await provider.read(handle.id)
    assert abs(history[0].timestamp_ms - true_ns() // 1_000_000) < 60_000


UNCLOSED = """
    import asyncio
    import sys
    from queen.durable import Worker, WorkflowClient, WorkflowContext, open_provider, workflow

    @workflow
    async def one(ctx: WorkflowContext) -> int:
        return 1

    async def main() -> None:
        provider = await open_provider(sys.argv[1])
        worker = Worker(provider, workflows=[one])
        if sys.argv[2] == "worker":
            await worker.start()
        await asyncio.sleep(0.3)

    if sys.argv[3] == "run":
        asyncio.run(main())
    else:
        asyncio.new_event_loop().run_until_complete(main())
"""


# A worker whose loop is thrown away has running tasks, which asyncio itself reports.
@pytest.mark.parametrize(("who", "ending"), [("provider", "run"), ("provider", "loop"), ("worker", "run")])
async def test_a_program_that_closes_nothing_ends_without_a_traceback(store_url: str, who: str, ending: str) -> None:
    program = [sys.executable, "-c", textwrap.dedent(UNCLOSED), store_url, who, ending]
    ended = await asyncio.to_thread(subprocess.run, program, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


async def test_a_workflow_is_started_in_the_transaction_of_ones_own_rows(postgres_address: Address) -> None:
    """Both are there or neither; a worker that waits is told when the transaction commits."""
    connection = await asyncpg.connect(postgres_address.where)
    await connection.execute("create table orders (id integer primary key)")
    start = "select queen_durable.start_workflow($1, 'steps', $2::jsonb, p_dedup_id => $3)"
    async with await postgres_address.open() as provider:
        client = WorkflowClient(provider)
        async with Worker(provider, workflows=[steps], activities=[attempt_of]):
            undone = connection.transaction()
            await undone.start()
            await connection.execute("insert into orders values (1)")
            assert await connection.fetchval(start, "order-1", "[3]", None)
            await undone.rollback()
            async with connection.transaction():
                await connection.execute("insert into orders values (2)")
                assert await connection.fetchval(start, "order-2", "[4]", "once")
                assert not await connection.fetchval(start, "order-2", "[4]", "once")
            assert await client.handle(steps, "order-2").result(10) == 6
        assert await provider.get_instance_info("order-1") is None
        assert [row[0] for row in await connection.fetch("select id from orders")] == [2]
        for wrong in ("null", '{"a": 1}'):
            with pytest.raises(asyncpg.PostgresError, match="must be a JSON list"):
                await connection.fetchval(start, "order-3", wrong, None)
    await connection.close()


@activity
async def until_cancelled(ctx: ActivityContext) -> None:
    HEARD.append("begun")
    try:
        await asyncio.sleep(60)
    finally:
        HEARD.append("cancelled")


@workflow
async def long_one(ctx: WorkflowContext) -> None:
    await ctx.activity(until_cancelled)


@workflow
async def short_of_patience(ctx: WorkflowContext) -> None:
    await ctx.race(ctx.activity(until_cancelled), ctx.event("enough"))


HEARD: list[str] = []


@pytest.mark.parametrize("how", ["cancelled", "dropped"])
async def test_an_activity_elsewhere_is_told_at_once_that_it_is_cancelled(postgres_address: Address, how: str) -> None:
    """Its lock is renewed every 25 s only: it is a notice that tells it."""
    HEARD.clear()
    async with (
        await postgres_address.open() as one,
        await postgres_address.open() as other,
        Worker(one, workflows=[long_one, short_of_patience]),
        Worker(other, activities=[until_cancelled]),
    ):
        handle = await WorkflowClient(one).start(long_one if how == "cancelled" else short_of_patience, id="l")
        await eventually(lambda: HEARD == ["begun"])
        await (handle.cancel() if how == "cancelled" else handle.raise_event("enough"))
        await eventually(lambda: HEARD == ["begun", "cancelled"], within=8)
