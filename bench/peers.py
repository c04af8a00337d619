"""Queen beside other queues, in one run: identical work on one PostgreSQL with identical settings.

    python bench/peers.py [--quick] [--only NAME ...] [--rounds 3] [--seconds 2]

pgmq, procrastinate and the clients of Redis and RabbitMQ come with `pip install -c constraints.txt -e '.[peers]'`;
pg-boss takes part when QUEEN_BENCH_NODE names a directory where `npm install pg-boss` was run, Redis and RabbitMQ
when Debian's servers are installed. Rounds are interleaved and medians shown; processor time of servers and clients
for each message comes first. Writes bench/results/peers.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import uvloop

sys.path.insert(0, str(Path(__file__).parent))

from cores import _with_children, seconds_of
from loads import sql
from rivals.pgboss import MODULES, PgBoss
from rivals.pgmq import Pgmq
from rivals.procrastinate import Procrastinate
from rivals.queen import QueenEngine, QueenHttp, QueenSql
from rivals.rabbitmq import RabbitMq
from rivals.redis_streams import RedisStreams
from rivals.rival import Place, Rival

from queen.db.embedded import EmbeddedServer

RESULTS = Path(__file__).parent / "results" / "peers.json"
RATE = 200
DEEP = 200_000
EVERYBODY: dict[str, tuple[type[Rival], Callable[[], object]]] = {
    "queen-sql": (QueenSql, lambda: True),
    "queen-engine": (QueenEngine, lambda: True),
    "queen-http": (QueenHttp, lambda: True),
    "pgmq": (Pgmq, lambda: True),
    "procrastinate": (Procrastinate, lambda: True),
    "pg-boss": (PgBoss, lambda: os.environ.get(MODULES) and shutil.which("node")),
    "redis": (RedisStreams, lambda: shutil.which("redis-server")),
    "rabbitmq": (RabbitMq, lambda: Path("/usr/lib/rabbitmq/bin/rabbitmq-server").exists()),
}


class Spent:
    """Processor time of servers and clients since it was made."""

    def __init__(self, rival: Rival, postgres: int) -> None:
        servers = [*rival.servers, *([postgres] if rival.uses_postgres else [])]
        self._servers = [psutil.Process(pid) for pid in servers]
        self._clients = [psutil.Process(pid) for pid in rival.clients]
        self._own = psutil.Process()
        self._before, self._began = self._now(), time.perf_counter()

    def _now(self) -> tuple[float, float]:
        clients = sum(map(_with_children, self._clients)) + seconds_of(self._own)
        return sum(map(_with_children, self._servers)), clients

    def each(self, count: int) -> dict[str, float]:
        """The rate, and microseconds for each message."""
        wall, (servers, clients) = time.perf_counter() - self._began, self._now()
        return {
            "rate": count / wall,
            "server": (servers - self._before[0]) / count * 1e6,
            "client": (clients - self._before[1]) / count * 1e6,
        }


async def loads_of(rival: Rival, postgres: int, seconds: float, deep: int) -> dict[str, dict[str, float]]:
    """One round: every load, one after the other."""
    done: dict[str, dict[str, float]] = {}

    async def run(name: str, work: Awaitable[int]) -> None:
        spent = Spent(rival, postgres)
        if count := await work:
            done[name] = spent.each(count)

    async def fill(count: int) -> None:
        await rival.fill(count)
        if rival.uses_postgres:
            connection = await asyncpg.connect(rival.place.url)
            await connection.execute(sql("peers/analyze"))
            await connection.close()

    await fill(20_000)
    await run("pop+ack 1", rival.run_take(1, seconds))
    await run("push 1", rival.run_push(1, seconds))
    await run("push 100", rival.run_push(100, seconds))
    await fill(deep)
    await run("pop+ack 1, deep", rival.run_take(1, seconds))
    await run("pop+ack 100, deep", rival.run_take(100, seconds))
    return done


async def measure(chosen: list[str], server: EmbeddedServer, directory: Path, options: argparse.Namespace) -> Any:
    """All rounds of everybody, in turns."""
    found: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in chosen}
    times: dict[str, list[float]] = {name: [] for name in chosen}
    assert server.pid is not None
    for number in range(options.rounds):
        for name in chosen:
            place = Place(
                await _database(server, f"{name.replace('-', '_')}_{number}"), str(directory / f"{name}{number}")
            )
            await asyncio.to_thread(Path(place.directory).mkdir)
            rival = EVERYBODY[name][0](place)
            await rival.open()
            try:
                if not isinstance(rival, QueenSql):
                    times[name] += await rival.run_delivery(RATE, options.seconds * 2)
                found[name].append(await loads_of(rival, server.pid, options.seconds, options.deep))
            finally:
                await rival.close()
            print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr)
    return [_summary(name, found[name], times[name]) for name in chosen]


async def _database(server: EmbeddedServer, name: str) -> str:
    connection = await asyncpg.connect(server.dsn("postgres"))
    await connection.execute(f"create database {name}")
    await connection.close()
    return server.dsn(name)


def _summary(name: str, rounds: list[dict[str, dict[str, float]]], times: list[float]) -> dict[str, Any]:
    rival = EVERYBODY[name][0]
    loads = {
        load: {kind: statistics.median(one[load][kind] for one in rounds if load in one) for kind in rounds[0][load]}
        for load in rounds[0]
    }
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else []
    delivery = {"p50": cuts[49] * 1000, "p99": cuts[98] * 1000, "count": len(times)} if cuts else None
    return {"name": rival.name, "shared": rival.shared, "lacks": rival.lacks, "loads": loads, "delivery": delivery}


def circumstances(options: argparse.Namespace, server: EmbeddedServer) -> dict[str, Any]:
    """What the figures hold for."""
    packages = {}
    for package in ("procrastinate", "pgmq", "redis", "aio-pika", "asyncpg"):
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            continue
    for package in ("redis-server", "rabbitmq-server", "nodejs"):
        if shown := _said_by("dpkg-query", "-W", "-f=${Version}", package):
            packages[package] = shown
    boss = Path(os.environ.get(MODULES, "none")) / "node_modules" / "pg-boss" / "package.json"
    if boss.exists():
        packages["pg-boss"] = json.loads(boss.read_text(encoding="utf-8"))["version"]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processors": os.cpu_count(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "python": platform.python_version(),
        "postgres": server.pgdata.joinpath("PG_VERSION").read_text().strip(),
        "packages": packages,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "deep": options.deep,
        "rate": RATE,
    }


def _said_by(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def table(result: dict[str, Any]) -> str:
    """Every load with everybody, the quickest server first."""
    lines = []
    for load in ("push 1", "push 100", "pop+ack 1", "pop+ack 1, deep", "pop+ack 100, deep"):
        rows = sorted(
            ((one["loads"][load], one["name"]) for one in result["queues"] if load in one["loads"]),
            key=lambda row: row[0]["server"] + row[0]["client"],
        )
        lines += [f"| {load} | µs of servers | of clients | messages/s |", "|---|---:|---:|---:|"]
        lines += [f"| {name} | {row['server']:.1f} | {row['client']:.1f} | {row['rate']:,.0f} |" for row, name in rows]
        lines.append("")
    lines += [f"| push to delivery at {result['circumstances']['rate']}/s | p50 ms | p99 ms |", "|---|---:|---:|"]
    for one in sorted((one for one in result["queues"] if one["delivery"]), key=lambda one: one["delivery"]["p50"]):
        lines.append(f"| {one['name']} | {one['delivery']['p50']:.1f} | {one['delivery']['p99']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure whoever is here, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round, saved nowhere")
    parser.add_argument("--only", nargs="*", choices=EVERYBODY, default=list(EVERYBODY))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--deep", type=int, default=DEEP, help="messages that wait in the deep loads")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.deep = 1, 0.5, 20_000
    chosen = [name for name in options.only if EVERYBODY[name][1]()]
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        directory.chmod(0o711)
        with (
            EmbeddedServer.start(directory / "data") as server,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            queues = runner.run(measure(chosen, server, directory, options))
            result = {"circumstances": circumstances(options, server), "queues": queues}
    print(table(result))
    if not options.quick:
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
