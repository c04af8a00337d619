"""The model beside what the database holds, after every step."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import asyncpg

from tests.sql.model import DeadLetter, Key, Lease, Model, Partition, demand
from tests.support.work import Sql

CURSORS = """
select p.name, p.id, p.next_seq, c.consumer_group as owner, c.last_consumed_seq as at, c.lease_id,
       extract(epoch from c.ready_at)::float8 as ready,
       c.total_messages_consumed as consumed, queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as depth
  from queen.partitions p join queen.queues q on q.id = p.queue_id
  left join queen.partition_consumers c on c.partition_id = p.id
 where q.name = $1 and p.name <> 'Default'
"""
KEPT = """
select p.name, count(m.seq) as n, coalesce(sum(m.seq), 0)::bigint as total
  from queen.partitions p join queen.queues q on q.id = p.queue_id left join queen.messages m on m.partition_id = p.id
 where q.name = $1 and p.name <> 'Default' group by p.name
"""
SEQS = """
select m.seq, coalesce(m.transaction_id, m.id::text) as transaction_id,
       extract(epoch from m.created_at)::float8 as created
  from queen.messages m where m.partition_id = $1 order by m.seq
"""
DEAD = """
select d.id, p.name, d.consumer_group as owner, d.seq, d.evicted
  from queen.dead_letter_queue d join queen.queues q on q.id = d.queue_id
  join queen.partitions p on p.id = d.partition_id
 where q.name = $1 and d.id > $2 order by d.id
"""
COUNT_DEAD = """
select count(*) from queen.dead_letter_queue d join queen.queues q on q.id = d.queue_id where q.name = $1
"""
SCHEDULED = """
select count(*) from queen.scheduled_messages s join queen.queues q on q.id = s.queue_id where q.name = $1
"""
DEPTH = "select current_depth from queen.queue_depths where queue_name = $1"


class Audit:
    """Compares, and takes over into the model what the database may decide by itself."""

    def __init__(self, sql: Sql, queue: str, model: Model) -> None:
        self.sql, self.queue, self.model = sql, queue, model
        self._last_dead = 0

    async def check(self, *, handed: dict[Key, Lease] | None = None, grown: bool = False) -> None:
        """After a step. `handed`: leases it gave out. `grown`: it may have stored what the model does not know yet."""
        model = self.model
        letters = await self._new_letters()
        rows = await self.sql.fetch(CURSORS, self.queue)
        for row in rows:
            partition = model.partition(row["name"])
            partition.id = row["id"]
            if grown and row["next_seq"] > partition.next:
                await self._adopt(partition)
            demand(row["next_seq"] == partition.next, f"{row['name']} next {row['next_seq']}, not {partition.next}")
        await self._compare_kept()
        owned = {(row["name"], row["owner"]): row for row in rows if row["owner"] is not None}
        model.unsettled -= set(owned)
        settled = set(model.cursors) - model.unsettled
        demand(set(owned) == settled, f"cursors {sorted(owned)} instead of {sorted(settled)}")
        for key, row in owned.items():
            self._follow(key, row, letters, (handed or {}).get(key))
        self._compare_letters(letters)

    async def adopt(self) -> None:
        """Take over what a step stored and the model could not foretell."""
        for row in await self.sql.fetch(CURSORS, self.queue):
            partition = self.model.partition(row["name"])
            partition.id = row["id"]
            if row["next_seq"] > partition.next:
                await self._adopt(partition)

    async def _new_letters(self) -> dict[tuple[str, str, int], DeadLetter]:
        found: dict[tuple[str, str, int], DeadLetter] = {}
        for row in await self.sql.fetch(DEAD, self.queue, self._last_dead):
            self._last_dead = row["id"]
            key = row["name"], row["owner"], row["seq"]
            demand(key not in found, f"two dead letters at once for {key}")
            found[key] = DeadLetter(row["id"], row["evicted"])
        return found

    def _compare_letters(self, letters: dict[tuple[str, str, int], DeadLetter]) -> None:
        """What an ack had to leave is there; what nobody acknowledged was explained when its cursor passed it."""
        expected, self.model.expected = self.model.expected, Counter()
        for key, count in expected.items():
            demand(not count or key in letters, f"no dead letter for {key}")
        for key, letter in letters.items():
            name, owner, seq = key
            if not letter.evicted:
                received = self.model.cursors[name, owner].received
                demand(expected[key] or seq in received, f"a dead letter nobody received: {key}")
            self.model.dead.setdefault(key, []).append(letter)

    async def _adopt(self, partition: Partition) -> None:
        for row in await self.sql.fetch(SEQS, partition.id):
            if row["seq"] >= partition.next:
                demand(row["seq"] == partition.next, f"a hole before {row['seq']}")
                partition.store(row["transaction_id"], row["created"])

    async def _compare_kept(self) -> None:
        for row in await self.sql.fetch(KEPT, self.queue):
            partition = self.model.partitions[row["name"]]
            if (row["n"], row["total"]) == (len(partition.kept), sum(partition.kept)):
                continue
            found = {each["seq"] for each in await self.sql.fetch(SEQS, partition.id)}
            demand(found <= set(partition.kept), f"{row['name']} holds {sorted(found - set(partition.kept))}")
            for seq in sorted(set(partition.kept) - found):
                demand(self.model.may_remove(row["name"], seq), f"{row['name']}/{seq} is gone, by no rule")
                partition.remove(seq)

    def _follow(
        self, key: Key, row: asyncpg.Record, letters: dict[tuple[str, str, int], DeadLetter], handed: Lease | None
    ) -> None:
        cursor = self.model.cursors[key]
        if handed is not None:
            self._pass(key, handed.seqs[0] - 1, letters)
            self._hand(key, handed)
        self._pass(key, row["at"], letters)
        back = [seq for seq in self.model.partitions[key[0]].after(row["at"]) if seq <= cursor.at]
        demand(not set(back) - cursor.buried, f"{key} went back to {back}")
        cursor.at = row["at"]
        self._compare_lease(key, row["lease_id"])
        self._compare_numbers(key, row)

    def _pass(self, key: Key, to: int, letters: dict[tuple[str, str, int], DeadLetter]) -> None:
        cursor = self.model.cursors[key]
        for seq in [seq for seq in self.model.pending(key) if seq <= to]:
            self.model.explain(key, seq, letters.get((*key, seq)))
        cursor.at = max(cursor.at, to)

    def _hand(self, key: Key, lease: Lease) -> None:
        limit, cursor = self.model.options.max_deliveries, self.model.cursors[key]
        self.model.take(key, lease)
        ran_out = cursor.ran_out[lease.seqs[0]]
        demand(not limit or ran_out < limit, f"{key} {lease.seqs[0]} is delivered though {ran_out} leases ran out")
        cursor.received |= lease.handed
        if lease.auto:
            self.model.ack_up_to(key, lease.token, lease.last)

    def _compare_lease(self, key: Key, token: UUID | None) -> None:
        """A live lease with nothing left to finish is over. One that ran out may stay for a late ack, or go."""
        cursor = self.model.cursors[key]
        if cursor.live(self.model.now):
            self.model.end_if_done(key, looked=token is None)
        elif cursor.lease is not None and token is None:
            self.model.take(key, None)
        demand(token == (cursor.lease and cursor.lease.token), f"{key} has lease {token}, not {cursor.lease}")

    def _compare_numbers(self, key: Key, row: asyncpg.Record) -> None:
        model, cursor = self.model, self.model.cursors[key]
        waiting = model.pending(key)
        demand(row["depth"] == len(waiting), f"{key} has depth {row['depth']}, but {len(waiting)} wait")
        low, high = cursor.consumed
        demand(low <= row["consumed"] <= high, f"{key} counts {row['consumed']} consumed, not {low} to {high}")
        good = [seq for seq in waiting if not model.past(key, seq)]
        if good:
            due = cursor.lease.expires if cursor.lease else max(cursor.not_before, model.young(key, good[0]))
            late = row["ready"] is None or row["ready"] > max(due, model.now) + 0.001
            demand(not late, f"{key}: {len(good)} wait, but it is not ready until {row['ready']}, due {due}")

    async def check_totals(self) -> None:
        """The numbers people are shown, beside a recount."""
        low, high = self.model.depth()
        depth = await self.sql.fetchval(DEPTH, self.queue)
        demand(low <= (depth or 0) <= high, f"the queue's depth is {depth}, not {low} to {high}")
        count = await self.sql.fetchval(COUNT_DEAD, self.queue)
        known = sum(len(letters) for letters in self.model.dead.values())
        demand(count == known, f"{count} dead letters instead of {known}")
        scheduled = await self.sql.fetchval(SCHEDULED, self.queue)
        demand(scheduled == len(self.model.scheduled), f"{scheduled} scheduled, not {len(self.model.scheduled)}")
