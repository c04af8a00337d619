"""Things that can go wrong with a copy, planted: each a statement on the copy and what verify must call it."""

from __future__ import annotations

from dataclasses import dataclass

from queen.transfer.model import Version


@dataclass(frozen=True)
class Corruption:
    name: str
    verdict: str
    statement: str
    versions: tuple[Version, ...] = ("v2", "v3")


# Partitions by their number of messages: the n-th longest, so that each statement hits another one.
LONG = "(select id from queen_next.partitions order by next_seq - first_seq desc, id offset {} limit 1)"
CORRUPTIONS = [
    Corruption(
        "a message is missing", "missing message",
        f"delete from queen_next.messages where partition_id = {LONG.format(0)} and seq = 5",
    ),
    Corruption(
        "a message is there twice", "unexpected message",
        "insert into queen_next.messages (partition_id, seq, pos, id, created_at, payload) "
        f"select partition_id, 1000000, 1000000, gen_random_uuid(), created_at, payload from queen_next.messages "
        f"where partition_id = {LONG.format(1)} and seq = 3",
    ),
    Corruption(
        "two messages changed places", "changed order",
        "update queen_next.messages m set id = o.id, transaction_id = o.transaction_id || '~', payload = o.payload, "
        "trace_id = o.trace_id from queen_next.messages o "
        f"where m.partition_id = {LONG.format(2)} and o.partition_id = m.partition_id "
        "and (m.seq, o.seq) in ((4, 5), (5, 4))",
    ),
    Corruption(
        "a payload changed", "changed payload",
        f"update queen_next.messages set payload = '{{}}' where partition_id = {LONG.format(3)} and seq = 6",
    ),
    Corruption(
        "a transaction id changed", "changed transaction id",
        f"update queen_next.messages set transaction_id = 'other' where partition_id = {LONG.format(4)} and seq = 6",
    ),
    Corruption(
        "a cursor is too far", "changed cursor",
        "update queen_next.partition_consumers set last_consumed_seq = last_consumed_seq + 1 "
        "where (partition_id, consumer_group) = (select c.partition_id, c.consumer_group "
        "from queen_next.partition_consumers c join queen_next.partitions p on p.id = c.partition_id "
        "where c.lease_id is null and c.last_consumed_seq + 2 < p.next_seq and not p.has_skips order by 1, 2 limit 1)",
    ),
    Corruption(
        "a dead letter is lost", "missing dead letter",
        "delete from queen_next.dead_letter_queue where id = (select min(id) from queen_next.dead_letter_queue)",
    ),
    Corruption(
        "the error of a dead letter changed", "changed dead letter",
        "update queen_next.dead_letter_queue set error_message = 'other' "
        "where id = (select max(id) from queen_next.dead_letter_queue)",
    ),
    Corruption(
        "a lease is lost", "missing lease",
        "update queen_next.partition_consumers set lease_id = null where lease_id = "
        "(select min(lease_id::text)::uuid from queen_next.partition_consumers)",
    ),
    Corruption(
        "the token of a lease changed", "changed lease",
        "update queen_next.partition_consumers set lease_id = gen_random_uuid() where lease_id = "
        "(select max(lease_id::text)::uuid from queen_next.partition_consumers)",
    ),
    Corruption(
        "an option of a queue changed", "changed queue",
        "update queen_next.queues set retry_limit = retry_limit + 1 where id = (select min(id) from queen_next.queues)",
    ),
    Corruption(
        "a group is lost", "missing group",
        "delete from queen_next.subscriptions where (queue_id, consumer_group) = "
        "(select queue_id, consumer_group from queen_next.subscriptions "
        "order by queue_id desc, consumer_group desc limit 1)",
    ),
    Corruption(
        "a finished message is delivered again", "changed cursor",
        "delete from queen_next.skips where (partition_id, consumer_group, seq) = "
        "(select partition_id, consumer_group, max(seq) from queen_next.skips group by 1, 2 order by 1, 2 limit 1)",
        ("v2",),
    ),
    Corruption(
        "a trace is lost", "changed traces",
        "delete from queen_next.traces where id = (select t.id from queen_next.traces t where "
        "(select count(*) from queen_next.traces x where x.partition_id = t.partition_id) > 1 order by 1 limit 1)",
        ("v3",),
    ),
]  # fmt: skip
