"""Everything a client can ask of instances, with values as JSON text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from queen.durable import messages
from queen.durable.branches import keys_before
from queen.durable.codec import decode, encode
from queen.durable.errors import NothingToRetry, UpdateRefused, WorkflowNotFound, WorkflowTimedOut
from queen.durable.events import Failure, OrchestrationFailed, OrchestrationStarted
from queen.durable.model import ENDED, Attribute, InstanceInfo, KeyValue
from queen.durable.provider import Provider
from queen.durable.replay.check import ask
from queen.durable.replay.limits import attribute_breach
from queen.durable.replay.machine import Entry
from queen.durable.replay.restore import FIRST_STEP, restore
from queen.durable.updates import Answer, answer_key

T = TypeVar("T")

Status = Literal["NotFound", "Running", "Parked", "Completed", "Failed", "Cancelled"]
_LOOK_AGAIN_SECONDS = 1.0
_PATIENCE_SECONDS = 10.0
DEFAULT_CANCEL_REASON = "cancelled by client"


class InstanceState(msgspec.Struct, frozen=True, kw_only=True):
    """Where an instance stands. `output` is JSON text, `error` the text people see, or why it is parked."""

    status: Status
    output: str | None = None
    error: str | None = None
    custom_status: str | None = None
    custom_status_version: int = 0

    @property
    def ended(self) -> bool:
        """Completed, failed or cancelled."""
        return self.status in ENDED


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
        reuse: messages.Reuse = "never",
        attributes: Mapping[str, Attribute] | None = None,
    ) -> bool:
        """Ask for an instance; ignored when the id is taken. `False` says `dedup_id` was seen before.

        `reuse` lets an id be taken again by a new execution of the instance: when it `failed` or was cancelled,
        or when it `ended` in any way. One that runs is left alone.
        """
        message = messages.StartMessage(
            instance=_checked("instance id", instance),
            name=_checked("orchestration name", name),
            input=input,
            version=version,
            trace_id=trace_id,
            reuse=reuse,
            attributes=_checked_attributes(attributes or {}),
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

    async def cancel(self, instance: str, reason: str | None = None, *, force: bool = False) -> None:
        """Ask an instance to end; its open children end with it. `force` ends it without asking its code."""
        message = messages.CancelMessage(
            instance=_checked("instance id", instance), reason=reason or DEFAULT_CANCEL_REASON, force=force
        )
        await self.provider.enqueue_for_orchestrator(message)

    async def wait_for_answer(self, instance: str, update_id: str, timeout: float) -> Answer:
        """Wait for the answer to an update; `UpdateRefused` when the instance ends without one."""

        async def found() -> Answer | None:
            ended = (await self.state(instance)).ended
            value = await self.provider.get_kv_value(instance, answer_key(update_id))
            if value is not None:
                answer: Answer = decode(value.value, Answer)
                return answer
            if ended:
                raise UpdateRefused(f"workflow {instance!r} ended without an answer")
            return None

        return await self._until(instance, found, timeout)

    async def query(self, instance: str, entry: Entry, name: str, arguments: tuple[object, ...]) -> Any:
        """What the code answers after the last committed turn; nothing is run but the replay."""
        info = await self._known(instance)
        history = await self.provider.read_with_execution(instance, info.current_execution_id)
        keys = await keys_before(self.provider, instance, info.current_execution_id)
        snapshot = {key: KeyValue(value, at) for key, value, at in keys}
        return await asyncio.to_thread(ask, history, entry, snapshot, name, arguments)

    async def retry(self, instance: str, *, version: str | None = None, timeout: float | None = None) -> bool:
        """Try a parked instance at once, or run what failed last of a failed or cancelled one again.

        `False` when no worker took it up within `timeout` (10 s); one will. Errors: `WorkflowNotFound`,
        `NothingToRetry`.
        """
        info = await self._known(instance)
        if info.status == "Parked" and version is None:
            await self.provider.enqueue_for_orchestrator(messages.ResumeMessage(instance=instance))
            return True
        if info.status not in ("Failed", "Cancelled", "Parked"):
            raise NothingToRetry(f"workflow {instance!r} is {info.status}: only a failed or parked one is retried")
        return await self._begin_again(info, None, version, timeout)

    async def reset(
        self, instance: str, *, from_step: int | None = None, version: str | None = None, timeout: float | None = None
    ) -> bool:
        """Begin a new execution from a step of the current one, or from its start.

        What was finished before the step is not run again. `False` when no worker took it up within `timeout`;
        one will. Errors: `WorkflowNotFound`, `StepNotFound`.
        """
        info = await self._known(instance)
        step = FIRST_STEP if from_step is None else from_step
        restore(await self.provider.read(instance), keys=(), from_step=step, suffix="")
        return await self._begin_again(info, step, version, timeout)

    async def fork(
        self,
        instance: str,
        new_instance: str,
        *,
        from_step: int | None = None,
        execution_id: int | None = None,
        version: str | None = None,
    ) -> None:
        """Start another instance that goes on from a step of this one; this one stays as it is.

        Without a step only what failed last is run again. Errors: `WorkflowNotFound`, `StepNotFound`.
        """
        info = await self._known(instance)
        execution = execution_id or info.current_execution_id
        history = await self.provider.read_with_execution(instance, execution)
        started = history[0] if history else None
        if not isinstance(started, OrchestrationStarted):
            raise WorkflowNotFound(f"workflow {instance!r} has no execution {execution}")
        keys = await keys_before(self.provider, instance, execution)
        message = messages.StartMessage(
            instance=_checked("instance id", new_instance),
            name=started.name,
            input=started.input,
            version=version or started.orchestration_version,
            trace_id=started.trace_id,
            restored=restore(history, keys=keys, from_step=from_step, suffix=f"~{new_instance}"),
        )
        await self.provider.enqueue_for_orchestrator(message)

    async def _known(self, instance: str) -> InstanceInfo:
        info = await self.provider.get_instance_info(instance)
        if info is None:
            raise WorkflowNotFound(f"workflow {instance!r} is not known")
        return info

    async def _begin_again(
        self, info: InstanceInfo, step: int | None, version: str | None, timeout: float | None
    ) -> bool:
        message = messages.ResetMessage(instance=info.instance, from_step=step, version=version)
        await self.provider.enqueue_for_orchestrator(message)

        async def begun() -> bool | None:
            found = await self._known(info.instance)
            return True if found.current_execution_id > info.current_execution_id else None

        try:
            return await self._until(info.instance, begun, _PATIENCE_SECONDS if timeout is None else timeout)
        except WorkflowTimedOut:
            return False

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

    async def wait_until_begun(self, instance: str, timeout: float) -> InstanceState:
        """Wait for the first turn of an instance; `WorkflowTimedOut` when no worker takes it up in time."""

        async def begun() -> InstanceState | None:
            state = await self.state(instance)
            return None if state.status == "NotFound" else state

        return await self._until(instance, begun, timeout)

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
        error=info.output if status in ("Failed", "Cancelled", "Parked") else None,
        custom_status=info.custom_status,
        custom_status_version=info.custom_status_version,
    )


def _checked_attributes(attributes: Mapping[str, Attribute]) -> dict[str, str]:
    encoded = {name: encode(value) for name, value in attributes.items()}
    for number, (name, value) in enumerate(encoded.items(), 1):
        breach = attribute_breach(name, value, number)
        if breach is not None:
            raise ValueError(breach)
    return encoded


def _checked(what: str, text: str) -> str:
    if not text or len(text) > 1024:
        raise ValueError(f"{what} must have 1 to 1024 characters, got {len(text)}")
    return text
