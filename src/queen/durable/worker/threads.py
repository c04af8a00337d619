"""Threads for code that may block, with few crossings between them and the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE = 0.002


@dataclass(slots=True, eq=False)
class _Job:
    call: Callable[[], Any]
    future: asyncio.Future[Any]
    asked_at: float


class Threads:
    """Runs calls on up to `size` threads.

    One thread works off what is asked for as long as that is quick; others join only when a call has waited
    for some milliseconds. Results that come close together cross to the loop together.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs: deque[_Job] = deque()
        self._tokens: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._finished: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._guard = threading.Lock()
        self._started = 0
        self._awake = 0
        self._checking = False
        self._delivering = False

    def run(self, call: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Begin a call; its result arrives on the running loop."""
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._guard:
            self._jobs.append(_Job(partial(call, *arguments), future, loop.time()))
            needed = self._awake == 0
        if needed:
            self._wake(1)
        if not self._checking:
            self._checking = True
            loop.call_later(_PATIENCE, self._check)
        return future

    def close(self) -> None:
        """End the threads; calls still running are not waited for, their results go nowhere."""
        with self._guard:
            self._jobs.clear()
        for _ in range(self._started):
            self._tokens.put(False)

    def _check(self) -> None:
        """Let more threads help when calls have waited too long behind others."""
        loop = asyncio.get_running_loop()
        with self._guard:
            oldest = loop.time() - _PATIENCE
            stale = sum(job.asked_at <= oldest for job in self._jobs)
            self._checking = bool(self._jobs)
        self._wake(stale)
        if self._checking:
            loop.call_later(_PATIENCE, self._check)

    def _wake(self, count: int) -> None:
        with self._guard:
            wanted = min(count, self._size - self._awake)
            self._awake += wanted
            new = max(0, self._awake - self._started)
            self._started += new
        for _ in range(wanted - new):
            self._tokens.put(True)
        for number in range(new):
            name = f"{self._name}_{self._started - new + number}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._work_off()
            if not self._tokens.get():
                return

    def _work_off(self) -> None:
        while True:
            with self._guard:
                if not self._jobs:
                    self._awake -= 1
                    return
                job = self._jobs.popleft()
            try:
                self._finish(job.future, job.call(), None)
            except BaseException as error:  # noqa: BLE001 whoever waits gets it
                self._finish(job.future, None, error)

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
            elif isinstance(error, StopIteration):  # which a future does not take
                future.set_exception(RuntimeError(f"StopIteration: {error}"))
            else:
                future.set_exception(error)
