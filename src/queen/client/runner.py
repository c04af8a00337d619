"""The worker of an application: takes calls from its queues, runs them, and decides what becomes of failed ones."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypedDict

from queen.client.call import Envelope, read
from queen.client.client import Client
from queen.client.consumer import Consumed, Consumer
from queen.client.errors import DecodeError
from queen.client.failure import error_text, report
from queen.client.message import Ending, GiveUp, HandBack, Message, Reject, TryAgain
from queen.client.options import Options
from queen.client.push import new_message
from queen.client.signals import stopping_on_signals
from queen.client.task import Task, is_spread
from queen.client.work import Work
from queen.errors import InvalidRequest, QueenError
from queen.model import NewMessage

if TYPE_CHECKING:
    from queen.client.app import App

_log = logging.getLogger("queen.app")


class RunOptions(TypedDict, total=False):
    """How a worker runs. Times are seconds.

    concurrency: how many messages of each queue are worked on at the same time; ten unless given.
    prefetch: most messages of a partition fetched at once; one unless given.
    drain: how long running tasks may take to finish once stopped.
    idle, limit: stop after so long without a message, or after so many of a queue.
    signals: stop on SIGTERM and SIGINT, unless somebody else in this process handles them.
    """

    concurrency: int
    prefetch: int
    drain: float
    idle: float
    limit: int
    signals: bool


@dataclass(frozen=True, slots=True)
class Running:
    """One attempt, as hooks see it."""

    task: str
    message: Message[Any]
    attempt: int
    arguments: dict[str, Any]


@dataclass(slots=True)
class Hooks:
    """What to call around attempts. Their own errors are logged and change nothing."""

    before: list[Callable[..., object]] = field(default_factory=list)
    after: list[Callable[..., object]] = field(default_factory=list)
    on_failure: list[Callable[..., object]] = field(default_factory=list)
    on_dead_letter: list[Callable[..., object]] = field(default_factory=list)


class Runner:
    """Runs the tasks of an application on some of its queues."""

    def __init__(self, app: App, client: Client, queues: Sequence[str] | None, options: RunOptions) -> None:
        known = sorted({task.queue for task in app.tasks.values()})
        for queue in queues or ():
            if queue not in known:
                close = get_close_matches(queue, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known) or 'none'}"
                raise InvalidRequest("queues", f"no task of this application uses the queue {queue}; {hint}")
        self._app = app
        self._client = client
        self._queues = list(queues or known)
        if not self._queues:
            raise InvalidRequest("queues", "there is nothing to run: make tasks with @app.task(...)")
        self._signals = options.get("signals", True)
        given: dict[str, Any] = {"concurrency": 10, **options, "signals": False}
        self._options = Options(**given)
        self._works: dict[str, Work] = {}
        self._stop = asyncio.Event()
        self._consumers: dict[str, Consumer] = {}

    @property
    def progress(self) -> dict[str, Consumed]:
        """What was done so far, by queue."""
        return {queue: consumer.consumed for queue, consumer in self._consumers.items()}

    def stop(self) -> None:
        """End soon."""
        self._stop.set()
        for consumer in self._consumers.values():
            consumer.stop()

    async def run(self) -> list[Consumed]:
        """Work until stopped."""
        self._works = {name: Work(task.function) for name, task in self._app.tasks.items()}
        for queue in self._queues:
            self._consumers[queue] = Consumer(self._client, queue, self._handle, self._options, Any)
        periodic = [one for one in self._app.periodic if one.task.queue in self._queues]
        ticks = [asyncio.create_task(one.run(self._client, self._stop), name="queen-ticks") for one in periodic]
        loop = asyncio.get_running_loop()
        try:
            if self._signals:
                with stopping_on_signals(lambda: loop.call_soon_threadsafe(self.stop)):
                    await self._client.run_consumers(list(self._consumers.values()), signals=False)
            else:
                await self._client.run_consumers(list(self._consumers.values()), signals=False)
        finally:
            self._stop.set()
            for tick in ticks:
                tick.cancel()
            await asyncio.gather(*ticks, return_exceptions=True)
            for work in self._works.values():
                work.close()
        return [consumer.consumed for consumer in self._consumers.values()]

    async def _handle(self, message: Message[Any]) -> Ending | None:
        envelope = read(message)
        task = self._app.tasks.get(envelope.task)
        attempt = envelope.attempt + message.retry_count
        if task is None:
            unknown = Reject(self._unknown(envelope.task))
            raise await self._given_up(envelope, Running(envelope.task, message, attempt, {}), unknown)
        try:
            arguments = task.signature.decode(envelope.args)
        except DecodeError as error:
            raise await self._given_up(envelope, Running(task.name, message, attempt, {}), error) from None
        running = Running(task.name, message, attempt, arguments)
        await self._permit(message.queue)
        await self._call(self._app.hooks.before, running)
        try:
            async with asyncio.timeout(task.time_limit):
                result = await self._works[task.name].call(**arguments)
        except HandBack as error:
            await self._call(self._app.hooks.on_failure, running, error, error.delay)
            raise
        except Exception as error:
            raise await self._failed(task, envelope, running, _explained(task, error)) from error
        try:
            ending = self._ending(envelope, message, result)
        except InvalidRequest as error:
            raise await self._given_up(envelope, running, error) from error
        await self._call(self._app.hooks.after, running, result)
        return ending

    def _ending(self, envelope: Envelope, message: Message[Any], result: object) -> Ending | None:
        pushes: list[NewMessage] = []
        if envelope.result:
            pushes = [self._app.results.message(envelope.first or message.id, value=result)]
        return Ending(pushes, remove=envelope.unique) if pushes or envelope.unique else None

    async def _failed(
        self, task: Task[..., Any], envelope: Envelope, running: Running, error: Exception
    ) -> GiveUp | TryAgain:
        message = running.message
        delay = None if isinstance(error, Reject) else task.retry.delay(running.attempt, error)
        if delay is None:
            return await self._given_up(envelope, running, error)
        await self._call(self._app.hooks.on_failure, running, error, delay)
        report([message], error, delay=delay, attempt=running.attempt)
        if not is_spread(message.partition):
            return TryAgain(error, delay)
        again = Envelope(
            envelope.task, envelope.args, running.attempt + 1, envelope.first or message.id, envelope.result
        )
        at = datetime.now(UTC) + timedelta(seconds=delay)
        return TryAgain(
            error, delay, [new_message(message.queue, again, message.partition, None, message.trace_id, at)]
        )

    async def _given_up(self, envelope: Envelope, running: Running, error: Exception) -> GiveUp:
        """A dead letter; whoever waits for the result is told."""
        await self._call(self._app.hooks.on_dead_letter, running, error)
        call = envelope.first or running.message.id
        return GiveUp(error, [self._app.results.message(call, error=error_text(error))] if envelope.result else ())

    def _unknown(self, name: str) -> str:
        known = sorted(self._app.tasks)
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return (
            f"this application has no task {name!r}: {hint}it has {', '.join(known)}. "
            "Deploy the code that has it, then redrive this dead letter"
        )

    async def _permit(self, queue: str) -> None:
        """Wait for a permit where the queue has a rate; hand the message back when told to stop meanwhile."""
        rate = self._app.rates.get(queue)
        while rate is not None:
            try:
                wait = await rate.take(self._client)
            except QueenError as error:
                raise HandBack(f"no permit of the queue's rate: {error}", delay=1.0) from error
            if not wait:
                return
            if wait > self._options.drain:
                raise HandBack("the rate of the queue is used up", delay=wait)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), wait)
            if self._stop.is_set():
                raise HandBack("the worker stops")

    async def _call(self, hooks: Sequence[Callable[..., object]], *arguments: object) -> None:
        for hook in hooks:
            try:
                told = hook(*arguments)
                if inspect.isawaitable(told):
                    await told
            except Exception:  # noqa: BLE001 - a hook must not decide what becomes of a message
                _log.exception("the hook %s failed", getattr(hook, "__qualname__", hook))


def _explained(task: Task[..., Any], error: Exception) -> Exception:
    if isinstance(error, TimeoutError) and task.time_limit is not None and not str(error):
        return TimeoutError(f"the task {task.name} took longer than its time limit of {task.time_limit:g} s")
    return error
