"""How fast the Spark connector is, beside Spark's own JDBC reader, bare ADBC streams and the engine's push, in one run.

    python bench/spark.py              a million rows, five rounds (about ten minutes)
    python bench/spark.py --quick      a short look
    python bench/spark.py --keep DIR   leaves the filled database there for the next run

Rounds are interleaved in random order after one that does not count, and medians compared, so a busy machine moves
all sides alike. Prints a table and writes bench/results/spark.json. JDBC needs Debian's libpostgresql-jdbc-java, or
the jar that QUEEN_BENCH_JDBC_JAR names.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
from psycopg.rows import TupleRow
from pyspark.sql import DataFrame, SparkSession

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.engine import Engine
from queen.model import NewMessage
from queen.spark.database import Connection
from queen.spark.session import session

HERE = Path(__file__).parent
RESULTS = HERE / "results"
JAR = Path(os.environ.get("QUEEN_BENCH_JDBC_JAR", "/usr/share/java/postgresql.jar"))
PARTITIONS = 500
PAYLOAD = json.dumps({"customer": "c-0000042", "items": [1, 2, 3], "note": "x" * 150})
# Our time, what it is held against, and the least ratio of the rates.
GOALS = {
    "queen -> parquet": ("jdbc -> parquet", 0.8),
    "sink": ("engine push batch 1000", 0.6),
}


class Bench:
    """One server with a filled queue, one Spark session, and the loads to compare."""

    def __init__(self, server: EmbeddedServer, spark: SparkSession, rows: int, folder: Path) -> None:
        self.url = server.tcp_dsn()
        self.spark = spark
        self.rows = rows
        self.folder = folder
        self.written = 0
        self.query = (HERE / "sql" / "spark_messages.sql").read_text(encoding="utf-8")

    def fill(self) -> None:
        """The rows to read, spread over the partitions in pieces of ten, unless they are there already."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            if self.find(connection):
                return
            for _ in range(-(-self.rows // (PARTITIONS * 10))):
                connection.execute(
                    """select from queen.push_messages(
                           array_fill('bench'::text, array[%(lanes)s]),
                           array(select 'p' || i from generate_series(1, %(lanes)s) i),
                           array(select i / 10 + 1 from generate_series(0, %(lanes)s * 10 - 1) i),
                           array(select i %% 10 from generate_series(0, %(lanes)s * 10 - 1) i),
                           array(select gen_random_uuid() from generate_series(1, %(lanes)s * 10)),
                           array_fill(%(payload)s::jsonb, array[%(lanes)s * 10]))""",
                    {"lanes": PARTITIONS, "payload": PAYLOAD},
                )
            connection.execute("vacuum analyze")
            self.find(connection)

    def find(self, connection: psycopg.Connection[TupleRow]) -> bool:
        """Where the rows to read are; False when there are fewer than wanted."""
        found = connection.execute(f"select min(pos), max(pos) + 1, count(*) from ({self.query}) m").fetchone()
        if found is None or found[2] < self.rows:
            return False
        self.low, self.high, self.rows = found
        return True

    def queen(self) -> DataFrame:
        return self.spark.read.format("queen").option("url", self.url).option("queue", "bench").load()

    def jdbc(self) -> DataFrame:
        parts = urlsplit(self.url)
        reader = self.spark.read.format("jdbc").option("driver", "org.postgresql.Driver")
        reader = reader.option("url", f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}")
        reader = reader.option("user", parts.username or "").option("password", parts.password or "")
        reader = reader.option("dbtable", f"({self.query}) as messages").option("fetchsize", 10_000)
        reader = reader.option("partitionColumn", "pos").option("numPartitions", 2)
        return reader.option("lowerBound", self.low).option("upperBound", self.high).load().drop("pos")

    def to_noop(self, frame: DataFrame) -> int:
        frame.write.format("noop").mode("overwrite").save()
        return self.rows

    def to_parquet(self, frame: DataFrame) -> int:
        target = self.folder / "parquet"
        frame.write.mode("overwrite").parquet(str(target))
        shutil.rmtree(target)
        return self.rows

    def streams(self) -> int:
        """Two bare ADBC streams over half the rows each, nothing done with them."""
        middle = (self.low + self.high) // 2
        counts: list[int] = []

        def read(low: int, high: int) -> None:
            connection = Connection(self.url)
            counts.append(connection.fetch(f"{self.query} and m.pos >= {low} and m.pos < {high}", bulk=True).num_rows)
            connection.close()

        threads = [threading.Thread(target=read, args=span) for span in ((self.low, middle), (middle, self.high))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts)

    def sink(self) -> int:
        """A third of the rows written to a queue of their own."""
        rows = self.rows // 3
        self.written += 1
        numbers = self.spark.range(rows, numPartitions=2)
        frame = numbers.selectExpr(f"'p' || (id % {PARTITIONS}) as partition", f"'{PAYLOAD}' as payload")
        frame.write.format("queen").mode("append").option("url", self.url).option("queue", f"out{self.written}").save()
        return rows

    def push(self) -> int:
        """A third of the rows pushed by the engine in batches of 1000, two callers."""
        rows = self.rows // 3 // 2000 * 2000
        self.written += 1
        queue = f"out{self.written}"

        async def caller(engine: Engine, number: int) -> None:
            for turn in range(rows // 2000):
                lane = f"p{(number + 2 * turn) % PARTITIONS}"
                await engine.push([NewMessage(queue=queue, partition=lane, payload=PAYLOAD) for _ in range(1000)])

        async def run() -> None:
            async with Engine.connect(self.url) as engine:
                await asyncio.gather(caller(engine, 0), caller(engine, 1))

        asyncio.run(run())
        return rows

    def loads(self) -> dict[str, Callable[[], int]]:
        """What is compared."""
        found: dict[str, Callable[[], int]] = {
            "two adbc streams": self.streams,
            "queen -> noop": lambda: self.to_noop(self.queen()),
            "queen -> parquet": lambda: self.to_parquet(self.queen()),
            "sink": self.sink,
            "engine push batch 1000": self.push,
        }
        if JAR.exists():
            found["jdbc -> noop"] = lambda: self.to_noop(self.jdbc())
            found["jdbc -> parquet"] = lambda: self.to_parquet(self.jdbc())
        return found


def measure(bench: Bench, rounds: int, only: str) -> dict[str, list[float]]:
    """Rows per second of each load, round by round."""
    loads = [(name, load) for name, load in bench.loads().items() if only in name]
    rates: dict[str, list[float]] = {name: [] for name, _ in loads}
    for number in range(rounds + 1):
        random.shuffle(loads)
        for name, load in loads:
            began = time.perf_counter()
            rows = load()
            rate = rows / (time.perf_counter() - began)
            print(f"round {number} {name:24} {rate:10,.0f} rows/s", flush=True)
            if number:
                rates[name].append(rate)
    return rates


def report(rates: dict[str, list[float]], rows: int) -> dict[str, object]:
    """Medians, ranges and ratios."""
    table = {
        name: {"median": round(statistics.median(values)), "least": round(min(values)), "most": round(max(values))}
        for name, values in rates.items()
        if values
    }
    ratios = {
        f"{ours} / {theirs}": {"ratio": round(table[ours]["median"] / table[theirs]["median"], 2), "goal": goal}
        for ours, (theirs, goal) in GOALS.items()
        if ours in table and theirs in table
    }
    return {
        "rows": rows,
        "cores": os.cpu_count(),
        "load": [round(value, 1) for value in psutil.getloadavg()],
        "rows_per_second": table,
        "ratios": ratios,
    }


def main() -> None:
    options = arguments()
    settings = {"spark.driver.memory": "2g", "spark.ui.enabled": "false"}
    if JAR.exists():
        settings["spark.jars"] = str(JAR)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        folder.chmod(0o711)
        with EmbeddedServer.start(options.keep or folder / "data", port=free_port()) as server:
            asyncio.run(prepare(server.tcp_dsn()))
            spark = session("local[2]", app="bench", settings=settings)
            spark.sparkContext.setLogLevel("ERROR")
            bench = Bench(server, spark, options.rows, folder)
            bench.fill()
            result = report(measure(bench, options.rounds, options.only), bench.rows)
            spark.stop()
    text = json.dumps(result, indent=1)
    print(text)
    if not options.quick and not options.only:
        (RESULTS / "spark.json").write_text(text + "\n", encoding="utf-8")


async def prepare(url: str) -> None:
    async with migrate.connect(url) as connection:
        await migrate.up(connection)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the Spark connector.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, two rounds, no results written")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", default="", help="loads with this in their name, for example parquet; no results written"
    )
    parser.add_argument("--keep", type=Path, help="a directory for the database, which then stays")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.rounds = options.rows // 10, 2
    return options


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    main()
