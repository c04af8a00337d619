"""The same tasks in plain asyncio, FastAPI, Django and Flask: through a crashed broker, database and worker."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

import queen
from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from tests.server.running import Process
from tests.support.ports import free_port
from tests.support.tree import ROOT
from tests.support.wait import eventually

FRAMEWORKS = ROOT / "examples" / "frameworks"
DJANGO = FRAMEWORKS / "django_shop"
CUSTOMERS = 8
ORDERS = 15
SEED = 15


class Worker:
    """A worker of one of the frameworks, as the process its users start."""

    def __init__(self, name: str, command: list[str], url: str, database: str, scratch: Path, where: Path) -> None:
        self.queue = f"mail-{name}"
        self.sent = scratch / f"{name}.txt"
        self._log = scratch / f"{name}.log"
        self._command = command
        self._where = where
        self._environment = {
            **os.environ,
            "QUEEN_URL": url,
            "DATABASE_URL": database,
            "MAIL_QUEUE": self.queue,
            "SENT": str(self.sent),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._where, env=self._environment, stdout=log, stderr=log
            )

    def crash(self) -> None:
        """Kill the process that works: below `queen worker` that is a child, which is started again by itself."""
        assert self._process is not None
        children = psutil.Process(self._process.pid).children()
        if children:
            children[0].kill()
            return
        self._process.kill()
        self._process.wait(30)
        self.start()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            below = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            self._process.wait(30)
            for child in below:
                child.kill()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def ran(self) -> list[tuple[str, int]]:
        """Every run of the task that came to its end."""
        lines = self.sent.read_text().splitlines() if self.sent.exists() else []
        return [(to, int(number)) for to, number in (line.split() for line in lines)]


@contextmanager
def workers(url: str, database: str, scratch: Path) -> Iterator[dict[str, Worker]]:
    port = str(free_port())
    python = sys.executable
    queen_worker = [python, "-m", "queen", "worker", "tasks:app", "--processes", "2", "--concurrency", "2"]
    commands = {
        "plain": [python, "plain.py"],
        "fastapi": [python, "-m", "uvicorn", "fastapi_app:web", "--port", port, "--log-level", "warning"],
        "django": [python, "manage.py", "worker"],
        "flask": queen_worker,
    }
    made = {
        name: Worker(name, command, url, database, scratch, DJANGO if name == "django" else FRAMEWORKS)
        for name, command in commands.items()
    }
    try:
        for worker in made.values():
            worker.start()
        yield made
    finally:
        for worker in made.values():
            worker.kill()


@pytest.mark.chaos
@pytest.mark.timeout(240)
async def test_nothing_is_lost_and_nothing_counts_that_did_not_run(scratch: Path) -> None:
    expected = [(f"customer-{c}", number) for number in range(ORDERS) for c in range(CUSTOMERS)]
    with EmbeddedServer.start(scratch / "pg", port=free_port()) as server:
        async with migrate.connect(server.dsn()) as connection:
            for migrations in migrate.SETS.values():
                await migrate.up(connection, migrations)
        broker = Process(server.dsn(), scratch)
        broker.start()
        with workers(broker.url, server.dsn(), scratch) as made:
            try:
                await _through_crashes(server, broker, made, expected)
            finally:
                broker.stop()
        for name, worker in made.items():
            _check(name, worker, expected)


async def _through_crashes(
    server: EmbeddedServer, broker: Process, made: dict[str, Worker], expected: list[tuple[str, int]]
) -> None:
    chance = random.Random(SEED)
    victims = list(made.values())

    def restart_broker() -> None:
        broker.kill()
        broker.start()

    crashes: list[Callable[[], object]] = [
        restart_broker,
        lambda: server.restart("immediate"),
        *[worker.crash for worker in victims],
    ]
    chance.shuffle(crashes)
    async with queen.connect(broker.url) as q:
        for worker in victims:
            await q.queues.configure(worker.queue, lease_time=2)
            calls = [
                queen.Push(worker.queue, {"task": "send", "args": {"to": to, "number": number}}, partition=to)
                for to, number in expected
            ]
            await q.push_all(calls)
        for crash in crashes:
            so_far = {worker.queue: len(worker.ran()) for worker in victims}
            await eventually(
                lambda so_far=so_far: all(  # type: ignore[misc]
                    len(worker.ran()) >= min(so_far[worker.queue] + 8, len(expected)) for worker in victims
                ),
                limit=60,
            )
            await asyncio.to_thread(crash)

        async def drained() -> bool:
            depths = {one.name: one.depth for one in await q.queues.list()}
            return not any(depths[worker.queue] for worker in victims)

        await eventually(drained, limit=90, pause=0.1)
        assert not await q.dead_letters.list()
    for worker in victims:
        assert worker.stop() in (0, -signal.SIGTERM), worker.log[-2000:]


def _check(name: str, worker: Worker, expected: list[tuple[str, int]]) -> None:
    """Everything was acknowledged: so everything must have run, in order, a few more than once."""
    ran = worker.ran()
    assert set(ran) == set(expected), name
    for customer in {to for to, _ in expected}:
        first_runs = list(dict.fromkeys(number for to, number in ran if to == customer))
        assert first_runs == sorted(first_runs), (name, customer)
    assert len(ran) < 2 * len(expected), "a crash repeats what was under way, no more"


async def test_fastapi_takes_orders_and_works_on_them(database: str, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "fastapi_app:web", "--port", str(port), "--log-level", "warning"]
    worker = Worker("web", command, database, database, tmp_path, FRAMEWORKS)
    worker.start()
    try:

        async def ordered() -> bool:
            async with httpx2.AsyncClient() as web:
                try:
                    answer = await web.post(f"http://127.0.0.1:{port}/orders/7", params={"customer": "anna"})
                except httpx2.TransportError:
                    return False
                return answer.status_code == 200 and "job" in answer.json()

        await eventually(ordered, limit=60, pause=0.1)
        await eventually(lambda: ("anna", 7) in worker.ran())
        assert worker.stop() in (0, -signal.SIGTERM)
    finally:
        worker.kill()


def test_flask_pushes_from_a_view(database: str, tmp_path: Path) -> None:
    code = (
        "from flask_app import web\n"
        "with web.test_client() as client:\n"
        "    print(client.post('/orders/7?customer=anna').json['job'])\n"
    )
    environment = {**os.environ, "QUEEN_URL": database}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=FRAMEWORKS, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with queen.connect_sync(database) as q:
        (message,) = q.pop("mail", partition="anna")
        assert str(message.id) == done.stdout.strip()
        assert message.data == {"task": "send", "args": {"to": "anna", "number": 7}}


def test_django_pushes_after_the_commit_or_with_it(database: str) -> None:
    environment = {**os.environ, "QUEEN_URL": database, "DATABASE_URL": database}

    def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=DJANGO, env=environment, capture_output=True, text=True, check=False)

    made = manage("migrate", "--run-syncdb")
    assert made.returncode == 0, made.stderr
    assert manage("order", "anna", "1").returncode == 0
    assert manage("order", "anna", "2", "--together").returncode == 0
    refused = manage("order", "--together", "--", "anna", "-3")
    assert refused.returncode == 1
    assert "no order below 0" in refused.stderr
    with queen.connect_sync(database) as q:
        messages = q.pop("mail", partition="anna", batch=10)
        assert [json.loads(message.payload)["args"]["number"] for message in messages] == [1, 2]
