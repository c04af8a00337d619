"""A task: a function whose calls are messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, overload
from uuid import UUID

import msgspec

from queen.client.backoff import Backoff
from queen.client.call import Envelope, Signature
from queen.client.connections import of_this_thread
from queen.client.push import new_message
from queen.errors import InvalidRequest
from queen.ids import uuid7
from queen.model import NewMessage, Pushed, Standing

if TYPE_CHECKING:
    from queen.client.app import App
    from queen.client.client import Client

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_SPREAD: Final = "any-"
_GENERATIONS: Final = 100


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one call is pushed.

    partition: calls of the same partition run one after the other, in order; without one they are spread.
    delay, deliver_at: not before so many seconds have passed, or this time.
    unique: while a call with this key waits or runs, pushing another gives back the first.
    keep_result: keep what it returns, to be asked for with `job.result()`.
    connection: push in the transaction of this connection; see `Client.push`.
    """

    partition: str | None = None
    delay: float = 0.0
    deliver_at: datetime | None = None
    unique: str | None = None
    keep_result: bool = False
    trace_id: UUID | str | None = None
    wait_for_room: float = 0.0
    connection: object = None


@dataclass(frozen=True, slots=True)
class Job(Generic[R_co]):
    """A call that was pushed."""

    app: App
    pushed: Pushed
    returns: Any = field(repr=False, default=Any)
    keeps_result: bool = field(repr=False, default=False)

    @property
    def id(self) -> UUID:
        """The id of its message."""
        return self.pushed.id

    @property
    def status(self) -> str:
        """`queued`, `scheduled`, or `duplicate` when it was there already."""
        return self.pushed.status

    async def cancel(self) -> bool:
        """Take it back if nobody has begun it; tells whether it was in time. Whoever waits for its result is told."""
        client = await self.app.opened()
        in_time = await client.cancel(self.pushed)
        if in_time and self.keeps_result:
            await client.push_prepared([self.app.results.message(self.pushed.id, error="the call was cancelled")], 0)
        return in_time

    async def standing(self) -> Standing:
        """Where it stands: scheduled, waiting, running, done, dead, or unknown (removed)."""
        return await (await self.app.opened()).standing(self.pushed)

    async def result(self, timeout: float = 60.0) -> R_co:
        """What the task returned, as soon as it has; raises TaskFailed for a dead letter, TimeoutError after `timeout`.

        Kept for the time the application keeps results; the push must have asked for it with `keep_result`.
        """
        if not self.keeps_result:
            raise InvalidRequest("keep_result", "this call keeps no result: push it with keep_result=True")
        found: R_co = await self.app.results.wait(self.pushed, self.returns, timeout)
        return found


class Call(Awaitable[Job[R_co]], Generic[R_co]):
    """A push that happens when it is awaited: `job = await send.push(...)`, `text = await send.push(...).result()`."""

    def __init__(self, task: Task[..., R_co], envelope: Envelope, options: TaskOptions) -> None:
        self._task = task
        self._envelope = envelope
        self._options = options

    def __await__(self) -> Generator[Any, None, Job[R_co]]:
        return self._push().__await__()

    async def result(self, timeout: float = 60.0) -> R_co:
        """Push it, wait, and give what the task returned; see `Job.result`."""
        self._options = msgspec.structs.replace(self._options, keep_result=True)
        return await (await self).result(timeout)

    async def _push(self) -> Job[R_co]:
        app, options = self._task.app, self._options
        client = await app.opened()
        if options.keep_result:
            self._envelope.result = True
            await app.results.prepare(client)
        item = self._task.message(self._envelope, options)
        pushed = await _push_unique(client, item, options)
        return Job(app, pushed, self._task.signature.returns, options.keep_result)


async def _push_unique(client: Client, item: NewMessage, options: TaskOptions) -> Pushed:
    """Push; a key that a finished call still holds is followed by one that everybody derives from that call."""
    key = item.transaction_id
    for _ in range(_GENERATIONS):
        if options.connection is None:
            pushed = (await client.push_prepared([item], options.wait_for_room))[0]
            if key is None or pushed.status != "duplicate":
                return pushed
            standing = await client.standing(pushed)
        else:
            pushed = await _push_on(client, item, options.connection)
            # What this transaction has just stored nobody sees, so it is unknown.
            standing = "unknown" if key is None else await client.standing(pushed)
        if standing in ("scheduled", "waiting", "running"):
            return msgspec.structs.replace(pushed, status="duplicate")
        if standing == "unknown" and options.connection is not None:
            return pushed
        item = msgspec.structs.replace(item, transaction_id=f"{str(key)[:200]}#{pushed.id}", id=uuid7())
    raise InvalidRequest("unique", f"{_GENERATIONS} dead letters hold the key {key!r}: redrive or purge them")


async def _push_on(client: Client, item: NewMessage, connection: object) -> Pushed:
    """Push in the caller's transaction, which tells the id of what is stored and nothing else."""
    stored = await client.transport.push_on(connection, item)
    return Pushed(
        status="queued",
        id=stored,
        queue=item.queue,
        partition=item.partition,
        partition_id=0,
        transaction_id=item.transaction_id or str(stored),
        seq=None,
    )


@dataclass(frozen=True)
class Task(Generic[P, R]):
    """A function whose calls are messages of a queue. Make it with `@app.task(...)`; call it to run it here and now."""

    app: App
    name: str
    queue: str
    function: Callable[..., Any]
    retry: Backoff
    time_limit: float | None = None
    unique: bool = False
    options: TaskOptions = field(default_factory=TaskOptions)
    signature: Signature = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "signature", Signature(self.function))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function itself."""
        return self.function(*args, **kwargs)

    def using(self, **options: Any) -> Self:
        """The same task with these options for its pushes, see `TaskOptions`: `send.using(delay=60).push("a@b.c")`."""
        unknown = set(options) - set(TaskOptions.__struct_fields__)
        if unknown:
            allowed = ", ".join(TaskOptions.__struct_fields__)
            raise TypeError(f"{min(unknown)} is no option of a push; allowed: {allowed}")
        if options.get("connection") is not None:
            options["connection"] = of_this_thread(options["connection"])
        return replace(self, options=msgspec.structs.replace(self.options, **options))

    @overload
    def push(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]: ...
    @overload
    def push(self, *args: Any, partition: str, delay: float = ..., **kwargs: Any) -> Call[R]: ...
    @overload
    def push(self, *args: Any, delay: float, **kwargs: Any) -> Call[R]: ...
    def push(self, *args: Any, **kwargs: Any) -> Call[R]:
        """Push a call: await it to have it pushed, or await its `.result()`.

        The arguments of the function, and any of `TaskOptions` by name. Type checkers look at the arguments of
        `send.push("a@b.c")` and `send.using(partition="a@b.c", delay=60).push("a@b.c")`.
        """
        options = {name: kwargs.pop(name) for name in TaskOptions.__struct_fields__ if name in kwargs}
        task = self.using(**options) if options else self
        return Call(task, Envelope(self.name, self.signature.encode(args, kwargs)), task.options)

    @overload
    def push_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    def push_sync(self, *args: Any, partition: str, delay: float = ..., **kwargs: Any) -> Job[R]: ...
    @overload
    def push_sync(self, *args: Any, delay: float, **kwargs: Any) -> Job[R]: ...
    @overload
    def push_sync(self, *args: Any, connection: object, **kwargs: Any) -> Job[R]: ...
    def push_sync(self, *args: Any, **kwargs: Any) -> Job[R]:
        """Push a call from code that has no event loop, such as a view of Flask or Django."""
        return self.app.run_sync(self.push(*args, **kwargs))

    def message(self, envelope: Envelope, options: TaskOptions) -> NewMessage:
        """The message of a call."""
        if options.delay and options.deliver_at:
            raise InvalidRequest("delay", "give delay or deliver_at, not both")
        at = datetime.now(UTC) + timedelta(seconds=options.delay) if options.delay else options.deliver_at
        key = options.unique or (bytes(envelope.args).decode() if self.unique else None)
        named = None if key is None else f"{self.name}:{key if len(key) < 100 else sha256(key.encode()).hexdigest()}"
        envelope.unique = named is not None
        made = uuid7()
        partition = options.partition or named or self.app.spread(made)
        item = new_message(self.queue, envelope, partition, named, options.trace_id, at)
        return msgspec.structs.replace(item, id=made)


def spread_over(count: int, message_id: UUID) -> str:
    """The partition of a call that asked for none."""
    return f"{_SPREAD}{message_id.int % count}"


def is_spread(partition: str) -> bool:
    """Whether nobody asked for the order of this partition."""
    return partition.startswith(_SPREAD) and partition.removeprefix(_SPREAD).isdigit()
