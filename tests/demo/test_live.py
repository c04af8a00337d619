from __future__ import annotations

import psycopg

from queen.client.connect import connect
from queen.demo.live import Shop


async def test_a_live_shop_finishes_what_it_began(database: str) -> None:
    async with connect(database) as client:
        planted = await Shop(client, seed=5, plain=True, prefix="live.").run(rate=50, seconds=1)
    assert planted.traces == 50
    assert planted.dead_letters == 0
    with psycopg.connect(database) as connection:
        stored, roots, linked = connection.execute(
            """select count(*), count(*) filter (where m.parent_id is null), count(p.id)
                 from queen.messages m left join queen.messages p on p.id = m.parent_id and p.trace_id = m.trace_id"""
        ).fetchone() or (0, 0, 0)
        waiting = connection.execute(
            """select count(*) from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id
                where c.consumer_group <> 'analytics' and c.last_consumed_seq < p.next_seq - 1"""
        ).fetchone()
    assert (stored, roots, linked) == (planted.messages, 50, planted.messages - 50)
    assert waiting == (0,)


async def test_a_stormy_live_shop_leaves_dead_letters_and_broken_traces(database: str) -> None:
    async with connect(database) as client:
        await client.queues.configure("orders", retry_limit=3)
        planted = await Shop(client, seed=11, plain=False, prefix="").run(rate=150, seconds=2)
    assert planted.dead_letters == sum(one.messages for one in planted.error_clusters) > 0
    with psycopg.connect(database) as connection:
        letters: dict[str, int] = dict(
            connection.execute(
                "select queen.normalise_error(error_message), count(*) from queen.dead_letter_queue group by 1"
            ).fetchall()
        )
        broken = connection.execute(
            """select distinct m.trace_id::text from queen.messages m where m.parent_id is not null
                  and not exists (select from queen.messages p where p.id = m.parent_id)"""
        ).fetchall()
    expected: dict[str, int] = {}
    for cluster in planted.error_clusters:
        expected[cluster.error] = expected.get(cluster.error, 0) + cluster.messages
    assert letters == expected
    assert sorted(row[0] for row in broken) == sorted(planted.broken_traces)
