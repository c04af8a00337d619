"""Durable workflows: functions that survive crashes.

The names users of duroxide-python know are all here, so `import duroxide` can become
`from queen import durable`. New code is better off with the `async def` style: `workflow`, `activity`,
`Worker`, `WorkflowClient`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queen.durable.activity_context import ActivityContext
    from queen.durable.client import WorkflowClient, WorkflowHandle
    from queen.durable.definition import Activity, Workflow, activity, transaction, workflow
    from queen.durable.duroxide.client import Client
    from queen.durable.duroxide.context import OrchestrationContext, ScheduledTask, parse_result
    from queen.durable.duroxide.providers import PostgresProvider, SqliteProvider
    from queen.durable.duroxide.records import (
        MAX_WORKER_TAGS,
        DeleteInstanceResult,
        Event,
        ExecutionInfo,
        InstanceFilter,
        InstanceInfo,
        InstanceTree,
        OrchestrationResult,
        PruneOptions,
        PruneResult,
        QueueDepths,
        SystemMetrics,
        SystemStats,
        TagFilter,
    )
    from queen.durable.duroxide.runtime import MetricsSnapshot, Runtime, RuntimeOptions
    from queen.durable.errors import (
        ActivityFailed,
        ActivityTimedOut,
        CallFailed,
        ChildFailed,
        DirectCall,
        DurableError,
        NondeterminismDetected,
        NonRetryable,
        NothingToRetry,
        QueryNotFound,
        RegistrationError,
        StepNotFound,
        UpdateRefused,
        WorkflowCancelled,
        WorkflowFailed,
        WorkflowNotFound,
        WorkflowTimedOut,
    )
    from queen.durable.limits import Limit
    from queen.durable.mailbox import (
        DeadLetter,
        EventStore,
        Mailbox,
        MailboxMessage,
        MessageBatch,
        Outgoing,
        StoredEvent,
        UnitOfWork,
    )
    from queen.durable.provider import Provider, ProviderError
    from queen.durable.replay.limits import MAX_KV_KEYS, MAX_KV_VALUE_BYTES, MAX_TAG_NAME_BYTES
    from queen.durable.replay.promise import Cancelled, Dropped, Winner
    from queen.durable.retry import RetryPolicy
    from queen.durable.schedules import Schedules
    from queen.durable.stores import open_mailbox, open_provider
    from queen.durable.sync_client import SyncWorkflowClient, SyncWorkflowHandle
    from queen.durable.tracing import init_tracing
    from queen.durable.updates import Update
    from queen.durable.worker import CrashPoints, WorkerSettings
    from queen.durable.worker.worker import Worker
    from queen.durable.workflow_context import WorkflowContext

# Loaded when first used: a broker that shows workflows need not load what runs them.
_HOME = {
    "queen.durable.activity_context": ("ActivityContext",),
    "queen.durable.client": ("WorkflowClient", "WorkflowHandle"),
    "queen.durable.duroxide.context": ("OrchestrationContext", "ScheduledTask", "parse_result"),
    "queen.durable.definition": ("Activity", "Workflow", "activity", "transaction", "workflow"),
    "queen.durable.errors": (
        "ActivityFailed", "ActivityTimedOut", "CallFailed", "ChildFailed", "DirectCall", "DurableError",
        "NonRetryable", "NondeterminismDetected", "NothingToRetry", "QueryNotFound", "RegistrationError",
        "StepNotFound", "UpdateRefused", "WorkflowCancelled", "WorkflowFailed", "WorkflowNotFound", "WorkflowTimedOut",
    ),
    "queen.durable.mailbox": (
        "DeadLetter", "EventStore", "Mailbox", "MailboxMessage", "MessageBatch", "Outgoing", "StoredEvent",
        "UnitOfWork",
    ),
    "queen.durable.provider": ("Provider", "ProviderError"),
    "queen.durable.replay.limits": ("MAX_KV_KEYS", "MAX_KV_VALUE_BYTES", "MAX_TAG_NAME_BYTES"),
    "queen.durable.replay.promise": ("Cancelled", "Dropped", "Winner"),
    "queen.durable.limits": ("Limit",),
    "queen.durable.retry": ("RetryPolicy",),
    "queen.durable.schedules": ("Schedules",),
    "queen.durable.stores": ("open_mailbox", "open_provider"),
    "queen.durable.duroxide.client": ("Client",),
    "queen.durable.sync_client": ("SyncWorkflowClient", "SyncWorkflowHandle"),
    "queen.durable.updates": ("Update",),
    "queen.durable.duroxide.providers": ("PostgresProvider", "SqliteProvider"),
    "queen.durable.duroxide.records": (
        "MAX_WORKER_TAGS", "DeleteInstanceResult", "Event", "ExecutionInfo", "InstanceFilter", "InstanceInfo",
        "InstanceTree", "OrchestrationResult", "PruneOptions", "PruneResult", "QueueDepths", "SystemMetrics",
        "SystemStats", "TagFilter",
    ),
    "queen.durable.duroxide.runtime": ("MetricsSnapshot", "Runtime", "RuntimeOptions"),
    "queen.durable.tracing": ("init_tracing",),
    "queen.durable.worker": ("CrashPoints", "WorkerSettings"),
    "queen.durable.worker.worker": ("Worker",),
    "queen.durable.workflow_context": ("WorkflowContext",),
}  # fmt: skip
_NAMES = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "MAX_KV_KEYS", "MAX_KV_VALUE_BYTES", "MAX_TAG_NAME_BYTES", "MAX_WORKER_TAGS", "Activity", "ActivityContext",
    "ActivityFailed", "ActivityTimedOut", "CallFailed", "Cancelled", "ChildFailed", "Client", "CrashPoints",
    "DeadLetter", "DeleteInstanceResult", "DirectCall", "Dropped", "DurableError", "Event", "EventStore",
    "ExecutionInfo", "InstanceFilter", "InstanceInfo", "InstanceTree", "Limit", "Mailbox", "MailboxMessage",
    "MessageBatch", "MetricsSnapshot", "NonRetryable", "NondeterminismDetected", "NothingToRetry",
    "OrchestrationContext", "OrchestrationResult", "Outgoing", "PostgresProvider", "Provider", "ProviderError",
    "PruneOptions", "PruneResult", "QueryNotFound", "QueueDepths", "RegistrationError", "RetryPolicy", "Runtime",
    "RuntimeOptions", "ScheduledTask", "Schedules", "SqliteProvider", "StepNotFound", "StoredEvent",
    "SyncWorkflowClient", "SyncWorkflowHandle", "SystemMetrics", "SystemStats", "TagFilter", "UnitOfWork", "Update",
    "UpdateRefused", "Winner", "Worker", "WorkerSettings", "Workflow", "WorkflowCancelled", "WorkflowClient",
    "WorkflowContext", "WorkflowFailed", "WorkflowHandle", "WorkflowNotFound", "WorkflowTimedOut", "activity",
    "init_tracing", "open_mailbox", "open_provider", "parse_result", "transaction", "workflow",
]  # fmt: skip

if not TYPE_CHECKING:  # or a checker would believe in every name

    def __getattr__(name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(f"module 'queen.durable' has no attribute {name!r}")
        value = getattr(import_module(_NAMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
