"""Threads for code that may block, with few crossings between them and the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Threads:
    """Runs calls on up to `size` threads; results that come close together cross to the loop together."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._finished: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._count = 0
        self._idle = 0
        self._guard = threading.Lock()
        self._delivering = False
        self._closed = False

    def run(self, call: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Begin a call; its result arrives on the running loop."""
        self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = self._loop.create_future()
        with self._guard:
            needs_thread = self._idle <= self._jobs.qsize() and self._count < self._size
            self._count += needs_thread
        self._jobs.put((partial(call, *arguments), future))
        if needs_thread:
            threading.Thread(target=self._serve, name=f"{self._name}_{self._count}", daemon=True).start()
        return future

    def close(self) -> None:
        """End the threads; calls still running are not waited for, their results go nowhere."""
        self._closed = True
        with self._guard:
            count = self._count
        for _ in range(count):
            self._jobs.put(None)

    def _serve(self) -> None:
        while True:
            with self._guard:
                self._idle += 1
            job = self._jobs.get()
            with self._guard:
                self._idle -= 1
            if job is None or self._closed:
                return
            call, future = job
            try:
                self._finish(future, call(), None)
            except BaseException as error:  # noqa: BLE001 whoever waits gets it
                self._finish(future, None, error)

    def _finish(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._finished.append((future, result, error))
        with self._guard:
            first, self._delivering = not self._delivering, True
        if first and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._guard:
            self._delivering = False
        while self._finished:
            future, result, error = self._finished.popleft()
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
