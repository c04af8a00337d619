"""Random work on the functions of one database, step by step beside the model."""

from __future__ import annotations

import random
from typing import Any, Literal
from uuid import UUID, uuid4

import hypothesis.strategies as st
import psycopg
from hypothesis.stateful import RuleBasedStateMachine, rule
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.sql.model import Model, Status

PARTITIONS, GROUPS = ["p1", "p2", "p3"], ["g1", "g2"]
LEASE, RETRY_DELAY, KEEP = 60, 5, 300
# What may happen next, and how often. Those of LEASED need something that was handed out.
WEIGHTS = {
    "push": 7, "pop": 8, "ack_prefix": 6, "ack_each": 8, "transact": 3, "release": 2, "renew": 2,
    "wait": 3, "seek": 2, "redrive": 1, "retain": 2, "delete": 1, "pause": 1,
}  # fmt: skip
LEASED = {"ack_prefix", "ack_each", "transact", "release", "renew"}
ALL = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
UNLEASED = [name for name in ALL if name not in LEASED]


class Machine(RuleBasedStateMachine):
    """One example is one transaction, rolled back at its end: as good as a fresh database."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        partial: str,
        limit: int,
        found: list[Exception],
        *,
        atomic: bool = True,
    ) -> None:
        super().__init__()
        self.connection, self.found, self.atomic = connection, found, atomic
        self.history: list[str] = []
        self.rng = random.Random(0)
        self.model = Model(PARTITIONS, GROUPS, partial, limit)
        self.now = 1_800_000_000.0
        self.count = 0
        self.handed: list[tuple[str, str, UUID, list[int]]] = []
        connection.execute("begin")
        self.tick(0)
        connection.execute(
            "select queen.configure('q', jsonb_build_object('retry_limit', %s::int, 'partial_failure', %s::text,"
            " 'retry_delay', %s::int, 'retention_enabled', true, 'completed_retention_seconds', %s::int))",
            [limit, partial, RETRY_DELAY * 1000, KEEP],
        )
        self.call("select queen.create_partitions(array['q', 'q', 'q'], %s)", PARTITIONS)
        for group in GROUPS:
            self.call("select queen.subscribe('q', %s, 'all', null)", group)
            while self.call("select queen.fill_subscription('q', %s) as more", group)[0]["more"]:
                pass
        rows = self.call("select name, id from queen.partitions where name <> 'Default'")
        self.ids: dict[str, int] = {row["name"]: row["id"] for row in rows}
        self.names = {number: name for name, number in self.ids.items()}

    def teardown(self) -> None:
        self.connection.execute("rollback")

    def call(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        cursor = self.connection.cursor(row_factory=dict_row)
        return cursor.execute(sql.SQL(statement), parameters).fetchall()

    def tick(self, seconds: float) -> None:
        self.now += seconds
        value = "jsonb_build_object('ahead', 0, 'frozen', %s::float8)"
        self.connection.execute(f"update queen.settings set value = {value} where key = 'test_clock'", [self.now])

    def push_to(self, name: str, transactions: list[str]) -> list[dict[str, Any]]:
        count = len(transactions)
        return self.call(
            "select * from queen.push_messages(array['q'], array[%s], %s, %s, %s, %s, %s, p_careful => true)",
            name, [1] * count, list(range(count)), [uuid4() for _ in transactions],
            [Jsonb({"t": t}) for t in transactions], transactions,
        )  # fmt: skip

    @rule(seed=st.integers(0, 2**32 - 1))
    def step(self, seed: int) -> None:
        """One thing happens, chosen by weight. One draw per step, so that examples stay comparable whatever the
        database hands out among lanes that became ready in the same instant."""
        self.rng = random.Random(seed)
        action = self.rng.choice(ALL if self.handed else UNLEASED)
        self.history.append(f"{action} {seed}")
        try:
            getattr(self, action)()
            self.compare_lanes()
            self.compare_messages()
            self.compare_dead_letters()
        except (AssertionError, psycopg.Error) as error:
            error.add_note("\n".join(self.history))
            self.found.append(error)
            raise

    def push(self) -> None:
        name, fresh, again = self.rng.choice(PARTITIONS), self.rng.randint(0, 6), self.rng.randint(0, 2)
        kept = [t for t in self.model.partitions[name].by_transaction if t.startswith("t")]
        transactions = [*kept[-again:] * (again > 0), *[f"t{self.count + n}" for n in range(fresh)]]
        self.count += fresh
        if transactions:
            rows = self.push_to(name, transactions)
            expected = [self.model.partitions[name].push(t, self.now) for t in transactions]
            assert [(row["status"], row["seq"]) for row in rows] == expected

    def pop(self) -> None:
        group, size = self.rng.choice(GROUPS), self.rng.randint(1, 6)
        name = self.rng.choice([None, None, *PARTITIONS])
        token = uuid4()
        head, *rows = self.call(
            "select * from queen.pop('q', %s, array[%s], array[1], array[%s]::uuid[], %s, %s)",
            group, size, token, name, LEASE,
        )  # fmt: skip
        ready = [lane for lane in self.model.open_lanes(group, self.now) if name in (None, lane)]
        if not rows:
            assert ready == [], f"nothing handed out though {ready} wait: {head['state']}"
        else:
            (found,) = {self.names[row["partition_id"]] for row in rows}
            assert found in ready, f"{found} was handed out but is not ready"
            seqs = self.model.pop(found, group, size, token, self.now + LEASE)
            assert [row["seq"] for row in rows] == seqs
            assert [row["transaction_id"] for row in rows] == [
                self.model.partitions[found].transactions[seq] for seq in seqs
            ]
            assert {row["retry_count"] for row in rows} == {self.model.lanes[found, group].retries}
            self.handed.append((found, group, token, seqs))
        self.forget_drained(group)

    def known_leases(self) -> list[tuple[str, str, UUID, list[int]]]:
        """The leases that live, and a few that may be stale."""
        held = {lane.lease.token for lane in self.model.lanes.values() if lane.lease}
        return [*[entry for entry in self.handed if entry[2] in held], *self.handed[-3:]]

    def forget_drained(self, group: str) -> None:
        """A pop that passes a lane with nothing left ends the lease that ran out there."""
        held = {row["lease_id"] for row in self.call("select lease_id from queen.partition_consumers")}
        for (name, owner), lane in self.model.lanes.items():
            if owner == group and lane.lease and lane.lease.expires <= self.now and lane.lease.token not in held:
                assert self.model.partitions[name].pending(lane.cursor) == []
                lane.lease = None

    def ack_prefix(self) -> None:
        name, group, token, seqs = self.rng.choice(self.known_leases())
        up_to = self.rng.choice([*seqs, seqs[-1], seqs[-1] + 3])
        (row,) = self.call(
            "select * from queen.ack_leases(array[%s]::bigint[], array[%s], array[%s]::uuid[], array[%s]::bigint[])",
            self.ids[name], group, token, up_to,
        )  # fmt: skip
        assert row["status"] == self.model.ack_up_to(name, group, token, up_to)

    def ack_each(self) -> None:
        name, group, token, seqs = self.rng.choice(self.known_leases())
        kinds: list[Status] = ["completed", "completed", "failed", "failed", "dlq", "retry"]
        chosen = self.rng.sample(seqs, self.rng.randint(1, len(seqs)))
        pool: list[Status | None] = [None, *kinds]
        same = self.rng.choice(pool)
        items = {seq: self.rng.choice(kinds) if same is None else same for seq in sorted(chosen)}
        rows = self.ack_items(name, group, token, items)
        expected = self.model.ack(name, group, token, items, self.now, RETRY_DELAY)
        assert [row["status"] for row in rows] == expected

    def ack_items(self, name: str, group: str, token: UUID, items: dict[int, Status]) -> list[dict[str, Any]]:
        transactions = self.model.partitions[name].transactions
        count = len(items)
        return self.call(
            "select * from queen.ack_messages(%s, %s::bigint[], %s, %s::uuid[], %s, %s::bigint[], %s, %s)",
            [1] * count, [self.ids[name]] * count, [group] * count, [token] * count,
            [transactions.get(seq, "gone") for seq in items], [None] * count, list(items.values()), ["e"] * count,
        )  # fmt: skip

    def transact(self) -> None:
        """I9: a push and an ack, taken back together when the ack does not count."""
        to, good = self.rng.choice(PARTITIONS), self.rng.choice([True, False])
        name, group, token, seqs = self.rng.choice(self.known_leases())
        transaction = f"t{self.count}"
        self.count += 1
        self.connection.execute("savepoint work")
        self.push_to(to, [transaction])
        rows = self.ack_items(name, group, token if good else uuid4(), {seqs[-1]: "completed"})
        if all(row["status"] in ("acked", "noop") for row in rows):
            self.model.partitions[to].push(transaction, self.now)
            self.model.ack(name, group, token, {seqs[-1]: "completed"}, self.now, RETRY_DELAY)
        elif self.atomic:
            self.connection.execute("rollback to savepoint work")

    def release(self) -> None:
        delay = self.rng.choice([0, 3])
        *_, token, _ = self.rng.choice(self.known_leases())
        (row,) = self.call("select * from queen.release(array[%s]::uuid[], %s)", token, delay * 1000)
        assert row["released"] == self.model.release(token, self.now + delay)

    def renew(self) -> None:
        *_, token, _ = self.rng.choice(self.known_leases())
        (row,) = self.call("select * from queen.renew(array[%s]::uuid[], %s)", token, LEASE)
        assert row["renewed"] == self.model.renew(token, self.now, self.now + LEASE)

    def wait(self) -> None:
        self.tick(self.rng.choice([1, 4, 59, 61, 301]))

    def seek(self) -> None:
        group = self.rng.choice(GROUPS)
        to: Literal["start", "end"] = self.rng.choice(("start", "start", "end"))
        self.call("select * from queen.seek('q', %s, %s)", group, to)
        self.model.seek(group, to)

    def redrive(self) -> None:
        group = self.rng.choice(GROUPS)
        waiting = self.call(
            "select id, partition_id from queen.dead_letter_queue"
            " where redriven_at is null and consumer_group = %s order by partition_id, seq, id",
            group,
        )
        (row,) = self.call("select * from queen.redrive(p_queue => 'q', p_group => %s)", group)
        assert row["redriven"] == len(waiting)
        for letter in waiting:
            (new,) = self.call("select redriven_as::text as t from queen.dead_letter_queue where id = %s", letter["id"])
            self.model.partitions[self.names[letter["partition_id"]]].push(new["t"], self.now)

    def retain(self) -> None:
        name = self.rng.choice(PARTITIONS)
        self.tick(self.rng.choice([0, KEEP + 1]))
        (row,) = self.call(
            "select min(last_consumed_seq) as passed from queen.partition_consumers where partition_id = %s",
            self.ids[name],
        )
        pending = {seq for (p, _), lane in self.model.lanes.items() if p == name
                   for seq in self.model.partitions[name].pending(lane.cursor)}  # fmt: skip
        (gone,) = self.call("select queen.retain_partition(%s) as n", self.ids[name])
        assert gone["n"] == self.model.retain(name, self.now - KEEP, row["passed"])
        assert pending <= set(self.model.partitions[name].created), "retention took what a group still waits for"

    def delete(self) -> None:
        name = self.rng.choice(PARTITIONS)
        kept = sorted(self.model.partitions[name].created)
        if kept:
            seq = self.rng.choice(kept)
            transaction = self.model.partitions[name].transactions[seq]
            (row,) = self.call("select queen.delete_message(%s, %s) as existed", self.ids[name], transaction)
            assert row["existed"]
            self.model.delete(name, seq)

    def pause(self) -> None:
        paused = self.rng.choice([False, False, False, True])
        self.call("select queen.configure('q', jsonb_build_object('paused', %s::boolean))", paused)
        self.model.paused = paused

    def compare_lanes(self) -> None:
        """I2, I4, I8, and no wake-up lost: whatever waits has a time from which it may be handed out."""
        rows = self.call(
            "select p.name, c.consumer_group as owner, c.lease_id, c.retry_count,"
            " extract(epoch from c.ready_at)::float8 as ready,"
            " queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as depth"
            " from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id"
            " where p.name <> 'Default'"
        )
        assert len(rows) == len(self.model.lanes)
        for row in rows:
            lane = self.model.lanes[row["name"], row["owner"]]
            pending = self.model.partitions[row["name"]].pending(lane.cursor)
            assert row["depth"] == len(pending)
            assert row["lease_id"] == (lane.lease.token if lane.lease else None)
            assert row["retry_count"] == lane.retries
            due = lane.lease.expires if lane.lease else lane.not_before
            assert not pending or (row["ready"] is not None and row["ready"] <= max(due, self.now) + 0.001)

    def compare_messages(self) -> None:
        """I1, I3, I7: no hole, nothing lost, nothing twice."""
        rows = self.call(
            "select p.name, p.first_seq, p.next_seq,"
            " array(select m.seq from queen.messages m where m.partition_id = p.id order by m.seq) as seqs"
            " from queen.partitions p where p.name <> 'Default'"
        )
        for row in rows:
            partition = self.model.partitions[row["name"]]
            assert (row["first_seq"], row["next_seq"]) == (partition.first, partition.next)
            assert row["seqs"] == sorted(partition.created)

    def compare_dead_letters(self) -> None:
        rows = self.call("select partition_id, consumer_group as owner, seq from queen.dead_letter_queue order by id")
        found: dict[tuple[str, str], list[int]] = {key: [] for key in self.model.lanes}
        for row in rows:
            found[self.names[row["partition_id"]], row["owner"]].append(row["seq"])
        assert found == {key: lane.dead for key, lane in self.model.lanes.items()}
