"""Threads for handlers that are plain functions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any


class Threads:
    """Runs each call on a thread of its own, and keeps those that are idle for the next calls.

    A call whose caller went away (a time limit, the end of the worker) cannot be stopped: its thread ends by itself,
    takes nobody's place meanwhile, and does not keep the process from ending.
    """

    def __init__(self) -> None:
        self._idle: list[_Thread] = []

    async def run(self, call: Callable[[], Any]) -> Any:
        """What the call returns or raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        thread = self._idle.pop() if self._idle else _Thread()
        thread.calls.put((call, loop, answer))
        try:
            result, error = await answer
        except asyncio.CancelledError:
            thread.calls.put(None)
            raise
        self._idle.append(thread)
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Let idle threads end; what still runs on one is not waited for."""
        while self._idle:
            self._idle.pop().calls.put(None)


class _Thread:
    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[Callable[[], Any], asyncio.AbstractEventLoop, asyncio.Future[Any]] | None] = (
            SimpleQueue()
        )
        threading.Thread(target=self._work, name="queen-handler", daemon=True).start()

    def _work(self) -> None:
        while (given := self.calls.get()) is not None:
            call, loop, answer = given
            outcome = _outcome(call)
            with suppress(RuntimeError):  # the loop is closed: nobody asks any more
                loop.call_soon_threadsafe(_tell, answer, outcome)
            del given, call, loop, answer, outcome


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """A result or an error, because a StopIteration cannot pass through a future."""
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
        return None, error


def _tell(answer: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
    if not answer.done():
        answer.set_result(outcome)
