from __future__ import annotations

import asyncio

import pytest

from queen.durable.provider import ProviderError
from queen.durable.providers.postgres.batching import Batcher


class Recorder:
    """Doubles numbers, one call at a time, and remembers the calls."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, items: list[int]) -> list[int]:
        self.calls.append(items)
        await self.gate.wait()
        if any(item < 0 for item in items):
            raise ProviderError("double", "negative")
        if any(item > 1_000 for item in items):
            raise ProviderError("double", "busy", retryable=True)
        return [item * 2 for item in items]


async def test_a_lone_request_is_answered_at_once() -> None:
    recorder = Recorder()
    batcher = Batcher[int, int](recorder)
    assert await batcher.submit(21) == 42
    assert recorder.calls == [[21]]


async def test_requests_made_during_a_call_share_the_next() -> None:
    recorder = Recorder()
    recorder.gate.clear()
    batcher = Batcher[int, int](recorder, lanes=1, limit=4)
    first = asyncio.create_task(batcher.submit(0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rest = [asyncio.create_task(batcher.submit(number)) for number in range(1, 7)]
    await asyncio.sleep(0)
    recorder.gate.set()
    assert await asyncio.gather(first, *rest) == [0, 2, 4, 6, 8, 10, 12]
    assert recorder.calls == [[0], [1, 2, 3, 4], [5, 6]]


async def test_no_request_is_forgotten_between_two_calls() -> None:
    batcher = Batcher[int, int](Recorder(), lanes=1)

    async def ask(times: int) -> None:
        for number in range(times):
            async with asyncio.timeout(5):
                assert await batcher.submit(number) == number * 2

    await asyncio.gather(*(ask(200) for _ in range(5)))


async def test_a_call_that_does_not_come_back_holds_up_nobody_for_long() -> None:
    recorder = Recorder()
    batcher = Batcher[int, int](recorder, lanes=1)
    recorder.gate.clear()
    stuck = asyncio.create_task(batcher.submit(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stuck_gate, recorder.gate = recorder.gate, asyncio.Event()
    recorder.gate.set()
    async with asyncio.timeout(5):
        assert list(await asyncio.gather(batcher.submit(2), batcher.submit(3))) == [4, 6]
    assert recorder.calls == [[1], [2, 3]]
    assert not stuck.done()
    stuck_gate.set()
    assert await stuck == 2


async def test_of_requests_that_are_single_in_the_same_way_one_goes_along_with_each_call() -> None:
    recorder = Recorder()
    batcher = Batcher[int, int](recorder, lanes=1, single=lambda number: number % 10 or None)
    asked = [10, 1, 11, 20, 2, 21, 30]
    assert list(await asyncio.gather(*map(batcher.submit, asked))) == [number * 2 for number in asked]
    assert recorder.calls == [[10, 1, 20, 2, 30], [11], [21]]


async def test_a_bad_request_fails_alone() -> None:
    recorder = Recorder()
    batcher = Batcher[int, int](recorder, lanes=1)
    answers = await asyncio.gather(*(batcher.submit(number) for number in (1, -1, 3)), return_exceptions=True)
    assert (answers[0], answers[2]) == (2, 6)
    assert isinstance(answers[1], ProviderError)
    assert recorder.calls == [[1, -1, 3], [1], [-1], [3]]


async def test_a_passing_failure_is_told_to_all_without_repeating_it() -> None:
    recorder = Recorder()
    batcher = Batcher[int, int](recorder, lanes=1)
    answers = await asyncio.gather(*(batcher.submit(number) for number in (1, 9_999)), return_exceptions=True)
    assert [isinstance(answer, ProviderError) and answer.retryable for answer in answers] == [True, True]
    assert len(recorder.calls) == 1


async def test_an_unexpected_error_reaches_the_one_who_asked() -> None:
    async def broken(items: list[int]) -> list[int]:
        raise ZeroDivisionError(items)

    with pytest.raises(ProviderError, match="ZeroDivisionError"):
        await Batcher[int, int](broken).submit(1)
