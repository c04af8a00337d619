"""Whatever changes in the source while it is copied comes over: what commits late, what goes, what is new."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from queen.transfer.cleanup import cleanup
from queen.transfer.cutover import cutover
from queen.transfer.errors import TransferRefused
from queen.transfer.follow import catch_up, one_round
from queen.transfer.link import open_link
from queen.transfer.model import Version
from queen.transfer.prepare import prepare
from queen.transfer.rollback import rollback
from queen.transfer.verify import verify
from tests.support.postgres import TEMPLATE, Postgres
from tests.transfer.model import Tables
from tests.transfer.places import ask, copied

SHAPES = """
create temporary table longest as
select partition_id, row_number() over (order by count(*) desc, partition_id) as place,
       percentile_disc(0.3) within group (order by created_at) as early
  from queen.messages group by partition_id;
create temporary table last as
select distinct on (partition_id) * from queen.messages order by partition_id, created_at desc, id desc;
"""
# The front and the middle of partitions go; one that was begun long ago commits now; payloads are mended by hand.
MESSAGES = """
delete from queen.messages m using longest l
 where l.partition_id = m.partition_id and l.place = 1 and m.created_at < l.early;
delete from queen.messages m using longest l
 where l.partition_id = m.partition_id and l.place = 2 and transaction_id like '%3';
insert into queen.messages (id, transaction_id, partition_id, payload, created_at)
select gen_random_uuid(), 'late' || clock_timestamp(), partition_id, '1', early from longest where place = 3;
update queen.messages m set payload = '[2]' from longest l where l.partition_id = m.partition_id and l.place = 4;
"""
# A queue, partitions with messages, and some that go; options change.
STRUCTURE = """
delete from queen.dead_letter_queue where id in (select id from queen.dead_letter_queue order by failed_at, id limit 2);
insert into queen.queues (name, retry_limit) values ('new', 7);
insert into queen.partitions (queue_id, name) select id, 'fresh' from queen.queues;
insert into queen.messages (transaction_id, partition_id, payload)
select 'n' || n, p.id, to_jsonb(n) from queen.partitions p, generate_series(1, 5) n where p.name = 'fresh';
update queen.queues set lease_time = 77 where name like 'shop%1';
delete from queen.partitions where name = 'customer-9';
delete from queen.queues where name = 'shop.orders-2';
"""
GROUPS: dict[Version, str] = {
    "v3": """
update queen.partition_consumers c set last_consumed_id = l.id, last_consumed_created_at = l.created_at
  from last l where l.partition_id = c.partition_id and c.consumer_group = 'group-2';
update queen.partition_consumers set lease_expires_at = null, worker_id = null where worker_id is not null;
delete from queen.partition_consumers where consumer_group = 'group-3';
insert into queen.partition_consumers (partition_id, consumer_group)
select id, 'late comers' from queen.partitions where name = 'fresh' on conflict do nothing;
insert into queen.consumer_groups_metadata (consumer_group, queue_name, subscription_mode, subscription_timestamp)
select 'subscribers', name, 'new', now() from queen.queues on conflict do nothing;
delete from queen.message_traces where transaction_id like '%2';
""",
    "v2": """
update queen.messages_status set status = 'completed' where status = 'processing';
insert into queen.messages_status (message_id, consumer_group, status)
select id, 'late comers', 'completed' from queen.messages where transaction_id like '%5' on conflict do nothing;
update queen.partition_cursors c set last_consumed_id = l.id, last_consumed_created_at = l.created_at
  from last l where l.partition_id = c.partition_id and c.consumer_group = 'group-2';
update queen.partition_leases set released_at = now() where consumer_group <> 'left-over';
delete from queen.partition_cursors where consumer_group = 'group-3';
""",
}


@pytest.mark.parametrize("version", ["v2", "v3"])
async def test_changes_come_over(database: str, version: Version) -> None:
    async with copied(database, version) as link:
        ask(database, SHAPES + MESSAGES + STRUCTURE + GROUPS[version])
        await catch_up(link)
        report = await verify(link)
        assert report.passed, report.differences[:5]
        ask(database, SHAPES + MESSAGES + GROUPS[version])
        expected = Tables(database).expected
        await cutover(link, unverified=True)
    rows = ask(
        database,
        "select q.name, p.name, c.consumer_group, queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) "
        "from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id "
        "join queen.queues q on q.id = p.queue_id",
    )
    assert {row[:3]: row[3] for row in rows} == {key: len(each) for key, each in expected.waiting.items()}


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_two_databases_there_and_back_and_cleaned_up(postgres: Postgres, version: Version) -> None:
    """What happened since the cutover is in the earlier tables afterwards, and waits there as it did here."""

    async def work(source: str, target: str) -> None:
        async with copied(target, version, source=source) as link:
            assert (await verify(link)).passed
            await cutover(link)
        use(target)
        waiting = still_waiting(target)
        async with open_link(version, source, target) as link:
            await rollback(link)
        expected = Tables(source).expected
        assert {key: each for key, each in expected.waiting.items() if key in waiting} == waiting
        async with open_link(version, source, target) as link:
            await cleanup(link)
        left = "select nspname from pg_namespace where nspname ~ '^queen(_next|_transfer|_v.)?$'"
        assert (ask(target, left), ask(source, left)) == ([], [("queen",)])
        assert ask(source, "select tgname from pg_trigger where tgname ~ 'transfer'") == []

    with postgres.scratch("template0") as source, postgres.scratch(TEMPLATE) as target:
        asyncio.run(work(source, target))


def use(dsn: str) -> None:
    """Push, go on, and make things new: in SQL, as clients of this generation would."""
    ask(dsn, "update queen.partition_consumers set ready_at = now() - interval '1 s' where lease_id is not null")
    for queue in ("shop.orders-1", "brand.new"):
        ask(dsn, "select queen.push(%s, 'Default', to_jsonb(n)) from generate_series(1, 20) n", queue)
    for group in ("__QUEUE_MODE__", "group-2", "group-3"):
        ask(
            dsn,
            "select from queen.move_cursors("
            "array(select partition_id from queen.partition_consumers where consumer_group = %s order by 1), "
            "array(select consumer_group from queen.partition_consumers where consumer_group = %s), null, "
            "array(select least(c.last_consumed_seq + 4, p.next_seq - 1) from queen.partition_consumers c "
            "join queen.partitions p on p.id = c.partition_id where consumer_group = %s order by c.partition_id), "
            "p_wait => true, p_over => true)",
            group, group, group,
        )  # fmt: skip


def still_waiting(dsn: str) -> dict[tuple[str, str, str], list[object]]:
    rows = ask(
        dsn,
        "select q.name, p.name, c.consumer_group, array(select m.id from queen.messages m where m.partition_id = p.id "
        "and m.seq > c.last_consumed_seq and not exists (select from queen.skips s where s.partition_id = p.id "
        "and s.seq = m.seq and s.consumer_group in ('*', c.consumer_group)) order by m.seq) "
        "from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id "
        "join queen.queues q on q.id = p.queue_id",
    )
    return {(str(q), str(p), str(g)): list(ids) for q, p, g, ids in rows}  # type: ignore[call-overload]


async def test_two_commands_at_once_do_not_mix_up_what_they_bring(database: str) -> None:
    """Following and comparing in two sessions while the source changes: each waits for the other; both are right."""

    async def change(times: int) -> None:
        connection = await asyncpg.connect(database)
        for number in range(times):
            await connection.execute(
                "insert into queen.messages (transaction_id, partition_id, payload) "
                "select 'c' || $1::integer, id, '1' from queen.partitions order by name limit 3", number
            )  # fmt: skip
            await connection.execute(
                "update queen.partition_consumers c set last_consumed_id = m.id, "
                "last_consumed_created_at = m.created_at from queen.messages m "
                "where m.partition_id = c.partition_id and m.transaction_id = 'c' || $1::integer",
                number,
            )
        await connection.close()

    async with copied(database, "v3") as link, open_link("v3", database) as other:
        await prepare(other)
        changing = asyncio.create_task(change(150))
        while not changing.done():
            _, report = await asyncio.gather(one_round(other), verify(link))
            assert report.passed, report.differences[:3]
        await changing
        await cutover(link)
        with pytest.raises(TransferRefused, match="the cutover is done"):
            await one_round(other)
