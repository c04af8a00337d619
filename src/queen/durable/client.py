"""The async client: start workflows by reference, await their results."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any, Generic, TypeVar, TypeVarTuple, overload

from queen.durable.codec import decode, encode, encode_arguments
from queen.durable.definition import Workflow
from queen.durable.errors import UpdateRefused, WorkflowCancelled, WorkflowFailed, WorkflowNotFound, WorkflowTimedOut
from queen.durable.instances import Instances, InstanceState
from queen.durable.messages import Reuse
from queen.durable.model import Attribute, InstancePage, InstanceQuery
from queen.durable.provider import Provider
from queen.durable.updates import Request, update_queue

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
Ts = TypeVarTuple("Ts")

_CANCELLED_PREFIX = "canceled: "


class WorkflowHandle(Generic[R]):
    """One instance, with the type of its result."""

    def __init__(
        self,
        instances: Instances,
        called: Workflow[R, *tuple[Any, ...]] | None,
        id: str,  # noqa: A002
        *,
        started: bool = False,
    ) -> None:
        self.id = id
        self._started = started
        self._instances = instances
        self._workflow = called

    async def result(self, timeout: timedelta | float = 30.0) -> R:
        """The workflow's result; `WorkflowFailed`, `WorkflowCancelled` or `WorkflowTimedOut`.

        `WorkflowNotFound` when no instance of this id has begun in that time.
        """
        state = await self._ended(_seconds(timeout))
        if state.status == "Cancelled":
            raise WorkflowCancelled((state.error or "").removeprefix(_CANCELLED_PREFIX))
        if state.status == "Failed":
            raise WorkflowFailed(state.error or "", await self._instances.failure(self.id))
        if self._workflow is None:
            value: R = decode(state.output or "null", Any)
            return value
        return self._workflow.decode(state.output or "null")

    async def _ended(self, timeout: float) -> InstanceState:
        try:
            return await self._instances.wait(self.id, timeout)
        except WorkflowTimedOut:
            state = await self._instances.state(self.id)
        if state.status == "NotFound" and self._started:
            raise WorkflowTimedOut(f"workflow {self.id!r} was not begun by a worker within {timeout:g} s")
        if state.status == "NotFound":
            raise WorkflowNotFound(f"workflow {self.id!r} is not known: never started, or not begun by a worker yet")
        why = f": {state.error}" if state.error else ""
        raise WorkflowTimedOut(f"workflow {self.id!r} did not end within {timeout:g} s: it is {state.status}{why}")

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

    async def update(
        self,
        name: str,
        data: object = None,
        *,
        timeout: timedelta | float = 30.0,
        update_id: str | None = None,
    ) -> Any:
        """Send an update the workflow takes with `ctx.update`, and wait for its answer.

        `UpdateRefused` when it refuses, or ends without an answer. The same `update_id` again is the same update.
        """
        request = Request(update_id or str(uuid.uuid4()), data)
        await self._instances.enqueue_event(self.id, update_queue(name), encode(request), dedup_id=request.id)
        answer = await self._instances.wait_for_answer(self.id, request.id, _seconds(timeout))
        if answer.refused is not None:
            raise UpdateRefused(answer.refused)
        return answer.value

    async def query(self, name: str, *arguments: object) -> Any:
        """Ask the workflow's code, as it stands after its last turn; it answers by `ctx.on_query`.

        The history is replayed in this process, so no worker is needed and nothing is changed.
        """
        if self._workflow is None:
            raise TypeError("a query needs the workflow's code: make the handle with the workflow, not with its name")
        return await self._instances.query(self.id, self._workflow.entry, name, arguments)

    async def cancel(self, reason: str | None = None, *, force: bool = False) -> None:
        """Ask the workflow to end; it may clean up first. `force` ends it without asking its code."""
        await self._instances.cancel(self.id, reason, force=force)

    async def retry(self, *, version: str | None = None) -> bool:
        """Try a parked workflow at once, or run what failed last again; see `Instances.retry`."""
        return await self._instances.retry(self.id, version=version)

    async def reset(self, *, from_step: int | None = None, version: str | None = None) -> bool:
        """Begin a new execution from a step, or from the start; see `Instances.reset`."""
        return await self._instances.reset(self.id, from_step=from_step, version=version)

    async def fork(
        self,
        id: str,  # noqa: A002
        *,
        from_step: int | None = None,
        version: str | None = None,
    ) -> WorkflowHandle[R]:
        """Another instance that goes on from a step of this one, which stays as it is; see `Instances.fork`."""
        await self._instances.fork(self.id, id, from_step=from_step, version=version)
        return WorkflowHandle(self._instances, self._workflow, id, started=True)


class WorkflowClient:
    """Starts workflows on a store and finds them again."""

    def __init__(self, provider: Provider) -> None:
        self.instances = Instances(provider)

    @overload
    async def start(
        self,
        called: Workflow[R, *Ts],
        *arguments: *Ts,
        id: str | None = None,
        version: str | None = None,
        delay: timedelta | float = 0.0,
        trace_id: str | None = None,
        reuse: Reuse = "never",
        attributes: Mapping[str, Attribute] | None = None,
    ) -> WorkflowHandle[R]: ...
    @overload
    async def start(self, called: Workflow[R, *Ts, A], *arguments: *Ts, **options: Any) -> WorkflowHandle[R]: ...
    @overload
    async def start(self, called: Workflow[R, *Ts, A, B], *arguments: *Ts, **options: Any) -> WorkflowHandle[R]: ...  # type: ignore[overload-cannot-match]
    @overload
    async def start(self, called: Workflow[R, *Ts, A, B, C], *arguments: *Ts, **options: Any) -> WorkflowHandle[R]: ...  # type: ignore[overload-cannot-match]
    @overload
    async def start(
        self,
        called: str,
        *arguments: object,
        id: str | None = None,
        version: str | None = None,
        delay: timedelta | float = 0.0,
        trace_id: str | None = None,
        reuse: Reuse = "never",
        attributes: Mapping[str, Attribute] | None = None,
    ) -> WorkflowHandle[Any]: ...
    async def start(
        self,
        called: Any,
        *arguments: object,
        id: str | None = None,  # noqa: A002
        version: str | None = None,
        delay: timedelta | float = 0.0,
        trace_id: str | None = None,
        reuse: Reuse = "never",
        attributes: Mapping[str, Attribute] | None = None,
        **keywords: Any,
    ) -> WorkflowHandle[Any]:
        """Start a workflow, by reference or by name; starting the same id again changes nothing.

        Other keywords are the workflow's own. A workflow declared with a version is started in that version,
        unless `version` says otherwise; one without, or a name, in the newest that is registered. `reuse` lets
        the id of an instance that `failed` (or was cancelled), or that `ended` in any way, be taken again. By its
        `attributes` the instance can be found: `list(attributes={"customer": "ann"})`.
        """
        instance = id or str(uuid.uuid4())
        code = _code(called)
        if code is None and keywords:
            raise TypeError(f"a workflow started by name takes arguments by position, got {', '.join(keywords)}")
        text = encode_arguments(arguments) if code is None else code.encode(arguments, keywords)
        await self.instances.start(
            instance,
            called if code is None else code.name,
            text,
            version=version or (None if code is None else code.pinned_version),
            delay_ms=round(_seconds(delay) * 1000),
            trace_id=trace_id,
            reuse=reuse,
            attributes=attributes,
        )
        return WorkflowHandle(self.instances, code, instance, started=True)

    async def list(self, **wanted: Any) -> InstancePage:
        """A page of instances, newest first; `wanted` are the fields of `InstanceQuery`, all of them must match."""
        return await self.instances.provider.list_instances(InstanceQuery(**wanted))

    @overload
    def handle(self, called: Workflow[R, *tuple[Any, ...]], id: str) -> WorkflowHandle[R]: ...
    @overload
    def handle(self, called: str, id: str) -> WorkflowHandle[Any]: ...
    def handle(self, called: Any, id: str) -> WorkflowHandle[Any]:  # noqa: A002
        """An instance started elsewhere or earlier."""
        return WorkflowHandle(self.instances, _code(called), id)


def _code(called: object) -> Workflow[Any, *tuple[Any, ...]] | None:
    if isinstance(called, Workflow):
        return called
    if isinstance(called, str):
        return None
    raise TypeError(f"a workflow is given as what @workflow made, or by its name, not as {type(called).__name__}")


def _seconds(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else value
