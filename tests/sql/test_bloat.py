"""While an idle transaction holds back clean-up, dead versions pile up; a pop that starts from its mark hardly notices.

Counted in pages, not in time. The full-size curve is `bench/bloat.py`.
"""

from __future__ import annotations

import json
from datetime import datetime

from tests.support.work import Sql, connect

CYCLES = """
create procedure cycles(p_from integer, p_to integer, p_partitions integer) language plpgsql as $$
declare
    v_lane record;
    v_lease uuid;
begin
    for i in p_from .. p_to loop
        perform queen.push('q', 'p' || (i % p_partitions), '1');
        commit;
        v_lease := gen_random_uuid();
        select l.partition_id, l.first_seq into v_lane
          from queen.pop_lanes('q', 'g', array[1], array[1], array[v_lease],
                               p_mark => clock_timestamp() - interval '100 milliseconds') l where l.request = 1;
        commit;
        perform from queen.ack_leases(array[v_lane.partition_id], array['g'], array[v_lease], array[v_lane.first_seq]);
        commit;
    end loop;
end $$
"""
PAGES = "explain (analyze, buffers, timing off, format json) select * from queen.ready_lanes({}, 'g', null, $1, $2, 1)"


async def start(sql: Sql, partitions: int) -> int:
    await sql.execute(CYCLES)
    for number in range(partitions):
        await sql.fetchval("select queen.push('q', $1, '0')", f"p{number}")
    await sql.fetchval("select queen.subscribe('q', 'g', 'new', null)")
    while await sql.fetchval("select queen.fill_subscription('q', 'g')"):
        pass
    return int(await sql.fetchval("select id from queen.queues"))


async def pages(sql: Sql, queue: int, since: datetime) -> int:
    """Pages a look for a ready lane touches when it starts from a time."""
    now = await sql.fetchval("select clock_timestamp()")
    for setting in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"):
        await sql.execute(f"set {setting} = off")
    await sql.fetchval(PAGES.format(queue), since, now)  # reads the catalogues
    top = json.loads(await sql.fetchval(PAGES.format(queue), since, now))[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


async def test_from_its_mark_a_pop_does_not_walk_dead_versions(database: str) -> None:
    async with connect(database) as sql, connect(database) as idle:
        queue = await start(sql, 50)
        await idle.execute("begin isolation level repeatable read; select count(*) from queen.partition_consumers")
        await sql.execute("call cycles(1, 100, 50)")
        before = await sql.fetchval("select clock_timestamp()")
        first = await pages(sql, queue, before)
        await sql.execute("call cycles(101, 2500, 50)")
        now = await sql.fetchval("select clock_timestamp()")
        marked, bottom = await pages(sql, queue, now), await pages(sql, queue, datetime.fromtimestamp(0, now.tzinfo))
        assert marked <= 3 * first, "a pop with a mark pays for dead versions"
        assert bottom > 10 * marked, "nothing piled up: this test shows nothing"
        await idle.execute("rollback")
        await sql.execute("vacuum queen.partition_consumers, queen.partitions")
        assert await pages(sql, queue, datetime.fromtimestamp(0, now.tzinfo)) <= 3 * first
