from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import pytest
from bench.app import compare

import queen
from queen.engine import Engine
from queen.model import NewMessage

pytestmark = [pytest.mark.measure, pytest.mark.timeout(300)]
PAYLOAD = {"order": 123, "customer": "acme", "lines": [1, 2, 3]}
TEXT = '{"order":123,"customer":"acme","lines":[1,2,3]}'


async def rate(count: int, work: Callable[[], Awaitable[object]]) -> float:
    """Messages per second."""
    started = time.perf_counter()
    await work()
    return count / (time.perf_counter() - started)


async def engine_rate(database: str, queue: str, count: int, batch: int) -> float:
    """The engine's own speed in batches, one partition each."""
    async with Engine.connect(database) as engine:

        async def work() -> None:
            for start in range(0, count, batch):
                lane = f"p{start // batch % 10}"
                await engine.push([NewMessage(queue=queue, partition=lane, payload=TEXT) for _ in range(batch)])

        await rate(batch, lambda: engine.push([NewMessage(queue=queue, partition="p0", payload=TEXT)]))
        return await rate(count, work)


async def test_single_pushes_reach_two_fifths_of_the_engines_batches(
    database: str, record_property: Callable[[str, object], None]
) -> None:
    async with queen.connect(database) as q:

        async def singles() -> None:
            await asyncio.gather(*(q.push("orders", PAYLOAD, partition=f"p{number % 10}") for number in range(10_000)))

        await singles()
        ratios = []
        for attempt in range(3):
            batches = await engine_rate(database, f"batches-{attempt}", 20_000, 100)
            single = await rate(10_000, singles)
            ratios.append(single / batches)
    record_property("single_to_batches_of_100", round(median(ratios), 2))
    assert median(ratios) >= 0.4


async def test_lines_from_a_file_reach_half_of_the_engines_batches(
    database: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text(f"{TEXT}\n" * 100_000)
    ratios = []
    for attempt in range(3):
        batches = await engine_rate(database, f"batches-{attempt}", 100_000, 1000)
        seconds, shown = await asyncio.to_thread(push_on_a_terminal, database, f"lines-{attempt}", file)
        assert re.search(r"100,000 messages +\[#+\] +100%", shown)
        ratios.append(100_000 / seconds / batches)
    record_property("lines_to_batches_of_1000", round(median(ratios), 2))
    assert median(ratios) >= 0.5


def push_on_a_terminal(database: str, queue: str, file: Path) -> tuple[float, str]:
    """Run `queen push` as people do, with a terminal; returns the seconds it took and what it drew."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "queen", "push", queue, "--url", database, "--file", str(file)]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        drawn += part
    assert process.wait(60) == 0, drawn.decode()
    os.close(ours)
    return time.perf_counter() - started, drawn.decode()


async def test_a_task_costs_at_most_a_tenth_more_than_a_handler(
    database: str, record_property: Callable[[str, object], None]
) -> None:
    plain, app, ratio = await compare(database, turns=5)
    record_property("app_to_consume", round(ratio, 3))
    assert ratio <= 1.1, f"{app:.0f} us against {plain:.0f} us"


def test_importing_queen_is_quick(record_property: Callable[[str, object], None]) -> None:
    """Processor time of the import alone, the best of several: what else the machine does is not ours."""
    code = "import time; t = time.process_time(); import queen; print(time.process_time() - t)"
    command = [sys.executable, "-c", code]
    took = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(7)]
    record_property("import_milliseconds", round(min(took) * 1000, 1))
    assert min(took) < 0.05
