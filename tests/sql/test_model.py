"""The verbs and services with every option against a model, and defects planted to see that the comparison notices."""

from __future__ import annotations

import os
import random
import sys
import time

import pytest

from tests.sql.mutation import plant
from tests.sql.walk import World, check

STEPS = int(os.environ.get("QUEEN_TEST_MODEL_STEPS", "20000"))
REPLAY = "QUEEN_TEST_MODEL_REPLAY"
# What the engine does not keep yet, and is left out unless asked for.
AWAITED = ["bury", "delete", "ack_loose", "reconfigure"]
AWAITED_OPTIONS = {"max_wait_time_seconds": 0, "max_deliveries": 0, "retention_seconds": 0}


def tame(world: World) -> World:
    if "QUEEN_TEST_MODEL_ALL" not in os.environ:
        world.fixed = dict(AWAITED_OPTIONS)
        world.weights = {name: weight for name, weight in world.weights.items() if name not in AWAITED}
    return world


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
async def test_every_option_together(database: str, part: int) -> None:
    async with World.open(database) as world:
        failure = await tame(world).search(part * 1_000_000, STEPS // 4)
        check(failure and await world.shorten(failure))


@pytest.mark.scale
@pytest.mark.timeout(4 * 3600)
async def test_every_option_for_an_hour(database: str) -> None:
    """On seeds of its own. A walk waits for nothing, so that a core is busy all the time: here, or in the server."""
    seconds = float(os.environ.get("QUEEN_TEST_MODEL_SECONDS", "3600"))
    seed, steps, end = random.SystemRandom().randrange(2**40), 0, time.monotonic() + seconds
    async with World.open(database) as world:
        while time.monotonic() < end:
            failure = await tame(world).search(seed, 2000)
            check(failure and await world.shorten(failure, limit=600))
            seed, steps = seed + 2000, steps + world.taken
    sys.stdout.write(f"{steps} steps without a violation\n")


@pytest.mark.skipif(REPLAY not in os.environ, reason="runs a walk again that failed")
async def test_a_walk_again(database: str) -> None:
    seed, _, steps = os.environ[REPLAY].partition(":")
    async with World.open(database) as world:
        check(await tame(world).walk(int(seed), *([[int(step) for step in steps.split(",")]] if steps else [])))


MUTANTS = {
    "a cursor that is a time": [
        (
            "pop_lanes",
            "greatest(c.last_consumed_seq + 1, p.first_seq) as first",
            "greatest(queen.seq_at(p.id, coalesce(c.last_consumed_at, '-infinity'), true) + 1, p.first_seq) as first",
        ),
        (
            "pop_further",
            "v_from := greatest(c.cursor + 1, c.first_seq);",
            """v_from := greatest(queen.seq_at(c.partition_id, (
                    select coalesce(x.last_consumed_at, '-infinity') from queen.partition_consumers x
                     where x.partition_id = c.partition_id and x.consumer_group = p_group), true) + 1, c.first_seq);""",
        ),
    ],
    "an ack that is not fenced": [("ack_leases", "c.lease_id = u.lease limit 1", "c.lease_id is not null limit 1")],
    "single acks that are not fenced": [
        ("ack_messages", "p_lease[i] is not null and (c.lease_id is null or c.lease_id <> p_lease[i])", "false")
    ],
    "a lost wake-up on push": [("store_messages", "and pc.ready_at is null", "and pc.ready_at is null and false")],
    "a lost wake-up on ack": [
        ("ack_leases", "when coalesce(s.next_seq, h.next_seq) > l.reached + 1 then", "when false then")
    ],
    "a retry counted twice": [("ack_lane", "v_retries := v_retries + 1;", "v_retries := v_retries + 2;")],
    "a lease that hides nothing": [
        ("pop_further", "lease_acquired_at = now, ready_at = expires", "lease_acquired_at = now, ready_at = now")
    ],
    "a lease that ends too early": [
        ("ack_leases", "u.up_to >= c.batch_to or c.last_consumed_seq >= c.batch_to as done", "true as done")
    ],
    "retention by the fastest group": [
        ("retain_partitions", "min(c.last_consumed_seq) as passed", "max(c.last_consumed_seq) as passed")
    ],
    "a deletion without a skip": [
        ("delete_message", "update queen.partitions set has_skips = true where id = p_partition;", "")
    ],
    "a seek that keeps the lease": [("seek", "= m.target, lease_id = null, retry_count", "= m.target, retry_count")],
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
        assert await tame(world).search(0, 8000) is not None
