from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from queen.cli import main
from queen.client.connect import connect
from queen.demo.history import make_history
from queen.demo.shop import STAGES

UNTIL = datetime(2026, 11, 1, tzinfo=UTC)
# Each finds rows that no sequence of verbs could have left behind.
IMPOSSIBLE = {
    "a hole in a partition": """
        select p.id from queen.partitions p left join queen.messages m on m.partition_id = p.id
         group by p.id
        having count(m.seq) <> p.next_seq - p.first_seq or min(m.seq) <> 1 or max(m.seq) <> p.next_seq - 1""",
    "time or pos going back": """
        select from (select created_at, lag(created_at) over w as before, pos, lag(pos) over w as pos_before
                       from queen.messages window w as (partition by partition_id order by seq)) m
         where created_at < before or pos <= pos_before""",
    "a pos above the horizon": "select from queen.messages where pos >= queen.advance_horizon()",
    "a partition younger than its messages": """
        select from queen.partitions p join queen.messages m on m.partition_id = p.id
         where m.created_at > p.last_created_at or m.created_at < p.created_at""",
    "a cursor outside its partition": """
        select from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id
         where c.last_consumed_seq >= p.next_seq or (c.ready_at is null) <> (c.last_consumed_seq = p.next_seq - 1)""",
    "a lane without a cursor": """
        select from queen.partitions p join queen.subscriptions s on s.queue_id = p.queue_id
         where not exists (select from queen.partition_consumers c
                            where c.partition_id = p.id and c.consumer_group = s.consumer_group)""",
    "two batches of a lane out at a time": """
        select from (select leased_at, ended_at, lag(ended_at) over w as before from queen.deliveries
                     window w as (partition by partition_id, consumer_group order by leased_at)) d
         where leased_at < before or ended_at < leased_at""",
    "a delivery before its message": """
        select from queen.deliveries d join queen.messages m on m.partition_id = d.partition_id and m.seq = d.batch_to
         where d.leased_at < m.created_at""",
    "a consumer that passed what was never delivered": """
        select from queen.partition_consumers c
         where c.last_consumed_seq > coalesce((select max(d.batch_to) from queen.deliveries d
                where d.partition_id = c.partition_id and d.consumer_group = c.consumer_group), 0)""",
    "a dead letter that is not its message": """
        select from queen.dead_letter_queue d
          left join queen.messages m on m.partition_id = d.partition_id and m.seq = d.seq
         where m.id is distinct from d.message_id or m.payload is distinct from d.payload
            or d.failed_at <= m.created_at""",
    "a child older than its parent": """
        select from queen.messages m join queen.messages p on p.id = m.parent_id
         where m.created_at < p.created_at or m.trace_id <> p.trace_id""",
    "totals that do not add up": """
        select from queen.partition_consumers c
         where c.total_messages_consumed
             + (select count(*) from queen.dead_letter_queue d
                 where d.partition_id = c.partition_id and d.consumer_group = c.consumer_group)
            <> c.last_consumed_seq""",
}


def demo(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["demo", "-o", "json", *arguments])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


def test_history_is_what_the_verbs_could_have_left(database: str) -> None:
    planted = demo("--url", database, "--messages", "5000", "--days", "3")
    with psycopg.connect(database, autocommit=True) as connection:
        found = {name: len(connection.execute(check.encode()).fetchall()) for name, check in IMPOSSIBLE.items()}
        assert found == dict.fromkeys(IMPOSSIBLE, 0)
        counted = connection.execute(
            """select (select count(*) from queen.messages), (select count(*) from queen.deliveries),
                      (select count(*) from queen.dead_letter_queue),
                      (select count(distinct trace_id) from queen.messages),
                      (select sum(pushed) from queen.stats)"""
        ).fetchone()
    names = ("messages", "deliveries", "dead_letters", "traces", "messages")
    assert counted == tuple(planted[name] for name in names)
    assert planted["messages"] == 5000


async def test_the_verbs_go_on_from_history(database: str) -> None:
    await asyncio.to_thread(demo, "--url", database, "--messages", "2000", "--plain")
    async with connect(database) as client:
        for stage in STAGES:
            assert await client.pop(stage.queue, group=stage.group) == []
        pushed = await client.push("orders", {"n": 1}, partition="customer-0001")
        (message,) = await client.pop("orders", group="checkout")
        assert message.id == pushed.id
        assert message.seq > 1
        await client.ack(message)


def test_the_same_seed_makes_the_same_shop(database: str) -> None:
    first, second = (make_history(2000, 1, seed=7, until=UNTIL) for _ in range(2))
    assert first.planted == second.planted
    assert [sent.id for sent in first.messages] == [sent.id for sent in second.messages]
    assert first.deliveries == second.deliveries
    assert make_history(2000, 1, seed=8, until=UNTIL).planted != first.planted


@pytest.mark.parametrize("messages", [1, 2, 3, 4, 5, 997])
def test_there_are_as_many_messages_as_asked_for(messages: int) -> None:
    history = make_history(messages, 2, seed=3, until=UNTIL)
    assert len(history.messages) == messages
    last = max(one.ended for one in history.deliveries)
    assert history.time(max(last, history.messages[-1].created)) == UNTIL


def test_a_plain_shop_has_nothing_planted() -> None:
    planted = make_history(20_000, 7, seed=1, until=UNTIL, plain=True).planted
    assert not any([planted.hot_keys, planted.error_clusters, planted.broken_traces, planted.blocked_lanes])
    stormy = make_history(20_000, 7, seed=1, until=UNTIL).planted
    assert all([stormy.hot_keys, stormy.error_clusters, stormy.broken_traces, stormy.blocked_lanes])


def test_history_is_not_written_over_messages(database: str) -> None:
    demo("--url", database, "--messages", "10")
    done = CliRunner().invoke(main, ["demo", "--url", database, "--messages", "10"])
    assert done.exit_code == 2
    assert "choose another --prefix" in done.output
    demo("--url", database, "--messages", "10", "--prefix", "second.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--messages", "5", "--rate", "2"], "choose one"),
        (["--until", "yesterday"], "--until must be an ISO time"),
        (["--url", "http://localhost:1", "--messages", "5"], "use a postgresql:// address"),
    ],
)
def test_bad_arguments_are_told(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["demo", *arguments])
    assert done.exit_code == 2
    assert said in done.output
