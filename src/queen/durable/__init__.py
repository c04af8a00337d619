"""Durable workflows: functions that survive crashes.

The names users of duroxide-python know are all here, so `import duroxide` can become
`from queen import durable`. New code is better off with the `async def` style: `workflow`, `activity`,
`Worker`, `WorkflowClient`.
"""

from queen.durable.activity import ActivityContext
from queen.durable.context import OrchestrationContext, ScheduledTask, parse_result
from queen.durable.replay.limits import MAX_KV_KEYS, MAX_KV_VALUE_BYTES, MAX_TAG_NAME_BYTES
from queen.durable.sync.client import Client
from queen.durable.sync.providers import SqliteProvider
from queen.durable.sync.records import (
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
from queen.durable.sync.runtime import MetricsSnapshot, Runtime, RuntimeOptions
from queen.durable.tracing import init_tracing

__all__ = [
    "MAX_KV_KEYS",
    "MAX_KV_VALUE_BYTES",
    "MAX_TAG_NAME_BYTES",
    "MAX_WORKER_TAGS",
    "ActivityContext",
    "Client",
    "DeleteInstanceResult",
    "Event",
    "ExecutionInfo",
    "InstanceFilter",
    "InstanceInfo",
    "InstanceTree",
    "MetricsSnapshot",
    "OrchestrationContext",
    "OrchestrationResult",
    "PruneOptions",
    "PruneResult",
    "QueueDepths",
    "Runtime",
    "RuntimeOptions",
    "ScheduledTask",
    "SqliteProvider",
    "SystemMetrics",
    "SystemStats",
    "TagFilter",
    "init_tracing",
    "parse_result",
]
