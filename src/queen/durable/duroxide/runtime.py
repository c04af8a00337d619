"""The synchronous runtime: register functions, start, shut down."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar, overload

from queen.durable.activity_context import ActivityContext
from queen.durable.codec import dump, load
from queen.durable.duroxide.client import Client
from queen.durable.duroxide.generators import generator_entry
from queen.durable.duroxide.providers import Store
from queen.durable.duroxide.records import read_tag_filter
from queen.durable.errors import DurableError
from queen.durable.registry import DEFAULT_VERSION, RegisteredActivity, RegisteredOrchestration, Registry
from queen.durable.worker import Counters, CrashPoints, WorkerCore, WorkerSettings

F = TypeVar("F", bound=Callable[..., Any])
MetricsSnapshot = Counters

_DEFAULT_SHUTDOWN_MS = 1000


@dataclass(slots=True)
class RuntimeOptions:
    """All optional; times in milliseconds. Log options are accepted and left to the `logging` module."""

    orchestration_concurrency: int | None = None
    worker_concurrency: int | None = None
    dispatcher_poll_interval_ms: int | None = None
    worker_lock_timeout_ms: int | None = None
    log_format: str | None = None
    log_level: str | None = None
    service_name: str | None = None
    service_version: str | None = None
    max_sessions_per_runtime: int | None = None
    session_idle_timeout_ms: int | None = None
    worker_node_id: str | None = None
    worker_tag_filter: str | None = None
    orchestrator_lock_timeout_ms: int | None = None
    orchestrator_lock_renewal_buffer_ms: int | None = None
    max_attempts: int | None = None
    worker_lock_renewal_buffer_ms: int | None = None
    session_lock_timeout_ms: int | None = None
    session_lock_renewal_buffer_ms: int | None = None

    def settings(self) -> WorkerSettings:
        """The worker settings these options ask for."""
        known = {each.name for each in fields(WorkerSettings)}
        given: dict[str, Any] = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name in known and getattr(self, each.name) is not None
        }
        if self.worker_node_id is not None:
            given["node_id"] = self.worker_node_id
        try:
            return WorkerSettings(tags=read_tag_filter(self.worker_tag_filter), **given)
        except ValueError as error:
            raise RuntimeError(str(error)) from error


class Runtime:
    """Runs registered orchestrations and activities against a store."""

    def __init__(
        self, provider: Store, options: RuntimeOptions | None = None, *, crash_points: CrashPoints | None = None
    ) -> None:
        self._store = provider
        self._settings = (options or RuntimeOptions()).settings()
        self._registry = Registry()
        self._crash_points = crash_points
        self._core: WorkerCore | None = None

    @overload
    def register_activity(self, name: str) -> Callable[[F], F]: ...
    @overload
    def register_activity(self, name: str, fn: F) -> F: ...
    def register_activity(self, name: str, fn: Callable[..., Any] | None = None) -> Any:
        """Register `fn(ctx, input)`, sync or async; also usable as a decorator."""
        return self._activity(name, fn)

    @overload
    def register_orchestration(self, name: str) -> Callable[[F], F]: ...
    @overload
    def register_orchestration(self, name: str, fn: F) -> F: ...
    def register_orchestration(self, name: str, fn: Callable[..., Any] | None = None) -> Any:
        """Register a generator function `fn(ctx, input)`; also usable as a decorator."""
        return self._orchestration(name, DEFAULT_VERSION, fn)

    @overload
    def register_orchestration_versioned(self, name: str, version: str) -> Callable[[F], F]: ...
    @overload
    def register_orchestration_versioned(self, name: str, version: str, fn: F) -> F: ...
    def register_orchestration_versioned(self, name: str, version: str, fn: Callable[..., Any] | None = None) -> Any:
        """Register one version of an orchestration; versions are registered in ascending order."""
        return self._orchestration(name, version, fn)

    @overload
    def register_activity_typed(self, name: str) -> Callable[[F], F]: ...
    @overload
    def register_activity_typed(self, name: str, fn: F) -> F: ...
    def register_activity_typed(self, name: str, fn: Callable[..., Any] | None = None) -> Any:
        """As `register_activity`."""
        return self._activity(name, fn)

    @overload
    def register_orchestration_typed(self, name: str) -> Callable[[F], F]: ...
    @overload
    def register_orchestration_typed(self, name: str, fn: F) -> F: ...
    def register_orchestration_typed(self, name: str, fn: Callable[..., Any] | None = None) -> Any:
        """As `register_orchestration`."""
        return self._orchestration(name, DEFAULT_VERSION, fn)

    @overload
    def register_orchestration_versioned_typed(self, name: str, version: str) -> Callable[[F], F]: ...
    @overload
    def register_orchestration_versioned_typed(self, name: str, version: str, fn: F) -> F: ...
    def register_orchestration_versioned_typed(
        self, name: str, version: str, fn: Callable[..., Any] | None = None
    ) -> Any:
        """As `register_orchestration_versioned`."""
        return self._orchestration(name, version, fn)

    def _activity(self, name: str, fn: Callable[..., Any] | None) -> Any:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            _refused_as_runtime_error(lambda: self._registry.add_activity(_activity(name, function)))
            return function

        return register if fn is None else register(fn)

    def _orchestration(self, name: str, version: str, fn: Callable[..., Any] | None) -> Any:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            made = RegisteredOrchestration(name, version, generator_entry(function))
            _refused_as_runtime_error(lambda: self._registry.add_orchestration(made))
            return function

        return register if fn is None else register(fn)

    def start(self) -> None:
        """Begin to work, on a thread of the store."""
        if self._core is not None:
            raise RuntimeError("the runtime is already started")

        async def begin() -> WorkerCore:
            core = WorkerCore(
                self._store.provider,
                self._registry,
                self._settings,
                client=lambda: Client(self._store),
                crash=self._crash_points,
            )
            await core.start()
            return core

        self._core = self._store.call(begin(), timeout=60)

    def shutdown(self, timeout_ms: int | None = None) -> None:
        """Stop fetching, give running work `timeout_ms`, hand the rest back."""
        core, self._core = self._core, None
        if core is not None:
            allowed = (_DEFAULT_SHUTDOWN_MS if timeout_ms is None else timeout_ms) / 1000
            self._store.call(core.stop(allowed), timeout=allowed + 60)

    def metrics_snapshot(self) -> MetricsSnapshot:
        """What the runtime did since it started."""
        if self._core is None:
            return Counters()
        counters = self._core.counters
        return Counters(**{each.name: getattr(counters, each.name) for each in fields(Counters)})


def _activity(name: str, function: Callable[[ActivityContext, Any], Any]) -> RegisteredActivity:
    if inspect.iscoroutinefunction(function):

        async def call_async(context: ActivityContext, text: str) -> str:
            return dump(await function(context, load(text)))

        return RegisteredActivity(name, call_async, is_async=True)

    def call(context: ActivityContext, text: str) -> str:
        return dump(function(context, load(text)))

    return RegisteredActivity(name, call, is_async=False)


def _refused_as_runtime_error(register: Callable[[], None]) -> None:
    try:
        register()
    except DurableError as error:
        raise RuntimeError(str(error)) from error
