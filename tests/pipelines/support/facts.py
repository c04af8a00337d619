"""Made-up days of a few queues, as the lake has them, and their way into it: by and by, and late."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from queen.spark.lake import Lake
from queen.spark.lake.files import EPOCH, TICK, Reach
from queen.spark.lake.tables import TIMES, arrow_schema
from queen.spark.lake.writing import Filer

START: Final = datetime(2026, 3, 1, tzinfo=UTC)
DAY: Final = timedelta(days=1)
DAYS: Final = 6
NUMBERS: Final = {"orders/a": 1, "orders/b": 2, "orders/c": 3, "mail/a": 4, "mail/b": 5, "idle/x": 6}
GROUPS: Final = {"orders": ("shop", "stats"), "mail": ("mailer",), "idle": ()}
OUTCOMES: Final = ("completed",) * 14 + ("partial", "failed", "failed", "failed", "expired", "released", "moved")
ERRORS: Final = ("card {} declined", "no such customer '{}'", "timeout after {} ms")
Row = dict[str, Any]


@dataclass
class Facts:
    """Everything that happened, row by row."""

    messages: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)
    dead_letters: list[Row] = field(default_factory=list)
    redrives: list[Row] = field(default_factory=list)

    def rows(self, table: str) -> list[Row]:
        """The rows of a table."""
        found: list[Row] = getattr(self, table)
        return found


def make_facts(seed: int, orders: int = 90, *, days: int = DAYS, late: float = 0.04, stops: float = 3) -> Facts:
    """Days of three queues, with everything that can happen to messages.

    Commits are late, batches fail, groups seek back, and one stops; messages die, are redriven or deleted, and some
    name a parent that never was.
    """
    chance = random.Random(seed)
    facts = Facts()
    end = START + days * DAY
    placed = make_orders(chance, orders, end)
    sent = [*placed, *make_mail(chance, placed, end), *make_idle(chance, end)]
    for pos, message in enumerate(sorted(sent, key=lambda one: one["created_at"]), 1):
        message["pos"] = pos
    by_lane: dict[str, list[Row]] = {}
    for message in sorted(sent, key=lambda one: one["pos"]):
        lane = by_lane.setdefault(f"{message['queue']}/{message['partition']}", [])
        lane.append(message)
        message["seq"] = len(lane)
        before = lane[-2]["committed"] if len(lane) > 1 else START
        waits = chance.random() < late
        message["committed"] = max(before, message["created_at"] + (chance.uniform(0.2, 0.9) * DAY if waits else TICK))
    for name, lane in by_lane.items():
        for group in GROUPS[name.partition("/")[0]]:
            work_through(
                chance, facts, lane, group, ends=stops * DAY if (name, group) == ("orders/c", "stats") else days * DAY
            )
    gone = {message["id"] for message in chance.sample(sent, 6)}
    facts.messages = [message for message in sent if message["id"] not in gone]
    return facts


def message_of(chance: random.Random, lane: str, created: datetime, **more: Any) -> Row:
    """A message of a lane `queue/partition`."""
    queue, _, partition = lane.partition("/")
    payload = {"version": chance.choice("12"), "n": chance.randrange(100)}
    name = str(UUID(int=chance.getrandbits(128)))
    return {
        "queue": queue, "partition": partition, "partition_id": NUMBERS[lane], "id": name, "transaction_id": name,
        "trace_id": None, "parent_id": None, "payload": json.dumps(payload), "created_at": created,
        "producer_sub": None, "is_encrypted": False, **more,
    }  # fmt: skip


def moment(chance: random.Random, end: datetime) -> datetime:
    """A time before the end, to the microsecond."""
    return START + timedelta(microseconds=chance.randrange((end - START) // TICK))


def make_orders(chance: random.Random, count: int, end: datetime) -> list[Row]:
    """The beginnings of traces; some belong to none."""
    return [
        message_of(
            chance, f"orders/{chance.choice('aabc')}", moment(chance, end),
            trace_id=None if chance.random() < 0.08 else str(UUID(int=chance.getrandbits(128))),
        )
        for _ in range(count)
    ]  # fmt: skip


def make_mail(chance: random.Random, orders: Sequence[Row], end: datetime) -> list[Row]:
    """What follows from orders, hours later now and then; some name a parent that never was."""
    found = []
    for order in orders:
        for _ in range(chance.choice((0, 1, 1, 2))):
            delay = timedelta(minutes=chance.uniform(0, 3) if chance.random() < 0.8 else chance.uniform(60, 2000))
            lost = chance.random() < 0.08
            parent = str(UUID(int=chance.getrandbits(128))) if lost else order["id"]
            created = min(order["created_at"] + delay, end - TICK)
            lane = f"mail/{chance.choice('ab')}"
            found.append(message_of(chance, lane, created, trace_id=order["trace_id"], parent_id=parent))
    return found


def make_idle(chance: random.Random, end: datetime) -> list[Row]:
    """A queue nobody reads."""
    return [message_of(chance, "idle/x", moment(chance, end)) for _ in range(8)]


def work_through(chance: random.Random, facts: Facts, lane: list[Row], group: str, ends: timedelta) -> None:
    """A group works on a lane, batch by batch, until its time ends."""
    now, at, tries = START, 0, 0
    while at < len(lane) and now < START + ends:
        now = max(now, lane[at]["committed"]) + timedelta(seconds=chance.expovariate(1 / 20))
        ready = [one for one in lane[at : at + 4] if one["committed"] <= now]
        length = timedelta(hours=chance.uniform(1, 8)) if chance.random() < 0.03 else timedelta(
            seconds=chance.expovariate(1 / 5)
        )  # fmt: skip
        outcome = chance.choice(OUTCOMES)
        last = at + len(ready) - 1
        done = chance.randrange(len(ready)) if outcome in ("failed", "expired") else 0
        first = lane[at]
        facts.deliveries.append(
            {
                **{name: first[name] for name in ("queue", "partition", "partition_id")}, "consumer_group": group,
                "batch_from": at + 1, "batch_to": last + 1, "leased_at": now, "ended_at": now + length,
                "outcome": outcome, "failed": int(outcome == "failed"), "retry_count": tries, "lease_id": None,
            }
        )  # fmt: skip
        now += length
        if outcome in ("completed", "partial"):
            at, tries = last + 1, 0
            if chance.random() < 0.04:
                at = max(at - 3, 0)
        elif outcome in ("failed", "expired"):
            at, tries = at + done, tries + 1 if not done else 1
            if outcome == "failed" and chance.random() < 0.6:
                bury(chance, facts, lane[at], group, now)
                at, tries = at + 1, 0


def bury(chance: random.Random, facts: Facts, message: Row, group: str, now: datetime) -> None:
    """A message is given up on; it may be redriven later."""
    if any((one["id"], one["consumer_group"]) == (message["id"], group) for one in facts.dead_letters):
        return
    names = ("queue", "partition", "partition_id", "seq", "id", "transaction_id", "trace_id", "parent_id", "payload")
    letter = {
        **{name: message[name] for name in names}, "consumer_group": group, "producer_sub": None,
        "created_at": message["created_at"], "failed_at": now, "retry_count": 3, "evicted": False,
        "error_message": chance.choice(ERRORS).format(chance.randrange(1000)), "redriven_at": None,
        "redriven_as": None, "is_encrypted": False,
    }  # fmt: skip
    facts.dead_letters.append(letter)
    if chance.random() < 0.5:
        again = now + timedelta(hours=chance.uniform(1, 50))
        told = ("queue", "partition", "partition_id", "consumer_group", "seq", "id", "failed_at")
        facts.redrives.append({**{name: letter[name] for name in told}, "redriven_at": again, "redriven_as": None})


def archive(lake: Lake, facts: Facts, until: datetime) -> None:
    """Bring a lake to where an archive would have it at a time: nothing later, nothing beyond the horizon."""
    for table in ("deliveries", "dead_letters", "redrives"):
        at = TIMES[table]
        reach = lake.reach(table)
        since = EPOCH + (reach.until or 0) * TICK if reach is not None else EPOCH
        rows = [row for row in facts.rows(table) if since <= row[at] < until]
        if rows:
            to = Reach(until=(max(row[at] for row in rows) + TICK - EPOCH) // TICK)
            lake.append(table, written(lake, table, rows), reach, to)
    waiting = [one["pos"] for one in facts.messages if one["created_at"] < until <= one["committed"]]
    horizon = min([*waiting, max(one["pos"] for one in facts.messages if one["created_at"] < until) + 1])
    reach = lake.reach("messages")
    low = reach.pos or 0 if reach is not None else 0
    rows = [one for one in facts.messages if low <= one["pos"] < horizon]
    if rows:
        to = Reach(pos=max(row["pos"] for row in rows) + 1)
        lake.append("messages", written(lake, "messages", rows), reach, to)


def written(lake: Lake, table: str, rows: Iterable[Row]) -> list[Any]:
    """Rows in files."""
    schema = arrow_schema(table)
    filer = Filer(lake.place.below(table), table)
    ordered = sorted(rows, key=lambda row: row["pos"] if table == "messages" else row[TIMES[table]])
    page = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in ordered], schema)
    return [*filer.take(page), *filer.end()]
