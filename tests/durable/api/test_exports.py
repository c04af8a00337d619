"""The package exports what it says, and every name users of duroxide-python import."""

from __future__ import annotations

import inspect

import pytest

from queen import durable

COMPATIBLE = {
    "ActivityContext", "Client", "DeleteInstanceResult", "Event", "ExecutionInfo", "InstanceFilter", "InstanceInfo",
    "InstanceTree", "MAX_KV_KEYS", "MAX_KV_VALUE_BYTES", "MAX_TAG_NAME_BYTES", "MAX_WORKER_TAGS", "MetricsSnapshot",
    "OrchestrationContext", "OrchestrationResult", "PostgresProvider", "PruneOptions", "PruneResult", "QueueDepths",
    "Runtime", "RuntimeOptions", "ScheduledTask", "SqliteProvider", "SystemMetrics", "SystemStats", "TagFilter",
    "init_tracing", "parse_result",
}  # fmt: skip


def test_all_is_what_can_be_imported() -> None:
    assert sorted(durable.__all__) == sorted(set(durable.__all__))
    assert [name for name in durable.__all__ if not hasattr(durable, name)] == []
    assert set(durable.__all__) >= COMPATIBLE


def test_limits() -> None:
    assert (durable.MAX_KV_KEYS, durable.MAX_KV_VALUE_BYTES) == (150, 65536)
    assert (durable.MAX_TAG_NAME_BYTES, durable.MAX_WORKER_TAGS) == (256, 5)


def test_runtime_options_take_every_known_keyword() -> None:
    assert list(inspect.signature(durable.RuntimeOptions).parameters) == [
        "orchestration_concurrency",
        "worker_concurrency",
        "dispatcher_poll_interval_ms",
        "worker_lock_timeout_ms",
        "log_format",
        "log_level",
        "service_name",
        "service_version",
        "max_sessions_per_runtime",
        "session_idle_timeout_ms",
        "worker_node_id",
        "worker_tag_filter",
        "orchestrator_lock_timeout_ms",
        "orchestrator_lock_renewal_buffer_ms",
        "max_attempts",
        "worker_lock_renewal_buffer_ms",
        "session_lock_timeout_ms",
        "session_lock_renewal_buffer_ms",
    ]


def test_tag_filters() -> None:
    assert durable.TagFilter.tags(["a", "b"]) == '{"tags": ["a", "b"]}'
    assert durable.TagFilter.default_and(["a"]) == '{"default_and": ["a"]}'
    with durable.SqliteProvider.in_memory() as store, pytest.raises(RuntimeError, match="must come from TagFilter"):
        durable.Runtime(store, durable.RuntimeOptions(worker_tag_filter="nonsense"))
