"""Puts a history into a database, all of it or nothing, as if the verbs had been called in the past."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import msgspec

from queen.demo import shop
from queen.demo.history import History
from queen.demo.lanes import Delivery
from queen.demo.shop import STAGES
from queen.engine import Engine
from queen.errors import InvalidRequest
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.pool import Connection

AT_ONCE: Final = 20_000
T = TypeVar("T")
Lanes = dict[tuple[str, str], tuple[int, int]]


async def prepare(engine: Engine, prefix: str, *, empty: bool) -> None:
    """The queues of the shop exist, with their groups; `empty`: and hold nothing yet."""
    names = [prefix + stage.queue for stage in STAGES]
    if empty and (found := await engine.database.fetch(query("demo/waiting_queues"), names)):
        raise InvalidRequest("prefix", f"queue {found[0]['name']!r} has messages already: choose another --prefix")
    for stage in STAGES:
        await engine.queues.configure(prefix + stage.queue, shop.QUEUE_OPTIONS, namespace="shop", task=stage.queue)
        await engine.register(prefix + stage.queue, stage.group)
    await engine.register(prefix + STAGES[shop.ORDERS].queue, shop.WATCHERS)


async def store(engine: Engine, history: History, prefix: str) -> None:
    """Write everything in one transaction."""
    await prepare(engine, prefix, empty=True)
    await engine.database.transaction(lambda connection: write(connection, history, prefix))


async def write(connection: Connection, history: History, prefix: str) -> None:
    """Messages, deliveries, dead letters, cursors and statistics."""
    lanes = await create_lanes(connection, history, prefix)
    await connection.fetch(query("demo/announce"))
    await write_messages(connection, history, lanes)
    await write_heads(connection, history, lanes)
    await write_deliveries(connection, history, lanes)
    await write_dead_letters(connection, history, lanes)
    await write_cursors(connection, history, lanes)
    queues = sorted({queue for _, queue in lanes.values()})
    await connection.fetch(query("demo/fill_stats"), queues, shop.ATTEMPTS - 1)


async def create_lanes(connection: Connection, history: History, prefix: str) -> Lanes:
    """The ids of every partition and its queue."""
    names = sorted({(queue, partition) for queue, partition, _ in history.lanes})
    queues, partitions = [prefix + queue for queue, _ in names], [partition for _, partition in names]
    made = await connection.fetch(query("demo/create_partitions"), queues, partitions)
    found = await connection.fetch(query("demo/lock_partitions"), [row["id"] for row in made])
    if any(row["next_seq"] > 1 for row in found):
        raise InvalidRequest("prefix", "someone pushed to the queues of the shop meanwhile: choose another --prefix")
    return {name: (row["id"], row["queue_id"]) for name, row in zip(names, found, strict=True)}


async def write_messages(connection: Connection, history: History, lanes: Lanes) -> None:
    """The messages in the order they were stored."""
    encode = msgspec.json.encode
    for batch in chunks(history.messages):
        await connection.fetch(
            query("demo/store_messages"),
            [lanes[STAGES[one.stage].queue, one.partition][0] for one in batch],
            [one.seq for one in batch],
            [one.id for one in batch],
            [one.order.trace for one in batch],
            [one.parent_id for one in batch],
            [history.time(one.created) for one in batch],
            [encode(one.payload).decode() for one in batch],
        )


async def write_heads(connection: Connection, history: History, lanes: Lanes) -> None:
    """How far each partition reaches."""
    first: dict[int, int] = {}
    last: dict[int, tuple[int, int]] = {}
    for one in history.messages:
        lane = lanes[STAGES[one.stage].queue, one.partition][0]
        first.setdefault(lane, one.created)
        last[lane] = (one.seq, one.created)
    await connection.fetch(
        query("demo/raise_heads"),
        list(last),
        [seq + 1 for seq, _ in last.values()],
        [history.time(moment) for moment in first.values()],
        [history.time(moment) for _, moment in last.values()],
    )


async def write_deliveries(connection: Connection, history: History, lanes: Lanes) -> None:
    """The delivery log, in the order batches ended."""
    chance = random.Random(history.planted.seed)  # noqa: S311 - a shop, not a secret
    for batch in chunks(sorted(history.deliveries, key=lambda one: one.ended)):
        places = [lanes[one.queue, one.partition] for one in batch]
        await connection.fetch(
            query("demo/store_deliveries"),
            [queue for _, queue in places],
            [lane for lane, _ in places],
            *columns(batch, "group", "first", "last"),
            [history.time(one.leased) for one in batch],
            [history.time(one.ended) for one in batch],
            *columns(batch, "retries", "failed"),
            [UUID(int=chance.getrandbits(128), version=4) for _ in batch],
            [one.outcome for one in batch],
        )


async def write_dead_letters(connection: Connection, history: History, lanes: Lanes) -> None:
    """What groups gave up on."""
    rows = [
        (*reversed(lanes[queue, partition]), group, seq, error, retries, history.time(moment))
        for (queue, partition, group), lane in history.lanes.items()
        for seq, error, retries, moment in lane.dead
    ]
    if rows:
        await connection.fetch(query("demo/store_dead_letters"), *map(list, zip(*rows, strict=True)))


async def write_cursors(connection: Connection, history: History, lanes: Lanes) -> None:
    """How far each group came."""
    items = list(history.lanes.items())
    found = [lane for _, lane in items]
    await connection.fetch(
        query("demo/move_cursors"),
        [lanes[queue, partition][0] for (queue, partition, _), _ in items],
        [group for (_, _, group), _ in items],
        [lane.cursor for lane in found],
        [history.time(lane.consumed_at) if lane.consumed_at else None for lane in found],
        *columns(found, "consumed", "batches", "delivered", "failed"),
    )


def columns(rows: Sequence[Delivery] | Sequence[Any], *names: str) -> Iterator[list[Any]]:
    """The rows by column."""
    for name in names:
        yield [getattr(row, name) for row in rows]


def chunks(rows: Sequence[T]) -> Iterator[list[T]]:
    """The rows in parts that one statement takes."""
    rest = iter(rows)
    while part := list(islice(rest, AT_ONCE)):
        yield part
