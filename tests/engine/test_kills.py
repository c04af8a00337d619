"""Two processes that push and consume with every option on, killed -9 at random: nothing is lost, order is kept."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queen.config import Settings
from queen.db.pool import Database
from queen.engine import Engine
from queen.engine.services.jobs import Jobs
from queen.model import PopRequest
from tests.engine.crash_worker import GROUPS, OPTIONS, QUEUE
from tests.support.tree import ROOT
from tests.support.wait import eventually
from tests.support.work import Sql, connect

LEAST = 3
LONG = float(os.environ.get("QUEEN_TEST_KILL_SECONDS", "300"))


class Record:
    """What the processes were told, read from their logs."""

    def __init__(self, paths: list[Path]) -> None:
        self.accepted: dict[str, str] = {}
        self.received: dict[tuple[str, str], list[tuple[float, list[list[Any]]]]] = defaultdict(list)
        self.finishing: set[tuple[str, str]] = set()
        for kind, at, *fields in self._lines(paths):
            if kind == "accepted":
                self.accepted |= dict.fromkeys(fields[1], fields[0])
            elif kind == "received":
                self.received[fields[0], fields[1]].append((at, fields[3]))
            else:
                self.finishing.add((fields[0], fields[2]))

    @staticmethod
    def _lines(paths: list[Path]) -> Iterator[list[Any]]:
        for path in paths:
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # the last one may be cut off by the kill
                    yield json.loads(line)


async def torment(dsn: str, folder: Path, seconds: float, seed: int) -> tuple[list[Path], int]:
    """Two processes; one after the other is killed at a random moment and another one takes its place."""
    rng = random.Random(seed)
    paths: list[Path] = []

    async def start() -> asyncio.subprocess.Process:
        paths.append(folder / f"{len(paths)}.log")
        script = str(ROOT / "tests" / "engine" / "crash_worker.py")
        return await asyncio.create_subprocess_exec(
            sys.executable, script, dsn, str(paths[-1]), str(len(paths)), str(rng.getrandbits(32)),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    workers = [await start(), await start()]
    kills = 0
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end or kills < LEAST:
            # A process is killed when it has done something, however slow the machine is.
            victim = rng.randrange(2)
            path = paths[-1]
            await eventually(lambda path=path: path.exists() and path.stat().st_size > 2000, limit=60)  # type: ignore[misc]
            await asyncio.sleep(rng.random() * 1.5)
            assert workers[victim].returncode is None, "a process ended by itself"
            workers[victim].kill()
            await workers[victim].wait()
            kills += 1
            workers[victim] = await start()
    finally:
        for worker in workers:
            if worker.returncode is None:
                worker.kill()
            await worker.wait()
    return [path for path in paths if path.exists()], kills


async def drain(dsn: str, sql: Sql) -> set[tuple[str, str]]:
    """Everything that is left comes once leases ran out and schedules are due; what each group got."""
    got: set[tuple[str, str]] = set()
    async with Engine(Database(dsn), listen_url=None) as engine:
        await engine.queues.configure(QUEUE, {"max_wait_time_seconds": 0, "max_queue_size": 0, "max_deliveries": 0})
        jobs = Jobs(engine, Settings())

        async def empty() -> bool:
            await jobs.scheduled()
            for group in GROUPS:
                request = PopRequest(queue=QUEUE, group=group, batch=500, partitions=20)
                while found := await engine.pop(request):
                    got.update((group, message.transaction_id) for message in found)
                    await engine.ack_messages(found)
            waiting = await sql.fetchval("select sum(current_depth) from queen.queue_depths")
            scheduled = await sql.fetchval("select count(*) from queen.scheduled_messages")
            return bool(waiting == scheduled == 0)

        await eventually(empty, limit=60, pause=0.1)
    return got


async def check(dsn: str, folder: Path, seconds: float, seed: int) -> None:
    async with connect(dsn) as sql:
        async with Engine(Database(dsn), listen_url=None) as engine:
            await engine.queues.configure(QUEUE, OPTIONS)
            for group in GROUPS:
                await engine.register(QUEUE, group)
        paths, kills = await torment(dsn, folder, seconds, seed)
        got = await drain(dsn, sql)
        letters = await sql.fetch(
            "select consumer_group as owner, transaction_id, evicted, error_message from queen.dead_letter_queue"
        )
    record = Record(paths)
    dead = {(row["owner"], row["transaction_id"]) for row in letters}
    lost = [
        (group, name)
        for name in record.accepted
        for group in GROUPS
        if not {(group, name)} & (record.finishing | dead | got)
    ]
    assert lost == [], f"seed {seed}: {len(lost)} accepted messages never came"
    handed = {(key[0], name) for key, batches in record.received.items() for _, batch in batches for _, name in batch}
    unseen = [
        dict(row) for row in letters if not row["evicted"] and (row["owner"], row["transaction_id"]) not in handed
    ]
    assert unseen == [], f"seed {seed}: dead letters nobody received"
    for key, batches in record.received.items():
        in_order(key, sorted(batches))
    assert kills >= LEAST
    assert len(record.accepted) > 100
    assert len(record.finishing) > 100
    sys.stdout.write(
        f"{kills} kills, {len(record.accepted)} accepted, {len(handed)} received, {len(dead)} dead letters,"
        f" {sum(row['evicted'] for row in letters)} of them evicted\n"
    )


def in_order(key: tuple[str, str], batches: list[tuple[float, list[list[Any]]]]) -> None:
    """Whatever comes again after a crash: nobody meets a message for the first time after one that is behind it."""
    seen: set[int] = set()
    numbers: dict[str, int] = {}
    for _, batch in batches:
        seqs = [seq for seq, _ in batch]
        assert seqs == sorted(set(seqs)), f"{key}: a batch out of order: {seqs}"
        for seq, name in batch:
            if seq in seen:
                continue
            assert seq > max(seen, default=0), f"{key}: {seq} came after {max(seen)}"
            seen.add(seq)
            kind, worker, number = name.split("-")
            if kind == "m":
                assert int(number) > numbers.get(worker, -1), f"{key}: {name} came after {numbers[worker]}"
                numbers[worker] = int(number)


@pytest.mark.chaos
@pytest.mark.timeout(300)
async def test_killed_at_random_for_a_while(database: str, tmp_path: Path) -> None:
    await check(database, tmp_path, 8, seed=1)


@pytest.mark.scale
@pytest.mark.chaos
@pytest.mark.timeout(3600)
async def test_killed_at_random_for_five_minutes(database: str, tmp_path: Path) -> None:
    await check(database, tmp_path, LONG, seed=int(time.time()))
