"""Compare both sides fact by fact, in one snapshot of the source: exact also while the source is live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import asyncpg

from queen.sql import query
from queen.transfer.follow import TOGETHER, bring, catch_up, snapshot, to_change
from queen.transfer.link import Link, exclusive
from queen.transfer.model import Partition, Progress, Quiet, formers, ids
from queen.transfer.report import Difference, Report
from queen.transfer.sync import pairs

if TYPE_CHECKING:
    from queen.db.migrate import Connection

MOST: Final = 20
BATCH: Final = 50_000
Fact = tuple[int, str, str]


@dataclass(slots=True)
class Named:
    """A partition and what people call it."""

    partition: Partition
    queue: str
    name: str
    messages: int


@dataclass(slots=True)
class Tally:
    """What was compared and what differs."""

    differences: list[Difference] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, kind: str, number: int = 1) -> None:
        """So many facts of a kind were compared."""
        self.counts[kind] = self.counts.get(kind, 0) + number


async def verify(link: Link, progress: Progress | None = None) -> Report:
    """Compare everything; the report is kept in the target. Changes that wait are applied first, batch by batch."""
    state = link.require("copied", "closing")
    started = datetime.now(UTC)
    progress = progress or Quiet()
    await prepare_target(link)
    await catch_up(link)
    tally = Tally()
    await compare_overview(link, tally)
    total = await link.target.fetchval(query("transfer/target/expected"), False)
    done = 0
    async for batch in batches(link):
        await compare(link, batch, tally)
        done += sum(max(each.messages, 1) for each in batch)
        progress.step("verify", min(done, total), total)
    progress.step("verify", total, total)
    report = Report.of(link, state, "sql", started, tally.counts, tally.differences)
    await keep(link, report)
    return report


async def prepare_target(link: Link) -> None:
    """Have the tables where rows arrive."""
    await link.target.execute(query("transfer/target/incoming"))


async def keep(link: Link, report: Report) -> None:
    """Store a report where `cutover`, `cleanup` and the dashboard find it."""
    await link.target.execute(query("transfer/target/store_report"), report.passed, report.to_json())


async def batches(link: Link) -> AsyncIterator[list[Named]]:
    """All partitions, a few together."""
    last = 0
    while rows := await link.target.fetch(query("transfer/target/all_partitions"), last):
        batch: list[Named] = []
        for row in rows:
            if batch and (sum(n.messages for n in batch) + row["messages"] > BATCH or len(batch) == TOGETHER):
                yield batch
                batch = []
            partition = Partition(row["former_id"], row["id"])
            batch.append(Named(partition, row["queue"], row["partition"], row["messages"]))
        yield batch
        last = rows[-1]["id"]


async def compare(link: Link, batch: Sequence[Named], tally: Tally) -> None:
    """Bring these partitions to one snapshot of the source and compare them in it."""
    partitions = [each.partition for each in batch]
    async with exclusive(link), snapshot(link.source) as source:
        entries = await bring_changed(link, source, partitions)
        expected = await source_facts(link, source, partitions)
        found = await target_facts(link, partitions)
        names = {each.partition.id: each for each in batch}
        for fact in sorted(expected.keys() | found.keys()):
            tally.count(fact[1])
            if expected.get(fact) != found.get(fact):
                listing = _Listing(link, source, names[fact[0]])
                tally.differences += await listing.explain(fact, expected.get(fact), found.get(fact))
    await link.source.execute(query("transfer/forget_changes"), entries)


async def bring_changed(link: Link, source: Connection, partitions: Sequence[Partition]) -> list[int]:
    """Apply what this snapshot tells of these partitions; the entries of the log that are settled with it."""
    rows = await source.fetch(query("transfer/changes_of"), formers(partitions))
    if not rows:
        return []
    known = {
        row["former_id"]: row
        for row in await link.target.fetch(query("transfer/target/known"), [row["partition_id"] for row in rows])
    }
    changes = [to_change(link, row, known[row["partition_id"]]) for row in rows if row["partition_id"] in known]
    await bring(link, source, changes)
    return [entry for change in changes for entry in change.entries]


async def source_facts(link: Link, source: Connection, partitions: Sequence[Partition]) -> dict[Fact, str]:
    """What the source says of these partitions."""
    statement = query(f"transfer/{link.version}/facts")
    known = await pairs(link, partitions)
    return to_facts(await source.fetch(statement, formers(partitions), ids(partitions), *known, True))


async def target_facts(link: Link, partitions: Sequence[Partition]) -> dict[Fact, str]:
    """What the target says of these partitions."""
    return to_facts(await link.target.fetch(query("transfer/target/facts"), ids(partitions), True))


def to_facts(rows: Iterable[asyncpg.Record]) -> dict[Fact, str]:
    """Rows of a facts query by what they are about."""
    return {(row["id"], row["kind"], row["name"]): row["value"] for row in rows}


async def compare_overview(link: Link, tally: Tally) -> None:
    """Queues with their options, partitions by name, groups with their modes."""
    async with snapshot(link.source) as source:
        expected = {(row["kind"], row["name"]): row["value"] for row in await source.fetch(query("transfer/overview"))}
        groups = await source.fetch(query(f"transfer/{link.version}/groups"), True)
    expected |= {("group", f"{row[0]}/{row[1]}"): row[2] for row in groups}
    rows = await link.target.fetch(query("transfer/target/overview"))
    found = {(row["kind"], row["name"]): row["value"] for row in rows}
    for key in sorted(expected.keys() | found.keys()):
        tally.count(key[0])
        if expected.get(key) != found.get(key):
            verdict = judge(key[0], expected.get(key), found.get(key))
            tally.differences.append(Difference(verdict, "", "", key[1], expected.get(key), found.get(key)))


def judge(kind: str, expected: object, found: object) -> str:
    """What a difference is called."""
    how = "missing" if found is None else "unexpected" if expected is None else "changed"
    return f"{how} {kind}"


class _Listing:
    """Looks closer at one partition that differs."""

    def __init__(self, link: Link, source: Connection, named: Named) -> None:
        self._link = link
        self._source = source
        self._named = named

    async def explain(self, fact: Fact, expected: str | None, found: str | None) -> list[Difference]:
        """The differences behind one that was found by a checksum, by message; any other as it is."""
        _, kind, name = fact
        if kind != "messages":
            return [self._difference(judge(kind, expected, found), name, expected, found)]
        one = await self._source.fetch(query("transfer/listing"), self._named.partition.former)
        two = await self._link.target.fetch(query("transfer/target/listing"), self._named.partition.id)
        found_some = list(self._by_message(one, two))
        if not found_some:
            found_some = [self._difference("changed messages", "", expected, found)]
        hidden = len(found_some) - MOST
        if hidden > 0:
            found_some[MOST:] = [self._difference(f"{hidden} more differences", "", None, None)]
        return found_some

    def _by_message(self, one: Sequence[asyncpg.Record], two: Sequence[asyncpg.Record]) -> Iterable[Difference]:
        left = {row["id"]: row for row in one}
        right = {row["id"]: row for row in two}
        for key in left.keys() - right.keys():
            yield self._difference("missing message", key, left[key]["transaction_id"], None)
        for key in right.keys() - left.keys():
            yield self._difference("unexpected message", key, None, right[key]["transaction_id"])
        both = left.keys() & right.keys()
        for key in both:
            if left[key]["payload"] != right[key]["payload"]:
                yield self._difference("changed payload", key, left[key]["payload"], right[key]["payload"])
            names = (left[key]["transaction_id"], right[key]["transaction_id"])
            if names[0] != names[1] and names[1] != f"{names[0]}#{key}":
                yield self._difference("changed transaction id", key, *names)
        order = [row["id"] for row in one if row["id"] in both]
        other = [row["id"] for row in two if row["id"] in both]
        for place, (first, second) in enumerate(zip(order, other, strict=True), 1):
            if first != second:
                yield self._difference("changed order", first, f"at place {place}", f"{second} is there")
                return

    def _difference(self, verdict: str, name: object, expected: object, found: object) -> Difference:
        said = [None if each is None else str(each) for each in (expected, found)]
        return Difference(verdict, self._named.queue, self._named.name, str(name), said[0], said[1])
