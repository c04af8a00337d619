"""A thousand parked long polls: a push reaches one of them at once, and waiting costs next to nothing."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx2
import psutil
import pytest

from tests.server.running import Process, run_process
from tests.support.wait import eventually


class Poll:
    """One long poll on a connection of its own, sent again as soon as it was answered."""

    def __init__(self, url: str, queue: str, heard: asyncio.Queue[tuple[bytes, float]]) -> None:
        self._url, self._queue, self._heard = urlsplit(url), queue, heard

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        path = f"/api/v1/pop/queue/{self._queue}?wait=true&timeout=60000&autoAck=true"
        try:
            while True:
                writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                now = time.perf_counter()
                if not head.startswith(b"HTTP/1.1 200"):
                    return
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self._heard.put_nowait((await reader.readexactly(length), now))
        finally:
            writer.close()


async def statements(database: str) -> int:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("select pg_stat_force_next_flush()")
        return int(
            await connection.fetchval(
                "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
            )
        )
    finally:
        await connection.close()


async def parked(broker: Process, queue: str) -> int:
    async with httpx2.AsyncClient(base_url=broker.url, timeout=20) as client:
        text = (await client.get("/metrics/prometheus")).text
    found = [line for line in text.splitlines() if line.startswith(f'queen_queue_parked_consumers{{queue="{queue}"}}')]
    return int(float(found[0].split()[-1])) if found else 0


async def idle_cost(broker: Process, database: str, seconds: float) -> tuple[float, float]:
    """Share of a core, and transactions a second, while nothing happens."""
    process = psutil.Process(broker.pid)
    before, used, started = await statements(database), process.cpu_times(), time.monotonic()
    await asyncio.sleep(seconds)
    spent = time.monotonic() - started
    after, now = await statements(database), process.cpu_times()
    return (now.user + now.system - used.user - used.system) / spent, (after - before) / spent


@pytest.mark.measure
async def test_a_thousand_parked_polls(database: str, tmp_path: Path) -> None:
    heard: asyncio.Queue[tuple[bytes, float]] = asyncio.Queue()
    with run_process(database, tmp_path) as broker:
        empty_cpu, empty_rate = await idle_cost(broker, database, 3)
        async with httpx2.AsyncClient(base_url=broker.url, timeout=20) as client, asyncio.TaskGroup() as group:
            polls = [group.create_task(Poll(broker.url, "mail", heard).run()) for _ in range(1000)]

            async def all_parked() -> bool:
                return await parked(broker, "mail") == 1000

            await eventually(all_parked, limit=30, pause=0.1)
            cpu, rate = await idle_cost(broker, database, 3)
            times = []
            for number in range(40):
                started = time.perf_counter()
                body = {"items": [{"queue": "mail", "partition": f"p{number}", "payload": number}]}
                assert (await client.post("/api/v1/push", json=body)).status_code == 201
                _, arrived = await asyncio.wait_for(heard.get(), 10)
                times.append(arrived - started)
            assert heard.empty(), "one push was delivered to several polls"
            for poll in polls:
                poll.cancel()
    median = statistics.median(times)
    sys.stdout.write(
        f"1000 parked polls: push to delivery {median * 1000:.1f} ms at the median, {max(times) * 1000:.1f} at worst\n"
        f"idle: {cpu:.1%} of a core, {rate:.1f} transactions/s; without polls {empty_cpu:.1%}, {empty_rate:.1f}\n"
    )
    assert median < 0.05
    assert rate < empty_rate + 20
    assert cpu < empty_cpu + 0.25
