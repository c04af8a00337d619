"""A thread with an event loop, for callers that have none: the ground the synchronous client stands on."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from queen.client.errors import forked
from queen.client.message import follow, handled_in
from queen.client.signals import stopping_on_signals

T = TypeVar("T")
_JOIN: Final = 10.0


class Portal:
    """Runs coroutines on a loop of its own and waits for them.

    They run in the caller's context, so what is pushed while a message is handled still follows from it.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="queen-client", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self._start(work, contextvars.copy_context()).result()

    def step(self, work: Coroutine[Any, Any, T]) -> T:
        """The next value of an iterator; its message is from now on the one being handled."""
        context = contextvars.copy_context()
        try:
            value = self._start(work, context).result()
        except StopAsyncIteration:
            raise StopIteration from None
        finally:
            follow(handled_in(context))
        return value

    def run_until_signal(self, work: Coroutine[Any, Any, T], stop: Callable[[], None]) -> T:
        """The result of a coroutine that SIGTERM and SIGINT end early by `stop`."""
        with stopping_on_signals(lambda: self._loop.call_soon_threadsafe(stop)):
            return self.run(work)

    def call(self, make: Callable[[], T]) -> T:
        """The result of a plain function, run on the loop."""

        async def work() -> T:
            return make()

        return self.run(work())

    def _start(self, work: Coroutine[Any, Any, T], context: contextvars.Context) -> Future[T]:
        if self._process != os.getpid():
            work.close()
            raise forked(self._process)
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            work.close()
            raise RuntimeError("the synchronous client is closed, or was called from its own event loop")
        answer: Future[T] = Future()

        def begin() -> None:
            task = self._loop.create_task(work, context=context)
            task.add_done_callback(lambda done: _copy(done, answer))

        self._loop.call_soon_threadsafe(begin)
        return answer

    def close(self) -> None:
        """Stop the loop and its thread."""
        if self._thread.is_alive() and self._process == os.getpid():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_JOIN)


def _copy(done: asyncio.Task[T], answer: Future[T]) -> None:
    if done.cancelled():
        answer.cancel()
    elif error := done.exception():
        answer.set_exception(error)
    else:
        answer.set_result(done.result())
