"""Consumer groups: how far they are, where they start, moving and deleting them."""

from __future__ import annotations

from typing import Final, Literal
from uuid import UUID

from msgspec import field

from queen import errors
from queen.engine.groups import Group, Groups, LaggingLane
from queen.model import SeekResult
from queen.server.listing import fill, name_of
from queen.server.request import Request
from queen.server.routing import Query, Route
from queen.server.wire import Decoder, Response, Wire, answer, millis, millis_or_none, partition_id, time_of

LAG: Final = 3600
MAX_LAGGING: Final = 10_000


class GroupEntry(Wire):
    """A group on one queue; `members` counts its partitions."""

    name: str
    topics: list[str]
    queue_name: str
    members: int
    partitions_with_lag: int
    total_lag: int
    max_time_lag: int
    state: Literal["Lagging", "Stable", "Dead"]
    subscription_mode: str
    subscription_timestamp: str
    subscription_created_at: str


class LaggingEntry(Wire, rename=None):
    """A partition a group is behind on."""

    consumer_group: str
    queue_name: str
    partition_name: str
    partition_id: str
    worker_id: UUID | None
    offset_lag: int
    time_lag_seconds: int
    lag_hours: float
    oldest_unconsumed_at: str
    last_consumed_at: str | None


class LaneEntry(Wire):
    """One partition of a group."""

    partition: str
    worker_id: UUID | None
    last_consumed_at: str | None
    total_consumed: int
    offset_lag: int
    time_lag_seconds: int
    lease_active: bool


class GroupQueue(Wire):
    """A group's partitions of one queue."""

    partitions: list[LaneEntry]


class GroupDeleted(Wire, omit_defaults=True):
    """How many cursors went."""

    success: bool
    consumer_group: str
    deleted_partitions: int
    metadata_deleted: bool
    queue_name: str | None = None


class Subscription(Wire):
    """Where a group is to start."""

    subscription_timestamp: str


class SubscriptionChanged(Wire):
    """How many queues it now starts there on."""

    success: bool
    consumer_group: str
    new_timestamp: str
    rows_updated: int


class Seek(Wire):
    """Where to move a group: exactly one of the first four."""

    to_end: bool = False
    to_beginning: bool = False
    timestamp: str | None = None
    seqs: dict[str, int] | None = field(default=None, name="seq")
    dry_run: bool = False


class SeekAnswer(Wire):
    """What a seek did, or with `dryRun` would do."""

    success: bool
    consumer_group: str
    queue_name: str
    seek_to_end: bool
    target_timestamp: str | None
    partitions_updated: int
    redelivered: int
    skipped: int
    dry_run: bool


DECODE_SUBSCRIPTION: Final = Decoder(
    Subscription, {"subscriptionTimestamp": "subscriptionTimestamp is required, an ISO 8601 time"}
)
DECODE_SEEK: Final = Decoder(Seek)


def _groups(request: Request) -> Groups:
    return Groups(request.engine.database, request.engine.wake)


def _entry(group: Group) -> GroupEntry:
    return fill(
        GroupEntry,
        group,
        topics=[group.queue],
        queue_name=group.queue,
        partitions_with_lag=group.lagging,
        total_lag=group.waiting,
        max_time_lag=group.lag_seconds or 0,
        state=group.state,
        subscription_mode=group.mode,
        subscription_timestamp=millis(group.start_at),
        subscription_created_at=millis(group.created_at),
    )


def _lagging(lane: LaggingLane) -> LaggingEntry:
    return LaggingEntry(
        lane.group,
        lane.queue,
        lane.partition,
        partition_id(lane.partition_id),
        lane.lease_id,
        lane.waiting,
        lane.lag_seconds,
        round(lane.lag_seconds / 3600, 2),
        millis(lane.oldest_at),
        millis_or_none(lane.last_consumed_at),
    )


async def groups(request: Request) -> Response:
    """Every group on every queue."""
    return answer([_entry(group) for group in await _groups(request).known()])


async def lagging(request: Request) -> Response:
    """The partitions groups are behind on, worst first."""
    seconds = request.number("minLagSeconds", LAG)
    limit = request.number("limit", 1000, 1, MAX_LAGGING)
    return answer([_lagging(lane) for lane in await _groups(request).lagging(seconds, limit)])


async def group(request: Request) -> Response:
    """One group's partitions, by queue."""
    (name,) = request.params
    found: dict[str, GroupQueue] = {}
    for lane in await _groups(request).lanes(name_of("group", name)):
        entry = fill(
            LaneEntry,
            lane,
            worker_id=lane.lease_id,
            offset_lag=lane.waiting,
            time_lag_seconds=lane.lag_seconds or 0,
            lease_active=lane.lease_id is not None,
        )
        found.setdefault(lane.queue, GroupQueue([])).partitions.append(entry)
    return answer(found)


async def forget(request: Request) -> Response:
    """Remove a group from every queue; without `deleteMetadata` it will start where it once did."""
    (name,) = request.params
    metadata = request.flag("deleteMetadata", default=True)
    count = await request.engine.queues.forget_group(name_of("group", name), subscription=metadata)
    return answer(GroupDeleted(True, name, count, metadata))


async def forget_queue(request: Request) -> Response:
    """Remove a group from one queue."""
    name, queue = request.params
    metadata = request.flag("deleteMetadata", default=True)
    count = await request.engine.queues.forget_group(
        name_of("group", name), name_of("queue", queue), subscription=metadata
    )
    return answer(GroupDeleted(True, name, count, metadata, queue))


async def subscription(request: Request) -> Response:
    """Change where a group starts when it meets a queue anew; its cursors stay."""
    (name,) = request.params
    body: Subscription = DECODE_SUBSCRIPTION(request.body)
    time = time_of("subscriptionTimestamp", body.subscription_timestamp)
    count = await _groups(request).set_subscription(name_of("group", name), time)
    return answer(SubscriptionChanged(True, name, millis(time), count))


async def seek(request: Request) -> Response:
    """Move a group on a queue: to the end, the beginning, a time, or a seq per partition."""
    name, queue = request.params
    body: Seek = DECODE_SEEK(request.body)
    ways = [body.to_end, body.to_beginning, body.timestamp is not None, body.seqs is not None]
    if sum(ways) != 1:
        raise errors.InvalidRequest(
            "to_end", "Must specify either 'toEnd': true or 'timestamp' (or 'toBeginning': true, or 'seq')"
        )
    name_of("group", name)
    name_of("queue", queue)
    request.changed = not body.dry_run
    done = await _seek(request, queue, name, body)
    return answer(_sought(name, queue, body, done))


async def _seek(request: Request, queue: str, group: str, body: Seek) -> SeekResult:
    queues = request.engine.queues
    if body.seqs is not None:
        for partition, seq in body.seqs.items():
            if not 0 <= seq < 2**63 or "\0" in partition:
                raise errors.InvalidRequest("seq", "seq must map partition names to whole numbers from 0")
        return await _groups(request).seek_seqs(queue, group, body.seqs, dry_run=body.dry_run)
    if body.timestamp is not None:
        time = time_of("timestamp", body.timestamp)
        return await queues.seek(queue, group, "time", time=time, dry_run=body.dry_run)
    return await queues.seek(queue, group, "end" if body.to_end else "start", dry_run=body.dry_run)


def _sought(group: str, queue: str, body: Seek, done: SeekResult) -> SeekAnswer:
    target = None if body.timestamp is None else millis(time_of("timestamp", body.timestamp))
    return SeekAnswer(
        True, group, queue, body.to_end, target, done.partitions, done.redelivered, done.skipped, body.dry_run
    )


async def seek_partition(request: Request) -> Response:
    """Move a group to the end of one partition."""
    name, queue, partition = (name_of("path", part) for part in request.params)
    done = await request.engine.queues.seek(queue, name, "end", partition=partition)
    return answer(_sought(name, queue, Seek(to_end=True), done))


_GROUP: Final = "/api/v1/consumer-groups/:group"
_METADATA: Final = (Query("deleteMetadata", "boolean", "Also forget where it started.", default=True),)

ROUTES = [
    Route("GET", "/api/v1/consumer-groups", groups, role="read", answer=list[GroupEntry]),
    Route(
        "GET",
        "/api/v1/consumer-groups/lagging",
        lagging,
        role="read",
        answer=list[LaggingEntry],
        query=(Query("minLagSeconds", "integer", default=LAG), Query("limit", "integer", default=1000)),
    ),
    Route("GET", _GROUP, group, role="read", answer=dict[str, GroupQueue]),
    Route("DELETE", _GROUP, forget, role="admin", answer=GroupDeleted, query=_METADATA, act="forget"),
    Route(
        "POST",
        f"{_GROUP}/subscription",
        subscription,
        body=Subscription,
        answer=SubscriptionChanged,
        act="subscription",
    ),
    Route(
        "DELETE",
        f"{_GROUP}/queues/:queue",
        forget_queue,
        role="admin",
        answer=GroupDeleted,
        query=_METADATA,
        act="forget",
    ),
    Route("POST", f"{_GROUP}/queues/:queue/seek", seek, body=Seek, answer=SeekAnswer, others=(404,), act="seek"),
    Route(
        "POST",
        f"{_GROUP}/queues/:queue/partitions/:partition/seek",
        seek_partition,
        answer=SeekAnswer,
        others=(404,),
        act="seek",
    ),
]
