"""Workflows fed by Queen queues: a message starts an instance, or signals one, exactly once.

>>> routes = [StartFrom("orders", checkout), SignalFrom("payments", order_id, "payment")]
>>> async with QueueBridge(engine, provider, routes): ...

A message is handed over under its queue, partition and transaction id, and acknowledged afterwards. A crash
in between hands it over again, and the store knows it by that id. The trace id of the message becomes that
of the instance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from queen.durable.codec import load
from queen.durable.definition import Workflow
from queen.durable.instances import Instances
from queen.durable.provider import Provider, ProviderError
from queen.engine import Engine
from queen.errors import QueenError
from queen.model import Ack, Message, PopRequest

__all__ = ["QueueBridge", "SignalFrom", "StartFrom"]

_log = logging.getLogger("queen.durable.queues")
_WAIT_SECONDS = 30.0
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.2, 5.0


@dataclass(frozen=True, slots=True)
class StartFrom:
    """Every message of `queue` starts `workflow` with the payload as its input.

    `instance` names the instance after the payload; unless given, after partition and transaction id. Several
    messages that name the same instance start it once.
    """

    queue: str
    workflow: Workflow[Any, *tuple[Any, ...]]
    instance: Callable[[Any], str] | None = None
    group: str = "workflows"

    async def hand_over(self, instances: Instances, message: Message, key: str) -> None:
        """Start the instance of a message."""
        name = key if self.instance is None else self.instance(load(message.payload))
        trace_id = None if message.trace_id is None else str(message.trace_id)
        await instances.start(name, self.workflow.name, message.payload, trace_id=trace_id, dedup_id=key)


@dataclass(frozen=True, slots=True)
class SignalFrom:
    """Every message of `queue` is sent to the instance that `instance` finds in its payload.

    The workflow takes it with `ctx.receive(inbox)`; none is lost, also when it comes before the wait.
    """

    queue: str
    instance: Callable[[Any], str]
    inbox: str
    group: str = "workflows"

    async def hand_over(self, instances: Instances, message: Message, key: str) -> None:
        """Send a message on to its instance."""
        name = self.instance(load(message.payload))
        await instances.enqueue_event(name, self.inbox, message.payload, dedup_id=key)


class QueueBridge:
    """Takes messages from queues and hands them to workflows, inside `async with`."""

    def __init__(
        self,
        engine: Engine,
        provider: Provider,
        routes: Sequence[StartFrom | SignalFrom],
        *,
        batch: int = 100,
        partitions: int = 16,
        lease_seconds: int = 60,
    ) -> None:
        self._engine = engine
        self._instances = Instances(provider)
        self._routes = routes
        self._batch = batch
        self._partitions = partitions
        self._lease_seconds = lease_seconds
        self._tasks: list[asyncio.Task[None]] = []
        self.handed_over = 0

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._run(route)) for route in self._routes]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, route: StartFrom | SignalFrom) -> None:
        backoff = _FIRST_BACKOFF
        while True:
            try:
                await self.take(route, wait=_WAIT_SECONDS)
                backoff = _FIRST_BACKOFF
            except (QueenError, ProviderError, OSError) as error:
                _log.warning("queue %s: trying again in %.1f s: %s", route.queue, backoff, error)
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, _LONGEST_BACKOFF)

    async def take(self, route: StartFrom | SignalFrom, *, wait: float = 0.0) -> int:
        """Hand over one batch; returns how many messages it had."""
        messages = await self._engine.pop(
            PopRequest(
                queue=route.queue,
                group=route.group,
                batch=self._batch,
                partitions=self._partitions,
                wait=wait,
                lease_seconds=self._lease_seconds,
            )
        )
        if messages:
            await self._engine.ack([await self._hand_over(route, message) for message in messages])
        return len(messages)

    async def _hand_over(self, route: StartFrom | SignalFrom, message: Message) -> Ack:
        key = f"{message.queue}/{message.partition}/{message.transaction_id}"
        error: str | None = None
        try:
            await route.hand_over(self._instances, message, key)
            self.handed_over += 1
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            error = f"no instance for this message: {type(problem).__name__}: {problem}"
            _log.warning("queue %s: %s", route.queue, error)
        return Ack(
            partition_id=message.partition_id,
            transaction_id=message.transaction_id,
            group=message.group,
            lease_id=message.lease_id,
            status="completed" if error is None else "dlq",
            error=error,
            seq=message.seq,
        )
