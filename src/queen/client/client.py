"""The client: everything an application does with queues, over HTTP or straight on the database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar, Unpack, overload
from uuid import UUID

from queen.client.admin import DeadLetters, Groups, Queues
from queen.client.buffer import Buffer
from queen.client.consumer import Consumed, Consumer
from queen.client.message import Delivered, Message, Outcome
from queen.client.options import BatchOptions, ConsumeOptions, Options, pop_request
from queen.client.payload import encode
from queen.client.push import Push, new_message, require_name
from queen.client.retry import Retry
from queen.client.signals import stopping_on_signals
from queen.client.status import Traced
from queen.client.stream import Stream
from queen.client.transaction import Transaction, outcomes
from queen.client.transport import Transport
from queen.client.work import payload_kind
from queen.engine.push import mint
from queen.errors import InvalidRequest, LeaseLost, MessageNotFound, QueenError, QueueFull
from queen.model import DEFAULT_PARTITION, QUEUE_MODE, Acked, AckStatus, NewMessage, PopRequest, Pushed, Standing

T = TypeVar("T")
Start = Literal["all", "new"] | datetime
Messages = Delivered[Any] | Outcome | Iterable[Delivered[Any] | Outcome]


class Running(Protocol):
    """Something that consumes."""

    def stop(self) -> None:
        """End soon."""

    async def aclose(self) -> None:
        """End, and hand back what was not begun."""


class Client:
    """Queues of one broker, of several brokers, or of a database. Make it with `queen.connect`."""

    def __init__(
        self, transport: Transport, *, retry: Retry | None = None, message_type: type[Delivered[Any]] = Message
    ) -> None:
        self.transport = transport
        self.retry = retry or Retry()
        self.running: set[Running] = set()
        self._message_type = message_type
        self.message_client: object = self
        self._consumers: list[Callable[[], Consumer]] = []

    @property
    def queues(self) -> Queues:
        """Look at queues and change them."""
        return Queues(self)

    @property
    def groups(self) -> Groups:
        """Look at consumer groups and move them."""
        return Groups(self)

    @property
    def dead_letters(self) -> DeadLetters:
        """Look at dead letters, push them again, remove them."""
        return DeadLetters(self)

    async def open(self) -> None:
        """Connect. Entering the client as a context does this."""
        await self.transport.open()

    async def close(self) -> None:
        """Stop consuming, finish what is under way and disconnect."""
        self.stop()
        for part in list(self.running):
            await part.aclose()
        await self.transport.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @overload
    async def push(
        self,
        queue: str,
        data: object,
        *,
        partition: str = ...,
        transaction_id: str | None = ...,
        trace_id: UUID | str | None = ...,
        deliver_at: datetime | None = ...,
        wait_for_room: float = ...,
        connection: None = ...,
    ) -> Pushed: ...
    @overload
    async def push(
        self,
        queue: str,
        data: object,
        *,
        partition: str = ...,
        transaction_id: str | None = ...,
        trace_id: UUID | str | None = ...,
        deliver_at: datetime | None = ...,
        connection: object,
    ) -> UUID: ...
    async def push(
        self,
        queue: str,
        data: object,
        *,
        partition: str = DEFAULT_PARTITION,
        transaction_id: str | None = None,
        trace_id: UUID | str | None = None,
        deliver_at: datetime | None = None,
        wait_for_room: float = 0.0,
        connection: object = None,
    ) -> Pushed | UUID:
        """Store one message and return what became of it.

        `data` is any JSON-able value, dataclass, msgspec.Struct or pydantic model. The same
        `transaction_id` in the same partition is stored once. `deliver_at` keeps it back until then.
        `wait_for_room` waits that many seconds for room in a full queue. With `connection`, a
        connection or session of yours (asyncpg, psycopg, SQLAlchemy, Django) that is in a transaction, it is
        stored in that transaction and its id returned.
        """
        item = new_message(queue, data, partition, transaction_id, trace_id, deliver_at)
        if connection is not None:
            return await self.transport.push_on(connection, item)
        return (await self.push_prepared([item], wait_for_room))[0]

    async def push_many(
        self, queue: str, payloads: Iterable[object], *, partition: str = DEFAULT_PARTITION, wait_for_room: float = 0.0
    ) -> list[Pushed]:
        """Store messages in one partition, all or none, in order."""
        return await self.push_all([Push(queue, data, partition) for data in payloads], wait_for_room=wait_for_room)

    async def push_all(self, pushes: Iterable[Push], *, wait_for_room: float = 0.0) -> list[Pushed]:
        """Store messages of any queues and partitions, all or none."""
        return await self.push_prepared([push.message() for push in pushes], wait_for_room)

    async def push_prepared(
        self, items: Sequence[NewMessage], wait_for_room: float, *, again: bool = False
    ) -> list[Pushed]:
        """Store messages made before. `again`: a call before may have stored them; they are not stored twice."""
        if not items:
            return []
        items = list(items)
        mint([items])
        if not again:
            try:
                return await self.transport.push(items, again=False)
            except QueenError as error:
                if not error.retryable or (isinstance(error, QueueFull) and not wait_for_room):
                    raise
            await asyncio.sleep(self.retry.delay(0))
        return await self.retry.run_with_room(lambda: self.transport.push(items, again=True), wait_for_room)

    def buffer(self, *, count: int = 500, delay: float = 0.1, wait_for_room: float = 0.0) -> Buffer:
        """A buffer that pushes whenever `count` messages have gathered or `delay` seconds have passed."""
        return Buffer(self, count, delay, wait_for_room)

    @overload
    async def pop(
        self,
        queue: str | None = ...,
        *,
        data: type[T],
        group: str = ...,
        batch: int = ...,
        partitions: int = ...,
        partition: str | None = ...,
        namespace: str | None = ...,
        task: str | None = ...,
        wait: float = ...,
        lease: int | None = ...,
        auto_ack: bool = ...,
        start: Start = ...,
    ) -> list[Message[T]]: ...
    @overload
    async def pop(
        self,
        queue: str | None = ...,
        *,
        data: None = ...,
        group: str = ...,
        batch: int = ...,
        partitions: int = ...,
        partition: str | None = ...,
        namespace: str | None = ...,
        task: str | None = ...,
        wait: float = ...,
        lease: int | None = ...,
        auto_ack: bool = ...,
        start: Start = ...,
    ) -> list[Message[Any]]: ...
    async def pop(
        self,
        queue: str | None = None,
        *,
        data: Any = None,
        group: str = QUEUE_MODE,
        batch: int = 1,
        partitions: int = 1,
        partition: str | None = None,
        namespace: str | None = None,
        task: str | None = None,
        wait: float = 0.0,
        lease: int | None = None,
        auto_ack: bool = False,
        start: Start = "all",
    ) -> list[Message[Any]]:
        """Take up to `batch` messages of up to `partitions` partitions under a lease.

        From a queue, or by `namespace` and/or `task` from the first queue that has something.
        `wait` seconds for some to come. `data` is the type of the payloads. `auto_ack` acknowledges
        at delivery: at most once. `start` counts for a group this queue does not know yet.
        """
        if (queue is None) == (namespace is None and task is None):
            raise InvalidRequest("queue", "pop needs a queue, or a namespace and/or task, and not both")
        if queue is not None:
            require_name(queue)
        request = pop_request(
            queue or "",
            group=group,
            batch=batch,
            partitions=partitions,
            partition=partition,
            wait=wait,
            lease=lease,
            start=start,
            auto_ack=auto_ack,
        )
        return await self.pop_request(request, Any if data is None else data, namespace=namespace, task=task)

    async def pop_request(
        self, request: PopRequest, kind: Any = Any, *, namespace: str | None = None, task: str | None = None
    ) -> list[Any]:
        """The same for a request made before."""
        found = await self.retry.run(lambda: self.transport.pop(request, namespace=namespace, task=task))
        return [self._message_type(raw, self.message_client, kind) for raw in found]

    async def ack(
        self, messages: Messages, *, status: AckStatus = "completed", error: str | None = None
    ) -> list[Acked]:
        """Say what became of messages. Raises LeaseLost when someone else has them by now.

        Plain messages get `status`; `message.failed("why")` and `message.dead("why")` tell for one.
        All completed: done. All failed: the batch comes again, after retry_limit times they become
        dead letters. Some failed: those become dead letters at once (the queue's `partial_failure`).
        """
        told = [entry for entry in outcomes(messages) if entry.message.lease_id is not None]
        if status != "completed":
            told = [Outcome(entry.message, status, error) if entry.status == "completed" else entry for entry in told]
        if all(entry.status == "completed" for entry in told):
            acked = await self.retry.run(lambda: self.transport.ack_up_to([entry.message.raw for entry in told]))
        else:
            acks = [entry.ack() for entry in told]
            acked = await self.retry.run(lambda: self.transport.ack(acks))
        for result in acked:
            if result.verdict == "lost":
                raise LeaseLost("the lease ended and was given on; the messages may run elsewhere")
            if not result.ok:
                raise MessageNotFound(f"an acknowledged message does not count: {result.verdict}")
        return acked

    async def nack(self, messages: Messages, *, delay: float = 0.0) -> int:
        """Hand messages back, uncounted; they are delivered again after `delay` seconds.

        Everything else under the same lease goes back too. Returns how many partitions were freed.
        """
        leases = list({entry.message.lease_id for entry in outcomes(messages) if entry.message.lease_id})
        return sum(await self.retry.run(lambda: self.transport.release(leases, delay)))

    async def renew(self, messages: Messages, seconds: int = 60) -> datetime | None:
        """Keep the lease of messages for at least `seconds` more; raises LeaseLost when it is gone."""
        leases = list({entry.message.lease_id for entry in outcomes(messages) if entry.message.lease_id})
        renewals = await self.retry.run(lambda: self.transport.renew(leases, seconds))
        if any(not renewal.renewed for renewal in renewals):
            raise LeaseLost("the lease ended before it was renewed; the messages may run elsewhere")
        return min((renewal.expires_at for renewal in renewals if renewal.expires_at), default=None)

    async def cancel(self, pushed: Pushed) -> bool:
        """Take back a message that was pushed and that nobody has begun; tells whether it was in time.

        One that is scheduled or waits is removed for every group. One that is being worked on goes on.
        """
        return await self.standing(pushed, cancel=True) in ("scheduled", "waiting")

    async def standing(self, pushed: Pushed, *, cancel: bool = False) -> Standing:
        """Where a pushed message stands: scheduled, waiting, running, done, dead, or unknown."""
        transport = self.transport
        return await self.retry.run(
            lambda: transport.cancel(pushed.queue, pushed.partition, pushed.id, pushed.transaction_id, look=not cancel),
            repeatable=not cancel,
        )

    def transaction(self) -> Transaction:
        """Acknowledgements and pushes that commit together when the block ends."""
        return Transaction(self)

    async def record_trace(
        self, message: Delivered[Any], event: str, data: object = None, *, name: str | None = None
    ) -> None:
        """Write a note into a message's story; `message.trace(...)` does this."""
        text = encode({} if data is None else data)
        await self.retry.run(lambda: self.transport.record_trace(message.raw, event, text, name))

    async def trace(self, trace_id: UUID | str) -> list[Traced]:
        """Every message of a trace over all queues in time order, with the notes written about them."""
        wanted = UUID(trace_id) if isinstance(trace_id, str) else trace_id
        return await self.retry.run(lambda: self.transport.trace(wanted))

    async def consume(
        self, queue: str, handler: Callable[[Message[T]], Awaitable[None]], **options: Unpack[ConsumeOptions]
    ) -> Consumed:
        """Call `handler` with every message, in order within a partition, until stopped.

        Leases are renewed while it works. An error makes the message a failed one: delivered again,
        and in the end a dead letter with the error's text. SIGTERM ends it: what runs is finished,
        the rest is handed back at once. Every message is acknowledged before the next: with `prefetch` several
        of a partition are fetched at once, which spares a request for each.
        """
        made = Options.one_by_one(options)
        return await self.run_consumers(
            [Consumer(self, queue, handler, made, payload_kind(handler))], signals=made.signals
        )

    async def consume_batches(
        self,
        queue: str,
        handler: Callable[[list[Message[T]]], Awaitable[Sequence[Outcome] | None]],
        **options: Unpack[BatchOptions],
    ) -> Consumed:
        """Like `consume`, with all messages of a batch in one call: they succeed or fail together.

        The handler may return `message.failed(...)` or `message.dead(...)` for single ones.
        """
        made = Options.in_batches(options)
        consumer = Consumer(self, queue, handler, made, payload_kind(handler), whole=True)
        return await self.run_consumers([consumer], signals=made.signals)

    def messages(self, queue: str, *, data: type[T] | None = None, **options: Unpack[ConsumeOptions]) -> Stream[T]:
        """Messages to iterate over: `async for message in q.messages("orders"): ...`.

        Asking for the next message acknowledges the one before.
        """
        return Stream(self, queue, Options.one_by_one(options), Any if data is None else data)

    def consumer(
        self, queue: str, **options: Unpack[ConsumeOptions]
    ) -> Callable[[Callable[[Message[T]], Awaitable[None]]], Callable[[Message[T]], Awaitable[None]]]:
        """Register a handler of single messages for `run`: `@q.consumer("orders", group="billing")`."""

        def register(handler: Callable[[Message[T]], Awaitable[None]]) -> Callable[[Message[T]], Awaitable[None]]:
            made, kind = Options.one_by_one(options), payload_kind(handler)
            self._consumers.append(lambda: Consumer(self, queue, handler, made, kind))
            return handler

        return register

    async def run(self, *, signals: bool = True) -> list[Consumed]:
        """Run every registered handler until stopped."""
        if not self._consumers:
            raise InvalidRequest("consumers", "there is nothing to run: register handlers with @q.consumer(...)")
        made = [make() for make in self._consumers]
        await self.run_consumers(made, signals=signals)
        return [consumer.consumed for consumer in made]

    def stop(self) -> None:
        """End every consumer: what runs is finished, the rest is handed back."""
        for part in list(self.running):
            part.stop()

    async def run_consumers(self, consumers: Sequence[Consumer], *, signals: bool) -> Consumed:
        """Run consumers side by side; when one ends with an error the others are stopped as by `stop`."""
        self.transport.attend()
        self.running.update(consumers)
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(consumer.run(), name="queen-consume") for consumer in consumers]
        try:
            with stopping_on_signals(lambda: loop.call_soon_threadsafe(self.stop)) if signals else nullcontext():
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
                for consumer in consumers:
                    consumer.stop()
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.running.difference_update(consumers)
        results = [task.result() for task in tasks]
        return results[0]
