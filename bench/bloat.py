"""What an idle transaction that holds back clean-up costs: push, pop, ack cycles while it is open, and after it ends.

    python bench/bloat.py             150 000 cycles over 1 000 partitions, 5 000 cycles on one
    python bench/bloat.py --quick     a tenth of it

Every cycle is one push, one pop and one ack of a message, one after the other, so that the curve shows the
statements and not the batching. Prints the curve with table and index sizes, writes bench/results/bloat.json and
bench/results/bloat.png.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
import matplotlib as mpl

mpl.use("agg")
sys.path.insert(0, str(Path(__file__).parent))

from loads import PAYLOAD, sql
from matplotlib import pyplot as plt

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database, PoolOptions
from queen.engine import Engine
from queen.model import NewMessage, PopRequest

RESULTS = Path(__file__).parent / "results"
POINTS = 25


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure pops while clean-up is held back.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the cycles")
    scale = 10 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with EmbeddedServer.start(Path(directory) / "data", settings={"fsync": "off"}) as server:
            dsn = server.dsn("postgres")
            many = asyncio.run(curve(dsn, "many", 1000, 150_000 // scale))
            one = asyncio.run(curve(dsn, "one", 1, 5_000 // scale))
    result = {"1000 partitions": many, "1 partition": one}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "bloat.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, points in result.items():
        print(name)
        for point in points:
            print("  " + "  ".join(f"{key} {value}" for key, value in point.items()))
    draw(result)


async def curve(dsn: str, queue: str, partitions: int, cycles: int) -> list[dict[str, object]]:
    """Points along the cycles: the median pop and the sizes, then one after the transaction ended."""
    async with migrate.connect(dsn) as connection:
        await migrate.up(connection)
    async with Engine(Database(dsn, PoolOptions(size=4)), listen_url=None) as engine:
        await engine.push([NewMessage(queue=queue, partition=f"p{n}", payload=PAYLOAD) for n in range(partitions)])
        await engine.register(queue, "g")
        while await cycle(engine, queue, None):
            pass
        holder = await asyncpg.connect(dsn)
        transaction = holder.transaction(isolation="repeatable_read")
        await transaction.start()
        await holder.fetch(sql("hold_snapshot"))
        points = []
        step = max(cycles // POINTS, 1)
        for start in range(0, cycles, step):
            times = [await cycle(engine, queue, f"p{n % partitions}") for n in range(start, start + step)]
            points.append(await point(engine, str(start + step), times))
            print(f"{queue}: {start + step:,} of {cycles:,} cycles", file=sys.stderr)
        await transaction.rollback()
        await holder.close()
        async with engine.database.connection() as connection:
            await connection.execute(sql("vacuum_consumers"))
        times = [await cycle(engine, queue, f"p{n % partitions}") for n in range(step)]
        points.append(await point(engine, "after it ended", times))
    return points


async def cycle(engine: Engine, queue: str, partition: str | None) -> float:
    """Push one message (unless no partition is given), pop one, acknowledge it; returns how long the pop took."""
    if partition is not None:
        await engine.push([NewMessage(queue=queue, partition=partition, payload=PAYLOAD)])
    started = time.perf_counter()
    messages = await engine.pop(PopRequest(queue=queue, group="g"))
    spent = time.perf_counter() - started
    await engine.ack_messages(messages)
    return spent if messages else 0.0


async def point(engine: Engine, cycles: str, times: list[float]) -> dict[str, object]:
    sizes = await engine.database.fetchrow(sql("sizes"))
    return {
        "cycles": cycles,
        "pop_ms": round(statistics.median(times) * 1000, 3),
        "table_mb": round(sizes["table_bytes"] / 2**20, 1),
        "indexes_mb": round(sizes["index_bytes"] / 2**20, 1),
    }


def draw(result: dict[str, list[dict[str, object]]]) -> None:
    figure, panels = plt.subplots(1, len(result), figsize=(10, 3.5))
    for axes, (name, points) in zip(panels, result.items(), strict=True):
        held = points[:-1]
        axes.plot([int(str(one["cycles"])) for one in held], [one["pop_ms"] for one in held], color="#3b6ea5")
        axes.axhline(points[-1]["pop_ms"], color="#2e8b57", linestyle="--", label="after the transaction ended")
        axes.set_title(name)
        axes.set_xlabel("cycles while clean-up is held back")
        axes.set_ylabel("median pop, ms")
        axes.set_ylim(bottom=0)
        axes.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "bloat.png", dpi=110)


if __name__ == "__main__":
    main()
