"""The calls behind the workflow routes and commands: everything as JSON-ready structs in camelCase."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from queen.durable.codec import encode, load
from queen.durable.errors import WorkflowNotFound
from queen.durable.events import encode_event
from queen.durable.instances import Instances
from queen.durable.model import ATTRIBUTE_PREFIX, ExecutionInfo, InstanceInfo, InstanceQuery, PruneCounts, PruneOptions
from queen.durable.provider import Provider
from queen.durable.replay.keys import OWN_PREFIXES
from queen.durable.timeline import Span, spans


class WorkflowSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One instance in a list."""

    id: str
    name: str
    version: str
    status: str
    execution_id: int
    parent_id: str | None
    trace_id: str | None
    custom_status: Any
    output: Any
    error: str | None
    created_at_ms: int
    updated_at_ms: int


class WorkflowPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of instances, newest first."""

    workflows: list[WorkflowSummary]
    next_cursor: str | None


class ExecutionSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One execution of an instance."""

    execution_id: int
    status: str
    started_at_ms: int
    completed_at_ms: int | None
    event_count: int


class WorkflowDetail(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One instance with its executions, family, keys and the steps of its current execution."""

    workflow: WorkflowSummary
    executions: list[ExecutionSummary]
    tree: list[str]
    keys: dict[str, Any]
    attributes: dict[str, Any]
    timeline: list[Span]


class WorkflowHistory(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The events of one execution."""

    id: str
    execution_id: int
    events: list[msgspec.Raw]


class Started(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to a start."""

    id: str
    accepted: bool


class Begun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to a retry, reset or fork; one that no worker has taken up yet is taken up by the next."""

    id: str
    taken_up: bool


class WorkflowAdmin:
    """Look at and steer the instances of one store."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._instances = Instances(provider)

    async def list(self, query: InstanceQuery | None = None) -> WorkflowPage:
        """One page of instances, newest first."""
        page = await self._provider.list_instances(query or InstanceQuery())
        return WorkflowPage(workflows=[_summary(each) for each in page.instances], next_cursor=page.next_cursor)

    async def show(self, instance: str) -> WorkflowDetail:
        """One instance; `WorkflowNotFound` when unknown."""
        info = await self._info(instance)
        keys = await self._provider.get_kv_all_values(instance)
        return WorkflowDetail(
            workflow=_summary(info),
            executions=[_execution(each) for each in await self._provider.list_executions(instance)],
            tree=list((await self._provider.get_instance_tree(instance)).ids),
            keys={key: load(each.value) for key, each in keys.items() if not key.startswith(OWN_PREFIXES)},
            attributes={
                key.removeprefix(ATTRIBUTE_PREFIX): load(each.value)
                for key, each in keys.items()
                if key.startswith(ATTRIBUTE_PREFIX)
            },
            timeline=spans(await self._provider.read(instance)),
        )

    async def history(self, instance: str, execution_id: int | None = None) -> WorkflowHistory:
        """The events of one execution, of the current one unless given; `WorkflowNotFound` when there is none."""
        info = await self._info(instance)
        wanted = execution_id or info.current_execution_id
        found = await self._provider.read_with_execution(instance, wanted)
        if not found:
            raise WorkflowNotFound(f"workflow {instance!r} has no execution {wanted}")
        texts = [msgspec.Raw(encode_event(each).encode()) for each in found]
        return WorkflowHistory(id=instance, execution_id=wanted, events=texts)

    async def start(
        self,
        name: str,
        input: Any = None,  # noqa: A002
        *,
        id: str | None = None,  # noqa: A002
        version: str | None = None,
        delay_ms: int = 0,
        trace_id: str | None = None,
        dedup_id: str | None = None,
    ) -> Started:
        """Ask for an instance; a taken id or a repeated `dedup_id` changes nothing."""
        instance = id or str(uuid.uuid4())
        accepted = await self._instances.start(
            instance,
            name,
            encode(input),
            version=version,
            delay_ms=delay_ms,
            trace_id=trace_id,
            dedup_id=dedup_id,
        )
        return Started(id=instance, accepted=accepted)

    async def raise_event(self, instance: str, name: str, data: Any = None) -> None:
        """Raise an external event; `WorkflowNotFound` when nobody could hear it."""
        await self._info(instance)
        await self._instances.raise_event(instance, name, encode(data))

    async def enqueue(self, instance: str, queue: str, data: Any = None) -> None:
        """Add a message to one of the instance's queues."""
        await self._info(instance)
        await self._instances.enqueue_event(instance, queue, encode(data))

    async def cancel(self, instance: str, reason: str | None = None, *, force: bool = False) -> None:
        """Ask an instance to end; `force` ends it without asking its code."""
        await self._info(instance)
        await self._instances.cancel(instance, reason, force=force)

    async def retry(self, instance: str, *, version: str | None = None) -> Begun:
        """Try a parked instance at once, or run what failed last of a failed or cancelled one again."""
        return Begun(id=instance, taken_up=await self._instances.retry(instance, version=version))

    async def reset(self, instance: str, *, from_step: int | None = None, version: str | None = None) -> Begun:
        """Begin a new execution from a step of the current one, or from its start."""
        taken_up = await self._instances.reset(instance, from_step=from_step, version=version)
        return Begun(id=instance, taken_up=taken_up)

    async def fork(
        self,
        instance: str,
        new_id: str | None = None,
        *,
        from_step: int | None = None,
        version: str | None = None,
    ) -> Begun:
        """Start another instance that goes on from a step of this one."""
        new = new_id or str(uuid.uuid4())
        await self._instances.fork(instance, new, from_step=from_step, version=version)
        return Begun(id=new, taken_up=False)

    async def prune(self, instance: str, keep_last: int | None = None) -> PruneCounts:
        """Delete old executions of one instance."""
        await self._info(instance)
        return await self._provider.prune_executions(instance, PruneOptions(keep_last=keep_last))

    async def _info(self, instance: str) -> InstanceInfo:
        info = await self._provider.get_instance_info(instance)
        if info is None:
            raise WorkflowNotFound(f"workflow {instance!r} is not known")
        return info


def _summary(info: InstanceInfo) -> WorkflowSummary:
    failed = info.status in ("Failed", "Cancelled", "Parked")
    return WorkflowSummary(
        id=info.instance,
        name=info.name,
        version=info.version,
        status=info.status,
        execution_id=info.current_execution_id,
        parent_id=info.parent_instance,
        trace_id=info.trace_id,
        custom_status=load(info.custom_status),
        output=None if failed else load(info.output),
        error=info.output if failed else None,
        created_at_ms=info.created_at_ms,
        updated_at_ms=info.updated_at_ms,
    )


def _execution(info: ExecutionInfo) -> ExecutionSummary:
    return ExecutionSummary(
        execution_id=info.execution_id,
        status=info.status,
        started_at_ms=info.started_at_ms,
        completed_at_ms=info.completed_at_ms,
        event_count=info.event_count,
    )
