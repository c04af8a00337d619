"""The verbs and services with every option against a model, and defects planted to see that the comparison notices."""

from __future__ import annotations

import os
import random
import sys
import time

import pytest

from tests.sql.mutation import plant
from tests.sql.walk import World, check
from tests.support.postgres import MAJOR

# The functions are the same on both: on 16 it is about what that server does otherwise.
STEPS = int(os.environ.get("QUEEN_TEST_MODEL_STEPS", "20000" if MAJOR == 18 else "6000"))
REPLAY = "QUEEN_TEST_MODEL_REPLAY"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
async def test_every_option_together(database: str, part: int) -> None:
    async with World.open(database) as world:
        failure = await world.search(part * 1_000_000, STEPS // 4)
        check(failure and await world.shorten(failure))


@pytest.mark.scale
@pytest.mark.timeout(4 * 3600)
async def test_every_option_for_an_hour(database: str) -> None:
    """On seeds of its own. A walk waits for nothing, so that a core is busy all the time: here, or in the server."""
    seconds = float(os.environ.get("QUEEN_TEST_MODEL_SECONDS", "3600"))
    seed, steps, end = random.SystemRandom().randrange(2**40), 0, time.monotonic() + seconds
    async with World.open(database) as world:
        while time.monotonic() < end:
            failure = await world.search(seed, 2000)
            check(failure and await world.shorten(failure, limit=600))
            seed, steps = seed + 2000, steps + world.taken
    sys.stdout.write(f"{steps} steps without a violation\n")


@pytest.mark.skipif(REPLAY not in os.environ, reason="runs a walk again that failed")
async def test_a_walk_again(database: str) -> None:
    seed, _, steps = os.environ[REPLAY].partition(":")
    async with World.open(database) as world:
        check(await world.walk(int(seed), *([[int(step) for step in steps.split(",")]] if steps else [])))


MUTANTS = {
    "a cursor that is a time": [
        (
            "pop_lanes",
            "c.last_consumed_seq + 1 as first,",
            "greatest(queen.seq_at(p.id, coalesce(c.last_consumed_at, '-infinity'), true) + 1, p.first_seq) as first,",
        ),
        (
            "pop_further",
            "v_from := c.cursor + 1;",
            """v_from := greatest(queen.seq_at(c.partition_id, (
                    select coalesce(x.last_consumed_at, '-infinity') from queen.partition_consumers x
                     where x.partition_id = c.partition_id and x.consumer_group = p_group), true) + 1, c.first_seq);""",
        ),
    ],
    "an ack that is not fenced": [("move_cursors", "c.lease_id = u.lease) limit 1", "c.lease_id is not null) limit 1")],
    "single acks that are not fenced": [
        ("ack_lane", "x.lease is not null and x.lease is distinct from c.lease_id", "false")
    ],
    "a lost wake-up on push": [("store_messages", "and pc.ready_at is null", "and pc.ready_at is null and false")],
    "a lost wake-up on ack": [
        ("move_cursors", "when coalesce(s.next_seq, h.next_seq) > l.reached + 1 then", "when false then")
    ],
    "a retry counted twice": [("ack_lane", "v_count := v_retries + 1;", "v_count := v_retries + 2;")],
    "a lease that hides nothing": [
        ("pop_further", "lease_acquired_at = now, ready_at = expires", "lease_acquired_at = now, ready_at = now")
    ],
    "a lease that ends too early": [
        ("move_cursors", "u.up_to >= c.batch_to or c.last_consumed_seq >= c.batch_to as over", "true as over")
    ],
    "retries held against the next message": [
        (
            "move_cursors",
            "case when d.reached = d.cursor and not p_back then pc.retry_count else 0 end",
            "pc.retry_count",
        )
    ],
    "a cursor that goes back": [
        ("move_cursors", "greatest(c.last_consumed_seq, least(u.up_to,", "coalesce(least(u.up_to,")
    ],
    "a cursor that passes its batch": [("move_cursors", "case when p_lease is not null then c.batch_to end", "null")],
    "a lease that never ends": [
        ("move_cursors", "lease_id = case when not d.over then pc.lease_id end", "lease_id = pc.lease_id")
    ],
    "a lease that is not handed back": [("move_cursors", "p_over or c.lease_id is null", "c.lease_id is null")],
    "a delay that nobody waits for": [
        ("move_cursors", "when p_ready is not null then p_ready", "when p_ready is not null then t.now")
    ],
    "a count that outlives what was counted": [
        (
            "move_cursors",
            "then 0\n                       else pc.counted_to",
            "then pc.counted_to\n                       else pc.counted_to",
        )
    ],
    "a partition that is never ready again": [
        ("move_cursors", "when coalesce(s.next_seq, h.next_seq) > l.reached + 1 then t.now", "when true then null")
    ],
    "retention by the fastest group": [
        ("retain_partitions", "min(c.last_consumed_seq) as passed", "max(c.last_consumed_seq) as passed")
    ],
    "a deletion without a skip": [
        ("delete_message", "update queen.partitions set has_skips = true where id = p_partition;", "")
    ],
    "a seek that keeps the lease": [("seek", "p_over => true", "p_over => false")],
    "scheduled messages out of order": [
        (
            "deliver_due",
            "partition by d.partition_name order by d.deliver_at, d.id",
            "partition by d.partition_name order by d.deliver_at desc, d.id",
        )
    ],
    "a schedule that is never ended": [("deliver_due", "unnest(v_done) i)", "unnest(v_done) i where false)")],
    "duplicates stored again": [("push_items", "d.known_seq is not null or d.attempt > 1", "d.attempt > 1")],
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTANTS)
async def test_a_planted_defect_is_noticed(database: str, name: str) -> None:
    changes: dict[str, list[tuple[str, str]]] = {}
    for function, old, new in MUTANTS[name]:
        changes.setdefault(function, []).append((old, new))
    for function, pairs in changes.items():
        plant(database, function, *pairs)
    async with World.open(database) as world:
        assert await world.search(0, 8000) is not None
