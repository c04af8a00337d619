"""Streams: register a query, commit a cycle, read state. These routes speak snake_case."""

from __future__ import annotations

from typing import Final, cast
from uuid import UUID

from msgspec import Raw, field

from queen import errors
from queen.engine.streams import Cycle, Cycled, StateOp, Streams
from queen.ids import from_wire
from queen.model import QUEUE_MODE, Ack, AckStatus
from queen.server.limits import require_at_most
from queen.server.request import Request
from queen.server.routes.push import TEXTS, PushItem, PushResult, say_pushed, to_messages
from queen.server.routing import Route
from queen.server.wire import Decoder, Response, Wire, answer, millis, raw, text

_STATUSES: Final = {"completed": "completed", "success": "completed", "failed": "failed", "dlq": "dlq"}


class RegisterQuery(Wire, rename=None):
    """A stream query and its configuration."""

    name: str
    source_queue: str
    config_hash: str
    sink_queue: str | None = None
    reset: bool = False


class QueryRegistered(Wire, rename=None, omit_defaults=True):
    """The query's id, and whether its state starts anew; `error` when it is known with another configuration."""

    success: bool
    query_id: UUID
    name: str
    config_hash: str | None = None
    fresh: bool | None = None
    reset: bool | None = None
    error: str | None = None


class StateOpItem(Wire, rename=None):
    """One change of state: upsert or delete."""

    type: str
    key: str
    value: Raw = field(default_factory=lambda: Raw(b"null"))


class CycleAck(Wire):
    """The last message of the source that the cycle is done with."""

    transaction_id: str
    lease_id: str | None = None
    status: str = "completed"
    count: int | None = None
    error: str | None = None


class CycleRequest(Wire, rename=None):
    """State, output and acknowledgement that belong together."""

    query_id: str
    partition_id: str
    consumer_group: str | None = None
    state_ops: list[StateOpItem] | None = None
    push_items: list[PushItem] | None = None
    ack: CycleAck | None = None
    release_lease: bool | None = None


class CycleAckResult(Wire, rename=None):
    """What became of the acknowledgement."""

    success: bool
    count: int
    lease_released: bool
    dlq: bool


class CycleResult(Wire, rename=None, omit_defaults=True):
    """Whether the cycle was committed, and its parts."""

    success: bool
    query_id: str
    partition_id: str
    queueName: str | None = None  # noqa: N815
    state_ops_applied: int = -1
    push_results: list[PushResult] | None = None
    ack_result: CycleAckResult | None = None
    error: str | None = None
    code: str | None = None


class StateRequest(Wire, rename=None):
    """Which state: every filter given must match."""

    query_id: str
    partition_id: str
    keys: list[str] | None = None
    key_prefix: str | None = None
    ripe_at_or_before: float | None = None


class StateEntry(Wire, rename=None):
    """One entry of state."""

    key: str
    value: Raw
    updated_at: str


class StateAnswer(Wire, rename=None):
    """State by key."""

    success: bool
    rows: list[StateEntry]


_IDS: Final = {"query_id": "query_id is required", "partition_id": "partition_id is required"}
DECODE_REGISTER: Final = Decoder(
    RegisterQuery,
    {name: f"{name} is required" for name in ("name", "source_queue", "config_hash")},
)
DECODE_CYCLE: Final = Decoder(CycleRequest, {**TEXTS, **_IDS})
DECODE_STATE: Final = Decoder(StateRequest, _IDS)


async def register(request: Request) -> Response:
    """Make a stream query known by its name; another configuration needs `reset`, which drops its state."""
    body: RegisterQuery = DECODE_REGISTER(request.body)
    done = await Streams(request.engine).register(
        body.name, body.source_queue, body.sink_queue, body.config_hash, reset=body.reset
    )
    if not done.matches:
        reason = f"config_hash mismatch: {body.name!r} is registered with another configuration; reset drops its state"
        return answer(QueryRegistered(False, done.id, body.name, error=reason), 409)
    return answer(QueryRegistered(True, done.id, body.name, done.config_hash, done.fresh, done.reset))


async def cycle(request: Request) -> Response:
    """Commit state, pushes and the acknowledgement together. Answers 200 either way; `success` tells."""
    body: CycleRequest = DECODE_CYCLE(request.body)
    for name in ("query_id", "partition_id"):
        if not getattr(body, name):
            raise errors.InvalidRequest(name, f"{name} is required")
    items = body.push_items or []
    require_at_most("push_items", items, request.settings.batch_limit)
    require_at_most("state_ops", body.state_ops or (), request.settings.batch_limit)
    try:
        done = await Streams(request.engine).cycle(_cycle(body))
    except errors.QueenError as error:
        if error.status >= 500:
            raise
        return answer(CycleResult(False, body.query_id, body.partition_id, error=error.message, code=error.code))
    return answer(_cycled(body, done))


def _cycle(body: CycleRequest) -> Cycle:
    partition = _partition(body.partition_id)
    return Cycle(
        query_id=_query(body.query_id),
        partition_id=partition,
        group=body.consumer_group or QUEUE_MODE,
        state_ops=[_op(op) for op in body.state_ops or ()],
        pushes=to_messages(body.push_items or [], None),
        ack=None if body.ack is None else _ack(body.ack, partition, body.consumer_group or QUEUE_MODE),
        release_lease=body.release_lease is not False,
    )


def _query(wire: str) -> UUID:
    try:
        return UUID(wire)
    except ValueError:
        raise errors.InvalidRequest("query_id", "query_id names no registered stream query") from None


def _partition(wire: str) -> int:
    found = from_wire("partition", wire)
    if found is None:
        raise errors.InvalidRequest("partition_id", "partition_id names no partition")
    return found


def _op(op: StateOpItem) -> StateOp:
    if op.type == "upsert":
        return StateOp(type="upsert", key=op.key, value=text(op.value))
    if op.type == "delete":
        return StateOp(type="delete", key=op.key)
    raise errors.InvalidRequest("state_ops", f"a state op must be of type upsert or delete, not {op.type!r}")


def _ack(ack: CycleAck, partition: int, group: str) -> Ack:
    if ack.status not in _STATUSES:
        raise errors.InvalidRequest("status", f"ack status must be completed, failed or dlq, not {ack.status!r}")
    if "\0" in ack.transaction_id or "\0" in group:
        raise errors.InvalidRequest("ack", "Message not found")
    try:
        lease = UUID(ack.lease_id) if ack.lease_id else None
    except ValueError:
        raise errors.LeaseLost("Invalid or expired lease") from None
    return Ack(
        partition_id=partition,
        transaction_id=ack.transaction_id,
        group=group,
        lease_id=lease,
        status=cast("AckStatus", _STATUSES[ack.status]),
        error=ack.error,
    )


def _cycled(body: CycleRequest, done: Cycled) -> CycleResult:
    acked = None
    if done.acked is not None and body.ack is not None:
        count = 1 if body.ack.count is None else body.ack.count
        acked = CycleAckResult(True, count, done.lease_released, done.acked.dead_letter)
    return CycleResult(
        True,
        body.query_id,
        body.partition_id,
        done.queue,
        len(body.state_ops or ()),
        [say_pushed(index, one) for index, one in enumerate(done.pushed)],
        acked,
    )


async def state(request: Request) -> Response:
    """State of a query in one partition, by key."""
    body: StateRequest = DECODE_STATE(request.body)
    if not body.query_id or not body.partition_id:
        raise errors.InvalidRequest("query_id", "query_id and partition_id are required")
    try:
        query_id, partition = _query(body.query_id), _partition(body.partition_id)
    except errors.InvalidRequest:
        return answer(StateAnswer(True, []))
    rows = await Streams(request.engine).state(
        query_id, partition, keys=body.keys or (), prefix=body.key_prefix, ripe_by=body.ripe_at_or_before
    )
    return answer(StateAnswer(True, [StateEntry(row.key, raw(row.value), millis(row.updated_at)) for row in rows]))


ROUTES = [
    Route("POST", "/streams/v1/queries", register, body=RegisterQuery, answer=QueryRegistered, others=(409,)),
    Route("POST", "/streams/v1/cycle", cycle, body=CycleRequest, answer=CycleResult),
    Route("POST", "/streams/v1/state/get", state, role="read", body=StateRequest, answer=StateAnswer),
]
