"""A client for programs without an event loop: the async one, on a loop of its own thread."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, TypeVarTuple, overload

from queen.durable.client import WorkflowClient, WorkflowHandle
from queen.durable.definition import Workflow
from queen.durable.instances import InstanceState
from queen.durable.loop_thread import LoopThread
from queen.durable.messages import Reuse
from queen.durable.provider import Provider
from queen.durable.stores import open_provider

R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
Ts = TypeVarTuple("Ts")


class SyncWorkflowHandle(Generic[R]):
    """One instance, with the type of its result; every call waits. See `WorkflowHandle`."""

    def __init__(self, loop: LoopThread, handle: WorkflowHandle[R]) -> None:
        self.id = handle.id
        self._loop = loop
        self._handle = handle

    def result(self, timeout: timedelta | float = 30.0) -> R:
        """The workflow's result; `WorkflowFailed`, `WorkflowCancelled` or `WorkflowTimedOut`."""
        return self._loop.call(self._handle.result(timeout))

    def state(self) -> InstanceState:
        """Where the instance stands; `WorkflowNotFound` when it has not begun."""
        return self._loop.call(self._handle.state())

    def key(self, key: str) -> Any:
        """A key the workflow has set, or None."""
        return self._loop.call(self._handle.key(key))

    def query(self, name: str, *arguments: object) -> Any:
        """What the workflow's code answers now."""
        return self._loop.call(self._handle.query(name, *arguments))

    def update(self, name: str, data: object = None, *, timeout: timedelta | float = 30.0) -> Any:
        """Send an update and wait for its answer."""
        return self._loop.call(self._handle.update(name, data, timeout=timeout))

    def raise_event(self, name: str, data: object = None) -> None:
        """Raise an event the workflow waits for with `ctx.event`."""
        self._loop.call(self._handle.raise_event(name, data))

    def send(self, queue: str, data: object = None, *, dedup_id: str | None = None) -> bool:
        """Send to a queue the workflow reads with `ctx.receive`; `False` when `dedup_id` was seen before."""
        return self._loop.call(self._handle.send(queue, data, dedup_id=dedup_id))

    def cancel(self, reason: str | None = None, *, force: bool = False) -> None:
        """Ask the workflow to end; `force` ends it without asking its code."""
        self._loop.call(self._handle.cancel(reason, force=force))

    def retry(self, *, version: str | None = None) -> bool:
        """Try a parked workflow at once, or run what failed last again."""
        return self._loop.call(self._handle.retry(version=version))

    def reset(self, *, from_step: int | None = None, version: str | None = None) -> bool:
        """Begin a new execution from a step, or from the start."""
        return self._loop.call(self._handle.reset(from_step=from_step, version=version))

    def fork(self, id: str, *, from_step: int | None = None, version: str | None = None) -> SyncWorkflowHandle[R]:  # noqa: A002
        """Another instance that goes on from a step of this one."""
        return SyncWorkflowHandle(
            self._loop, self._loop.call(self._handle.fork(id, from_step=from_step, version=version))
        )


class SyncWorkflowClient:
    """Starts workflows on a store and finds them again; every call waits.

    >>> with SyncWorkflowClient("sqlite:///flows.db") as client:
    ...     client.start(pay, "visa-1", 250, id="payment-7").result()
    """

    def __init__(self, url: str, *, schema: str | None = None) -> None:
        self._loop = LoopThread()
        try:
            self._provider: Provider = self._loop.call(open_provider(url, schema=schema))
        except BaseException:
            self._loop.close()
            raise
        self._client = WorkflowClient(self._provider)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self._loop.call(self._closed())
        self._loop.close()

    @overload
    def start(
        self,
        called: Workflow[R, *Ts],
        *arguments: *Ts,
        id: str | None = None,
        version: str | None = None,
        delay: timedelta | float = 0.0,
        trace_id: str | None = None,
        reuse: Reuse = "never",
    ) -> SyncWorkflowHandle[R]: ...
    @overload
    def start(self, called: Workflow[R, *Ts, A], *arguments: *Ts, **options: Any) -> SyncWorkflowHandle[R]: ...
    @overload
    def start(self, called: Workflow[R, *Ts, A, B], *arguments: *Ts, **options: Any) -> SyncWorkflowHandle[R]: ...  # type: ignore[overload-cannot-match]
    @overload
    def start(self, called: Workflow[R, *Ts, A, B, C], *arguments: *Ts, **options: Any) -> SyncWorkflowHandle[R]: ...  # type: ignore[overload-cannot-match]
    @overload
    def start(
        self,
        called: str,
        *arguments: object,
        id: str | None = None,
        version: str | None = None,
        delay: timedelta | float = 0.0,
        trace_id: str | None = None,
        reuse: Reuse = "never",
    ) -> SyncWorkflowHandle[Any]: ...
    def start(self, called: Any, *arguments: Any, **options: Any) -> Any:  # type: ignore[misc]
        """Start a workflow, by reference or by name; see `WorkflowClient.start`."""
        work: Coroutine[Any, Any, WorkflowHandle[Any]] = self._client.start(called, *arguments, **options)
        return SyncWorkflowHandle(self._loop, self._loop.call(work))

    @overload
    def handle(self, called: Workflow[R, *tuple[Any, ...]], id: str) -> SyncWorkflowHandle[R]: ...
    @overload
    def handle(self, called: str, id: str) -> SyncWorkflowHandle[Any]: ...
    def handle(self, called: Any, id: str) -> SyncWorkflowHandle[Any]:  # noqa: A002
        """An instance started elsewhere or earlier."""
        return SyncWorkflowHandle(self._loop, self._client.handle(called, id))

    async def _closed(self) -> None:
        await self._provider.close()
