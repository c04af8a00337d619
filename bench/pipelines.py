"""What the archive costs, beside the connector's plain read to Parquet in the same run; and what the driver holds.

    python bench/pipelines.py              a million messages, three rounds (about four minutes)
    python bench/pipelines.py --quick      a short look
    python bench/pipelines.py --incremental    analyses with one hundredth new beside full ones (bench/incremental.py)

Rounds are interleaved after one that does not count, and medians compared. Then the archive runs as a command of its
own on a tenth of the messages and on all of them, and the most memory its driver ever held is printed. Prints a table
and writes bench/results/pipelines.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import incremental
import psutil
import psycopg
from pyspark.sql import SparkSession
from spark import PARTITIONS, PAYLOAD, free_port, prepare

from queen.db.embedded import EmbeddedServer
from queen.spark.lake import Lake
from queen.spark.lake.compaction import compact
from queen.spark.lake.verify import verify
from queen.spark.pipelines.running import Job, Runner
from queen.spark.session import session

HERE = Path(__file__).parent
GOAL = 0.8
FILL = """select from queen.push_messages(
    array_fill('bench'::text, array[%(lanes)s]),
    array(select 'p' || i from generate_series(1, %(lanes)s) i),
    array(select i / 10 + 1 from generate_series(0, %(lanes)s * 10 - 1) i),
    array(select i %% 10 from generate_series(0, %(lanes)s * 10 - 1) i),
    array(select gen_random_uuid() from generate_series(1, %(lanes)s * 10)),
    array_fill(%(payload)s::jsonb, array[%(lanes)s * 10]))"""


class Bench:
    """A filled queue, and the two ways to put it into files."""

    def __init__(self, url: str, spark: SparkSession, folder: Path) -> None:
        self.url = url
        self.spark = spark
        self.folder = folder

    def plain(self) -> None:
        """What the connector does by itself."""
        target = self.folder / "parquet"
        frame = self.spark.read.format("queen").option("url", self.url).load()
        frame.write.mode("overwrite").parquet(str(target))
        shutil.rmtree(target)

    def archive(self) -> None:
        """The pipeline, into a new lake."""
        target = self.folder / "lake"
        shutil.rmtree(target, ignore_errors=True)
        Runner(Job(["archive"], self.url, target, "local[2]"), self.spark).run()


def fill(url: str, rows: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(-(-rows // (PARTITIONS * 10))):
            connection.execute(FILL, {"lanes": PARTITIONS, "payload": PAYLOAD})
        connection.execute("vacuum analyze")


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def rounds(bench: Bench, count: int) -> dict[str, list[float]]:
    loads = {"plain": bench.plain, "archive": bench.archive}
    took: dict[str, list[float]] = {name: [] for name in loads}
    for turn in range(count + 1):
        for name in random.sample(sorted(loads), len(loads)):
            seconds = timed(loads[name])
            if turn:
                took[name].append(seconds)
    return took


def driver_memory(url: str, lake: Path) -> dict[str, float]:
    """The most that the driver of one archive held, in megabytes: its Python, and its Java (with the tasks in it)."""
    command = [sys.executable, "-m", "queen", "pipeline", "run", "archive", "--once", "--master", "local[2]"]
    command += ["--url", url, "--lake", str(lake)]
    most = {"python": 0.0, "java": 0.0}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        process = psutil.Process(driver.pid)
        while driver.poll() is None:
            try:
                most["python"] = max(most["python"], process.memory_info().rss / 1e6)
                java = [each for each in process.children(recursive=True) if each.name() == "java"]
                most["java"] = max(most["java"], *(each.memory_info().rss / 1e6 for each in java), 0.0)
            except psutil.Error:
                continue
            time.sleep(0.05)
        if driver.returncode:
            raise SystemExit(f"the archive failed with exit code {driver.returncode}")
    return {name: round(value) for name, value in most.items()}


def main() -> None:
    options = arguments()
    if options.incremental:
        incremental.main(options.orders)
        return
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        folder.chmod(0o711)
        with EmbeddedServer.start(folder / "data", port=free_port()) as server:
            result = measure(server, folder, options.rows, options.rounds)
    print(json.dumps(result, indent=1))
    if not options.quick:
        (HERE / "results" / "pipelines.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def measure(server: EmbeddedServer, folder: Path, rows: int, count: int) -> dict[str, Any]:
    url = server.tcp_dsn()
    asyncio.run(prepare(url))
    fill(url, rows // 10)
    small = driver_memory(url, folder / "small")
    fill(url, rows - rows // 10)
    large = driver_memory(url, folder / "large")
    spark = session("local[2]", app="bench", settings={"spark.driver.memory": "2g", "spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    bench = Bench(url, spark, folder)
    took = rounds(bench, count)
    lake = Lake.open(folder / "lake")
    checked = timed(lambda: require(verify(lake, url, spark).agrees))
    compacted = timed(lambda: require(compact(spark, lake).after > 0))
    spark.stop()
    seconds = {name: round(statistics.median(values), 2) for name, values in took.items()}
    ratio = seconds["plain"] / seconds["archive"]
    return {
        "messages": rows,
        "rounds": count,
        "seconds": seconds,
        "messages_per_second": {name: round(rows / value) for name, value in seconds.items()},
        "all_seconds": {name: [round(value, 2) for value in values] for name, values in took.items()},
        "archive_beside_plain_read": round(ratio, 2),
        "goal": GOAL,
        "met": ratio >= GOAL,
        "driver_megabytes": {f"{rows // 10} messages": small, f"{rows} messages": large},
        "verify_seconds": round(checked, 2),
        "compact_seconds": round(compacted, 2),
        "load_average": psutil.getloadavg()[0],
    }


def require(holds: bool) -> None:  # noqa: FBT001
    if not holds:
        raise SystemExit("the lake and the database differ")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the archive.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, one round, no results written")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--incremental", action="store_true", help="the analyses instead of the archive")
    parser.add_argument("--orders", type=int, default=60_000, help="orders in a hundred days, for --incremental")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.rounds = options.rows // 10, 1
    return options


if __name__ == "__main__":
    main()
