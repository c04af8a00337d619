"""Limited work of several processes, some of them killed: never above the limit, and all of it done."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from queen.durable import WorkflowClient, open_provider
from queen.durable.testing import eventually
from tests.durable.crash.limited import AT_ONCE, KEYS, LOG, PER_KEY, keyed

pytestmark = pytest.mark.chaos


class Processes:
    """Workers with one log."""

    def __init__(self, url: str, log: Path, size: int) -> None:
        self._command = [sys.executable, "-m", "tests.durable.crash.limited", url]
        self._environment = {**os.environ, LOG: str(log)}
        self.dead: set[int] = set()
        self.alive = [self._start() for _ in range(size)]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment, stderr=subprocess.DEVNULL)

    def kill(self, pid: int) -> None:
        """Kill a process and put another in its place."""
        (victim,) = [each for each in self.alive if each.pid == pid]
        self.alive.remove(victim)
        victim.send_signal(signal.SIGKILL)
        victim.wait(10)
        self.dead.add(pid)
        self.alive.append(self._start())

    def dismiss(self) -> None:
        for each in self.alive:
            each.kill()
            each.wait(10)


def most_at_once(lines: list[str], dead: set[int]) -> dict[str, int]:
    """The highest number of runs between their begin and end, by group; a run of a killed process ended with it."""
    running: defaultdict[str, set[str]] = defaultdict(set)
    most: defaultdict[str, int] = defaultdict(int)
    last_of = {int(line.split()[1]): number for number, line in enumerate(lines)}
    holders: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines):
        _, pid, group, what, run = line.split()
        if what == "begin":
            running[group].add(run)
            holders[group, run] = int(pid)
            most[group] = max(most[group], len(running[group]))
        else:
            running[group].discard(run)
        if int(pid) in dead and number == last_of[int(pid)]:
            for (held, one), owner in list(holders.items()):
                if owner == int(pid) and held == "activity":
                    running[held].discard(one)
    return dict(most)


def holder(log: Path, alive: set[int]) -> int | None:
    """A living process that is inside a limited activity right now."""
    inside: dict[str, int] = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        _, pid, group, what, run = line.split()
        if group == "activity":
            if what == "begin":
                inside[run] = int(pid)
            else:
                inside.pop(run, None)
    return next((pid for pid in inside.values() if pid in alive), None)


async def run_limited(url: str, log: Path, instances: int, kills: int) -> tuple[dict[str, int], int]:
    crew = Processes(url, log, size=3)
    try:
        async with await open_provider(url) as provider:
            client = WorkflowClient(provider)
            handles = [await client.start(keyed, number, id=f"k{number}") for number in range(instances)]
            for _ in range(kills):
                pid = await eventually(lambda: holder(log, {each.pid for each in crew.alive}), within=60)
                await asyncio.to_thread(crew.kill, pid)
            for number, handle in enumerate(handles):
                assert await handle.result(120) == number
            left = await provider.get_queue_depths()
            assert (left.worker, left.orchestrator) == (0, 0)
    finally:
        crew.dismiss()
    lines = (await asyncio.to_thread(log.read_text)).splitlines()
    return most_at_once(lines, crew.dead), len({line.split()[4] for line in lines if " activity begin " in line})


def check(most: dict[str, int], runs: int, instances: int) -> None:
    assert 0 < most["activity"] <= AT_ONCE, most
    assert all(0 < most[f"key-{key}"] <= PER_KEY for key in range(KEYS)), most
    assert runs >= instances


@pytest.mark.timeout(150)
async def test_limited_work_is_never_above_its_limit(store_url: str, tmp_path: Path) -> None:
    most, runs = await run_limited(store_url, tmp_path / "log", instances=40, kills=1)
    check(most, runs, 40)


@pytest.mark.scale
@pytest.mark.timeout(900)
async def test_two_hundred_limited_instances_are_never_above_their_limit(store_url: str, tmp_path: Path) -> None:
    most, runs = await run_limited(store_url, tmp_path / "log", instances=200, kills=5)
    check(most, runs, 200)


def test_the_checker_sees_one_too_many() -> None:
    lines = [f"{n} 7 activity begin r{n}" for n in range(AT_ONCE + 1)]
    assert most_at_once(lines, set())["activity"] == AT_ONCE + 1
    assert most_at_once([lines[0], "1 7 activity end r0", lines[1]], set())["activity"] == 1
