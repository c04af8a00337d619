"""Whoever asks while a call is in flight rides in the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from queen.durable.provider import ProviderError

__all__ = ["Batcher"]

_PATIENCE = 0.1
_MOST_LANES = 4

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batcher(Generic[Item, Answer]):
    """Collects single requests into calls for many; one bad request fails alone.

    Of requests that are ``single`` in the same way, one goes along with each call. When no call comes back for a
    while, say because it waits for somebody's lock, those behind it get a lane of their own.
    """

    def __init__(
        self,
        call: Callable[[list[Item]], Awaitable[list[Answer]]],
        *,
        lanes: int = 2,
        limit: int = 64,
        single: Callable[[Item], Hashable | None] = lambda _: None,
    ) -> None:
        self._call = call
        self._single = single
        self._lanes = lanes
        self._limit = limit
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._draining = 0
        self._returned = 0
        self._watching = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Answer:
        """The answer for one item."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._draining < self._lanes:
            self._open_lane()
        elif not self._watching:
            self._watch()
        return await future

    def _open_lane(self) -> None:
        self._draining += 1
        task = asyncio.create_task(self._drain())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _watch(self) -> None:
        self._watching = True
        asyncio.get_running_loop().call_later(_PATIENCE, self._relieve, self._returned)

    def _relieve(self, returned: int) -> None:
        self._watching = False
        if self._waiting:
            if self._returned == returned and self._draining < _MOST_LANES:
                self._open_lane()
            self._watch()

    async def close(self) -> None:
        """Wait until everything submitted is answered."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._answer(self._take())
                self._returned += 1
        finally:
            self._draining -= 1

    def _take(self) -> list[tuple[Item, asyncio.Future[Answer]]]:
        batch: list[tuple[Item, asyncio.Future[Answer]]] = []
        left: list[tuple[Item, asyncio.Future[Answer]]] = []
        kinds: set[Hashable] = set()
        while self._waiting and len(batch) < self._limit:
            taken = self._waiting.popleft()
            kind = self._single(taken[0])
            (left if kind is not None and kind in kinds else batch).append(taken)
            kinds.add(kind)
        self._waiting.extendleft(reversed(left))
        return batch

    async def _answer(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._call([item for item, _ in batch])
        except ProviderError as error:
            await self._divide(batch, error)
            return
        except Exception as error:  # noqa: BLE001 whoever asked gets it
            await self._divide(batch, ProviderError("batch", f"{type(error).__name__}: {error}"))
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    async def _divide(self, batch: list[tuple[Item, asyncio.Future[Answer]]], error: ProviderError) -> None:
        if len(batch) > 1 and not error.retryable:
            for single in batch:
                await self._answer([single])
            return
        for _, future in batch:
            if not future.done():
                future.set_exception(error)
