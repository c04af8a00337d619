"""From a push to its delivery in one process, at 500 messages a second with 8 consumers that wait and acknowledge.

    python bench/direct_latency.py [--seconds 10] [--rounds 3] [--against SRC]

Prints the times, and how many database calls each message takes. With `--against`, the sources of another checkout
(its `src` directory) are measured in turns with ours, each round with a process and a PostgreSQL of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import uvloop

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database
from queen.engine import Engine
from queen.model import NewMessage, PopRequest

RATE = 500
CONSUMERS = 8
PARTITIONS = 100
_VERBS = {"queen.push_messages": "push", "queen.pop_lanes": "pop", "queen.move_cursors": "ack", "pg_notify": "notify"}


class Counted(Database):
    """A database that counts the calls of each verb."""

    calls: Counter[str]

    async def fetch(self, sql: str, *arguments: Any) -> Any:
        """Count and pass on."""
        self.calls.update(verb for name, verb in _VERBS.items() if name in sql)
        return await super().fetch(sql, *arguments)


async def measure(url: str, seconds: float) -> dict[str, float]:
    """One round: the first second does not count."""
    database = Counted(url)
    database.calls = Counter()
    sent: dict[int, float] = {}
    times: list[float] = []
    finished = asyncio.Event()
    async with Engine(database, listen_url=url) as engine:
        for partition in range(PARTITIONS):
            await engine.push([_message(-1, partition)])
        while found := await engine.pop(PopRequest(queue="q", batch=1000, partitions=1000)):
            await engine.ack_messages(found)

        async def consume() -> None:
            while True:
                for message in await engine.pop(PopRequest(queue="q", wait=5)):
                    now, number = time.perf_counter(), json.loads(message.payload)
                    if number >= RATE:
                        times.append(now - sent[number])
                    if len(times) == int(RATE * seconds):
                        finished.set()
                    await engine.ack_messages([message])

        consumers = [asyncio.create_task(consume()) for _ in range(CONSUMERS)]
        await _produce(engine, sent, 0, RATE)
        database.calls.clear()
        await _produce(engine, sent, RATE, RATE + int(RATE * seconds))
        await asyncio.wait_for(finished.wait(), 30)
        for consumer in consumers:
            consumer.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)
        calls = {f"{verb} calls": round(database.calls[verb] / len(times), 2) for verb in _VERBS.values()}
    cuts = statistics.quantiles([each * 1000 for each in times], n=100)
    return {"p50": round(cuts[49], 2), "p90": round(cuts[89], 2), "p99": round(cuts[98], 2), **calls}


async def _produce(engine: Engine, sent: dict[int, float], first: int, end: int) -> None:
    started = time.perf_counter()
    under_way = set()
    for turn in range(first, end):
        await asyncio.sleep(max(started + (turn - first) / RATE - time.perf_counter(), 0))
        sent[turn] = time.perf_counter()
        task = asyncio.create_task(engine.push([_message(turn, turn % PARTITIONS)]))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)


def _message(number: int, partition: int) -> NewMessage:
    return NewMessage(queue="q", partition=f"p{partition}", payload=json.dumps(number))


def alone(seconds: float) -> dict[str, float]:
    """One round on a PostgreSQL of its own."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        directory.chmod(0o711)
        with (
            EmbeddedServer.start(directory / "data") as server,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(_migrate(server.dsn("postgres")))
            return runner.run(measure(server.dsn("postgres"), seconds))


async def _migrate(url: str) -> None:
    async with migrate.connect(url) as connection:
        await migrate.up(connection)


def turn(source: Path, seconds: float) -> dict[str, float]:
    """One round with these sources."""
    done = subprocess.run(
        [sys.executable, __file__, "--alone", "--seconds", str(seconds)],
        env={**os.environ, "PYTHONPATH": str(source)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120 + seconds,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Measure, and print a table of medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="the src directory of another checkout, measured in turns")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(alone(options.seconds)))
        return
    sources = {"these sources": Path(__file__).parents[1] / "src"}
    if options.against:
        sources = {"the other checkout": options.against.resolve(), **sources}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for _ in range(options.rounds):
        for name, source in sources.items():
            found[name].append(turn(source, options.seconds))
    columns = list(next(iter(found.values()))[0])
    print("| ms, calls per message | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
    for name, rounds in found.items():
        print(f"| {name} | " + " | ".join(f"{statistics.median(one[c] for one in rounds):.2f}" for c in columns) + " |")


if __name__ == "__main__":
    main()
