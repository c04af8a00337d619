"""What an analysis costs with one hundredth of its data new, and with nothing new, beside going through everything.

A lake of a hundred days is made up (`tests/pipelines/support/facts.py`), all but its last day: a full run. Then the
last day comes: one hundredth. Then nothing. Each analysis runs in the same session, after one run that does not count;
the run with nothing new is a command of its own, with the start of its process. Prints a table and writes
bench/results/incremental.json.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import psycopg

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from spark import free_port, prepare  # noqa: E402 - beside this file

from queen.db.embedded import EmbeddedServer  # noqa: E402
from queen.spark.database import Database  # noqa: E402
from queen.spark.lake import Lake  # noqa: E402
from queen.spark.pipelines.running import Job, Runner  # noqa: E402
from queen.spark.session import session  # noqa: E402
from tests.pipelines.support.facts import DAY, START, Facts, archive, make_facts  # noqa: E402

ANALYSES = ("rollups", "traces", "triage")
DAYS = 100
GOAL = 0.1
FORGET = ("pipeline_state", "pipeline_days", "rollups", "pipeline_runs")


def main(orders: int) -> None:
    """Measure, print, write."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        folder.chmod(0o711)
        with EmbeddedServer.start(folder / "data", port=free_port()) as server:
            url = server.tcp_dsn()
            asyncio.run(prepare(url))
            result = measure(url, folder, orders)
    print(json.dumps(result, indent=1))
    (HERE / "results" / "incremental.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def measure(url: str, folder: Path, orders: int) -> dict[str, Any]:
    """Full, with one hundredth new, with nothing new."""
    facts = make_facts(1, orders, days=DAYS, late=0.0005, stops=DAYS)
    settings = {"spark.driver.memory": "2g", "spark.ui.enabled": "false"}
    spark = session("local[2]", app="bench", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    with closing(Database(url)) as database:
        identity = database.row("identity")["database"]
    lake = Lake.make(folder / "lake", identity)
    for day in range(1, DAYS):
        archive(lake, facts, START + day * DAY)
    job = {name: Runner(Job([name], url, folder / "lake", "local[2]"), spark) for name in ANALYSES}
    warm(url, job)
    full = {name: timed(job[name]) for name in ANALYSES}
    archive(lake, facts, START + DAYS * DAY)
    after = {name: timed(job[name]) for name in ANALYSES}
    spark.stop()
    nothing = {name: unchanged(url, folder / "lake", name) for name in ANALYSES}
    return told(facts, full, after, nothing)


def warm(url: str, job: dict[str, Runner]) -> None:
    """One run of each that does not count, and is forgotten."""
    for runner in job.values():
        runner.run()
    with psycopg.connect(url, autocommit=True) as connection:
        for table in FORGET:
            connection.execute(f"truncate queen.{table} cascade".encode())


def timed(runner: Runner) -> tuple[float, dict[str, Any]]:
    """How long a run takes, and its figures."""
    began = time.perf_counter()
    outcome = runner.run()[-1].outcome
    return time.perf_counter() - began, dict(outcome.figures)


def unchanged(url: str, lake: Path, name: str) -> float:
    """How long a command takes that finds nothing new, from its start to its end."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "queen", "pipeline", "run", name, "--url", url, "--lake", str(lake), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    if "same_as" not in done.stdout:
        raise SystemExit(f"{name} found something new: {done.stdout}")
    return time.perf_counter() - began


def told(facts: Facts, full: dict[str, Any], after: dict[str, Any], nothing: dict[str, float]) -> dict[str, Any]:
    """The figures of the bench."""
    return {
        "messages": len(facts.messages),
        "days": DAYS,
        "analyses": {
            name: {
                "full_seconds": round(full[name][0], 2),
                "one_hundredth_new_seconds": round(after[name][0], 2),
                "ratio": round(after[name][0] / full[name][0], 3),
                "nothing_new_seconds": round(nothing[name], 2),
                **{key: after[name][1].get(key) for key in ("files_read", "files", "days")},
            }
            for name in ANALYSES
        },
        "goal": GOAL,
        "load_average": psutil.getloadavg()[0],
    }
