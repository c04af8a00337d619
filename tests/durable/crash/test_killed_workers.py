"""Workers whose clocks disagree are killed -9 again and again; every instance ends, and ends right."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from queen.durable import Provider, WorkflowClient, events, open_provider
from queen.durable.codec import decode
from queen.durable.testing import eventually
from tests.durable.crash.story import EFFECTS, STEPS, journey
from tests.durable.stores import Address

pytestmark = pytest.mark.chaos
STEPS_PER_INSTANCE = STEPS + 1
SKEWS_MS = (-5_000, 0, 5_000)
# On SQLite locks go by the clock of who looks: with large skews a killed worker's locks stand for as long.
SMALL_SKEWS_MS = (-300, 0, 300)


class Crew:
    """Worker processes whose clocks disagree, and the hand that kills them."""

    def __init__(self, url: str, effects: Path, skews: Sequence[int], chance: random.Random) -> None:
        self._url = url
        self._effects = effects
        self._skews = skews
        self._chance = chance
        self._workers = [self._start(number) for number in range(len(skews))]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.durable.crash.story", self._url, str(self._skews[number])]
        return subprocess.Popen(command, env={**os.environ, EFFECTS: str(self._effects)}, stderr=subprocess.DEVNULL)

    def kill_one(self) -> bool:
        """Kill one of those that are at work; false when there is none."""
        ready = [n for n, each in enumerate(self._workers) if Path(f"{self._effects}.ready.{each.pid}").exists()]
        if not ready:
            return False
        victim = self._chance.choice(ready)
        self._workers[victim].send_signal(signal.SIGKILL)
        self._workers[victim].wait(10)
        self._workers[victim] = self._start(victim)
        return True

    def dismiss(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait(10)


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    return tmp_path / "effects"


@pytest.fixture
def chance() -> random.Random:
    return random.Random(4711)


@pytest.fixture
def crew(request: pytest.FixtureRequest, address: Address, effects: Path, chance: random.Random) -> Iterator[Crew]:
    small = address.kind == "sqlite" and request.node.get_closest_marker("scale") is None
    hired = Crew(address.where, effects, SMALL_SKEWS_MS if small else SKEWS_MS, chance)
    yield hired
    hired.dismiss()


async def start_and_kill(provider: Provider, crew: Crew, chance: random.Random, instances: int, kills: int) -> None:
    """Each kill comes while instances are under way: some are started, and one of them has begun."""
    client = WorkflowClient(provider)
    begun = 0
    for kill in range(1, kills + 1):
        for number in range(begun, instances * kill // kills):
            handle = await client.start(journey, number, id=f"j{number}")
            await handle.raise_event("go", number)
            await handle.send("inbox", number + 1)
        begun = instances * kill // kills
        await eventually(partial(has_begun, provider, f"j{begun - 1}"), within=60)
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        await eventually(partial(asyncio.to_thread, crew.kill_one), within=60)


async def has_begun(provider: Provider, instance: str) -> bool:
    return await provider.get_instance_info(instance) is not None


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


async def survive(
    url: str, crew: Crew, chance: random.Random, effects: Path, *, instances: int, kills: int, limit: float
) -> None:
    async with await open_provider(url) as provider:
        await start_and_kill(provider, crew, chance, instances, kills)
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
        depths = await provider.get_queue_depths()
        assert (depths.worker, depths.orchestrator) == (0, 0)


@pytest.mark.timeout(110)
async def test_a_few_instances_survive_a_few_kills(
    store_url: str, crew: Crew, chance: random.Random, effects: Path
) -> None:
    await survive(store_url, crew, chance, effects, instances=15, kills=5, limit=60)


@pytest.mark.scale
@pytest.mark.timeout(900)
async def test_two_hundred_instances_survive_forty_kills(
    store_url: str, crew: Crew, chance: random.Random, effects: Path
) -> None:
    await survive(store_url, crew, chance, effects, instances=200, kills=40, limit=600)
