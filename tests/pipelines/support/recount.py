"""Every figure of every analysis once more, in plain Python over all rows: slow, and nothing in common with Spark."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from tests.pipelines.support.facts import Facts, Row

RANKS: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
LENGTHS: Final = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}
MINUTE: Final = timedelta(minutes=1)
Lane = tuple[int, str]


def in_lake(facts: Facts, until: datetime, pos: int) -> Facts:
    """What a lake holds that has come to a time and a position."""
    return Facts(
        [row for row in facts.messages if row["pos"] < pos],
        [row for row in facts.deliveries if row["ended_at"] < until],
        [row for row in facts.dead_letters if row["failed_at"] < until],
        [row for row in facts.redrives if row["redriven_at"] < until],
    )


def milliseconds(since: datetime, until: datetime) -> float:
    return (until - since) / timedelta(milliseconds=1)


def percentile(values: Sequence[float], rank: float) -> float | None:
    """As `percentile_cont` has it."""
    if not values:
        return None
    ordered = sorted(values)
    place = rank * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


class Recount:
    """The figures of some facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.lanes: dict[Lane, list[Row]] = defaultdict(list)
        for batch in sorted(facts.deliveries, key=lambda one: (one["leased_at"], one["ended_at"], one["batch_from"])):
            self.lanes[batch["partition_id"], batch["consumer_group"]].append(batch)
        self.groups: dict[str, set[str]] = defaultdict(set)
        for row in (*facts.deliveries, *facts.dead_letters):
            self.groups[row["queue"]].add(row["consumer_group"])
        self.deaths = {(one["partition_id"], one["consumer_group"], one["seq"]): one for one in facts.dead_letters}

    def reach(self, batch: Row, following: Row | None) -> int:
        """Up to where a batch finished its messages."""
        if batch["outcome"] in ("completed", "partial"):
            return int(batch["batch_to"]) + 1
        if batch["outcome"] == "moved":
            return int(batch["batch_from"])
        died = [
            one["seq"] + 1
            for one in self.facts.dead_letters
            if (one["partition_id"], one["consumer_group"], one["failed_at"])
            == (batch["partition_id"], batch["consumer_group"], batch["ended_at"])
        ]
        after = following["batch_from"] if following else max(died, default=batch["batch_from"])
        return int(max(batch["batch_from"], min(batch["batch_to"] + 1, after)))

    def journey(self, message: Row, group: str) -> tuple[datetime | None, datetime | None, bool]:
        """When a message was first handed out to a group and finished, and whether it died."""
        batches = self.lanes.get((message["partition_id"], group), [])
        mine = [
            (batch, self.reach(batch, following))
            for batch, following in zip(batches, [*batches[1:], None], strict=True)
            if batch["batch_from"] <= message["seq"] <= batch["batch_to"]
        ]
        death = self.deaths.get((message["partition_id"], group, message["seq"]))
        passed = [batch["ended_at"] for batch, reach in mine if message["seq"] < reach]
        finished = min(passed, default=death["failed_at"] if death else None)
        return min((batch["leased_at"] for batch, _ in mine), default=None), finished, death is not None

    def journeys(self) -> Iterator[tuple[Row, str, datetime | None, datetime | None, bool]]:
        """Every message in every group of its queue; group '' where there is none."""
        for message in self.facts.messages:
            for group in sorted(self.groups[message["queue"]]) or [""]:
                yield message, group, *(self.journey(message, group) if group else (None, None, False))

    def events(self) -> Iterator[tuple[tuple[str, str, str], datetime, str, float]]:
        """Everything that is counted: where, when, what, and how much."""
        for message, group, leased, finished, dead in self.journeys():
            key = (message["queue"], message["partition"], group)
            yield key, message["created_at"], "messages_in", 1
            yield key, message["created_at"], "bytes_in", len(message["payload"].encode())
            if leased:
                yield key, leased, "wait", milliseconds(message["created_at"], leased)
            if finished and not dead:
                yield key, finished, "messages_out", 1
        for batch in self.facts.deliveries:
            key = (batch["queue"], batch["partition"], batch["consumer_group"])
            yield key, batch["ended_at"], "messages_failed", batch["failed"]
            if batch["outcome"] in ("completed", "partial", "failed"):
                yield key, batch["ended_at"], "work", milliseconds(batch["leased_at"], batch["ended_at"])

    def rollups(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """Every bucket, by queue, partition, group, grain and time."""
        values: dict[tuple[Any, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (queue, partition, group), at, what, value in self.events():
            for grain, length in LENGTHS.items():
                day = at.replace(hour=0, minute=0, second=0, microsecond=0)
                bucket = day + (at - day) // length * length
                for scope in {partition, ""}:
                    values[queue, scope, group, grain, bucket][what].append(value)
        known = list(self.journeys())
        return {key: {**figures(found), **backlog(known, key)} for key, found in values.items()}

    def summary(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The whole time by queue and group."""
        values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (queue, _, group), _, what, value in self.events():
            values[queue, group][what].append(value)
        return {key: figures(found) for key, found in values.items()}

    def failures(self) -> Iterator[tuple[tuple[str, str, str, str], Row]]:
        """What failed, with its cluster: kind, queue, error, version."""
        again = {(one["partition_id"], one["consumer_group"], one["seq"]) for one in self.facts.redrives}
        for one in self.facts.dead_letters:
            text = re.sub(r"'[^']*'", "<x>", one["error_message"])
            key = ("dead", one["queue"], re.sub(r"\d+", "<n>", text), json.loads(one["payload"])["version"])
            redriven = (one["partition_id"], one["consumer_group"], one["seq"]) in again
            yield key, {**one, "at": one["failed_at"], "redriven": redriven}
        messages = {(one["partition_id"], one["seq"]): one for one in self.facts.messages}
        words = {"failed": "failed, then recovered", "expired": "lease ran out, then recovered"}
        for (number, group), batches in self.lanes.items():
            for batch, following in zip(batches, [*batches[1:], None], strict=True):
                after = following["batch_from"] if following else 0
                seq = after if batch["batch_from"] <= after <= batch["batch_to"] else batch["batch_from"]
                message = messages.get((number, seq))
                if batch["outcome"] in words and (number, group, seq) not in self.deaths and message is not None:
                    key = (
                        "recovered",
                        batch["queue"],
                        words[batch["outcome"]],
                        json.loads(message["payload"])["version"],
                    )
                    told = {"consumer_group": group, "redriven": False, "at": batch["ended_at"]}
                    yield key, {**message, **told}

    def clusters(self) -> dict[tuple[str, str, str, str], dict[str, Any]]:
        """What triage tells of each cluster."""
        found: dict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
        for key, row in self.failures():
            found[key].append(row)
        minutes = [minute_of(row["at"]) for rows in found.values() for row in rows]
        first, last = min(minutes, default=0), max(minutes, default=0)
        length = -(-(last - first + 1) // 24)
        return {
            key: {
                "count": len(rows),
                "redriven": sum(row["redriven"] for row in rows),
                "partitions": len({row["partition"] for row in rows}),
                "groups": sorted({row["consumer_group"] for row in rows}),
                "first_seen": min(row["at"] for row in rows),
                "last_seen": max(row["at"] for row in rows),
                "examples": [one["id"] for one in sorted(rows, key=lambda row: row["at"], reverse=True)[:3]],
                "slots": [
                    Counter((minute_of(row["at"]) - first) // length for row in rows)[slot] for slot in range(24)
                ],
            }
            for key, rows in found.items()
        }

    def gini(self) -> dict[str, float]:
        """How uneven queues are, by the differences of all pairs."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for message in self.facts.messages:
            counts[message["queue"]][message["partition"]] += 1
        return {
            queue: sum(abs(a - b) for a in found.values() for b in found.values()) / (2 * len(found) * found.total())
            for queue, found in counts.items()
        }

    def traces(self) -> dict[str, dict[str, Any]]:
        """What there is to know about each trace."""
        ids = {message["id"] for message in self.facts.messages}
        found: dict[str, list[Row]] = defaultdict(list)
        for message in self.facts.messages:
            if message["trace_id"] is not None:
                found[message["trace_id"]].append(message)
        return {trace: self.trace(rows, ids) for trace, rows in found.items()}

    def trace(self, rows: Sequence[Row], ids: set[str]) -> dict[str, Any]:
        """Traces here are two deep: orders, and what follows from them."""
        inside = {row["id"]: row for row in rows}
        children: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if row["parent_id"] in inside:
                children[row["parent_id"]].append(row)
        ends = {row["id"]: self.end(row, children[row["id"]]) for row in rows}
        leaves = [row for row in rows if not children[row["id"]]]
        last = max(leaves, key=lambda row: (ends[row["id"]], row["id"]))
        path = [inside[last["parent_id"]], last] if last["parent_id"] in inside else [last]
        roots = [row for row in rows if row["parent_id"] not in inside]
        return {
            "spans": len(rows),
            "hops": 2 if any(children.values()) else 1,
            "started": min(row["created_at"] for row in rows),
            "total_ms": milliseconds(path[0]["created_at"], ends[last["id"]]),
            "broken": any(row["parent_id"] is not None and row["parent_id"] not in ids for row in rows),
            "path": [row["id"] for row in path],
            "shape": " + ".join(sorted(shape(row, children[row["id"]]) for row in roots)),
            "edges": [
                (parent["queue"], row["queue"], milliseconds(parent["created_at"], row["created_at"]))
                for parent in rows
                for row in children[parent["id"]]
            ],
        }

    def end(self, message: Row, children: Sequence[Row]) -> datetime:
        """When a message was finished by the group it is measured by; when it was stored, if it was not."""
        done = [(group, *self.journey(message, group)[:2]) for group in self.groups[message["queue"]]]
        pushed = min((child["created_at"] for child in children), default=None)
        if pushed is not None:
            for _, leased, finished in sorted((one for one in done if one[1]), key=lambda one: (one[1], one[0])):
                if leased is not None and leased <= pushed <= (finished or pushed):
                    return finished or message["created_at"]
        ended = [(finished, group) for group, _, finished in done if finished is not None]
        return min(ended)[0] if ended else message["created_at"]


def shape(root: Row, children: Sequence[Row]) -> str:
    """The queues as a tree."""
    counts = Counter(child["queue"] for child in children)
    inner = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in sorted(counts.items()))
    return f"{root['queue']}({inner})" if inner else str(root["queue"])


def figures(found: dict[str, list[float]]) -> dict[str, Any]:
    """Sums and percentiles of what was counted."""
    counts = {name: sum(found[name]) for name in ("messages_in", "messages_out", "messages_failed", "bytes_in")}
    times = {
        f"{what}_{name}_ms": percentile(found[what], rank) for what in ("wait", "work") for name, rank in RANKS.items()
    }
    return {**counts, **times}


def backlog(journeys: Sequence[Any], key: tuple[Any, ...]) -> dict[str, Any]:
    """How much waited at the end of a bucket, and how long the oldest had."""
    queue, partition, group, grain, bucket = key
    if not group:
        return {"lag": None, "backlog_age_ms": None}
    end = bucket + LENGTHS[grain]
    waiting = [
        message["created_at"]
        for message, name, _, finished, _ in journeys
        if (message["queue"], name) == (queue, group)
        and partition in ("", message["partition"])
        and message["created_at"] < end
        and not (finished and finished < end)
    ]
    return {"lag": len(waiting), "backlog_age_ms": int(milliseconds(min(waiting), end)) if waiting else 0}


def minute_of(time: datetime) -> int:
    return int(time.timestamp() // 60)


def within_one_percent(one: float | None, other: float | None) -> bool:
    """Whether two figures are the same but for what a percentile of many values may be off."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 0.0101 * abs(other) + 0.002
