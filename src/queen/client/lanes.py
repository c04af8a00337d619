"""Micro-batching by partition: pushes that wait for the same partition go together, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

import msgspec

from queen.db.pool import OutcomeUnknown
from queen.engine import Engine
from queen.errors import QueenError
from queen.model import NewMessage, Pushed

_TOGETHER: Final = 1000
Waiting = tuple[NewMessage, "asyncio.Future[Pushed]"]


class Lanes:
    """Pushes single messages; while one of a partition is under way, the next ones gather.

    They would wait for that partition's lock anyway, so nobody waits longer. When a gathered batch is
    refused, each message is tried alone, so that one caller's trouble stays that caller's.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[tuple[str, str], list[Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def push(self, item: NewMessage) -> Awaitable[Pushed]:
        """Store one message; to be awaited at once, since others gather behind it from here on."""
        key = (item.queue, item.partition)
        line = self._waiting.get(key)
        if line is None:
            self._waiting[key] = []
            return self._first(key, item)
        # The bare answer and no coroutine around it: thousands may wait, and the garbage collector visits each.
        answer: asyncio.Future[Pushed] = asyncio.get_running_loop().create_future()
        line.append((item, answer))
        return answer

    async def _first(self, key: tuple[str, str], item: NewMessage) -> Pushed:
        try:
            return (await self._engine.push([item]))[0]
        finally:
            self._go_on(key)

    def _go_on(self, key: tuple[str, str]) -> None:
        line = [entry for entry in self._waiting[key] if not entry[1].done()]
        if not line:
            del self._waiting[key]
            return
        self._waiting[key] = line[_TOGETHER:]
        task = asyncio.create_task(self._together(key, line[:_TOGETHER]), name="queen-lane")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _together(self, key: tuple[str, str], line: list[Waiting]) -> None:
        try:
            pushed = await self._engine.push([item for item, _ in line])
            for (_, answer), one in zip(line, pushed, strict=True):
                if not answer.done():
                    answer.set_result(one)
        except QueenError as error:
            for item, answer in line:
                await self._alone(item, answer, careful=isinstance(error, OutcomeUnknown))
        finally:
            self._go_on(key)

    async def _alone(self, item: NewMessage, answer: asyncio.Future[Pushed], *, careful: bool) -> None:
        try:
            (one,) = await self._engine.push([item], careful=careful)
        except QueenError as error:
            if not answer.done():
                answer.set_exception(error)
            return
        if not answer.done():
            answer.set_result(own(one, item) if careful else one)

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)


def own(pushed: Pushed, item: NewMessage) -> Pushed:
    """What an earlier attempt of ours had stored is no duplicate."""
    if pushed.status == "duplicate" and pushed.id == item.id:
        return msgspec.structs.replace(pushed, status="queued")
    return pushed
