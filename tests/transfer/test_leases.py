"""Clients that hold a lease when the sides change acknowledge it afterwards, with the ids they were given before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2

from queen.transfer.cutover import cutover
from queen.transfer.generator import Sizes
from tests.server.running import run_broker
from tests.transfer.places import ask, copied

HELD = """
select c.partition_id::text, c.consumer_group, c.worker_id, array_agg(m.transaction_id order by m.created_at, m.id),
       q.name, p.name
  from queen.partition_consumers c
  join queen.partitions p on p.id = c.partition_id
  join queen.queues q on q.id = p.queue_id
  join lateral jsonb_array_elements(c.message_batch) e on jsonb_typeof(c.message_batch) = 'array'
  join queen.messages m on m.id::text = coalesce(e->>'id', e #>> '{}')
 where c.lease_expires_at > now() and c.worker_id !~ '^worker'
 group by 1, 2, 3, 5, 6
"""


def test_a_lease_is_acknowledged_by_its_token_and_the_earlier_partition_id(database: str, tmp_path: Path) -> None:
    held: list[tuple[Any, ...]] = []

    async def move() -> None:
        async with copied(database, "v3", sizes=Sizes(partitions=30, messages=400, groups=4)) as link:
            held.extend(ask(database, HELD))
            await cutover(link, unverified=True)

    asyncio.run(move())
    assert len(held) > 3
    with run_broker(database, tmp_path) as broker, httpx2.Client(base_url=broker.url, timeout=40) as client:
        for number, (partition, group, token, names, queue, name) in enumerate(held):
            items = [{"transactionId": each, "partitionId": partition, "leaseId": token} for each in names]
            wrong = [{**each, "leaseId": "51e00000-0000-4000-8000-000000000000"} for each in items]
            assert not any(each["success"] for each in batch(client, wrong, group))
            if number % 2:
                assert all(each["success"] for each in batch(client, items, group))
            else:
                operations = [{"type": "ack", "consumerGroup": group, "status": "completed", **each} for each in items]
                told = client.post("/api/v1/transaction", json={"operations": operations}).json()
                assert told["success"], told
            state = ask(
                database,
                "select c.lease_id, m.transaction_id from queen.partition_consumers c "
                "join queen.partitions p on p.id = c.partition_id join queen.queues q on q.id = p.queue_id "
                "join queen.messages m on m.partition_id = p.id and m.seq = c.last_consumed_seq "
                "where q.name = %s and p.name = %s and c.consumer_group = %s",
                queue, name, group,
            )  # fmt: skip
            assert state == [(None, names[-1])]


def batch(client: httpx2.Client, items: list[dict[str, Any]], group: str) -> list[dict[str, Any]]:
    body = {"acknowledgments": [{**each, "status": "completed"} for each in items], "consumerGroup": group}
    answer = client.post("/api/v1/ack/batch", json=body)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found
