from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import queen
from queen.testing import Clock, TestServer, drain, drain_sync
from tests.support.wait import eventually

SAMPLE = """
import time
from datetime import UTC, datetime, timedelta

import queen
from queen.testing import drain, drain_sync

async def test_typed(queen_client: queen.Client) -> None:
    await queen_client.push("orders", {"id": 1})
    assert [message.data for message in await drain(queen_client, "orders")] == [{"id": 1}]

async def test_it_is_empty_again(queen_client) -> None:
    assert await queen_client.queues.list() == []

def test_sync(queen_sync, queen_clock) -> None:
    queen_sync.push("orders", 1)
    (message,) = queen_sync.pop("orders", lease=60)
    assert drain_sync(queen_sync, "orders") == []
    queen_clock.advance(61)
    assert [again.id for again in drain_sync(queen_sync, "orders")] == [message.id]

def test_a_database_takes_milliseconds(queen_server) -> None:
    started = time.perf_counter()
    with queen_server.database() as url:
        assert url.startswith("postgresql://")
    assert time.perf_counter() - started < 2
"""


def test_fixtures_come_with_the_package(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    options = ["asyncio_mode = auto", "asyncio_default_fixture_loop_scope = function", "filterwarnings = error"]
    (tmp_path / "pytest.ini").write_text("\n".join(["[pytest]", *options, ""]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=100)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


async def test_the_clock_moves_leases_delays_and_schedules(database: str) -> None:
    clock = Clock(database)
    async with queen.connect(database) as q:
        await q.push("orders", 1)
        (message,) = await q.pop("orders", lease=60)
        await q.push("later", 2, deliver_at=clock.now().replace(year=2100))
        await q.queues.configure("delayed", delayed_processing=3600)
        await q.push("delayed", 3)
        assert await q.pop("delayed") == []
        clock.advance(3601)
        assert [again.id for again in await drain(q, "orders")] == [message.id]
        assert [again.data for again in await drain(q, "delayed")] == [3]

        async def note(_: queen.Message[int]) -> None: ...

        clock.advance(80 * 366 * 86_400)
        assert (await q.consume("later", note, limit=1, signals=False)).handled == 1
    with pytest.raises(ValueError, match="never goes back"):
        clock.advance(-1)


async def test_a_waiting_pop_wakes_when_time_passes(database: str) -> None:
    clock = Clock(database)
    async with queen.connect(database) as q:
        await q.push("orders", 1)
        await q.pop("orders", lease=600)
        found: list[int] = []

        async def note(message: queen.Message[int]) -> None:
            found.append(message.data)

        import asyncio

        running = asyncio.create_task(q.consume("orders", note, limit=1, signals=False))
        await asyncio.to_thread(clock.advance, 601)
        await eventually(lambda: found == [1], limit=10)
        await running


def test_a_server_can_be_shared(scratch: Path) -> None:
    one, other = TestServer(scratch), TestServer(scratch)
    with one.database() as url, queen.connect_sync(url) as q:
        q.push("orders", 1)
        assert [message.data for message in drain_sync(q, "orders")] == [1]
    one.close()
    with other.database() as url:
        assert url != ""
    other.close()
