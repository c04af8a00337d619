"""A worker runs registered code against a provider until it is told to stop."""

from queen.durable.worker.core import WorkerCore
from queen.durable.worker.counters import Counters
from queen.durable.worker.crash import CrashPoints
from queen.durable.worker.settings import WorkerSettings

__all__ = ["Counters", "CrashPoints", "WorkerCore", "WorkerSettings"]
