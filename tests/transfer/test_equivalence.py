"""After a copy and a cutover each group receives what it would have received, in order, and nothing it had finished."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queen.client.connect import connect
from queen.transfer.cutover import cutover
from queen.transfer.generator import Sizes
from queen.transfer.link import open_link
from queen.transfer.model import Version
from queen.transfer.verify import verify
from tests.support.postgres import TEMPLATE, Postgres
from tests.transfer.model import Expected, Tables
from tests.transfer.places import ask, copied


async def received(dsn: str, expected: Expected, seed: str) -> None:
    """Drain every group of every queue through the client and compare; leases are let go first, they hide work."""
    ask(dsn, "update queen.partition_consumers set ready_at = now() - interval '1 second' where lease_id is not null")
    got: dict[tuple[str, str, str], list[UUID]] = {key: [] for key in expected.waiting}
    dice = random.Random(seed)
    async with connect(dsn, encryption_keys=["0" * 64]) as client:
        for queue, group in sorted({(queue, group) for queue, _, group in expected.waiting}):
            while messages := await client.pop(queue, group=group, batch=dice.choice((1, 7, 50)), partitions=5):
                for message in messages:
                    got[queue, message.partition, group].append(UUID(str(message.id)))
                await client.ack(messages)
    assert got == expected.waiting
    assert depths(dsn) == dict.fromkeys(expected.waiting, 0)


def depths(dsn: str) -> dict[tuple[str, str, str], int]:
    rows = ask(
        dsn,
        "select q.name, p.name, c.consumer_group, queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) "
        "from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id "
        "join queen.queues q on q.id = p.queue_id",
    )
    return {(str(q), str(p), str(g)): int(str(n)) for q, p, g, n in rows}


def dead_letters(dsn: str) -> dict[tuple[str, str], int]:
    rows = ask(
        dsn,
        "select q.name, d.consumer_group, count(*) from queen.dead_letter_queue d "
        "join queen.queues q on q.id = d.queue_id group by 1, 2",
    )
    return {(str(q), str(g)): int(str(n)) for q, g, n in rows}


async def whole_way(database: str, version: Version, seed: str, sizes: Sizes) -> None:
    async with copied(database, version, seed, sizes=sizes) as link:
        expected = Tables(database).expected
        report = await verify(link)
        assert report.passed, report.differences[:5]
        await cutover(link)
    assert depths(database) == {key: len(each) for key, each in expected.waiting.items()}
    assert dead_letters(database) == expected.dead
    await received(database, expected, seed)
    assert dead_letters(database) == expected.dead


@pytest.mark.parametrize("version", ["v2", "v3"])
@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**31).map(str),
    partitions=st.integers(1, 15),
    messages=st.sampled_from([1, 40, 300]),
    groups=st.integers(1, 4),
    queues=st.integers(1, 4),
)
def test_every_group_receives_what_it_would_have(
    postgres: Postgres, version: Version, seed: str, partitions: int, messages: int, groups: int, queues: int
) -> None:
    sizes = Sizes(queues, partitions, messages, groups)
    with postgres.scratch(TEMPLATE) as database:
        asyncio.run(whole_way(database, version, seed, sizes))


@pytest.mark.parametrize("version", ["v2", "v3"])
async def test_from_one_database_to_another(database: str, empty_database: str, version: Version) -> None:
    async with copied(database, version, source=empty_database) as link:
        expected = Tables(empty_database).expected
        assert not link.same
        assert (await verify(link)).passed
        assert await cutover(link) > 0
    await received(database, expected, "7")
    with psycopg.connect(empty_database) as connection, pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select from queen.messages")
    async with open_link(version, empty_database, database) as link:
        assert link.state is not None
        assert (link.state.phase, link.source_schema) == ("done", f"queen_{version}")
