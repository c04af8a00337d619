"""SQL as an API: the functions people and programs without a client call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

Sql = psycopg.Connection[Any]


@pytest.fixture
def db(database: str) -> Iterator[Sql]:
    with psycopg.connect(database, autocommit=True, row_factory=namedtuple_row) as connection:
        yield connection


def rows(db: Sql, statement: str, *parameters: Any) -> list[Any]:
    return db.execute(statement.encode(), parameters).fetchall()


def value(db: Sql, statement: str, *parameters: Any) -> Any:
    return rows(db, statement, *parameters)[0][0]


def push(db: Sql, *numbers: int, partition: str = "p") -> None:
    for number in numbers:
        value(db, "select queen.push('q', %s, %s)", partition, Jsonb(number))


def pop(db: Sql, batch: int = 1, more: str = "") -> list[Any]:
    return rows(db, f"select * from queen.pop('q', {batch}{more})")


def refused(db: Sql, code: str, statement: str, *parameters: Any) -> None:
    with pytest.raises(psycopg.Error) as caught:
        rows(db, statement, *parameters)
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("QU001", code)


def test_a_message_comes_as_a_row_that_people_can_read(db: Sql) -> None:
    made = value(db, "select queen.push('q', 'acme', '{\"order\": 1}', transaction_id => 'o-1')")
    (row,) = pop(db)
    assert row.partition_name == "acme"
    assert (row.seq, row.message_id, row.transaction_id, row.payload) == (1, made, "o-1", {"order": 1})
    assert (row.retry_count, row.delivery_count) == (0, 0)
    assert row.lease_expires_at > row.created_at
    assert pop(db) == [], "the partition is leased"


def test_a_batch_is_acknowledged_by_its_lease(db: Sql) -> None:
    push(db, 1, 2, 3, 4)
    lease = pop(db, 3)[0].lease_id
    assert value(db, "select queen.ack(%s)", lease) == 3
    assert [row.payload for row in pop(db, 3)] == [4]


def test_a_message_is_acknowledged_with_those_before_it(db: Sql) -> None:
    push(db, 1, 2, 3)
    popped = pop(db, 3)
    assert value(db, "select queen.ack(%s, %s)", popped[0].lease_id, popped[1].message_id) == 2
    assert value(db, "select queen.nack(%s, status => 'retry')", popped[0].lease_id) == 0
    assert [row.payload for row in pop(db, 3)] == [3]


def test_a_lease_over_several_partitions_ends_as_a_whole(db: Sql) -> None:
    push(db, 1, partition="a")
    push(db, 2, partition="b")
    popped = pop(db, 10, ", partitions => 5")
    assert len({row.lease_id for row in popped}) == 1
    assert value(db, "select queen.ack(%s)", popped[0].lease_id) == 2
    assert pop(db, 10) == []


def test_a_group_of_its_own_gets_everything(db: Sql) -> None:
    push(db, 1, 2)
    assert value(db, "select queen.ack(%s)", pop(db, 2)[0].lease_id) == 2
    assert [row.payload for row in pop(db, 2, ", consumer_group => 'billing'")] == [1, 2]
    assert pop(db, 2, ", consumer_group => 'late', mode => 'new'") == []
    push(db, 3)
    assert [row.payload for row in pop(db, 9, ", consumer_group => 'late'")] == [3]
    assert pop(db, 9, ", consumer_group => 'after', start_at => now() + interval '1 hour'") == []


def test_handed_out_and_done_at_once(db: Sql) -> None:
    push(db, 1, 2)
    (row,) = pop(db, 1, ", auto_ack => true")
    assert (row.payload, row.lease_id, row.lease_expires_at) == (1, None, None)
    assert [row.payload for row in pop(db)] == [2]


def test_a_failure_spends_a_retry_and_then_the_message(db: Sql) -> None:
    rows(db, "select queen.configure('q', '{\"retry_limit\": 1}')")
    push(db, 1, 2)
    first = pop(db)[0]
    assert value(db, "select queen.nack(%s, error => 'no stock')", first.lease_id) == 0
    second = pop(db)[0]
    assert (second.payload, second.retry_count) == (1, 1)
    assert value(db, "select queen.nack(%s, second.id, 'no stock')".replace("second.id", "%s"), second.lease_id,
                 second.message_id) == 1  # fmt: skip
    assert rows(db, "select payload, error_message from queen.dead_letter_queue") == [(1, "no stock")]
    assert [row.payload for row in pop(db)] == [2]


def test_a_message_can_be_given_up_at_once(db: Sql) -> None:
    push(db, 1, 2, 3)
    popped = pop(db, 3)
    assert value(db, "select queen.nack(%s, %s, 'bad', 'dlq')", popped[0].lease_id, popped[0].message_id) == 1
    assert value(db, "select queen.ack(%s)", popped[0].lease_id) == 2
    assert [row.payload for row in rows(db, "select payload from queen.dead_letter_queue")] == [1]


def test_handing_back_with_a_delay(db: Sql) -> None:
    push(db, 1)
    assert value(db, "select queen.nack(%s, status => 'retry', delay => '1 hour')", pop(db)[0].lease_id) == 0
    assert pop(db) == []
    assert value(db, "select ready_at > now() + interval '59 min' from queen.partition_consumers c"
                     " join queen.partitions p on p.id = c.partition_id where p.name = 'p'")  # fmt: skip


def test_a_lease_is_renewed(db: Sql) -> None:
    push(db, 1)
    row = pop(db, 1, ", lease_seconds => 10")[0]
    assert value(db, "select queen.renew(%s, 600)", row.lease_id) > row.lease_expires_at


@pytest.mark.parametrize("call", ["ack(%s)", "nack(%s)", "renew(%s)", "ack(%s, gen_random_uuid())"])
def test_a_lost_lease_is_an_error_and_changes_nothing(db: Sql, call: str) -> None:
    push(db, 1)
    lease = pop(db)[0].lease_id
    rows(db, "select queen.nack(%s, status => 'retry')", lease)
    again = pop(db)[0]
    refused(db, "LEASE_LOST", f"select queen.{call}", lease)
    assert value(db, "select queen.ack(%s)", again.lease_id) == 1


def test_a_message_of_another_lease_is_not_found(db: Sql) -> None:
    push(db, 1)
    refused(db, "MESSAGE_NOT_FOUND", "select queen.ack(%s, %s)", pop(db)[0].lease_id, uuid4())


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("INVALID_QUEUE", "pop('')"),
        ("INVALID_QUEUE", "push('', 'p', '1')"),
        ("INVALID_QUEUE", "push_many(null, '{p}', array['1']::jsonb[])"),
        ("INVALID_CONSUMER_GROUP", "pop('q', consumer_group => '')"),
        ("INVALID_BATCH", "pop('q', 0)"),
        ("INVALID_BATCH", "pop('q', null)"),
        ("INVALID_PARTITIONS", "pop('q', partitions => 0)"),
        ("INVALID_LEASE_SECONDS", "pop('q', lease_seconds => 0)"),
        ("INVALID_MODE", "pop('q', mode => 'some')"),
        ("INVALID_PARTITION", "push('q', repeat('x', 513), '1')"),
        ("INVALID_TRANSACTION_ID", "push('q', 'p', '1', '')"),
        ("INVALID_TRANSACTION_ID", "push_many('q', '{p}', array['1']::jsonb[], '{\"\"}')"),
        ("INVALID_PAYLOAD", "push_many('q', '{p,p}', array['1']::jsonb[])"),
        ("INVALID_STATUS", "nack(gen_random_uuid(), status => 'maybe')"),
        ("INVALID_DELAY", "nack(gen_random_uuid(), delay => '1 s')"),
        ("INVALID_DELAY", "nack(gen_random_uuid(), status => 'retry', delay => '-1 s')"),
        ("INVALID_SECONDS", "renew(gen_random_uuid(), 0)"),
    ],
)
def test_a_wrong_argument_is_named(db: Sql, code: str, call: str) -> None:
    refused(db, code, f"select queen.{call}")


def test_many_are_stored_in_order(db: Sql) -> None:
    made = rows(
        db,
        "select * from queen.push_many('q', %s, %s)",
        ["b", "a", "b"],
        [Jsonb(n) for n in (1, 2, 3)],
    )
    assert [(row.partition_name, row.seq, row.status) for row in made] == [
        ("b", 1, "queued"), ("a", 1, "queued"), ("b", 2, "queued")]  # fmt: skip
    stored = rows(db, "select id, payload from queen.messages")
    assert {row.message_id for row in made} == {row.id for row in stored}
    assert [row.payload for row in rows(db, "select * from queen.pop('q', 5, partition => 'b')")] == [1, 3]


def test_many_with_one_stored_before(db: Sql) -> None:
    first = value(db, "select queen.push('q', 'p', '1', 't1')")
    numbers = [Jsonb(n) for n in (1, 2, 3)]
    made = rows(db, "select * from queen.push_many('q', %s, %s, %s)", ["p"] * 3, numbers, ["t1", "t2", "t2"])
    assert [(row.seq, row.status) for row in made] == [(1, "duplicate"), (2, "queued"), (2, "duplicate")]
    assert made[0].message_id == first
    assert made[1].message_id == made[2].message_id


def test_none_of_many_is_stored_when_they_do_not_fit(db: Sql) -> None:
    rows(db, "select queen.configure('q', '{\"max_queue_size\": 2}')")
    numbers = [Jsonb(n) for n in (1, 2, 3)]
    refused(db, "QUEUE_FULL", "select * from queen.push_many('q', %s, %s)", ["p"] * 3, numbers)
    assert pop(db) == []


def test_a_pop_that_is_rolled_back_never_was(db: Sql) -> None:
    push(db, 1)
    with db.transaction(force_rollback=True):
        assert len(pop(db)) == 1
    assert [(row.payload, row.delivery_count) for row in pop(db)] == [(1, 0)]


def test_an_ack_commits_with_the_callers_own_work(db: Sql) -> None:
    rows_before = "select count(*) from done"
    db.execute("create table done (n int)")
    push(db, 1)
    lease = pop(db)[0].lease_id
    with db.transaction(force_rollback=True):
        db.execute("insert into done values (1)")
        assert value(db, "select queen.ack(%s)", lease) == 1
    assert value(db, rows_before) == 0
    assert value(db, "select queen.ack(%s)", lease) == 1


def test_a_prepared_transaction_may_push(db: Sql) -> None:
    """PostgreSQL refuses to prepare a transaction that notifies, and a push to somebody who waits would."""
    db.execute("set queen.notify = off")
    push(db, 0)
    assert value(db, "select queen.ack(%s)", pop(db)[0].lease_id) == 1
    name = f"tx{uuid4().hex}"
    db.execute("begin")
    made = value(db, "select queen.push('q', 'p', '1')")
    rows(db, "select * from queen.push_many('q', '{p}', array['2']::jsonb[])")
    db.execute(f"prepare transaction '{name}'".encode())
    assert pop(db) == []
    db.execute(f"commit prepared '{name}'".encode())
    assert [row.message_id for row in pop(db)] == [made]


def test_a_push_notifies_where_nothing_can_be_prepared(db: Sql, database: str) -> None:
    """The rule without a setting: notify unless the server allows prepared transactions, as this one does."""
    push(db, 0)
    assert value(db, "select queen.ack(%s)", pop(db)[0].lease_id) == 1
    heard = {}
    for setting in ("on", "", "off"):
        with psycopg.connect(database, autocommit=True) as listener:
            listener.execute("listen queen")
            db.execute(f"set queen.notify = '{setting}'".encode())
            push(db, 1)
            db.execute("notify queen, 'end'")
            heard[setting] = [note.payload for note in listener.notifies(timeout=60, stop_after=1)]
        assert value(db, "select queen.ack(%s)", pop(db)[0].lease_id) == 1
    assert heard["on"] != ["end"]
    assert heard[""] == heard["off"] == ["end"]
