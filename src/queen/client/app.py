"""An application: tasks that are messages of queues, and a worker that runs them.

app = queen.App("http://localhost:6632")                # or postgresql://..., or nothing: embedded

@app.task(queue="mail", retry=queen.Backoff(attempts=8, give_up=(ValueError,)))
async def send(to: str, template: str) -> None: ...

await send.push("a@b.c", "welcome", partition="a@b.c", delay=60)
await app.run()                                         # or: queen worker module:app
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypedDict, TypeVar, Unpack, overload
from uuid import UUID
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

from queen.client.backoff import Backoff
from queen.client.client import Client
from queen.client.connect import connect
from queen.client.consumer import Consumed
from queen.client.message import Message, message_of
from queen.client.portal import Portal
from queen.client.rate import Rate
from queen.client.results import Results
from queen.client.runner import Hooks, Runner, RunOptions
from queen.client.task import Call, Job, Task, spread_over
from queen.client.ticks import Periodic

P = ParamSpec("P")
R = TypeVar("R")


class TaskSettings(TypedDict, total=False):
    """How a task runs.

    queue: the queue of its calls; the application's unless given.
    name: what its messages call it; the function's name unless given.
    retry: how it is tried again; four attempts unless given.
    time_limit: seconds one attempt may take; no limit unless given. A plain function's thread cannot be stopped: the
        message goes on, the thread is left to end by itself.
    unique: while a call with the same arguments waits or runs, pushing another gives back the first.
    """

    queue: str
    name: str
    retry: Backoff
    time_limit: float
    unique: bool


class Register(Protocol):
    """Makes a task of a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...


class App:
    """Tasks and the worker that runs them, over a broker, on a database, or embedded."""

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        queue: str = "tasks",
        partitions: int = 64,
        results: str = "results",
        keep_results: int = 3600,
        **connection: Any,
    ) -> None:
        """`url` and `connection` as for `queen.connect`.

        `queue` is the one of tasks that name none. Calls without a partition are spread over `partitions` of them:
        that many can run at the same time. `results` is the queue of kept results, `keep_results` how many seconds.
        """
        self.tasks: dict[str, Task[..., Any]] = {}
        self.periodic: list[Periodic] = []
        self.rates: dict[str, Rate] = {}
        self.hooks = Hooks()
        self.results = Results(self, results, keep_results)
        self._url = url
        self._queue = queue
        self._partitions = partitions
        self._connection = connection
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()
        self._portal: tuple[int, Portal] | None = None
        self._runners: set[Runner] = set()

    def task(self, **settings: Unpack[TaskSettings]) -> Register:
        """Make a task of a function: `@app.task(queue="mail")`. Plain functions run on threads."""

        def register(function: Callable[..., Any]) -> Any:
            name = settings.get("name") or getattr(function, "__name__", "")
            if not name:
                raise TypeError(f"{function!r} has no name of its own: give it one, @app.task(name=...)")
            if name in self.tasks:
                raise TypeError(f"there are two tasks named {name}: give one of them another, @app.task(name=...)")
            made: Task[..., Any] = Task(
                self,
                name,
                settings.get("queue") or self._queue,
                function,
                settings.get("retry") or Backoff(),
                settings.get("time_limit"),
                settings.get("unique", False),
            )
            self.tasks[name] = made
            return made

        return register

    def every(self, when: str, *, zone: str | None = None, **settings: Unpack[TaskSettings]) -> Register:
        """Run a function at every tick: `@app.every("*/5 * * * *")`, `@app.every("30s")`.

        One push per tick, however many workers there are; ticks while none runs are left out. `zone` is the time zone
        of a cron line, UTC unless given. A tick waits for the one before it.
        """
        if settings.get("unique"):
            raise TypeError("ticks of a periodic task are unique by themselves")
        register = self.task(**settings)

        def periodic(function: Callable[..., Any]) -> Any:
            made: Task[..., Any] = register(function)
            if made.signature.parameters:
                raise TypeError(f"the periodic task {made.name} must take no arguments")
            self.periodic.append(Periodic(made, when, ZoneInfo(zone) if zone else None))
            return made

        return periodic

    def limit(self, queue: str, count: int, *, per: float = 1.0) -> None:
        """Begin at most `count` messages of a queue per `per` seconds, over all workers."""
        self.rates[queue] = Rate(queue, count, per, "rates")

    @property
    def message(self) -> Message[Any]:
        """The message of the task that is running here: its partition, attempt, trace, and client."""
        found: Message[Any] = message_of()
        return found

    def spread(self, message_id: UUID) -> str:
        """The partition of a call that asked for none."""
        return spread_over(self._partitions, message_id)

    async def opened(self) -> Client:
        """The client of this event loop, opened when first needed."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = connect(self._url, **self._connection)
            try:
                await client.open()
            except BaseException:
                del self._clients[loop]
                raise
        return client

    async def close(self) -> None:
        """Stop working and disconnect, on this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def __aenter__(self) -> Self:
        await self.opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(self, *, queues: Sequence[str] | None = None, **options: Unpack[RunOptions]) -> list[Consumed]:
        """Work on the tasks of these queues, or of all, until stopped, and push the ticks of periodic ones."""
        runner = Runner(self, await self.opened(), queues, options)
        self._runners.add(runner)
        try:
            return await runner.run()
        finally:
            self._runners.discard(runner)

    def stop(self) -> None:
        """End `run`: what runs is finished, the rest is handed back."""
        for runner in list(self._runners):
            runner.stop()

    @property
    def progress(self) -> dict[str, Consumed]:
        """What the worker here has done so far, by queue."""
        return {queue: done for runner in self._runners for queue, done in runner.progress.items()}

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Self]:
        """Work in the background while the block runs, for the lifespan of a web application."""
        options.setdefault("signals", False)
        async with self:
            work = asyncio.create_task(self.run(**options), name="queen-app")
            try:
                yield self
            finally:
                self.stop()
                await work

    def run_sync(self, call: Call[R]) -> Job[R]:
        """Push from code without an event loop, on one that is kept for this process."""

        async def push() -> Job[R]:
            return await call

        return self._ground().run(push())

    def _ground(self) -> Portal:
        if self._portal is None or self._portal[0] != os.getpid():
            self._portal = (os.getpid(), Portal())
        return self._portal[1]

    def before(self, hook: Callable[..., object]) -> Callable[..., object]:
        """Call `hook(running)` before every attempt; a `queen.Running` tells which."""
        self.hooks.before.append(hook)
        return hook

    def after(self, hook: Callable[..., object]) -> Callable[..., object]:
        """Call `hook(running, result)` after an attempt that succeeded."""
        self.hooks.after.append(hook)
        return hook

    def on_failure(self, hook: Callable[..., object]) -> Callable[..., object]:
        """Call `hook(running, error, delay)` after an attempt that failed; it is tried again in `delay` seconds.

        So is one that was handed back: then `error` is the `queen.HandBack`.
        """
        self.hooks.on_failure.append(hook)
        return hook

    def on_dead_letter(self, hook: Callable[..., object]) -> Callable[..., object]:
        """Call `hook(running, error)` when a message is given up."""
        self.hooks.on_dead_letter.append(hook)
        return hook
