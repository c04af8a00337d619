"""The synchronous twin of `queen.client.client`."""

# Written by scripts/sync_client.py from src/queen/client/client.py; change that instead.

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload
from uuid import UUID

from queen.client._sync.admin import DeadLetters, Groups, Queues
from queen.client._sync.buffer import Buffer
from queen.client._sync.message import Message
from queen.client._sync.stream import Stream
from queen.client._sync.transaction import Transaction
from queen.client.connections import of_this_thread
from queen.client.consumer import Consumed
from queen.client.message import Delivered, Outcome
from queen.client.options import BatchOptions, ConsumeOptions
from queen.client.portal import Portal
from queen.client.push import Push
from queen.client.status import Traced
from queen.model import DEFAULT_PARTITION, QUEUE_MODE, Acked, AckStatus, Pushed, Standing

T = TypeVar("T")
Start = Literal["all", "new"] | datetime
Messages = Delivered[Any] | Outcome | Iterable[Delivered[Any] | Outcome]


class Client:
    """Queues of one broker, of several brokers, or of a database. Make it with `queen.connect_sync`."""

    def __init__(self, portal: Portal, inner: Any) -> None:
        self._portal = portal
        self._inner = inner
        inner.message_client = self

    @property
    def queues(self) -> Queues:
        """Look at queues and change them."""
        return Queues(self._portal, self._inner.queues)

    @property
    def groups(self) -> Groups:
        """Look at consumer groups and move them."""
        return Groups(self._portal, self._inner.groups)

    @property
    def dead_letters(self) -> DeadLetters:
        """Look at dead letters, push them again, remove them."""
        return DeadLetters(self._portal, self._inner.dead_letters)

    def open(self) -> None:
        """Connect. Entering the client as a context does this."""
        self._portal.run(self._inner.open())

    def close(self) -> None:
        """Stop consuming, finish what is under way and disconnect."""
        try:
            self._portal.run(self._inner.close())
        finally:
            self._portal.close()

    def __enter__(self) -> Self:
        self._portal.run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._portal.run(self._inner.__aexit__(kind, error, trace))
        finally:
            self._portal.close()

    @overload
    def push(
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
    def push(
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

    def push(
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
        result: Pushed | UUID = self._portal.run(
            self._inner.push(
                queue,
                data,
                partition=partition,
                transaction_id=transaction_id,
                trace_id=trace_id,
                deliver_at=deliver_at,
                wait_for_room=wait_for_room,
                connection=of_this_thread(connection),
            )
        )
        return result

    def push_many(
        self, queue: str, payloads: Iterable[object], *, partition: str = DEFAULT_PARTITION, wait_for_room: float = 0.0
    ) -> list[Pushed]:
        """Store messages in one partition, all or none, in order."""
        result: list[Pushed] = self._portal.run(
            self._inner.push_many(queue, payloads, partition=partition, wait_for_room=wait_for_room)
        )
        return result

    def push_all(self, pushes: Iterable[Push], *, wait_for_room: float = 0.0) -> list[Pushed]:
        """Store messages of any queues and partitions, all or none."""
        result: list[Pushed] = self._portal.run(self._inner.push_all(pushes, wait_for_room=wait_for_room))
        return result

    def buffer(self, *, count: int = 500, delay: float = 0.1, wait_for_room: float = 0.0) -> Buffer:
        """A buffer that pushes whenever `count` messages have gathered or `delay` seconds have passed."""
        return Buffer(
            self._portal,
            self._portal.call(lambda: self._inner.buffer(count=count, delay=delay, wait_for_room=wait_for_room)),
        )

    @overload
    def pop(
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
    def pop(
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

    def pop(
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
        result: list[Message[Any]] = self._portal.run(
            self._inner.pop(
                queue,
                data=data,
                group=group,
                batch=batch,
                partitions=partitions,
                partition=partition,
                namespace=namespace,
                task=task,
                wait=wait,
                lease=lease,
                auto_ack=auto_ack,
                start=start,
            )
        )
        return result

    def ack(self, messages: Messages, *, status: AckStatus = "completed", error: str | None = None) -> list[Acked]:
        """Say what became of messages. Raises LeaseLost when someone else has them by now.

        Plain messages get `status`; `message.failed("why")` and `message.dead("why")` tell for one.
        All completed: done. All failed: the batch comes again, after retry_limit times they become
        dead letters. Some failed: those become dead letters at once (the queue's `partial_failure`).
        """
        result: list[Acked] = self._portal.run(self._inner.ack(messages, status=status, error=error))
        return result

    def nack(self, messages: Messages, *, delay: float = 0.0) -> int:
        """Hand messages back, uncounted; they are delivered again after `delay` seconds.

        Everything else under the same lease goes back too. Returns how many partitions were freed.
        """
        result: int = self._portal.run(self._inner.nack(messages, delay=delay))
        return result

    def renew(self, messages: Messages, seconds: int = 60) -> datetime | None:
        """Keep the lease of messages for at least `seconds` more; raises LeaseLost when it is gone."""
        result: datetime | None = self._portal.run(self._inner.renew(messages, seconds))
        return result

    def cancel(self, pushed: Pushed) -> bool:
        """Take back a message that was pushed and that nobody has begun; tells whether it was in time.

        One that is scheduled or waits is removed for every group. One that is being worked on goes on.
        """
        result: bool = self._portal.run(self._inner.cancel(pushed))
        return result

    def standing(self, pushed: Pushed, *, cancel: bool = False) -> Standing:
        """Where a pushed message stands: scheduled, waiting, running, done, dead, or unknown."""
        result: Standing = self._portal.run(self._inner.standing(pushed, cancel=cancel))
        return result

    def transaction(self) -> Transaction:
        """Acknowledgements and pushes that commit together when the block ends."""
        return Transaction(self._portal, self._portal.call(self._inner.transaction))

    def record_trace(
        self, message: Delivered[Any], event: str, data: object = None, *, name: str | None = None
    ) -> None:
        """Write a note into a message's story; `message.trace(...)` does this."""
        self._portal.run(self._inner.record_trace(message, event, data, name=name))

    def trace(self, trace_id: UUID | str) -> list[Traced]:
        """Every message of a trace over all queues in time order, with the notes written about them."""
        result: list[Traced] = self._portal.run(self._inner.trace(trace_id))
        return result

    def consume(self, queue: str, handler: Callable[[Message[T]], None], **options: Unpack[ConsumeOptions]) -> Consumed:
        """Call `handler` with every message, in order within a partition, until stopped.

        Leases are renewed while it works. An error makes the message a failed one: delivered again,
        and in the end a dead letter with the error's text. SIGTERM ends it: what runs is finished,
        the rest is handed back at once. Every message is acknowledged before the next: with `prefetch` several
        of a partition are fetched at once, which spares a request for each.
        """
        result: Consumed = self._portal.run_until_signal(
            self._inner.consume(queue, handler, **options), self._inner.stop
        )
        return result

    def consume_batches(
        self,
        queue: str,
        handler: Callable[[list[Message[T]]], Sequence[Outcome] | None],
        **options: Unpack[BatchOptions],
    ) -> Consumed:
        """Like `consume`, with all messages of a batch in one call: they succeed or fail together.

        The handler may return `message.failed(...)` or `message.dead(...)` for single ones.
        """
        result: Consumed = self._portal.run_until_signal(
            self._inner.consume_batches(queue, handler, **options), self._inner.stop
        )
        return result

    def messages(self, queue: str, *, data: type[T] | None = None, **options: Unpack[ConsumeOptions]) -> Stream[T]:
        """Messages to iterate over: `async for message in q.messages("orders"): ...`.

        Asking for the next message acknowledges the one before.
        """
        return Stream(self._portal, self._portal.call(lambda: self._inner.messages(queue, data=data, **options)))

    def consumer(
        self, queue: str, **options: Unpack[ConsumeOptions]
    ) -> Callable[[Callable[[Message[T]], None]], Callable[[Message[T]], None]]:
        """Register a handler of single messages for `run`: `@q.consumer("orders", group="billing")`."""
        result: Callable[[Callable[[Message[T]], None]], Callable[[Message[T]], None]] = self._inner.consumer(
            queue, **options
        )
        return result

    def run(self, *, signals: bool = True) -> list[Consumed]:
        """Run every registered handler until stopped."""
        result: list[Consumed] = self._portal.run_until_signal(self._inner.run(signals=signals), self._inner.stop)
        return result

    def stop(self) -> None:
        """End every consumer: what runs is finished, the rest is handed back."""
        self._portal.call(self._inner.stop)
