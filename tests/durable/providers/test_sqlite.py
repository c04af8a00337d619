from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from queen.durable.model import TurnCommit
from queen.durable.provider import ProviderError
from queen.durable.providers.sqlite.database import Database
from queen.durable.providers.sqlite.provider import SqliteProvider
from queen.durable.providers.sqlite.statements import Statements
from queen.durable.providers.wake import system_clock
from tests.durable.conformance.story import begin, fetch, raised, start, started, told
from tests.durable.stores import Address
from tests.support.tree import ROOT


class Spy:
    """A database whose thread can be held up, so that operations gather behind it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.commits = 0

    def commit_seen(self, statement: str) -> None:
        self.commits += statement.strip().endswith("commit")


async def watched(path: Path) -> Spy:
    database = await Database.open(str(path), system_clock)
    spy = Spy(database)
    await database.read("watch", lambda store: store.connection.set_trace_callback(spy.commit_seen))
    return spy


def put(key: str) -> Callable[[Statements], int]:
    def work(store: Statements) -> int:
        return store.change("remember_dedup", instance=key, dedup_id="x")

    return work


async def test_operations_that_wait_together_share_a_commit(tmp_path: Path) -> None:
    spy = await watched(tmp_path / "a.db")
    before = spy.commits
    await asyncio.gather(*(spy.database.write("put", put(f"k{number}")) for number in range(100)))
    assert spy.commits - before <= 10
    await spy.database.close()


async def test_an_operation_that_fails_leaves_the_others_of_its_commit_alone(tmp_path: Path) -> None:
    database = await Database.open(str(tmp_path / "a.db"), system_clock)

    def fail(store: Statements) -> int:
        store.change("remember_dedup", instance="half", dedup_id="x")
        raise ProviderError("fail", "on purpose")

    works = [put("a"), fail, put("b"), put("c")]
    outcomes = await asyncio.gather(
        *(database.write("work", work) for work in works),
        return_exceptions=True,
    )
    assert [isinstance(outcome, ProviderError) for outcome in outcomes] == [False, True, False, False]
    await database.close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        rows = connection.execute("select instance from mailbox_dedup order by instance").fetchall()
    connection.close()
    assert rows == [("a",), ("b",), ("c",)]


async def test_an_unexpected_error_is_told_and_the_thread_lives_on(tmp_path: Path) -> None:
    database = await Database.open(str(tmp_path / "a.db"), system_clock)

    def broken(_: Statements) -> int:
        raise ZeroDivisionError("oops")

    with pytest.raises(ProviderError, match="ZeroDivisionError: oops"):
        await database.write("broken", broken)
    assert await database.write("put", put("a")) == 1
    await database.close()


async def test_a_busy_file_is_worth_a_retry(tmp_path: Path) -> None:
    database = await Database.open(str(tmp_path / "a.db"), system_clock)
    await database.read("impatient", lambda store: store.connection.execute("pragma busy_timeout = 50"))
    blocker = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    blocker.execute("begin immediate")
    with pytest.raises(ProviderError) as failure:
        await database.write("put", put("a"))
    assert failure.value.retryable
    assert failure.value.code == "unavailable"
    blocker.execute("rollback")
    blocker.close()
    assert await database.write("put", put("a")) == 1
    await database.close()


@pytest.mark.parametrize("form", ["{}", "sqlite:{}", "sqlite://{}", "sqlite://{}?mode=rwc"])
async def test_a_file_is_named_by_path_or_url(tmp_path: Path, form: str) -> None:
    path = tmp_path / "made.db"
    async with await SqliteProvider.open(form.format(path)) as provider:
        await begin(provider, "a")
    assert path.exists()
    async with await SqliteProvider.open(path) as provider:
        assert len(await provider.read("a")) == 1


async def test_a_file_that_cannot_be_opened_is_a_provider_error(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="open"):
        await SqliteProvider.open(tmp_path / "no" / "such" / "folder.db")


async def test_memory_is_gone_with_the_object() -> None:
    for _ in range(2):
        async with await SqliteProvider.in_memory() as provider:
            assert await provider.get_instance_info("a") is None
            await begin(provider, "a")


def test_many_processes_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from queen.durable.providers.sqlite.provider import SqliteProvider\n"
        "async def main():\n"
        "    async with await SqliteProvider.open(sys.argv[1]) as provider:\n"
        "        await provider.get_system_metrics()\n"
        "asyncio.run(main())\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path / "new.db"], cwd=ROOT, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    assert [process.communicate(timeout=60)[1] for process in processes] == [b""] * 4


async def test_an_acked_turn_survives_a_process_that_is_killed(sqlite_address: Address) -> None:
    code = (
        "import asyncio, os, signal, sys\n"
        "from tests.durable.conformance.story import begin\n"
        "from tests.durable.stores import Address\n"
        "async def main():\n"
        "    provider = await Address('sqlite', sys.argv[1]).open()\n"
        "    await begin(provider, 'a')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code, sqlite_address.where], cwd=ROOT, timeout=60, check=False
    )
    assert killed.returncode == -9
    async with await sqlite_address.open() as provider:
        assert len(await provider.read("a")) == 1


async def test_a_turn_waits_for_the_disk_and_a_fetch_does_not(tmp_path: Path) -> None:
    async with await SqliteProvider.open(tmp_path / "a.db") as provider:
        levels: list[int] = []

        async def level() -> int:
            return await provider._database.read(
                "level", lambda store: store.connection.execute("pragma synchronous").fetchone()[0]
            )

        await provider.enqueue_for_orchestrator(start("a"))
        levels.append(await level())
        item = await fetch(provider)
        levels.append(await level())
        commit = TurnCommit(execution_id=1, history_delta=(started("a"),), metadata=told())
        await provider.ack_orchestration_item(item.token, commit)
        levels.append(await level())
        await provider.enqueue_for_orchestrator(raised("a"))
        assert levels == [2, 1, 2]
