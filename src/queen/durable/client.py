"""The async client: start workflows by reference, await their results."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Generic, TypeVar, TypeVarTuple

from queen.durable.codec import decode, encode
from queen.durable.definition import Workflow
from queen.durable.errors import WorkflowCancelled, WorkflowFailed, WorkflowNotFound
from queen.durable.instances import Instances, InstanceState
from queen.durable.provider import Provider

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_CANCELLED_PREFIX = "canceled: "


class WorkflowHandle(Generic[R]):
    """One instance, with the type of its result."""

    def __init__(self, instances: Instances, called: Workflow[R, *tuple[Any, ...]], id: str) -> None:  # noqa: A002
        self.id = id
        self._instances = instances
        self._workflow = called

    async def result(self, timeout: timedelta | float = 30.0) -> R:
        """The workflow's result; `WorkflowFailed`, `WorkflowCancelled` or `WorkflowTimedOut`."""
        state = await self._instances.wait(self.id, _seconds(timeout))
        if state.status == "Failed":
            text = state.error or ""
            if text.startswith(_CANCELLED_PREFIX):
                raise WorkflowCancelled(text.removeprefix(_CANCELLED_PREFIX))
            raise WorkflowFailed(text)
        return self._workflow.decode(state.output or "null")

    async def state(self) -> InstanceState:
        """Where the instance stands; `WorkflowNotFound` when it has not begun."""
        state = await self._instances.state(self.id)
        if state.status == "NotFound":
            raise WorkflowNotFound(f"workflow {self.id!r} is not known, or has not begun yet")
        return state

    async def statuses(self, timeout: timedelta | float = 30.0) -> AsyncIterator[Any]:
        """Every custom status the client gets to see, until the workflow ends."""
        seen = 0
        while True:
            state = await self._instances.wait_for_status(self.id, seen, _seconds(timeout))
            if state.custom_status_version > seen:
                seen = state.custom_status_version
                yield None if state.custom_status is None else decode(state.custom_status, Any)
            if state.ended:
                return

    async def key(self, key: str) -> Any:
        """A key the workflow has set, or None."""
        found = await self._instances.provider.get_kv_value(self.id, key)
        return None if found is None else decode(found.value, Any)

    async def raise_event(self, name: str, data: object = None) -> None:
        """Raise an event the workflow waits for with `ctx.event`."""
        await self._instances.raise_event(self.id, name, encode(data))

    async def send(self, queue: str, data: object = None, *, dedup_id: str | None = None) -> bool:
        """Send to a queue the workflow reads with `ctx.receive`; `False` when `dedup_id` was seen before."""
        return await self._instances.enqueue_event(self.id, queue, encode(data), dedup_id=dedup_id)

    async def cancel(self, reason: str | None = None) -> None:
        """Ask the workflow to end; it may clean up first."""
        await self._instances.cancel(self.id, reason)


class WorkflowClient:
    """Starts workflows on a store and finds them again."""

    def __init__(self, provider: Provider) -> None:
        self.instances = Instances(provider)

    async def start(
        self,
        called: Workflow[R, *Ts],
        *arguments: *Ts,
        id: str | None = None,  # noqa: A002
        version: str | None = None,
        delay: timedelta | float = 0.0,
        trace_id: str | None = None,
    ) -> WorkflowHandle[R]:
        """Start a workflow; starting the same id again changes nothing."""
        instance = id or str(uuid.uuid4())
        await self.instances.start(
            instance,
            called.name,
            called.encode(arguments),
            version=version,
            delay_ms=round(_seconds(delay) * 1000),
            trace_id=trace_id,
        )
        return WorkflowHandle(self.instances, called, instance)

    def handle(self, called: Workflow[R, *tuple[Any, ...]], id: str) -> WorkflowHandle[R]:  # noqa: A002
        """An instance started elsewhere or earlier."""
        return WorkflowHandle(self.instances, called, id)


def _seconds(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else value
