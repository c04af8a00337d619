"""What the background services cost, how fast they are beside pushes, and what they make others wait.

    python bench/services.py           the whole table (about seven minutes)
    python bench/services.py --quick   a short look

Windows with and without services are interleaved and compared in one run. Prints tables and writes
bench/results/services.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from loads import GROUP, PAYLOAD, race, sql

from queen.config import Settings
from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database, PoolOptions
from queen.engine import Engine
from queen.engine.services.jobs import Jobs
from queen.model import NewMessage, PopRequest

RESULTS = Path(__file__).parent / "results"
HOUR = 3600
OLD, YOUNG = 2 * HOUR, 0
SERVICES = ["retention", "eviction", "scheduled", "partitions", "history", "deliveries", "leases", "stats"]
# Those that have something due; the others count or look after themselves.
DUE = ["retention", "eviction", "scheduled", "partitions"]
VERBS = ["push", "pop", "ack"]
Run = Callable[[], Awaitable[Mapping[str, Any]]]


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with EmbeddedServer.start(Path(directory) / "data") as server:
            result = asyncio.run(measure(server.dsn("postgres"), options))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "services.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    show(result)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the background services.")
    parser.add_argument("--quick", action="store_true", help="few partitions, short windows")
    options = parser.parse_args()
    options.sizes = [100, 2_000] if options.quick else [100, 10_000, 100_000]
    options.backlog = 40_000 if options.quick else 400_000
    options.windows, options.seconds = (2, 1.0) if options.quick else (6, 4.0)
    return options


async def measure(dsn: str, options: argparse.Namespace) -> dict[str, Any]:
    costs = {size: await cost_at(dsn, size) for size in options.sizes}
    async with fresh(dsn, "rates") as engine:
        rates = await rates_of(engine, options)
    async with fresh(dsn, "waits") as engine:
        waits = await waits_of(engine, options)
    return {"costs": costs, "rates": rates, "waits": waits}


@asynccontextmanager
async def fresh(dsn: str, name: str) -> AsyncIterator[Engine]:
    """An engine on a database of its own."""
    async with migrate.connect(dsn) as connection:
        await connection.execute(f"create database {name}")
    url = dsn.replace("/postgres", f"/{name}", 1)
    async with migrate.connect(url) as connection:
        await migrate.up(connection)
    async with Engine(Database(url, PoolOptions(size=10)), listen_url=url) as engine:
        yield engine


async def prepare(engine: Engine, queue: str, options: Mapping[str, Any]) -> None:
    await engine.queues.configure(queue, options)
    await engine.register(queue, GROUP)


async def fill(
    engine: Engine, queue: str, partitions: int, messages: int, age: int, *, consumed: bool = False, first: int = 1
) -> None:
    await engine.database.fetch(sql("services_fill"), queue, partitions, messages, float(age), consumed, first)


async def tidy(engine: Engine) -> None:
    async with engine.database.connection() as connection:
        await connection.execute(sql("services_analyze"))


async def cost_at(dsn: str, size: int) -> dict[str, dict[str, float]]:
    """Milliseconds of one run of each service with so many partitions, with nothing due and with 1 % due."""
    async with fresh(dsn, f"cost_{size}") as engine:
        jobs = Jobs(engine, Settings())
        await prepare(engine, "kept", {"retention_enabled": True, "retention_seconds": HOUR})
        await prepare(engine, "hurried", {"max_wait_time_seconds": HOUR})
        await prepare(engine, "scheduled", {})
        for queue in ("kept", "hurried", "scheduled"):
            await fill(engine, queue, size, 1, YOUNG)
        await tidy(engine)
        # New ones for each run: statistics that took long rest before they run again.
        idle = {name: await timed(lambda name=name: getattr(Jobs(engine, Settings()), name)(), 5) for name in SERVICES}
        share = max(size // 100, 1)
        await fill(engine, "kept", share, 1, OLD, first=size + 1)
        await fill(engine, "hurried", share, 1, OLD, first=size + 1)
        await fill(engine, "kept", share, 0, 40 * 24 * HOUR, first=2 * size + 1)
        await engine.database.fetch(sql("services_schedule"), "scheduled", share)
        await tidy(engine)
        due = {name: await timed(getattr(jobs, name), 1) for name in DUE}
    return {"nothing due": idle, "1 % due": due}


async def timed(run: Run, times: int) -> float:
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        while (await run()).get("finished") is False:
            pass
        spent.append(1000 * (time.perf_counter() - started))
    return statistics.median(spent)


async def rates_of(engine: Engine, options: argparse.Namespace) -> dict[str, float]:
    """Messages a second: pushes alone, retention and eviction alone, and each beside the other."""
    jobs = Jobs(engine, Settings())
    await prepare(engine, "pushed", {})
    await prepare(engine, "kept", {"retention_enabled": True, "retention_seconds": HOUR})
    await prepare(engine, "hurried", {"max_wait_time_seconds": HOUR})
    seconds = options.seconds
    rates = {"push": await push_rate(engine, seconds)}
    for queue, run, count, partitions in (
        ("kept", jobs.retention, options.backlog, 200),
        ("kept", jobs.retention, options.backlog // 4, options.backlog // 40),
        ("hurried", jobs.eviction, options.backlog // 10, 200),
    ):
        await fill(
            engine,
            queue,
            partitions,
            count // partitions,
            OLD,
            consumed=queue == "kept",
            first=10**9 + len(rates) * 10**6,
        )
        await tidy(engine)
        started = time.perf_counter()
        done = await run()
        name = f"{run.__name__}, {count // partitions} messages in each partition"
        rates[name] = sum(v for k, v in done.items() if k != "finished") / (time.perf_counter() - started)
    await fill(engine, "kept", 200, options.backlog // 200, OLD, consumed=True, first=2 * 10**9)
    await tidy(engine)
    pushing = asyncio.create_task(push_rate(engine, seconds))
    started = time.perf_counter()
    removed = await jobs.retention()
    rates["retention beside pushes"] = removed["removed"] / (time.perf_counter() - started)
    rates["push beside retention"] = await pushing
    return rates


async def push_rate(engine: Engine, seconds: float) -> float:
    async def push(worker: int, turn: int) -> int:
        partition = str((worker + 4 * turn) % 200)
        await engine.push([NewMessage(queue="pushed", partition=partition, payload=PAYLOAD) for _ in range(100)])
        return 100

    return (await race(seconds, 4, push)).rate


async def waits_of(engine: Engine, options: argparse.Namespace) -> dict[str, Any]:
    """How long single pushes, pops and acks took in windows with the services at work, and in windows without."""
    jobs = Jobs(engine, Settings(retention_interval=options.seconds, eviction_interval=options.seconds))
    await prepare(engine, "live", {"retention_enabled": True, "retention_seconds": HOUR})
    await prepare(engine, "hurried", {"max_wait_time_seconds": HOUR})
    partitions, messages = 200, options.backlog * options.windows // 400
    await fill(engine, "live", partitions, messages, OLD, consumed=True)
    await fill(engine, "hurried", partitions, messages // 10, OLD)
    await prepare(engine, "later", {})
    await engine.database.fetch(sql("services_schedule"), "later", 20_000)
    await tidy(engine)
    spent: dict[str, dict[str, list[float]]] = {side: {verb: [] for verb in VERBS} for side in ("without", "with")}
    done = dict.fromkeys(("removed", "evicted", "delivered"), 0)
    for _ in range(options.windows):
        await use(engine, spent["without"], options.seconds)
        using = asyncio.create_task(use(engine, spent["with"], options.seconds))
        for result in await asyncio.gather(
            jobs.retention(), jobs.eviction(), jobs.scheduled(), jobs.stats(), jobs.deliveries()
        ):
            for name in done.keys() & result.keys():
                done[name] += result[name]
        await using
    return {
        "done": done,
        **{side: {verb: spread(times) for verb, times in verbs.items()} for side, verbs in spent.items()},
        "ratio of p99": {
            verb: spread(spent["with"][verb])["p99"] / spread(spent["without"][verb])["p99"] for verb in VERBS
        },
    }


async def use(engine: Engine, spent: dict[str, list[float]], seconds: float) -> None:
    """Four callers that push, pop and acknowledge one message each, with a rest in between."""
    end = time.perf_counter() + seconds

    async def call(number: int) -> None:
        turn = 0
        while time.perf_counter() < end:
            turn += 1
            item = NewMessage(queue="live", partition=f"p{1 + (number + 4 * turn) % 200}", payload=PAYLOAD)
            began = time.perf_counter()
            await engine.push([item])
            pushed = time.perf_counter()
            got = await engine.pop(PopRequest(queue="live", group=GROUP, batch=1))
            popped = time.perf_counter()
            await engine.ack_messages(got)
            for verb, took in zip(VERBS, (pushed - began, popped - pushed, time.perf_counter() - popped), strict=True):
                spent[verb].append(1000 * took)
            await asyncio.sleep(0.005)

    await asyncio.gather(*(call(number) for number in range(4)))


def spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "calls": len(ordered),
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[int(len(ordered) * 0.99)],
        "longest": ordered[-1],
    }


def show(result: dict[str, Any]) -> None:
    write = sys.stdout.write
    write("\nmilliseconds of a run\n")
    for size, cost in result["costs"].items():
        for state, times in cost.items():
            cells = "  ".join(f"{name} {ms:,.1f}" for name, ms in times.items())
            write(f"{size:>8,} partitions, {state:<12}{cells}\n")
    write("\nmessages a second\n")
    for name, rate in result["rates"].items():
        write(f"{name:<50}{rate:>12,.0f}\n")
    write("\nmilliseconds of a call         p50      p99  longest\n")
    for side in ("without", "with"):
        for verb, row in result["waits"][side].items():
            write(f"{verb:<5}{side + ' services':<20}{row['p50']:>9.2f}{row['p99']:>9.2f}{row['longest']:>9.2f}\n")
    write(f"ratio of p99: {result['waits']['ratio of p99']}\nmeanwhile: {result['waits']['done']}\n")


if __name__ == "__main__":
    main()
