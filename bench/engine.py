"""How fast the engine is, against what the same PostgreSQL does with bare rows, in one run.

    make bench                       the whole table (about ten minutes)
    python bench/engine.py --quick   a short look

Rounds are interleaved and medians compared, so a busy machine moves both sides alike. Prints a table, writes
bench/results/engine.json and bench/results/engine.png.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
sys.path.insert(0, str(Path(__file__).parent))

from flatness import flatness
from loads import LIMITED, Ceilings, Done, Server, Verbs, ack_cost, ack_rates, open_pool, sql
from matplotlib import pyplot as plt

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database, PoolOptions
from queen.engine import Engine

RESULTS = Path(__file__).parent / "results"
# Our rate, what it is held against, and the least ratio; None where the number is stated as it is.
GOALS: dict[str, tuple[str, float | None]] = {
    "push batch 100": ("insert batch 100", 0.6),
    "push batch 1000": ("insert batch 1000", 0.6),
    "pop+ack batch 100": ("insert batch 100", 1.0),
    "pop+ack batch 1000": ("insert batch 1000", 1.0),
    "push 1 x 256 callers": ("insert 1 x 32 connections", 2.0),
    "push batch 100, limited queue": ("push batch 100", 0.7),
    "push 1 x 256 callers, limited queue": ("push 1 x 256 callers", 0.7),
    "pop+ack 1 x 64 consumers": ("cursor 1 x 16 connections", None),
    "consume 1 x 64 consumers": ("cursor 1 x 16 connections", 2.0),
    "pop+ack 1 x 1 consumer": ("cursor 1 x 1 connection", None),
    "consume 1 x 1 consumer": ("cursor 1 x 1 connection", None),
    "ack batch 100": ("old ack batch 100", 1.5),
    "ack 10,000 by id, one failed": ("ack 10,000 by lease", 0.33),
    "ack 10,000 by id": ("ack 10,000 by lease", 0.33),
}
# Enough waiting messages for a round of each load; 30,000 where nothing is said.
FILL = {
    "pop+ack batch 1000": 60_000,
    "consume 1 x 64 consumers": 80_000,
    "pop+ack 1 x 64 consumers": 80_000,
}


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with EmbeddedServer.start(Path(directory) / "data") as server:
            result = asyncio.run(measure(server.dsn("postgres"), Server(server.pid or 0), options))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "engine.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    show(result)
    draw(result)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the engine against bare rows on the same PostgreSQL.")
    parser.add_argument("--quick", action="store_true", help="short rounds, no flatness table")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds of each load (default 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each round (default 2)")
    parser.add_argument("--flat", choices=["none", "small", "full"], default="full", help="size of the flatness table")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.flat = 3, 1.0, "none"
    return options


async def measure(dsn: str, server: Server, options: argparse.Namespace) -> dict[str, object]:
    async with migrate.connect(dsn) as connection:
        await migrate.up(connection)
    pool = await open_pool(dsn)
    engine = Engine(Database(dsn, PoolOptions(size=10)), listen_url=dsn, batch_limit=10_000)
    async with engine, without_horizon(dsn) as plain:
        await pool.execute(sql("setup"))
        rates, per_cpu = await rates_of(Ceilings(pool), Verbs(engine), Verbs(plain), server, options)
        acks = await ack_cost(pool, engine, 100, 20 if options.quick else 100)
        rated = await ack_rates(pool, engine, server, 100, options.rounds)
        for name, way in (("old ack batch 100", "old"), ("ack batch 100", "ours")):
            rates[name], per_cpu[name] = rated[way]
        flat = await flatness(engine, options.flat) if options.flat != "none" else []
    await pool.close()
    ratios = {
        name: {
            "rate": rates[name],
            "ceiling": other,
            "ratio": rates[name] / rates[other],
            "ratio_per_server_cpu": per_cpu[name] / per_cpu[other],
            "goal": goal,
        }
        for name, (other, goal) in GOALS.items()
    }
    horizon = {
        name: rates[name] / rates[f"{name} without the horizon"] for name in ("push batch 100", "push 1 x 256 callers")
    }
    return {
        "rates": rates,
        "per_server_cpu_second": per_cpu,
        "ratios": ratios,
        "horizon": horizon,
        "ack": acks,
        "flatness": flat,
    }


@asynccontextmanager
async def without_horizon(dsn: str) -> AsyncIterator[Engine]:
    """An engine on a database of its own whose pushes do not announce themselves to the horizon."""
    async with migrate.connect(dsn) as connection:
        await connection.execute(sql("plain_database"))
    async with migrate.connect(plain := dsn.replace("/postgres", "/plain", 1)) as connection:
        await migrate.up(connection)
        await connection.execute(sql("without_horizon"))
    async with Engine(Database(plain, PoolOptions(size=10)), listen_url=plain) as engine:
        yield engine


async def rates_of(
    ceilings: Ceilings, verbs: Verbs, plain: Verbs, server: Server, options: argparse.Namespace
) -> tuple[dict[str, float], dict[str, float]]:
    """Messages a second, and messages for each second of the server's processors."""
    await verbs.prepare()
    await plain.prepare()
    seconds = options.seconds
    loads: dict[str, Callable[[], Awaitable[Done]]] = {
        "insert batch 100": lambda: ceilings.insert(seconds, 100, 4),
        "push batch 100": lambda: verbs.push(seconds, 100, 4),
        "push batch 100 without the horizon": lambda: plain.push(seconds, 100, 4),
        "push batch 100, limited queue": lambda: verbs.push(seconds, 100, 4, LIMITED),
        "pop+ack batch 100": lambda: verbs.pop_ack(seconds, 100, 8),
        "insert batch 1000": lambda: ceilings.insert(seconds, 1000, 4),
        "push batch 1000": lambda: verbs.push(seconds, 1000, 4),
        "pop+ack batch 1000": lambda: verbs.pop_ack(seconds, 1000, 8),
        "copy batch 1000": lambda: ceilings.copy(seconds, 1000, 4),
        "insert 1 x 32 connections": lambda: ceilings.rows(seconds, 32),
        "push 1 x 256 callers": lambda: verbs.push(seconds, 1, 256),
        "push 1 x 256 callers without the horizon": lambda: plain.push(seconds, 1, 256),
        "push 1 x 256 callers, limited queue": lambda: verbs.push(seconds, 1, 256, LIMITED),
        "push 1 x 1 caller": lambda: verbs.push(seconds, 1, 1),
        "cursor 1 x 16 connections": lambda: ceilings.cursors(seconds, 16),
        "consume 1 x 64 consumers": lambda: verbs.consume(seconds, 64),
        "pop+ack 1 x 64 consumers": lambda: verbs.pop_ack(seconds, 1, 64),
        "cursor 1 x 1 connection": lambda: ceilings.cursors(seconds, 1),
        "pop+ack 1 x 1 consumer": lambda: verbs.pop_ack(seconds, 1, 1),
        "consume 1 x 1 consumer": lambda: verbs.consume(seconds, 1),
        "ack 10,000 by lease": lambda: verbs.ack_many(failed=0, by_id=False),
        "ack 10,000 by id": lambda: verbs.ack_many(failed=0, by_id=True),
        "ack 10,000 by id, one failed": lambda: verbs.ack_many(failed=1, by_id=True),
    }
    # What is timed does not pay for the objects of the libraries that draw: full collections would walk them.
    gc.collect()
    gc.freeze()
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in loads}
    for number in range(options.rounds + 1):
        for name, load in loads.items():
            if name.startswith(("pop+ack", "consume")):
                await verbs.fill(FILL.get(name, 30_000))
            elif name.startswith("ack"):
                await verbs.pop_many(3)
            before = server.seconds()
            done = await load()
            used = max(server.seconds() - before, 0.01)
            if number:  # the first round only warms up
                samples[name].append((done.rate, done.count / used))
        print(f"round {number} of {options.rounds}", file=sys.stderr)
    rates, per_cpu = (
        {name: statistics.median(value[which] for value in values) for name, values in samples.items()}
        for which in (0, 1)
    )
    return rates, per_cpu


def show(result: dict[str, object]) -> None:
    rates, ratios, acks = result["rates"], result["ratios"], result["ack"]
    per_cpu = result["per_server_cpu_second"]
    assert isinstance(rates, dict)
    assert isinstance(per_cpu, dict)
    assert isinstance(ratios, dict)
    assert isinstance(acks, dict)
    for name, rate in rates.items():
        print(f"{name:40} {rate:>12,.0f} msg/s {1e6 / per_cpu[name]:>9,.1f} us of server CPU each")
    print()
    for name, row in ratios.items():
        goal = row["goal"]
        verdict = "" if goal is None else f"(goal {goal}) {'ok' if row['ratio'] >= goal else 'BELOW'}"
        share = f"{row['ratio_per_server_cpu']:6.2f} per server CPU"
        print(f"{name:36} {row['ratio']:6.2f} x {row['ceiling']:28} {share}  {verdict}")
    print()
    for name, share in result["horizon"].items():  # type: ignore[attr-defined]
        print(f"{name:28} {share:6.2f} x the same without the horizon")
    print()
    for way, cost in acks.items():
        print(
            f"ack of 100, {way:4}: {cost['rows']:6.1f} rows written, {cost['wal']:9,.0f} bytes of WAL, "
            f"{cost['seconds'] * 1000:.2f} ms on one connection"
        )
    for row in result["flatness"]:  # type: ignore[attr-defined]
        print("  ".join(f"{key}={value}" for key, value in row.items()))


def draw(result: dict[str, object]) -> None:
    ratios = result["ratios"]
    assert isinstance(ratios, dict)
    figure, axes = plt.subplots(figsize=(9, 5))
    axes.barh(list(ratios), [row["ratio"] for row in ratios.values()], color="#3b6ea5")
    for place, row in enumerate(ratios.values()):
        if row["goal"] is None:
            continue
        axes.plot([row["goal"], row["goal"]], [place - 0.4, place + 0.4], color="#c0392b")
    axes.set_xlabel("times the bare ceiling of the same run (red: the goal)")
    axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(RESULTS / "engine.png", dpi=110)


if __name__ == "__main__":
    main()
