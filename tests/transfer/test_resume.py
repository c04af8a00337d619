"""A copy that is killed goes on where it stopped; its memory does not grow with what it copies."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from queen.transfer.generator import Sizes, generate
from queen.transfer.link import open_link
from queen.transfer.model import Version
from queen.transfer.verify import verify
from tests.support.postgres import Postgres
from tests.support.wait import wait_for
from tests.transfer.places import ask, begin, hurry

KILLS = 3


def start(version: Version, database: str, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "queen", "migrate", f"from-{version}", "--source", database, "copy"]
    with log.open("ab") as told:
        return subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT)


def copied_so_far(database: str) -> int:
    ((count,),) = ask(database, "select count(*) from queen_transfer.progress where copied")
    return int(str(count))


def kill_at(process: subprocess.Popen[bytes], database: str, partitions: int) -> None:
    try:
        wait_for(lambda: copied_so_far(database) >= partitions or process.poll() is not None, limit=60, pause=0.002)
    finally:
        process.kill()
        process.wait()


def watched(process: subprocess.Popen[bytes], limit: float) -> tuple[int, list[int]]:
    """Wait for a process and look at its memory as it goes."""
    sizes: list[int] = []
    deadline = time.monotonic() + limit
    while process.poll() is None:
        assert time.monotonic() < deadline, "the copy does not end"
        try:
            sizes.append(psutil.Process(process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            break
        time.sleep(0.2)
    return process.wait(), sizes


async def passes(version: Version, database: str) -> bool:
    async with open_link(version, database) as link:
        report = await verify(link)
        assert report.passed, report.differences[:5]
        return report.compared["messages"] > 0


@pytest.mark.chaos
def test_a_copy_that_is_killed_goes_on(database: str, tmp_path: Path) -> None:
    """Small twin: killed at points of its progress that a seed chooses."""
    asyncio.run(hurry(database))
    asyncio.run(generate(database, "v3", Sizes(queues=3, partitions=1200, messages=4000, groups=2)))
    asyncio.run(begin(database, database, "v3"))
    dice = random.Random(17)
    log = tmp_path / "log"
    for share in sorted(dice.uniform(0.05, 0.8) for _ in range(KILLS)):
        kill_at(start("v3", database, log), database, round(share * 1200))
    assert 0 < copied_so_far(database) <= 1200
    code, _ = watched(start("v3", database, log), 100)
    assert code == 0, log.read_text()
    assert asyncio.run(passes("v3", database))


@pytest.mark.scale
@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", ["v3", "v2"])
def test_a_million_messages_killed_three_times(
    postgres: Postgres, version: Version, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with postgres.scratch("template0") as database:
        sizes = Sizes(
            queues=5, partitions=1000, messages=int(os.environ.get("QUEEN_TEST_TRANSFER", "1000000")), groups=10
        )
        asyncio.run(generate(database, version, sizes))
        dice = random.Random(time.time_ns())
        log = tmp_path / "log"
        for _ in range(KILLS):
            process = start(version, database, log)
            time.sleep(dice.uniform(4, 12))
            assert process.poll() is None, "it was done before it was killed: take more messages"
            process.send_signal(signal.SIGKILL)
            process.wait()
        began = time.monotonic()
        code, memory = watched(start(version, database, log), 3000)
        seconds = time.monotonic() - began
        told = log.read_text()
        assert code == 0, told
        rates = re.findall(r"[\d,]+ of [\d,]+  [\d,]+/s", told)
        assert rates
        began = time.monotonic()
        assert asyncio.run(passes(version, database))
        with capsys.disabled():
            sys.stdout.write(
                f"\n{version}: last run {seconds:.0f} s, {rates[-1]}, memory {min(memory[5:]) >> 20} to "
                f"{max(memory) >> 20} MiB, verify {time.monotonic() - began:.0f} s\n"
            )
        assert max(memory) < 200 << 20
        assert max(memory[len(memory) // 2 :]) < 1.3 * max(memory[: len(memory) // 2])
