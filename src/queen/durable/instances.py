"""Everything a client can ask of instances, with values as JSON text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

import msgspec

from queen.durable import messages
from queen.durable.errors import WorkflowTimedOut
from queen.durable.events import Failure, OrchestrationFailed
from queen.durable.model import InstanceInfo
from queen.durable.provider import Provider

T = TypeVar("T")

Status = Literal["NotFound", "Running", "Completed", "Failed"]
_LOOK_AGAIN_SECONDS = 1.0
DEFAULT_CANCEL_REASON = "cancelled by client"


class InstanceState(msgspec.Struct, frozen=True, kw_only=True):
    """Where an instance stands. `output` is JSON text, `error` the text people see."""

    status: Status
    output: str | None = None
    error: str | None = None
    custom_status: str | None = None
    custom_status_version: int = 0

    @property
    def ended(self) -> bool:
        """Completed or failed."""
        return self.status in ("Completed", "Failed")


class Instances:
    """Start, watch and steer instances of one store."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def start(
        self,
        instance: str,
        name: str,
        input: str,  # noqa: A002
        *,
        version: str | None = None,
        delay_ms: int = 0,
        trace_id: str | None = None,
        dedup_id: str | None = None,
    ) -> bool:
        """Ask for an instance; ignored when the id is taken. `False` says `dedup_id` was seen before."""
        message = messages.StartMessage(
            instance=_checked("instance id", instance),
            name=_checked("orchestration name", name),
            input=input,
            version=version,
            trace_id=trace_id,
        )
        return await self.provider.enqueue_for_orchestrator(message, delay_ms=delay_ms, dedup_id=dedup_id)

    async def raise_event(self, instance: str, name: str, data: str, *, dedup_id: str | None = None) -> bool:
        """Raise an external event."""
        message = messages.ExternalRaisedMessage(instance=_checked("instance id", instance), name=name, data=data)
        return await self.provider.enqueue_for_orchestrator(message, dedup_id=dedup_id)

    async def enqueue_event(self, instance: str, queue: str, data: str, *, dedup_id: str | None = None) -> bool:
        """Add a message to one of the instance's queues."""
        message = messages.QueueMessage(instance=_checked("instance id", instance), name=queue, data=data)
        return await self.provider.enqueue_for_orchestrator(message, dedup_id=dedup_id)

    async def cancel(self, instance: str, reason: str | None = None) -> None:
        """Ask an instance to end; its open children end with it."""
        message = messages.CancelMessage(
            instance=_checked("instance id", instance), reason=reason or DEFAULT_CANCEL_REASON
        )
        await self.provider.enqueue_for_orchestrator(message)

    async def state(self, instance: str) -> InstanceState:
        """Where the instance stands now."""
        info = await self.provider.get_instance_info(instance)
        return InstanceState(status="NotFound") if info is None else _state(info)

    async def wait(self, instance: str, timeout: float) -> InstanceState:
        """Wait for the end of an instance; `WorkflowTimedOut` when it does not come in time."""

        async def ended() -> InstanceState | None:
            state = await self.state(instance)
            return state if state.ended else None

        return await self._until(instance, ended, timeout, ended=True)

    async def failure(self, instance: str) -> Failure | None:
        """How an instance failed, with causes and traceback."""
        history = await self.provider.read(instance)
        last = history[-1] if history else None
        return last.details if isinstance(last, OrchestrationFailed) else None

    async def wait_for_status(self, instance: str, last_seen_version: int, timeout: float) -> InstanceState:
        """Wait until the custom status is newer than `last_seen_version`, or the instance ends."""

        async def changed() -> InstanceState | None:
            state = await self.state(instance)
            return state if state.ended or state.custom_status_version > last_seen_version else None

        return await self._until(instance, changed, timeout)

    async def wait_for_key(self, instance: str, key: str, timeout: float) -> str:
        """Wait until the instance has set a key."""

        async def found() -> str | None:
            value = await self.provider.get_kv_value(instance, key)
            return None if value is None else value.value

        return await self._until(instance, found, timeout)

    async def _until(
        self, instance: str, look: Callable[[], Awaitable[T | None]], timeout: float, *, ended: bool = False
    ) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            left = min(max(deadline - loop.time(), 0.0), _LOOK_AGAIN_SECONDS)
            change = asyncio.create_task(
                self.provider.wait_for_change(instance, timeout_ms=max(1, round(left * 1000)), ended=ended)
            )
            await asyncio.sleep(0)
            try:
                found = await look()
                if found is not None:
                    return found
                if loop.time() >= deadline:
                    raise WorkflowTimedOut("Operation timed out")
                await change
            finally:
                change.cancel()


def _state(info: InstanceInfo) -> InstanceState:
    status: Status = "Running" if info.status == "ContinuedAsNew" else info.status
    return InstanceState(
        status=status,
        output=info.output if status == "Completed" else None,
        error=info.output if status == "Failed" else None,
        custom_status=info.custom_status,
        custom_status_version=info.custom_status_version,
    )


def _checked(what: str, text: str) -> str:
    if not text or len(text) > 1024:
        raise ValueError(f"{what} must have 1 to 1024 characters, got {len(text)}")
    return text
