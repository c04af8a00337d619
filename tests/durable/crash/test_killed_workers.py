"""Workers are killed -9 again and again; every instance ends, and ends right."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from queen.durable import Provider, WorkflowClient, events, open_provider
from queen.durable.codec import decode
from queen.durable.model import InstanceQuery
from tests.durable.crash.story import EFFECTS, STEPS, journey

pytestmark = pytest.mark.chaos
STEPS_PER_INSTANCE = STEPS + 1


class Crew:
    """Worker processes, and the hand that kills them."""

    def __init__(self, url: str, effects: Path, size: int) -> None:
        self._command = [sys.executable, "-m", "tests.durable.crash.story", url]
        self._environment = {**os.environ, EFFECTS: str(effects)}
        self._workers = [self._start() for _ in range(size)]
        self.kills: list[float] = []

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=self._environment, stderr=subprocess.DEVNULL)

    def kill_one(self) -> None:
        victim = random.randrange(len(self._workers))
        self._workers[victim].send_signal(signal.SIGKILL)
        self._workers[victim].wait(10)
        self._workers[victim] = self._start()
        self.kills.append(time.time() * 1000)

    def dismiss(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait(10)


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    return tmp_path / "effects"


@pytest.fixture
def crew(store_url: str, effects: Path) -> Iterator[Crew]:
    hired = Crew(store_url, effects, size=3)
    yield hired
    hired.dismiss()


async def start_all(provider: Provider, count: int, seconds: float) -> None:
    """Start instances one after the other, so that there is work under way whenever a worker is killed."""
    client = WorkflowClient(provider)
    begun = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, begun + seconds * number / count - time.monotonic()))
        handle = await client.start(journey, number, id=f"j{number}")
        await handle.raise_event("go", number)
        await handle.send("inbox", number + 1)


async def kill_now_and_then(crew: Crew, kills: int, pause: float) -> None:
    for _ in range(kills):
        await asyncio.sleep(random.uniform(pause * 0.5, pause * 1.5))
        await asyncio.to_thread(crew.kill_one)


def recorded_effects(effects: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for line in effects.read_text().splitlines():
        key, _, token = line.split()
        found[key].add(token)
    return found


async def check_instance(provider: Provider, instance: str, done: dict[str, set[str]]) -> list[str]:
    """The history has no gap and one end; every result in it is one that an effect was recorded for."""
    history = await provider.read(instance)
    assert [each.event_id for each in history] == list(range(1, len(history) + 1))
    ends = [each for each in history if isinstance(each, events.OrchestrationCompleted | events.OrchestrationFailed)]
    assert ends == [history[-1]]
    assert isinstance(ends[0], events.OrchestrationCompleted), ends
    schedules = {each.event_id: each for each in history if isinstance(each, events.ActivityScheduled)}
    answers = [each for each in history if isinstance(each, events.ActivityCompleted | events.ActivityFailed)]
    assert len({each.source_event_id for each in answers}) == len(answers) == len(schedules)
    tokens = []
    seed = history[0].seed_at(0) if isinstance(history[0], events.OrchestrationStarted) else ""
    for answer in answers:
        schedule = schedules[answer.source_event_id or 0]
        if schedule.name == "step" and isinstance(answer, events.ActivityCompleted):
            token = decode(answer.result, str)
            assert token in done[f"{instance}:{seed}:{schedule.event_id}"]
            tokens.append(token)
    return tokens


async def struck(provider: Provider, kills: list[float]) -> int:
    """How many kills fell into the life of an instance."""
    lives = []
    cursor: str | None = None
    while True:
        page = await provider.list_instances(InstanceQuery(limit=1000, cursor=cursor))
        lives += [(each.created_at_ms, each.updated_at_ms) for each in page.instances]
        if (cursor := page.next_cursor) is None:
            return sum(any(begun <= kill <= ended for begun, ended in lives) for kill in kills)


async def survive(url: str, crew: Crew, effects: Path, *, instances: int, kills: int, limit: float) -> None:
    async with await open_provider(url) as provider:
        await asyncio.gather(start_all(provider, instances, kills * 1.0), kill_now_and_then(crew, kills, pause=1.0))
        assert len(crew.kills) == kills
        deadline = time.monotonic() + limit
        client = WorkflowClient(provider)
        used: list[str] = []
        for number in range(instances):
            handle = client.handle(journey, f"j{number}")
            result = await handle.result(max(1.0, deadline - time.monotonic()))
            assert len(result) == STEPS_PER_INSTANCE
            used += result
        assert len(set(used)) == len(used), "each result is used exactly once"
        done = recorded_effects(effects)
        assert len(done) == instances * STEPS_PER_INSTANCE, "each effect happened, under its own key"
        in_history: list[str] = []
        for number in range(instances):
            for member in (await provider.get_instance_tree(f"j{number}")).ids:
                in_history += await check_instance(provider, member, done)
        assert sorted(in_history) == sorted(used)
        assert await struck(provider, crew.kills) > kills * 0.6, "workers were killed while they had work"
        depths = await provider.get_queue_depths()
        assert (depths.worker, depths.orchestrator) == (0, 0)


@pytest.mark.timeout(110)
async def test_a_few_instances_survive_a_few_kills(store_url: str, crew: Crew, effects: Path) -> None:
    await survive(store_url, crew, effects, instances=24, kills=8, limit=60)


@pytest.mark.scale
@pytest.mark.timeout(900)
async def test_two_hundred_instances_survive_forty_kills(store_url: str, crew: Crew, effects: Path) -> None:
    await survive(store_url, crew, effects, instances=200, kills=40, limit=600)
