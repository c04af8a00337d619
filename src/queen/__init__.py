"""Ordered queues, durable workflows and a Spark data pipeline on PostgreSQL.

async with queen.connect("http://localhost:6632") as q:        # or "postgresql://...", the same calls
    await q.push("orders", {"orderId": 123}, partition="customer-456")
    batch = await q.pop("orders", batch=10)
    await q.ack(batch)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from queen.client._sync.client import Client as SyncClient
    from queen.client._sync.connect import connect as connect_sync
    from queen.client._sync.message import Message as SyncMessage
    from queen.client.app import App
    from queen.client.backoff import Backoff
    from queen.client.client import Client
    from queen.client.connect import connect
    from queen.client.consumer import Consumed
    from queen.client.errors import (
        AnswerLost,
        DecodeError,
        NotAllowed,
        NotAuthenticated,
        PayloadTooLarge,
        RolledBack,
        TaskFailed,
        TransportError,
    )
    from queen.client.http import Timeouts
    from queen.client.message import HandBack, Message, Outcome, Reject
    from queen.client.push import Push
    from queen.client.retry import Retry
    from queen.client.runner import Running
    from queen.client.task import Job, Task
    from queen.errors import (
        Backpressure,
        EncryptionRequired,
        EncryptionUnavailable,
        InternalError,
        InvalidRequest,
        LeaseLost,
        MessageNotFound,
        PartitionBusy,
        QueenError,
        QueueFull,
        QueueNotFound,
        RequestError,
        SchemaOutdated,
        StoreUnavailable,
        TransactionConflict,
    )
    from queen.model import Acked, Pushed, QueueConfig
    from queen.spark.pipelines.definition import pipeline

# Loaded when first used: a command or a Spark worker need not load a client.
_HOME = {
    "queen.client._sync.client": {"SyncClient": "Client"},
    "queen.client._sync.connect": {"connect_sync": "connect"},
    "queen.client._sync.message": {"SyncMessage": "Message"},
    "queen.client.app": ("App",),
    "queen.client.backoff": ("Backoff",),
    "queen.client.client": ("Client",),
    "queen.client.connect": ("connect",),
    "queen.client.consumer": ("Consumed",),
    "queen.client.errors": (
        "AnswerLost", "DecodeError", "NotAllowed", "NotAuthenticated", "PayloadTooLarge", "RolledBack",
        "TaskFailed", "TransportError",
    ),
    "queen.client.http": ("Timeouts",),
    "queen.client.message": ("HandBack", "Message", "Outcome", "Reject"),
    "queen.client.push": ("Push",),
    "queen.client.retry": ("Retry",),
    "queen.client.runner": ("Running",),
    "queen.client.task": ("Job", "Task"),
    "queen.errors": (
        "Backpressure", "EncryptionRequired", "EncryptionUnavailable", "InternalError", "InvalidRequest", "LeaseLost",
        "MessageNotFound", "PartitionBusy", "QueenError", "QueueFull", "QueueNotFound", "RequestError",
        "SchemaOutdated", "StoreUnavailable", "TransactionConflict",
    ),
    "queen.model": ("Acked", "Pushed", "QueueConfig"),
    "queen.spark.pipelines.definition": ("pipeline",),
}  # fmt: skip
_NAMES = {
    name: (module, names[name] if isinstance(names, dict) else name)
    for module, names in _HOME.items()
    for name in names
}

__all__ = [
    "Acked", "AnswerLost", "App", "Backoff", "Backpressure", "Client", "Consumed", "DecodeError",
    "EncryptionRequired", "EncryptionUnavailable", "HandBack", "InternalError", "InvalidRequest", "Job", "LeaseLost",
    "Message", "MessageNotFound", "NotAllowed", "NotAuthenticated", "Outcome", "PartitionBusy", "PayloadTooLarge",
    "Push", "Pushed", "QueenError", "QueueConfig", "QueueFull", "QueueNotFound", "Reject", "RequestError", "Retry",
    "RolledBack", "Running", "SchemaOutdated", "StoreUnavailable", "SyncClient", "SyncMessage", "Task", "TaskFailed",
    "Timeouts", "TransactionConflict", "TransportError", "connect", "connect_sync", "pipeline",
]  # fmt: skip

if not TYPE_CHECKING:  # or a checker would believe in every name

    def __getattr__(name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(f"module 'queen' has no attribute {name!r}")
        module, there = _NAMES[name]
        value = getattr(import_module(module), there)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
