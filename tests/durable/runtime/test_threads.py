"""Threads of a worker: quick calls share one, slow ones do not hold up others."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from queen.durable.testing import eventually
from queen.durable.worker.threads import Threads


async def test_results_and_errors_come_back() -> None:
    threads = Threads(4, "t")

    def broken() -> None:
        raise ValueError("no")

    assert await asyncio.gather(*(threads.run(pow, number, 2) for number in range(50))) == [n * n for n in range(50)]
    with pytest.raises(ValueError, match="no"):
        await threads.run(broken)
    threads.close()


async def test_slow_calls_run_side_by_side() -> None:
    threads = Threads(4, "t")
    together = threading.Barrier(4, timeout=10)
    assert sorted(await asyncio.gather(*(threads.run(together.wait) for _ in range(4)))) == [0, 1, 2, 3]
    threads.close()


async def test_a_blocked_call_does_not_hold_up_others() -> None:
    threads = Threads(2, "t")
    gate = threading.Event()
    blocked = threads.run(gate.wait, 10)
    begun = time.monotonic()
    for _ in range(20):
        await threads.run(int)
    assert time.monotonic() - begun < 5
    assert not blocked.done()
    gate.set()
    assert await blocked
    threads.close()


async def test_no_more_threads_than_allowed() -> None:
    threads = Threads(3, "limited")
    gate = threading.Event()
    waiting = [threads.run(gate.wait, 10) for _ in range(10)]
    await eventually(lambda: threads._awake == 3)
    assert sum(each.name.startswith("limited") for each in threading.enumerate()) == 3
    gate.set()
    assert all(await asyncio.gather(*waiting))
    threads.close()


async def test_a_cancelled_wait_is_left_alone() -> None:
    threads = Threads(1, "t")
    gate = threading.Event()
    waiting = threads.run(gate.wait, 10)
    waiting.cancel()
    gate.set()
    assert await threads.run(int) == 0
    threads.close()
