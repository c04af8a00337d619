"""The figures of a shop by plain SQL and pandas: what the pipelines must come to, worked out another way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import isclose
from typing import Any

import pandas as pd
import psycopg

# finished: by a batch that completed, or by one that failed and was the last before the cursor moved on.
JOURNEYS = """
    with batches as (
        select d.*, lead(d.batch_from) over lane as next_from
          from queen.deliveries d window lane as (partition by d.partition_id, d.consumer_group order by d.leased_at)
    ), passed as (
        select b.*, case when b.outcome in ('completed', 'partial') then b.batch_to + 1
                         else greatest(b.batch_from, least(b.batch_to + 1, coalesce(b.next_from,
                              (select max(l.seq) + 1 from queen.dead_letter_queue l
                                where l.partition_id = b.partition_id and l.consumer_group = b.consumer_group
                                  and l.failed_at = b.ended_at), b.batch_from))) end as reach
          from batches b
    )
    select q.name as queue, p.name as partition, s.consumer_group, m.seq, m.created_at,
           octet_length(m.payload::text) as bytes,
           min(x.leased_at) as leased_at, min(x.ended_at) filter (where m.seq < x.reach) as finished_at,
           exists (select from queen.dead_letter_queue l where l.partition_id = m.partition_id and l.seq = m.seq
                      and l.consumer_group = s.consumer_group) as dead
      from queen.messages m
      join queen.partitions p on p.id = m.partition_id
      join queen.queues q on q.id = p.queue_id
      join queen.subscriptions s on s.queue_id = q.id
      left join passed x on x.partition_id = m.partition_id and x.consumer_group = s.consumer_group
                        and m.seq between x.batch_from and x.batch_to
     group by q.name, p.name, s.consumer_group, m.partition_id, m.seq, m.created_at, m.payload
"""
BATCHES = """
    select q.name as queue, p.name as partition, d.consumer_group, d.leased_at, d.ended_at, d.outcome, d.failed
      from queen.deliveries d join queen.partitions p on p.id = d.partition_id join queen.queues q on q.id = d.queue_id
"""
KEYS = ["queue", "partition", "consumer_group"]
RANKS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
LENGTHS = {"minute": "1min", "hour": "1h", "day": "1D"}


def frame(url: str, statement: str) -> pd.DataFrame:
    """What a statement returns."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("set timezone = 'UTC'")
        cursor.execute(statement.encode())
        names = [column.name for column in cursor.description or ()]
        return pd.DataFrame(cursor.fetchall(), columns=names)


class Figures:
    """A shop counted by hand."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.journeys = timed(frame(url, JOURNEYS), "created_at", "leased_at", "finished_at")
        self.batches = timed(frame(url, BATCHES), "leased_at", "ended_at")
        self.journeys["wait_ms"] = milliseconds(self.journeys.leased_at - self.journeys.created_at)
        self.batches["work_ms"] = milliseconds(self.batches.ended_at - self.batches.leased_at)

    def rollups(self, grain: str, *, whole: bool) -> pd.DataFrame:
        """Every bucket of a grain, of whole queues or of single partitions."""
        journeys, batches = self.journeys.copy(), self.batches.copy()
        if whole:
            journeys["partition"] = batches["partition"] = ""
        length = LENGTHS[grain]

        def by(rows: pd.DataFrame, time: str) -> Any:
            return (
                rows.dropna(subset=[time])
                .assign(bucket=lambda rows: rows[time].dt.floor(length))
                .groupby([*KEYS, "bucket"])
            )

        came, leased = by(journeys, "created_at"), by(journeys, "leased_at")
        out, ended = by(journeys[~journeys.dead], "finished_at"), by(batches, "ended_at")
        columns = {
            "messages_in": came.size(), "bytes_in": came.bytes.sum(), "messages_out": out.size(),
            "messages_failed": ended.failed.sum(),
        }  # fmt: skip
        columns |= {f"wait_{name}_ms": leased.wait_ms.quantile(rank) for name, rank in RANKS.items()}
        columns |= {f"work_{name}_ms": ended.work_ms.quantile(rank) for name, rank in RANKS.items()}
        found = pd.DataFrame(columns)
        counts = ["messages_in", "bytes_in", "messages_out", "messages_failed"]
        found[counts] = found[counts].fillna(0).astype(int)
        return found.sort_index()

    def backlog(self, queue: str, group: str, moment: pd.Timestamp, partition: str | None = None) -> tuple[int, float]:
        """How many messages waited at a moment, and how old the oldest was."""
        rows = self.journeys[(self.journeys.queue == queue) & (self.journeys.consumer_group == group)]
        if partition:
            rows = rows[rows.partition == partition]
        open_ = rows[(rows.created_at < moment) & ~(rows.finished_at < moment)]
        age = (moment - open_.created_at.min()).total_seconds() * 1000 if len(open_) else 0.0
        return len(open_), age

    def critical_path(self, trace: str) -> tuple[list[str], float]:
        """The ids that lead to the message of a trace that was finished last, and the time from first to last."""
        rows = frame(
            self.url,
            f"""select m.id::text, m.parent_id::text, m.created_at,
                       (select min(d.ended_at) from queen.deliveries d where d.partition_id = m.partition_id
                           and m.seq between d.batch_from and d.batch_to and d.outcome in ('completed', 'partial')
                           and d.consumer_group <> 'analytics') as finished_at
                  from queen.messages m where m.trace_id = '{trace}'""",
        )
        messages: dict[str, Any] = {str(row.id): row for row in rows.itertuples()}
        leaves = set(messages) - {row.parent_id for row in messages.values()}
        name = max(leaves, key=lambda leaf: (messages[leaf].finished_at, leaf))
        end, path = messages[name].finished_at, [name]
        while messages[path[0]].parent_id is not None:
            path.insert(0, messages[path[0]].parent_id)
        return path, (end - messages[path[0]].created_at).total_seconds() * 1000

    def gini(self) -> dict[str, float]:
        """How uneven each queue is, by the mean difference of all pairs."""
        counts: dict[str, list[int]] = defaultdict(list)
        for (queue, _), rows in self.journeys.drop_duplicates(["queue", "partition", "seq"]).groupby(
            ["queue", "partition"]
        ):
            counts[str(queue)].append(len(rows))
        return {
            queue: sum(abs(a - b) for a in found for b in found) / (2 * len(found) * sum(found))
            for queue, found in counts.items()
        }

    def split(self, queue: str, partition: str) -> tuple[str, int, bool]:
        """The field that splits a partition best, into how many lanes, and whether none of them is hot then."""
        mine = self.journeys[self.journeys.queue == queue].drop_duplicates(["partition", "seq"])
        rows = frame(
            self.url,
            f"""select m.payload
                  from queen.messages m join queen.partitions p on p.id = m.partition_id
                  join queen.queues q on q.id = p.queue_id where q.name = '{queue}' and p.name = '{partition}'""",
        )
        payloads = pd.DataFrame(list(rows.payload))
        counts = {str(name): payloads[name].value_counts() for name in payloads}
        ways = sorted((len(n), int(n.max()), name) for name, n in counts.items() if 2 <= len(n) <= 1000)
        enough = [way for way in ways if way[1] <= 4 * mine.groupby("partition").size().median()]
        lanes, _, name = enough[0] if enough else min(ways, key=lambda way: way[1])
        return name, lanes, bool(enough)


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Where two figures differ; sums of fractions may differ in their last digits, by the order of adding."""
    match one, other:
        case dict(), dict():
            for name in one.keys() | other.keys():
                yield from differences(one.get(name), other.get(name), f"{place}/{name}")
        case list(), list() if len(one) == len(other):
            for number, (mine, yours) in enumerate(zip(one, other, strict=True)):
                yield from differences(mine, yours, f"{place}/{number}")
        case float(), float() if isclose(one, other, rel_tol=1e-12):
            return
        case _ if one != other:
            yield f"{place}: {one!r} is not {other!r}"


def timed(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Columns as times."""
    return rows.assign(**{name: pd.to_datetime(rows[name], utc=True) for name in columns})


def milliseconds(lengths: Any) -> Any:
    """Lengths of time as numbers."""
    return lengths / pd.Timedelta(milliseconds=1)
