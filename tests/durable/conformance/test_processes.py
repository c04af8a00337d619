"""Several real processes on one store."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queen.durable.provider import Provider
from tests.durable.conformance.story import start
from tests.durable.stores import Address
from tests.support.tree import ROOT
from tests.support.wait import eventually

INSTANCES = [f"i{number}" for number in range(60)]


def racer(address: Address, held: Path, lock_ms: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.durable.conformance.racer",
            address.kind,
            address.where,
            held,
            str(lock_ms),
            "60",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextlib.contextmanager
def racers(address: Address, held: Path, count: int, lock_ms: int) -> Iterator[list[subprocess.Popen[str]]]:
    held.mkdir()
    running = [racer(address, held, lock_ms) for _ in range(count)]
    try:
        yield running
    finally:
        for process in running:
            said(process)


def is_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def said(process: subprocess.Popen[str]) -> list[str]:
    """Kill it and read what it said; nothing is left when asked again."""
    process.kill()
    if process.stdout is None or process.stdout.closed:
        return []
    return process.communicate(timeout=10)[0].splitlines()


async def all_completed(provider: Provider) -> bool:
    return (await provider.get_system_metrics()).completed == len(INSTANCES)


async def check_histories(provider: Provider) -> None:
    for instance in INSTANCES:
        events = await provider.read(instance)
        assert [event.event_id for event in events] == list(range(1, 7)), instance
        assert [type(event).__name__ for event in events].count("OrchestrationCompleted") == 1


async def test_processes_share_the_work_and_never_an_instance(address: Address, tmp_path: Path) -> None:
    async with await address.open() as provider:
        with racers(address, tmp_path / "held", 3, 20_000) as running:
            await asyncio.gather(*(asyncio.to_thread(is_ready, process) for process in running))
            await asyncio.gather(*(provider.enqueue_for_orchestrator(start(instance)) for instance in INSTANCES))
            await eventually(lambda: all_completed(provider), limit=40, pause=0.05)
            lines = [line for process in running for line in said(process)]
        assert lines == []
        await check_histories(provider)
        assert (await provider.get_queue_depths()).worker == 0


@pytest.mark.chaos
async def test_killed_processes_lose_nothing(address: Address, tmp_path: Path) -> None:
    held, chance = tmp_path / "held", random.Random(15)
    async with await address.open() as provider:
        with racers(address, held, 2, 500) as running:
            for number, instance in enumerate(INSTANCES):
                await provider.enqueue_for_orchestrator(start(instance))
                if number % 15 == 14:
                    victim = chance.randrange(2)
                    said(running[victim])
                    running[victim] = racer(address, held, 500)
            await eventually(lambda: all_completed(provider), limit=40, pause=0.05)
        await check_histories(provider)


async def test_a_waiting_process_hears_of_work_at_once(address: Address, tmp_path: Path) -> None:
    async with await address.open() as provider:
        with racers(address, tmp_path / "held", 1, 20_000) as [process]:
            await asyncio.to_thread(is_ready, process)
            for instance in INSTANCES[:5]:
                await provider.enqueue_for_orchestrator(start(instance))

                async def ended(wanted: str = instance) -> bool:
                    await provider.wait_for_change(wanted, timeout_ms=1_000)
                    info = await provider.get_instance_info(wanted)
                    return info is not None and info.status == "Completed"

                await eventually(ended, limit=10, pause=0)
