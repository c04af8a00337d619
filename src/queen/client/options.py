"""How a consumer behaves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict

from queen.engine.consume import MAX_PREFETCH
from queen.errors import InvalidRequest
from queen.model import QUEUE_MODE, PopRequest


class _Options(TypedDict, total=False):
    group: str
    concurrency: int
    partition: str | None
    lease: int | None
    start: Literal["all", "new"] | datetime
    limit: int | None
    idle: float | None
    drain: float
    poll: float
    signals: bool


class ConsumeOptions(_Options, total=False):
    """How to consume message by message. Times are seconds.

    group: consumer group; queue mode unless given.
    prefetch: most messages of a partition taken at once; one unless given. Each is acknowledged before the next.
    concurrency: how many messages are worked on at the same time, each of another partition.
    partition: only this partition.
    lease: how long messages come back after a crash; the queue's own unless given. Renewed while working.
    start: where a new group starts: "all", "new", or a time.
    limit: stop after this many messages.
    idle: stop after this long without a message.
    drain: how long running handlers may take to finish once stopped.
    poll: longest wait of one request for messages.
    signals: stop on SIGTERM and SIGINT, unless somebody else in this process handles them.
    """

    prefetch: int


class BatchOptions(_Options, total=False):
    """How to consume in batches: the options of `ConsumeOptions` but for `prefetch`, and these.

    batch: most messages taken at once; ten unless given.
    partitions: most partitions taken at once.
    """

    batch: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The same, checked and with defaults."""

    group: str = QUEUE_MODE
    batch: int = 10
    partitions: int = 1
    prefetch: int = 1
    concurrency: int = 1
    partition: str | None = None
    lease: int | None = None
    start: Literal["all", "new"] | datetime = "all"
    limit: int | None = None
    idle: float | None = None
    drain: float = 30.0
    poll: float = 30.0
    signals: bool = True

    @classmethod
    def one_by_one(cls, options: ConsumeOptions) -> Options:
        """For messages that are worked on one by one."""
        for name in ("batch", "partitions"):
            if name in options:
                raise InvalidRequest(name, f"{name} is for consume_batches; message by message it is prefetch")
        return cls(**options)

    @classmethod
    def in_batches(cls, options: BatchOptions) -> Options:
        """For batches that are worked on as a whole."""
        if "prefetch" in options:
            raise InvalidRequest("prefetch", "prefetch is for messages one by one; here it is batch")
        return cls(**options)

    def __post_init__(self) -> None:
        if not 1 <= self.prefetch <= MAX_PREFETCH:
            raise InvalidRequest("prefetch", f"prefetch must be between 1 and {MAX_PREFETCH}")
        for name in ("batch", "partitions", "concurrency"):
            if getattr(self, name) < 1:
                raise InvalidRequest(name, f"{name} must be at least 1")
        for name in ("limit", "idle", "lease"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidRequest(name, f"{name} must be above 0")

    def request(self, queue: str, batch: int, wait: float, lease: int | None, *, whole: bool) -> PopRequest:
        """What to ask for next: a batch that is worked on as a whole, or messages that are worked on one by one."""
        return pop_request(
            queue,
            group=self.group,
            batch=batch,
            partitions=min(self.partitions, batch) if whole else 1,
            partition=self.partition,
            wait=wait,
            lease=lease,
            start=self.start,
            prefetch=not whole and batch > 1,
        )


def pop_request(
    queue: str,
    *,
    group: str,
    batch: int,
    partitions: int,
    partition: str | None,
    wait: float,
    lease: int | None,
    start: Literal["all", "new"] | datetime,
    auto_ack: bool = False,
    prefetch: bool = False,
) -> PopRequest:
    """A request for messages; `start` as the caller gave it."""
    if isinstance(start, datetime) and start.tzinfo is None:
        raise InvalidRequest("start", "start must be a time with a time zone")
    return PopRequest(
        queue=queue,
        group=group,
        batch=batch,
        partitions=partitions,
        partition=partition,
        wait=wait,
        lease_seconds=lease,
        auto_ack=auto_ack,
        mode="timestamp" if isinstance(start, datetime) else start,
        start_at=start if isinstance(start, datetime) else None,
        prefetch=prefetch,
    )
